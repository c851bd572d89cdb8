/*
 * millrace dev: a whole cluster on this machine. The servers are this same executable, started as
 * children; the etcd is a private one, or named with --etcd-endpoints.
 *
 * Happy path: etcd, dispatchers, workers, each waited for; then the service string on stdout.
 * Failures: a server that ends is reported and started again at its old address, with back-off.
 * Close: workers, dispatchers, etcd, in that order, so that each part can still say good-bye to the
 * next.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "main/child.h"
#include "main/commands.h"
#include "main/output.h"
#include "main/private_etcd.h"
#include "main/run.h"
#include "options/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <unistd.h>

#define SERVERS_MAX 64 /* of each kind */
#define READY_MS 60000
#define TEND_MS 500
#define STEADY_MS 10000 /* alive that long: a later death starts with a short wait again */
#define WORKER_STOP_MS 5000
#define DISPATCHER_STOP_MS 10000
#define ADDRESS_BYTES 64
#define LIST_BYTES (SERVERS_MAX * ADDRESS_BYTES)

struct server {
    bool is_worker;
    int number; /* from 1, for people */
    pid_t pid;  /* 0: not running */
    char address[ADDRESS_BYTES];
    char metrics[ADDRESS_BYTES]; /* where it serves them */
    int64_t started_ms;
    int64_t restart_at_ms; /* while not running */
    uint32_t restarts;
};

struct dev {
    struct dev_values *v;
    struct run run;
    struct private_etcd *etcd;
    const char *etcd_endpoints; /* lent by the etcd, or by the options */
    char service[LIST_BYTES];   /* addresses of all dispatchers */
    struct server servers[2 * SERVERS_MAX];
    size_t n;
};

static const char *kind_of(const struct server *s)
{
    return s->is_worker ? "worker" : "dispatcher";
}

/* What the child says in its line: where it serves, or why it does not. */
static int take_ready(struct server *s, const json_t *doc, mr_error *err)
{
    const char *address = json_string_value(json_object_get(doc, "address"));
    const char *metrics = json_string_value(json_object_get(doc, "metrics"));
    const char *why = json_string_value(json_object_get(doc, "error"));

    if (why != NULL) {
        json_int_t code = json_integer_value(json_object_get(doc, "code"));

        return mr_error_set(err, code < 0 && code > -MR_CODES ? (int)code : MR_EUNKNOWN,
                            "%s %d: %s", kind_of(s), s->number, why);
    }
    if (address == NULL || strlen(address) >= sizeof s->address || metrics == NULL ||
        strlen(metrics) >= sizeof s->metrics) {
        return mr_error_set(err, MR_EINTERNAL, "%s %d did not say where it serves", kind_of(s),
                            s->number);
    }
    (void)snprintf(s->address, sizeof s->address, "%s", address);
    (void)snprintf(s->metrics, sizeof s->metrics, "%s", metrics);
    return MR_OK;
}

/* The child's line, or MR_EUNAVAIL if it ended without one. */
static int read_ready(struct server *s, int fd, mr_error *err)
{
    int64_t deadline = mr_now_ms() + READY_MS;
    char line[4096]; /* an error with each of its bytes escaped, twice */
    size_t len = 0;

    while (len < sizeof line - 1 && memchr(line, '\n', len) == NULL) {
        MR_TRY(run_check_stop(err));
        if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1,
                 100 /* ms, to look for signals */) <= 0) {
            if (mr_now_ms() < deadline) {
                continue;
            }
            return mr_error_set(err, MR_EDEADLINE, "%s %d did not serve within %d s", kind_of(s),
                                s->number, READY_MS / 1000);
        }
        ssize_t n = read(fd, line + len, sizeof line - 1 - len);
        if (n == 0) {
            return mr_error_set(err, MR_EUNAVAIL, "%s %d ended before it served", kind_of(s),
                                s->number);
        }
        if (n < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "waiting for %s %d", kind_of(s), s->number);
        }
        len += n > 0 ? (size_t)n : 0;
    }
    json_t *doc = json_loadb(line, len, 0, NULL);
    int rc = take_ready(s, doc, err);

    json_decref(doc);
    return rc;
}

#define ETCD(...) +1
enum {
    ETCD_OPTIONS =
#include "options/etcd.def"
};
#undef ETCD

