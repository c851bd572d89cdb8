#include "rpc/grpc/internal.h"

#include "base/clock.h"

/* A connection attempt takes at most this long, and so does the pause between two. */
#define MR_RECONNECT_MS 500

/* With gRPC's poll engine (mr_rpc_keep_forkable()) our thread looks at a connection only while
 * something waits on it; between two calls nobody does but a backup poller, every 5 s. So a
 * channel's state is watched for as long as it lives: then a server that comes late is seen when it
 * comes. The watch ends when the channel is destroyed, and takes the rest along. */
static void watch_locked(struct mr_rpc_channel *ch)
{
    grpc_connectivity_state state =
        grpc_channel_check_connectivity_state(ch->channel, 0 /* do not connect */);

    grpc_channel_watch_connectivity_state(ch->channel, state, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                          ch->rt->cq, &ch->watch_tag);
}

static void on_state(struct mr_grpc_tag *tag, bool ok)
{
    struct mr_rpc_channel *ch = MR_RPC_CONTAINER(tag, struct mr_rpc_channel, watch_tag);
    struct mr_rpc_runtime *rt = ch->rt;

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
        mr_grpc_call_ended(rt);
    }
}

static void watch_begin(struct mr_rpc_channel *ch)
{
    ch->watched = true;
    mr_mutex_init(&ch->lock);
    mr_cond_init(&ch->changed);
    mr_grpc_tag_init(&ch->watch_tag, on_state);
    mr_grpc_call_began(ch->rt);
    mr_mutex_lock(&ch->lock);
    watch_locked(ch);
    mr_mutex_unlock(&ch->lock);
}

/* Also with the poll engine, a channel that is destroyed while it connects may leak the connection
 * attempt, and with it keep gRPC open for good. An attempt ends by itself within MR_RECONNECT_MS,
 * so wait for that. */
static void close_watched(struct mr_rpc_channel *ch)
{
    int64_t until = mr_now_ms() + 2 * MR_RECONNECT_MS;
    bool may_wait = !mr_rpc_is_own_thread();
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

int mr_rpc_channel_new(mr_rpc_runtime *rt, const char *address, mr_rpc_credentials *c,
                       mr_rpc_channel **ret, mr_error *err)
{
    const char *server_name = mr_grpc_server_name(c);
    grpc_arg args[] = {
        MR_INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY,
                   0), /* else $http_proxy is applied even to 127.0.0.1 */
        MR_INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
        MR_INT_ARG(GRPC_ARG_ENABLE_CHANNELZ, 0),
        MR_INT_ARG(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        MR_INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1), /* a new channel does not inherit another one's back-off */
        MR_INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)MR_RPC_REPLY_BYTES_MAX),
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
         .value = {.string = (char *)(uintptr_t)server_name}},
    };
    size_t n = sizeof args / sizeof args[0];
    grpc_channel_args list = {.num_args = server_name != NULL ? n : n - 1, .args = args};

    struct mr_address parsed;

    MR_TRY(mr_rpc_parse_address(address, &parsed, err));
    MR_TRY(mr_grpc_check(rt, err));
    struct mr_rpc_channel *ch = mr_calloc(1, sizeof *ch);
    MR_CHECK_ALLOC(ch, err);
    ch->rt = rt;
    ch->credentials = c;
    ch->channel = mr_grpc_channel_create(address, c, &list);
    if (mr_grpc_is_forkable()) {
        watch_begin(ch);
    }
    *ret = ch;
    return MR_OK;
}

void mr_rpc_channel_show_token(mr_rpc_channel *ch)
{
    ch->token = mr_grpc_token(ch->credentials);
}

void mr_rpc_channel_free(mr_rpc_channel *ch)
{
    if (ch == NULL || mr_grpc_inherited(ch->rt)) {
        return;
    }
    if (ch->watched) {
        close_watched(ch);
        return;
    }
    grpc_channel_destroy(ch->channel);
    mr_free(ch);
}
