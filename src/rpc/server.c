/*
 * Servers. A few slots wait for the next call; a slot that got one is posted again before the call
 * is looked at.
 *
 * Shutting down: shutdown_and_notify (no new calls; the waiting slots come back empty), after the
 * grace cancel_all_calls, then wait until the notification, every slot and every call are back,
 * then destroy. A request that nobody has answered when its client goes is cut off from gRPC at
 * once; answering it later only frees it.
 */
#include "rpc/internal.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sync.h"

#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MR_INT_ARG(name, n)                                                                        \
    {                                                                                              \
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)(name), .value = {.integer = (n) }     \
    }

#define SLOTS 32
#define METHODS_MAX 32

/* Defaults of struct mr_rpc_limits. */
#define MEMORY_BYTES (128 * MR_MIB)
#define REPLY_BYTES (384 * MR_MIB)
#define CALLS 32768u /* some 12 KiB each, which gRPC does not count as memory of calls */
#define CALLS_PER_CONNECTION 1024u
#define SILENT_CALLS 1024u
#define SILENT_MS 30000

/* Of a reply, what a call may have besides what it costs itself. */
#define REPLY_FREE_BYTES 16384u

/* At once from a connection: some hundred calls at most, when they are short. */
#define READ_BYTES 32768

struct method {
    const char *path;       /* owned */
    size_t bytes_max;       /* of a request */
    mr_rpc_handler *handle; /* unary */
    mr_rpc_bulk_handler *handle_bulk;
    mr_rpc_accept *accept; /* stream */
    void *ctx;
};

struct slot {
    struct mr_rpc_tag tag;
    mr_rpc_server *srv;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

struct mr_rpc_server {
    LIST_ENTRY(mr_rpc_server) link; /* rt->servers_lock; once it was started */
    mr_rpc_runtime *rt;
    struct mr_rpc_firsts firsts;
    struct mr_rpc_resets resets;
    unsigned connections; /* that there may be */
    grpc_server *server;
    struct method methods[METHODS_MAX];
    size_t nmethods;
    struct slot slots[SLOTS];
    struct mr_rpc_tag shutdown_tag;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;                /* lock */
    bool shut_down;               /* lock: the notification came */
    unsigned busy;                /* lock: posted slots and calls that gRPC still works on */
    struct mr_shares calls;       /* lock: those calls, by host */
    struct mr_shares reply_bytes; /* lock: that their callers have not taken yet */
};

/* A unary call at the server. Two holders: gRPC (until no batch is out) and whoever has to
 * answer. */
struct mr_rpc_request {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;     /* valid until gRPC is through with the call */
    struct mr_share *share; /* the same */
    const struct method *method;
    struct mr_rpc_first first;
    struct mr_rpc_tag receive_tag;
    struct mr_rpc_tag close_tag;
    struct mr_rpc_tag reply_tag;
    atomic_uint refs;
    atomic_bool gone; /* the caller is */
    pthread_mutex_t lock;
    grpc_call *call; /* lock, from here on; NULL once gRPC is through with it */
    unsigned pending;
    bool close_seen;
    bool answered;
    grpc_byte_buffer *received;
    struct mr_share *reply_share; /* NULL: nothing of the server's reply_bytes is taken; else */
    uint64_t reply_bytes;         /* so much */
    int cancelled;
};

mr_rpc_runtime *mr_rpc_server_runtime(struct mr_rpc_server *srv)
{
    return srv->rt;
}

struct mr_rpc_firsts *mr_rpc_server_firsts(struct mr_rpc_server *srv)
{
    return &srv->firsts;
}

void mr_rpc_servers_tick(mr_rpc_runtime *rt, int64_t now_ms)
{
    mr_rpc_server *srv;

    LIST_FOREACH(srv, &rt->servers, link)
    {
        mr_rpc_firsts_tick(&srv->firsts, now_ms);
    }
}

static void busy_add_locked(mr_rpc_server *srv, int n)
{
    srv->busy = (unsigned)((int)srv->busy + n);
    if (srv->busy == 0) {
        (void)pthread_cond_broadcast(&srv->changed);
    }
}

static void busy_add(mr_rpc_server *srv, int n)
{
    MR_LOCK(&srv->lock);
    busy_add_locked(srv, n);
}

void mr_rpc_server_call_over(struct mr_rpc_server *srv, struct mr_share *share)
{
    MR_LOCK(&srv->lock);
    mr_share_give(share, 1);
    busy_add_locked(srv, -1);
}

/* ---- requests ---- */

static void request_unref(mr_rpc_request *req)
{
    if (atomic_fetch_sub(&req->refs, 1) != 1) {
        return;
    }
    (void)pthread_mutex_destroy(&req->lock);
    mr_free(req);
}

static void request_start_locked(mr_rpc_request *req, const grpc_op *ops, size_t n,
                                 struct mr_rpc_tag *tag)
{
    grpc_call_error rc = grpc_call_start_batch(req->call, ops, n, tag, NULL);

