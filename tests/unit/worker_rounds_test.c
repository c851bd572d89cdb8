/* A worker's rounds: what is fixed stays what it is, complete, kept, sent again; sessions; the
 * end. */
#include "worker/session/round_book.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    mr_round_book *book;
    uint64_t streams;
};

/* Rounds 1, 4, 7, ... of two consumers, below @horizon. */
static void assign(struct fixture *f, uint64_t horizon, uint64_t session0, uint64_t session1)
{
    Millrace__RoundAssignment assignment = MILLRACE__ROUND_ASSIGNMENT__INIT;
    Millrace__RoundSpan span = MILLRACE__ROUND_SPAN__INIT, *spans = &span;
    uint64_t sessions[] = {session0, session1};

    span.first = 1;
    span.stride = 3;
    assignment.num_consumers = 2;
    assignment.spans = &spans;
    assignment.n_spans = 1;
    assignment.horizon = horizon;
    assignment.sessions = sessions;
    assignment.n_sessions = 2;
    assert_int_equal(f->book == NULL ? mr_round_book_new(&assignment, 3, &f->book, NULL)
                                     : mr_round_book_assign(f->book, &assignment, NULL),
                     MR_OK);
}

static int open_as(struct fixture *f, uint32_t consumer, uint64_t session, uint64_t from,
                   uint64_t received, Millrace__RoundHeader *header)
{
    Millrace__RoundOpen open = MILLRACE__ROUND_OPEN__INIT;
    int rc;

    open.consumer_index = consumer;
    open.session = session;
    open.from_round = from;
    open.received_below = received;
    open.returned_below = from;
    rc = mr_round_book_open(f->book, &open, ++f->streams, NULL);
    if (rc == MR_OK) {
        millrace__round_header__init(header);
        mr_round_book_header(f->book, consumer, header);
        assert_true(header->opened);
    }
    return rc;
}

/* What it says that it has was sent to it. */
static void tell(struct fixture *f, uint32_t consumer, uint64_t stream, uint64_t received,
                 uint64_t returned)
{
    struct mr_round round;

    assert_int_equal(mr_round_book_tell(f->book, consumer, stream, 100, 0, 0, NULL), MR_OK);
    while (mr_round_book_is_current(f->book, consumer, stream) &&
           mr_round_book_next(f->book, consumer, &round) && round.round < received) {
        mr_round_book_sent(f->book, consumer, round.round);
    }
    assert_int_equal(mr_round_book_tell(f->book, consumer, stream, 100, received, returned, NULL),
                     MR_OK);
}

static void fix(struct fixture *f, uint64_t expected)
{
    struct mr_round round;

    assert_true(mr_round_book_may_fix(f->book, &round));
    assert_int_equal(round.round, expected);
    mr_round_book_fix(f->book);
}

static uint64_t complete(struct fixture *f)
{
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;

    mr_round_book_header(f->book, 0, &header);
    return header.complete_below;
}

static int setup(void **state)
{
    static struct fixture fixture;
    Millrace__RoundHeader header;

    fixture = (struct fixture){0};
    *state = &fixture;
    assign(&fixture, 100, 1, 1);
    assert_int_equal(open_as(&fixture, 0, 1, 0, 0, &header), MR_OK); /* stream 1 */
    assert_int_equal(open_as(&fixture, 1, 1, 0, 0, &header), MR_OK); /* stream 2 */
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_round_book_free(f->book);
    return 0;
}

static void complete_is_what_all_have(void **state)
{
    struct fixture *f = *state;
    struct mr_round round;

    fix(f, 1);
    fix(f, 4);
    assert_false(mr_round_book_next(f->book, 0, &round)); /* it has no room yet */
    tell(f, 0, 1, 0, 0);
    assert_true(mr_round_book_next(f->book, 0, &round));
    assert_int_equal(round.round, 1);
    mr_round_book_sent(f->book, 0, 1);
    assert_true(mr_round_book_next(f->book, 0, &round));
    assert_int_equal(round.round, 4);
    tell(f, 0, 1, 5, 0);
    assert_int_equal(complete(f), 0);
    tell(f, 1, 2, 2, 0);
    assert_int_equal(complete(f), 2);
    tell(f, 1, 1, 5, 0); /* of a stream that is not its own */
    assert_int_equal(complete(f), 2);
}

static void groups_are_kept_until_all_returned_them(void **state)
{
    struct fixture *f = *state;
    struct mr_round round;

    fix(f, 1);
    fix(f, 4);
    fix(f, 7);
    assert_false(mr_round_book_may_fix(f->book, &round)); /* three are kept */
    tell(f, 0, 1, 8, 8);
    tell(f, 1, 2, 8, 3);
    assert_int_equal(mr_round_book_kept(f->book).round, 4);
    assert_int_equal(mr_round_book_kept(f->book).ordinal, 1);
    assert_true(mr_round_book_may_fix(f->book, &round));
    assert_int_equal(round.ordinal, 3);
}

