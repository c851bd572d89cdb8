/* millrace dispatcher: one replica of the control plane, with an etcd of its own if none was
 * named. */
#include "dispatcher/dispatcher.h"

#include "base/error.h"
#include "base/log.h"
#include "main/commands.h"
#include "main/etcd_options.h"
#include "main/private_etcd.h"
#include "main/run.h"
#include "metrics/http.h"

#include <stddef.h>

#define HEALTH_MS 1000
#define HOUR_MS (INT64_C(3600) * 1000)
#define DAY_MS (24 * HOUR_MS)

struct dispatcher_values {
    const char *listen;
    const char *advertise;
    const char *metrics;
    const char *etcd_endpoints;
    const char *work_dir;
    const char *cluster;
    int64_t etcd_write_budget;
    int64_t etcd_quota;
    int64_t lease_ttl;
    int64_t heartbeat;
    int64_t worker_timeout;
    int64_t client_timeout;
    int64_t job_gc_timeout;
    bool gc_dynamic;
    int64_t finished_retention;
    int64_t client_retention;
    int64_t worker_retention;
    int64_t job_retention;
    int64_t dataset_retention;
    int64_t stall_timeout;
    int64_t task_timeout;
    struct etcd_values etcd;
    struct run_options run;
};

#define AT(field) offsetof(struct dispatcher_values, field)

static const struct opt own_options[] = {
    {"listen", OPT_LISTEN, AT(listen), "HOST:PORT", "127.0.0.1:5050", 0, 0, NULL,
     "where to serve; port 0 takes a free one.\n0.0.0.0 lets other machines in: there is no access "
     "control yet",
     0},
    {"advertise-address", OPT_ADVERTISE, AT(advertise), "HOST:PORT", NULL, 0, 0, NULL,
     "what workers, clients and the other dispatchers are told;\nwithout it the address that it "
     "listens on;\nwith "
     "0.0.0.0 this host's own",
     0},
    {"metrics-address", OPT_STRING, AT(metrics), "HOST:PORT", NULL, 0, 0, NULL,
     "serve /metrics, /healthz and /readyz there, as plain HTTP; port 0\ntakes a free one. Without "
     "it nothing is "
     "served",
     0},
    {"etcd-endpoints", OPT_STRING, AT(etcd_endpoints), "LIST", NULL, 0, 0, NULL,
     "host:port,... of etcd, the home of the state; without it\na private etcd is started", 0},
    {"work-dir", OPT_STRING, AT(work_dir), "DIR", NULL, 0, 0, NULL,
     "home of the private etcd, made if it is missing: a restart with\nthe same directory "
     "recovers; without it a "
     "temporary directory",
     0},
    {"cluster", OPT_STRING, AT(cluster), "NAME", "default", 0, 0, NULL,
     "keys in etcd begin with /millrace/NAME/", 0},
    {"etcd-write-budget", OPT_SIZE, AT(etcd_write_budget), "SIZE", "1MB", 1000, INT64_C(1000000000),
     NULL,
     "bytes per second that may be written to etcd; beyond it workers\nget more splits at a time",
     0},
    {"etcd-quota", OPT_SIZE, AT(etcd_quota), "SIZE", "2GiB", 1, INT64_MAX, NULL,
     "etcd's --quota-backend-bytes, to be warned at 70 %; from 3.6 on\netcd tells it", 0},
    {"lease-ttl", OPT_DURATION, AT(lease_ttl), "DURATION", "10s", 1000, 60000, NULL,
     "how long a silent leader stays leader", 0},
    {"heartbeat", OPT_DURATION, AT(heartbeat), "DURATION", "1s", 10, 60000, NULL,
     "how often workers and clients report", 0},
    {"worker-timeout", OPT_DURATION, AT(worker_timeout), "DURATION", "10s", 100, HOUR_MS, NULL,
     "a worker that is silent so long is lost; at least three heartbeats", 0},
    {"client-timeout", OPT_DURATION, AT(client_timeout), "DURATION", "2m", 100, HOUR_MS, NULL,
     "a client that is silent so long is gone; at least three heartbeats", 0},
    {"job-gc-timeout", OPT_DURATION, AT(job_gc_timeout), "DURATION", "5m", 100, 30 * DAY_MS, NULL,
     "an iteration without clients is removed after that. A DYNAMIC one\nis ended by it, if its "
     "job has gone on to a "
     "later one",
     0},
    {"gc-dynamic", OPT_FLAG, AT(gc_dynamic), NULL, NULL, 0, 0, NULL,
     "the last DYNAMIC iteration of a job is ended by it, too; without\nthis it waits for readers "
     "as long as its job",
     0},
    {"finished-retention", OPT_DURATION, AT(finished_retention), "DURATION", "10m", 1000,
     30 * DAY_MS, NULL, "how long the record of a finished iteration is kept", 0},
    {"client-retention", OPT_DURATION, AT(client_retention), "DURATION", "10m", 1000, 30 * DAY_MS,
     NULL, "how long that of a client is kept that has gone", 0},
    {"worker-retention", OPT_DURATION, AT(worker_retention), "DURATION", "10m", 1000, 30 * DAY_MS,
     NULL, "how long that of a lost worker is kept", 0},
    {"job-retention", OPT_DURATION, AT(job_retention), "DURATION", "7d", 1000, 3650 * DAY_MS, NULL,
     "a named job that has no client for so long is removed", 0},
    {"dataset-retention", OPT_DURATION, AT(dataset_retention), "DURATION", "1d", 1000,
     3650 * DAY_MS, NULL,
     "a dataset that nothing uses is removed after that, unless it was\ngiven a name", 0},
    {"stall-timeout", OPT_DURATION, AT(stall_timeout), "DURATION", "1m", 1000, 30 * DAY_MS, NULL,
     "a task that makes nothing for so long, while readers wait, is shown\nas stalled", 0},
    {"task-timeout", OPT_DURATION, AT(task_timeout), "DURATION", NULL, 1000, 30 * DAY_MS, NULL,
     "one that is stalled so long is closed, as if its worker were lost;\nwithout this never", 0},
};

