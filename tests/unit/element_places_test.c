/* Places of rows, whatever is made of their blocks. */
#include "element/block.h"
#include "element/places.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Rows 0, 1, ... with the places @first, @first + 1, ... */
static mr_block *placed(uint32_t rows, uint64_t first)
{
    mr_block *block = NULL;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};

    assert_int_equal(mr_block_alloc(rows, &leaf, 1, &block, NULL), MR_OK);
    for (uint32_t r = 0; r < rows; r++) {
        ((int64_t *)mr_block_data(block, 0))[r] = r;
    }
    assert_false(mr_block_placed(block));
    assert_int_equal(mr_block_set_place(&block, first, NULL), MR_OK);
    return block;
}

/* Frees @block. */
static void expect(mr_block *block, const uint64_t *want, uint32_t n)
{
    uint64_t first;
    const uint64_t *of = mr_block_places(block, &first);

    assert_true(mr_block_placed(block));
    assert_int_equal(mr_block_rows(block), n);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(mr_block_place(block, r), want[r]);
        assert_int_equal(first + (of != NULL ? of[r] : r), want[r]);
    }
    mr_block_unref(block);
}

#define EXPECT(block, ...)                                                                         \
    expect(block, (const uint64_t[]){__VA_ARGS__},                                                 \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void parts_and_joins_have_them(void **state)
{
    mr_block *a = placed(4, 100);
    mr_block *b = placed(2, 104);
    mr_block *out = NULL;
    mr_block *list = NULL;
    uint64_t first;

    assert_int_equal(mr_block_slice(a, 1, 2, &out, NULL), MR_OK);
    EXPECT(out, 101, 102);
    assert_int_equal(mr_block_copy_rows(a, 3, 1, &out, NULL), MR_OK);
    EXPECT(out, 103);
    assert_int_equal(mr_block_select(a, (const uint32_t[]){0}, 1, &out, NULL), MR_OK);
    EXPECT(out, 100, 101, 102, 103);
    assert_int_equal(mr_block_concat((const mr_block *[]){a, b}, 2, &out, NULL), MR_OK);
    assert_null(mr_block_places(out, &first)); /* still a run */
    EXPECT(out, 100, 101, 102, 103, 104, 105);
    assert_int_equal(mr_block_concat((const mr_block *[]){b, a}, 2, &out, NULL), MR_OK);
    EXPECT(out, 104, 105, 100, 101, 102, 103);
    assert_int_equal(mr_block_gather(a, (const uint32_t[]){3, 0, 0}, 3, &list, NULL), MR_OK);
    assert_int_equal(mr_block_slice(list, 1, 2, &out, NULL), MR_OK);
    EXPECT(out, 100, 100);
    assert_int_equal(mr_block_concat((const mr_block *[]){list, b}, 2, &out, NULL), MR_OK);
    EXPECT(out, 103, 100, 100, 104, 105);
    EXPECT(list, 103, 100, 100);
    mr_block_unref(a);
    mr_block_unref(b);
}

static void several_have_that_of_the_first(void **state)
{
    static const struct mr_leaf_spec leaf = {.rank = 0, .dtype = MR_INT64};
    mr_block *a = placed(6, 7);
    mr_block *out = NULL;

    assert_int_equal(mr_block_batch(a, 3, NULL, NULL, &out, NULL), MR_OK);
    EXPECT(out, 7, 10);
    assert_int_equal(mr_block_batch(a, 6, NULL, NULL, &out, NULL), MR_OK);
    EXPECT(out, 7);
    assert_int_equal(mr_block_pad(a, &leaf, NULL, SIZE_MAX, NULL, &out, NULL), MR_OK);
    EXPECT(out, 7);
    mr_block_unref(a);
}

static void rows_without_places(void **state)
{
    mr_block *a = placed(2, 5);
    mr_block *none = placed(2, 0);
    mr_block *out = NULL;

    mr_block_displace(none);
    assert_false(mr_block_placed(none));
    assert_int_equal(mr_block_concat((const mr_block *[]){a, none}, 2, &out, NULL), MR_OK);
    assert_false(mr_block_placed(out));
    mr_block_unref(out);
    assert_int_equal(mr_block_zip((const mr_block *[]){none, a}, 2, &out, NULL), MR_OK);
    EXPECT(out, 5, 6);
    assert_int_equal(mr_block_zip((const mr_block *[]){none, none}, 2, &out, NULL), MR_OK);
    assert_false(mr_block_placed(out));
    assert_int_equal(mr_block_move_places(&out, 3, NULL), MR_OK);
    assert_false(mr_block_placed(out));
    mr_block_place_as(out, a);
    EXPECT(out, 5, 6);
    mr_block_unref(a);
    mr_block_unref(none);
}

/* Who has a block keeps the places that it had. */
static void a_shared_block_is_exchanged(void **state)
{
    mr_block *a = placed(2, 5);
    mr_block *other = mr_block_ref(a);

    assert_int_equal(mr_block_move_places(&other, 10, NULL), MR_OK);
    assert_ptr_not_equal(a, other);
    assert_ptr_equal(mr_block_column(a, 0)->data, mr_block_column(other, 0)->data);
    EXPECT(other, 15, 16);
    other = mr_block_ref(a);
    assert_int_equal(mr_block_set_place(&other, 1, NULL), MR_OK);
    EXPECT(other, 1, 2);
    mr_block *same = a;
    assert_int_equal(mr_block_set_places(a, (const uint64_t[]){9, 4}, NULL), MR_OK);
    assert_int_equal(mr_block_move_places(&a, UINT64_MAX, NULL), MR_OK); /* wraps around */
    assert_ptr_equal(a, same);
    EXPECT(a, 8, 3);
}

static int gather_two(mr_block *a, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *list = NULL;
    MR_AUTO(mr_block_unref) mr_block *joined = NULL;
    MR_AUTO(mr_block_unref) mr_block *batched = NULL;

    MR_TRY(mr_block_gather(a, (const uint32_t[]){3, 1, 0, 2}, 4, &list, err));
    MR_TRY(mr_block_concat((const mr_block *[]){list, a}, 2, &joined, err));
    MR_TRY(mr_block_batch(joined, 2, NULL, NULL, &batched, err));
    return MR_OK;
}

static void no_memory_is_an_error(void **state)
{
    mr_block *a = placed(4, 5);
    int rc = MR_EEXHAUSTED;
    uint64_t nth = 1;

    for (; rc != MR_OK; nth++) {
        mr_alloc_fail_at(nth);
        rc = gather_two(a, NULL);
        mr_alloc_fail_at(0);
        assert_true(rc == MR_OK || rc == MR_EEXHAUSTED);
    }
    assert_true(nth > 5);
    mr_block_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_and_joins_have_them),
        cmocka_unit_test(several_have_that_of_the_first),
        cmocka_unit_test(rows_without_places),
        cmocka_unit_test(a_shared_block_is_exchanged),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
