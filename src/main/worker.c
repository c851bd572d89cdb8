/* millrace worker: executes datasets and serves their elements. */
#include "worker/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "coord/record.h"
#include "main/commands.h"
#include "main/notify.h"
#include "main/run.h"
#include "metrics/http.h"
#include "options/programs.h"

#define STOP_GRACE_MS 2000
#define MANAGER_MORE_MS 10000 /* until a service manager loses its patience */
#define SLICE_MS 100          /* between looks at the signals */
#define TEND_MS 1000
/* for the dispatcher to take back what was not opened, without time for more */
#define GIVE_BACK_MS 2000

/* Until something ends it. Ready means registered: who starts a worker and waits for it wants its
 * tasks from now on. */
static int serve(struct worker_values *v, struct run *run, mr_worker *w, const mr_http *http,
                 mr_error *err)
{
    int64_t until = mr_now_ms() + v->lib.dispatcher_timeout_ms;
    int rc;

    while ((rc = mr_worker_wait_registered(w, SLICE_MS, err)) == MR_TIMEOUT) {
        if (run_wait(run, 0) == RUN_STOP) {
            return MR_OK;
        }
        if (mr_now_ms() >= until) {
            char why[MR_ERROR_MESSAGE_SIZE];
            bool known = mr_worker_trouble(w, why, sizeof why);

            return mr_error_set(err, MR_EUNAVAIL,
                                "no dispatcher at %s took this worker on within %lld ms%s%s",
                                v->lib.dispatchers, (long long)v->lib.dispatcher_timeout_ms,
                                known ? ": " : "", known ? why : "");
        }
    }
    if (rc == MR_OK) {
        rc = run_ready(&v->run, mr_worker_address(w), NULL, mr_http_address(http), err);
        mr_log(MR_LOG_INFO, "serving: a dispatcher has taken this worker on", NULL);
        notify_manager("STATUS=serving at %s", mr_worker_address(w));
    }
    while (rc == MR_OK && !mr_worker_was_told_to_drain(w) && run_wait(run, TEND_MS) != RUN_STOP) {
    }
    return rc;
}

/* Somebody asked a dispatcher for it: without a limit, until clients have read all there is, or a
 * signal says that it is to stop now. False: a signal came. */
static bool drain_as_told(struct run *run, mr_worker *w)
{
    notify_manager("STATUS=draining: a dispatcher was asked for it");
    while (!mr_worker_wait_drained(w, MR_DRAIN_ENDED, SLICE_MS)) {
        if (run_wait(run, 0) == RUN_STOP) {
            return false;
        }
    }
    mr_log(MR_LOG_INFO, "drained, leaving", NULL);
    return true;
}

/* Until nothing is left that would be lost, the time is over, or somebody says it again. */
static void drain(struct run *run, mr_worker *w, int64_t timeout_ms)
{
    enum mr_drain_stage stage = timeout_ms > 0 ? MR_DRAIN_ENDED : MR_DRAIN_GIVEN_BACK;
    int64_t until = mr_now_ms() + (timeout_ms > 0 ? timeout_ms : GIVE_BACK_MS);
    bool through = false, again = false;

    notify_manager("STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld\nSTATUS=draining for at most %lld s",
                   (long long)(until - mr_now_ms() + MANAGER_MORE_MS) * 1000,
                   (long long)timeout_ms / 1000);
    mr_worker_drain(w);
    while (!through && !again && mr_now_ms() < until) {
        through = mr_worker_wait_drained(w, stage, SLICE_MS);
        again = !through && run_wait(run, 0) == RUN_STOP;
    }
    mr_log(MR_LOG_INFO,
           through ? "drained, leaving" : "leaving before clients have read everything", NULL);
}

static int page(void *ctx, mr_metrics **ret, mr_error *err)
{
    return mr_worker_page(ctx, ret, err);
}

/* It has no loop that could hang without its process. */
static int alive(void *ctx, mr_error *err)
{
    return MR_OK;
}

static int ready(void *ctx, mr_error *err)
{
    return mr_worker_ready(ctx, err);
}

MR_AUTO_DEFINE(mr_worker, mr_worker_free)

int command_worker(void *values, mr_error *err)
{
    struct worker_values *v = values;
    MR_AUTO(mr_worker_free) mr_worker *w = NULL;
    MR_AUTO(mr_http_free) mr_http *http = NULL;
    struct run run;

    if (v->lib.cluster != NULL && v->lib.cluster[0] != '\0') {
        char root[MR_ROOT_SIZE];

        /* Else it would look for such a dispatcher for an hour. */
        MR_TRY(mr_root_of(v->lib.cluster, root, err));
    }
    MR_TRY(run_prepare(&v->run, "worker", &run, err));
    MR_TRY(mr_http_open(v->metrics, v->metrics_token, &http, err));
    MR_TRY(mr_worker_start(&v->lib, &w, err));
    const struct mr_http_options opts = {
        .component = "worker", .page = page, .alive = alive, .ready = ready, .ctx = w};

    MR_TRY(mr_http_start(http, &opts, err));
    mr_log(MR_LOG_INFO, "listening; serves once a dispatcher has taken this worker on", "address",
           "%s", mr_worker_address(w), "dispatchers", "%s", v->lib.dispatchers, NULL);
    notify_manager("READY=1\nSTATUS=listening at %s; serves once a dispatcher has taken it on",
                   mr_worker_address(w));
    int rc = serve(v, &run, w, http, err);

    if (rc == MR_OK && !(mr_worker_was_told_to_drain(w) && drain_as_told(&run, w))) {
        drain(&run, w, v->drain_timeout);
    }
    run_stopping(&run);
    mr_worker_stop(w, STOP_GRACE_MS);
    return rc;
}
