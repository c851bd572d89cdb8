/* The book of a task: shares, credits, resuming, giving back, the end. Random walks are in
 * worker_book_walk_test.c. */
#include "book_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int someone; /* what sessions are owned by */

static mr_book_session *open_session(mr_book *book, const char *client, uint64_t number,
                                     uint64_t resume_from, uint64_t credit)
{
    mr_book_session *s;
    mr_error err;

    if (mr_book_open(book, "10.0.0.1", client, number, resume_from, &someone, &s, &err) != MR_OK) {
        fail_msg("open %s: %s", client, err.message);
    }
    assert_int_equal(mr_book_credit(book, s, credit, 1u << 30, resume_from, 0, NULL), MR_OK);
    return s;
}

/* The next message must be for @client and hold rows first..first + count, with index @index. */
static void expect(mr_book *book, const mr_book_session *s, uint64_t index, int64_t first,
                   uint32_t count, bool end)
{
    struct mr_book_message m;
    int64_t value = first;

    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_ptr_equal(m.session, s);
    assert_int_equal(m.first, index);
    assert_int_equal(m.elements, count);
    for (size_t i = 0; i < m.n; i++) {
        const int64_t *data = book_values(&m.parts[i]);

        for (uint32_t r = 0; r < mr_block_rows(m.parts[i].block); r++) {
            assert_int_equal(data[r], value++);
        }
    }
    assert_int_equal(value, first + count);
    assert_int_equal(m.end, end);
    mr_book_message_free(&m);
}

static void expect_nothing(mr_book *book)
{
    struct mr_book_message m;

    assert_int_equal(mr_book_next(book, &m, NULL), MR_END);
}

static void two_that_wait_share(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);

    book_add_rows(book, 0, 11);
    expect(book, a, 0, 0, 6, false);
    expect(book, b, 0, 6, 5, false);
    expect_nothing(book);
    book_add_rows(book, 11, 4);
    expect_nothing(book); /* Both messages are still on their way out. */
    mr_book_sent(b);
    expect(book, b, 5, 11, 4, false);
    mr_book_free(book);
}

static void credits_are_kept_and_revoked(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 2);

    book_add_rows(book, 0, 10);
    expect(book, a, 0, 0, 2, false);
    mr_book_sent(a);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 6, 1u << 30, 0, 0, NULL), MR_OK);
    expect(book, a, 2, 2, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 9, 1u << 30, 6, 6, NULL), MR_OK);
    assert_int_equal(mr_book_credit(book, a, 7, 1u << 30, 6, 6, NULL), MR_OK);
    expect(book, a, 6, 6, 1, false);
    mr_book_sent(a);
    /* Lowered below what was sent: the answer says where the worker stands. */
    assert_int_equal(mr_book_credit(book, a, 3, 1u << 30, 6, 6, NULL), MR_OK);
    expect(book, a, 7, 0, 0, false);
    mr_book_sent(a);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 3, 1u << 30, 8, 6, NULL), MR_EINVAL);
    mr_book_free(book);
}

static void bytes_are_credits_too(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 0);

    book_add_rows(book, 0, 50);
    assert_int_equal(mr_book_credit(book, a, 1000, 3 * ROW_BYTES + 1, 0, 0, NULL), MR_OK);
    struct mr_book_message m;
    uint64_t got = 0;
    while (mr_book_next(book, &m, NULL) == MR_OK) {
        got += m.elements;
        mr_book_message_free(&m);
        mr_book_sent(a);
    }
    assert_true(got >= 3 && got <= 5); /* The last message may go over the limit by a row. */
    mr_book_free(book);
}

static void a_message_is_bounded(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1u << 20);
    struct mr_book_message m;

    book_add_rows(book, 0, 1000);
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_ptr_equal(m.session, a);
    assert_true(m.elements > 50 && m.elements <= 100);
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void small_blocks_travel_together(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1u << 20);
    struct mr_book_message m;

    for (int i = 0; i < 3; i++) {
        book_add_rows(book, i, 1);
    }
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_int_equal(m.elements, 3);
    assert_int_equal(m.n, 1);
    mr_book_message_free(&m);
    mr_book_sent(a);
    mr_book_free(book);
}

