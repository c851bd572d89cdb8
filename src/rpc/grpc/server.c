/*
 * Servers. A few slots wait for the next call; a slot that got one is posted again before the call
 * is looked at.
 *
 * Shutting down: shutdown_and_notify (no new calls; the waiting slots come back empty), after the
 * grace cancel_all_calls, then wait until the notification, every slot and every call are back,
 * then destroy. A request that nobody has answered when its client goes is cut off from gRPC at
 * once; answering it later only frees it.
 */
#include "rpc/grpc/internal.h"

#include <grpc/support/alloc.h>
#include <sys/resource.h>
#include <unistd.h>

#define SLOTS 32

/* At once from a connection: some hundred calls at most, when they are short. */
#define READ_BYTES 32768

/* For TLS's handshake, and for HTTP/2's first frame: gRPC would wait two minutes. */
#define HANDSHAKE_MS 10000
#define METADATA_BYTES_MAX 16384u

struct slot {
    struct mr_grpc_tag tag;
    struct mr_rpc_server *srv;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

struct mr_rpc_server {
    struct mr_grpc_calls calls;
    struct mr_grpc_resets resets;
    unsigned connections; /* that there may be */
    grpc_server *server;
    struct mr_rpc_methods methods;
    struct mr_rpc_door door;
    struct slot slots[SLOTS];
    struct mr_grpc_tag shutdown_tag;
    bool started;
    atomic_bool stopping;
};

/* ---- slots ---- */

/* The caller has counted the slot as busy. */
static bool post_slot(struct slot *slot)
{
    struct mr_rpc_server *srv = slot->srv;

    slot->call = NULL;
    grpc_call_details_init(&slot->details);
    grpc_metadata_array_init(&slot->metadata);
    grpc_call_error rc =
        grpc_server_request_call(srv->server, &slot->call, &slot->details, &slot->metadata,
                                 srv->calls.rt->cq, srv->calls.rt->cq, &slot->tag);
    return rc == GRPC_CALL_OK;
}

/* The token that the call of @slot shows; false: none. What is shown and is no token, or two of them,
 * is a token that nobody has. */
static bool find_token(const struct slot *slot, char out[MR_RPC_TOKEN_SIZE])
{
    bool found = false;

    for (size_t i = 0; i < slot->metadata.count; i++) {
        const grpc_metadata *pair = &slot->metadata.metadata[i];

        if (grpc_slice_str_cmp(pair->key, "authorization") != 0) {
            continue;
        }
        if (found || !mr_rpc_token_parse(GRPC_SLICE_START_PTR(pair->value),
                                         GRPC_SLICE_LENGTH(pair->value), out)) {
            out[0] = '\0';
            return true;
        }
        found = true;
    }
    return found;
}

static size_t metadata_bytes(const struct slot *slot)
{
    size_t n = 0;

    for (size_t i = 0; i < slot->metadata.count; i++) {
        n += GRPC_SLICE_LENGTH(slot->metadata.metadata[i].key) +
             GRPC_SLICE_LENGTH(slot->metadata.metadata[i].value);
    }
    return n;
}

/* A call has what came with it for as long as it is open, and gRPC limits frames only. */
static void refuse_metadata(struct mr_rpc_server *srv, grpc_call *call, size_t bytes)
{
    char why[96];

    (void)snprintf(why, sizeof why, "metadata of %zu bytes: there may be %u", bytes,
                   METADATA_BYTES_MAX);
    (void)grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, why, NULL);
    grpc_call_unref(call);
    mr_grpc_calls_busy(&srv->calls, -1);
}

/* NULL: the call was refused, since its host has so many that others need the room. */
static struct mr_share *admit(struct mr_rpc_server *srv, grpc_call *call)
{
    struct mr_share *share = NULL;
    char host[MR_GRPC_HOST_SIZE];
    char *peer = grpc_call_get_peer(call);
    mr_error err;

    mr_grpc_host_of(peer, host);
    gpr_free(peer);
    if (mr_grpc_calls_take(&srv->calls, host, &share, &err) < 0) {
        /* UNAVAILABLE: nobody has looked at it, so it may be asked again, here or elsewhere. */
        (void)grpc_call_cancel_with_status(call, GRPC_STATUS_UNAVAILABLE, err.message, NULL);
        grpc_call_unref(call);
    }
    return share;
}

