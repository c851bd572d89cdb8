/* Splits between an asker and an engine: order, one request at a time, prefetching at half,
 * repetitions, failure and cancelling; which grants are finished. The asker's answers come from the
 * test's own thread unless a test needs both sides at once. */
#include "worker/split_feed.h"

#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Splits [@first, @first + @count) of the repetition that is @ahead, or none. */
static int give(mr_split_feed *feed, const struct mr_split_request *req, uint64_t first,
                uint64_t count, int64_t ahead, bool end)
{
    Millrace__GetSplitsReply reply = MILLRACE__GET_SPLITS_REPLY__INIT;
    Millrace__SplitRange range = MILLRACE__SPLIT_RANGE__INIT, *ranges = &range;

    range.first = first;
    range.count = count;
    reply.ranges = &ranges;
    reply.n_ranges = count == 0 ? 0 : 1;
    reply.ahead = ahead;
    reply.end = end;
    return mr_split_feed_answer(feed, req, &reply, NULL);
}

static void answer(mr_split_feed *feed, const struct mr_split_request *req, uint64_t first,
                   uint64_t count, bool end)
{
    assert_int_equal(give(feed, req, first, count, 0, end), MR_OK);
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
        a->in_order = a->in_order && req.base.seq == ++a->seq && req.base.provider == 0;
        if (req.base.repetition != a->repetition) {
            a->repetition = req.base.repetition;
            a->next = 0;
        }
        uint64_t count = a->total - a->next < a->grant ? a->total - a->next : a->grant;

        if (give(a->feed, &req, a->next, count, 0, count == 0) < 0) {
            return NULL;
        }
        a->next += count;
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
    mr_origin_unref(origin);
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
        assert_int_equal(req.base.seq, 1);
        assert_int_equal(req.base.want, 0);
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
    assert_int_equal(req.base.repetition, 0);
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

/* ---- how much is asked for ---- */

int64_t __real_mr_now_ms(void);
int64_t __wrap_mr_now_ms(void);

static int64_t test_now; /* us; 0: the machine's */

int64_t __wrap_mr_now_ms(void)
{
    return test_now != 0 ? test_now / 1000 : __real_mr_now_ms();
}

/* An engine that takes @split_us for each split is answered as it wishes, @grants times. What it
 * wishes then. */
static uint64_t wanted_after(uint32_t grants, int64_t split_us)
{
    enum { FIRST = 8, MOST = 4096 }; /* the dispatcher's */
    uint64_t queued = FIRST, size = FIRST, next = FIRST;
    struct mr_split_request req;
    mr_split_feed *feed;
    struct reader r;
    pthread_t thread;

    test_now = INT64_C(1000000000);
    assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
    r.source = mr_split_feed_source(feed);
    assert_int_equal(mr_thread_start(&thread, "reader", read_one, &r, NULL), MR_OK);
    assert_true(mr_split_feed_wait(feed, &req));
    answer(feed, &req, 0, FIRST, false);
    (void)pthread_join(thread, NULL);
    assert_int_equal(r.rc, MR_OK);
    queued -= FIRST / 4;
    for (uint32_t i = 1;; i++) {
        uint64_t taken = FIRST / 4;

        while (queued > size / 2) {
            mr_origin *origin = NULL;
            struct mr_range range;

            test_now += (int64_t)taken * split_us;
            assert_int_equal(r.source.next(r.source.ctx, 0, 0, &range, &origin, NULL), MR_OK);
            taken = range.count;
            queued -= taken;
        }
        test_now += (int64_t)taken * split_us;
        assert_true(mr_split_feed_wait(feed, &req));
        if (i == grants) {
            break;
        }
        size = req.base.want < MOST ? req.base.want : MOST;
        size = size > 0 ? size : 1;
        answer(feed, &req, next, size, false);
        next += size;
        queued += size;
    }
    mr_split_feed_free(feed);
    test_now = 0;
    return req.base.want;
}

static void a_grant_comes_to_last_two_seconds(void **state)
{
    assert_in_range(wanted_after(10, 100 * 1000), 15, 20); /* ten a second */
    assert_in_range(wanted_after(12, 1000), 1800, 2000);   /* a thousand */
    assert_in_range(wanted_after(5, 1), 4096,
                    2 * 1000 * 1000); /* a million: as much as there is, after five grants */
    assert_in_range(wanted_after(1, 0), 2,
                    2 * 8); /* a burst is no rate: twice what was given, ... */
    assert_in_range(wanted_after(2, 0), 2, 4 * 16); /* ... four times */
}

/* ---- finished grants ---- */

/* Ask for the next grant as the asker would and answer it with @count splits. */
static void grant(mr_split_feed *feed, uint64_t seq, uint64_t first, uint64_t count, bool end)
{
    struct mr_split_request req;

    assert_true(mr_split_feed_wait(feed, &req));
    assert_int_equal(req.base.seq, seq);
    answer(feed, &req, first, count, end);
}

/* "1-3 5 7-7": the finished grants are these. */
static void expect_finished(mr_split_feed *feed, const char *want)
{
    struct mr_grant_report report;
    char text[1024] = "";
    size_t at = 0;

    mr_split_feed_finished(feed, 0, &report);
    for (size_t i = 0; i < report.base.n_finished; i++) {
        const Millrace__SplitRange *range = report.base.finished[i];

        at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu-%llu", i > 0 ? " " : "",
                               (unsigned long long)range->first,
                               (unsigned long long)(range->first + range->count - 1));
    }
    assert_string_equal(text, want);
}

