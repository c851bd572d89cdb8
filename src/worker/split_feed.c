#include "worker/split_feed.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sync.h"

#include <millrace/dataset.h> /* mr_free */
#include <string.h>

/* A grant is taken in so many pieces, so that one can see when half of it is used. */
#define PIECES_PER_GRANT 4u
/* What one grant is to last. */
#define GRANT_MS 2000u
/* Taken for the time that passed before the first measurement, so that a burst at the start does not count for much. */
#define RATE_PRIOR_MS 1000u
/* After so long older measurements count half. */
#define RATE_WINDOW_MS 4000u

struct provider {
    uint64_t repetition;
    uint64_t seq; /* of the last request */
    bool wanted;  /* the engine reads it */
    bool asked;   /* a request is out */
    bool ended;   /* this repetition */
    struct mr_range *ranges;
    size_t n;
    size_t cap;
    uint64_t queued; /* splits in them */
    uint64_t grant;  /* splits of the last answer */
    uint64_t taken;  /* by the engine, not finished yet */
    uint64_t finished;
    int64_t since_ms;
};

struct mr_split_feed {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    bool over; /* cancelled or failed */
    mr_error why;
    uint32_t n;
    struct provider providers[];
};

int mr_split_feed_new(uint32_t providers, mr_split_feed **ret, mr_error *err)
{
    mr_split_feed *feed = mr_calloc(1, sizeof *feed + providers * sizeof feed->providers[0]);

    if (feed == NULL) {
        return mr_error_nomem(err);
    }
    mr_mutex_init(&feed->lock);
    mr_cond_init(&feed->changed);
    feed->n = providers;
    *ret = feed;
    return MR_OK;
}

void mr_split_feed_free(mr_split_feed *feed)
{
    if (feed == NULL) {
        return;
    }
    for (uint32_t i = 0; i < feed->n; i++) {
        mr_free(feed->providers[i].ranges);
    }
    (void)pthread_cond_destroy(&feed->changed);
    (void)pthread_mutex_destroy(&feed->lock);
    mr_free(feed);
}

/* ---- the engine's side ---- */

/* The piece that was taken last is through (the engine asks for the next when it has read one). */
static void note_finished(struct provider *p)
{
    int64_t now = mr_now_ms();

    if (p->since_ms == 0) {
        p->since_ms = now;
    } else if (now - p->since_ms > RATE_WINDOW_MS) {
        p->since_ms += (now - p->since_ms) / 2;
        p->finished /= 2;
    }
    p->finished += p->taken;
    p->taken = 0;
}

static uint64_t wanted_splits(const struct provider *p)
{
    if (p->finished == 0) {
        return 0;
    }
    uint64_t ms = (uint64_t)(mr_now_ms() - p->since_ms) + RATE_PRIOR_MS;
    uint64_t want = p->finished > UINT64_MAX / GRANT_MS ? UINT64_MAX / ms : p->finished * GRANT_MS / ms;

    return want == 0 ? 1 : want;
}

static void take_piece(struct provider *p, struct mr_range *ret)
{
    struct mr_range *head = &p->ranges[0];
    uint64_t piece = p->grant / PIECES_PER_GRANT;

    piece = piece == 0 ? 1 : piece;
    piece = piece < head->count ? piece : head->count;
    *ret = (struct mr_range){.first = head->first, .count = piece};
    head->first += piece;
    head->count -= piece;
    p->queued -= piece;
    p->taken = piece;
    if (head->count == 0) {
        p->n--;
        memmove(p->ranges, p->ranges + 1, p->n * sizeof p->ranges[0]);
    }
}

static void begin_repetition(struct provider *p, uint64_t repetition)
{
    p->repetition = repetition;
    p->ended = false;
    p->n = 0;
    p->queued = 0;
    p->grant = 0;
}

static int feed_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret, mr_error *err)
{
    mr_split_feed *feed = ctx;
    struct provider *p;

    MR_ASSERT(provider < feed->n);
    MR_LOCK(&feed->lock);
    p = &feed->providers[provider];
    if (repetition > p->repetition) {
        begin_repetition(p, repetition);
    }
    note_finished(p);
    p->wanted = true;
    for (;;) {
        if (feed->over) {
            return mr_error_set_traits(err, feed->why.code, feed->why.traits, "%s", feed->why.message);
        }
        if (repetition < p->repetition || (p->n == 0 && p->ended)) {
            return MR_END;
        }
        if (p->n > 0) {
            take_piece(p, ret);
            (void)pthread_cond_broadcast(&feed->changed);
            return MR_OK;
        }
        (void)pthread_cond_broadcast(&feed->changed);
        mr_cond_wait(&feed->changed, &feed->lock);
    }
}

static void feed_cancel(void *ctx)
{
    mr_split_feed_cancel(ctx);
}

struct mr_split_source mr_split_feed_source(mr_split_feed *feed)
{
    return (struct mr_split_source){.ctx = feed, .next = feed_next, .cancel = feed_cancel};
}

/* ---- the asker's side ---- */

static bool needs_grant(const struct provider *p)
{
    return p->wanted && !p->asked && !p->ended && p->queued <= p->grant / 2;
}

bool mr_split_feed_wait(mr_split_feed *feed, struct mr_split_request *ret)
{
    MR_LOCK(&feed->lock);
    for (;;) {
        if (feed->over) {
            return false;
        }
        for (uint32_t i = 0; i < feed->n; i++) {
            struct provider *p = &feed->providers[i];

            if (needs_grant(p)) {
                p->asked = true;
                p->seq++;
                *ret = (struct mr_split_request){
                    .provider = i, .repetition = p->repetition, .seq = p->seq, .want = wanted_splits(p)};
                return true;
            }
        }
        mr_cond_wait(&feed->changed, &feed->lock);
    }
}

static int add_ranges(struct provider *p, const struct mr_range *ranges, size_t n, mr_error *err)
{
    if (p->n + n > p->cap) {
        struct mr_range *grown = mr_reallocarray(p->ranges, p->n + n, sizeof grown[0]);

        if (grown == NULL) {
            return mr_error_nomem(err);
        }
        p->ranges = grown;
        p->cap = p->n + n;
    }
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].count > 0) {
            p->ranges[p->n++] = ranges[i];
            count += ranges[i].count;
        }
    }
    p->queued += count;
    if (count > 0) {
        p->grant = count; /* After an empty answer what is left is taken in pieces as before. */
    }
    return MR_OK;
}

int mr_split_feed_answer(mr_split_feed *feed, const struct mr_split_request *req, const struct mr_range *ranges,
                         size_t n, bool end, mr_error *err)
{
    struct provider *p;
    int rc = MR_OK;

    MR_ASSERT(req->provider < feed->n);
    MR_LOCK(&feed->lock);
    p = &feed->providers[req->provider];
    MR_ASSERT(p->asked);
    p->asked = false;
    /* An answer for a repetition that the engine has left behind is of no use to it. */
    if (req->repetition == p->repetition) {
        rc = add_ranges(p, ranges, n, err);
        p->ended = end;
    }
    (void)pthread_cond_broadcast(&feed->changed);
    return rc;
}

void mr_split_feed_fail(mr_split_feed *feed, const mr_error *why)
{
    MR_LOCK(&feed->lock);
    if (!feed->over) {
        feed->over = true;
        feed->why = *why;
    }
    (void)pthread_cond_broadcast(&feed->changed);
}

void mr_split_feed_cancel(mr_split_feed *feed)
{
    mr_error why;

    (void)mr_error_set(&why, MR_ECANCELED, "the task was cancelled");
    mr_split_feed_fail(feed, &why);
}
