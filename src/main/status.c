/* millrace status: what a cluster is doing, as tables for people or as one JSON document for
 * programs. */
#include "main/access.h"
#include "main/commands.h"
#include "main/table.h"
#include "options/programs.h"

#include <jansson.h>
#include <millrace/service.h>

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

int command_status(void *values, mr_error *err)
{
    const struct status_values *v = values;
    MR_AUTO(mr_free) char *json = NULL;

    MR_TRY(access_use(&v->access, err));
    MR_TRY(mr_service_status(v->service, (int)v->timeout, &json, err));
    warn_of_silence(json);
    return table_print(json, v->json, err);
}
