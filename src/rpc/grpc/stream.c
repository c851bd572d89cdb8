/*
 * Streams, the same object on both sides.
 *
 * Happy path: the client opens (initial metadata, and the batch that waits for the status: without
 * one of its own from the start, cancellation is never seen); messages go one at a time in each
 * direction; the server finishes with a status; the status arrives when the client has received
 * what was before it.
 *
 * It is over when the status (client) or the close (server) has come and no batch is out any more:
 * then `ended`, and gRPC's part of the object goes. The user's references may outlive it.
 */
#include "rpc/grpc/internal.h"

#include "base/clock.h"

#include <grpc/support/alloc.h>
#include <unistd.h>

/* Of a reply, what a call may have besides what it costs itself. */
#define REPLY_FREE_BYTES 16384u

struct mr_rpc_stream {
    struct mr_rpc_runtime *rt;          /* until it is over */
    pid_t pid;                          /* that it is of */
    struct mr_grpc_calls *calls;        /* of the server; NULL on the client's side */
    struct mr_share *share;             /* the same: its host's, until the call is over */
    const struct mr_rpc_method *method; /* server; NULL: there is none of that name */
    struct mr_rpc_who who;              /* server */
    atomic_uint refs;                   /* the users' and, until it is over, gRPC's */
    atomic_uint user_refs;
    const struct mr_rpc_stream_ops *ops;
    void *ctx;

    pthread_mutex_t lock; /* guards everything below */
    grpc_call *call;      /* NULL once it is over */
    unsigned pending;     /* batches that are out */
    bool status_seen;     /* nothing new may be started */
    bool cancelled;       /* by this side */
    bool receiving;
    bool receive_ended; /* the peer sends no more */
    bool sending;
    bool first_sent; /* WRITE_BUFFER_HINT on a stream's first message never completes */
    bool closing;    /* half close or finish was asked for */
    bool close_started;
    bool accepted; /* server: initial metadata was sent */
    int finish_code;
    char finish_message[MR_ERROR_MESSAGE_SIZE];

    struct mr_share *reply_share; /* NULL: nothing of the server's reply_bytes is taken; else */
    uint64_t reply_bytes;         /* so much */

    struct mr_rpc_first first; /* server */
    struct mr_grpc_tag start_tag;
    struct mr_grpc_tag status_tag;
    struct mr_grpc_tag receive_tag;
    struct mr_grpc_tag send_tag;
    struct mr_grpc_tag close_tag;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_byte_buffer *received;
    grpc_status_code status;
    grpc_slice details;
    int close_cancelled;
    char *peer;
};

static void stream_unref(struct mr_rpc_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1) {
        return;
    }
    gpr_free(s->peer);
    (void)pthread_mutex_destroy(&s->lock);
    mr_free(s);
}

mr_rpc_stream *mr_rpc_stream_ref(mr_rpc_stream *s)
{
    (void)atomic_fetch_add(&s->user_refs, 1);
    (void)atomic_fetch_add(&s->refs, 1);
    return s;
}

void mr_rpc_stream_unref(mr_rpc_stream *s)
{
    if (s == NULL || s->pid != getpid()) {
        return;
    }
    /* `closing` is the users' to set, and none is left. */
    if (atomic_fetch_sub(&s->user_refs, 1) == 1 && (s->calls == NULL || !s->closing)) {
        mr_rpc_stream_cancel(s);
    }
    stream_unref(s);
}

void mr_rpc_stream_cancel(mr_rpc_stream *s)
{
    if (s->pid != getpid()) {
        return;
    }
    MR_LOCK(&s->lock);
    if (s->call != NULL && !s->status_seen) {
        s->cancelled = true;
        (void)grpc_call_cancel(s->call, NULL);
    }
}

const char *mr_rpc_stream_peer(mr_rpc_stream *s)
{
    MR_LOCK(&s->lock);
    if (s->peer == NULL && s->call != NULL) {
        s->peer = grpc_call_get_peer(s->call);
    }
    return s->peer != NULL ? s->peer : "unknown";
}

