/* Pulling ahead: what waits in the queue is bounded whatever its blocks are. */
#include "engine_support.h"

#include "base/sync.h"
#include "engine/ahead.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BLOCKS_MAX 256u

/* Elements that come one by one, however many are asked for, and at once. */
static mr_dataset *make_small_blocks(void)
{
    return make_one("padded_batch", make_range(0, INT64_C(1) << 40, 1), "batch_size", 1);
}

/* How many blocks wait when the thread has nothing to do any more. */
static uint32_t blocks_when_idle(struct mr_ahead *a)
{
    for (;;) {
        mr_mutex_lock(&a->driver.lock);
        bool idle = a->driver.idle == a->driver.nthreads;
        uint32_t blocks = a->blocks;
        mr_mutex_unlock(&a->driver.lock);
        if (idle) {
            return blocks;
        }
        (void)sched_yield();
    }
}

static void small_blocks_are_counted(void **state)
{
    static const uint64_t sizes[] = {0, 5, 1000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct mr_engine_options opts = {.threads = 2};
        const struct mr_pull pull = {
            .rows = 1, .bytes = MR_BLOCK_BYTES_HINT, .deadline_ms = MR_NO_DEADLINE};
        mr_dataset *ds = make_small_blocks();
        struct mr_env env;
        struct mr_op_iter *input = NULL;
        struct mr_ahead ahead;

        CHECK_OK(mr_env_init(&env, ds, &opts, e));
        struct mr_op_ctx ctx = {.env = &env, .path = MR_ROOT_PATH, .outermost = true};
        CHECK_OK(mr_op_open(&ctx, ds, &input, e));
        mr_ahead_init(&ahead, &env, input, sizes[i]);
        for (int turn = 0; turn < 3; turn++) {
            mr_block *block = NULL;

            CHECK_OK(mr_ahead_pull(&ahead, &pull, &block, e));
            mr_block_unref(block);
            assert_in_range(blocks_when_idle(&ahead), 1,
                            sizes[i] > BLOCKS_MAX ? sizes[i] : BLOCKS_MAX);
        }
        mr_ahead_close(&ahead);
        mr_env_destroy(&env);
        mr_dataset_unref(ds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_blocks_are_counted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
