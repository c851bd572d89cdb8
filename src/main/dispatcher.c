/* millrace dispatcher: one replica of the control plane, with an etcd of its own if none was
 * named. */
#include "dispatcher/dispatcher.h"

#include "base/error.h"
#include "base/log.h"
#include "main/commands.h"
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
        }
        enum run_event event = run_wait(run, HEALTH_MS);
        int rc;

        if (event == RUN_STOP) {
            return MR_OK;
        }
        if (etcd != NULL) {
            private_etcd_tend(etcd);
        }
        rc = mr_dispatcher_health(d, err);
        if (rc < 0) {
            return rc;
        }
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

/* @http NULL: nobody asked for them. */
static int serve_metrics(mr_http *http, mr_dispatcher *d, mr_error *err)
{
    const struct mr_http_options opts = {
        .component = "dispatcher", .page = page, .alive = alive, .ready = ready, .ctx = d};

    return http == NULL ? MR_OK : mr_http_start(http, &opts, err);
}

static int run_dispatcher(struct dispatcher_values *v, mr_error *err)
{
    struct run run;
    struct private_etcd *etcd = NULL;
    mr_dispatcher *d = NULL;
    mr_http *http = NULL;
    int rc = run_prepare(&v->run, "dispatcher", &run, err);

    if (rc == MR_OK && v->metrics != NULL) {
        rc = mr_http_open(v->metrics, &http, err);
    }
    if (rc == MR_OK && v->lib.etcd_endpoints == NULL) {
        rc = private_etcd_start(v->work_dir, &etcd, err);
    }
    if (rc < 0) {
        goto out;
    }
    if (etcd != NULL) {
        v->lib.etcd_endpoints = private_etcd_endpoint(etcd);
    }
    rc = mr_dispatcher_start(&v->lib, &d, err);
    if (rc == MR_OK) {
        rc = serve_metrics(http, d, err);
    }
    if (rc < 0) {
        goto out;
    }
    mr_log(MR_LOG_INFO, "listening; serves once etcd answers", "address", "%s",
           mr_dispatcher_address(d), "cluster", "%s", v->lib.cluster, "etcd", "%s",
           v->lib.etcd_endpoints, NULL);
    rc = run_ready(&v->run, mr_dispatcher_address(d),
                   etcd != NULL ? private_etcd_endpoint(etcd) : NULL,
                   http != NULL ? mr_http_address(http) : NULL, err);
    if (rc == MR_OK) {
        rc = serve(&run, d, etcd, err);
    }
    run_stopping(&run);
    mr_dispatcher_stop(d); /* Metrics to the last. */

out:
    mr_http_free(http);
    mr_dispatcher_free(d);
    private_etcd_free(etcd); /* after the dispatcher has said good-bye to it */
    return rc;
}

int command_dispatcher(int argc, char **argv)
{
    struct dispatcher_values v = {0};
    mr_error err = {0};
    int rc = opt_parse(&mr_program_dispatcher, argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN) {
        rc = private_etcd_check_home(v.lib.etcd_endpoints, v.work_dir, &err);
    }
    if (rc == OPT_RUN) {
        rc = run_dispatcher(&v, &err);
    }
    return rc < 0 ? run_fail("dispatcher", &v.run, &err) : 0;
}
