/* How much is asked of a source at once. */
#include "engine_outside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void nothing_is_made_that_nobody_wants(void **state)
{
    struct outside *o = outside_new(1000, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds = make_one("take", map_affine(make_outside(), 0), "count", 5);
    struct read_options options = {.external = &opener};
    struct lines l = read_all(ds, &options);

    lines_expect_text(&l, "1 4 7 10 13");
    assert_int_equal(o->next, 5);
    lines_free(&l);
    mr_dataset_unref(ds);
    free(o);
}

static void demand_grows_from_one(void **state)
{
    struct outside *o = outside_new(1 << 20, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds = make_outside();
    struct read_options options = {.external = &opener};
    mr_engine_iter *it = open_with(ds, &options);
    uint32_t before = 0;

    for (int i = 0; i < 20; i++) {
        mr_block *block = NULL;

        CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1u << 20}, -1, &block, e));
        uint32_t rows = mr_block_rows(block);
        assert_true(i > 0 || rows == 1);
        assert_true(rows <= 2 * before || i == 0);
        assert_true(rows <= 8192); /* 64 KiB */
        before = rows;
        mr_block_unref(block);
    }
    mr_engine_close(it);
    assert_int_equal(o->closed, 1);
    mr_dataset_unref(ds);
    free(o);
}

/* The repetition of a service's job counts the reads of a node, whether it is what is iterated over
 * or below that. */
static void reads_of_a_service_are_counted_from_zero(void **state)
{
    struct outside *o = outside_new(3, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds = make_outside();
    mr_dataset *above = make_one("take", mr_dataset_ref(ds), "count", -1);
    struct read_options options = {.external = &opener};

    for (uint64_t i = 0; i < 4; i++) {
        mr_engine_iter *it = open_with(i % 2 == 0 ? ds : above, &options);

        assert_int_equal(o->ordinal, i);
        mr_engine_close(it);
    }
    mr_dataset_unref(above);
    mr_dataset_unref(ds);
    free(o);
}

static void batches_ask_for_what_they_hold(void **state)
{
    struct outside *o = outside_new(1000, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds =
        make_one("take", make_one("batch", make_outside(), "batch_size", 10), "count", 3);
    struct read_options options = {.external = &opener};
    struct lines l = read_all(ds, &options);

    assert_int_equal(l.n, 3);
    assert_int_equal(o->next, 30);
    lines_free(&l);
    mr_dataset_unref(ds);
    free(o);
}

/* The first of @n scalars, or the sum of two. */
static mr_function *fn_sum(size_t n)
{
    const struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_INT64}};
    mr_builder *b = NULL;
    mr_spec *spec = NULL;

    CHECK_OK(mr_spec_new(leaves, n, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    uint32_t out = n > 1 ? add_op(b, "add", (const uint32_t[]){0, 1}, 2, NULL, 0) : 0;
    return finish(b, &out, 1);
}

/* It needs all elements, and cannot know how long it takes to get one. */
static void a_reducer_asks_for_one_element_first(void **state)
{
    struct outside *o = outside_new(1000, 1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *input = make_outside();
    mr_function *functions[4] = {fn_sum(1), fn_sum(1), fn_sum(2), fn_sum(1)};
    mr_dataset *ds = NULL;

    CHECK_OK(mr_dataset_apply("group_by_reducer", &input, 1, NULL, 0, functions, 4, NULL, &ds, e));
    struct read_options options = {.external = &opener};
    mr_engine_iter *it = open_with(ds, &options);
    mr_block *block = NULL;

    do {
        assert_int_equal(
            mr_engine_pull(it, (struct mr_want){.rows_max = 1u << 20}, 10, &block, NULL),
            MR_TIMEOUT);
    } while (o->next == 0); /* the time was over before it began */
    assert_int_equal(o->next, 1);
    assert_in_range(o->largest, 1, 2);
    mr_engine_close(it);
    for (int i = 0; i < 4; i++) {
        mr_function_unref(functions[i]);
    }
    mr_dataset_unref(input);
    mr_dataset_unref(ds);
    free(o);
}

/* How slow the function is, nobody knows yet: whoever wants to interrupt the first call must not have
 * to wait for all elements that a shuffle wants at once. */
static void a_map_asks_for_few_elements_first(void **state)
{
    struct outside *o = outside_new(1000, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds = make_one("shuffle", map_affine(make_outside(), 0), "buffer_size", 500);
    struct read_options options = {.external = &opener};
    mr_engine_iter *it = open_with(ds, &options);
    mr_block *block = NULL;

    assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, NULL), MR_OK);
    assert_in_range(o->largest, 1, 256); /* they are quick: some more each time */
    assert_in_range(o->next, 500, 600);
    mr_block_unref(block);
    mr_engine_close(it);
    mr_dataset_unref(ds);
    free(o);
}

/* (sum, x) -> (sum + x, sum + x). */
static mr_dataset *running_sums(mr_dataset *input)
{
    const int64_t zero = 0;
    const struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &zero};
    const struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_INT64}};
    mr_block *initial = NULL;
    mr_builder *b = NULL;
    mr_spec *spec = NULL;

    CHECK_OK(mr_spec_new(leaves, 2, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    CHECK_OK(mr_block_new(1, &column, 1, &initial, e));
    uint32_t sum = add_op(b, "add", (const uint32_t[]){0, 1}, 2, NULL, 0);
    mr_function *fn = finish(b, (const uint32_t[]){sum, sum}, 2);
    mr_dataset *ds = make_with_function(
        "scan", input, fn,
        ATTRS((struct mr_attr){.name = "initial_state", .kind = MR_ATTR_BLOCK, .block = initial},
              TEXT_ATTR("structure", "\"*\"")));
    mr_block_unref(initial);
    return ds;
}

/* A scan calls its function for each element; what it learns from that is the same. */
static void a_scan_asks_for_more_when_it_is_quick(void **state)
{
    struct outside *o = outside_new(10000, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds = make_one("shuffle", running_sums(make_outside()), "buffer_size", 5000);
    struct read_options options = {.external = &opener};
    mr_engine_iter *it = open_with(ds, &options);
    mr_block *block = NULL;

    assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, NULL), MR_OK);
    assert_in_range(o->largest, 65, 5000); /* of all these calls not every one was slow */
    mr_block_unref(block);
    mr_engine_close(it);
    mr_dataset_unref(ds);
    free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_made_that_nobody_wants),
        cmocka_unit_test(demand_grows_from_one),
        cmocka_unit_test(reads_of_a_service_are_counted_from_zero),
        cmocka_unit_test(batches_ask_for_what_they_hold),
        cmocka_unit_test(a_reducer_asks_for_one_element_first),
        cmocka_unit_test(a_map_asks_for_few_elements_first),
        cmocka_unit_test(a_scan_asks_for_more_when_it_is_quick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
