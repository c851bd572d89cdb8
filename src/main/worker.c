/* millrace worker: executes datasets and serves their elements. */
#include "worker/worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "coord/record.h"
#include "main/commands.h"
#include "main/run.h"
#include "metrics/http.h"

#include <millrace/base.h>
#include <stddef.h>
#include <string.h>

#define TAGS_MAX 64
#define STOP_GRACE_MS 2000
#define SLICE_MS 100 /* between looks at the signals */
#define TEND_MS 5000
/* for the dispatcher to take back what was not opened, without time for more */
#define GIVE_BACK_MS 2000

struct worker_values {
    const char *dispatchers;
    const char *listen;
    const char *advertise;
    const char *metrics;
    const char *tags;
    int64_t heartbeat;
    int64_t dispatcher_timeout;
    int64_t memory_budget;
    int64_t threads;
    int64_t tasks_max;
    int64_t drain_timeout;
    const char *cache_dir;
    int64_t cache_bytes;
    int64_t cache_memory;
    const char *cluster;
    struct run_options run;
};

#define AT(field) offsetof(struct worker_values, field)

static const struct opt own_options[] = {
    {"dispatcher", OPT_STRING, AT(dispatchers), "LIST", NULL, 0, 0, NULL,
     "host:port,... of all dispatchers; needed", 0},
    {"listen", OPT_LISTEN, AT(listen), "HOST:PORT", "127.0.0.1:0", 0, 0, NULL,
     "where to serve; port 0 takes a free one.\n0.0.0.0 lets other machines in: there is no access "
     "control yet",
     0},
    {"advertise-address", OPT_ADVERTISE, AT(advertise), "HOST:PORT", NULL, 0, 0, NULL,
     "what clients are told; %port% is the port that was bound;\nwithout it the address that it "
     "listens on;\nwith "
     "0.0.0.0 this host's own",
     0},
    {"metrics-address", OPT_STRING, AT(metrics), "HOST:PORT", NULL, 0, 0, NULL,
     "serve /metrics, /healthz and /readyz there, as plain HTTP; port 0\ntakes a free one. Without "
     "it nothing is "
     "served",
     0},
    {"tags", OPT_STRING, AT(tags), "A,B,...", NULL, 0, 0, NULL,
     "words about this worker, for status and placement", 0},
    {"heartbeat", OPT_DURATION, AT(heartbeat), "DURATION", NULL, 10, 60000, NULL,
     "how often it reports; without it what the dispatcher says", 0},
    {"dispatcher-timeout", OPT_DURATION, AT(dispatcher_timeout), "DURATION", "1h", 1,
     INT64_C(30) * 86400000, NULL,
     "how long it waits for a dispatcher that does not answer: at its start,\nand for the splits "
     "of a task",
     0},
    {"memory-budget", OPT_SIZE, AT(memory_budget), "SIZE", NULL, 16 * 1048576, INT64_MAX, NULL,
     "for pipelines and their buffers; without it half of what\nthis process may use", 0},
    {"threads", OPT_INT, AT(threads), "N", NULL, 1, 4096, NULL,
     "of the engine; without it one a core", 0},
    {"tasks-max", OPT_INT, AT(tasks_max), "N", "1024", 1, 65536, NULL,
     "tasks at work at once, with a thread each, of all hosts;\none that reads alone gets half", 0},
    {"drain-timeout", OPT_DURATION, AT(drain_timeout), "DURATION", "30s", 0, 86400000, NULL,
     "after SIGTERM: how long clients may take to read what was\nbegun. What was not begun goes to "
     "other workers at "
     "once.\n"
     "0s: then leave. A second signal ends the wait",
     0},
    {"cache-dir", OPT_STRING, AT(cache_dir), "DIR", NULL, 0, 0, NULL,
     "where elements are kept that several jobs share, on local disk;\n"
     "several workers may have the same. Without it millrace-cache-UID\nin TMPDIR or /tmp",
     0},
    {"cache-bytes", OPT_SIZE, AT(cache_bytes), "SIZE", "10GiB", 1, INT64_MAX, NULL,
     "of all that is kept there, and of one shared production;\nless than 32MiB, and 8MiB for one, "
     "is rounded up to "
     "that",
     0},
    {"cache-memory", OPT_SIZE, AT(cache_memory), "SIZE", NULL, 1, INT64_MAX, NULL,
     "for what is not written yet; a 40th of it is the largest\nelement that can be kept on disk. "
     "Without it an "
     "eighth\n"
     "of the machine, 128MiB to 2GiB",
     0},
    {"cluster", OPT_STRING, AT(cluster), "NAME", NULL, 0, 0, NULL,
     "refuse dispatchers of another cluster; without it the first\nthat answers decides", 0},
};

const struct opt_program *worker_program(void)
{
    static struct opt shared[RUN_SHARED_OPTIONS];
    static struct opt_program program = {
        .name = "worker",
        .summary = "executes datasets and serves their elements",
        .examples =
            "  millrace worker --dispatcher localhost:5050\n"
            "  millrace worker --dispatcher a:5050,b:5050,c:5050 --listen 0.0.0.0:0 \\\n"
            "      --advertise-address $(hostname):%port%        # on a machine of its own\n",
        .opts = own_options,
        .n_opts = sizeof own_options / sizeof own_options[0],
        .more = shared,
        .n_more = RUN_SHARED_OPTIONS,
    };

    run_shared_options(AT(run), shared);
    return &program;
}

