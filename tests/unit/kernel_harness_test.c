/* What holds for every tensor operator, checked on the examples of kernel_examples.h: n rows are n
 * times one row; a broadcast input is that row repeated; empty blocks; wrong inputs and attributes
 * are refused; a failed allocation is MR_EEXHAUSTED and leaves nothing behind. */
#include "kernel_examples.h"
#include "kernel_support.h"
#include "ops/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROWS 5u
#define EXAMPLES (sizeof kernel_examples / sizeof kernel_examples[0])

static struct {
    const struct kernel_example *example;
    struct test_call t;
    struct test_input inputs[TEST_INPUTS_MAX];
    mr_block *blocks[TEST_INPUTS_MAX];
    mr_error err;
} now;

/* Say which example it was when an assertion fails. */
static void announce(const char *what)
{
    if (getenv("MR_TEST_VERBOSE") != NULL) {
        fprintf(stderr, "%s: %s (%s) %s\n", what, now.example->kernel, now.example->inputs,
                now.example->attrs);
    }
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("%s(%s) %s: %s [%s]", now.example->kernel, now.example->inputs,               \
                     now.example->attrs, #condition, now.err.message);                             \
        }                                                                                          \
    } while (0)

static void open_example(size_t e, uint32_t rows)
{
    memset(&now, 0, sizeof now);
    now.example = &kernel_examples[e];
    announce("example");
    test_parse_inputs(now.example->inputs, now.inputs);
    int rc = test_prepare(&now.t, now.example->kernel, now.example->inputs, now.example->attrs,
                          &now.err);
    CHECK(rc == MR_OK);
    CHECK(now.t.nout >= 1);
    now.t.call.attrs = now.t.attrs.attrs;
    now.t.call.out_specs = now.t.out;
    if (now.t.kernel->prepare != NULL) {
        CHECK(now.t.kernel->prepare(now.t.call.attrs, now.t.call.nattrs, &now.t.call.state,
                                    &now.err) == MR_OK);
    }
    test_random_blocks(now.inputs, now.t.nin, rows, 1 + e, now.blocks);
}

static void close_example(void)
{
    for (size_t i = 0; i < now.t.nin; i++) {
        mr_block_unref(now.blocks[i]);
    }
    if (now.t.kernel->release != NULL) {
        now.t.kernel->release(now.t.call.state);
    }
    test_free_attrs(&now.t.attrs);
}

/* What infer said is true of the result. */
static void check_spec(const struct mr_owned_column *out, uint32_t rows)
{
    for (size_t o = 0; o < now.t.nout; o++) {
        const struct mr_leaf_spec *spec = &now.t.out[o];

        CHECK(out[o].c.dtype == spec->dtype);
        CHECK(spec->rank < 0 || (int)out[o].c.rank == (int)spec->rank);
        for (uint32_t r = 0; r < rows; r++) {
            const int64_t *dims = out[o].c.kind == MR_COLUMN_FIXED
                                      ? out[o].c.dims
                                      : out[o].c.row_dims + r * out[o].c.rank;

            for (int d = 0; d < spec->rank; d++) {
                CHECK(spec->dims[d] == MR_DIM_UNKNOWN || spec->dims[d] == dims[d]);
            }
        }
    }
}

static void rows_are_independent(void **state)
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        struct mr_owned_column out[TEST_OUTPUTS_MAX];
        uint32_t bad_row;

        open_example(e, ROWS);
        CHECK(test_eval(&now.t, ROWS, now.blocks, 0, out, &bad_row, &now.err) == MR_OK);
        check_spec(out, ROWS);
        for (uint32_t r = 0; r < ROWS; r++) {
            mr_block *one[TEST_INPUTS_MAX];
            struct mr_owned_column single[TEST_OUTPUTS_MAX];

            for (size_t i = 0; i < now.t.nin; i++) {
                CHECK(mr_block_slice(now.blocks[i], r, 1, &one[i], &now.err) == MR_OK);
            }
            now.t.random.index = r;
            CHECK(test_eval(&now.t, 1, one, 0, single, &bad_row, &now.err) == MR_OK);
            for (size_t o = 0; o < now.t.nout; o++) {
                CHECK(test_rows_equal(&out[o], ROWS, r, &single[o], 1, 0));
            }
            test_release(&now.t, single);
            for (size_t i = 0; i < now.t.nin; i++) {
                mr_block_unref(one[i]);
            }
        }
        test_release(&now.t, out);
        close_example();
    }
}

