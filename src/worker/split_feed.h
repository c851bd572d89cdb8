/*
 * Splits on their way from the dispatcher to the engine. The engine takes ranges; somebody else
 * (the asker) waits here until the next grant is needed, asks for it, and hands in the answer. The
 * next grant is asked for when half of the current one was taken, and sized to last about two
 * seconds at the measured rate; so a dispatcher that is away for a moment is not noticed.
 *
 * Requests are numbered per provider: one at a time, the next number only after an answer
 * (GetSplits, service.proto).
 *
 * A feed that tracks (AT_LEAST_ONCE) marks what it gives to the engine and so knows which grants
 * are finished: all their splits were read to the end and nothing that descends from them is alive.
 * Only so many grants are told apart; while that many are open, the youngest is joined by those
 * that come after it, and they are finished together.
 *
 * A feed that drains asks for no more, gives back what the engine has not taken, and then tells the
 * engine that this repetition and every later one are over. Until it is known that it may give
 * back, nothing is taken either; if it may not, the engine takes what is there.
 *
 * Threads: the engine's side from any of the engine's threads, the asker's side from one thread;
 * cancel from any. Its lock is taken last: nothing else is locked under it.
 */
#ifndef MR_WORKER_SPLIT_FEED_H
#define MR_WORKER_SPLIT_FEED_H

#include "engine/engine.h"

typedef struct mr_split_feed mr_split_feed;

#define MR_SPLITS_BACK_MAX 64u /* ranges in one request; what is more goes with the next one */

/* Splits to be given back, of the repetition that they were handed out of. */
struct mr_split_back {
    uint64_t repetition;
    struct mr_range range;
};

struct mr_split_request {
    uint32_t provider;
    uint64_t repetition;
    uint64_t seq;    /* 0 before the first */
    uint64_t want;   /* 0: not known yet */
    uint32_t n_back; /* > 0: nothing is asked for, these are given back; ascending, apart */
    struct mr_split_back back[MR_SPLITS_BACK_MAX];
};

struct mr_split_answer {
    const struct mr_range *ranges;
    size_t n;
    int64_t ahead; /* of the repetition that was asked for: where the ranges are from */
    bool end;
    bool keep; /* what was to be given back was not taken: the engine has to read it */
};

/* @track: know which grants are finished. MR_EUNIMPL with more providers than could be told
 * apart. */
int mr_split_feed_new(uint32_t providers, bool track, mr_split_feed **ret, mr_error *err);
void mr_split_feed_free(mr_split_feed *feed); /* nobody waits in it any more; NULL is fine */
/* Its engine side. */
struct mr_split_source mr_split_feed_source(mr_split_feed *feed);

/* Wait until a grant is needed. false: cancelled or failed, the asker goes. */
bool mr_split_feed_wait(mr_split_feed *feed, struct mr_split_request *ret);
/* The answer; ranges are copied. A negative code fails the feed. */
int mr_split_feed_answer(mr_split_feed *feed, const struct mr_split_request *req,
                         const struct mr_split_answer *answer, mr_error *err);

/* From here on it drains. */
void mr_split_feed_drain(mr_split_feed *feed);
bool mr_split_feed_is_draining(mr_split_feed *feed);
/* It drains, and everything that can be given back has been. */
bool mr_split_feed_has_given_back(mr_split_feed *feed);
/* It drains, and the engine has never asked it for anything: there is nothing in the pipeline. */
bool mr_split_feed_is_untouched(mr_split_feed *feed);
/* An end that the dispatcher had not told was told because it drains: the pipeline's end means
 * nothing. */
bool mr_split_feed_was_cut(mr_split_feed *feed);

/*
 * Breaking off: whoever waits is told, and from here on no grant becomes finished, since what is
 * alive is dropped unread. To be called before anything is dropped.
 */
void mr_split_feed_fail(mr_split_feed *feed, const mr_error *why);
void mr_split_feed_cancel(mr_split_feed *feed);
/* The pipeline came to its end: nobody asks or is asked any more; what is still to be returned is
 * followed on. */
void mr_split_feed_close(mr_split_feed *feed);

#define MR_SPLIT_REPORT_RANGES_MAX (MR_MARKS_MAX + 1)
/*
 * The numbers of the grants of @provider that are finished, as ranges: ascending, apart. Returns
 * how many ranges; 0 if the feed does not track. Answers without splits count as finished. Any
 * thread.
 */
size_t mr_split_feed_finished(mr_split_feed *feed, uint32_t provider,
                              struct mr_range ranges[MR_SPLIT_REPORT_RANGES_MAX]);

#endif
