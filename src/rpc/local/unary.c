/* Unary calls: a stream with one message each way. */
#include "rpc/local/internal.h"

/* ---- at the client: held by the caller and by the stream ---- */

struct mr_rpc_call {
    atomic_uint refs;
    mr_rpc_stream *stream;
    mr_rpc_message *reply; /* the thread's */
    mr_rpc_done *done;
    void *ctx;
};

void mr_rpc_call_unref(mr_rpc_call *call)
{
    if (call != NULL && atomic_fetch_sub(&call->refs, 1) == 1) {
        mr_rpc_stream_unref(call->stream);
        mr_free(call);
    }
}

void mr_rpc_call_cancel(mr_rpc_call *call)
{
    mr_rpc_stream_cancel(call->stream);
}

static void on_reply(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_rpc_call *call = ctx;

    call->reply = m;
}

static void on_reply_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *why)
{
    struct mr_rpc_call *call = ctx;
    const struct mr_rpc_message *m = call->reply;
    mr_error err;

    if (rc < 0) {
        err = *why;
    } else if (m == NULL) {
        rc = mr_error_set(&err, MR_EINTERNAL, "an answer without a message");
    }
    call->done(call->ctx, rc, rc == MR_OK ? m->bytes : NULL, rc == MR_OK ? m->size : 0,
               rc < 0 ? &err : NULL);
    mr_free(call->reply);
    mr_rpc_call_unref(call);
}

int mr_rpc_unary(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                 const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err)
{
    static const struct mr_rpc_stream_ops ops = {.message = on_reply, .ended = on_reply_ended};
    const struct mr_rpc_slice slice = {.data = request, .size = size};
    struct mr_rpc_call *call = mr_calloc(1, sizeof *call);

    MR_CHECK_ALLOC(call, err);
    call->done = done;
    call->ctx = ctx;
    atomic_init(&call->refs, 3); /* one is this function's */
    *ret = call;
    int rc = mr_rpc_stream_open(ch, path, metadata, timeout_ms, wait_for_ready, &ops, call,
                                &call->stream, err);
    if (rc < 0) {
        mr_free(call);
        return rc;
    }
    if (mr_rpc_stream_send(call->stream, &slice, 1, false, NULL) < 0) {
        mr_rpc_stream_cancel(call->stream); /* No memory: the call ends so. */
    }
    mr_rpc_stream_half_close(call->stream);
    mr_rpc_stream_receive(call->stream);
    mr_rpc_call_unref(call);
    return MR_OK;
}

/* ---- at the server: held by whoever answers and by the stream ---- */

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
    mr_error err;

    req->handed = true;
    if (m->size > method->bytes_max) {
        mr_rpc_reply(req, mr_rpc_too_large(method, m->size, &err), err.message, NULL, 0);
    } else if (method->handle_bulk != NULL) {
        method->handle_bulk(method->ctx, req, m);
        return; /* The message is the handler's. */
    } else {
        method->handle(method->ctx, req, m->bytes, m->size);
    }
    mr_free(m);
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

void mr_local_request_accept(const struct mr_rpc_method *method, mr_rpc_stream *s)
{
    static const struct mr_rpc_stream_ops ops = {.message = on_request, .ended = on_request_ended};
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
    const struct mr_rpc_slice slice = {.data = bytes, .size = size};

    if (code == MR_OK && mr_rpc_stream_send(req->stream, &slice, 1, false, NULL) == MR_EEXHAUSTED) {
        code = MR_EEXHAUSTED;
        message = "out of memory";
    }
    mr_rpc_stream_finish(req->stream, code, message);
    request_unref(req);
}

bool mr_rpc_request_cancelled(const mr_rpc_request *req)
{
    return atomic_load(&req->gone);
}

const char *mr_rpc_request_host(const mr_rpc_request *req)
{
    return MR_LOCAL_HOST;
}