static void a_broken_connection_is_resumed(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_error err;

    book_add_rows(book, 0, 10);
    expect(book, a, 0, 0, 10, false);
    mr_book_disconnect(a);
    assert_null(mr_book_owner(a));
    book_add_rows(book, 10, 1);
    expect_nothing(book);
    assert_ptr_equal(open_session(book, "a", 1, 4, 1000), a); /* 0..3 had arrived */
    expect(book, a, 4, 4, 6, false);
    mr_book_sent(a);
    expect(book, a, 10, 10, 1, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 9, 9, NULL), MR_OK);
    mr_book_disconnect(a);
    mr_book_session *s;
    assert_int_equal(mr_book_open(book, "10.0.0.1", "a", 1, 8, &someone, &s, &err),
                     MR_EABORTED); /* let go already */
    assert_int_equal(mr_book_open(book, "10.0.0.1", "a", 1, 12, &someone, &s, &err),
                     MR_EABORTED); /* never sent */
    assert_int_equal(mr_book_open(book, "10.0.0.1", "b", 1, 3, &someone, &s, &err),
                     MR_EABORTED); /* unknown here */
    assert_int_equal(mr_book_open(book, "10.0.0.1", "a", 1, 11, &someone, &s, &err), MR_OK);
    mr_book_free(book);
}

/* A copy of an earlier call, or the process before: what it would get nobody would have. */
static void a_session_that_was_replaced_is_not_served(void **state)
{
    mr_book *book = book_new();
    mr_book_session *s;
    mr_error err;

    (void)open_session(book, "a", 1, 0, 10);
    (void)open_session(book, "a", 2, 0, 10);
    assert_int_equal(mr_book_open(book, "10.0.0.1", "a", 1, 0, &someone, &s, &err), MR_EABORTED);
    assert_string_equal(err.message, "session 1 was replaced by 2");
    mr_book_free(book);
}

/* Who knows its name may still not get ahead of a client for good. */
static void a_session_is_not_far_ahead_of_the_last(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 10);
    mr_book_session *s;
    mr_error err;

    book_add_rows(book, 0, 4);
    expect(book, a, 0, 0, 4, false);
    assert_int_equal(mr_book_open(book, "10.0.0.1", "a", UINT64_C(1) << 63, 0, &someone, &s, &err),
                     MR_EINVAL);
    assert_string_equal(err.message,
                        "session 9223372036854775808 is too far ahead of 1, the last one of a");
    assert_int_equal(mr_book_open(book, "10.0.0.1", "b", UINT64_C(1) << 63, 0, &someone, &s, &err),
                     MR_EINVAL);
    assert_int_equal(mr_book_credit(book, a, 10, 1u << 30, 4, 5, &err), MR_EINVAL);
    assert_string_equal(err.message, "elements below 5 acknowledged, those below 4 were sent");
    assert_int_equal(mr_book_kept(a), 4); /* Nothing of the true one is lost. */
    mr_book_free(book);
}

static void a_resumed_session_keeps_to_its_limits(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 10);

    book_add_rows(book, 0, 10);
    expect(book, a, 0, 0, 10, false);
    mr_book_disconnect(a);
    open_session(book, "a", 1, 2, 5);
    expect(book, a, 2, 2, 3, false);
    mr_book_sent(a);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 20, 1u << 30, 5, 0, NULL), MR_OK);
    expect(book, a, 5, 5, 5, false);
    mr_book_free(book);
}

static void what_a_leaving_client_lacks_goes_to_others(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    book_add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 1, 0, NULL), MR_OK);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    mr_book_close(book, a, false);
    assert_null(mr_book_find(book, "a"));
    expect(book, b, 0, 1, 5, false); /* in their order, before what was ready */
    mr_book_counts(book, &counts);
    assert_int_equal(counts.produced, 6);
    assert_int_equal(counts.received, 1);
    assert_int_equal(counts.lost, 0);
    mr_book_free(book);
}

static void what_a_leaving_client_did_not_use_goes_to_others(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    book_add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 4, 1, NULL), MR_OK);
    mr_book_close(book, a, true);
    expect(book, b, 0, 1, 5, false);
    mr_book_sent(b);
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 5, 5, NULL), MR_OK);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.received, 6);
    assert_int_equal(counts.returned, 6);
    assert_int_equal(counts.lost + counts.untaken, 0);
    mr_book_free(book);
}