const char *mr_rpc_stream_host(const mr_rpc_stream *s)
{
    return s->share->host;
}

const struct mr_rpc_who *mr_rpc_stream_who(const mr_rpc_stream *s)
{
    return &s->who;
}

/* ---- batches ---- */

static void start_locked(struct mr_rpc_stream *s, const grpc_op *ops, size_t n,
                         struct mr_grpc_tag *tag)
{
    grpc_call_error rc = grpc_call_start_batch(s->call, ops, n, tag, NULL);

    /* Anything else is a breach of the API's order, which the flags above keep. */
    MR_ASSERT(rc == GRPC_CALL_OK);
    s->pending++;
}

/* @reply NULL: none goes along. */
static void start_close_locked(struct mr_rpc_stream *s, grpc_byte_buffer *reply)
{
    grpc_slice text = grpc_slice_from_copied_string(s->finish_message);
    grpc_op ops[3];
    size_t n = 0;

    if (s->calls == NULL) {
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    } else {
        if (!s->accepted) {
            ops[n++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
        }
        if (reply != NULL) {
            ops[n++] =
                (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = reply};
        }
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                             .data.send_status_from_server = {
                                 .status = (grpc_status_code)mr_code_to_status(s->finish_code),
                                 .status_details = &text}};
    }
    s->close_started = true;
    start_locked(s, ops, n, &s->close_tag);
    grpc_slice_unref(text);
}

/* gRPC keeps a reply until the caller takes it, which it need not ever do: so its host has only its
 * share of all that is kept. Before the bytes are copied. */
static int charge_reply(struct mr_rpc_stream *s, size_t size, mr_error *err)
{
    if (size <= REPLY_FREE_BYTES) {
        return MR_OK;
    }
    MR_LOCK(&s->lock);
    if (s->call == NULL) {
        return MR_OK; /* and nothing is sent */
    }
    MR_LOCK(&s->calls->lock);
    s->reply_bytes = size;
    return mr_shares_take(&s->calls->reply_bytes, s->share->host, size, &s->reply_share, err);
}

static void give_back_reply(struct mr_rpc_stream *s)
{
    if (s->reply_share != NULL) {
        MR_LOCK(&s->calls->lock);
        mr_share_give(s->reply_share, s->reply_bytes);
    }
}

/* The last batch is back: hand over the end, let go of gRPC's part. Called without the lock, on the
 * runtime's thread. */
static void over(struct mr_rpc_stream *s)
{
    struct mr_rpc_runtime *rt = s->rt;
    struct mr_grpc_calls *calls = s->calls;
    struct mr_share *share = s->share;
    mr_error err;
    int rc;

    if (calls == NULL) {
        rc = mr_grpc_status_error(s->status, s->details, &err);
    } else {
        mr_rpc_first_came(&calls->ticker.firsts, &s->first);
        rc = s->close_cancelled != 0 ? mr_error_set(&err, MR_ECANCELED, "the client is gone")
                                     : MR_OK;
    }
    if (s->ops != NULL) {
        s->ops->ended(s->ctx, s, rc, rc < 0 ? &err : NULL);
    }
    mr_mutex_lock(&s->lock);
    grpc_call *call = s->call;
    s->call = NULL;
    mr_mutex_unlock(&s->lock);
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    if (s->received != NULL) {
        grpc_byte_buffer_destroy(s->received);
    }
    grpc_slice_unref(s->details);
    grpc_call_unref(call);
    give_back_reply(s);
    stream_unref(s);
    if (calls != NULL) {
        mr_grpc_calls_over(calls, share);
    } else {
        mr_grpc_call_ended(rt);
    }
}

static void batch_back(struct mr_rpc_stream *s)
{
    mr_mutex_lock(&s->lock);
    MR_ASSERT(s->pending > 0);
    s->pending--;
    bool done = s->pending == 0 && s->status_seen;
    mr_mutex_unlock(&s->lock);
    if (done) {
        over(s);
    }
}

