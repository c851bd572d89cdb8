/* rpc.h over whichever transport an object is of; what does not depend on it is here. */
#include "rpc/port.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sync.h"

#include <string.h>

/* Defaults of struct mr_rpc_limits. */
#define MEMORY_BYTES (128 * MR_MIB)
#define REPLY_BYTES (384 * MR_MIB)
#define CALLS 32768u /* some 12 KiB each, which gRPC does not count as memory of calls */
#define CALLS_PER_CONNECTION 1024u
#define SILENT_CALLS 1024u
#define SILENT_MS 30000

/* ---- the process ---- */

int mr_rpc_acquire(mr_rpc_runtime **ret, mr_error *err)
{
    return mr_rpc_linked->acquire(mr_rpc_linked, ret, err);
}

void mr_rpc_release(mr_rpc_runtime *rt)
{
    if (rt != NULL) {
        rt->transport->release(rt);
    }
}

void mr_rpc_keep_forkable(void)
{
    mr_rpc_linked->keep_forkable();
}

/* ---- messages ---- */

size_t mr_rpc_message_size(const mr_rpc_message *m)
{
    return m->transport->message_size(m);
}

void mr_rpc_message_copy(const mr_rpc_message *m, size_t offset, size_t n, void *dst)
{
    m->transport->message_copy(m, offset, n, dst);
}

void mr_rpc_message_free(mr_rpc_message *m)
{
    if (m != NULL) {
        m->transport->message_free(m);
    }
}

/* ---- client ---- */

int mr_rpc_channel_new(mr_rpc_runtime *rt, const char *address, const struct mr_rpc_tls *tls,
                       mr_rpc_channel **ret, mr_error *err)
{
    if (!mr_address_is_valid(address)) {
        return mr_error_set(err, MR_EINVAL, "'%s' is no address to connect to: host:port is wanted",
                            MR_SHOWN(address));
    }
    return rt->transport->channel_new(rt, address, tls, ret, err);
}

void mr_rpc_channel_free(mr_rpc_channel *ch)
{
    if (ch != NULL) {
        ch->transport->channel_free(ch);
    }
}

