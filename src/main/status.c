/* millrace status: what a cluster is doing, as tables for people or as one JSON document for
 * programs. */
#include "base/error.h"
#include "main/commands.h"
#include "main/run.h"
#include "main/table.h"
#include "options/programs.h"

#include <jansson.h>
#include <millrace/base.h>
#include <millrace/service.h>
#include <stdio.h>
#include <stdlib.h>

/* The document says so, too, but among other things. */
static void warn_of_silence(const char *text)
{
    json_t *doc = json_loads(text, 0, NULL);
    const char *silent_ms = json_string_value(json_object_get(doc, "storeSilentMs"));

    if (silent_ms != NULL) {
        (void)fprintf(stderr,
                      "millrace status: etcd has not answered for %lld s. This is what the leader "
                      "remembers; the newest of it may not be stored\n",
                      strtoll(silent_ms, NULL, 10) / 1000);
    }
    json_decref(doc);
}

static int show(const struct status_values *v, mr_error *err)
{
    char *json = NULL;
    int rc = mr_service_status(v->service, (int)v->timeout, &json, err);

    if (rc == MR_OK) {
        warn_of_silence(json);
        rc = table_print(json, v->json, err);
    }
    mr_free(json);
    return rc;
}

int command_status(int argc, char **argv)
{
    struct status_values v = {0};
    mr_error err = {0};
    int rc = opt_parse(&mr_program_status, argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN) {
        rc = show(&v, &err);
    }
    return rc < 0 ? run_fail("status", NULL, &err) : 0;
}
