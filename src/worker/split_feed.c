#include "worker/split_feed.h"

#include "base/clock.h"
#include "base/sync.h"

struct mr_split_feed {
    pthread_mutex_t lock; /* guards `splits` */
    pthread_cond_t changed;
    mr_splits *splits;
};

int mr_split_feed_new(uint32_t providers, bool track, mr_split_feed **ret, mr_error *err)
{
    mr_split_feed *feed = mr_calloc(1, sizeof *feed);

    MR_CHECK_ALLOC(feed, err);
    int rc = mr_splits_new(providers, track, &feed->splits, err);
    if (rc < 0) {
        mr_free(feed);
        return rc;
    }
    mr_mutex_init(&feed->lock);
    mr_cond_init(&feed->changed);
    *ret = feed;
    return MR_OK;
}

void mr_split_feed_free(mr_split_feed *feed)
{
    if (feed == NULL) {
        return;
    }
    mr_splits_free(feed->splits);
    (void)pthread_cond_destroy(&feed->changed);
    (void)pthread_mutex_destroy(&feed->lock);
    mr_free(feed);
}

static int feed_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                     mr_origin **origin, mr_error *err)
{
    mr_split_feed *feed = ctx;
    int rc;

    MR_LOCK(&feed->lock);
    mr_splits_read_on(feed->splits, provider, repetition, mr_now_ms());
    (void)pthread_cond_broadcast(&feed->changed); /* The asker may have something to ask for. */
    while ((rc = mr_splits_take(feed->splits, provider, repetition, ret, origin, err)) ==
           MR_TIMEOUT) {
        /* Nobody is woken from here: two that wait would keep each other awake. */
        mr_cond_wait(&feed->changed, &feed->lock);
    }
    (void)pthread_cond_broadcast(&feed->changed); /* ... and again, now that some were taken. */
    return rc;
}

static void feed_cancel(void *ctx)
{
    mr_split_feed_cancel(ctx);
}

struct mr_split_source mr_split_feed_source(mr_split_feed *feed)
{
    return (struct mr_split_source){.ctx = feed, .next = feed_next, .cancel = feed_cancel};
}

bool mr_split_feed_wait(mr_split_feed *feed, struct mr_split_request *ret)
{
    MR_LOCK(&feed->lock);
    while (!mr_splits_request(feed->splits, mr_now_ms(), ret)) {
        if (mr_splits_are_over(feed->splits)) {
            return false;
        }
        mr_cond_wait(&feed->changed, &feed->lock);
    }
    return true;
}

int mr_split_feed_answer(mr_split_feed *feed, const struct mr_split_request *req,
                         const Millrace__GetSplitsReply *answer, mr_error *err)
{
    MR_LOCK(&feed->lock);
    (void)pthread_cond_broadcast(&feed->changed);
    return mr_splits_answer(feed->splits, req, answer, err);
}

void mr_split_feed_finished(mr_split_feed *feed, uint32_t provider, struct mr_grant_report *ret)
{
    MR_LOCK(&feed->lock);
    mr_splits_finished(feed->splits, provider, ret);
}

void mr_split_feed_tell(mr_split_feed *feed, void (*what)(mr_splits *splits))
{
    MR_LOCK(&feed->lock);
    what(feed->splits);
    (void)pthread_cond_broadcast(&feed->changed);
}

bool mr_split_feed_is(mr_split_feed *feed, bool (*is)(const mr_splits *splits))
{
    MR_LOCK(&feed->lock);
    return is(feed->splits);
}

void mr_split_feed_fail(mr_split_feed *feed, const mr_error *why)
{
    MR_LOCK(&feed->lock);
    mr_splits_fail(feed->splits, why);
    (void)pthread_cond_broadcast(&feed->changed);
}

void mr_split_feed_cancel(mr_split_feed *feed)
{
    mr_error why;

    (void)mr_error_set(&why, MR_ECANCELED, "the task was cancelled");
    mr_split_feed_fail(feed, &why);
}
