/* millrace worker drain: a worker hands over what it has not begun, serves the rest, and ends. */
#include "base/clock.h"
#include "main/access.h"
#include "main/commands.h"
#include "main/doc.h"
#include "options/programs.h"

#include <millrace/service.h>
#include <unistd.h>

#define LOOK_MS 500 /* between looks at what it does */

static const json_t *find_worker(const json_t *status, const char *id)
{
    json_t *worker;
    size_t i;

    json_array_foreach(doc_at(status, "workers"), i, worker)
    {
        if (strcmp(doc_text(worker, "worker"), id) == 0) {
            return worker;
        }
    }
    return NULL;
}

/* MR_OK: it has gone. MR_TIMEOUT: not yet. */
static int look(const struct drain_values *v, const char *id, mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(json_decref) json_t *status = NULL;
    int rc = mr_service_status(v->service, (int)v->timeout, &text, err);

    if (rc == MR_EUNAVAIL) { /* Somebody else will lead, and knows of it. */
        return MR_TIMEOUT;
    }
    MR_TRY(rc);
    MR_TRY(doc_parse(text, &status, err));
    const json_t *worker = find_worker(status, id);

    if (worker == NULL || doc_flag(worker, "left")) {
        return MR_OK;
    }
    if (doc_flag(worker, "lost")) {
        return mr_error_set(err, MR_EABORTED,
                            "worker %s was lost before it was through: millrace job list says what "
                            "is lost with it",
                            MR_SHOWN(v->words[0]));
    }
    return MR_TIMEOUT;
}

static int wait_until_gone(const struct drain_values *v, const char *id, mr_error *err)
{
    int64_t until = v->wait_timeout > 0 ? mr_now_ms() + v->wait_timeout : INT64_MAX;
    int rc;

    while ((rc = look(v, id, err)) == MR_TIMEOUT) {
        if (mr_now_ms() >= until) {
            return mr_error_set(err, MR_EDEADLINE,
                                "worker %s still drains: millrace worker show %s says what it "
                                "waits for",
                                MR_SHOWN(v->words[0]), id);
        }
        (void)usleep(LOOK_MS * 1000);
    }
    return rc;
}

int command_worker_drain(void *values, mr_error *err)
{
    const struct drain_values *v = values;
    MR_AUTO(mr_free) char *id = NULL;
    uint32_t tasks = 0;

    MR_TRY(access_use(&v->access, err));
    MR_TRY(mr_service_drain_worker(v->service, v->words[0], (int)v->timeout, &id, &tasks, err));
    (void)fprintf(stderr, "worker %s drains; it has %u open task%s\n", id, tasks,
                  tasks == 1 ? "" : "s");
    return v->wait ? wait_until_gone(v, id, err) : MR_OK;
}
