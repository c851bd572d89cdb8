/* A parallel map makes the rows that its consumer wants together in one call: its blocks end where
 * requests do, also after it has been saved, or was not parallel before. The clock is this test's:
 * each thread has one, and each look at it takes so long that the next call would be of fewer
 * rows. */
#include "base/clock.h"
#include "engine/env.h"
#include "engine/op.h"
#include "engine/state.h"
#include "engine_support.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FIRST 15u /* rows of the first request */
#define EACH 30u  /* of all others */
#define ELEMENTS 3000
/* In flight, when it is found out what a call costs. */
#define REQUESTS_BEFORE 20

#define STEP_NS (3 * MR_NS_PER_MS)

static _Thread_local int64_t now = 1;

int64_t __wrap_mr_now_ns(void);

int64_t __wrap_mr_now_ns(void)
{
    now += STEP_NS;
    return now;
}

struct opened {
    mr_dataset *ds;
    struct mr_env env;
    struct mr_op_iter *it;
    int64_t given;
    int64_t bad;
};

/* @bad: the element that fails; -1: none, and x becomes 3 * x + 1. */
static void open_map_of(struct opened *o, int64_t calls, int64_t bad)
{
    const struct mr_engine_options opts = {.threads = 4};
    mr_dataset *ds = make_range(0, ELEMENTS, 1);
    mr_function *fn = bad < 0 ? fn_affine(ds) : fn_divide(ds, bad);

    *o = (struct opened){.bad = bad};
    o->ds = make_with_function("map", ds, fn, ATTRS(INT_ATTR("num_parallel_calls", calls)));
    CHECK_OK(mr_env_init(&o->env, o->ds, &opts, e));
    struct mr_op_ctx ctx = {.env = &o->env, .path = MR_ROOT_PATH, .outermost = true};
    CHECK_OK(mr_op_open(&ctx, o->ds, &o->it, e));
}

static void open_map(struct opened *o, int64_t calls)
{
    open_map_of(o, calls, -1);
}

static void close_map(struct opened *o)
{
    mr_op_close(o->it);
    mr_env_destroy(&o->env);
    mr_dataset_unref(o->ds);
}

/* Blocks that it takes to get @rows more. */
static uint32_t blocks_of(struct opened *o, uint32_t rows)
{
    uint32_t blocks = 0;

    while (rows > 0) {
        const struct mr_pull pull = {
            .rows = rows, .bytes = MR_BLOCK_BYTES_HINT, .deadline_ms = MR_NO_DEADLINE};
        mr_block *block = NULL;

        mr_error err;

        int rc = mr_op_pull(o->it, &pull, &block, &err);
        if (o->given == o->bad) {
            assert_int_equal(rc, MR_EINVAL);
            o->given++;
            rows--;
            continue;
        }
        assert_int_equal(rc, MR_OK);
        uint32_t n = mr_block_rows(block);
        int64_t first = *(const int64_t *)mr_block_data(block, 0);
        assert_true(o->bad >= 0 || first == 3 * o->given + 1);
        mr_block_unref(block);
        o->given += n;
        rows -= n;
        blocks++;
    }
    return blocks;
}

static void pull_some_requests(struct opened *o)
{
    for (int i = 0; i < REQUESTS_BEFORE; i++) {
        (void)blocks_of(o, EACH);
    }
}

static void expect_whole_requests(struct opened *o)
{
    while (o->given + EACH <= ELEMENTS) {
        assert_int_equal(blocks_of(o, EACH), 1);
    }
}

static void blocks_end_where_requests_do(void **state)
{
    struct opened o;

    open_map(&o, 2);
    (void)blocks_of(&o, FIRST);
    pull_some_requests(&o);
    expect_whole_requests(&o);
    close_map(&o);
}

/* Two calls were made for those behind what was given, and wait. */
static void await_two_calls(struct opened *o)
{
    while (atomic_load(&o->env.used_bytes) < 2 * EACH * sizeof(int64_t)) {
        (void)sched_yield();
    }
}

static void expect_whole_requests_of_copy(int64_t bad)
{
    struct opened o;
    struct opened copy;
    struct mr_state saved = {.buf = MR_BUF_INIT};

    open_map_of(&o, 2, bad);
    (void)blocks_of(&o, FIRST);
    pull_some_requests(&o);
    await_two_calls(&o);
    CHECK_OK(mr_op_state(o.it, &saved, e));
    open_map_of(&copy, 2, bad);
    copy.given = o.given;
    close_map(&o);
    struct mr_state restored = {
        .restores = true, .p = (const unsigned char *)saved.buf.data, .left = saved.buf.len};
    CHECK_OK(mr_op_state(copy.it, &restored, e));
    mr_buf_free(&saved.buf);
    pull_some_requests(&copy);
    expect_whole_requests(&copy);
    close_map(&copy);
}

static void so_they_do_in_a_copy(void **state)
{
    expect_whole_requests_of_copy(-1);
}

/* An element that failed, and was not given yet, is one of those that a request ends behind. */
static void so_they_do_behind_an_error(void **state)
{
    expect_whole_requests_of_copy(FIRST + (REQUESTS_BEFORE + 1) * EACH + 5);
}

/* What is known of its calls in place is known of those at once. */
static void a_map_that_becomes_parallel(void **state)
{
    struct opened o;

    open_map(&o, -1);
    assert_int_equal(blocks_of(&o, FIRST), 1);
    expect_whole_requests(&o);
    close_map(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_end_where_requests_do),
        cmocka_unit_test(so_they_do_in_a_copy),
        cmocka_unit_test(so_they_do_behind_an_error),
        cmocka_unit_test(a_map_that_becomes_parallel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
