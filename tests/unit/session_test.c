/* The state of reading one task: order, duplicates, credits, slow start. */
#include "client/session.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Rows first, first + 1, ... of int64. */
static mr_block *rows(int64_t first, uint32_t n)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block = NULL;

    assert_int_equal(mr_block_alloc(n, &leaf, 1, &block, NULL), MR_OK);
    int64_t *data = mr_block_data(block, 0);
    for (uint32_t i = 0; i < n; i++) {
        data[i] = first + i;
    }
    return block;
}

static int add(struct mr_session *s, uint64_t first, int64_t value, uint32_t n)
{
    mr_block *block = rows(value, n);
    int rc = mr_session_add(s, first, &block, 1, NULL);

    mr_block_unref(block);
    return rc;
}

/* Take up to @n rows and check that they are value, value + 1, ...; returns how many. */
static uint32_t take(struct mr_session *s, uint32_t n, int64_t value)
{
    mr_block *block = NULL;
    uint64_t session;

    if (mr_session_take(s, n, &block, &session, NULL) != MR_OK) {
        return 0;
    }
    uint32_t got = mr_block_rows(block);
    const int64_t *data = mr_block_column(block, 0)->data;
    for (uint32_t i = 0; i < got; i++) {
        assert_int_equal(data[i], value + i);
    }
    mr_block_unref(block);
    return got;
}

static void allow(struct mr_session *s, uint64_t limit)
{
    s->limit = limit;
    s->limit_max = limit > s->limit_max ? limit : s->limit_max;
}

static void rows_come_out_in_order(void **state)
{
    struct mr_session s;

    mr_session_init(&s);
    allow(&s, 100);
    assert_int_equal(add(&s, 0, 0, 10), MR_OK);
    assert_int_equal(add(&s, 10, 10, 1), MR_OK);
    assert_int_equal(take(&s, 3, 0), 3);
    assert_int_equal(take(&s, 100, 3), 7);
    assert_int_equal(take(&s, 100, 10), 1);
    assert_int_equal(take(&s, 100, 0), 0);
    assert_int_equal(s.received, 11);
    assert_int_equal(s.returned, 11);
    assert_int_equal(s.queue.bytes, 0);
    assert_int_equal(s.bytes, 88);
    mr_queue_clear(&s.queue);
}

static void the_queue_grows_around_its_ring(void **state)
{
    struct mr_session s;
    int64_t out = 0;

    mr_session_init(&s);
    allow(&s, 10000);
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(add(&s, (uint64_t)i, i, 1), MR_OK);
        if (i % 3 == 0) {
            out += take(&s, 1, out);
        }
    }
    while (take(&s, 1, out) == 1) {
        out++;
    }
    assert_int_equal(out, 1000);
    mr_queue_clear(&s.queue);
}

static void duplicates_are_dropped_and_gaps_are_errors(void **state)
{
    struct mr_session s;

    mr_session_init(&s);
    allow(&s, 20);
    assert_int_equal(add(&s, 0, 0, 10), MR_OK);
    assert_int_equal(add(&s, 0, 0, 10), MR_OK); /* all of it again */
    assert_int_equal(s.received, 10);
    assert_int_equal(add(&s, 5, 5, 10), MR_OK); /* five of it again */
    assert_int_equal(s.received, 15);
    assert_int_equal(add(&s, 16, 16, 1), MR_EDATALOSS);
    assert_int_equal(add(&s, 15, 15, 6), MR_EDATALOSS); /* one more than was allowed */
    assert_int_equal(take(&s, 100, 0), 10);
    assert_int_equal(take(&s, 100, 10), 5);
    assert_int_equal(take(&s, 100, 0), 0);
    mr_queue_clear(&s.queue);
}

static void a_new_session_counts_from_zero_and_keeps_what_is_queued(void **state)
{
    struct mr_session s;

    mr_session_init(&s);
    allow(&s, 20);
    assert_int_equal(add(&s, 0, 0, 4), MR_OK);
    assert_int_equal(take(&s, 1, 0), 1);
    mr_session_next(&s);
    assert_int_equal(s.number, 2);
    assert_int_equal(s.received, 0);
    allow(&s, 2);
    assert_int_equal(add(&s, 0, 4, 1), MR_OK);
    assert_int_equal(take(&s, 100, 1), 3);
    assert_int_equal(s.returned, 0); /* they were the old session's */
    assert_int_equal(take(&s, 100, 4), 1);
    assert_int_equal(s.returned, 1);
    mr_queue_clear(&s.queue);
}

/* One exchange: tell the limits, let the worker send all it may, take it all, find the queue
 * empty. */
static uint64_t exchange(struct mr_session *s, uint64_t window_max, uint64_t budget)
{
    uint64_t limit;
    uint64_t limit_bytes;

    mr_session_limits(s, window_max, budget, budget, &limit, &limit_bytes);
    uint64_t n = limit - s->received;
    allow(s, limit);
    s->limit_bytes = limit_bytes;
    assert_int_equal(add(s, s->received, 0, (uint32_t)n), MR_OK);
    while (take(s, 1000000, 0) > 0) {
    }
    mr_session_found_empty(s);
    return n;
}