    MR_ASSERT(rc == GRPC_CALL_OK);
    req->pending++;
}

/*
 * gRPC keeps a reply until the caller takes it, which it need not ever do: so its host has only its
 * share of all that is kept. Before the bytes are copied.
 */
static int charge_reply(mr_rpc_request *req, size_t size, mr_error *err)
{
    if (size <= REPLY_FREE_BYTES) {
        return MR_OK;
    }
    MR_LOCK(&req->lock);
    if (req->call == NULL) {
        return MR_OK; /* and nothing is sent */
    }
    MR_LOCK(&req->srv->lock);
    req->reply_bytes = size;
    return mr_shares_take(&req->srv->reply_bytes, req->share->host, size, &req->reply_share, err);
}

static void give_back_reply(mr_rpc_request *req)
{
    if (req->reply_share != NULL) {
        MR_LOCK(&req->srv->lock);
        mr_share_give(req->reply_share, req->reply_bytes);
    }
}

/* One batch came back; after the last of a closed call gRPC's part goes. */
static void request_back(mr_rpc_request *req)
{
    grpc_call *call = NULL;

    mr_mutex_lock(&req->lock);
    MR_ASSERT(req->pending > 0);
    req->pending--;
    /* Without an answer and without a cancellation the caller still waits. */
    if (req->pending == 0 && req->close_seen) {
        call = req->call;
        req->call = NULL;
    }
    mr_mutex_unlock(&req->lock);
    if (call != NULL) {
        mr_rpc_runtime *rt = req->rt;
        mr_rpc_server *srv = req->srv;
        struct mr_share *share = req->share;

        give_back_reply(req);
        mr_rpc_first_came(&srv->firsts, &req->first);
        if (req->received != NULL) {
            grpc_byte_buffer_destroy(req->received);
            req->received = NULL;
        }
        grpc_call_unref(call);
        request_unref(req);
        mr_rpc_server_call_over(srv, share);
        mr_rpc_call_ended(rt);
    }
}

static void cut_request(struct mr_rpc_first *f, const char *why)
{
    mr_rpc_request *req = MR_CONTAINER(f, mr_rpc_request, first);

    MR_LOCK(&req->lock);
    if (req->call != NULL && !req->close_seen) {
        (void)grpc_call_cancel_with_status(req->call, GRPC_STATUS_DEADLINE_EXCEEDED, why, NULL);
    }
}

static void on_request_close(struct mr_rpc_tag *tag, bool ok)
{
    mr_rpc_request *req = MR_CONTAINER(tag, mr_rpc_request, close_tag);

    (void)ok;
    mr_mutex_lock(&req->lock);
    req->close_seen = true;
    if (req->cancelled != 0) {
        atomic_store(&req->gone, true);
    }
    mr_mutex_unlock(&req->lock);
    request_back(req);
}

static void on_reply_sent(struct mr_rpc_tag *tag, bool ok)
{
    (void)ok;
    request_back(MR_CONTAINER(tag, mr_rpc_request, reply_tag));
}

static void refuse_size(mr_rpc_request *req)
{
    mr_error err;

    (void)mr_error_set(&err, MR_EINVAL, "%s: a request of %zu bytes, at most %zu are allowed",
                       req->method->path, grpc_byte_buffer_length(req->received),
                       req->method->bytes_max);
    mr_rpc_reply(req, err.code, err.message, NULL, 0);
}

static void hand_over_bulk(mr_rpc_request *req)
{
    mr_rpc_message *m = mr_malloc(sizeof *m);

    if (m == NULL) {
        mr_rpc_reply(req, MR_EEXHAUSTED, "out of memory", NULL, 0);
        return;
    }
    m->bytes = req->received;
    req->received = NULL;
    req->method->handle_bulk(req->method->ctx, req, m);
}

static void hand_over(mr_rpc_request *req)
{
    void *copy = NULL;
    size_t size = 0;
    const void *bytes = mr_rpc_bytes_flat(req->received, &size, &copy);

    if (bytes == NULL) {
        mr_rpc_reply(req, MR_EEXHAUSTED, "out of memory", NULL, 0);
    } else {
        /* This batch is still counted, so the bytes stay until the handler returns. */
        req->method->handle(req->method->ctx, req, bytes, size);
    }
    mr_free(copy);
}

static void on_request_message(struct mr_rpc_tag *tag, bool ok)
{
    mr_rpc_request *req = MR_CONTAINER(tag, mr_rpc_request, receive_tag);

    mr_rpc_first_came(&req->srv->firsts, &req->first);
    if (!ok || req->received == NULL) {
        mr_rpc_reply(req, MR_EINVAL, "a call without a message", NULL, 0);
    } else if (grpc_byte_buffer_length(req->received) > req->method->bytes_max) {
        refuse_size(req);
    } else if (req->method->handle_bulk != NULL) {
        hand_over_bulk(req);
    } else {
        hand_over(req);
    }
    request_back(req);
}

void mr_rpc_reply(mr_rpc_request *req, int code, const char *message, const void *bytes,
                  size_t size)
{
    grpc_op ops[3];
    size_t n = 0;
    grpc_byte_buffer *bb = NULL;
    mr_error err;

    if (code == MR_OK && charge_reply(req, size, &err) < 0) {
        code = MR_EUNAVAIL; /* As of calls: it may be asked again, here or elsewhere. */
        message = err.message;
    }
    grpc_slice text = grpc_slice_from_copied_string(message != NULL ? message : "");

    memset(ops, 0, sizeof ops);
    ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (code == MR_OK) {
        grpc_slice slice = grpc_slice_from_copied_buffer(bytes, size);

        bb = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = bb;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)mr_code_to_status(code);
    ops[n++].data.send_status_from_server.status_details = &text;

    mr_mutex_lock(&req->lock);
    MR_ASSERT(!req->answered);
    req->answered = true;
    if (req->call != NULL && !req->close_seen) {
        request_start_locked(req, ops, n, &req->reply_tag);
    }
    mr_mutex_unlock(&req->lock);
    if (bb != NULL) {
        grpc_byte_buffer_destroy(bb);
    }
    grpc_slice_unref(text);
    request_unref(req);
}

bool mr_rpc_request_cancelled(const mr_rpc_request *req)
{
    return atomic_load(&req->gone);
}

const char *mr_rpc_request_host(const mr_rpc_request *req)
{
    return req->share->host;
}

/* @method NULL: there is none of that name. */
static void serve_unary(mr_rpc_server *srv, grpc_call *call, struct mr_share *share,
                        const struct method *method, const char *path)
{
    mr_rpc_request *req = mr_calloc(1, sizeof *req);
    char text[MR_ERROR_MESSAGE_SIZE];
    mr_error err;
    grpc_op op;

    if (req == NULL) {
        grpc_call_unref(call);
        mr_rpc_server_call_over(srv, share);
        return;
    }
    mr_rpc_tag_init(&req->receive_tag, on_request_message);
    mr_rpc_tag_init(&req->close_tag, on_request_close);
    mr_rpc_tag_init(&req->reply_tag, on_reply_sent);
    req->rt = srv->rt;
    req->srv = srv;
    req->share = share;
    req->method = method;
    atomic_init(&req->refs, 2);
    mr_mutex_init(&req->lock);
    req->call = call;
    req->first.cut = cut_request;
    req->first.host = share->host;
    mr_rpc_call_began(srv->rt);

    mr_mutex_lock(&req->lock);
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &req->cancelled;
    request_start_locked(req, &op, 1, &req->close_tag);
    if (method != NULL) {
        memset(&op, 0, sizeof op);
        op.op = GRPC_OP_RECV_MESSAGE;
        op.data.recv_message.recv_message = &req->received;
        request_start_locked(req, &op, 1, &req->receive_tag);
    }
    mr_mutex_unlock(&req->lock);
    if (method != NULL) {
        mr_rpc_first_wait(&srv->firsts, &req->first, mr_now_ms());
    } else {
        (void)mr_error_set(&err, MR_EUNIMPL, "no method '%s' here", path);
        memcpy(text, err.message, sizeof text);
        mr_rpc_reply(req, MR_EUNIMPL, text, NULL, 0);
    }
}

/* ---- slots ---- */

static void on_call(struct mr_rpc_tag *tag, bool ok);

/* The caller has counted the slot as busy. */
static bool post_slot(struct slot *slot)
{
    mr_rpc_server *srv = slot->srv;

    slot->call = NULL;
    grpc_call_details_init(&slot->details);
    grpc_metadata_array_init(&slot->metadata);
    grpc_call_error rc =
        grpc_server_request_call(srv->server, &slot->call, &slot->details, &slot->metadata,
                                 srv->rt->cq, srv->rt->cq, &slot->tag);
    return rc == GRPC_CALL_OK;
}

static const struct method *find_method(const mr_rpc_server *srv, const char *path, size_t n)
{
    for (size_t i = 0; i < srv->nmethods; i++) {
        const char *p = srv->methods[i].path;

        if (strlen(p) == n && memcmp(p, path, n) == 0) {
            return &srv->methods[i];
        }
    }
    return NULL;
}

/* NULL: the call was refused, since its host has so many that others need the room. */
static struct mr_share *admit(mr_rpc_server *srv, grpc_call *call)
{
    struct mr_share *share = NULL;
    char host[MR_RPC_HOST_SIZE];
    char *peer = grpc_call_get_peer(call);
    mr_error err;

