/* Puts the parts together: options, server, store, loop; and takes them apart in an order in which
 * nothing is called that is gone: leave the election, stop the server (every call is answered by
 * then), end the side threads, close the store, free the loop. */
#include "dispatcher/dispatcher.h"

#include "access/server.h"
#include "base/hash.h"
#include "base/log.h"
#include "coord/etcd/etcd.h"
#include "coord/record.h"
#include "dispatcher/server/guard.h"
#include "dispatcher/server/loop.h"
#include "dispatcher/server/monitor.h"

#include <unistd.h>

#define LEAVE_MS 3500
#define SERVER_GRACE_MS 200
#define PAGE_MS 2000
#define RPC_BYTES_MAX (256 * MR_MIB) /* of requests that have not come in whole, and of calls */
#define RPC_CALLS_MAX 131072 /* each client and each worker that there may be has a stream */

struct mr_dispatcher {
    mr_rpc_runtime *rpc;
    mr_rpc_credentials *credentials;
    struct mr_guard guard;
    mr_rpc_server *server;
    mr_store *store;
    mr_loop *loop;
    struct mr_etcd_seconds etcd_seconds;
    char address[MR_ADDRESS_BYTES_MAX];
    char socket[MR_INSTANCE_SIZE];
    bool stopped;
};

/* ---- options ---- */

static int check_timeout(const char *who, int64_t ms, int64_t heartbeat_ms, mr_error *err)
{
    long long least_ms = 3 * heartbeat_ms;

    return ms >= least_ms
               ? MR_OK
               : mr_error_set(
                     err, MR_EINVAL,
                     "--%s-timeout %lld ms: at least three heartbeats (%lld ms) are needed", who,
                     (long long)ms, least_ms);
}

/* What the table of options cannot say. */
static int check_options(const struct mr_dispatcher_options *o, mr_error *err)
{
    char root[MR_ROOT_SIZE];

    if (o->etcd_endpoints == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "--etcd-endpoints is needed: host:port of an etcd, or of several");
    }
    if (o->lease_ttl_ms % 1000 != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "--lease-ttl %lld ms: whole seconds from 1s to 60s are allowed",
                            (long long)o->lease_ttl_ms);
    }
    MR_TRY(mr_dispatcher_options_check(o, err));
    MR_TRY(check_timeout("worker", o->worker_timeout_ms, o->heartbeat_ms, err));
    MR_TRY(check_timeout("client", o->client_timeout_ms, o->heartbeat_ms, err));
    return mr_root_of(o->cluster, root, err);
}

static struct mr_turn_options loop_options(const struct mr_dispatcher_options *o)
{
    return (struct mr_turn_options){.cluster = o->cluster,
                                    .etcd_quota_bytes = o->etcd_quota_bytes,
                                    .etcd_write_budget = o->etcd_write_budget,
                                    .lease_ttl_ms = o->lease_ttl_ms,
                                    .gc_dynamic = o->gc_dynamic,
#define X(name) .name = o->name,
                                    MR_CORE_TIMES(X)
#undef X
    };
}

/* What others are told: as asked for, or where it listens. */
static int advertise(mr_dispatcher *d, const char *wanted, const char *listen, int port,
                     mr_error *err)
{
    if (wanted == NULL || wanted[0] == '\0') {
        return mr_rpc_advertise(listen, port, NULL, d->address, sizeof d->address, err);
    }
    int n = snprintf(d->address, sizeof d->address, "%s", wanted);

    if (n < 0 || (size_t)n >= sizeof d->address) {
        return mr_error_set(err, MR_EINVAL, "the address to advertise is longer than %zu bytes",
                            sizeof d->address - 1);
    }
    return mr_rpc_check_advertised(d->address, err);
}

/* A name for (boot of the host, network namespace, bound address). Two processes cannot hold it at
 * once, so the leader key of one that had it is the key of one that is gone. */