/* HTTP/2 has keys in lower case. */
static bool is_key(const char *key)
{
    return key[0] != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

static int check_metadata(const char *const *pairs, mr_error *err)
{
    for (size_t n = 0; pairs != NULL && pairs[2 * n] != NULL; n++) {
        if (n == MR_RPC_METADATA_MAX) {
            return mr_error_set(err, MR_EINVAL, "more than %d metadata entries",
                                MR_RPC_METADATA_MAX);
        }
        if (!is_key(pairs[2 * n])) {
            return mr_error_set(err, MR_EINVAL, "'%s' is no key of metadata",
                                MR_SHOWN(pairs[2 * n]));
        }
    }
    return MR_OK;
}

int mr_rpc_unary(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                 const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err)
{
    int rc = check_metadata(metadata, err);

    return rc < 0 ? rc
                  : ch->transport->unary(ch, path, request, size, metadata, timeout_ms,
                                         wait_for_ready, done, ctx, ret, err);
}

void mr_rpc_call_cancel(mr_rpc_call *call)
{
    call->transport->call_cancel(call);
}

void mr_rpc_call_unref(mr_rpc_call *call)
{
    if (call != NULL) {
        call->transport->call_unref(call);
    }
}

struct waiter {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t cond;
    bool over;
    int rc;
    void *reply;
    size_t size;
    mr_error err;
};

static void wake(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct waiter *w = ctx;

    MR_LOCK(&w->lock);
    w->rc = rc;
    if (rc < 0) {
        w->err = *err;
    } else {
        w->reply = mr_memdup(reply, size);
        w->size = size;
        if (w->reply == NULL) {
            w->rc = mr_error_nomem(&w->err);
        }
    }
    w->over = true;
    (void)pthread_cond_signal(&w->cond);
}

int mr_rpc_unary_wait(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                      const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                      void **reply, size_t *reply_size, mr_error *err)
{
    struct waiter w = {.over = false};
    mr_rpc_call *call = NULL;

    MR_ASSERT(!ch->transport->is_own_thread());

    mr_mutex_init(&w.lock);
    mr_cond_init(&w.cond);
    int rc = mr_rpc_unary(ch, path, request, size, metadata, timeout_ms, wait_for_ready, wake, &w,
                          &call, err);
    if (rc == MR_OK) {
        mr_mutex_lock(&w.lock);
        while (!w.over) {
            mr_cond_wait(&w.cond, &w.lock);
        }
        mr_mutex_unlock(&w.lock);
        mr_rpc_call_unref(call);
        rc = w.rc;
        if (rc < 0 && err != NULL) {
            *err = w.err;
        }
        if (rc == MR_OK) {
            *reply = w.reply;
            *reply_size = w.size;
        }
    }
    (void)pthread_cond_destroy(&w.cond);
    (void)pthread_mutex_destroy(&w.lock);
    return rc;
}

/* ---- streams ---- */

int mr_rpc_stream_open(mr_rpc_channel *ch, const char *path, const char *const *metadata,
                       int64_t timeout_ms, bool wait_for_ready, const struct mr_rpc_stream_ops *ops,
                       void *ctx, mr_rpc_stream **ret, mr_error *err)
{
    int rc = check_metadata(metadata, err);

    return rc < 0 ? rc
                  : ch->transport->stream_open(ch, path, metadata, timeout_ms, wait_for_ready, ops,
                                               ctx, ret, err);
}

void mr_rpc_stream_receive(mr_rpc_stream *s)
{
    s->transport->stream_receive(s);
}

int mr_rpc_stream_send(mr_rpc_stream *s, const struct mr_rpc_slice *slices, size_t n,
                       bool more_follows, mr_error *err)
{
    return s->transport->stream_send(s, slices, n, more_follows, err);
}

void mr_rpc_stream_half_close(mr_rpc_stream *s)
{
    s->transport->stream_half_close(s);
}

void mr_rpc_stream_finish(mr_rpc_stream *s, int code, const char *message)
{
    s->transport->stream_finish(s, code, message);
}

void mr_rpc_stream_cancel(mr_rpc_stream *s)
{
    s->transport->stream_cancel(s);
}

mr_rpc_stream *mr_rpc_stream_ref(mr_rpc_stream *s)
{
    return s->transport->stream_ref(s);
}

void mr_rpc_stream_unref(mr_rpc_stream *s)
{
    if (s != NULL) {
        s->transport->stream_unref(s);
    }
}

const char *mr_rpc_stream_peer(const mr_rpc_stream *s)
{
    return s->transport->stream_peer(s);
}

const char *mr_rpc_stream_host(const mr_rpc_stream *s)
{
    return s->transport->stream_host(s);
}

void mr_rpc_stream_accept(mr_rpc_stream *s, const struct mr_rpc_stream_ops *ops, void *ctx)
{
    s->transport->stream_accept(s, ops, ctx);
}

/* ---- server ---- */

static struct mr_rpc_limits with_defaults(const struct mr_rpc_limits *given)
{
    struct mr_rpc_limits l = given != NULL ? *given : (struct mr_rpc_limits){.message_bytes = 0};

    l.message_bytes = l.message_bytes != 0 ? l.message_bytes : MR_RPC_REQUEST_BYTES_MAX;
    l.memory_bytes = l.memory_bytes != 0 ? l.memory_bytes : MEMORY_BYTES;
    l.reply_bytes = l.reply_bytes != 0 ? l.reply_bytes : REPLY_BYTES;
    l.calls = l.calls != 0 ? l.calls : CALLS;
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

    return rt->transport->server_new(rt, &l, ret, err);
}

int mr_rpc_server_unary(mr_rpc_server *srv, const char *path, size_t bytes_max,
                        mr_rpc_handler *handle, void *ctx, mr_error *err)
{
    const struct mr_rpc_method method = {
        .path = path, .bytes_max = bytes_max, .handle = handle, .ctx = ctx};

    return srv->transport->server_method(srv, &method, err);
}

int mr_rpc_server_bulk(mr_rpc_server *srv, const char *path, size_t bytes_max,
                       mr_rpc_bulk_handler *handle, void *ctx, mr_error *err)
{
    const struct mr_rpc_method method = {
        .path = path, .bytes_max = bytes_max, .handle_bulk = handle, .ctx = ctx};

    return srv->transport->server_method(srv, &method, err);
}

int mr_rpc_server_stream(mr_rpc_server *srv, const char *path, mr_rpc_accept *accept, void *ctx,
                         mr_error *err)
{
    const struct mr_rpc_method method = {.path = path, .accept = accept, .ctx = ctx};

    return srv->transport->server_method(srv, &method, err);
}

int mr_rpc_server_listen(mr_rpc_server *srv, const char *address, const struct mr_rpc_tls *tls,
                         int *port, mr_error *err)
{
    struct mr_address parsed;

    if (tls != NULL) {
        return mr_error_set(err, MR_EUNIMPL, "listening on '%s': TLS is not built in",
                            MR_SHOWN(address));
    }
    if (!mr_address_parse_listen(address, &parsed)) {
        return mr_error_set(err, MR_EINVAL,
                            "listening on '%s': host:port is wanted, with a port from 0 to 65535",
                            MR_SHOWN(address));
    }
    return srv->transport->server_listen(srv, address, port, err);
}

int mr_rpc_server_start(mr_rpc_server *srv, mr_error *err)
{
    return srv->transport->server_start(srv, err);
}

void mr_rpc_server_stop(mr_rpc_server *srv, int64_t grace_ms)
{
    srv->transport->server_stop(srv, grace_ms);
}

void mr_rpc_server_free(mr_rpc_server *srv)
{
    if (srv != NULL) {
        srv->transport->server_free(srv);
    }
}

void mr_rpc_reply(mr_rpc_request *req, int code, const char *message, const void *bytes,
                  size_t size)
{
    req->transport->reply(req, code, message, bytes, size);
}

bool mr_rpc_request_cancelled(const mr_rpc_request *req)
{
    return req->transport->request_cancelled(req);
}

const char *mr_rpc_request_host(const mr_rpc_request *req)
{
    return req->transport->request_host(req);
}
