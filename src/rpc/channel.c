/* Channels and the client side of unary calls. A unary call is one batch: it comes back once, with
 * everything. */
#include "rpc/internal.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sync.h"

#include <string.h>

#define MR_INT_ARG(name, n)                                                                        \
    {                                                                                              \
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)(name), .value = {.integer = (n) }     \
    }

/* A connection attempt takes at most this long, and so does the pause between two. */
#define MR_RECONNECT_MS 500

/* A reader's largest message is one element and its header. */
#define MR_CHANNEL_RECEIVE_MAX ((int)(MR_ELEMENT_BYTES_MAX + 16 * MR_MIB))

/*
 * With gRPC's poll engine (mr_rpc_keep_forkable()) our thread looks at a connection only while
 * something waits on it; between two calls nobody does but a backup poller, every 5 s. So a
 * channel's state is watched for as long as it lives: then a server that comes late is seen when it
 * comes. The watch ends when the channel is destroyed, and takes the rest along.
 */
static void watch_locked(mr_rpc_channel *ch)
{
    grpc_connectivity_state state =
        grpc_channel_check_connectivity_state(ch->channel, 0 /* do not connect */);

    grpc_channel_watch_connectivity_state(ch->channel, state, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                          ch->rt->cq, &ch->watch_tag);
}

static void on_state(struct mr_rpc_tag *tag, bool ok)
{
    mr_rpc_channel *ch = MR_CONTAINER(tag, mr_rpc_channel, watch_tag);
    mr_rpc_runtime *rt = ch->rt;

    (void)ok;
    mr_mutex_lock(&ch->lock);
    bool closing = ch->closing;
    if (!closing) {
        watch_locked(ch);
        (void)pthread_cond_broadcast(&ch->changed);
    }
    mr_mutex_unlock(&ch->lock);
    if (closing) {
        (void)pthread_cond_destroy(&ch->changed);
        (void)pthread_mutex_destroy(&ch->lock);
        mr_free(ch);
        mr_rpc_call_ended(rt);
    }
}

static void watch_begin(mr_rpc_channel *ch)
{
    ch->watched = true;
    mr_mutex_init(&ch->lock);
    mr_cond_init(&ch->changed);
    mr_rpc_tag_init(&ch->watch_tag, on_state);
    mr_rpc_call_began(ch->rt);
    mr_mutex_lock(&ch->lock);
    watch_locked(ch);
    mr_mutex_unlock(&ch->lock);
}

/*
 * Also with the poll engine, a channel that is destroyed while it connects may leak the connection
 * attempt, and with it keep gRPC open for good. An attempt ends by itself within MR_RECONNECT_MS,
 * so wait for that.
 */
static void close_watched(mr_rpc_channel *ch)
{
    int64_t until = mr_now_ms() + 2 * MR_RECONNECT_MS;
    bool may_wait = !pthread_equal(pthread_self(), ch->rt->thread);
    grpc_channel *channel = ch->channel;

    mr_mutex_lock(&ch->lock);
    while (may_wait && mr_now_ms() < until &&
           grpc_channel_check_connectivity_state(channel, 0) == GRPC_CHANNEL_CONNECTING) {
        (void)mr_cond_wait_ms(&ch->changed, &ch->lock, until - mr_now_ms());
    }
    ch->closing = true;
    mr_mutex_unlock(&ch->lock);
    grpc_channel_destroy(channel); /* on_state() frees @ch. */
}

static grpc_channel_credentials *credentials_of(const struct mr_rpc_tls *tls)
{
    grpc_ssl_pem_key_cert_pair pair;

    if (tls == NULL) {
        return grpc_insecure_credentials_create();
    }
    pair = (grpc_ssl_pem_key_cert_pair){.private_key = tls->key, .cert_chain = tls->cert};
    return grpc_ssl_credentials_create_ex(tls->ca, tls->cert != NULL ? &pair : NULL,
                                          NULL /* no further checks */, NULL);
}

int mr_rpc_channel_new(mr_rpc_runtime *rt, const char *address, const struct mr_rpc_tls *tls,
                       mr_rpc_channel **ret, mr_error *err)
{
    grpc_arg args[] = {
        MR_INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY,
                   0), /* else $http_proxy is applied even to 127.0.0.1 */
        MR_INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
        MR_INT_ARG(GRPC_ARG_ENABLE_CHANNELZ, 0),
        MR_INT_ARG(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        MR_INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1), /* a new channel does not inherit another one's back-off */
        MR_INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MR_CHANNEL_RECEIVE_MAX),
        MR_INT_ARG(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 10000),
        MR_INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000),
        MR_INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA,
                   0), /* streams that are silent for long are normal */
        MR_INT_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        MR_INT_ARG(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, MR_RECONNECT_MS),
        MR_INT_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, MR_RECONNECT_MS),
        MR_INT_ARG(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000),
        /* The last one: left out without a name. */
        {.type = GRPC_ARG_STRING,
         .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
         .value = {.string = (char *)(uintptr_t)(tls != NULL ? tls->server_name : NULL)}},
    };
    size_t n = sizeof args / sizeof args[0];
    grpc_channel_args list = {.num_args = tls != NULL && tls->server_name != NULL ? n : n - 1,
                              .args = args};
    int rc = mr_rpc_check(rt, err);

    if (rc < 0) {
        return rc;
    }
    if (!mr_address_is_valid(address)) {
        return mr_error_set(err, MR_EINVAL,
                            "'%.120s' is no address to connect to: host:port is wanted", address);
    }
    mr_rpc_channel *ch = mr_calloc(1, sizeof *ch);
    if (ch == NULL) {
        return mr_error_nomem(err);
    }
    grpc_channel_credentials *creds = credentials_of(tls);
    ch->rt = rt;
    ch->channel = grpc_channel_create(address, creds, &list);
    grpc_channel_credentials_release(creds);
    if (mr_rpc_is_forkable()) {
        watch_begin(ch);
    }
    *ret = ch;
    return MR_OK;
}

