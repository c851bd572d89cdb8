/*
 * The split feed of a task: splits.h with a lock and a clock. The engine's threads wait here for
 * splits, the asker until the next request is due.
 *
 * Threads: the engine's side from any of the engine's threads, the asker's side from one thread;
 * the rest from any. Its lock is taken last: nothing else is locked under it.
 */
#pragma once

#include "worker/session/splits.h"

typedef struct mr_split_feed mr_split_feed;

/* As mr_splits_new(). */
int mr_split_feed_new(uint32_t providers, bool track, mr_split_feed **ret, mr_error *err);
void mr_split_feed_free(mr_split_feed *feed); /* nobody waits in it any more; NULL is fine */
/* Its engine side. */
struct mr_split_source mr_split_feed_source(mr_split_feed *feed);

/* Wait until a request is due. false: closed, cancelled or failed, the asker goes. */
bool mr_split_feed_wait(mr_split_feed *feed, struct mr_split_request *ret);
/* The answer; ranges are copied. A negative code: the feed is to be failed. */
int mr_split_feed_answer(mr_split_feed *feed, const struct mr_split_request *req,
                         const Millrace__GetSplitsReply *answer, mr_error *err);
void mr_split_feed_finished(mr_split_feed *feed, uint32_t provider, struct mr_grant_report *ret);

/* A question of splits.h, as mr_splits_were_cut(). */
bool mr_split_feed_is(mr_split_feed *feed, bool (*is)(const mr_splits *splits));
/* mr_splits_drain() or mr_splits_close(); whoever waits is woken. */
void mr_split_feed_tell(mr_split_feed *feed, void (*what)(mr_splits *splits));
/* As mr_splits_fail(); the same. */
void mr_split_feed_fail(mr_split_feed *feed, const mr_error *why);
void mr_split_feed_cancel(mr_split_feed *feed); /* fails it with MR_ECANCELED */