/* Whether another input has a dim named like one of input @i. */
static bool shares_letters(size_t i)
{
    for (size_t k = 0; k < now.t.nin; k++) {
        for (int d = 0; k != i && d < MR_RANK_MAX; d++) {
            if (now.inputs[k].letters[d] != 0 &&
                memchr(now.inputs[i].letters, now.inputs[k].letters[d], MR_RANK_MAX)) {
                return true;
            }
        }
    }
    return false;
}

/* Row 0 of @block, @rows times. */
static mr_block *repeat_row(const mr_block *block, uint32_t rows)
{
    uint32_t zeros[ROWS] = {0};
    mr_block *ret = NULL;

    assert_int_equal(mr_block_gather(block, zeros, rows, &ret, NULL), MR_OK);
    return ret;
}

static void broadcast_is_repetition(void **state)
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        open_example(e, ROWS);
        for (uint32_t mask = 1; mask < 1u << now.t.nin; mask++) {
            struct mr_owned_column out[TEST_OUTPUTS_MAX];
            struct mr_owned_column expected[TEST_OUTPUTS_MAX];
            mr_block *first[TEST_INPUTS_MAX];
            mr_block *repeated[TEST_INPUTS_MAX];
            uint32_t bad_row;
            bool fits = true;

            for (size_t i = 0; i < now.t.nin; i++) {
                bool chosen = (mask & (1u << i)) != 0;

                fits = fits && !(chosen && shares_letters(i));
            }
            if (!fits) {
                continue;
            }
            for (size_t i = 0; i < now.t.nin; i++) {
                bool chosen = (mask & (1u << i)) != 0;

                CHECK(mr_block_slice(now.blocks[i], 0, chosen ? 1 : ROWS, &first[i], &now.err) ==
                      MR_OK);
                repeated[i] =
                    chosen ? repeat_row(now.blocks[i], ROWS) : mr_block_ref(now.blocks[i]);
            }
            CHECK(test_eval(&now.t, ROWS, first, mask, out, &bad_row, &now.err) == MR_OK);
            CHECK(test_eval(&now.t, ROWS, repeated, 0, expected, &bad_row, &now.err) == MR_OK);
            for (size_t o = 0; o < now.t.nout; o++) {
                for (uint32_t r = 0; r < ROWS; r++) {
                    CHECK(test_rows_equal(&out[o], ROWS, r, &expected[o], ROWS, r));
                }
            }
            test_release(&now.t, out);
            test_release(&now.t, expected);
            for (size_t i = 0; i < now.t.nin; i++) {
                mr_block_unref(first[i]);
                mr_block_unref(repeated[i]);
            }
        }
        close_example();
    }
}

static void empty_blocks(void **state)
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        struct mr_owned_column out[TEST_OUTPUTS_MAX];
        uint32_t bad_row;

        open_example(e, 0);
        CHECK(test_eval(&now.t, 0, now.blocks, 0, out, &bad_row, &now.err) == MR_OK);
        check_spec(out, 0);
        test_release(&now.t, out);
        close_example();
    }
}

/* A slice points into the middle of its parent's arrays. */
static void slices(void **state)
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        struct mr_owned_column out[TEST_OUTPUTS_MAX];
        struct mr_owned_column part[TEST_OUTPUTS_MAX];
        mr_block *tail[TEST_INPUTS_MAX];
        uint32_t bad_row;

        open_example(e, ROWS);
        for (size_t i = 0; i < now.t.nin; i++) {
            CHECK(mr_block_slice(now.blocks[i], 2, ROWS - 2, &tail[i], &now.err) == MR_OK);
        }
        CHECK(test_eval(&now.t, ROWS, now.blocks, 0, out, &bad_row, &now.err) == MR_OK);
        now.t.random.index = 2;
        CHECK(test_eval(&now.t, ROWS - 2, tail, 0, part, &bad_row, &now.err) == MR_OK);
        for (size_t o = 0; o < now.t.nout; o++) {
            for (uint32_t r = 2; r < ROWS; r++) {
                CHECK(test_rows_equal(&out[o], ROWS, r, &part[o], ROWS - 2, r - 2));
            }
        }
        test_release(&now.t, out);
        test_release(&now.t, part);
        for (size_t i = 0; i < now.t.nin; i++) {
            mr_block_unref(tail[i]);
        }
        close_example();
    }
}