    mr_rpc_host_of(peer, host);
    gpr_free(peer);
    mr_mutex_lock(&srv->lock);
    int rc = mr_shares_take(&srv->calls, host, 1, &share, &err);
    mr_mutex_unlock(&srv->lock);
    if (rc < 0) {
        /* UNAVAILABLE: nobody has looked at it, so it may be asked again, here or elsewhere. */
        (void)grpc_call_cancel_with_status(call, GRPC_STATUS_UNAVAILABLE, err.message, NULL);
        grpc_call_unref(call);
    }
    return share;
}

static void on_call(struct mr_rpc_tag *tag, bool ok)
{
    struct slot *slot = MR_CONTAINER(tag, struct slot, tag);
    mr_rpc_server *srv = slot->srv;
    grpc_call *call = slot->call;
    char path[MR_NAME_BYTES_MAX + 1];

    size_t n = GRPC_SLICE_LENGTH(slot->details.method);
    n = n <= MR_NAME_BYTES_MAX ? n : MR_NAME_BYTES_MAX;
    memcpy(path, GRPC_SLICE_START_PTR(slot->details.method), n);
    path[n] = '\0';
    grpc_call_details_destroy(&slot->details);
    grpc_metadata_array_destroy(&slot->metadata);
    if (!ok) {
        busy_add(srv, -1);
        return;
    }
    busy_add(srv, 1); /* the call; the slot stays counted if it can be posted again */
    if (!post_slot(slot)) {
        busy_add(srv, -1);
    }
    const struct method *m = find_method(srv, path, n);
    struct mr_share *share = admit(srv, call);
    if (share == NULL) {
        busy_add(srv, -1);
    } else if (m != NULL && m->accept != NULL) {
        mr_rpc_stream_serve(srv, call, share, m->accept, m->ctx);
    } else {
        serve_unary(srv, call, share, m, path);
    }
}

/* ---- life ---- */

static void on_shutdown(struct mr_rpc_tag *tag, bool ok)
{
    mr_rpc_server *srv = MR_CONTAINER(tag, mr_rpc_server, shutdown_tag);

    (void)ok;
    MR_LOCK(&srv->lock);
    srv->shut_down = true;
    (void)pthread_cond_broadcast(&srv->changed);
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

static struct mr_rpc_limits with_defaults(const struct mr_rpc_limits *given)
{
    struct mr_rpc_limits l = given != NULL ? *given : (struct mr_rpc_limits){.message_bytes = 0};

    l.message_bytes = l.message_bytes != 0 ? l.message_bytes : MR_RPC_REQUEST_BYTES_MAX;
    l.memory_bytes = l.memory_bytes != 0 ? l.memory_bytes : MEMORY_BYTES;
    l.reply_bytes = l.reply_bytes != 0 ? l.reply_bytes : REPLY_BYTES;
    l.calls = l.calls != 0 ? l.calls : CALLS;
    l.connections = l.connections != 0 ? l.connections : connections_max(l.calls);
    l.calls_per_connection =
        l.calls_per_connection != 0 ? l.calls_per_connection : CALLS_PER_CONNECTION;
    l.silent_calls = l.silent_calls != 0 ? l.silent_calls : SILENT_CALLS;
    l.silent_ms = l.silent_ms != 0 ? l.silent_ms : SILENT_MS;
    return l;
}

int mr_rpc_server_new(mr_rpc_runtime *rt, const struct mr_rpc_limits *limits, mr_rpc_server **ret,
                      mr_error *err)
{
    const struct mr_rpc_limits l = with_defaults(limits);
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
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 10000),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        MR_INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        MR_INT_ARG(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000),
        MR_INT_ARG(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0), /* our own clients ping silent streams */
        {.type = GRPC_ARG_POINTER, .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA},
    };
    grpc_channel_args list = {.num_args = sizeof args / sizeof args[0], .args = args};
    int rc = mr_rpc_check(rt, err);

