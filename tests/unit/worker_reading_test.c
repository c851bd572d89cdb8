/* What a task that reads a shared window decides (src/worker/session/reading.h). */
#include "book_support.h"

#include "worker/session/reading.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    mr_book *book;
    struct mr_reading reading;
    mr_book_session *session;
};

static int setup(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof f);
    f.book = book_new_told();
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    mr_book_free(((struct fixture *)*state)->book);
    return 0;
}

static void begin(struct fixture *f, uint64_t first)
{
    mr_reading_init(&f->reading, f->book, false);
    mr_reading_joined(&f->reading, first);
    mr_reading_started(&f->reading, first, NULL);
}

/* A client that takes @elements. */
static void open_client(struct fixture *f, uint64_t elements)
{
    assert_int_equal(mr_book_open(f->book, "h", "client", 1, 0, f, &f->session, NULL), MR_OK);
    assert_int_equal(mr_book_credit(f->book, f->session, elements, 1u << 20, 0, 0, NULL), MR_OK);
}

/* Everything that may be sent is; returns how many elements that was, and what was told of those
 * that were skipped. */
static uint64_t send_all(struct fixture *f, uint64_t *skipped)
{
    struct mr_book_message m;
    uint64_t n = 0;

    while (mr_book_next(f->book, &m, NULL) == MR_OK) {
        n += m.elements;
        *skipped = m.skipped;
        mr_book_message_free(&m);
        mr_book_sent(f->session);
    }
    return n;
}

static void nothing_is_read_before_the_dispatcher_has_decided(void **state)
{
    struct fixture *f = *state;
    uint64_t upto;

    mr_reading_init(&f->reading, f->book, true);
    open_client(f, 10);
    assert_false(mr_reading_decided(&f->reading)); /* there is no window yet */
    f->reading.joining = true;
    mr_reading_joined(&f->reading, 5);
    assert_int_equal(mr_reading_next(&f->reading, false), MR_READING_WAIT);
    assert_false(mr_reading_returns(&f->reading, &upto));
    assert_true(mr_reading_decided(&f->reading));
    mr_reading_started(&f->reading, 5, NULL);
    assert_int_equal(mr_reading_next(&f->reading, false), MR_READING_READ);
    f->reading.more = false; /* the reader has said so */
    assert_int_equal(mr_reading_next(&f->reading, false), MR_READING_WAIT);
}

static void without_clients_only_the_end_is_looked_for(void **state)
{
    struct fixture *f = *state;
    uint64_t at = 0;

    begin(f, 0);
    assert_int_equal(mr_reading_next(&f->reading, false), MR_READING_READ_END);
    assert_int_equal(mr_reading_rows(&f->reading), 2);
    /* What was read for somebody who has left goes back. */
    book_feed_packed(f->book, 0, 4);
    f->reading.more = false;
    assert_true(mr_reading_goes_back(&f->reading, &at));
    assert_int_equal(at, 0);
    assert_true(f->reading.more);
    assert_false(mr_reading_goes_back(&f->reading, &at));
}

static void the_next_task_goes_on_behind_what_was_sent(void **state)
{
    struct fixture *f = *state;
    struct mr_reading_stand stand;
    struct mr_reading next;
    uint64_t skipped = 0, upto;

    begin(f, 100);
    open_client(f, 4);
    assert_int_equal(mr_reading_skips(&f->reading, 3), 3); /* 100, 101, 102 */
    book_feed_packed(f->book, 103, 6);
    assert_int_equal(send_all(f, &skipped), 4);
    assert_int_equal(skipped, 3);
    assert_int_equal(mr_book_credit(f->book, f->session, 4, 1u << 20, 4, 2, NULL), MR_OK);
    assert_true(mr_reading_returns(&f->reading, &upto));
    assert_int_equal(upto, 105);
    assert_false(mr_reading_returns(&f->reading, &upto));
    assert_true(mr_reading_stand(&f->reading, &stand));
    assert_int_equal(stand.at, 107);
    assert_int_equal(stand.skipped, 3);
    assert_int_equal(stand.told, 3);
    assert_int_equal(mr_reading_produced(&f->reading, 150), 50);

    /* It begins there, and finds that the window has lost two more; one of them was told before. */
    stand.told = 4;
    mr_reading_init(&next, f->book, false);
    mr_reading_joined(&next, 100);
    mr_reading_started(&next, 109, &stand);
    assert_int_equal(mr_reading_skips(&next, 2), 1);
    assert_int_equal(mr_reading_produced(&next, 150), 3 + 43);
    mr_reading_closed(&next);
    assert_false(mr_reading_stand(&next, &stand));
}

static void of_a_window_that_is_gone_the_rest_is_skipped(void **state)
{
    struct fixture *f = *state;
    struct mr_reading_stand before = {.at = 10, .skipped = 1, .told = 2, .missing = 3};

    mr_reading_init(&f->reading, f->book, false);
    assert_int_equal(mr_reading_missed(&f->reading, &before, 5), 4);
    assert_int_equal(f->reading.skipped, 6);
    assert_int_equal(mr_reading_next(&f->reading, false), MR_READING_READ); /* finds the end */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_read_before_the_dispatcher_has_decided),
        TEST(without_clients_only_the_end_is_looked_for),
        TEST(the_next_task_goes_on_behind_what_was_sent),
        TEST(of_a_window_that_is_gone_the_rest_is_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