void mr_rpc_channel_free(mr_rpc_channel *ch)
{
    if (ch == NULL || mr_rpc_inherited(ch->rt)) {
        return;
    }
    if (ch->watched) {
        close_watched(ch);
        return;
    }
    grpc_channel_destroy(ch->channel);
    mr_free(ch);
}

/* ---- unary ---- */

struct mr_rpc_call {
    struct mr_rpc_tag tag;
    atomic_uint refs; /* one is gRPC's until the batch is back */
    mr_rpc_runtime *rt;
    pthread_mutex_t lock;
    grpc_call *call; /* lock; NULL once it is over */
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
static void drop_call(mr_rpc_call *call)
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

static void call_over(struct mr_rpc_tag *tag, bool ok)
{
    mr_rpc_call *call = MR_CONTAINER(tag, mr_rpc_call, tag);
    mr_rpc_runtime *rt = call->rt;
    mr_error err;
    const void *bytes = NULL;
    void *copy = NULL;
    size_t size = 0;

    (void)ok; /* A batch with RECV_STATUS always succeeds; the status tells. */
    int rc = mr_rpc_status_error(call->status, call->details, &err);
    if (rc == MR_OK && call->reply == NULL) {
        rc = mr_error_set(&err, MR_EINTERNAL, "an answer without a message");
    }
    if (rc == MR_OK) {
        bytes = mr_rpc_bytes_flat(call->reply, &size, &copy);
        if (bytes == NULL) {
            rc = mr_error_nomem(&err);
        }
    }
    if (copy !=
        NULL) { /* What came in pieces may be large, and whoever asked for it makes a copy: not a
                   third one. */
        grpc_byte_buffer_destroy(call->reply);
        call->reply = NULL;
    }
    call->done(call->ctx, rc, bytes, size, rc < 0 ? &err : NULL);
    mr_free(copy);
    drop_call(call);
    mr_rpc_call_unref(call);
    mr_rpc_call_ended(rt);
}

static grpc_call_error start_unary(mr_rpc_call *call, const void *request, size_t size,
                                   grpc_metadata *md, size_t nmd, bool wait_for_ready)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(request, size);
    grpc_byte_buffer *bb = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_op ops[6];

    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].flags = wait_for_ready ? GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                                        GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET
                                  : 0;
    ops[0].data.send_initial_metadata.count = nmd;
    ops[0].data.send_initial_metadata.metadata = md;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = bb;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &call->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[5].data.recv_status_on_client.status = &call->status;
    ops[5].data.recv_status_on_client.status_details = &call->details;

    mr_mutex_lock(&call->lock);
    grpc_call_error rc = grpc_call_start_batch(call->call, ops, 6, &call->tag, NULL);
    mr_mutex_unlock(&call->lock);
    grpc_byte_buffer_destroy(bb);
    grpc_slice_unref(slice);
    return rc;
}

int mr_rpc_unary(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                 const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err)
{
    grpc_metadata md[MR_RPC_METADATA_MAX];
    size_t nmd = 0;
    int rc = mr_rpc_check(ch->rt, err);

    if (rc == MR_OK) {
        rc = mr_rpc_metadata_make(metadata, md, &nmd, err);
    }
    if (rc < 0) {
        return rc;
    }
    mr_rpc_call *call = mr_calloc(1, sizeof *call);
    if (call == NULL) {
        mr_rpc_metadata_drop(md, nmd);
        return mr_error_nomem(err);
    }
    mr_rpc_tag_init(&call->tag, call_over);
    atomic_init(&call->refs, 2);
    call->rt = ch->rt;
    mr_mutex_init(&call->lock);
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    call->details = grpc_empty_slice();
    call->done = done;
    call->ctx = ctx;
    mr_rpc_call_began(ch->rt);
    grpc_slice method = grpc_slice_from_copied_string(path);
    call->call = grpc_channel_create_call(ch->channel, NULL, GRPC_PROPAGATE_DEFAULTS, ch->rt->cq,
                                          method, NULL, mr_rpc_deadline(timeout_ms), NULL);
    grpc_slice_unref(method);
    grpc_call_error rv = start_unary(call, request, size, md, nmd, wait_for_ready);
    mr_rpc_metadata_drop(md, nmd);
    if (rv != GRPC_CALL_OK) {
        drop_call(call);
        mr_rpc_call_ended(ch->rt);
        mr_rpc_call_unref(call);
        mr_rpc_call_unref(call);
        return mr_error_set(err, MR_EINVAL, "calling %s: %s", path, grpc_call_error_to_string(rv));
    }
    *ret = call;
    return MR_OK;
}

/* ---- waiting ---- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over; /* lock */
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

    MR_ASSERT(!pthread_equal(pthread_self(), ch->rt->thread));
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