    if (rc < 0) {
        return rc;
    }
    mr_rpc_server *srv = mr_calloc(1, sizeof *srv);
    if (srv == NULL) {
        return mr_error_nomem(err);
    }
    srv->rt = rt;
    srv->resets.rt = rt;
    srv->resets.floods.memory_bytes = l.memory_bytes;
    mr_mutex_init(&srv->lock);
    mr_cond_init(&srv->changed);
    mr_rpc_tag_init(&srv->shutdown_tag, on_shutdown);
    mr_shares_init(&srv->calls, "open calls", l.calls);
    mr_shares_init(&srv->reply_bytes, "bytes of replies that were not taken", l.reply_bytes);
    mr_rpc_firsts_init(&srv->firsts, l.silent_calls, l.silent_ms);
    quota = grpc_resource_quota_create("mr-server");
    grpc_resource_quota_resize(quota, l.memory_bytes);
    args[list.num_args - 1].value.pointer.p = quota;
    args[list.num_args - 1].value.pointer.vtable = grpc_resource_quota_arg_vtable();
    srv->server = mr_rpc_resets_server_create(&srv->resets, &list, l.calls_per_connection);
    srv->connections = l.connections;
    grpc_resource_quota_unref(quota); /* The server has its own. */
    grpc_server_register_completion_queue(srv->server, rt->cq, NULL);
    *ret = srv;
    return MR_OK;
}

