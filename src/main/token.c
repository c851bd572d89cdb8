/* millrace token: a new token in a file, and what an access file says of who has it. */
#include "base/base.h"
#include "main/access_file.h"
#include "main/commands.h"
#include "main/key_files.h"
#include "main/output.h"
#include "options/programs.h"

#include <stdlib.h>

MR_AUTO_DEFINE(char, free)
MR_AUTO_DEFINE(json_t, json_decref)

int command_token(void *values, mr_error *err)
{
    const struct token_values *v = values;
    struct key_file file = {.name = v->out, .secret = true};
    MR_AUTO(mr_buf_free) struct mr_buf *token = &file.text;
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;
    MR_AUTO(json_decref) json_t *identity = NULL;
    MR_AUTO(free) char *json = NULL;

    access_token_draw(token);
    MR_TRY(access_identity_of_token(v->name, v->roles, token, &identity, err));
    json = json_dumps(identity, 0);
    MR_CHECK_ALLOC(json, err);
    mr_buf_printf(out, "%s\n", json);
    if (key_file_exists("", v->out)) {
        return mr_error_set(err, MR_EPRECOND, "%s is there: choose another name, or delete it",
                            MR_SHOWN_PATH(v->out));
    }
    MR_TRY(key_files_write("", &file, 1, err));
    (void)fprintf(stderr, "millrace token: this line belongs below \"identities\" in the access "
                          "file of the dispatchers:\n");
    return output_print(out, err);
}