/* What the engine takes; the caller's reference. */
static mr_origin *take(const struct mr_split_source *source, uint64_t repetition, uint64_t first,
                       uint64_t count)
{
    mr_origin *origin = NULL;
    struct mr_range range;

    assert_int_equal(source->next(source->ctx, 0, repetition, &range, &origin, NULL), MR_OK);
    assert_int_equal(range.first, first);
    assert_int_equal(range.count, count);
    assert_non_null(origin);
    return origin;
}

/* A feed whose engine has asked for splits once, and was given one split as grant 1, which it is
 * through with. */
static mr_split_feed *begun_feed(struct mr_split_source *source)
{
    mr_split_feed *feed;
    struct reader r;
    pthread_t thread;

    assert_int_equal(mr_split_feed_new(1, true, &feed, NULL), MR_OK);
    *source = mr_split_feed_source(feed);
    r.source = *source;
    assert_int_equal(mr_thread_start(&thread, "reader", read_one, &r, NULL), MR_OK);
    grant(feed, 1, 0, 1, false);
    (void)pthread_join(thread, NULL);
    assert_int_equal(r.rc, MR_OK);
    return feed;
}

static void a_grant_is_finished_when_nothing_descends_from_it(void **state)
{
    struct mr_split_source source;
    mr_split_feed *feed = begun_feed(&source);

    expect_finished(feed, "1-1");
    grant(feed, 2, 1, 2, false);
    expect_finished(feed, "1-1"); /* nobody has taken its splits */
    mr_origin *a = take(&source, 0, 1, 1);
    mr_origin *b = take(&source, 0, 2, 1);
    mr_origin_unref(a);
    expect_finished(feed, "1-1");
    grant(feed, 3, 3, 1, false);
    a = take(&source, 0, 3, 1);
    mr_origin_unref(a);
    expect_finished(feed, "1-1 3-3");
    grant(feed, 4, 0, 0, true); /* an answer without splits has nothing to be read */
    expect_finished(feed, "1-1 3-4");
    mr_split_feed_tell(feed, mr_splits_close);
    assert_int_equal(source.next(source.ctx, 0, 0, &(struct mr_range){0}, &a, NULL), MR_ECANCELED);
    mr_origin_unref(b); /* returned after the pipeline's end */
    expect_finished(feed, "1-4");
    mr_split_feed_free(feed);
}