static int add_method(mr_rpc_server *srv, const struct method *method, mr_error *err)
{
    const char *path = method->path;

    MR_ASSERT(!srv->started);
    if (srv->nmethods == METHODS_MAX || strlen(path) > MR_NAME_BYTES_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "more than %d methods, or a name that is too long: '%s'", METHODS_MAX,
                            path);
    }
    char *copy = mr_strdup(path);
    if (copy == NULL) {
        return mr_error_nomem(err);
    }
    srv->methods[srv->nmethods] = *method;
    srv->methods[srv->nmethods++].path = copy;
    return MR_OK;
}

int mr_rpc_server_unary(mr_rpc_server *srv, const char *path, size_t bytes_max,
                        mr_rpc_handler *handle, void *ctx, mr_error *err)
{
    const struct method method = {
        .path = path, .bytes_max = bytes_max, .handle = handle, .ctx = ctx};

    return add_method(srv, &method, err);
}

int mr_rpc_server_bulk(mr_rpc_server *srv, const char *path, size_t bytes_max,
                       mr_rpc_bulk_handler *handle, void *ctx, mr_error *err)
{
    const struct method method = {
        .path = path, .bytes_max = bytes_max, .handle_bulk = handle, .ctx = ctx};

    return add_method(srv, &method, err);
}

int mr_rpc_server_stream(mr_rpc_server *srv, const char *path, mr_rpc_accept *accept, void *ctx,
                         mr_error *err)
{
    const struct method method = {.path = path, .accept = accept, .ctx = ctx};

    return add_method(srv, &method, err);
}