/* It says that it goes, and no more: what it has received it may use. */
static void an_older_client_keeps_what_it_received(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);

    book_add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 3, 1, NULL), MR_OK);
    mr_book_close(book, a, false);
    expect(book, b, 0, 3, 3, false);
    mr_book_free(book);
}

/* Others wait for what a client that is here may give back; not for ever, unless it is gone for the
 * moment. */
static void the_end_does_not_wait_for_a_client_that_rests(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    struct mr_book_counts counts;

    book_add_rows(book, 0, 4);
    mr_book_finish(book, MR_OK, NULL);
    expect(book, a, 0, 0, 2, false);
    expect(book, b, 0, 2, 2, false);
    mr_book_sent(a);
    mr_book_sent(b);
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 2, 2, NULL), MR_OK);
    assert_false(mr_book_waits_for_clients(book)); /* but for what is on its way */
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 1, NULL), MR_OK);
    assert_true(mr_book_waits_for_clients(book));
    expect(book, a, 2, 0, 0, true);
    mr_book_sent(a);
    expect_nothing(book);
    mr_book_disconnect(a);
    assert_false(mr_book_waits_for_clients(book));
    mr_book_stop_waiting(book);
    expect_nothing(book); /* it may be gone for good, with an element */
    assert_false(mr_book_is_complete(book));
    a = open_session(book, "a", 1, 2, 1000);
    expect(book, b, 2, 0, 0, true);
    mr_book_sent(b);
    expect(book, a, 2, 0, 0, true);
    mr_book_sent(a);
    assert_true(mr_book_is_complete(book));
    mr_book_disconnect(a);
    assert_false(mr_book_is_complete(book));
    mr_book_abandon(book, a);
    assert_true(mr_book_is_complete(book));
    mr_book_counts(book, &counts);
    assert_int_equal(counts.untaken, 1);
    mr_book_free(book);
}

/* Alone it keeps nobody: what it gives back later goes to whoever comes then. */
static void a_client_that_rests_alone_keeps_nobody(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);

    book_add_rows(book, 0, 4);
    mr_book_finish(book, MR_OK, NULL);
    expect(book, a, 0, 0, 4, true);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 4, 1, NULL), MR_OK);
    assert_true(mr_book_waits_for_clients(book));
    assert_false(mr_book_keeps_clients(book));
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    assert_true(mr_book_keeps_clients(book));
    mr_book_disconnect(b);
    assert_false(mr_book_keeps_clients(book));
    b = open_session(book, "b", 1, 0, 1000);
    mr_book_close(book, a, true);
    expect(book, b, 0, 1, 3, true);
    mr_book_sent(b);
    assert_true(mr_book_kept(b) > 0);
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 3, 3, NULL), MR_OK);
    assert_int_equal(mr_book_kept(b), 0);
    assert_true(mr_book_is_complete(book));
    mr_book_free(book);
}

/* A silent client may wake up and use what it was sent: nobody else gets that. */
static void what_a_silent_client_was_sent_is_lost(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    book_add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 3, 1, NULL), MR_OK);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    mr_book_abandon(book, a);
    assert_null(mr_book_find(book, "a"));
    expect(book, b, 0, 4, 2, false);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.received, 3);
    assert_int_equal(counts.lost, 1);
    assert_int_equal(counts.untaken, 2);
    mr_book_free(book);
}

/* Where it says what it has given to its application, that alone is lost with it; what it gives
 * back itself is not. */
static void what_was_given_is_lost_with_a_silent_client(void **state)
{
    for (int silent = 0; silent < 2; silent++) {
        mr_book *book = book_new_told();
        mr_book_session *a = open_session(book, "a", 1, 0, 6);
        struct mr_book_counts counts;

        book_add_rows(book, 0, 8);
        expect(book, a, 0, 0, 6, false);
        mr_book_sent(a);
        assert_int_equal(mr_book_credit(book, a, 6, 1u << 30, 5, 1, NULL), MR_OK);
        assert_int_equal(mr_book_given(a, 7, NULL), MR_EINVAL);
        assert_int_equal(mr_book_given(a, 4, NULL), MR_OK);
        assert_int_equal(mr_book_given(a, 3, NULL), MR_OK); /* said before that */
        mr_book_session *b = open_session(book, "b", 1, 0, 1000);
        if (silent == 1) {
            mr_book_abandon(book, a);
            expect(book, b, 0, 4, 4, false);
        } else {
            assert_int_equal(mr_book_credit(book, a, 6, 1u << 30, 5, 2, NULL), MR_OK);
            mr_book_close(book, a, true);
            expect(book, b, 0, 2, 6, false);
        }
        mr_book_counts(book, &counts);
        assert_int_equal(counts.lost, 0);
        assert_int_equal(counts.untaken, silent == 1 ? 3 : 0);
        mr_book_free(book);
    }
}