static void what_is_dropped_by_breaking_off_is_not_finished(void **state)
{
    struct mr_split_source source;
    mr_split_feed *feed = begun_feed(&source);

    grant(feed, 2, 1, 1, false);
    mr_origin *a = take(&source, 0, 1, 1);
    grant(feed, 3, 2, 1, false);
    mr_split_feed_cancel(feed);
    mr_split_feed_tell(feed, mr_splits_close);
    mr_origin_unref(a);
    expect_finished(feed, "1-1");
    mr_split_feed_free(feed);
}

static void what_a_repetition_leaves_behind_is_finished(void **state)
{
    struct mr_split_source source;
    mr_split_feed *feed = begun_feed(&source);
    pthread_t thread;

    grant(feed, 2, 10, 5, false); /* prefetched, and then not wanted */
    struct asker a = {.feed = feed, .total = 1, .grant = 1, .repetition = 1, .seq = 2};
    assert_int_equal(mr_thread_start(&thread, "asker", ask, &a, NULL), MR_OK);
    mr_origin *origin = take(&source, 1, 0, 1);
    mr_split_feed_cancel(feed);
    (void)pthread_join(thread, NULL);
    struct mr_grant_report report;
    mr_split_feed_finished(feed, 0, &report);
    assert_true(report.base.n_finished > 0);
    assert_int_equal(report.ranges[0].first, 1);
    assert_int_equal(report.ranges[0].count, 2); /* not 3, which is being read */
    mr_origin_unref(origin);
    mr_split_feed_free(feed);
}

/* More open grants than can be told apart: the rest is finished together, late but surely. */
static void many_open_grants_are_finished_together(void **state)
{
    const uint64_t many = 3 * MR_MARKS_MAX;
    struct mr_split_source source;
    mr_split_feed *feed = begun_feed(&source);
    mr_origin *held[3 * MR_MARKS_MAX];

    for (uint64_t i = 0; i < many; i++) {
        grant(feed, 2 + i, 1 + i, 1, false);
        held[i] = take(&source, 0, 1 + i, 1);
    }
    expect_finished(feed, "1-1");
    mr_origin_unref(held[many - 1]);
    expect_finished(feed, "1-1"); /* its neighbours are still open */
    for (uint64_t i = 1; i < many - 1; i++) {
        mr_origin_unref(held[i]);
    }
    expect_finished(feed, "1-1 3-193");
    grant(feed, 2 + many, 1000, 1, false);
    mr_origin *last = take(&source, 0, 1000, 1);
    expect_finished(feed, "1-1 3-193"); /* there is room again: 194 is on its own */
    mr_origin_unref(held[0]);
    expect_finished(feed, "1-193");
    mr_origin_unref(last);
    expect_finished(feed, "1-194");
    mr_split_feed_cancel(feed);
    mr_split_feed_free(feed);
}

/* ---- draining ---- */

static void expect_end(const struct mr_split_source *source, uint64_t repetition)
{
    mr_origin *origin = NULL;
    struct mr_range range;

    assert_int_equal(source->next(source->ctx, 0, repetition, &range, &origin, NULL), MR_END);
}