static void a_broken_stream_is_sent_what_it_lacks(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header;
    struct mr_round round;

    fix(f, 1);
    fix(f, 4);
    tell(f, 0, 1, 0, 0);
    mr_round_book_sent(f->book, 0, 1);
    mr_round_book_sent(f->book, 0, 4);
    assert_int_equal(open_as(f, 0, 1, 0, 2, &header), MR_OK);
    assert_false(mr_round_book_is_current(f->book, 0, 1));
    tell(f, 0, f->streams, 2, 0);
    assert_true(mr_round_book_next(f->book, 0, &round));
    assert_int_equal(round.round, 4);
}

static void another_process_hears_what_was_complete_without_it(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header;

    fix(f, 1);
    fix(f, 4);
    tell(f, 0, 1, 5, 0);
    tell(f, 1, 2, 2, 0);
    assign(f, 100, 1, 2); /* from here on its receipts do not count */
    tell(f, 1, 2, 5, 0);
    assert_int_equal(complete(f), 2);
    assert_int_equal(open_as(f, 1, 1, 0, 2, &header), MR_EPRECOND);
    assert_int_equal(open_as(f, 1, 2, 0, 0, &header), MR_OK);
    assert_int_equal(header.complete_before, 2);
    assert_int_equal(header.kept_from, 1);
}

/* A round is complete when the processes of now have it, whatever the one before had. */
static void another_process_has_received_nothing(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header;

    fix(f, 1);
    fix(f, 4);
    tell(f, 1, 2, 5, 0);
    tell(f, 0, 1, 2, 0);
    assign(f, 100, 1, 2);
    tell(f, 0, 1, 5, 0);
    assert_int_equal(complete(f), 2);
    assert_int_equal(open_as(f, 1, 2, 0, 0, &header), MR_OK);
    assert_int_equal(complete(f), 2);
    tell(f, 1, f->streams, 5, 0);
    assert_int_equal(complete(f), 5);
}

static void the_horizon_holds_for_the_end_too(void **state)
{
    struct fixture *f = *state;
    uint64_t end_round;

    fix(f, 1);
    assign(f, 4, 1, 1); /* never taken back */
    mr_round_book_end(f->book);
    tell(f, 0, 1, 5, 5);
    assert_false(mr_round_book_over(f->book, &end_round));
    tell(f, 1, 2, 5, 5);
    assert_true(mr_round_book_over(f->book, &end_round));
    assert_int_equal(end_round, 4);
}

static void who_is_missing_is_named(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundProgress progress = MILLRACE__ROUND_PROGRESS__INIT;

    fix(f, 1);
    mr_round_book_progress(f->book, 1000, &progress);
    assert_int_equal(progress.n_missing, 0); /* nobody waits */
    tell(f, 0, 1, 2, 0);
    mr_round_book_progress(f->book, 1000, &progress);
    mr_free(progress.missing);
    progress = (Millrace__RoundProgress)MILLRACE__ROUND_PROGRESS__INIT;
    mr_round_book_progress(f->book, 1400, &progress);
    assert_int_equal(progress.n_missing, 1);
    assert_int_equal(progress.missing[0], 1);
    assert_int_equal(progress.waiting_round, 1);
    assert_int_equal(progress.waiting_ms, 400);
    mr_free(progress.missing);
}

/* All have received everything, and one does not take it: nobody hears of the end. */
static void who_keeps_the_end_back_is_named(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundProgress progress = MILLRACE__ROUND_PROGRESS__INIT;

    fix(f, 1);
    mr_round_book_end(f->book);
    tell(f, 0, 1, 5, 0);
    tell(f, 1, 2, 5, 0);
    mr_round_book_progress(f->book, 1000, &progress);
    assert_int_equal(progress.n_missing, 0);
    tell(f, 0, 1, 5, 5);
    mr_round_book_progress(f->book, 1000, &progress);
    assert_int_equal(progress.n_missing, 1);
    assert_int_equal(progress.missing[0], 1);
    assert_int_equal(progress.waiting_round, 4);
    mr_free(progress.missing);
    progress = (Millrace__RoundProgress)MILLRACE__ROUND_PROGRESS__INIT;
    tell(f, 1, 2, 5, 5);
    mr_round_book_progress(f->book, 1000, &progress);
    assert_int_equal(progress.n_missing, 0);
}

