/*
 * Calls that have come and said nothing yet. One that is slow to send its first message holds memory, of gRPC's and
 * ours, before anybody could ask who it is: so each has some time, and when there are too many the oldest goes. What is
 * honest needs milliseconds.
 */
#include "rpc/internal.h"

void mr_rpc_firsts_init(struct mr_rpc_firsts *all, unsigned calls_max, int64_t wait_ms)
{
    TAILQ_INIT(&all->list);
    all->n = 0;
    all->calls_max = calls_max;
    all->wait_ms = wait_ms;
}

static void cut_oldest(struct mr_rpc_firsts *all, const char *why)
{
    struct mr_rpc_first *oldest = TAILQ_FIRST(&all->list);

    mr_rpc_first_came(all, oldest);
    oldest->cut(oldest, why);
}

void mr_rpc_first_wait(struct mr_rpc_firsts *all, struct mr_rpc_first *f, int64_t now_ms)
{
    f->until_ms = now_ms + all->wait_ms;
    f->waits = true;
    TAILQ_INSERT_TAIL(&all->list, f, link);
    if (++all->n > all->calls_max) {
        cut_oldest(all, "too many calls wait for their first message");
    }
}

void mr_rpc_first_came(struct mr_rpc_firsts *all, struct mr_rpc_first *f)
{
    if (f->waits) {
        f->waits = false;
        TAILQ_REMOVE(&all->list, f, link);
        all->n--;
    }
}

void mr_rpc_firsts_tick(struct mr_rpc_firsts *all, int64_t now_ms)
{
    while (!TAILQ_EMPTY(&all->list) && TAILQ_FIRST(&all->list)->until_ms <= now_ms) {
        cut_oldest(all, "the first message did not come in time");
    }
}
