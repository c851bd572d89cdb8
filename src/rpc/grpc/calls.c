/* The calls of a server that gRPC still works on, and what each host has of them. */
#include "rpc/grpc/internal.h"

#include "base/clock.h"

void mr_grpc_calls_init(struct mr_grpc_calls *calls, struct mr_rpc_runtime *rt,
                        const struct mr_rpc_limits *l)
{
    calls->rt = rt;
    mr_mutex_init(&calls->lock);
    mr_cond_init(&calls->changed);
    mr_shares_init(&calls->open, "open calls", l->calls);
    mr_shares_init(&calls->reply_bytes, "bytes of replies that were not taken", l->reply_bytes);
    mr_rpc_firsts_init(&calls->ticker.firsts, l->silent_calls, l->silent_ms);
}

void mr_grpc_calls_free(struct mr_grpc_calls *calls)
{
    mr_shares_free(&calls->open);
    mr_shares_free(&calls->reply_bytes);
    mr_rpc_firsts_free(&calls->ticker.firsts);
    (void)pthread_cond_destroy(&calls->changed);
    (void)pthread_mutex_destroy(&calls->lock);
}

void mr_grpc_calls_tick(struct mr_grpc_calls *calls, bool on)
{
    MR_LOCK(&calls->rt->tickers_lock);
    if (on) {
        LIST_INSERT_HEAD(&calls->rt->tickers, &calls->ticker, link);
    } else {
        LIST_REMOVE(&calls->ticker, link);
    }
}

static void busy_locked(struct mr_grpc_calls *calls, int n)
{
    calls->busy = (unsigned)((int)calls->busy + n);
    if (calls->busy == 0) {
        (void)pthread_cond_broadcast(&calls->changed);
    }
}

void mr_grpc_calls_busy(struct mr_grpc_calls *calls, int n)
{
    MR_LOCK(&calls->lock);
    busy_locked(calls, n);
}

int mr_grpc_calls_take(struct mr_grpc_calls *calls, const char *host, struct mr_share **ret,
                       mr_error *err)
{
    MR_LOCK(&calls->lock);
    return mr_shares_take(&calls->open, host, 1, ret, err);
}

void mr_grpc_calls_refused(struct mr_grpc_calls *calls, struct mr_share *share)
{
    MR_LOCK(&calls->lock);
    mr_share_give(share, 1);
    busy_locked(calls, -1);
}

void mr_grpc_calls_over(struct mr_grpc_calls *calls, struct mr_share *share)
{
    struct mr_rpc_runtime *rt = calls->rt;

    mr_grpc_calls_refused(calls, share);
    mr_grpc_call_ended(rt); /* @calls may be gone. */
}

bool mr_grpc_calls_wait(struct mr_grpc_calls *calls, int64_t timeout_ms)
{
    int64_t until = mr_now_ms() + timeout_ms;

    MR_LOCK(&calls->lock);
    while (!calls->shut_down || calls->busy > 0) {
        int64_t left = timeout_ms < 0 ? -1 : until - mr_now_ms();

        if (timeout_ms >= 0 && left <= 0) {
            return false;
        }
        (void)mr_cond_wait_ms(&calls->changed, &calls->lock, left);
    }
    return true;
}
