/* A parallel map makes the rows that its consumer wants together in one call: its blocks end where
 * requests do, also after it has been saved, or was not parallel before. The clock is this test's:
 * each thread has one, and each look at it takes so long that the next call would be of fewer
 * rows. */
#include "base/clock.h"
#include "engine/env.h"
#include "engine/op.h"
#include "engine/state.h"
#include "engine_support.h"

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
};

static void open_map(struct opened *o, int64_t calls)
{
    const struct mr_engine_options opts = {.threads = 4};
    mr_dataset *ds = make_range(0, ELEMENTS, 1);

    *o = (struct opened){0};
    o->ds =
        make_with_function("map", ds, fn_affine(ds), ATTRS(INT_ATTR("num_parallel_calls", calls)));
    CHECK_OK(mr_env_init(&o->env, o->ds, &opts, e));
    struct mr_op_ctx ctx = {.env = &o->env, .path = MR_ROOT_PATH, .outermost = true};
    CHECK_OK(mr_op_open(&ctx, o->ds, &o->it, e));
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

        CHECK_OK(mr_op_pull(o->it, &pull, &block, e));
        uint32_t n = mr_block_rows(block);
        assert_int_equal(*(const int64_t *)mr_block_data(block, 0), 3 * o->given + 1);
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

static void so_they_do_in_a_copy(void **state)
{
    struct opened o;
    struct opened copy;
    struct mr_state saved = {.buf = MR_BUF_INIT};

    open_map(&o, 2);
    (void)blocks_of(&o, FIRST);
    pull_some_requests(&o);
    CHECK_OK(mr_op_state(o.it, &saved, e));
    open_map(&copy, 2);
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
        cmocka_unit_test(a_map_that_becomes_parallel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
