/* The client side of unary calls: one batch, which comes back once, with everything. */
#include "rpc/grpc/internal.h"

struct mr_rpc_call {
    struct mr_grpc_tag tag;
    atomic_uint refs; /* one is gRPC's until the batch is back */
    struct mr_rpc_runtime *rt;
    pthread_mutex_t lock; /* guards `call` */
    grpc_call *call;      /* NULL once it is over */
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_byte_buffer *reply;
    grpc_status_code status;
    grpc_slice details;
    mr_rpc_done *done;
    void *ctx;
};

void mr_rpc_call_unref(mr_rpc_call *call)
{
    if (call == NULL || atomic_fetch_sub(&call->refs, 1) != 1) {
        return;
    }
    (void)pthread_mutex_destroy(&call->lock);
    mr_free(call);
}

void mr_rpc_call_cancel(mr_rpc_call *call)
{
    MR_LOCK(&call->lock);
    if (call->call != NULL) {
        (void)grpc_call_cancel(call->call, NULL);
    }
}

/* gRPC's part of the object, when no batch is out. */
static void drop_call(struct mr_rpc_call *call)
{
    mr_mutex_lock(&call->lock);
    grpc_call *c = call->call;
    call->call = NULL;
    mr_mutex_unlock(&call->lock);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    if (call->reply != NULL) {
        grpc_byte_buffer_destroy(call->reply);
    }
    grpc_slice_unref(call->details);
    grpc_call_unref(c);
}

static void call_over(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_call *call = MR_RPC_CONTAINER(tag, struct mr_rpc_call, tag);
    struct mr_rpc_runtime *rt = call->rt;
    mr_error err;
    const void *bytes = NULL;
    void *copy = NULL;
    size_t size = 0;

    /* A batch with RECV_STATUS always succeeds; the status tells. */
    int rc = mr_grpc_status_error(call->status, call->details, &err);
    if (rc == MR_OK && call->reply == NULL) {
        rc = mr_error_set(&err, MR_EINTERNAL, "an answer without a message");
    }
    if (rc == MR_OK) {
        size = grpc_byte_buffer_length(call->reply);
        bytes = mr_rpc_message_flat(mr_grpc_message(call->reply), &copy);
        if (bytes == NULL) {
            rc = mr_error_nomem(&err);
        }
    }
    if (copy != NULL) {
        /* What came in pieces may be large, and whoever asked for it makes a copy: not a third. */
        grpc_byte_buffer_destroy(call->reply);
        call->reply = NULL;
    }
    call->done(call->ctx, rc, bytes, size, rc < 0 ? &err : NULL);
    mr_free(copy);
    drop_call(call);
    mr_rpc_call_unref(call);
    mr_grpc_call_ended(rt);
}

static grpc_call_error start_unary(struct mr_rpc_call *call, const void *request, size_t size,
                                   const grpc_op *metadata)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(request, size);
    grpc_byte_buffer *bb = grpc_raw_byte_buffer_create(&slice, 1);
    const grpc_op ops[] = {
        *metadata,
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = bb},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &call->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->reply},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &call->trailing,
                                        .status = &call->status,
                                        .status_details = &call->details}},
    };

    mr_mutex_lock(&call->lock);
    grpc_call_error rc =
        grpc_call_start_batch(call->call, ops, sizeof ops / sizeof ops[0], &call->tag, NULL);
    mr_mutex_unlock(&call->lock);
    grpc_byte_buffer_destroy(bb);
    grpc_slice_unref(slice);
    return rc;
}

int mr_rpc_unary(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                 const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err)
{
    struct mr_grpc_beginning begun;

    MR_TRY(mr_rpc_check_metadata(metadata, err));
    MR_TRY(mr_grpc_check(ch->rt, err));
    struct mr_rpc_call *call = mr_calloc(1, sizeof *call);
    MR_CHECK_ALLOC(call, err);
    mr_grpc_tag_init(&call->tag, call_over);
    atomic_init(&call->refs, 2);
    call->rt = ch->rt;
    mr_mutex_init(&call->lock);
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    call->details = grpc_empty_slice();
    call->done = done;
    call->ctx = ctx;
    mr_grpc_call_began(ch->rt);
    mr_grpc_begin(ch, path, metadata, timeout_ms, wait_for_ready, &begun);
    call->call = begun.call;
    grpc_call_error rv = start_unary(call, request, size, &begun.metadata);
    mr_grpc_begun(&begun);
    if (rv != GRPC_CALL_OK) {
        drop_call(call);
        mr_grpc_call_ended(ch->rt);
        mr_rpc_call_unref(call);
        mr_rpc_call_unref(call);
        return mr_error_set(err, MR_EINVAL, "calling %s: %s", path, grpc_call_error_to_string(rv));
    }
    *ret = call;
    return MR_OK;
}