static void socket_identity(const char *listen, int port, char out[MR_INSTANCE_SIZE])
{
    struct mr_buf b = MR_BUF_INIT;
    char part[256] = "";
    uint8_t hash[16];
    const char *colon = strrchr(listen, ':');
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    ssize_t n = readlink("/proc/self/ns/net", part, sizeof part - 1);

    out[0] = '\0';
    if (n > 0) {
        mr_buf_append(&b, part, (size_t)n);
    }
    if (f != NULL && n > 0 && fgets(part, sizeof part, f) != NULL) {
        mr_buf_puts(&b, part);
        mr_buf_printf(&b, "%.*s:%d", colon != NULL ? (int)(colon - listen) : 0, listen, port);
        if (!b.failed) {
            mr_hash128(b.data, b.len, hash);
            for (size_t i = 0; i < sizeof hash; i++) {
                (void)snprintf(out + 2 * i, 3, "%02x", hash[i]);
            }
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    mr_buf_free(&b);
}

/* ---- life ---- */

static int open_store(mr_dispatcher *d, const struct mr_dispatcher_options *opts, mr_error *err)
{
    const struct mr_etcd_options etcd = {.endpoints = opts->etcd_endpoints,
                                         .ca_file = opts->etcd.ca,
                                         .cert_file = opts->etcd.cert,
                                         .key_file = opts->etcd.key,
                                         .server_name = opts->etcd.server_name,
                                         .user = opts->etcd.user,
                                         .password_file = opts->etcd.password_file,
                                         .seconds = &d->etcd_seconds};

    return d->store != NULL ? MR_OK : mr_etcd_open(&etcd, &d->store, err);
}

int mr_dispatcher_start(const struct mr_dispatcher_options *opts, mr_dispatcher **ret,
                        mr_error *err)
{
    return mr_dispatcher_start_with(opts, NULL, ret, err);
}

static int start(mr_dispatcher *d, const struct mr_dispatcher_options *opts, mr_error *err)
{
    const struct mr_rpc_limits limits = {.message_bytes = MR_RPC_DEFINITION_BYTES_MAX,
                                         .memory_bytes = RPC_BYTES_MAX,
                                         .calls = RPC_CALLS_MAX};
    struct mr_turn_options loop = loop_options(opts);
    const struct mr_rpc_files files = mr_access_files(&opts->access, opts->client_auth);
    int port = 0;

    MR_TRY(check_options(opts, err));
    MR_TRY(mr_access_check_listen(opts->listen, &files, opts->access_file == NULL, opts->insecure,
                                  err));
    MR_TRY(mr_guard_open(&d->guard, opts->access_file, err));
    MR_TRY(mr_rpc_acquire(&d->rpc, err));
    MR_TRY(mr_rpc_credentials_new(d->rpc, &files, &d->credentials, err));
    MR_TRY(mr_rpc_server_new(d->rpc, &limits, &d->server, err));
    mr_rpc_server_guard(d->server, mr_guard_check, &d->guard);
    MR_TRY(mr_rpc_server_listen(d->server, opts->listen, d->credentials, &port, err));
    MR_TRY(advertise(d, opts->advertise, opts->listen, port, err));
    MR_TRY(open_store(d, opts, err));
    socket_identity(opts->listen, port, d->socket);
    loop.store = d->store;
    loop.address = d->address;
    loop.socket = d->socket;
    MR_TRY(mr_loop_start(&loop, d->rpc, d->credentials, &d->loop, err));
    MR_TRY(mr_loop_serve(d->loop, d->server, err));
    return mr_rpc_server_start(d->server, err);
}

int mr_dispatcher_start_with(const struct mr_dispatcher_options *options, mr_store *store,
                             mr_dispatcher **ret, mr_error *err)
{
    struct mr_dispatcher_options opts = *options;
    mr_dispatcher *d = mr_calloc(1, sizeof *d);

    if (d == NULL) {
        if (store != NULL) {
            store->ops->close(store);
        }
        return mr_error_nomem(err);
    }
    d->store = store;
    mr_dispatcher_options_fill(&opts);
    int rc = start(d, &opts, err);

    if (rc < 0) {
        mr_error_wrap(err, "starting a dispatcher");
        mr_dispatcher_free(d);
        return rc;
    }
    *ret = d;
    return MR_OK;
}

const char *mr_dispatcher_address(const mr_dispatcher *d)
{
    return d->address;
}

int mr_dispatcher_health(mr_dispatcher *d, mr_error *err)
{
    return mr_loop_health(d->loop, err);
}

int mr_dispatcher_alive(mr_dispatcher *d, mr_error *err)
{
    return mr_loop_alive(d->loop, err);
}

int mr_dispatcher_ready(mr_dispatcher *d, mr_error *err)
{
    return mr_loop_ready(d->loop, err);
}

int mr_dispatcher_page(mr_dispatcher *d, mr_metrics **ret, mr_error *err)
{
    const struct mr_etcd_seconds *s = &d->etcd_seconds;

    MR_TRY(mr_loop_page(d->loop, PAGE_MS, ret, err));
    mr_metrics_add1(*ret, MR_METRIC_RPC_REFUSED, "unauthenticated",
                    (double)atomic_load(&d->guard.unknown));
    mr_metrics_add1(*ret, MR_METRIC_RPC_REFUSED, "permission_denied",
                    (double)atomic_load(&d->guard.forbidden));
    mr_metrics_add_histogram(*ret, MR_METRIC_STORE_TXN_SECONDS, "ok", &s->ok);
    mr_metrics_add_histogram(*ret, MR_METRIC_STORE_TXN_SECONDS, "guard", &s->guard);
    mr_metrics_add_histogram(*ret, MR_METRIC_STORE_TXN_SECONDS, "unknown", &s->unknown);
    mr_metrics_add_histogram(*ret, MR_METRIC_STORE_TXN_SECONDS, "error", &s->error);
    return MR_OK;
}

void mr_dispatcher_stop(mr_dispatcher *d)
{
    if (d->stopped) {
        return;
    }
    d->stopped = true;
    if (d->loop != NULL) {
        mr_loop_leave(d->loop, LEAVE_MS);
    }
    if (d->server != NULL) {
        mr_rpc_server_stop(d->server, SERVER_GRACE_MS);
    }
    if (d->loop != NULL) {
        mr_loop_stop(d->loop);
    }
    if (d->store != NULL) {
        d->store->ops->close(d->store);
        d->store = NULL;
    }
}

void mr_dispatcher_free(mr_dispatcher *d)
{
    if (d == NULL) {
        return;
    }
    mr_dispatcher_stop(d);
    mr_loop_free(d->loop);
    mr_rpc_server_free(d->server);
    mr_rpc_credentials_free(d->credentials);
    mr_rpc_release(d->rpc);
    mr_guard_close(&d->guard);
    mr_free(d);
}
