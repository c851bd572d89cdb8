/* Compiled functions: the same results as operators one by one, whatever was folded, fused or
 * dropped on the way; a row that fails leaves the rows before it. */
#include "base/stream.h"
#include "engine/program/plan.h"
#include "program_support.h"

#include <stdlib.h>

static uint32_t fused_steps(const mr_program *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->nsteps; i++) {
        n += p->steps[i].fused != NULL;
    }
    return n;
}

/* ---- */

static void a_chain_runs_in_one_step(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t square = OP(b, "mul", 0, 0);
    uint32_t sum = OP(b, "add", square, constant(b, 1));
    uint32_t narrow = cast(b, 0, MR_FLOAT32);
    mr_program *p = compile(b, (uint32_t[]){sum, narrow}, 2);
    const uint32_t sizes[] = {0, 1, 255, 1024, 1025, 10000};

    assert_int_equal(p->nsteps, 1);
    assert_int_equal(fused_steps(p), 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mr_block *block = ints(sizes[i], NULL);
        mr_block *out = run_ok(p, block);
        const float *floats = mr_block_column(out, 1)->data;

        for (uint32_t r = 0; r < sizes[i]; r++) {
            assert_true(int_at(out, 0, r) == (int64_t)r * r + 1);
            assert_true(floats[r] == (float)r);
        }
        mr_block_unref(out);
        mr_block_unref(block);
    }
    mr_program_free(p);
}

static void inputs_pass_through_without_a_copy(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t same = cast(b, OP(b, "identity", 0), MR_INT64);
    mr_program *p = compile(b, (uint32_t[]){same, 0}, 2);
    mr_block *block = ints(5, NULL);
    mr_block *out = run_ok(p, block);

    assert_int_equal(p->nsteps, 0);
    assert_ptr_equal(mr_block_column(out, 0)->data, mr_block_column(block, 0)->data);
    mr_block_unref(block);
    assert_true(int_at(out, 1, 4) == 4); /* the buffer lives as long as the result */
    mr_block_unref(out);
    mr_program_free(p);
}

