/* What tensor operators hold for a while is charged to the budget, too: of rows whose shapes differ
 * the dims and counts of each row. */
#include "base/memory.h"
#include "kernel_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROWS 20000u
#define ROW_BYTES sizeof(int64_t) /* of one number a row */

/* Rows of 0, 1 and 2 values in turn. */
static mr_block *rows_that_differ(mr_dtype dtype, const void *values, const uint64_t *offsets)
{
    struct mr_column c = {.kind = MR_COLUMN_VAR,
                          .dtype = (uint8_t)dtype,
                          .rank = 1,
                          .data = values,
                          .offsets = offsets};
    int64_t *dims = calloc(ROWS, sizeof *dims);
    uint64_t *starts = calloc(ROWS + 1, sizeof *starts);
    mr_block *block = NULL;
    mr_error err;

    for (uint32_t r = 0; r < ROWS; r++) {
        dims[r] = r % 3;
        starts[r + 1] = starts[r] + r % 3;
    }
    c.row_dims = dims;
    c.starts = starts;
    if (mr_block_new(ROWS, &c, 1, &block, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    free(dims);
    free(starts);
    return block;
}

/* What the call gives with @limit bytes; *@held: what the results take. */
static int run_within(struct test_call *t, mr_block *const *blocks, uint64_t limit, uint64_t *held)
{
    struct mr_owned_column out[TEST_OUTPUTS_MAX];
    mr_memory *memory = NULL;
    uint32_t bad_row = 0;
    mr_error err;

    assert_int_equal(mr_memory_new(limit, NULL, &memory, &err), MR_OK);
    const uint64_t none = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    int rc = test_eval(t, ROWS, blocks, 0, out, &bad_row, &err);
    if (rc == MR_OK) {
        *held = mr_memory_used(memory) - none;
        test_release(t, out);
    }
    (void)mr_memory_enter(before);
    assert_int_equal(mr_memory_used(memory), none);
    mr_memory_unref(memory);
    assert_true(rc == MR_OK || rc == MR_EEXHAUSTED);
    return rc;
}

/* @numbers a row are held beside the results. */
static void check_charged(const char *kernel, const char *inputs, const char *attrs,
                          mr_block *const *blocks, uint64_t numbers)
{
    struct test_call t;
    uint64_t held = 0;
    uint64_t low = 0;
    uint64_t high = 64 << 20;
    mr_error err;

    if (test_prepare(&t, kernel, inputs, attrs, &err) != MR_OK) {
        fail_msg("%s: %s", kernel, err.message);
    }
    t.call.attrs = t.attrs.attrs;
    t.call.out_specs = t.out;
    if (t.kernel->prepare != NULL) {
        assert_int_equal(t.kernel->prepare(t.call.attrs, t.call.nattrs, &t.call.state, &err),
                         MR_OK);
    }
    assert_int_equal(run_within(&t, blocks, high, &held), MR_OK);
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t ignored;

        if (run_within(&t, blocks, middle, &ignored) == MR_OK) {
            high = middle;
        } else {
            low = middle;
        }
    }
    if (high < held + numbers * ROWS * ROW_BYTES) {
        fail_msg("%s runs within %llu bytes, its results take %llu", kernel,
                 (unsigned long long)high, (unsigned long long)held);
    }
    if (t.kernel->release != NULL) {
        t.kernel->release(t.call.state);
    }
    test_free_attrs(&t.attrs);
}

static void dims_of_rows(void **state)
{
    unsigned char *values = calloc(ROWS, 1);
    mr_block *narrow = rows_that_differ(MR_INT8, values, NULL);
    mr_block *both[] = {narrow, narrow};

    check_charged("add", "int8[n] int8[n]", "", both, 1);
    check_charged("reverse", "int8[n]", "axes=[0]", both, 1);
    check_charged("expand_dims", "int8[n]", "axis=0", both, 2);
    mr_block_unref(narrow);
    free(values);
}

static void counts_of_records(void **state)
{
    uint64_t *offsets = calloc(ROWS + 1, sizeof *offsets);
    mr_block *records = rows_that_differ(MR_STRING, "", offsets);

    /* Views of the records, and where their features lie, are charged, too: two numbers each. */
    check_charged("parse_example", "string[n]", "names=(\"a\") kinds=[1] dtypes=[5]", &records, 5);
    mr_block_unref(records);
    free(offsets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dims_of_rows),
        cmocka_unit_test(counts_of_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
