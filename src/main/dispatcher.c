/* millrace dispatcher: one replica of the control plane, with an etcd of its own if none was
 * named. */
#include "dispatcher/dispatcher.h"

#include "base/log.h"
#include "main/commands.h"
#include "main/notify.h"
#include "main/private_etcd.h"
#include "main/run.h"
#include "metrics/http.h"
#include "options/programs.h"

#define HEALTH_MS 1000

/* Until something ends it. MR_OK: it was asked to; otherwise why it cannot go on. */
static int serve(struct run *run, mr_dispatcher *d, struct private_etcd *etcd, mr_error *err)
{
    bool serves = false;

    for (;;) {
        if (!serves && mr_dispatcher_ready(d, NULL) == MR_OK) {
            serves = true;
            mr_log(MR_LOG_INFO, "serving: etcd answers", "address", "%s", mr_dispatcher_address(d),
                   NULL);
            notify_manager("STATUS=serving at %s", mr_dispatcher_address(d));
        }
        if (mr_dispatcher_alive(d, NULL) == MR_OK) {
            notify_manager("WATCHDOG=1"); /* what /healthz says */
        }
        if (run_wait(run, HEALTH_MS) == RUN_STOP) {
            return MR_OK;
        }
        if (etcd != NULL) {
            private_etcd_tend(etcd);
        }
        MR_TRY(mr_dispatcher_health(d, err));
    }
}

static int page(void *ctx, mr_metrics **ret, mr_error *err)
{
    return mr_dispatcher_page(ctx, ret, err);
}

static int alive(void *ctx, mr_error *err)
{
    return mr_dispatcher_alive(ctx, err);
}

static int ready(void *ctx, mr_error *err)
{
    return mr_dispatcher_ready(ctx, err);
}

MR_AUTO_DEFINE(struct private_etcd, private_etcd_free)
MR_AUTO_DEFINE(mr_dispatcher, mr_dispatcher_free)

int command_dispatcher(void *values, mr_error *err)
{
    struct dispatcher_values *v = values;
    struct run run;
    /* The etcd ends after the dispatcher has said good-bye to it. */
    MR_AUTO(private_etcd_free) struct private_etcd *etcd = NULL;
    MR_AUTO(mr_dispatcher_free) mr_dispatcher *d = NULL;
    MR_AUTO(mr_http_free) mr_http *http = NULL;

    MR_TRY(private_etcd_check_home(v->lib.etcd_endpoints, v->work_dir, err));
    MR_TRY(run_prepare(&v->run, "dispatcher", &run, err));
    MR_TRY(mr_http_open(v->metrics, v->metrics_token, &http, err));
    if (v->lib.etcd_endpoints == NULL) {
        MR_TRY(private_etcd_start(v->work_dir, &etcd, err));
        v->lib.etcd_endpoints = etcd->endpoint;
    }
    MR_TRY(mr_dispatcher_start(&v->lib, &d, err));
    const struct mr_http_options opts = {
        .component = "dispatcher", .page = page, .alive = alive, .ready = ready, .ctx = d};

    MR_TRY(mr_http_start(http, &opts, err));
    mr_log(MR_LOG_INFO, "listening; serves once etcd answers", "address", "%s",
           mr_dispatcher_address(d), "cluster", "%s", v->lib.cluster, "etcd", "%s",
           v->lib.etcd_endpoints, NULL);
    notify_manager("READY=1\nSTATUS=listening at %s; serves once etcd answers",
                   mr_dispatcher_address(d));
    int rc = run_ready(&v->run, mr_dispatcher_address(d), etcd != NULL ? etcd->endpoint : NULL,
                       mr_http_address(http), err);

    if (rc == MR_OK) {
        rc = serve(&run, d, etcd, err);
    }
    run_stopping(&run);
    mr_dispatcher_stop(d); /* Metrics to the last. */
    return rc;
}
