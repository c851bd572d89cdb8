/* Unary calls at the client: a stream with one message each way. Held by the caller and by the
 * stream. */
#include "rpc/local/internal.h"

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
