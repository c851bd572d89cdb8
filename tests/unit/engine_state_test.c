/* States of iterators come from outside: what no iterator writes is refused. */
#include "engine_support.h"

#include "engine/state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Who goes on from a block that waited gives a row of it. */
static void a_block_without_rows_is_refused(void **state)
{
    const struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    MR_AUTO(mr_spec_unref) mr_spec *spec = NULL;
    mr_error err;

    CHECK_OK(mr_spec_new(&leaf, 1, NULL, &spec, e));
    for (uint32_t rows = 0; rows <= 1; rows++) {
        struct mr_state saved = {.buf = MR_BUF_INIT};
        mr_block *block = NULL;

        CHECK_OK(mr_block_alloc(rows, &leaf, 1, &block, e));
        if (rows > 0) {
            *(int64_t *)mr_block_data(block, 0) = 7;
        }
        CHECK_OK(mr_state_block(&saved, &block, NULL, e));
        mr_block_unref(block);
        block = NULL;
        struct mr_state restored = {.restores = true, .p = saved.buf.data, .left = saved.buf.len};
        assert_int_equal(mr_state_block(&restored, &block, spec, &err),
                         rows == 0 ? MR_EINVAL : MR_OK);
        assert_true((block != NULL) == (rows > 0));
        mr_block_unref(block);
        mr_buf_free(&saved.buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_block_without_rows_is_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
