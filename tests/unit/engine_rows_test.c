/* Rows that are kept one by one: copied and by reference side by side, and on their way out where
 * there is no memory for them. */
#include "engine_support.h"

#include "base/alloc.h"
#include "element/origin.h"
#include "engine/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define LARGE (2 * MR_ROW_COPY_BYTES_MAX)

static mr_block *block_of(const char *text, size_t size, const mr_origin *origin)
{
    const uint64_t offsets[2] = {0, size};
    struct mr_column column = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = text};
    mr_block *block = NULL;

    CHECK_OK(mr_block_new(1, &column, 1, &block, e));
    CHECK_OK(mr_block_add_origin(&block, origin, e));
    return block;
}

/* What large rows descend from is their blocks' business: there are more of them than there are
 * copied rows. */
static void small_rows_beside_many_large_ones(void **state)
{
    static char text[LARGE];
    mr_dataset *ds = make_strings((const char *const[]){"x"}, 1);
    const struct mr_engine_options opts = {.threads = 1};
    struct mr_env env;
    struct mr_rows_log log = {.env = &env};
    struct mr_rows rows;
    mr_marks *marks = NULL;
    mr_origin *origin = NULL;

    CHECK_OK(mr_env_init(&env, ds, &opts, e));
    CHECK_OK(mr_marks_new(&marks, e));
    CHECK_OK(mr_origin_new(marks, 0, &origin, e));
    mr_block *small = block_of(text, 1, origin);
    mr_block *large = block_of(text, LARGE, origin);
    mr_rows_init(&rows, &env, mr_dataset_spec(ds), &log);
    CHECK_OK(mr_rows_add(&rows, small, 0, e));
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(mr_rows_add(&rows, large, 0, e));
    }
    mr_rows_free(&rows);
    mr_rows_log_free(&log);
    mr_block_unref(small);
    mr_block_unref(large);
    mr_origin_unref(origin);
    assert_int_equal(mr_marks_held(marks), 0);
    mr_marks_unref(marks);
    mr_env_destroy(&env);
    mr_dataset_unref(ds);
}

#define ELEMENTS 100

static mr_dataset *make_elements(bool strings)
{
    char text[ELEMENTS][16];
    const char *values[ELEMENTS];

    for (int i = 0; i < ELEMENTS; i++) {
        (void)snprintf(text[i], sizeof text[i], "%d", i);
        values[i] = text[i];
    }
    return strings ? make_strings(values, ELEMENTS) : make_range(0, ELEMENTS, 1);
}

/* Whatever allocation fails when a block of what was drawn is made: who asks for less then gets it,
 * in the same order. */
static void what_was_drawn_waits(void **state)
{
    for (int strings = 0; strings <= 1; strings++) {
        mr_dataset *ds = make_one("shuffle", make_elements(strings != 0), "buffer_size", ELEMENTS);
        struct read_options options = {0};
        struct lines want = read_all(ds, &options);
        bool reached = true;

        assert_int_equal(want.n, ELEMENTS);
        for (uint64_t nth = 1; reached; nth++) {
            mr_engine_iter *it = open_with(ds, &options);
            struct lines got = {0};

            options.most = 2; /* all are in the buffer */
            (void)read_on(it, &options, &got);
            uint64_t before = mr_alloc_count();
            mr_alloc_fail_at(nth);
            options.most = 50;
            options.rows = 48;
            int rc = read_on(it, &options, &got);
            reached = mr_alloc_count() - before >= nth;
            mr_alloc_fail_at(0);
            if (rc < 0) {
                free(got.text[--got.n]); /* the error */
            }
            options.most = 0;
            options.rows = 1;
            assert_int_equal(read_on(it, &options, &got), MR_END);
            lines_expect(&got, &want, strings ? "strings" : "numbers");
            lines_free(&got);
            mr_engine_close(it);
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_rows_beside_many_large_ones),
        cmocka_unit_test(what_was_drawn_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
