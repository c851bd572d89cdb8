/*
 * Splits on their way from the dispatcher to the engine, which takes them piece by piece. The next
 * grant is asked for when half of the current one was taken, and sized to last about two seconds at
 * the measured rate; so a dispatcher that is away for a moment is not noticed.
 *
 * Requests are numbered per provider: one at a time, the next number only after an answer
 * (GetSplits, service.proto).
 *
 * With tracking (AT_LEAST_ONCE) it marks what it gives to the engine and so knows which grants are
 * finished: all their splits were read to the end and nothing that descends from them is alive.
 * Only so many grants are told apart; while that many are open, the youngest is joined by those
 * that come after it, and they are finished together.
 *
 * Draining, it asks for no more, gives back what the engine has not taken, and then tells the
 * engine that this repetition and every later one are over. Until it is known that it may give
 * back, nothing is taken either; if it may not, the engine takes what is there.
 *
 * Pure: no I/O, no clock, no lock. One owner at a time (but origins may be let go by any thread).
 * In production split_feed.c drives it, in tests/sim the simulated worker.
 */
#pragma once

#include "element/origin.h"
#include "engine/engine.h" /* struct mr_range */
#include "millrace/service.pb-c.h"

typedef struct mr_splits mr_splits;

#define MR_SPLITS_BACK_MAX 64u /* ranges in one request; what is more goes with the next one */

/* A message and what it points to, but for who asks: not to be copied or moved. With `given_back`
 * nothing is asked for. */
struct mr_split_request {
    Millrace__GetSplitsRequest base;
    Millrace__GivenBackRange back[MR_SPLITS_BACK_MAX];
    Millrace__GivenBackRange *pointers[MR_SPLITS_BACK_MAX];
};

/* @track: know which grants are finished. MR_EUNIMPL with more providers than could be told apart.
 * */
int mr_splits_new(uint32_t providers, bool track, mr_splits **ret, mr_error *err);
void mr_splits_free(mr_splits *splits); /* NULL is fine */

/* ---- the engine's side ---- */

/* The engine reads on in @repetition of @provider: it is through with the piece that it took
 * before. */
void mr_splits_read_on(mr_splits *splits, uint32_t provider, uint64_t repetition, int64_t now_ms);
/* ... and takes a piece: MR_OK; MR_END: that repetition is over; MR_TIMEOUT: nothing is here yet,
 * try again when something has changed; or the error with which it was broken off. *@origin is the
 * caller's reference, or NULL. */
int mr_splits_take(mr_splits *splits, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                   mr_origin **origin, mr_error *err);

/* ---- the dispatcher's side ---- */

/* The next request that is due. false: none, before something has changed. */
bool mr_splits_request(mr_splits *splits, int64_t now_ms, struct mr_split_request *ret);
/* The answer; ranges are copied. A negative code: it cannot go on, and is to be failed. */
int mr_splits_answer(mr_splits *splits, const struct mr_split_request *req,
                     const Millrace__GetSplitsReply *answer, mr_error *err);

#define MR_SPLIT_REPORT_RANGES_MAX (MR_MARKS_MAX + 1)
/* A message and what it points to: not to be copied or moved. */
struct mr_grant_report {
    Millrace__GrantReport base;
    Millrace__SplitRange ranges[MR_SPLIT_REPORT_RANGES_MAX];
    Millrace__SplitRange *pointers[MR_SPLIT_REPORT_RANGES_MAX];
};
/* The numbers of the grants of @provider that are finished, as ranges: ascending, apart; none
 * without tracking. Answers without splits count as finished. */
void mr_splits_finished(mr_splits *splits, uint32_t provider, struct mr_grant_report *ret);

/* ---- draining ---- */

void mr_splits_drain(mr_splits *splits);
bool mr_splits_are_draining(const mr_splits *splits);
/* It drains, and everything that can be given back has been. */
bool mr_splits_have_given_back(const mr_splits *splits);
/* It drains, and the engine has never asked for anything: there is nothing in the pipeline. */
bool mr_splits_are_untouched(const mr_splits *splits);
/* An end that the dispatcher had not told was told because it drains: the pipeline's end means
 * nothing. */
bool mr_splits_were_cut(const mr_splits *splits);

/* ---- the end ---- */

/* Breaking off: whoever asks is told @why, and from here on no grant becomes finished, since what
 * is alive is dropped unread. To be called before anything is dropped. */
void mr_splits_fail(mr_splits *splits, const mr_error *why);
/* The pipeline came to its end: nobody asks or is asked any more; what is still to be returned is
 * followed on. */
void mr_splits_close(mr_splits *splits);
bool mr_splits_are_over(const mr_splits *splits);

/* For assertions: do counts and marks agree with what is queued and open? */
bool mr_splits_check(const mr_splits *splits);