static void constants_are_folded_and_dead_nodes_dropped(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t six = OP(b, "mul", constant(b, 2), constant(b, 3));
    mr_program *p;

    (void)OP(b, "floor_div", 0, constant(b, 0)); /* nobody needs it: it must not fail */
    p = compile(b, (uint32_t[]){OP(b, "sub", 0, six), six}, 2);
    mr_block *block = ints(3, NULL);
    mr_block *out = run_ok(p, block);

    assert_int_equal(p->nsteps, 1);
    assert_true(int_at(out, 0, 2) == -4);
    assert_true(int_at(out, 1, 0) == 6 && int_at(out, 1, 2) == 6);
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

/* A constant that cannot be computed fails at the first element, and not before there is one. */
static void a_constant_that_fails(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t bad = OP(b, "floor_div", constant(b, 1), constant(b, 0));
    mr_program *p = compile(b, (uint32_t[]){OP(b, "add", 0, bad)}, 1);
    mr_block *block = ints(3, NULL);
    mr_block *out = (mr_block *)1;
    uint32_t bad_row = 7;
    mr_error err;

    assert_int_equal(mr_program_run(p, block, NULL, NULL, &out, &bad_row, &err), MR_EINVAL);
    assert_null(out);
    assert_int_equal(bad_row, 0);
    mr_block_unref(block);
    mr_program_free(p);
}

static void a_bad_row_leaves_the_rows_before_it(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t shifted = OP(b, "sub", 0, constant(b, 3000));
    uint32_t first = OP(b, "floor_div", constant(b, 100), shifted); /* fails at 3000 */
    uint32_t other = OP(b, "floor_mod", constant(b, 7), OP(b, "sub", 0, constant(b, 2000)));
    mr_program *p = compile(b, (uint32_t[]){first, other, 0}, 3);
    mr_block *block = ints(4000, NULL);
    mr_block *out = NULL;
    uint32_t bad_row = 0;
    mr_error err;

    assert_int_equal(mr_program_run(p, block, NULL, NULL, &out, &bad_row, &err), MR_EINVAL);
    assert_int_equal(bad_row, 2000);
    assert_non_null(strstr(err.message, "floor_mod: "));
    assert_non_null(out);
    assert_int_equal(mr_block_rows(out), 2000);
    assert_true(int_at(out, 2, 1999) == 1999);
    assert_true(int_at(out, 0, 0) == -1);
    mr_block_unref(out);

    /* From the row after it on, it goes on. */
    mr_block *rest = NULL;
    CHECK_OK(mr_block_slice(block, 2001, 999, &rest, e));
    out = run_ok(p, rest);
    mr_block_unref(out);
    mr_block_unref(rest);
    mr_block_unref(block);
    mr_program_free(p);
}

/* Large results go past the caches a tile at a time: one that others are computed from, too, and
 * one of another width. */
static void large_results(void **state)
{
    const uint32_t rows = MR_STREAM_COPY_BYTES / sizeof(int64_t) + 77;
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t twice = OP(b, "add", 0, 0);
    uint32_t more = OP(b, "add", twice, constant(b, 5));
    uint32_t small = cast(b, OP(b, "floor_mod", more, constant(b, 100)), MR_INT8);
    mr_program *p = compile(b, (uint32_t[]){twice, more, small}, 3);
    mr_block *block = ints(rows, NULL);
    mr_block *out = run_ok(p, block);
    const int8_t *rests = mr_block_column(out, 2)->data;

    for (uint32_t r = 0; r < rows; r++) {
        assert_true(int_at(out, 0, r) == 2 * (int64_t)r);
        assert_true(int_at(out, 1, r) == 2 * (int64_t)r + 5);
        assert_true(rests[r] == (2 * (int64_t)r + 5) % 100);
    }
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

enum { RESULTS = 60 };

/* The same, streamed, as those of fewer rows, which are not. */
static void expect_large_results(mr_builder *b, const uint32_t results[RESULTS])
{
    enum { SOME = 1000 };
    const uint32_t rows = MR_STREAM_COPY_BYTES / 64 + 77;
    mr_program *p = compile(b, results, RESULTS);
    mr_block *block = ints(rows, NULL);
    mr_block *out = run_ok(p, block);

    for (uint32_t first = 0; first < rows; first += SOME) {
        uint32_t n = MR_MIN(rows - first, SOME);
        mr_block *part = NULL;

        CHECK_OK(mr_block_slice(block, first, n, &part, e));
        mr_block *want = run_ok(p, part);
        for (uint32_t i = 0; i < RESULTS; i++) {
            const struct mr_column *all = mr_block_column(out, i);
            size_t width = mr_dtype_size((mr_dtype)all->dtype);
            const unsigned char *got = all->data;

            assert_memory_equal(got + first * width, mr_block_column(want, i)->data, n * width);
        }
        mr_block_unref(want);
        mr_block_unref(part);
    }
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

/* A number below 100 as a value of @kind. */
static uint32_t small_of(mr_builder *b, mr_dtype kind)
{
    mr_dtype part = kind == MR_COMPLEX128 ? MR_FLOAT64 : kind == MR_COMPLEX64 ? MR_FLOAT32 : kind;
    uint32_t x = cast(b, OP(b, "floor_mod", 0, constant(b, 100)), part);

    return part != kind ? OP(b, "complex", x, x) : x;
}

static void large_results_of_all_widths(void **state)
{
    static const mr_dtype kinds[] = {MR_COMPLEX128, MR_FLOAT64, MR_INT8, MR_COMPLEX64, MR_INT64};
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t results[RESULTS];

    for (uint32_t i = 0; i < RESULTS; i++) {
        mr_dtype kind = kinds[i % 5];
        bool is_complex = kind == MR_COMPLEX128 || kind == MR_COMPLEX64;
        uint32_t x = small_of(b, kind);
        uint32_t before = i >= 5 ? results[i - 5] : x;

        results[i] = is_complex ? OP(b, "complex_add", before, x) : OP(b, "add", before, x);
    }
    expect_large_results(b, results);
}

/* As many and as wide as a fused step can have. */
static void the_widest_large_results(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t results[RESULTS];

    for (uint32_t i = 0; i < RESULTS; i++) {
        results[i] = OP(b, "conj", i > 0 ? results[i - 1] : small_of(b, MR_COMPLEX128));
    }
    expect_large_results(b, results);
}

static void a_bad_row_among_large_results(void **state)
{
    const uint32_t rows = MR_STREAM_COPY_BYTES / sizeof(int64_t) + 77;
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t twice = OP(b, "add", 0, 0);
    uint32_t quotient = OP(b, "floor_div", twice, OP(b, "sub", 0, constant(b, rows - 100)));
    mr_program *p = compile(b, (uint32_t[]){twice, quotient}, 2);
    mr_block *block = ints(rows, NULL);
    mr_block *out = NULL;
    uint32_t bad_row = 0;
    mr_error err;

    assert_int_equal(mr_program_run(p, block, NULL, NULL, &out, &bad_row, &err), MR_EINVAL);
    assert_int_equal(bad_row, rows - 100);
    assert_int_equal(mr_block_rows(out), bad_row);
    for (uint32_t r = 0; r < bad_row; r++) {
        assert_true(int_at(out, 0, r) == 2 * (int64_t)r);
    }
    assert_true(int_at(out, 1, bad_row - 1) == -2 * ((int64_t)bad_row - 1));
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

static void values_of_different_shapes(void **state)
{
    const int64_t dims[] = {4};
    struct mr_leaf_spec in[2] = {leaf(MR_INT64, 1, dims), leaf(MR_INT64, 0, NULL)};
    mr_builder *b = begin(in, 2);
    uint32_t sum = OP(b, "add", 0, 1);       /* [4] + [] */
    uint32_t twice = OP(b, "add", sum, sum); /* fused with what follows */
    uint32_t less = OP(b, "sub", twice, constant(b, 1));
    uint32_t total = OP(b, "reduce_sum", less);
    uint32_t more = OP(b, "add", total, 1);
    mr_program *p = compile(b, (uint32_t[]){less, more}, 2);
    mr_block *block = NULL;

    CHECK_OK(mr_block_alloc(3, in, 2, &block, e));
    for (int i = 0; i < 12; i++) {
        ((int64_t *)mr_block_data(block, 0))[i] = i;
    }
    for (int i = 0; i < 3; i++) {
        ((int64_t *)mr_block_data(block, 1))[i] = 10 * i;
    }
    mr_block *out = run_ok(p, block);
    for (uint32_t r = 0; r < 3; r++) {
        int64_t sum_of_row = 0;

        for (uint32_t i = 0; i < 4; i++) {
            int64_t want = 2 * ((int64_t)(4 * r + i) + 10 * (int64_t)r) - 1;

            assert_true(int_at(out, 0, 4 * r + i) == want);
            sum_of_row += want;
        }
        assert_true(int_at(out, 1, r) == sum_of_row + 10 * (int64_t)r);
    }
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

/* Rows of different lengths do not fit a fused step: its operators run one by one. */
static void rows_of_different_shapes(void **state)
{
    const int64_t dims[] = {MR_DIM_UNKNOWN};
    struct mr_leaf_spec in = leaf(MR_INT64, 1, dims);
    mr_builder *b = begin(&in, 1);
    uint32_t y = OP(b, "add", OP(b, "mul", 0, 0), constant(b, 5));
    mr_program *p = compile(b, (uint32_t[]){y}, 1);
    const int64_t data[] = {1, 2, 3, 4, 5, 6};
    const int64_t row_dims[] = {2, 0, 4};
    const uint64_t starts[] = {0, 2, 2, 6};
    struct mr_column c = {.kind = MR_COLUMN_VAR,
                          .dtype = MR_INT64,
                          .rank = 1,
                          .row_dims = row_dims,
                          .starts = starts,
                          .data = data};
    mr_block *block = NULL;

    assert_int_equal(fused_steps(p), 1);
    CHECK_OK(mr_block_new(3, &c, 1, &block, e));
    mr_block *out = run_ok(p, block);
    const struct mr_column *result = mr_block_column(out, 0);
    assert_int_equal(result->kind, MR_COLUMN_VAR);
    assert_int_equal(result->row_dims[2], 4);
    assert_int_equal(result->starts[3] - result->starts[0], 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(int_at(out, 0, i) == data[i] * data[i] + 5);
    }
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

static void captured_values(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *outer = begin(&in, 1);
    mr_builder *inner = NULL;
    mr_spec *spec = NULL;
    uint32_t captured = 0;

    CHECK_OK(mr_spec_new(&in, 1, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, outer, &inner, e));
    mr_spec_unref(spec);
    CHECK_OK(mr_builder_capture(inner, 0, &captured, e));
    uint32_t square = OP(inner, "mul", captured, captured); /* computed once a block */
    mr_program *p = compile(inner, (uint32_t[]){OP(inner, "add", 0, square), square}, 2);
    mr_block *block = ints(2000, NULL);
    mr_block *capture = ints(1, (int64_t[]){7});
    mr_block *out = NULL;
    uint32_t bad_row;

    CHECK_OK(mr_program_run(p, block, capture, NULL, &out, &bad_row, e));
    assert_true(int_at(out, 0, 1999) == 1999 + 49 && int_at(out, 1, 1999) == 49);
    mr_block_unref(out);
    assert_int_equal(mr_program_run(p, block, NULL, NULL, &out, &bad_row, NULL), MR_EINTERNAL);
    mr_block_unref(capture);
    mr_block_unref(block);
    mr_program_free(p);
    mr_builder_free(outer);
}

static void columns_of_another_spec(void **state)
{
    const int64_t dims[] = {2};
    struct mr_leaf_spec wanted = leaf(MR_INT64, 0, NULL);
    struct mr_leaf_spec given[] = {leaf(MR_FLOAT32, 0, NULL), leaf(MR_INT64, 1, dims)};
    mr_builder *b = begin(&wanted, 1);
    mr_program *p = compile(b, (uint32_t[]){OP(b, "mul", 0, 0)}, 1);

    for (size_t i = 0; i < 2; i++) {
        mr_block *block = NULL;
        mr_block *out = NULL;
        uint32_t bad_row;
        mr_error err;

        CHECK_OK(mr_block_alloc(1, &given[i], 1, &block, e));
        assert_int_equal(mr_program_run(p, block, NULL, NULL, &out, &bad_row, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "wants int64 of rank 0"));
        assert_null(out);
        mr_block_unref(block);
    }
    mr_program_free(p);
}

/* ---- operators that know one row only ---- */

static const struct mr_kernel *real_sum;
static uint32_t calls;

static int sum_of_one_row(const struct mr_kernel_call *call, uint32_t rows,
                          const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                          size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct mr_kernel_call real = *call;

    assert_int_equal(rows, 1);
    assert_false(in[0].broadcast);
    if (++calls == 3 && call->random != NULL && call->random->seed == 1) {
        return mr_error_set(err, MR_EINVAL, "the third row");
    }
    real.kernel = real_sum;
    return real_sum->eval(&real, rows, in, nin, out, nout, bad_row, err);
}

static void a_rowwise_operator_gets_a_loop(void **state)
{
    const int64_t dims[] = {2};
    struct mr_leaf_spec in = leaf(MR_INT64, 1, dims);
    mr_builder *b = begin(&in, 1);
    mr_program *p = compile(b, (uint32_t[]){OP(b, "reduce_sum", 0)}, 1);
    struct mr_kernel kernel = *p->ops[0].kernel;
    struct mr_kernel_random random = {.seed = 1};
    mr_block *block = NULL;
    mr_block *out = NULL;
    uint32_t bad_row;
    mr_error err;

    real_sum = p->ops[0].kernel;
    kernel.flags |= MR_KERNEL_ROWWISE;
    kernel.eval = sum_of_one_row;
    p->ops[0].kernel = &kernel;
    CHECK_OK(mr_block_alloc(5, &in, 1, &block, e));
    for (int i = 0; i < 10; i++) {
        ((int64_t *)mr_block_data(block, 0))[i] = i;
    }
    calls = 0;
    out = run_ok(p, block);
    assert_int_equal(calls, 5);
    for (uint32_t r = 0; r < 5; r++) {
        assert_true(int_at(out, 0, r) == 4 * (int64_t)r + 1);
    }
    mr_block_unref(out);

    calls = 0;
    assert_int_equal(mr_program_run(p, block, NULL, &random, &out, &bad_row, &err), MR_EINVAL);
    assert_int_equal(bad_row, 2);
    assert_string_equal(err.message, "reduce_sum: the third row");
    assert_int_equal(mr_block_rows(out), 2);
    mr_block_unref(out);
    mr_block_unref(block);
    mr_program_free(p);
}

/* Random chains of one dtype against the same computation row by row in C. */
static void random_functions(void **state)
{
    unsigned seed = 1;

    for (int round = 0; round < 200; round++) {
        struct mr_leaf_spec in[2] = {leaf(MR_INT64, 0, NULL), leaf(MR_INT64, 0, NULL)};
        mr_builder *b = begin(in, 2);
        uint32_t values[64] = {0, 1};
        int64_t model[64][3] = {{5, -2, 9}, {3, 3, -7}};
        uint32_t n = 2;
        uint32_t length = 2 + (uint32_t)rand_r(&seed) % 60;

        while (n < length) {
            uint32_t x = (uint32_t)rand_r(&seed) % n;
            uint32_t y = (uint32_t)rand_r(&seed) % n;
            int op = rand_r(&seed) % 5;
            static const char *const names[] = {"add", "sub", "mul", "maximum", "constant"};

            values[n] = op == 4 ? constant(b, (int64_t)n) : OP(b, names[op], values[x], values[y]);
            for (int r = 0; r < 3; r++) {
                uint64_t p = (uint64_t)model[x][r];
                uint64_t q = (uint64_t)model[y][r];

                model[n][r] = op == 4   ? (int64_t)n
                              : op == 0 ? (int64_t)(p + q)
                              : op == 1 ? (int64_t)(p - q)
                              : op == 2 ? (int64_t)(p * q)
                                        : (model[x][r] > model[y][r] ? model[x][r] : model[y][r]);
            }
            n++;
        }
        uint32_t chosen[5];
        uint32_t outputs[5];
        for (int i = 0; i < 5; i++) {
            chosen[i] = (uint32_t)rand_r(&seed) % n;
            outputs[i] = values[chosen[i]];
        }
        mr_program *p = compile(b, outputs, 5);
        mr_block *block = NULL;
        CHECK_OK(mr_block_alloc(3, in, 2, &block, e));
        for (uint32_t c = 0; c < 2; c++) {
            memcpy(mr_block_data(block, c), model[c], sizeof model[c]);
        }
        mr_block *out = run_ok(p, block);
        for (uint32_t i = 0; i < 5; i++) {
            for (uint32_t r = 0; r < 3; r++) {
                assert_true(int_at(out, i, r) == model[chosen[i]][r]);
            }
        }
        mr_block_unref(out);
        mr_block_unref(block);
        mr_program_free(p);
    }
}

/* Each allocation fails in turn. */
static void without_memory(mr_function *fn, const mr_block *block)
{
    int rc = MR_EEXHAUSTED;

    for (uint64_t nth = 1; rc != MR_OK; nth++) {
        mr_program *p = NULL;
        mr_block *out = NULL;
        uint32_t bad_row;

        mr_alloc_fail_at(nth);
        rc = mr_program_new(fn, &p, NULL);
        if (rc == MR_OK) {
            rc = mr_program_run(p, block, NULL, NULL, &out, &bad_row, NULL);
        }
        mr_alloc_fail_at(0);
        assert_true(rc == MR_OK || rc == MR_EEXHAUSTED);
        assert_true(nth < 1000);
        mr_block_unref(out);
        mr_program_free(p);
    }
}

static void failed_allocations(void **state)
{
    const int64_t dims[] = {2};
    struct mr_leaf_spec in = leaf(MR_INT64, 1, dims);
    mr_builder *b = begin(&in, 1);
    mr_function *fn = NULL;
    uint32_t y = OP(b, "add", OP(b, "mul", 0, 0), OP(b, "neg", constant(b, 5)));
    uint32_t outputs[] = {OP(b, "reduce_sum", y), y};
    mr_block *block = NULL;

    CHECK_OK(mr_builder_finish(b, outputs, 2, NULL, &fn, e));
    mr_builder_free(b);
    CHECK_OK(mr_block_alloc(3, &in, 1, &block, e));
    memset(mr_block_data(block, 0), 0, 3 * 2 * sizeof(int64_t));
    without_memory(fn, block);
    mr_block_unref(block);
    mr_function_unref(fn);
}

/* ---- functions of operators ---- */

/* The function (captured x) -> x op k, of the function that @b builds. */
static mr_function *inner(mr_builder *b, const char *op, uint32_t x, const int64_t *k, bool takes)
{
    struct mr_leaf_spec part = leaf(MR_INT64, 0, NULL);
    mr_builder *made = NULL;
    mr_function *fn = NULL;
    mr_spec *spec = NULL;
    uint32_t captured = 0;

    CHECK_OK(mr_spec_new(&part, takes ? 1 : 0, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, b, &made, e));
    mr_spec_unref(spec);
    CHECK_OK(mr_builder_capture(made, x, &captured, e));
    uint32_t out = OP(made, op, captured, takes ? 0 : constant(made, *k));
    CHECK_OK(mr_builder_finish(made, &out, 1, NULL, &fn, e));
    mr_builder_free(made);
    return fn;
}

static uint32_t add_with(mr_builder *b, const char *op, uint32_t in, mr_function **fns, size_t n)
{
    uint32_t out = 0;
    size_t nout = 0;

    CHECK_OK(mr_builder_add(b, op, &in, 1, NULL, 0, fns, n, &out, 1, &nout, e));
    for (size_t i = 0; i < n; i++) {
        mr_function_unref(fns[i]);
    }
    return out;
}

/* x -> 8 / x where x % 3 is 0, x + 100 where it is 1, x * 2 elsewhere. */
static mr_function *switching(void)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t index = cast(b, OP(b, "floor_mod", 0, constant(b, 3)), MR_INT32);
    mr_function *fns[] = {inner(b, "floor_mod", constant(b, 8), &(int64_t){3}, false),
                          inner(b, "add", 0, &(int64_t){100}, false),
                          inner(b, "mul", 0, &(int64_t){2}, false)};
    uint32_t out = add_with(b, "switch_case", index, fns, 3);
    mr_function *fn = NULL;

    CHECK_OK(mr_builder_finish(b, &out, 1, NULL, &fn, e));
    mr_builder_free(b);
    return fn;
}

static void each_row_takes_its_branch(void **state)
{
    mr_function *fn = switching();
    mr_program *p = NULL;

    CHECK_OK(mr_program_new(fn, &p, e));
    for (uint32_t rows = 0; rows < 9; rows++) {
        mr_block *in = ints(rows, NULL);
        mr_block *out = run_ok(p, in);

        for (int64_t r = 0; r < rows; r++) {
            int64_t expected = r % 3 == 0 ? 2 : r % 3 == 1 ? r + 100 : r * 2;

            assert_int_equal(int_at(out, 0, (uint32_t)r), expected);
        }
        mr_block_unref(out);
        if (rows == 4) {
            without_memory(fn, in);
        }
        mr_block_unref(in);
    }
    mr_program_free(p);
    mr_function_unref(fn);
}

/* A failing row of a branch leaves the rows before it, of all branches. */
static void a_branch_that_fails_leaves_the_rows_before(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t index = cast(b, OP(b, "floor_mod", 0, constant(b, 2)), MR_INT32);
    mr_function *fns[] = {inner(b, "add", 0, &(int64_t){1}, false),
                          inner(b, "floor_div", 0, &(int64_t){0}, false)};
    uint32_t out = add_with(b, "switch_case", index, fns, 2);
    mr_program *p = compile(b, &out, 1);
    mr_block *block = ints(5, (const int64_t[]){2, 4, 6, 7, 9});
    mr_block *before = NULL;
    uint32_t bad = 0;
    mr_error err = {0};

    assert_true(mr_program_run(p, block, NULL, NULL, &before, &bad, &err) < 0);
    assert_int_equal(bad, 3);
    assert_int_equal(mr_block_rows(before), 3);
    assert_int_equal(int_at(before, 0, 2), 7);
    mr_block_unref(before);
    mr_block_unref(block);
    mr_program_free(p);
}

/* [rows, 3] -> each part plus the sum that stands beside it. */
static void each_part_goes_through_the_function(void **state)
{
    struct mr_leaf_spec specs[] = {leaf(MR_INT64, 1, (const int64_t[]){3}),
                                   leaf(MR_INT64, 0, NULL)};
    mr_builder *b = begin(specs, 2);
    mr_function *fns[] = {inner(b, "add", 1, NULL, true)};
    uint32_t out = add_with(b, "map_fn", 0, fns, 1);
    mr_function *fn = NULL;
    mr_program *p = NULL;

    CHECK_OK(mr_builder_finish(b, &out, 1, NULL, &fn, e));
    mr_builder_free(b);
    CHECK_OK(mr_program_new(fn, &p, e));
    for (uint32_t rows = 0; rows < 4; rows++) {
        mr_block *in = NULL;

        CHECK_OK(mr_block_alloc(rows, specs, 2, &in, e));
        for (uint32_t i = 0; i < rows * 3; i++) {
            ((int64_t *)mr_block_data(in, 0))[i] = i;
            ((int64_t *)mr_block_data(in, 1))[i / 3] = 100 * (i / 3);
        }
        mr_block *got = run_ok(p, in);
        const int64_t *values = mr_block_column(got, 0)->data;
        for (uint32_t i = 0; i < rows * 3; i++) {
            assert_int_equal(values[i], i + 100 * (i / 3));
        }
        mr_block_unref(got);
        without_memory(fn, in);
        mr_block_unref(in);
    }
    mr_program_free(p);
    mr_function_unref(fn);
}

/* x -> 0, 1, ... below x; or x. */
static mr_function *counting(bool counts)
{
    struct mr_leaf_spec part = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&part, 1);
    uint32_t out =
        counts ? OP(b, "range_tensor", constant(b, 0), 0, constant(b, 1)) : OP(b, "identity", 0);
    mr_function *fn = NULL;

    CHECK_OK(mr_builder_finish(b, &out, 1, NULL, &fn, e));
    mr_builder_free(b);
    return fn;
}

static int add_map(mr_builder *b, const int64_t *joined, int32_t n, mr_function *fn, uint32_t *out,
                   mr_error *err)
{
    struct mr_attr attr = {
        .name = "joined", .kind = MR_ATTR_INTS, .ints = (int64_t *)(uintptr_t)joined, .count = n};
    uint32_t in = 0;
    size_t nout = 0;

    return mr_builder_add(b, "map_fn", &in, 1, &attr, 1, &fn, 1, out, 1, &nout, err);
}

/* The results of the parts of a row stand behind one another: they may differ in length, and a row
 * may have no parts. */
static void results_of_parts_are_joined(void **state)
{
    const int64_t values[] = {2, 0, 3, 1, 0, 0};
    const uint64_t starts[] = {0, 3, 3, 6};
    const int64_t dims[] = {3, 0, 3};
    const int64_t want[] = {0, 1, 0, 1, 2, 0};
    const struct mr_column c = {.kind = MR_COLUMN_VAR,
                                .dtype = MR_INT64,
                                .rank = 1,
                                .row_dims = dims,
                                .starts = starts,
                                .data = values};
    struct mr_leaf_spec in = leaf(MR_INT64, 1, (const int64_t[]){MR_DIM_UNKNOWN});
    mr_builder *b = begin(&in, 1);
    mr_function *fn = counting(true);
    mr_function *whole = NULL;
    mr_block *block = NULL;
    mr_program *p = NULL;
    uint32_t out = 0;

    CHECK_OK(add_map(b, (const int64_t[]){0}, 1, fn, &out, e));
    CHECK_OK(mr_builder_finish(b, &out, 1, NULL, &whole, e));
    mr_builder_free(b);
    CHECK_OK(mr_program_new(whole, &p, e));
    CHECK_OK(mr_block_new(3, &c, 1, &block, e));
    mr_block *got = run_ok(p, block);
    const struct mr_column *result = mr_block_column(got, 0);
    assert_int_equal(result->kind, MR_COLUMN_VAR);
    assert_memory_equal(result->row_dims, ((const int64_t[]){5, 0, 1}), 3 * sizeof(int64_t));
    assert_memory_equal(result->data, want, sizeof want);
    mr_block_unref(got);
    without_memory(whole, block);
    mr_block_unref(block);
    mr_program_free(p);
    mr_function_unref(whole);
    mr_function_unref(fn);
}

static void what_is_joined_is_a_result(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 1, (const int64_t[]){3});
    const int64_t none[] = {1, -1};
    mr_builder *b = begin(&in, 1);
    mr_function *fn = counting(true);
    mr_error err = {0};
    uint32_t out = 0;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(add_map(b, &none[i], 1, fn, &out, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "there is no result"));
    }
    mr_function_unref(fn);
    fn = counting(false);
    assert_int_equal(add_map(b, (const int64_t[]){0}, 1, fn, &out, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "a result of the function has rank 0"));
    mr_function_unref(fn);
    mr_builder_free(b);
}

/* Each function uses the one before twice: what would be compiled doubles each time. */
static void functions_that_double_are_refused(void **state)
{
    struct mr_leaf_spec index = leaf(MR_INT32, 0, NULL);
    mr_function *fn = NULL;
    mr_error err = {0};
    int rc = MR_OK;

    for (int level = 0; rc == MR_OK && level < 64; level++) {
        mr_builder *b = begin(&index, 1);
        mr_function *made = NULL;
        uint32_t out = 0;
        size_t n = 0;

        for (int i = 0; rc == MR_OK && i < 200; i++) {
            uint32_t in[] = {0, 0};

            rc = level == 0
                     ? mr_builder_add(b, "identity", in, 1, NULL, 0, NULL, 0, &out, 1, &n, &err)
                     : mr_builder_add(b, "switch_case", in, 2, NULL, 0, &fn, 1, &out, 1, &n, &err);
        }
        rc = rc == MR_OK ? mr_builder_finish(b, &out, 1, NULL, &made, &err) : rc;
        mr_builder_free(b);
        mr_function_unref(fn);
        fn = made;
    }
    assert_int_equal(rc, MR_EINVAL);
    assert_non_null(strstr(err.message, "in all"));
    mr_function_unref(fn);
}

/* The decoder among the ops; NULL: none. */
static const struct mr_plan_op *decoder(const mr_program *p)
{
    for (uint32_t i = 0; i < p->nops; i++) {
        if (strcmp(p->ops[i].kernel->name, "decode_image") == 0) {
            return &p->ops[i];
        }
    }
    return NULL;
}

static bool has_op(const mr_program *p, const char *kernel)
{
    bool found = false;

    for (uint32_t i = 0; i < p->nops; i++) {
        found = found || strcmp(p->ops[i].kernel->name, kernel) == 0;
    }
    return found;
}

static void an_image_that_is_only_cut_is_not_decoded_whole(void **state)
{
    const struct mr_leaf_spec in[] = {leaf(MR_STRING, 0, NULL), leaf(MR_INT32, 1, (int64_t[]){3})};
    struct mr_attr channels = {.name = "channels", .kind = MR_ATTR_INT, .i = 3};
    enum { ONCE, TWICE, RETURNED, ALSO_CAST, ELSEWHERE, CASES };

    for (int use = ONCE; use < CASES; use++) {
        mr_builder *b = begin(in, 2);
        uint32_t image = add(b, "decode_image", &channels, 1, (uint32_t[]){0});
        uint32_t part = OP(b, "slice", image, 1, 1);
        uint32_t shape = OP(b, "shape", image);
        uint32_t more = use == TWICE       ? OP(b, "slice", image, shape, 1)
                        : use == RETURNED  ? image
                        : use == ALSO_CAST ? cast(b, image, MR_FLOAT32)
                        : use == ELSEWHERE ? OP(b, "add", cast(b, part, MR_UINT8), image)
                                           : shape;
        mr_program *p = compile(b, (uint32_t[]){part, shape, more}, 3);

        assert_non_null(decoder(p));
        assert_int_equal(decoder(p)->nin, use == ONCE ? 3 : 1);
        assert_int_equal(decoder(p)->nattrs, 1);
        assert_int_equal(has_op(p, "slice"), use != ONCE);
        assert_int_equal(has_op(p, "image_shape"), use == ONCE);
        mr_program_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_runs_in_one_step),
        cmocka_unit_test(inputs_pass_through_without_a_copy),
        cmocka_unit_test(constants_are_folded_and_dead_nodes_dropped),
        cmocka_unit_test(a_constant_that_fails),
        cmocka_unit_test(a_bad_row_leaves_the_rows_before_it),
        cmocka_unit_test(large_results),
        cmocka_unit_test(large_results_of_all_widths),
        cmocka_unit_test(the_widest_large_results),
        cmocka_unit_test(a_bad_row_among_large_results),
        cmocka_unit_test(values_of_different_shapes),
        cmocka_unit_test(rows_of_different_shapes),
        cmocka_unit_test(captured_values),
        cmocka_unit_test(an_image_that_is_only_cut_is_not_decoded_whole),
        cmocka_unit_test(columns_of_another_spec),
        cmocka_unit_test(a_rowwise_operator_gets_a_loop),
        cmocka_unit_test(random_functions),
        cmocka_unit_test(each_row_takes_its_branch),
        cmocka_unit_test(a_branch_that_fails_leaves_the_rows_before),
        cmocka_unit_test(each_part_goes_through_the_function),
        cmocka_unit_test(results_of_parts_are_joined),
        cmocka_unit_test(what_is_joined_is_a_result),
        cmocka_unit_test(functions_that_double_are_refused),
        cmocka_unit_test(failed_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