/* Anybody could shut out the true consumer with a number that is high enough. */
static void a_session_is_what_the_dispatcher_named(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundOpen open = MILLRACE__ROUND_OPEN__INIT;
    Millrace__RoundHeader header;
    mr_error err;

    fix(f, 1);
    mr_round_book_sent(f->book, 0, 1);
    open.session = UINT64_C(1) << 63;
    assert_int_equal(mr_round_book_open(f->book, &open, ++f->streams, &err), MR_EUNAVAIL);
    assert_string_equal(
        err.message,
        "session 9223372036854775808 of consumer 0 is not known here; the last one that the "
        "dispatcher named is 1");
    assert_true(mr_round_book_is_current(f->book, 0, 1)); /* The true one's stream goes on, */
    tell(f, 0, 1, 2, 0);
    assert_int_equal(open_as(f, 0, 1, 0, 2, &header), MR_OK); /* and comes again. */
    assign(f, 100, 2, 1);
    assert_int_equal(open_as(f, 0, 2, 0, 0, &header), MR_OK);
}

/* What is said to have been received is dropped, and the consumer whose it is would never get
 * it. */
static void nobody_has_what_was_not_sent(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundOpen open = MILLRACE__ROUND_OPEN__INIT;
    Millrace__RoundHeader header;
    struct mr_round round;
    mr_error err;

    fix(f, 1);
    fix(f, 4);
    assert_int_equal(mr_round_book_tell(f->book, 0, 1, 100, 2, 1, &err), MR_EINVAL);
    tell(f, 0, 1, 1, 1);
    mr_round_book_sent(f->book, 0, 1);
    tell(f, 0, 1, 4, 4); /* Rounds of other workers have passed meanwhile. */
    assert_int_equal(mr_round_book_tell(f->book, 0, 1, 100, 4, 5, &err), MR_EINVAL);
    assert_string_equal(err.message, "rounds below 5 acknowledged, but round 4 was not sent");
    assert_int_equal(mr_round_book_tell(f->book, 0, 1, 100, UINT64_MAX, 0, &err), MR_EINVAL);
    open.session = 1;
    open.from_round = 5;
    assert_int_equal(mr_round_book_open(f->book, &open, ++f->streams, &err), MR_EINVAL);
    assert_true(mr_round_book_next(f->book, 0, &round)); /* It is there still, */
    assert_int_equal(round.round, 4);
    mr_round_book_sent(f->book, 0, 4);
    assert_int_equal(open_as(f, 0, 1, 0, 5, &header),
                     MR_OK); /* and known to have been sent on the stream before. */
}

/* It has heard of another worker that everybody has returned rounds below 6: it does not want 4 any
 * more. */
static void who_has_not_begun_may_begin_later(void **state)
{
    struct fixture *f = *state;
    struct mr_round round;

    fix(f, 1);
    fix(f, 4);
    fix(f, 7);
    mr_round_book_sent(f->book, 0, 1);
    assert_int_equal(mr_round_book_tell(f->book, 0, 1, 100, 6, 6, NULL), MR_OK);
    assert_true(mr_round_book_next(f->book, 0, &round));
    assert_int_equal(round.round, 7);
    mr_round_book_sent(f->book, 0, 7);
    tell(f, 0, 1, 8, 8);
    assert_int_equal(mr_round_book_tell(f->book, 0, 1, 100, 8, 11, NULL),
                     MR_EINVAL); /* Now it has begun. */
}

/* From the horizon on rounds may be another worker's, which is known there before it is known
 * here. */
static void beyond_the_horizon_a_consumer_may_know_more(void **state)
{
    struct fixture *f = *state;

    for (uint64_t r = 1; r < 7; r += 3) {
        fix(f, r);
        mr_round_book_sent(f->book, 0, r);
    }
    tell(f, 0, 1, 7, 7);
    assert_int_equal(mr_round_book_tell(f->book, 0, 1, 1000, 7, 8, NULL), MR_EINVAL);
    mr_round_book_end(f->book); /* at round 7 */
    tell(f, 0, 1, 8, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(complete_is_what_all_have),
        CASE(groups_are_kept_until_all_returned_them),
        CASE(a_broken_stream_is_sent_what_it_lacks),
        CASE(another_process_hears_what_was_complete_without_it),
        CASE(another_process_has_received_nothing),
        CASE(the_horizon_holds_for_the_end_too),
        CASE(who_is_missing_is_named),
        CASE(who_keeps_the_end_back_is_named),
        CASE(a_session_is_what_the_dispatcher_named),
        CASE(nobody_has_what_was_not_sent),
        CASE(who_has_not_begun_may_begin_later),
        CASE(beyond_the_horizon_a_consumer_may_know_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