static void the_end_waits_for_what_may_come_back(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);

    book_add_rows(book, 0, 4);
    mr_book_finish(book, MR_OK, NULL);
    assert_int_equal(mr_book_demand(book), 0);
    expect(book, a, 0, 0, 2, false);
    expect(book, b, 0, 2, 2, false); /* a's two may still come back */
    mr_book_sent(a);
    mr_book_sent(b);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 2, NULL), MR_OK);
    expect(book, b, 2, 0, 0, true);
    assert_false(mr_book_is_complete(book));
    mr_book_sent(b);
    mr_book_close(book, b, false); /* b dies: its two have to be seen by a */
    expect(book, a, 2, 2, 2, true);
    mr_book_sent(a);
    assert_false(mr_book_is_complete(book));
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 4, 4, NULL), MR_OK);
    assert_true(mr_book_is_complete(book));
    expect_nothing(book);
    /* Who comes late is told at once, and again after a broken connection. */
    mr_book_session *c = open_session(book, "c", 1, 0, 0);
    expect(book, c, 0, 0, 0, true);
    mr_book_disconnect(c);
    open_session(book, "c", 1, 0, 0);
    expect(book, c, 0, 0, 0, true);
    mr_book_free(book);
}

static void an_error_comes_after_the_rows_before_it(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 1);
    struct mr_book_message m;

    book_add_rows(book, 0, 2);
    mr_book_finish(book, MR_EINVAL, "map: 1 / 0");
    mr_book_finish(book, MR_OK, NULL);
    expect(book, a, 0, 0, 1, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 2, 1u << 30, 1, 1, NULL), MR_OK);
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_int_equal(m.elements, 1);
    assert_true(m.end);
    assert_int_equal(m.code, MR_EINVAL);
    assert_string_equal(m.message, "map: 1 / 0");
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void demand_follows_credit(void **state)
{
    mr_book *book = book_new();

    assert_int_equal(mr_book_demand(book), 2); /* a little ahead of the first client */
    book_add_rows(book, 0, 2);
    assert_int_equal(mr_book_demand(book), 0);
    mr_book_session *a = open_session(book, "a", 1, 0, 10);
    assert_int_equal(mr_book_demand(book), 18);
    book_add_rows(book, 2, 450); /* four messages' worth of bytes */
    assert_int_equal(mr_book_demand(book), 0);
    mr_book_disconnect(a);
    mr_book_free(book);
}

/* 8 of all hosts: one alone gets half, and others are let in. */
static void sessions_are_bounded_by_host(void **state)
{
    mr_book *book = book_new();
    mr_book_session *s;
    char name[8];
    mr_error err;

    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof name, "c%d", i);
        open_session(book, name, 1, 0, 0);
    }
    assert_int_equal(mr_book_open(book, "10.0.0.1", "more", 1, 0, &someone, &s, &err),
                     MR_EEXHAUSTED);
    assert_string_equal(
        err.message,
        "host 10.0.0.1 has 4 of 8 sessions of this task (4 are taken in all) and may have no more "
        "than it leaves free: end some of its, or ask again later");
    assert_int_equal(mr_book_open(book, "10.0.0.2", "other", 1, 0, &someone, &s, NULL), MR_OK);
    open_session(book, "c2", 2, 0, 0); /* A later one has the place of the one before. */
    assert_int_equal(mr_book_open(book, "10.0.0.1", "more", 1, 0, &someone, &s, NULL),
                     MR_EEXHAUSTED);
    mr_book_close(book, mr_book_find(book, "c3"), false);
    mr_book_abandon(book, mr_book_find(book, "c1"));
    assert_int_equal(mr_book_open(book, "10.0.0.1", "more", 1, 0, &someone, &s, NULL), MR_OK);
    mr_book_free(book);
}

