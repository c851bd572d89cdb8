#include "rpc/first.h"

void mr_rpc_firsts_init(struct mr_rpc_firsts *all, unsigned calls_max, int64_t wait_ms)
{
    TAILQ_INIT(&all->list);
    mr_shares_init(&all->hosts, "calls without a message", calls_max);
    all->wait_ms = wait_ms;
}

void mr_rpc_firsts_free(struct mr_rpc_firsts *all)
{
    MR_ASSERT(TAILQ_EMPTY(&all->list));
    mr_shares_free(&all->hosts);
}

static void cut(struct mr_rpc_firsts *all, struct mr_rpc_first *f, const char *why)
{
    mr_rpc_first_came(all, f);
    f->cut(f, why);
}

/* There are too many: whoever opened most of them has one less. */
static void make_room(struct mr_rpc_firsts *all)
{
    const struct mr_share *largest = mr_shares_largest(&all->hosts);
    struct mr_rpc_first *oldest;

    TAILQ_FOREACH(oldest, &all->list, link) {
        if (oldest->waiting == largest) {
            break;
        }
    }
    cut(all, oldest, "too many calls wait for their first message, most of them from this host");
}

void mr_rpc_first_wait(struct mr_rpc_firsts *all, struct mr_rpc_first *f, int64_t now_ms)
{
    f->until_ms = now_ms + all->wait_ms;
    f->waits = true;
    f->waiting = mr_shares_add(&all->hosts, f->host, 1);
    TAILQ_INSERT_TAIL(&all->list, f, link);
    if (f->waiting == NULL) {
        cut(all, f, "out of memory");
    } else if (all->hosts.taken > all->hosts.max) {
        make_room(all);
    }
}

void mr_rpc_first_came(struct mr_rpc_firsts *all, struct mr_rpc_first *f)
{
    if (f->waits) {
        f->waits = false;
        TAILQ_REMOVE(&all->list, f, link);
        mr_share_give(f->waiting, 1);
        f->waiting = NULL;
    }
}

void mr_rpc_firsts_tick(struct mr_rpc_firsts *all, int64_t now_ms)
{
    while (!TAILQ_EMPTY(&all->list) && TAILQ_FIRST(&all->list)->until_ms <= now_ms) {
        cut(all, TAILQ_FIRST(&all->list), "the first message did not come in time");
    }
}
