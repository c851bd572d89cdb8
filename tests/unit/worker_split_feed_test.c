/*
 * Splits between an asker and an engine: order, one request at a time, prefetching at half, repetitions, failure and
 * cancelling. The asker's answers come from the test's own thread unless a test needs both sides at once.
 */
#include "worker/split_feed.h"

#include "base/error.h"
#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void answer(mr_split_feed *feed, const struct mr_split_request *req, uint64_t first, uint64_t count, bool end)
{
    struct mr_range range = {.first = first, .count = count};

    assert_int_equal(mr_split_feed_answer(feed, req, &range, count == 0 ? 0 : 1, end, NULL), MR_OK);
}

/* Answers every request for one repetition of @total splits with grants of @grant. */
struct asker {
    mr_split_feed *feed;
    uint64_t total;
    uint64_t grant;
    uint64_t next;
    uint64_t repetition;
    uint64_t seq;
    bool in_order;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct mr_split_request req;

    a->in_order = true;
    while (mr_split_feed_wait(a->feed, &req)) {
        a->in_order = a->in_order && req.seq == ++a->seq && req.provider == 0;
        if (req.repetition != a->repetition) {
            a->repetition = req.repetition;
            a->next = 0;
        }
        struct mr_range range = {.first = a->next};
        range.count = a->total - a->next < a->grant ? a->total - a->next : a->grant;
        a->next += range.count;
        if (mr_split_feed_answer(a->feed, &req, &range, 1, range.count == 0, NULL) < 0) {
            return NULL;
        }
    }
    return NULL;
}

static void every_split_comes_once_and_in_order(void **state)
{
    mr_split_feed *feed;
    pthread_t thread;
    struct asker a = {.total = 1000, .grant = 37};

    assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
    a.feed = feed;
    struct mr_split_source source = mr_split_feed_source(feed);
    assert_int_equal(mr_thread_start(&thread, "asker", ask, &a, NULL), MR_OK);
    for (uint64_t repetition = 0; repetition < 3; repetition++) {
        mr_origin *origin = NULL;
        struct mr_range range;
        uint64_t at = 0;

        while (source.next(source.ctx, 0, repetition, &range, &origin, NULL) == MR_OK) {
            assert_int_equal(range.first, at);
            assert_true(range.count > 0);
            at += range.count;
        }
        assert_int_equal(at, 1000);
        assert_int_equal(source.next(source.ctx, 0, repetition, &range, &origin, NULL), MR_END);
    }
    source.cancel(source.ctx);
    (void)pthread_join(thread, NULL);
    assert_true(a.in_order);
    assert_int_equal(a.seq, 3 * (1000 / 37 + 2));
    mr_split_feed_free(feed);
}

static void the_next_grant_is_asked_for_at_half(void **state)
{
    mr_split_feed *feed;
    struct mr_split_request req;
    mr_origin *origin = NULL;
    struct mr_range range;
    pthread_t thread;
    struct asker a = {.total = 8, .grant = 8};

    assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
    a.feed = feed;
    struct mr_split_source source = mr_split_feed_source(feed);
    assert_int_equal(mr_thread_start(&thread, "asker", ask, &a, NULL), MR_OK);
    assert_int_equal(source.next(source.ctx, 0, 0, &range, &origin, NULL), MR_OK);
    assert_int_equal(range.count, 2); /* a quarter of the grant */
    source.cancel(source.ctx);
    (void)pthread_join(thread, NULL);
    assert_int_equal(a.seq, 1); /* 6 of 8 are left: no second request yet */
    mr_split_feed_free(feed);

    /* Up to half, with the asker's side in hand. */
    assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
    a = (struct asker){.feed = feed, .total = 8, .grant = 8};
    source = mr_split_feed_source(feed);
    assert_int_equal(mr_thread_start(&thread, "asker", ask, &a, NULL), MR_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(source.next(source.ctx, 0, 0, &range, &origin, NULL), MR_OK);
    }
    assert_int_equal(source.next(source.ctx, 0, 0, &range, &origin, NULL), MR_END);
    source.cancel(source.ctx);
    (void)pthread_join(thread, NULL);
    assert_int_equal(a.seq, 2);
    assert_false(mr_split_feed_wait(feed, &req));
    mr_split_feed_free(feed);
}

struct reader {
    struct mr_split_source source;
    int rc;
    mr_error err;
};

static void *read_one(void *arg)
{
    struct reader *r = arg;
    mr_origin *origin = NULL;
    struct mr_range range;

    r->rc = r->source.next(r->source.ctx, 0, 0, &range, &origin, &r->err);
    return NULL;
}

static void a_waiting_engine_hears_of_failure_and_cancel(void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        mr_split_feed *feed;
        struct mr_split_request req;
        struct reader r;
        pthread_t thread;
        mr_error why;

        assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
        r.source = mr_split_feed_source(feed);
        assert_int_equal(mr_thread_start(&thread, "reader", read_one, &r, NULL), MR_OK);
        assert_true(mr_split_feed_wait(feed, &req)); /* the engine waits */
        assert_int_equal(req.seq, 1);
        assert_int_equal(req.want, 0);
        if (fails == 1) {
            (void)mr_error_set(&why, MR_EUNAVAIL, "nobody there");
            mr_split_feed_fail(feed, &why);
        } else {
            mr_split_feed_cancel(feed);
        }
        (void)pthread_join(thread, NULL);
        assert_int_equal(r.rc, fails == 1 ? MR_EUNAVAIL : MR_ECANCELED);
        assert_true(strlen(r.err.message) > 0);
        assert_false(mr_split_feed_wait(feed, &req));
        mr_split_feed_free(feed);
    }
}

static void answers_for_a_repetition_left_behind_are_dropped(void **state)
{
    mr_split_feed *feed;
    struct mr_split_request req;
    mr_origin *origin = NULL;
    struct mr_range range;
    struct reader r;
    pthread_t thread;

    assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
    struct mr_split_source source = mr_split_feed_source(feed);
    r.source = source;
    assert_int_equal(mr_thread_start(&thread, "reader", read_one, &r, NULL), MR_OK);
    assert_true(mr_split_feed_wait(feed, &req));
    answer(feed, &req, 0, 1, false);
    (void)pthread_join(thread, NULL);
    assert_int_equal(r.rc, MR_OK);
    assert_true(mr_split_feed_wait(feed, &req)); /* prefetching for repetition 0 ... */
    assert_int_equal(req.repetition, 0);
    struct asker a = {.feed = feed, .total = 5, .grant = 5, .repetition = 1, .seq = 2};
    answer(feed, &req, 100, 10, false);
    assert_int_equal(mr_thread_start(&thread, "asker", ask, &a, NULL), MR_OK);
    /* ... but the engine goes on to repetition 1. */
    uint64_t at = 0;
    while (source.next(source.ctx, 0, 1, &range, &origin, NULL) == MR_OK) {
        assert_int_equal(range.first, at);
        at += range.count;
    }
    assert_int_equal(at, 5);
    assert_int_equal(source.next(source.ctx, 0, 0, &range, &origin, NULL), MR_END);
    mr_split_feed_cancel(feed);
    (void)pthread_join(thread, NULL);
    mr_split_feed_free(feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_comes_once_and_in_order),
        cmocka_unit_test(the_next_grant_is_asked_for_at_half),
        cmocka_unit_test(a_waiting_engine_hears_of_failure_and_cancel),
        cmocka_unit_test(answers_for_a_repetition_left_behind_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