/* ---- elements that have to be returned ---- */

static void what_was_not_returned_goes_to_others(void **state)
{
    mr_book *book = book_new_keeping();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    book_add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 4, 1, NULL), MR_OK);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.received, 4);
    assert_int_equal(counts.returned, 1);
    assert_int_equal(counts.buffered_bytes, 5 * ROW_BYTES);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    mr_book_close(book, a, false);
    expect(book, b, 0, 1, 5, false); /* three had arrived at a, and died with it */
    mr_book_free(book);
}

static void a_new_session_gets_again_what_was_not_returned(void **state)
{
    mr_book *book = book_new_keeping();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    struct mr_book_counts counts;

    book_add_rows(book, 0, 6);
    expect(book, a, 0, 0, 6, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 6, 2, NULL), MR_OK);
    a = open_session(book, "a", 2, 0, 1000);
    expect(book, a, 0, 2, 4, false);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.lost, 0);
    mr_book_free(book);
}

/* Reconnecting goes on behind what arrived, though more than that is kept. */
static void a_keeping_session_resumes_where_it_was(void **state)
{
    mr_book *book = book_new_keeping();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);

    book_add_rows(book, 0, 10);
    expect(book, a, 0, 0, 10, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 5, 2, NULL), MR_OK);
    mr_book_disconnect(a);
    assert_ptr_equal(open_session(book, "a", 1, 7, 1000), a);
    expect(book, a, 7, 7, 3, false);
    mr_book_sent(a);
    expect_nothing(book);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 10, 3, NULL), MR_OK);
    mr_book_close(book, a, false);
    expect(book, b, 0, 3, 7, false);
    mr_book_free(book);
}

static void the_end_waits_for_what_was_not_returned(void **state)
{
    mr_book *book = book_new_keeping();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);

    book_add_rows(book, 0, 4);
    mr_book_finish(book, MR_OK, NULL);
    expect(book, a, 0, 0, 2, false);
    expect(book, b, 0, 2, 2, false);
    mr_book_sent(a);
    mr_book_sent(b);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 1, NULL), MR_OK);
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 2, 0, NULL), MR_OK);
    expect_nothing(book); /* each may have to take over from the other */
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 2, NULL), MR_OK);
    expect(book, b, 2, 0, 0, true); /* its own are its own */
    mr_book_sent(b);
    assert_false(mr_book_is_complete(book));
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 2, 2, NULL), MR_OK);
    expect(book, a, 2, 0, 0, true);
    assert_true(mr_book_is_complete(book));
    mr_book_free(book);
}

/* So much may be kept for a session, and no more; returning makes room. */
static void what_is_kept_is_bounded(void **state)
{
    struct mr_book_limits small = {.message_bytes = 4 * ROW_BYTES,
                                   .kept_bytes = 8 * ROW_BYTES,
                                   .sessions = 1,
                                   .repeats = true};
    mr_book *book;

    assert_int_equal(mr_book_new(&small, &book, NULL), MR_OK);
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    book_add_rows(book, 0, 40);
    struct mr_book_message m;
    uint64_t sent = 0;
    while (mr_book_next(book, &m, NULL) == MR_OK) {
        sent += m.elements;
        mr_book_message_free(&m);
        mr_book_sent(a);
    }
    assert_true(sent >= 8 && sent < 16);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, sent, 0, NULL), MR_OK);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, sent, sent, NULL), MR_OK);
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_true(m.elements > 0);
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void no_memory_leaves_the_book_whole(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 7);
    struct mr_book_message m;

    book_add_rows(book, 0, 3);
    book_add_rows(book, 3, 20);
    for (uint64_t nth = 1;; nth++) {
        mr_alloc_fail_at(nth);
        int rc = mr_book_next(book, &m, NULL);
        mr_alloc_fail_at(0);
        if (rc == MR_OK) {
            assert_true(nth > 1);
            break;
        }
        assert_int_equal(rc, MR_EEXHAUSTED);
    }
    /* Whatever was tried before: the elements come in order, each once. */
    uint64_t got = m.elements;
    assert_int_equal(m.first, 0);
    mr_book_message_free(&m);
    mr_book_sent(a);
    while (mr_book_next(book, &m, NULL) == MR_OK) {
        assert_int_equal(m.first, got);
        assert_int_equal(*(const int64_t *)mr_block_column(m.parts[0].block, 0)->data,
                         (int64_t)got);
        got += m.elements;
        mr_book_message_free(&m);
        mr_book_sent(a);
    }
    assert_int_equal(got, 7);
    mr_book_free(book);
}