/* As arguments for another program: pairs, lent, NULL behind the last one. */
static void etcd_arguments(const struct mr_etcd_access *v, const char **out)
{
#define ETCD(field, type, name, ...)                                                               \
    if (v->field != NULL) {                                                                        \
        *out++ = "--" name;                                                                        \
        *out++ = v->field;                                                                         \
    }
#include "options/etcd.def"
#undef ETCD
    *out = NULL;
}

/* Start the child and wait until it serves. */
static int start_server(struct dev *dev, struct server *s, mr_error *err)
{
    char owner[24];
    char ready[24];
    char ttl[32];
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0) {
        return mr_error_errno(err, errno, "a pipe");
    }
    (void)snprintf(owner, sizeof owner, "%d", (int)getpid());
    (void)snprintf(ready, sizeof ready, "%d", fds[1]);
    (void)snprintf(ttl, sizeof ttl, "%" PRId64 "ms", dev->v->lease_ttl);
    /* First of all the descriptor: what is refused is told there, too. */
    const char *argv[22 + 2 * ETCD_OPTIONS] = {"millrace",          kind_of(s),
                                               "--ready-fd",        ready,
                                               "--listen",          s->address,
                                               "--owner-pid",       owner,
                                               "--log-level",       dev->v->run.log_level,
                                               "--log-format",      dev->v->run.log_format,
                                               "--cluster",         dev->v->cluster,
                                               "--metrics-address", s->metrics};
    const char *dispatcher_args[5 + 2 * ETCD_OPTIONS] = {"--etcd-endpoints", dev->etcd_endpoints,
                                                         "--lease-ttl", ttl};
    const char *const worker_args[] = {"--dispatcher", dev->service, "--drain-timeout", "0s", NULL};
    const char *const *more = s->is_worker ? worker_args : dispatcher_args;

    etcd_arguments(&dev->v->etcd, dispatcher_args + 4);
    for (size_t i = 0; more[i] != NULL; i++) {
        argv[16 + i] = more[i];
    }
    struct child_spec spec = {
        .program = "/proc/self/exe", .argv = argv, .output_fd = -1, .keep_fd = fds[1]};

    s->started_ms = mr_now_ms();
    int rc = child_start(&spec, &s->pid, err);
    close(fds[1]);
    if (rc == MR_OK) {
        rc = read_ready(s, fds[0], err);
        if (rc < 0) {
            child_stop(s->pid, 0 /* grace */);
            s->pid = 0;
        }
    }
    close(fds[0]);
    return rc;
}

static int add_server(struct dev *dev, bool is_worker, int number, mr_error *err)
{
    struct server *s = &dev->servers[dev->n];

    *s = (struct server){.is_worker = is_worker, .number = number};
    int64_t port = is_worker || dev->v->port == 0 ? 0 : dev->v->port + number - 1;
    (void)snprintf(s->address, sizeof s->address, "127.0.0.1:%d", (int)port);
    (void)snprintf(s->metrics, sizeof s->metrics, "127.0.0.1:0");

    MR_TRY(start_server(dev, s, err));
    dev->n++; /* only those that run are stopped */
    return MR_OK;
}

static int start_all(struct dev *dev, mr_error *err)
{
    if (dev->v->etcd_endpoints == NULL) {
        MR_TRY(private_etcd_start(dev->v->work_dir, &dev->etcd, err));
    }
    dev->etcd_endpoints = dev->etcd != NULL ? dev->etcd->endpoint : dev->v->etcd_endpoints;
    for (int i = 1; i <= dev->v->dispatchers; i++) {
        MR_TRY(add_server(dev, false /* is_worker */, i, err));
    }
    for (size_t i = 0, len = 0; i < dev->n; i++) {
        len += (size_t)snprintf(dev->service + len, sizeof dev->service - len, "%s%s",
                                i == 0 ? "" : ",", dev->servers[i].address);
    }
    for (int i = 1; i <= dev->v->workers; i++) {
        MR_TRY(add_server(dev, true /* is_worker */, i, err));
    }
    return MR_OK;
}

static void stop_all(struct dev *dev)
{
    for (size_t i = dev->n; i > 0; i--) { /* workers were started last */
        struct server *s = &dev->servers[i - 1];

        child_stop(s->pid, s->is_worker ? WORKER_STOP_MS : DISPATCHER_STOP_MS);
    }
    private_etcd_free(dev->etcd);
}