static void what_was_not_taken_is_given_back(void **state)
{
    struct mr_split_source source;
    struct mr_split_request req;
    mr_split_feed *feed = begun_feed(&source);

    grant(feed, 2, 4, 8, false);
    mr_origin_unref(take(&source, 0, 4, 2));
    assert_false(mr_split_feed_is(feed, mr_splits_are_untouched));
    assert_false(mr_split_feed_is(feed, mr_splits_have_given_back));
    mr_split_feed_tell(feed, mr_splits_drain);
    assert_false(mr_split_feed_is(feed, mr_splits_have_given_back));
    assert_true(mr_split_feed_wait(feed, &req));
    assert_int_equal(req.base.seq, 3);
    assert_int_equal(req.base.n_given_back, 1);
    assert_int_equal(req.base.given_back[0]->repetition, 0);
    assert_int_equal(req.base.given_back[0]->first, 6);
    assert_int_equal(req.base.given_back[0]->count, 6);
    assert_false(mr_split_feed_is(feed, mr_splits_have_given_back));
    expect_finished(feed, "1-1"); /* they are still ours */
    answer(feed, &req, 0, 0, true);
    expect_finished(feed, "1-3"); /* all that is left of the grant was read */
    assert_true(mr_split_feed_is(feed, mr_splits_have_given_back));
    assert_false(mr_split_feed_is(feed, mr_splits_were_cut));
    expect_end(&source, 0);
    expect_end(&source, 1);
    assert_true(mr_split_feed_is(feed, mr_splits_were_cut));
    mr_split_feed_cancel(feed);
    mr_split_feed_free(feed);
}

/* Splits that others had before keep their repetition, which need not be the one that is read. */
static void it_is_given_back_in_order_and_under_its_own_repetition(void **state)
{
    struct mr_split_source source;
    struct mr_split_request req;
    mr_split_feed *feed = begun_feed(&source);

    grant(feed, 2, 9, 2, false);
    mr_origin_unref(take(&source, 0, 9, 1));
    assert_true(mr_split_feed_wait(feed, &req));
    assert_int_equal(give(feed, &req, 7, 2, 2, false), MR_OK);
    mr_origin_unref(take(&source, 0, 10, 1));
    mr_origin_unref(take(&source, 0, 7, 1));
    grant(feed, 4, 3, 2, false);
    mr_split_feed_tell(feed, mr_splits_drain);
    assert_true(mr_split_feed_wait(feed, &req));
    assert_int_equal(req.base.n_given_back, 2);
    assert_int_equal(req.base.given_back[0]->repetition, 0);
    assert_int_equal(req.base.given_back[0]->first, 3);
    assert_int_equal(req.base.given_back[1]->repetition, 2);
    assert_int_equal(req.base.given_back[1]->first, 8);
    mr_split_feed_cancel(feed);
    mr_split_feed_free(feed);
}

/* A grant is on its way: the engine waits for it, so that it does not run past what is then given
 * back. */
static void an_answer_under_way_is_given_back_too(void **state)
{
    struct mr_split_request req;
    struct reader r;
    pthread_t thread;
    mr_split_feed *feed;

    assert_int_equal(mr_split_feed_new(1, true, &feed, NULL), MR_OK);
    r.source = mr_split_feed_source(feed);
    assert_int_equal(mr_thread_start(&thread, "reader", read_one, &r, NULL), MR_OK);
    assert_true(mr_split_feed_wait(feed, &req));
    mr_split_feed_tell(feed, mr_splits_drain);
    answer(feed, &req, 0, 5, false);
    assert_true(mr_split_feed_wait(feed, &req));
    assert_int_equal(req.base.n_given_back, 1);
    assert_int_equal(req.base.given_back[0]->count, 5);
    answer(feed, &req, 0, 0, true);
    (void)pthread_join(thread, NULL);
    assert_int_equal(r.rc, MR_END);
    assert_true(mr_split_feed_is(feed, mr_splits_were_cut));
    mr_split_feed_cancel(feed);
    mr_split_feed_free(feed);
}