/* Its connection has the session still, and goes on with it. */
static void no_memory_for_the_next_session_leaves_the_one_before(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 7);
    mr_book_session *next = NULL;
    int other = 0;

    for (uint64_t nth = 1; next == NULL; nth++) {
        mr_alloc_fail_at(nth);
        int rc = mr_book_open(book, "10.0.0.1", "a", 2, 0, &other, &next, NULL);
        mr_alloc_fail_at(0);
        if (rc != MR_OK) {
            assert_int_equal(rc, MR_EEXHAUSTED);
            assert_ptr_equal(mr_book_find(book, "a"), a);
            assert_ptr_not_equal(mr_book_owner(a), &other);
        } else {
            assert_true(nth > 1);
        }
    }
    assert_ptr_equal(mr_book_find(book, "a"), next);
    mr_book_free(book);
}

/* What is packed is sent as it is, also if it is more than a share, or than a message should
 * have. */
static void what_is_packed_is_cut_by_credits_only(void **state)
{
    mr_book *book = book_new_keeping();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    struct mr_book_message m;

    book_feed_packed(book, 0, 300); /* three messages' worth of bytes */
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_ptr_equal(m.session, a);
    assert_int_equal(m.elements, 300);
    assert_int_equal(m.n, 1);
    assert_non_null(m.parts[0].packed);
    mr_book_message_free(&m);
    assert_int_equal(mr_book_credit(book, b, 10, 1u << 30, 0, 0, NULL), MR_OK);
    expect(book, b, 0, 0, 0, false); /* a lowered limit is answered */
    mr_book_sent(b);
    book_feed_packed(book, 300, 20);
    expect(book, b, 0, 300, 10, false);
    mr_book_sent(b);
    /* So are bytes. */
    assert_int_equal(mr_book_credit(book, b, 1000, 14 * ROW_BYTES, 10, 10, NULL), MR_OK);
    mr_book_next(book, &m, NULL);
    assert_ptr_equal(m.session, b);
    assert_in_range(m.elements, 1, 5);
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void what_is_needed_and_what_is_taken_back(void **state)
{
    mr_book *book = book_new_keeping();
    uint64_t at;

    assert_int_equal(mr_book_needed(book), 0);
    book_feed_packed(book, 100, 50);
    book_feed_packed(book, 200, 50); /* some were skipped */
    assert_int_equal(mr_book_needed(book), 100);
    mr_book_session *a = open_session(book, "a", 1, 0, 100);
    assert_false(mr_book_take_back(book, &at)); /* somebody is there */
    expect(book, a, 0, 100, 50, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 100, 1u << 30, 50, 30, NULL), MR_OK);
    assert_int_equal(mr_book_needed(book), 130);
    mr_book_close(book, a, false);
    assert_true(mr_book_deserted(book));
    /* What is before the gap has fallen out of the window: here alone it can be had. */
    assert_true(mr_book_take_back(book, &at));
    assert_int_equal(at, 200);
    assert_false(mr_book_take_back(book, &at));
    assert_int_equal(mr_book_needed(book), 130);
    a = open_session(book, "b", 1, 0, 100);
    expect(book, a, 0, 130, 20, false);
    mr_book_free(book);
}

/* Whoever takes the book's place goes on behind all that was sent. */
static void what_was_sent_is_nobody_elses(void **state)
{
    mr_book *book = book_new_keeping();
    struct mr_book_stand stand;

    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 0);
    book_feed_packed(book, 100, 50);
    book_feed_packed(book, 200, 50);
    book_feed_packed(book, 250, 50);
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 0); /* nothing was */
    mr_book_session *a = open_session(book, "a", 1, 0, 50);
    expect(book, a, 0, 100, 50, false);
    mr_book_sent(a);
    mr_book_session *b = open_session(book, "b", 1, 0, 50);
    expect(book, b, 0, 200, 50, false);
    mr_book_sent(b);
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 250);
    assert_int_equal(stand.missing, 100);
    assert_int_equal(mr_book_credit(book, b, 50, 1u << 30, 50, 50, NULL), MR_OK);
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 250);
    assert_int_equal(stand.missing, 50);
    assert_int_equal(mr_book_credit(book, a, 50, 1u << 30, 40, 30, NULL), MR_OK);
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 250);
    assert_int_equal(stand.missing, 10); /* they may be on their way */
    mr_book_close(book, a, true); /* 20 of them come back, and others come behind what b had */
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 250);
    assert_int_equal(stand.missing, 20);
    assert_int_equal(stand.fed, 100);
    mr_book_free(book);
}