static void on_start(struct mr_grpc_tag *tag, bool ok)
{
    batch_back(MR_RPC_CONTAINER(tag, struct mr_rpc_stream, start_tag));
}

static void on_close(struct mr_grpc_tag *tag, bool ok)
{
    batch_back(MR_RPC_CONTAINER(tag, struct mr_rpc_stream, close_tag));
}

static void on_status(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_stream *s = MR_RPC_CONTAINER(tag, struct mr_rpc_stream, status_tag);

    mr_mutex_lock(&s->lock);
    s->status_seen = true;
    mr_mutex_unlock(&s->lock);
    batch_back(s);
}

static void on_receive(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_stream *s = MR_RPC_CONTAINER(tag, struct mr_rpc_stream, receive_tag);

    if (s->calls != NULL) {
        mr_rpc_first_came(&s->calls->ticker.firsts, &s->first);
    }
    mr_mutex_lock(&s->lock);
    s->receiving = false;
    grpc_byte_buffer *bytes = s->received;
    s->received = NULL;
    s->receive_ended = !ok || bytes == NULL;
    bool ended = s->receive_ended;
    mr_mutex_unlock(&s->lock);
    if (!ended) {
        s->ops->message(s->ctx, s, mr_grpc_message(bytes));
    } else {
        grpc_byte_buffer_destroy(bytes);
        if (s->calls != NULL && s->method->accept == NULL) {
            mr_rpc_stream_finish(s, MR_EINVAL, "a call without a message");
        }
    }
    batch_back(s);
}

static void on_send(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_stream *s = MR_RPC_CONTAINER(tag, struct mr_rpc_stream, send_tag);

    mr_mutex_lock(&s->lock);
    s->sending = false;
    bool tell = ok && !s->status_seen && !s->closing;
    if (s->closing && !s->close_started && !s->status_seen) {
        start_close_locked(s, NULL);
    }
    mr_mutex_unlock(&s->lock);
    if (tell && s->ops->sent != NULL) {
        s->ops->sent(s->ctx, s);
    }
    batch_back(s);
}

void mr_rpc_stream_receive(mr_rpc_stream *s)
{
    const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->received};

    MR_LOCK(&s->lock);
    if (s->call == NULL || s->status_seen || s->receive_ended) {
        return;
    }
    MR_ASSERT(!s->receiving);
    s->receiving = true;
    start_locked(s, &op, 1, &s->receive_tag);
}

/* ---- sending ---- */

#define INLINE_SLICES 16

static void release_all(const struct mr_rpc_slice *slices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (slices[i].release != NULL) {
            slices[i].release(slices[i].ctx);
        }
    }
}

static grpc_slice make_slice(const struct mr_rpc_slice *s)
{
    if (s->release == NULL) {
        return grpc_slice_from_copied_buffer(s->data, s->size);
    }
    /* gRPC only reads what is sent. */
    return grpc_slice_new_with_user_data((void *)(uintptr_t)s->data, s->size, s->release, s->ctx);
}

static grpc_byte_buffer *make_bytes(const struct mr_rpc_slice *slices, size_t n)
{
    grpc_slice few[INLINE_SLICES];
    grpc_slice *list = n <= INLINE_SLICES ? few : mr_reallocarray(NULL, n, sizeof *list);

    if (list == NULL) {
        release_all(slices, n);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = make_slice(&slices[i]);
    }
    grpc_byte_buffer *bb = grpc_raw_byte_buffer_create(list, n);
    for (size_t i = 0; i < n; i++) {
        grpc_slice_unref(list[i]);
    }
    if (list != few) {
        mr_free(list);
    }
    return bb;
}

