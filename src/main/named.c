/* millrace dataset delete, millrace job delete: what was given a name goes by command. millrace job
 * show, millrace job why: one of them. */
#include "main/access.h"
#include "main/commands.h"
#include "main/output.h"
#include "main/pick.h"
#include "main/table.h"
#include "main/why.h"
#include "options/programs.h"

#include <millrace/service.h>

static int check_words(const struct opt_program *program, bool shows, const char *const words[2],
                       mr_error *err)
{
    if (words[0] == NULL || (!shows && strcmp(words[0], "delete") != 0)) {
        return mr_error_set(err, MR_EINVAL, "%s what? there is: %s", program->name, program->usage);
    }
    if (words[1] == NULL || words[1][0] == '\0') {
        return mr_error_set(err, MR_EINVAL, "%s which %s?", words[0], program->name);
    }
    return MR_OK;
}

static int show_job(const struct job_values *v, mr_error *err)
{
    MR_AUTO(mr_free) char *status = NULL;
    MR_AUTO(mr_free) char *json = NULL;

    MR_TRY(mr_service_status(v->service, (int)v->timeout, &status, err));
    MR_TRY(pick_job(status, v->words[1], &json, err));
    return table_print(json, v->json, err);
}

static int say_why(const struct job_values *v, mr_error *err)
{
    MR_AUTO(mr_free) char *status = NULL;
    MR_AUTO(mr_free) char *json = NULL;
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;

    MR_TRY(mr_service_status(v->service, (int)v->timeout, &status, err));
    MR_TRY(pick_job(status, v->words[1], &json, err));
    if (v->json) {
        return table_print(json, true, err);
    }
    MR_TRY(why_render(json, out, err));
    return output_print(out, err);
}

int command_dataset(void *values, mr_error *err)
{
    const struct dataset_values *v = values;

    MR_TRY(check_words(&mr_program_dataset, false /* shows */, v->words, err));
    MR_TRY(access_use(&v->access, err));
    return mr_service_delete_dataset(v->service, v->words[1], (int)v->timeout, err);
}

int command_job(void *values, mr_error *err)
{
    const struct job_values *v = values;
    bool shows = v->words[0] != NULL && strcmp(v->words[0], "show") == 0;
    bool asks = v->words[0] != NULL && strcmp(v->words[0], "why") == 0;

    MR_TRY(check_words(&mr_program_job, shows || asks, v->words, err));
    MR_TRY(access_use(&v->access, err));
    if (asks) {
        return say_why(v, err);
    }
    return shows ? show_job(v, err)
                 : mr_service_delete_job(v->service, v->words[1], v->force, (int)v->timeout, err);
}