/* What was sent, came back and was dropped again is fed anew: whoever takes the book's place begins
 * there. */
static void what_came_back_and_was_dropped_is_not_passed_over(void **state)
{
    mr_book *book = book_new_keeping();
    struct mr_book_stand stand;
    uint64_t at;

    book_feed_packed(book, 100, 50);
    mr_book_session *a = open_session(book, "a", 1, 0, 50);
    expect(book, a, 0, 100, 50, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 50, 1u << 30, 50, 20, NULL), MR_OK);
    mr_book_close(book, a, true);
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 150);
    assert_int_equal(stand.missing, 30);
    assert_true(mr_book_take_back(book, &at));
    assert_int_equal(at, 120);
    mr_book_stand(book, &stand);
    assert_int_equal(stand.at, 120);
    assert_int_equal(stand.missing, 0);
    assert_int_equal(stand.fed, 20);
    mr_book_free(book);
}

static void what_was_skipped_is_told_to_all(void **state)
{
    mr_book *book = book_new();
    mr_book_session *a = open_session(book, "a", 1, 0, 0);
    struct mr_book_message m;

    expect_nothing(book);
    mr_book_set_skipped(book, 7);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
        assert_ptr_equal(m.session, a);
        assert_int_equal(m.elements, 0);
        assert_int_equal(m.skipped, 7);
        mr_book_message_free(&m);
        mr_book_sent(a);
        expect_nothing(book);
        a = open_session(book, i == 0 ? "b" : "c", 1, 0, 0); /* also who comes later */
    }
    mr_book_free(book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_wait_share),
        cmocka_unit_test(credits_are_kept_and_revoked),
        cmocka_unit_test(bytes_are_credits_too),
        cmocka_unit_test(a_message_is_bounded),
        cmocka_unit_test(small_blocks_travel_together),
        cmocka_unit_test(a_broken_connection_is_resumed),
        cmocka_unit_test(a_session_that_was_replaced_is_not_served),
        cmocka_unit_test(a_session_is_not_far_ahead_of_the_last),
        cmocka_unit_test(a_resumed_session_keeps_to_its_limits),
        cmocka_unit_test(what_a_leaving_client_lacks_goes_to_others),
        cmocka_unit_test(what_a_leaving_client_did_not_use_goes_to_others),
        cmocka_unit_test(an_older_client_keeps_what_it_received),
        cmocka_unit_test(the_end_does_not_wait_for_a_client_that_rests),
        cmocka_unit_test(a_client_that_rests_alone_keeps_nobody),
        cmocka_unit_test(what_was_given_is_lost_with_a_silent_client),
        cmocka_unit_test(what_a_silent_client_was_sent_is_lost),
        cmocka_unit_test(the_end_waits_for_what_may_come_back),
        cmocka_unit_test(an_error_comes_after_the_rows_before_it),
        cmocka_unit_test(demand_follows_credit),
        cmocka_unit_test(sessions_are_bounded_by_host),
        cmocka_unit_test(what_was_not_returned_goes_to_others),
        cmocka_unit_test(a_new_session_gets_again_what_was_not_returned),
        cmocka_unit_test(a_keeping_session_resumes_where_it_was),
        cmocka_unit_test(the_end_waits_for_what_was_not_returned),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(what_is_packed_is_cut_by_credits_only),
        cmocka_unit_test(what_is_needed_and_what_is_taken_back),
        cmocka_unit_test(what_was_sent_is_nobody_elses),
        cmocka_unit_test(what_came_back_and_was_dropped_is_not_passed_over),
        cmocka_unit_test(what_was_skipped_is_told_to_all),
        cmocka_unit_test(no_memory_leaves_the_book_whole),
        cmocka_unit_test(no_memory_for_the_next_session_leaves_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