/* Cut @list at its commas, in place; returns the number of words. */
static int split_tags(char *list, const char **tags, size_t *n, mr_error *err)
{
    char *save = NULL;

    *n = 0;
    for (char *word = strtok_r(list, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save)) {
        if (*n == TAGS_MAX) {
            return mr_error_set(err, MR_EINVAL, "--tags: more than %d", TAGS_MAX);
        }
        tags[(*n)++] = word;
    }
    return MR_OK;
}

/* Until something ends it. Ready means registered: who starts a worker and waits for it wants its
 * tasks from now on. */
static int serve(struct worker_values *v, struct run *run, mr_worker *w, const mr_http *http,
                 mr_error *err)
{
    int64_t until = mr_now_ms() + v->dispatcher_timeout;
    int rc;

    while ((rc = mr_worker_wait_registered(w, SLICE_MS, err)) == MR_TIMEOUT) {
        if (run_wait(run, 0) == RUN_STOP) {
            return MR_OK;
        }
        if (mr_now_ms() >= until) {
            return mr_error_set(err, MR_EUNAVAIL,
                                "no dispatcher at %s took this worker on within %lld ms",
                                v->dispatchers, (long long)v->dispatcher_timeout);
        }
    }
    if (rc == MR_OK) {
        rc = run_ready(&v->run, mr_worker_address(w), NULL,
                       http != NULL ? mr_http_address(http) : NULL, err);
    }
    while (rc == MR_OK && run_wait(run, TEND_MS) != RUN_STOP) {
    }
    return rc;
}

/* Until nothing is left that would be lost, the time is over, or somebody says it again. */
static void drain(struct run *run, mr_worker *w, int64_t timeout_ms)
{
    enum mr_drain_stage stage = timeout_ms > 0 ? MR_DRAIN_ENDED : MR_DRAIN_GIVEN_BACK;
    int64_t until = mr_now_ms() + (timeout_ms > 0 ? timeout_ms : GIVE_BACK_MS);
    bool through = false, again = false;

    mr_worker_drain(w);
    while (!through && !again && mr_now_ms() < until) {
        through = mr_worker_wait_drained(w, stage, SLICE_MS);
        again = !through && run_wait(run, 0) == RUN_STOP;
    }
    mr_log(MR_LOG_INFO, through ? "drained, leaving" : "leaving with tasks that are not through",
           NULL);
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

/* @http NULL: nobody asked for them. */
static int serve_metrics(mr_http *http, mr_worker *w, mr_error *err)
{
    const struct mr_http_options opts = {
        .component = "worker", .page = page, .alive = alive, .ready = ready, .ctx = w};

    return http == NULL ? MR_OK : mr_http_start(http, &opts, err);
}

static int run_worker(struct worker_values *v, mr_error *err)
{
    const char *tags[TAGS_MAX];
    size_t n_tags = 0;
    char *list = mr_strdup(v->tags == NULL ? "" : v->tags);
    mr_worker *w = NULL;
    mr_http *http = NULL;
    struct run run;
    int rc = list == NULL ? mr_error_nomem(err) : split_tags(list, tags, &n_tags, err);

    if (rc == MR_OK) {
        rc = run_prepare(&v->run, "worker", &run, err);
    }
    if (rc == MR_OK && v->metrics != NULL) {
        rc = mr_http_open(v->metrics, &http, err);
    }
    if (rc < 0) {
        goto out;
    }
    struct mr_worker_options opts = {
        .dispatchers = v->dispatchers,
        .listen = v->listen,
        .advertise = v->advertise,
        .tags = tags,
        .ntags = n_tags,
        .heartbeat_ms = (uint32_t)v->heartbeat,
        .dispatcher_timeout_ms = (uint64_t)v->dispatcher_timeout,
        .memory_budget_bytes = (uint64_t)v->memory_budget,
        .threads = (uint32_t)v->threads,
        .tasks_max = (uint32_t)v->tasks_max,
        .cache_dir = v->cache_dir,
        .cache_bytes_max = (uint64_t)v->cache_bytes,
        .cache_memory_bytes_max = (uint64_t)v->cache_memory,
        .cluster = v->cluster,
    };
    rc = mr_worker_start(&opts, &w, err);
    if (rc == MR_OK) {
        rc = serve_metrics(http, w, err);
    }
    if (rc < 0) {
        goto out;
    }
    mr_log(MR_LOG_INFO, "serving", "address", "%s", mr_worker_address(w), "dispatchers", "%s",
           v->dispatchers, NULL);
    rc = serve(v, &run, w, http, err);
    if (rc == MR_OK) {
        drain(&run, w, v->drain_timeout);
    }
    run_stopping(&run);
    mr_worker_stop(w, STOP_GRACE_MS);

out:
    mr_http_free(http);
    mr_worker_free(w);
    mr_free(list);
    return rc;
}

int command_worker(int argc, char **argv)
{
    struct worker_values v = {0};
    mr_error err = {0};
    int rc = opt_parse(worker_program(), argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN && v.dispatchers == NULL) {
        rc = mr_error_set(&err, MR_EINVAL,
                          "--dispatcher is needed: host:port of a dispatcher, or of several");
    }
    if (rc == OPT_RUN && v.cluster != NULL && v.cluster[0] != '\0') {
        char root[MR_ROOT_SIZE];

        rc = mr_root_of(v.cluster, root,
                        &err); /* Else it would look for such a dispatcher for an hour. */
    }
    if (rc == OPT_RUN) {
        rc = run_worker(&v, &err);
    }
    return rc < 0 ? run_fail("worker", &v.run, &err) : 0;
}
