/* millrace status: what a cluster is doing, as tables for people or as one JSON document for
 * programs. */
#include "base/error.h"
#include "main/commands.h"
#include "main/options.h"
#include "main/run.h"
#include "main/table.h"

#include <jansson.h>
#include <millrace/base.h>
#include <millrace/service.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct status_values {
    const char *service;
    bool json;
    int64_t timeout;
};

#define AT(field) offsetof(struct status_values, field)

static const struct opt own_options[] = {
    {"service", OPT_STRING, AT(service), "LIST", "localhost:5050", 0, 0, NULL,
     "host:port,... of the dispatchers; grpc:// in front is fine", OPT_SHARED},
    {"json", OPT_FLAG, AT(json), "", NULL, 0, 0, NULL, "one JSON document", 0},
    {"timeout", OPT_DURATION, AT(timeout), "DURATION", "10s", 1, 3600000, NULL,
     "for the whole call", 0},
};

const struct opt_program *status_program(void)
{
    static const struct opt_program program = {
        .name = "status",
        .summary = "what a cluster is doing",
        .examples = "  millrace status\n"
                    "  millrace status --service a:5050,b:5050,c:5050 --json | jq .workers\n",
        .opts = own_options,
        .n_opts = sizeof own_options / sizeof own_options[0],
    };

    return &program;
}

/* The document says so, too, but among other things. */
static void warn_of_silence(const char *text)
{
    json_t *doc = json_loads(text, 0, NULL);
    const char *silent_ms = json_string_value(json_object_get(doc, "storeSilentMs"));

    if (silent_ms != NULL) {
        (void)fprintf(stderr,
                      "millrace status: etcd has not answered for %lld s. This is what the leader "
                      "remembers; the newest of "
                      "it may not be stored\n",
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
    int rc = opt_parse(status_program(), argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN) {
        rc = show(&v, &err);
    }
    return rc < 0 ? run_fail("status", NULL, &err) : 0;
}
