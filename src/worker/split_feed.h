/*
 * Splits on their way from the dispatcher to the engine. The engine takes ranges; somebody else (the asker) waits here
 * until the next grant is needed, asks for it, and hands in the answer. The next grant is asked for when half of the
 * current one was taken, and sized to last about two seconds at the measured rate; so a dispatcher that is away for a
 * moment is not noticed.
 *
 * Requests are numbered per provider: one at a time, the next number only after an answer (GetSplits, service.proto).
 *
 * Threads: the engine's side from any of the engine's threads, the asker's side from one thread; cancel from any. Its
 * lock is taken last: nothing else is locked under it.
 */
#ifndef MR_WORKER_SPLIT_FEED_H
#define MR_WORKER_SPLIT_FEED_H

#include "engine/engine.h"

typedef struct mr_split_feed mr_split_feed;

struct mr_split_request {
    uint32_t provider;
    uint64_t repetition;
    uint64_t seq;  /* 0 before the first */
    uint64_t want; /* 0: not known yet */
};

int mr_split_feed_new(uint32_t providers, mr_split_feed **ret, mr_error *err);
void mr_split_feed_free(mr_split_feed *feed); /* nobody waits in it any more; NULL is fine */
/* Its engine side. */
struct mr_split_source mr_split_feed_source(mr_split_feed *feed);

/* Wait until a grant is needed. false: cancelled or failed, the asker goes. */
bool mr_split_feed_wait(mr_split_feed *feed, struct mr_split_request *ret);
/* The answer; ranges are copied. A negative code fails the feed. */
int mr_split_feed_answer(mr_split_feed *feed, const struct mr_split_request *req, const struct mr_range *ranges,
                         size_t n, bool end, mr_error *err);
void mr_split_feed_fail(mr_split_feed *feed, const mr_error *why);
void mr_split_feed_cancel(mr_split_feed *feed);

#endif