static void on_call(struct mr_grpc_tag *tag, bool ok)
{
    struct slot *slot = MR_RPC_CONTAINER(tag, struct slot, tag);
    struct mr_rpc_server *srv = slot->srv;
    grpc_call *call = slot->call;
    char path[MR_NAME_BYTES_MAX + 1];
    char token[MR_RPC_TOKEN_SIZE];
    bool has_token = ok && srv->door.guard != NULL && find_token(slot, token);
    size_t bytes = ok ? metadata_bytes(slot) : 0;

    size_t n = GRPC_SLICE_LENGTH(slot->details.method);
    n = MR_MIN(n, MR_NAME_BYTES_MAX);
    memcpy(path, GRPC_SLICE_START_PTR(slot->details.method), n);
    path[n] = '\0';
    grpc_call_details_destroy(&slot->details);
    grpc_metadata_array_destroy(&slot->metadata);
    if (!ok) {
        mr_grpc_calls_busy(&srv->calls, -1);
        return;
    }
    mr_grpc_calls_busy(&srv->calls,
                       1); /* the call; the slot stays counted if it can be posted again */
    if (!post_slot(slot)) {
        mr_grpc_calls_busy(&srv->calls, -1);
    }
    if (bytes > METADATA_BYTES_MAX) {
        refuse_metadata(srv, call, bytes);
        return;
    }
    const struct mr_rpc_method *m = mr_rpc_methods_find(&srv->methods, path);
    struct mr_share *share = admit(srv, call);
    if (share == NULL) {
        mr_grpc_calls_busy(&srv->calls, -1);
    } else {
        mr_grpc_stream_serve(&srv->calls, &srv->door, call, share, m, path,
                             has_token ? token : NULL);
    }
}

/* ---- life ---- */

static void on_shutdown(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_grpc_calls *calls = &MR_RPC_CONTAINER(tag, struct mr_rpc_server, shutdown_tag)->calls;

    MR_LOCK(&calls->lock);
    calls->shut_down = true;
    (void)pthread_cond_broadcast(&calls->changed);
}

static uint64_t descriptors(void)
{
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : UINT64_MAX;
}

static unsigned connections_max(unsigned calls)
{
    uint64_t half = descriptors() / 2;

    return half < calls ? (unsigned)half : calls;
}

int mr_rpc_server_new(mr_rpc_runtime *rt, const struct mr_rpc_limits *limits, mr_rpc_server **ret,
                      mr_error *err)
{
    const struct mr_rpc_limits l = mr_rpc_limits_of(limits);
    grpc_resource_quota *quota = NULL;
    grpc_arg args[] = {
        MR_INT_ARG(GRPC_ARG_ALLOW_REUSEPORT,
                   0), /* else two servers share one port without a word */
        MR_INT_ARG(GRPC_ARG_ENABLE_CHANNELZ, 1), /* resets.c reads it, */
        MR_INT_ARG(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE,
                   READ_BYTES), /* and stops nothing that was read */
        MR_INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)l.message_bytes),
        MR_INT_ARG(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)l.calls_per_connection),
        MR_INT_ARG(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        MR_INT_ARG(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 10000),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        MR_INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        MR_INT_ARG(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000),
        MR_INT_ARG(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0), /* our own clients ping silent streams */
        {.type = GRPC_ARG_POINTER, .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA},
    };
    grpc_channel_args list = {.num_args = sizeof args / sizeof args[0], .args = args};

    MR_TRY(mr_grpc_check(rt, err));
    struct mr_rpc_server *srv = mr_calloc(1, sizeof *srv);
    MR_CHECK_ALLOC(srv, err);
    srv->resets.rt = rt;
    srv->resets.floods.memory_bytes = l.memory_bytes;
    srv->resets.unfinished.memory_bytes = l.memory_bytes;
    mr_grpc_calls_init(&srv->calls, rt, &l);
    mr_grpc_tag_init(&srv->shutdown_tag, on_shutdown);
    quota = grpc_resource_quota_create("mr-server");
    grpc_resource_quota_resize(quota, l.memory_bytes);
    args[list.num_args - 1].value.pointer.p = quota;
    args[list.num_args - 1].value.pointer.vtable = grpc_resource_quota_arg_vtable();
    srv->server = mr_grpc_resets_server_create(&srv->resets, &list, l.calls_per_connection);
    srv->connections = l.connections != 0 ? l.connections : connections_max(l.calls);
    grpc_resource_quota_unref(quota); /* The server has its own. */
    grpc_server_register_completion_queue(srv->server, rt->cq, NULL);
    *ret = srv;
    return MR_OK;
}

