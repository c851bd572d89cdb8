/*
 * Unary calls at the server. A request that nobody has answered when its client goes is cut off
 * from gRPC at once; answering it later only frees it.
 */
#include "rpc/grpc/internal.h"

#include "base/clock.h"

/* Of a reply, what a call may have besides what it costs itself. */
#define REPLY_FREE_BYTES 16384u

/* A unary call at the server. Two holders: gRPC (until no batch is out) and whoever has to
 * answer. */
struct mr_rpc_request {
    struct mr_grpc_calls *calls; /* the server's, valid until gRPC is through with the call */
    struct mr_share *share;      /* the same */
    const struct mr_rpc_method *method;
    struct mr_rpc_first first;
    struct mr_grpc_tag receive_tag;
    struct mr_grpc_tag close_tag;
    struct mr_grpc_tag reply_tag;
    atomic_uint refs;
    atomic_bool gone;     /* the caller is */
    pthread_mutex_t lock; /* guards everything below */
    grpc_call *call;      /* NULL once gRPC is through with it */
    unsigned pending;
    bool close_seen;
    bool answered;
    grpc_byte_buffer *received;
    struct mr_share *reply_share; /* NULL: nothing of the server's reply_bytes is taken; else */
    uint64_t reply_bytes;         /* so much */
    int cancelled;
};

static void request_unref(struct mr_rpc_request *req)
{
    if (atomic_fetch_sub(&req->refs, 1) != 1) {
        return;
    }
    (void)pthread_mutex_destroy(&req->lock);
    mr_free(req);
}

static void request_start_locked(struct mr_rpc_request *req, const grpc_op *ops, size_t n,
                                 struct mr_grpc_tag *tag)
{
    grpc_call_error rc = grpc_call_start_batch(req->call, ops, n, tag, NULL);

    MR_ASSERT(rc == GRPC_CALL_OK);
    req->pending++;
}

/*
 * gRPC keeps a reply until the caller takes it, which it need not ever do: so its host has only its
 * share of all that is kept. Before the bytes are copied.
 */
static int charge_reply(struct mr_rpc_request *req, size_t size, mr_error *err)
{
    if (size <= REPLY_FREE_BYTES) {
        return MR_OK;
    }
    MR_LOCK(&req->lock);
    if (req->call == NULL) {
        return MR_OK; /* and nothing is sent */
    }
    MR_LOCK(&req->calls->lock);
    req->reply_bytes = size;
    return mr_shares_take(&req->calls->reply_bytes, req->share->host, size, &req->reply_share, err);
}

static void give_back_reply(struct mr_rpc_request *req)
{
    if (req->reply_share != NULL) {
        MR_LOCK(&req->calls->lock);
        mr_share_give(req->reply_share, req->reply_bytes);
    }
}

/* One batch came back; after the last of a closed call gRPC's part goes. */
static void request_back(struct mr_rpc_request *req)
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
        struct mr_grpc_calls *calls = req->calls;
        struct mr_share *share = req->share;

        give_back_reply(req);
        mr_rpc_first_came(&calls->ticker.firsts, &req->first);
        if (req->received != NULL) {
            grpc_byte_buffer_destroy(req->received);
            req->received = NULL;
        }
        grpc_call_unref(call);
        request_unref(req);
        mr_grpc_calls_over(calls, share);
    }
}

static void cut_request(struct mr_rpc_first *f, const char *why)
{
    struct mr_rpc_request *req = MR_RPC_CONTAINER(f, struct mr_rpc_request, first);

    MR_LOCK(&req->lock);
    if (req->call != NULL && !req->close_seen) {
        (void)grpc_call_cancel_with_status(req->call, GRPC_STATUS_DEADLINE_EXCEEDED, why, NULL);
    }
}

static void on_request_close(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_request *req = MR_RPC_CONTAINER(tag, struct mr_rpc_request, close_tag);

    mr_mutex_lock(&req->lock);
    req->close_seen = true;
    if (req->cancelled != 0) {
        atomic_store(&req->gone, true);
    }
    mr_mutex_unlock(&req->lock);
    request_back(req);
}

static void on_reply_sent(struct mr_grpc_tag *tag, bool ok)
{
    request_back(MR_RPC_CONTAINER(tag, struct mr_rpc_request, reply_tag));
}

static void refuse_size(struct mr_rpc_request *req)
{
    mr_error err;

    (void)mr_rpc_too_large(req->method, grpc_byte_buffer_length(req->received), &err);
    mr_rpc_reply(req, err.code, err.message, NULL, 0);
}

static void hand_over_bulk(struct mr_rpc_request *req)
{
    mr_rpc_message *m = mr_grpc_message(req->received);

    req->received = NULL;
    req->method->handle_bulk(req->method->ctx, req, m);
}

static void hand_over(struct mr_rpc_request *req)
{
    void *copy = NULL;
    size_t size = 0;
    const void *bytes = mr_grpc_bytes_flat(req->received, &size, &copy);

    if (bytes == NULL) {
        mr_rpc_reply(req, MR_EEXHAUSTED, "out of memory", NULL, 0);
    } else {
        /* This batch is still counted, so the bytes stay until the handler returns. */
        req->method->handle(req->method->ctx, req, bytes, size);
    }
    mr_free(copy);
}

static void on_request_message(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_request *req = MR_RPC_CONTAINER(tag, struct mr_rpc_request, receive_tag);

    mr_rpc_first_came(&req->calls->ticker.firsts, &req->first);
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

void mr_grpc_request_serve(struct mr_grpc_calls *calls, grpc_call *call, struct mr_share *share,
                           const struct mr_rpc_method *method, const char *path)
{
    struct mr_rpc_request *req = mr_calloc(1, sizeof *req);
    mr_error err;

    if (req == NULL) {
        grpc_call_unref(call);
        mr_grpc_calls_refused(calls, share);
        return;
    }
    mr_grpc_tag_init(&req->receive_tag, on_request_message);
    mr_grpc_tag_init(&req->close_tag, on_request_close);
    mr_grpc_tag_init(&req->reply_tag, on_reply_sent);
    req->calls = calls;
    req->share = share;
    req->method = method;
    atomic_init(&req->refs, 2);
    mr_mutex_init(&req->lock);
    req->call = call;
    req->first.cut = cut_request;
    req->first.host = share->host;
    mr_grpc_call_began(calls->rt);

    const grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                           .data.recv_close_on_server.cancelled = &req->cancelled};
    const grpc_op receive = {.op = GRPC_OP_RECV_MESSAGE,
                             .data.recv_message.recv_message = &req->received};
    mr_mutex_lock(&req->lock);
    request_start_locked(req, &close, 1, &req->close_tag);
    if (method != NULL) {
        request_start_locked(req, &receive, 1, &req->receive_tag);
    }
    mr_mutex_unlock(&req->lock);
    if (method != NULL) {
        mr_rpc_first_wait(&calls->ticker.firsts, &req->first, mr_now_ms());
    } else {
        int rc = mr_rpc_no_method(path, &err);

        mr_rpc_reply(req, rc, err.message, NULL, 0);
    }
}
