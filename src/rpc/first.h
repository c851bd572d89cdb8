/*
 * Calls that have come and said nothing yet. One that is slow to send its first message holds
 * memory, of gRPC's and ours, before anybody could ask who it is: so each has some time, and when
 * there are too many some go. What is honest needs milliseconds. "Too many" is first of all the
 * fault of the host that has most: the oldest of its calls goes.
 *
 * Threads: one at a time; `cut` runs within the call.
 */
#pragma once

#include "base/base.h"
#include "base/shares.h"

#include <sys/queue.h>

struct mr_rpc_first {
    TAILQ_ENTRY(mr_rpc_first) link;
    int64_t until_ms;
    bool waits;
    struct mr_share *waiting; /* of its host, while it waits */
    const char *host;         /* lent while it waits */
    void (*cut)(struct mr_rpc_first *f,
                const char *why); /* end the call; it is off the list by then */
};

struct mr_rpc_firsts {
    TAILQ_HEAD(, mr_rpc_first) list; /* the oldest first */
    struct mr_shares hosts;          /* of those who wait */
    int64_t wait_ms;
};

void mr_rpc_firsts_init(struct mr_rpc_firsts *all, unsigned calls_max, int64_t wait_ms);
void mr_rpc_firsts_free(struct mr_rpc_firsts *all); /* nobody may wait */
void mr_rpc_first_wait(struct mr_rpc_firsts *all, struct mr_rpc_first *f, int64_t now_ms);
/* or the call is over; may be told twice */
void mr_rpc_first_came(struct mr_rpc_firsts *all, struct mr_rpc_first *f);
void mr_rpc_firsts_tick(struct mr_rpc_firsts *all, int64_t now_ms);