static void what_may_not_be_given_back_is_read(void **state)
{
    for (int old = 0; old < 2; old++) {
        struct mr_split_source source;
        struct mr_split_request req;
        mr_split_feed *feed = begun_feed(&source);

        grant(feed, 2, 4, 2, false);
        mr_split_feed_tell(feed, mr_splits_drain);
        assert_true(mr_split_feed_wait(feed, &req));
        if (old == 0) {
            Millrace__GetSplitsReply no = MILLRACE__GET_SPLITS_REPLY__INIT;

            no.end = no.keep = true;
            assert_int_equal(mr_split_feed_answer(feed, &req, &no, NULL), MR_OK);
        } else {
            answer(feed, &req, 6, 1, false); /* it does not know of giving back */
        }
        assert_true(mr_split_feed_is(feed, mr_splits_have_given_back));
        mr_origin_unref(take(&source, 0, 4, 1));
        mr_origin_unref(take(&source, 0, 5, 1));
        if (old == 1) {
            mr_origin_unref(take(&source, 0, 6, 1));
        }
        expect_end(&source, 0);
        assert_true(mr_split_feed_is(feed, mr_splits_were_cut));
        mr_split_feed_cancel(feed);
        mr_split_feed_free(feed);
    }
}

/* What the dispatcher said was the end is one, drain or not. */
static void a_true_end_is_no_cut(void **state)
{
    struct mr_split_source source;
    mr_split_feed *feed = begun_feed(&source);

    grant(feed, 2, 0, 0, true);
    mr_split_feed_tell(feed, mr_splits_drain);
    expect_end(&source, 0);
    assert_false(mr_split_feed_is(feed, mr_splits_were_cut));
    mr_split_feed_tell(feed, mr_splits_close);
    assert_true(mr_split_feed_is(feed, mr_splits_have_given_back));
    mr_split_feed_free(feed);
}

static void an_engine_that_never_asked_has_nothing(void **state)
{
    struct mr_split_source source;
    mr_split_feed *feed;

    assert_int_equal(mr_split_feed_new(1, false, &feed, NULL), MR_OK);
    source = mr_split_feed_source(feed);
    assert_false(mr_split_feed_is(feed, mr_splits_are_untouched));
    mr_split_feed_tell(feed, mr_splits_drain);
    assert_true(mr_split_feed_is(feed, mr_splits_are_untouched));
    assert_true(mr_split_feed_is(feed, mr_splits_were_cut));
    assert_true(mr_split_feed_is(feed, mr_splits_have_given_back));
    expect_end(&source, 0);
    assert_false(mr_split_feed_is(feed, mr_splits_are_untouched));
    mr_split_feed_cancel(feed);
    mr_split_feed_free(feed);
}

static void grants_of_too_many_providers_are_refused(void **state)
{
    mr_split_feed *feed;

    assert_int_equal(mr_split_feed_new(MR_MARKS_MAX + 1, true, &feed, NULL), MR_EUNIMPL);
    assert_int_equal(mr_split_feed_new(MR_MARKS_MAX + 1, false, &feed, NULL), MR_OK);
    expect_finished(feed, "");
    mr_split_feed_free(feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_comes_once_and_in_order),
        cmocka_unit_test(the_next_grant_is_asked_for_at_half),
        cmocka_unit_test(a_waiting_engine_hears_of_failure_and_cancel),
        cmocka_unit_test(answers_for_a_repetition_left_behind_are_dropped),
        cmocka_unit_test(a_grant_comes_to_last_two_seconds),
        cmocka_unit_test(a_grant_is_finished_when_nothing_descends_from_it),
        cmocka_unit_test(what_is_dropped_by_breaking_off_is_not_finished),
        cmocka_unit_test(what_a_repetition_leaves_behind_is_finished),
        cmocka_unit_test(many_open_grants_are_finished_together),
        cmocka_unit_test(what_was_not_taken_is_given_back),
        cmocka_unit_test(it_is_given_back_in_order_and_under_its_own_repetition),
        cmocka_unit_test(an_answer_under_way_is_given_back_too),
        cmocka_unit_test(what_may_not_be_given_back_is_read),
        cmocka_unit_test(a_true_end_is_no_cut),
        cmocka_unit_test(an_engine_that_never_asked_has_nothing),
        cmocka_unit_test(grants_of_too_many_providers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
