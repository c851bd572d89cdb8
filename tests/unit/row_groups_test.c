/* The groups of a coordinated task: rows that come in blocks of any size, found again by group and
 * consumer. */
#include "worker/session/row_groups.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Rows @from, @from + 1, ... */
static mr_block *make_rows(int64_t from, uint32_t n)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block = NULL;

    assert_int_equal(mr_block_alloc(n, &leaf, 1, &block, NULL), MR_OK);
    int64_t *data = mr_block_data(block, 0);
    for (uint32_t i = 0; i < n; i++) {
        data[i] = from + i;
    }
    return block;
}

static mr_row_groups *make_groups(uint32_t consumers)
{
    mr_row_groups *g = NULL;

    assert_int_equal(mr_row_groups_new(consumers, &g, NULL), MR_OK);
    return g;
}

static void add(mr_row_groups *g, int64_t from, uint32_t n)
{
    assert_int_equal(mr_row_groups_add(g, make_rows(from, n), NULL), MR_OK);
}

static void expect(const mr_row_groups *g, uint64_t ordinal, uint32_t consumer, int64_t value)
{
    mr_block *one = NULL;

    assert_int_equal(mr_row_groups_element(g, ordinal, consumer, &one, NULL), MR_OK);
    assert_int_equal(mr_block_rows(one), 1);
    assert_int_equal(*(const int64_t *)mr_block_column(one, 0)->data, value);
    mr_block_unref(one);
}

static void rows_in_a_row_are_a_group(void **state)
{
    mr_row_groups *g = make_groups(3);

    add(g, 0, 2);
    assert_int_equal(mr_row_groups_whole(g), 0);
    add(g, 2, 5); /* ends one, is another, begins a third */
    assert_int_equal(mr_row_groups_whole(g), 2);
    assert_int_equal(mr_row_groups_rows(g), 7);
    for (uint32_t i = 0; i < 3; i++) {
        expect(g, 0, i, i);
        expect(g, 1, i, 3 + i);
    }
    mr_row_groups_free(g);
}

static void blocks_without_rows_are_nothing(void **state)
{
    mr_row_groups *g = make_groups(1);

    mr_row_groups_drop(g, 0); /* nothing has come at all */
    add(g, 0, 0);
    assert_int_equal(mr_row_groups_rows(g), 0);
    assert_int_equal(mr_row_groups_bytes(g), 0);
    add(g, 7, 1);
    add(g, 8, 0);
    assert_int_equal(mr_row_groups_whole(g), 1);
    expect(g, 0, 0, 7);
    mr_row_groups_free(g);
}

static void what_is_dropped_frees_its_bytes(void **state)
{
    mr_row_groups *g = make_groups(2);

    add(g, 0, 3);
    add(g, 3, 3);
    size_t all = mr_row_groups_bytes(g);
    assert_true(all >= 6 * sizeof(int64_t));
    mr_row_groups_drop(g, 0);
    assert_int_equal(mr_row_groups_bytes(g), all);
    mr_row_groups_drop(g, 1); /* the block has a row of the next group, too */
    assert_int_equal(mr_row_groups_bytes(g), all);
    expect(g, 1, 0, 2);
    mr_row_groups_drop(g, 2);
    assert_int_equal(mr_row_groups_bytes(g), all / 2);
    mr_row_groups_drop(g, 1); /* an older word changes nothing */
    expect(g, 2, 0, 4);
    expect(g, 2, 1, 5);
    mr_row_groups_drop(g, 3);
    assert_int_equal(mr_row_groups_bytes(g), 0);
    assert_int_equal(mr_row_groups_whole(g), 3); /* those that are gone count */
    add(g, 6, 2);
    expect(g, 3, 1, 7);
    mr_row_groups_free(g);
}

static void an_element_outlives_its_group(void **state)
{
    mr_row_groups *g = make_groups(2);
    mr_block *one = NULL;

    add(g, 40, 2);
    assert_int_equal(mr_row_groups_element(g, 0, 1, &one, NULL), MR_OK);
    mr_row_groups_drop(g, 1);
    mr_row_groups_free(g);
    assert_int_equal(*(const int64_t *)mr_block_column(one, 0)->data, 41);
    mr_block_unref(one);
}

static void the_rest_is_dropped(void **state)
{
    mr_row_groups *g = make_groups(4);

    add(g, 0, 7);
    assert_int_equal(mr_row_groups_finish(g, false, NULL), MR_OK);
    assert_int_equal(mr_row_groups_whole(g), 1);
    mr_row_groups_drop(g, 1);
    mr_row_groups_free(g);
}

/* ... or filled up with its own first elements, round and round. */
static void the_rest_is_padded(void **state)
{
    mr_row_groups *g = make_groups(5);
    const int64_t last[] = {5, 6, 5, 6, 5};

    add(g, 0, 6);
    add(g, 6, 1);
    assert_int_equal(mr_row_groups_finish(g, true, NULL), MR_OK);
    assert_int_equal(mr_row_groups_whole(g), 2);
    for (uint32_t i = 0; i < 5; i++) {
        expect(g, 0, i, i);
        expect(g, 1, i, last[i]);
    }
    mr_row_groups_free(g);
}

static void nothing_is_padded_where_nothing_is_left(void **state)
{
    mr_row_groups *empty = make_groups(3);
    mr_row_groups *even = make_groups(3);

    add(even, 0, 6);
    assert_int_equal(mr_row_groups_finish(empty, true, NULL), MR_OK);
    assert_int_equal(mr_row_groups_finish(even, true, NULL), MR_OK);
    assert_int_equal(mr_row_groups_whole(empty), 0);
    assert_int_equal(mr_row_groups_whole(even), 2);
    mr_row_groups_free(empty);
    mr_row_groups_free(even);
    mr_row_groups_free(NULL);
}

/* Blocks of random sizes, groups dropped at random: a row is always where its number says. */
static void whatever_the_blocks(void **state)
{
    struct mr_rng rng;

    mr_rng_seed(&rng, 5);
    for (uint32_t consumers = 1; consumers <= 9; consumers += 2) {
        mr_row_groups *g = make_groups(consumers);
        uint64_t rows = 0;
        uint64_t kept = 0;

        for (int step = 0; step < 300; step++) {
            uint32_t n = (uint32_t)mr_rng_below(&rng, 8);

            add(g, (int64_t)rows, n);
            rows += n;
            assert_int_equal(mr_row_groups_whole(g), rows / consumers);
            kept += mr_rng_below(&rng, mr_row_groups_whole(g) - kept + 1);
            mr_row_groups_drop(g, kept);
            assert_in_range(mr_row_groups_bytes(g), (rows - kept * consumers) * sizeof(int64_t),
                            SIZE_MAX);
            for (uint64_t k = kept; k < mr_row_groups_whole(g); k++) {
                uint32_t i = (uint32_t)mr_rng_below(&rng, consumers);

                expect(g, k, i, (int64_t)(k * consumers + i));
            }
        }
        mr_row_groups_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_a_row_are_a_group),
        cmocka_unit_test(blocks_without_rows_are_nothing),
        cmocka_unit_test(what_is_dropped_frees_its_bytes),
        cmocka_unit_test(an_element_outlives_its_group),
        cmocka_unit_test(the_rest_is_dropped),
        cmocka_unit_test(the_rest_is_padded),
        cmocka_unit_test(nothing_is_padded_where_nothing_is_left),
        cmocka_unit_test(whatever_the_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