static int print_service(const struct dev *dev, mr_error *err)
{
    if (dev->etcd != NULL) {
        printf("etcd          %s   %s%s\n", dev->etcd_endpoints, dev->etcd->dir,
               dev->etcd->temporary ? " (temporary)" : "");
    } else {
        printf("etcd          %s\n", dev->etcd_endpoints);
    }
    for (size_t i = 0; i < dev->n; i++) {
        const struct server *s = &dev->servers[i];

        printf("%-10s %-2d %s   pid %-7d http://%s/metrics\n", kind_of(s), s->number, s->address,
               (int)s->pid, s->metrics);
    }
    printf("\nservice: grpc://%s\n\n"
           "    millrace status --service %s\n"
           "    millrace state tree --etcd-endpoints %s --cluster %s\n"
           "    python3 -c 'import millrace as mr\n"
           "ds = mr.Dataset.range(10).apply(mr.service.distribute(\"parallel_epochs\", "
           "\"grpc://%s\"))\n"
           "print(list(ds.as_numpy_iterator()))'\n\n"
           "Ctrl-C stops everything.\n",
           dev->service, dev->servers[0].address, dev->etcd_endpoints, dev->v->cluster,
           dev->service);
    return output_end(err);
}

/* What print_service() says, for programs. NULL without memory, which run_tell_parent() reports. */
static json_t *describe(const struct dev *dev)
{
    json_t *servers = json_array();

    for (size_t i = 0; i < dev->n; i++) {
        const struct server *s = &dev->servers[i];

        (void)json_array_append_new(servers, json_pack("{ss si ss si ss}", "kind", kind_of(s),
                                                       "number", s->number, "address", s->address,
                                                       "pid", (int)s->pid, "metrics", s->metrics));
    }
    return json_pack("{ss si ss ss so}", "address", dev->service, "pid", (int)getpid(), "etcd",
                     dev->etcd_endpoints, "cluster", dev->v->cluster, "servers", servers);
}

/* Start it again, later; returns when. */
static int64_t back_off(struct server *s)
{
    int64_t wait = mr_backoff_ms(s->restarts, 1000 /* base */, 10000 /* max */, mr_random_u64());

    s->restart_at_ms = mr_now_ms() + wait;
    return wait;
}

static void note_death(struct server *s, int status)
{
    char why[64];

    s->pid = 0;
    s->restarts = mr_now_ms() - s->started_ms > STEADY_MS ? 0 : s->restarts + 1;
    int64_t wait = back_off(s);
    child_describe(status, why, sizeof why);
    mr_log(MR_LOG_ERROR, "a server ended; starting it again", "server", "%s", kind_of(s), "number",
           "%d", s->number, "address", "%s", s->address, "reason", "%s", why, "wait_ms", "%lld",
           (long long)wait, NULL);
}

static void tend(struct dev *dev)
{
    if (dev->etcd != NULL) {
        private_etcd_tend(dev->etcd);
    }
    for (size_t i = 0; i < dev->n; i++) {
        struct server *s = &dev->servers[i];
        mr_error err = {0};
        int status;

        if (s->pid > 0 && child_ended(s->pid, &status)) {
            note_death(s, status);
        }
        if (s->pid == 0 && mr_now_ms() >= s->restart_at_ms) {
            if (start_server(dev, s, &err) == MR_OK) {
                mr_log(MR_LOG_INFO, "the server serves again", "server", "%s", kind_of(s), "number",
                       "%d", s->number, "address", "%s", s->address, NULL);
            } else {
                s->restarts++;
                (void)back_off(s);
                mr_log(MR_LOG_ERROR, "the server could not be started again", "server", "%s",
                       kind_of(s), "number", "%d", s->number, "error", "%s", err.message, NULL);
            }
        }
    }
}

static int run_dev(struct dev *dev, mr_error *err)
{
    MR_TRY(start_all(dev, err));
    MR_TRY(print_service(dev, err));
    MR_TRY(run_tell_parent(&dev->v->run, describe(dev), err));
    while (run_wait(&dev->run, TEND_MS) != RUN_STOP) {
        tend(dev);
    }
    return MR_OK;
}

int command_dev(void *values, mr_error *err)
{
    struct dev_values *v = values;
    MR_AUTO(mr_free) struct dev *dev = mr_calloc(1, sizeof *dev);

    MR_CHECK_ALLOC(dev, err);
    MR_TRY(private_etcd_check_home(v->etcd_endpoints, v->work_dir, err));
    MR_TRY(run_prepare(&v->run, "dev", &dev->run, err));
    dev->v = v;
    dev->run.ends_with_terminal = true;
    int rc = run_dev(dev, err);

    run_stopping(&dev->run);
    stop_all(dev);
    return rc;
}
