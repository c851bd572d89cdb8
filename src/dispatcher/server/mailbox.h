/*
 * What happened, for the loop: a queue that any thread puts into and one takes from. Calls are
 * bounded, and how many of them one host may have (base/shares.h), until they are answered and
 * freed, wherever they wait; the rest is bounded by what causes it (requests to the store,
 * streams), and must not be lost.
 *
 * Threads: put from any, take and free from the loop's.
 */
#pragma once

#include "base/limits.h"
#include "base/shares.h"
#include "dispatcher/server/call.h"
#include "dispatcher/turn/turn.h"

#include <pthread.h>

/* Of calls that were not answered yet: how many, and their requests. A host alone has two of the
 * largest definitions. */
#define MR_CALLS_MAX 32768
#define MR_CALL_BYTES_MAX (4 * MR_RPC_DEFINITION_BYTES_MAX)

struct mr_mailbox {
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t wake;
    struct mr_item *head;
    struct mr_item **tail;
    size_t calls;                /* that nobody has taken yet */
    struct mr_shares live;       /* calls, wherever they wait */
    struct mr_shares live_bytes; /* of their requests */
};

void mr_mailbox_init(struct mr_mailbox *m);
void mr_mailbox_destroy(struct mr_mailbox *m); /* it must be empty */
/* A copy of @item is queued. */
void mr_mailbox_put(struct mr_mailbox *m, const struct mr_item *item);
/* Calls: MR_EEXHAUSTED when @host has its share already; the call is still the caller's then. */
int mr_mailbox_put_call(struct mr_mailbox *m, struct mr_server_call *call, const char *host,
                        mr_error *err);
/* It is about to be freed. */
void mr_mailbox_call_over(struct mr_mailbox *m, struct mr_server_call *call);
/* Calls that nobody has taken yet. */
size_t mr_mailbox_calls(struct mr_mailbox *m);
/* Of the requests of all that live. */
uint64_t mr_mailbox_call_bytes(struct mr_mailbox *m);
/* All that is there, as a list to be freed one by one; waits up to @timeout_ms for the first. */
struct mr_item *mr_mailbox_take(struct mr_mailbox *m, int64_t timeout_ms);