static void failed_allocations(void **state)
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        struct mr_owned_column out[TEST_OUTPUTS_MAX];
        uint32_t bad_row = 0;
        int rc = MR_EEXHAUSTED;

        open_example(e, ROWS);
        for (uint64_t nth = 1; rc != MR_OK; nth++) {
            mr_alloc_fail_at(nth);
            rc = test_eval(&now.t, ROWS, now.blocks, 0, out, &bad_row, &now.err);
            mr_alloc_fail_at(0);
            CHECK(rc == MR_OK || rc == MR_EEXHAUSTED);
            CHECK(bad_row < ROWS);
            CHECK(nth < 1000);
        }
        test_release(&now.t, out);
        close_example();
    }
}

/* ---- what must be refused ---- */

static int infer_inputs(const char *inputs)
{
    struct test_call other;
    int rc = test_prepare(&other, now.example->kernel, inputs, now.example->attrs, &now.err);

    test_free_attrs(&other.attrs);
    return rc;
}

static int infer_attrs(size_t nin, const struct mr_attr *attrs, size_t nattrs)
{
    struct mr_leaf_spec out[TEST_OUTPUTS_MAX];
    size_t nout;

    return mr_kernel_infer(now.t.kernel, attrs, nattrs, now.t.in, nin, NULL, 0, out,
                           TEST_OUTPUTS_MAX, &nout, &now.err);
}

static void refusals(void **state)
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        struct mr_attr attrs[TEST_ATTRS_MAX + 1];

        open_example(e, ROWS);
        memcpy(attrs, now.t.attrs.attrs, sizeof now.t.attrs.attrs);
        size_t n = now.t.attrs.n;
        if (now.example->bad != NULL) {
            CHECK(infer_inputs(now.example->bad) == MR_EINVAL);
            CHECK(now.err.message[0] != '\0');
        }
        if (now.t.nin == (size_t)now.t.kernel->min_inputs && now.t.nin > 0) {
            CHECK(infer_attrs(now.t.nin - 1, attrs, n) == MR_EINVAL);
        }
        if (now.t.nin == (size_t)now.t.kernel->max_inputs) {
            now.t.in[now.t.nin] = now.t.in[0];
            CHECK(infer_attrs(now.t.nin + 1, attrs, n) == MR_EINVAL);
        }
        attrs[n] = (struct mr_attr){.name = "no_such_attribute", .kind = MR_ATTR_INT};
        CHECK(infer_attrs(now.t.nin, attrs, n + 1) == MR_EINVAL);
        for (size_t a = 0; a < n; a++) {
            attrs[a].kind = MR_ATTR_FLOAT;
            CHECK(infer_attrs(now.t.nin, attrs, n) == MR_EINVAL);
            attrs[a] = now.t.attrs.attrs[a];
        }
        for (const struct mr_kernel_attr *a = now.t.kernel->attr_table;
             a != NULL && a->name != NULL; a++) {
            CHECK(a->optional || infer_attrs(now.t.nin, attrs, 0) == MR_EINVAL);
        }
        close_example();
    }
}

static void table_is_sorted_and_has_examples(void **state)
{
    size_t n;
    const struct mr_kernel *const *list = mr_kernel_list(&n);

    for (size_t i = 0; i < n; i++) {
        bool found = list[i]->max_functions > 0; /* program_test */

        assert_true(i == 0 || strcmp(list[i - 1]->name, list[i]->name) < 0);
        assert_ptr_equal(mr_kernel_find(list[i]->name), list[i]);
        assert_true(list[i]->version >= 1);
        for (size_t e = 0; e < EXAMPLES; e++) {
            found = found || strcmp(kernel_examples[e].kernel, list[i]->name) == 0;
        }
        if (!found) {
            fail_msg("%s has no example", list[i]->name);
        }
    }
    assert_null(mr_kernel_find("no_such_kernel"));
    assert_null(mr_kernel_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_has_examples),
        cmocka_unit_test(rows_are_independent),
        cmocka_unit_test(broadcast_is_repetition),
        cmocka_unit_test(slices),
        cmocka_unit_test(empty_blocks),
        cmocka_unit_test(failed_allocations),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