int mr_rpc_stream_send(mr_rpc_stream *s, const struct mr_rpc_slice *slices, size_t n,
                       bool more_follows, mr_error *err)
{
    int rc = MR_OK;

    MR_TRY(mr_grpc_check(s->rt, err));
    grpc_byte_buffer *bb = make_bytes(slices, n);
    MR_CHECK_ALLOC(bb, err);
    mr_mutex_lock(&s->lock);
    if (s->call == NULL || s->status_seen || s->closing || s->cancelled) {
        rc = mr_error_set(err, MR_ECANCELED, "sending on a stream that has ended");
    } else {
        MR_ASSERT(!s->sending);
        const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE,
                            .flags = more_follows && s->first_sent ? GRPC_WRITE_BUFFER_HINT : 0,
                            .data.send_message.send_message = bb};

        s->sending = true;
        s->first_sent = true;
        start_locked(s, &op, 1, &s->send_tag);
    }
    mr_mutex_unlock(&s->lock);
    grpc_byte_buffer_destroy(bb);
    return rc;
}

static void begin_close(struct mr_rpc_stream *s, int code, const char *message,
                        grpc_byte_buffer *reply)
{
    MR_LOCK(&s->lock);
    if (s->call == NULL || s->status_seen || s->closing) {
        return;
    }
    s->closing = true;
    s->finish_code = code;
    (void)snprintf(s->finish_message, sizeof s->finish_message, "%s",
                   message != NULL ? message : "");
    if (!s->sending) {
        start_close_locked(s, reply);
    }
}

void mr_rpc_stream_half_close(mr_rpc_stream *s)
{
    MR_ASSERT(s->calls == NULL);
    begin_close(s, MR_OK, NULL, NULL);
}

void mr_rpc_stream_finish(mr_rpc_stream *s, int code, const char *message)
{
    MR_ASSERT(s->calls != NULL);
    begin_close(s, code, message, NULL);
}

/* All in one batch. */
void mr_rpc_stream_reply(mr_rpc_stream *s, int code, const char *message, const void *bytes,
                         size_t size)
{
    grpc_byte_buffer *bb = NULL;
    mr_error err;

    if (code == MR_OK && charge_reply(s, size, &err) < 0) {
        code = MR_EUNAVAIL; /* As of calls: it may be asked again, here or elsewhere. */
        message = err.message;
    }
    if (code == MR_OK) {
        grpc_slice slice = grpc_slice_from_copied_buffer(bytes, size);

        bb = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
    }
    begin_close(s, code, message, bb);
    grpc_byte_buffer_destroy(bb); /* NULL is fine. */
}

/* ---- beginning ---- */

static struct mr_rpc_stream *stream_new(struct mr_rpc_runtime *rt)
{
    struct mr_rpc_stream *s = mr_calloc(1, sizeof *s);

    if (s == NULL) {
        return NULL;
    }
    s->rt = rt;
    s->pid = rt->pid;
    atomic_init(&s->refs, 2);
    atomic_init(&s->user_refs, 1);
    mr_mutex_init(&s->lock);
    mr_grpc_tag_init(&s->start_tag, on_start);
    mr_grpc_tag_init(&s->status_tag, on_status);
    mr_grpc_tag_init(&s->receive_tag, on_receive);
    mr_grpc_tag_init(&s->send_tag, on_send);
    mr_grpc_tag_init(&s->close_tag, on_close);
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    s->details = grpc_empty_slice();
    mr_grpc_call_began(rt);
    return s;
}

/* The two batches every client stream begins with. */
static grpc_call_error start_client(struct mr_rpc_stream *s, const grpc_op *metadata)
{
    const grpc_op ops[] = {*metadata,
                           {.op = GRPC_OP_RECV_INITIAL_METADATA,
                            .data.recv_initial_metadata.recv_initial_metadata = &s->initial}};
    const grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                            .data.recv_status_on_client = {.trailing_metadata = &s->trailing,
                                                           .status = &s->status,
                                                           .status_details = &s->details}};

    MR_LOCK(&s->lock);
    grpc_call_error rc = grpc_call_start_batch(s->call, ops, 2, &s->start_tag, NULL);
    if (rc == GRPC_CALL_OK) {
        s->pending++;
        start_locked(s, &status, 1, &s->status_tag);
    }
    return rc;
}

