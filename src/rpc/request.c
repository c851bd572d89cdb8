/* Unary calls at a server, over any transport: a stream with one message each way. Held by whoever
 * answers and by the stream: one that nobody has answered when its client goes is over for the
 * transport at once, and answering it later only frees it. */
#include "rpc/port.h"

#include <stdatomic.h>

struct mr_rpc_request {
    atomic_uint refs;
    atomic_bool gone; /* the caller is */
    bool handed;      /* the thread's: somebody has to answer */
    mr_rpc_stream *stream;
    const struct mr_rpc_method *method;
};

static void request_unref(struct mr_rpc_request *req)
{
    if (atomic_fetch_sub(&req->refs, 1) == 1) {
        mr_rpc_stream_unref(req->stream);
        mr_free(req);
    }
}

static void on_request(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_rpc_request *req = ctx;
    const struct mr_rpc_method *method = req->method;
    size_t size = mr_rpc_message_size(m);
    MR_AUTO(mr_free) void *copy = NULL;
    mr_error err;

    req->handed = true;
    if (method->handle_bulk != NULL && size <= method->bytes_max) {
        method->handle_bulk(method->ctx, req, m);
        return; /* The message is the handler's. */
    }
    const void *bytes = size <= method->bytes_max ? mr_rpc_message_flat(m, &copy) : NULL;
    if (bytes != NULL) {
        method->handle(method->ctx, req, bytes, size);
    } else if (size > method->bytes_max) {
        mr_rpc_reply(req, mr_rpc_too_large(method, size, &err), err.message, NULL, 0);
    } else {
        mr_rpc_reply(req, MR_EEXHAUSTED, "out of memory", NULL, 0);
    }
    mr_rpc_message_free(m);
}

static void on_request_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct mr_rpc_request *req = ctx;

    atomic_store(&req->gone, rc < 0);
    if (!req->handed) {
        request_unref(req); /* in place of whoever would have answered */
    }
    request_unref(req);
}

void mr_rpc_method_accept(const struct mr_rpc_method *method, mr_rpc_stream *s)
{
    static const struct mr_rpc_stream_ops ops = {.message = on_request, .ended = on_request_ended};

    if (method->accept != NULL) {
        method->accept(method->ctx, s);
        return;
    }
    struct mr_rpc_request *req = mr_calloc(1, sizeof *req);
    if (req == NULL) {
        mr_rpc_stream_unref(s);
        return;
    }
    atomic_init(&req->refs, 2);
    atomic_init(&req->gone, false);
    req->stream = s;
    req->method = method;
    mr_rpc_stream_accept(s, &ops, req);
    mr_rpc_stream_receive(s);
}

void mr_rpc_reply(mr_rpc_request *req, int code, const char *message, const void *bytes,
                  size_t size)
{
    mr_rpc_stream_reply(req->stream, code, message, bytes, size);
    request_unref(req);
}

bool mr_rpc_request_cancelled(const mr_rpc_request *req)
{
    return atomic_load(&req->gone);
}

const char *mr_rpc_request_host(const mr_rpc_request *req)
{
    return mr_rpc_stream_host(req->stream);
}

const struct mr_rpc_who *mr_rpc_request_who(const mr_rpc_request *req)
{
    return mr_rpc_stream_who(req->stream);
}