static void slow_start_doubles(void **state)
{
    struct mr_session s;

    mr_session_init(&s);
    assert_int_equal(exchange(&s, MR_WINDOW_MAX, 1 << 20), 2);
    assert_int_equal(exchange(&s, MR_WINDOW_MAX, 1 << 20), 4);
    assert_int_equal(exchange(&s, MR_WINDOW_MAX, 1 << 20), 8);
    for (int i = 0; i < 10; i++) {
        (void)exchange(&s, 100, 1 << 20);
    }
    assert_int_equal(exchange(&s, 100, 1 << 20), 100); /* the application's bound */
    mr_queue_clear(&s.queue);
}

static void a_slow_worker_is_not_asked_for_more(void **state)
{
    struct mr_session s;
    uint64_t limit;
    uint64_t limit_bytes;

    mr_session_init(&s);
    for (int i = 0; i < 10; i++) {
        mr_session_limits(&s, MR_WINDOW_MAX, 1 << 20, 1 << 20, &limit, &limit_bytes);
        allow(&s, limit);
        assert_int_equal(add(&s, s.received, 0, 1), MR_OK); /* though it might send more */
        assert_int_equal(take(&s, 1, 0), 1);
        mr_session_found_empty(&s);
    }
    assert_int_equal(s.window, 2 * MR_WINDOW_FIRST); /* of which one element is less than half */
    mr_queue_clear(&s.queue);
}

static void the_byte_budget_holds_back(void **state)
{
    struct mr_session s;
    uint64_t limit;
    uint64_t limit_bytes;

    mr_session_init(&s);
    allow(&s, 100);
    assert_int_equal(add(&s, 0, 0, 10), MR_OK);
    mr_session_limits(&s, MR_WINDOW_MAX, 64, 64, &limit, &limit_bytes);
    assert_int_equal(limit_bytes, 80); /* what came: nothing more */
    assert_int_equal(take(&s, 9, 0), 9);
    mr_session_limits(&s, MR_WINDOW_MAX, 64, 64, &limit, &limit_bytes);
    assert_int_equal(limit_bytes, 80 + 64 - 8);
    mr_queue_clear(&s.queue);
}

/* The application's own buffers are bounded by what it is not through with; one element it may
 * always have. */
static void what_the_application_holds_back_is_bounded(void **state)
{
    struct mr_session s;
    uint64_t limit;
    uint64_t limit_bytes;

    mr_session_init(&s);
    allow(&s, 100);
    assert_int_equal(add(&s, 0, 0, 10), MR_OK);
    assert_int_equal(take(&s, 10, 0), 10);
    s.given_bytes = 80;
    mr_session_limits(&s, MR_WINDOW_MAX, 64, 81, &limit, &limit_bytes);
    assert_int_equal(limit_bytes, 80 + 64);
    mr_session_limits(&s, MR_WINDOW_MAX, 64, 80, &limit, &limit_bytes);
    assert_int_equal(limit_bytes, 80); /* what came: nothing more */
    s.used = 9;
    mr_session_limits(&s, MR_WINDOW_MAX, 64, 80, &limit, &limit_bytes);
    assert_int_equal(limit_bytes, 80 + 64);
    mr_queue_clear(&s.queue);
}

static void telling_is_worth_it_from_half_on(void **state)
{
    struct mr_session s;

    mr_session_init(&s);
    s.window = 10;
    s.limit = 10;
    s.limit_bytes = 1 << 20;
    s.received = 4;
    assert_false(mr_session_worth_telling(&s, 14, 1 << 20));
    s.received = 7;
    assert_true(mr_session_worth_telling(&s, 17, 1 << 20));
    assert_false(mr_session_worth_telling(&s, 10, 1 << 20)); /* nothing new */
    assert_true(mr_session_worth_telling(&s, 9, 1 << 20));   /* taken back */
}

/* Of this session; what is queued of the one before never makes it go back. */
static void what_was_taken_is_counted_in_bytes(void **state)
{
    struct mr_session s;

    mr_session_init(&s);
    allow(&s, 100);
    assert_int_equal(add(&s, 0, 0, 10), MR_OK);
    assert_int_equal(mr_session_taken_bytes(&s), 0);
    assert_int_equal(take(&s, 3, 0), 3);
    assert_int_equal(mr_session_taken_bytes(&s), 24);
    mr_session_next(&s);
    assert_int_equal(s.told_taken_bytes, 0);
    allow(&s, 100);
    assert_int_equal(add(&s, 0, 10, 2), MR_OK);
    assert_int_equal(mr_session_taken_bytes(&s), 0);
    assert_int_equal(take(&s, 7, 3), 7);
    assert_int_equal(mr_session_taken_bytes(&s), 0);
    assert_int_equal(take(&s, 2, 10), 2);
    assert_int_equal(mr_session_taken_bytes(&s), 16);
    mr_queue_clear(&s.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_out_in_order),
        cmocka_unit_test(the_queue_grows_around_its_ring),
        cmocka_unit_test(duplicates_are_dropped_and_gaps_are_errors),
        cmocka_unit_test(a_new_session_counts_from_zero_and_keeps_what_is_queued),
        cmocka_unit_test(slow_start_doubles),
        cmocka_unit_test(a_slow_worker_is_not_asked_for_more),
        cmocka_unit_test(the_byte_budget_holds_back),
        cmocka_unit_test(what_the_application_holds_back_is_bounded),
        cmocka_unit_test(telling_is_worth_it_from_half_on),
        cmocka_unit_test(what_was_taken_is_counted_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