struct mr_rpc_methods *mr_rpc_server_methods(mr_rpc_server *srv)
{
    MR_ASSERT(!srv->started);
    return &srv->methods;
}

void mr_rpc_server_guard(mr_rpc_server *srv, mr_rpc_guard *guard, void *ctx)
{
    MR_ASSERT(!srv->started);
    srv->door = (struct mr_rpc_door){.guard = guard, .ctx = ctx};
}

/* gRPC does not say why it cannot listen at @address; the system does. */
static int explain(const char *address, const struct mr_address *parsed, mr_error *err)
{
    int fd;

    if (mr_address_listen(parsed, &fd, err) == MR_OK) {
        (void)close(fd);
        (void)mr_error_set(err, MR_EUNAVAIL, "gRPC could not, but the address is free now");
    }
    mr_error_wrap(err, "listening on '%s'", MR_SHOWN(address));
    return err->code;
}

int mr_rpc_server_listen(mr_rpc_server *srv, const char *address, mr_rpc_credentials *c, int *port,
                         mr_error *err)
{
    struct mr_address parsed;
    grpc_server_credentials *creds = NULL;

    MR_TRY(mr_rpc_parse_listen(address, &parsed, err));
    MR_ASSERT(!srv->started);
    MR_TRY(mr_grpc_server_credentials(c, &creds, err));
    int bound = grpc_server_add_http2_port(srv->server, address, creds);

    grpc_server_credentials_release(creds);
    if (bound == 0) {
        return explain(address, &parsed, err);
    }
    srv->resets.accepts.port = bound;
    srv->resets.floods.port = bound;
    srv->resets.unfinished.port = bound;
    if (port != NULL) {
        *port = bound;
    }
    return MR_OK;
}

int mr_rpc_server_start(mr_rpc_server *srv, mr_error *err)
{
    MR_TRY(mr_grpc_check(srv->calls.rt, err));
    MR_ASSERT(!srv->started);
    MR_TRY(mr_grpc_accepts_start(&srv->resets.accepts, srv->connections, descriptors(), err));
    MR_TRY(mr_grpc_resets_start(&srv->resets, err));
    srv->started = true;
    mr_grpc_calls_tick(&srv->calls, true);
    grpc_server_start(srv->server);
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &srv->slots[i];

        slot->srv = srv;
        mr_grpc_tag_init(&slot->tag, on_call);
        mr_grpc_calls_busy(&srv->calls, 1);
        if (!post_slot(slot)) {
            mr_grpc_calls_busy(&srv->calls, -1);
            return mr_error_set(err, MR_EINTERNAL, "waiting for calls");
        }
    }
    return MR_OK;
}

void mr_rpc_server_stop(mr_rpc_server *srv, int64_t grace_ms)
{
    MR_ASSERT(!mr_rpc_is_own_thread());
    if (atomic_exchange(&srv->stopping, true)) {
        return;
    }
    grpc_server_shutdown_and_notify(srv->server, srv->calls.rt->cq, &srv->shutdown_tag);
    if (!mr_grpc_calls_wait(&srv->calls, grace_ms)) {
        grpc_server_cancel_all_calls(srv->server);
        (void)mr_grpc_calls_wait(&srv->calls, -1);
    }
}

void mr_rpc_server_free(mr_rpc_server *srv)
{
    if (srv == NULL || mr_grpc_inherited(srv->calls.rt)) {
        return;
    }
    mr_rpc_server_stop(srv, 0);
    mr_grpc_resets_free(&srv->resets);
    mr_grpc_accepts_free(&srv->resets.accepts);
    if (srv->started) {
        mr_grpc_calls_tick(&srv->calls, false);
    }
    grpc_server_destroy(srv->server);
    mr_grpc_calls_free(&srv->calls);
    mr_rpc_methods_free(&srv->methods);
    mr_free(srv);
}