int mr_rpc_stream_open(mr_rpc_channel *ch, const char *path, const char *const *metadata,
                       int64_t timeout_ms, bool wait_for_ready, const struct mr_rpc_stream_ops *ops,
                       void *ctx, mr_rpc_stream **ret, mr_error *err)
{
    struct mr_grpc_beginning begun;

    MR_TRY(mr_rpc_check_metadata(metadata, err));
    MR_TRY(mr_grpc_check(ch->rt, err));
    struct mr_rpc_stream *s = stream_new(ch->rt);
    MR_CHECK_ALLOC(s, err);
    s->ops = ops;
    s->ctx = ctx;
    mr_grpc_begin(ch, path, metadata, timeout_ms, wait_for_ready, &begun);
    s->call = begun.call;
    *ret = s; /* Before the first callback can run. */
    grpc_call_error rv = start_client(s, &begun.metadata);
    mr_grpc_begun(&begun);
    if (rv != GRPC_CALL_OK) {
        *ret = NULL;
        grpc_call_unref(s->call);
        s->call = NULL;
        mr_grpc_call_ended(ch->rt);
        stream_unref(s);
        stream_unref(s);
        return mr_error_set(err, MR_EINVAL, "opening %s: %s", path, grpc_call_error_to_string(rv));
    }
    return MR_OK;
}

static void cut(struct mr_rpc_first *f, const char *why)
{
    struct mr_rpc_stream *s = MR_RPC_CONTAINER(f, struct mr_rpc_stream, first);

    MR_LOCK(&s->lock);
    if (s->call != NULL && !s->status_seen) {
        s->cancelled = true;
        (void)grpc_call_cancel_with_status(s->call, GRPC_STATUS_DEADLINE_EXCEEDED, why, NULL);
    }
}

/* Ask the guard who calls. */
static int ask(struct mr_rpc_stream *s, const struct mr_rpc_door *door, const char *token,
               mr_error *err)
{
    char spiffe[MR_GRPC_SPIFFE_SIZE];

    if (door->guard == NULL) {
        return MR_OK;
    }
    mr_grpc_spiffe_of(s->call, spiffe);
    const struct mr_rpc_caller caller = {
        .token = token, .spiffe = spiffe[0] != '\0' ? spiffe : NULL, .host = s->share->host};
    return door->guard(door->ctx, s->method->path, &caller, &s->who, err);
}

void mr_grpc_stream_serve(struct mr_grpc_calls *calls, const struct mr_rpc_door *door,
                          grpc_call *call, struct mr_share *share,
                          const struct mr_rpc_method *method, const char *path, const char *token)
{
    struct mr_rpc_stream *s = stream_new(calls->rt);
    mr_error err;

    if (s == NULL) {
        grpc_call_unref(call); /* The client sees the stream reset. */
        mr_grpc_calls_refused(calls, share);
        return;
    }
    s->calls = calls;
    s->share = share;
    s->method = method;
    s->call = call;
    const grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                        .data.recv_close_on_server.cancelled = &s->close_cancelled};

    int rc = method != NULL ? ask(s, door, token, &err) : mr_rpc_no_method(path, &err);
    mr_mutex_lock(&s->lock);
    start_locked(s, &op, 1, &s->status_tag);
    mr_mutex_unlock(&s->lock);
    if (rc < 0) {
        mr_rpc_stream_finish(s, rc, err.message);
        mr_rpc_stream_unref(s);
        return;
    }
    s->first.cut = cut;
    s->first.host = share->host;
    mr_rpc_first_wait(&calls->ticker.firsts, &s->first, mr_now_ms());
    mr_rpc_method_accept(method, s);
}

void mr_rpc_stream_accept(mr_rpc_stream *s, const struct mr_rpc_stream_ops *ops, void *ctx)
{
    const grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};

    MR_ASSERT(s->calls != NULL);
    MR_LOCK(&s->lock);
    MR_ASSERT(!s->accepted);
    s->ops = ops;
    s->ctx = ctx;
    s->accepted = s->method->accept != NULL; /* With a reply it goes in the batch of that. */
    if (s->accepted && s->call != NULL && !s->status_seen) {
        start_locked(s, &op, 1, &s->start_tag);
    }
}