int mr_rpc_server_listen(mr_rpc_server *srv, const char *address, const struct mr_rpc_tls *tls,
                         int *port, mr_error *err)
{
    struct mr_address parsed;

    MR_ASSERT(!srv->started);
    if (tls != NULL) {
        return mr_error_set(err, MR_EUNIMPL, "listening on '%s': TLS is not built in", address);
    }
    if (!mr_address_parse_listen(address, &parsed)) {
        return mr_error_set(err, MR_EINVAL,
                            "listening on '%s': host:port is wanted, with a port from 0 to 65535",
                            address);
    }
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    int bound = grpc_server_add_http2_port(srv->server, address, creds);

    grpc_server_credentials_release(creds);
    if (bound == 0) {
        return mr_error_set(err, MR_EUNAVAIL,
                            "listening on '%s': the address is taken or is not this host's",
                            address);
    }
    srv->resets.accepts.port = bound;
    srv->resets.floods.port = bound;
    if (port != NULL) {
        *port = bound;
    }
    return MR_OK;
}

int mr_rpc_server_start(mr_rpc_server *srv, mr_error *err)
{
    int rc = mr_rpc_check(srv->rt, err);

    if (rc < 0) {
        return rc;
    }
    MR_ASSERT(!srv->started);
    rc = mr_rpc_accepts_start(&srv->resets.accepts, srv->connections, descriptors(), err);
    if (rc == MR_OK) {
        rc = mr_rpc_resets_start(&srv->resets, err);
    }
    if (rc < 0) {
        return rc;
    }
    srv->started = true;
    mr_mutex_lock(&srv->rt->servers_lock);
    LIST_INSERT_HEAD(&srv->rt->servers, srv, link);
    mr_mutex_unlock(&srv->rt->servers_lock);
    grpc_server_start(srv->server);
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &srv->slots[i];

        slot->srv = srv;
        mr_rpc_tag_init(&slot->tag, on_call);
        busy_add(srv, 1);
        if (!post_slot(slot)) {
            busy_add(srv, -1);
            return mr_error_set(err, MR_EINTERNAL, "waiting for calls");
        }
    }
    return MR_OK;
}

void mr_rpc_server_stop(mr_rpc_server *srv, int64_t grace_ms)
{
    MR_ASSERT(!pthread_equal(pthread_self(), srv->rt->thread));
    mr_mutex_lock(&srv->lock);
    bool first = !srv->stopping;
    srv->stopping = true;
    mr_mutex_unlock(&srv->lock);
    if (!first) {
        return;
    }
    grpc_server_shutdown_and_notify(srv->server, srv->rt->cq, &srv->shutdown_tag);

    int64_t until = mr_now_ms() + grace_ms;
    mr_mutex_lock(&srv->lock);
    while (!srv->shut_down || srv->busy > 0) {
        int64_t left = until - mr_now_ms();

        if (left <= 0) {
            break;
        }
        (void)mr_cond_wait_ms(&srv->changed, &srv->lock, left);
    }
    bool over = srv->shut_down && srv->busy == 0;
    mr_mutex_unlock(&srv->lock);
    if (over) {
        return;
    }
    grpc_server_cancel_all_calls(srv->server);
    mr_mutex_lock(&srv->lock);
    while (!srv->shut_down || srv->busy > 0) {
        mr_cond_wait(&srv->changed, &srv->lock);
    }
    mr_mutex_unlock(&srv->lock);
}

void mr_rpc_server_free(mr_rpc_server *srv)
{
    if (srv == NULL || mr_rpc_inherited(srv->rt)) {
        return;
    }
    mr_rpc_server_stop(srv, 0);
    mr_rpc_resets_free(&srv->resets);
    mr_rpc_accepts_free(&srv->resets.accepts);
    if (srv->started) {
        mr_mutex_lock(&srv->rt->servers_lock);
        LIST_REMOVE(srv, link);
        mr_mutex_unlock(&srv->rt->servers_lock);
    }
    grpc_server_destroy(srv->server);
    mr_shares_free(&srv->calls);
    mr_shares_free(&srv->reply_bytes);
    mr_rpc_firsts_free(&srv->firsts);
    for (size_t i = 0; i < srv->nmethods; i++) {
        mr_free((char *)(uintptr_t)srv->methods[i].path);
    }
    (void)pthread_cond_destroy(&srv->changed);
    (void)pthread_mutex_destroy(&srv->lock);
    mr_free(srv);
}