const struct opt_program *dispatcher_program(void)
{
    static struct opt shared[ETCD_OPTIONS + RUN_SHARED_OPTIONS];
    static struct opt_program program = {
        .name = "dispatcher",
        .summary = "one replica of the control plane",
        .examples =
            "  millrace dispatcher                                # with an etcd of its own, on "
            "127.0.0.1:5050\n"
            "  millrace dispatcher --work-dir /var/lib/millrace   # the same, and a restart "
            "recovers\n"
            "  millrace dispatcher --listen 0.0.0.0:5050 --advertise-address $(hostname):5050 \\\n"
            "      --etcd-endpoints etcd-0:2379,etcd-1:2379,etcd-2:2379   # one of several "
            "replicas\n"
            "  millrace dispatcher --etcd-endpoints https://etcd:2379 --etcd-ca ca.pem --etcd-user "
            "millrace \\\n"
            "      --etcd-password-file /run/secrets/etcd             # see docs/run/etcd.md\n",
        .opts = own_options,
        .n_opts = sizeof own_options / sizeof own_options[0],
        .more = shared,
        .n_more = ETCD_OPTIONS + RUN_SHARED_OPTIONS,
    };

    etcd_options(AT(etcd), shared);
    run_shared_options(AT(run), shared + ETCD_OPTIONS);
    return &program;
}

/* Until something ends it. MR_OK: it was asked to; otherwise why it cannot go on. */
static int serve(struct run *run, mr_dispatcher *d, struct private_etcd *etcd, mr_error *err)
{
    for (;;) {
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
    if (rc == MR_OK && v->etcd_endpoints == NULL) {
        rc = private_etcd_start(v->work_dir, &etcd, err);
    }
    if (rc < 0) {
        goto out;
    }
    struct mr_dispatcher_options opts = {
        .listen = v->listen,
        .advertise = v->advertise,
        .etcd_endpoints = etcd != NULL ? private_etcd_endpoint(etcd) : v->etcd_endpoints,
        .etcd_ca = v->etcd.ca,
        .etcd_cert = v->etcd.cert,
        .etcd_key = v->etcd.key,
        .etcd_server_name = v->etcd.server_name,
        .etcd_user = v->etcd.user,
        .etcd_password_file = v->etcd.password_file,
        .etcd_write_budget = v->etcd_write_budget,
        .etcd_quota_bytes = v->etcd_quota,
        .cluster = v->cluster,
        .lease_ttl_ms = v->lease_ttl,
        .heartbeat_ms = v->heartbeat,
        .worker_timeout_ms = v->worker_timeout,
        .client_timeout_ms = v->client_timeout,
        .job_gc_timeout_ms = v->job_gc_timeout,
        .gc_dynamic = v->gc_dynamic,
        .finished_retention_ms = v->finished_retention,
        .client_retention_ms = v->client_retention,
        .worker_retention_ms = v->worker_retention,
        .job_retention_ms = v->job_retention,
        .dataset_retention_ms = v->dataset_retention,
        .stall_timeout_ms = v->stall_timeout,
        .task_timeout_ms = v->task_timeout,
    };
    rc = mr_dispatcher_start(&opts, &d, err);
    if (rc == MR_OK) {
        rc = serve_metrics(http, d, err);
    }
    if (rc < 0) {
        goto out;
    }
    mr_log(MR_LOG_INFO, "serving", "address", "%s", mr_dispatcher_address(d), "cluster", "%s",
           v->cluster, "etcd", "%s", opts.etcd_endpoints, NULL);
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
    int rc = opt_parse(dispatcher_program(), argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN) {
        rc = etcd_check_home(v.etcd_endpoints, v.work_dir, &err);
    }
    if (rc == OPT_RUN) {
        rc = run_dispatcher(&v, &err);
    }
    return rc < 0 ? run_fail("dispatcher", &v.run, &err) : 0;
}
