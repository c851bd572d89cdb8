/* Values that tensor operators must give, the traps first: what C leaves undefined, and what the
 * host could change. */
#include "base/buf.h"
#include "kernel_support.h"
#include "ops/half.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A call on single numbers: inputs are scalars of the dtypes in @inputs, with rows values each. */
struct run {
    struct test_call t;
    struct mr_owned_column out[TEST_OUTPUTS_MAX];
    uint32_t rows;
    uint32_t bad_row;
    int rc;
    mr_error err;
};

static void run_on(struct run *r, const char *kernel, const char *inputs, const char *attrs,
                   uint32_t rows, mr_block *const *blocks)
{
    memset(r, 0, sizeof *r);
    r->rows = rows;
    if (test_prepare(&r->t, kernel, inputs, attrs, &r->err) < 0) {
        fail_msg("%s", r->err.message);
    }
    r->t.call.attrs = r->t.attrs.attrs;
    r->t.call.out_specs = r->t.out;
    r->rc = test_eval(&r->t, rows, blocks, 0, r->out, &r->bad_row, &r->err);
}

static void run_close(struct run *r)
{
    if (r->rc == MR_OK) {
        test_release(&r->t, r->out);
    }
    test_free_attrs(&r->t.attrs);
}

/* Scalars: values of input i in @values[i][0..rows). */
static void run_scalars(struct run *r, const char *kernel, const char *inputs, const char *attrs,
                        uint32_t rows, const double (*values)[4])
{
    struct test_input parsed[TEST_INPUTS_MAX];
    mr_block *blocks[TEST_INPUTS_MAX];
    size_t n = test_parse_inputs(inputs, parsed);

    for (size_t i = 0; i < n; i++) {
        blocks[i] = test_block((mr_dtype)parsed[i].spec.dtype, 0, NULL, rows, values[i]);
    }
    run_on(r, kernel, inputs, attrs, rows, blocks);
    for (size_t i = 0; i < n; i++) {
        mr_block_unref(blocks[i]);
    }
}

static int64_t int_at(const struct run *r, uint32_t row)
{
    return ((const int64_t *)r->out[0].c.data)[row];
}

static void the_smallest_int_divided_by_minus_one(void **state)
{
    static const char *const inputs[] = {"int8[] int8[]", "int16[] int16[]", "int32[] int32[]",
                                         "int64[] int64[]"};
    const double smallest[] = {-0x1p7, -0x1p15, -0x1p31, -0x1p63};

    for (size_t i = 0; i < 4; i++) {
        const double values[2][4] = {{smallest[i]}, {-1}};
        struct run r;

        run_scalars(&r, "floor_div", inputs[i], "", 1, values);
        assert_int_equal(r.rc, MR_OK);
        assert_true(test_value(&r.out[0], 1, 0, 0) == smallest[i]);
        run_close(&r);
        run_scalars(&r, "floor_mod", inputs[i], "", 1, values);
        assert_int_equal(r.rc, MR_OK);
        assert_true(test_value(&r.out[0], 1, 0, 0) == 0);
        run_close(&r);
    }
}

static void division_by_zero_names_the_row(void **state)
{
    const double values[2][4] = {{1, 2, 3, 4}, {1, 1, 0, 0}};
    struct run r;

    run_scalars(&r, "floor_div", "int32[] int32[]", "", 4, values);
    assert_int_equal(r.rc, MR_EINVAL);
    assert_int_equal(r.bad_row, 2);
    assert_non_null(strstr(r.err.message, "division by zero"));
    run_close(&r);
    run_scalars(&r, "floor_mod", "uint8[] uint8[]", "", 4, values);
    assert_int_equal(r.rc, MR_EINVAL);
    assert_int_equal(r.bad_row, 2);
    run_close(&r);
    /* True division is one of floats. */
    run_scalars(&r, "div", "int32[] int32[]", "", 4, values);
    assert_int_equal(r.rc, MR_OK);
    assert_true(isinf(test_value(&r.out[0], 4, 2, 0)));
    run_close(&r);
}

static void division_rounds_down(void **state)
{
    const double values[2][4] = {{7, -7, 7, -7}, {2, 2, -2, -2}};
    const double quotients[] = {3, -4, -4, 3};
    const double remainders[] = {1, 1, -1, -1};
    static const char *const inputs[] = {"int32[] int32[]", "int8[] int8[]", "float32[] float32[]",
                                         "float64[] float64[]"};

    for (size_t i = 0; i < 4; i++) {
        struct run q;
        struct run m;

        run_scalars(&q, "floor_div", inputs[i], "", 4, values);
        run_scalars(&m, "floor_mod", inputs[i], "", 4, values);
        for (uint32_t k = 0; k < 4; k++) {
            assert_true(test_value(&q.out[0], 4, k, 0) == quotients[k]);
            assert_true(test_value(&m.out[0], 4, k, 0) == remainders[k]);
        }
        run_close(&q);
        run_close(&m);
    }
}

/* 193/64 by 129/128 is nearer to 3 than to the bfloat16 before it. */
static void narrow_quotients_are_rounded_first(void **state)
{
    const double values[2][4] = {{3.015625, -3.015625, 1, 0}, {1.0078125, 1.0078125, 0, 0}};
    static const char *const kernels[] = {"floor_div", "truncate_div"};

    for (size_t i = 0; i < 2; i++) {
        struct run r;

        run_scalars(&r, kernels[i], "bfloat16[] bfloat16[]", "", 4, values);
        assert_true(test_value(&r.out[0], 4, 0, 0) == 3);
        assert_true(test_value(&r.out[0], 4, 1, 0) == -3);
        assert_true(isinf(test_value(&r.out[0], 4, 2, 0)));
        assert_true(isnan(test_value(&r.out[0], 4, 3, 0)));
        run_close(&r);
    }
}

static void an_infinite_part_makes_an_infinite_number(void **state)
{
    const float parts[][2] = {{INFINITY, NAN}, {NAN, -INFINITY}, {NAN, 1}, {-3, 4}};
    const struct mr_column c = {.kind = MR_COLUMN_FIXED, .dtype = MR_COMPLEX64, .data = parts};
    mr_block *block = NULL;
    struct run r;

    assert_int_equal(mr_block_new(4, &c, 1, &block, NULL), MR_OK);
    run_on(&r, "complex_abs", "complex64[]", "", 4, &block);
    assert_true(isinf(test_value(&r.out[0], 4, 0, 0)));
    assert_true(isinf(test_value(&r.out[0], 4, 1, 0)));
    assert_true(isnan(test_value(&r.out[0], 4, 2, 0)));
    assert_true(test_value(&r.out[0], 4, 3, 0) == 5);
    run_close(&r);
    mr_block_unref(block);
}

static void ints_wrap(void **state)
{
    const double values[2][4] = {{-0x1p63, 0x1p62, 127, -0x1p63}, {-1, 4, 1, 1}};
    struct run r;

    run_scalars(&r, "add", "int64[] int64[]", "", 4, values);
    assert_true(int_at(&r, 0) == INT64_MAX);
    run_close(&r);
    run_scalars(&r, "mul", "int64[] int64[]", "", 4, values);
    assert_true(int_at(&r, 1) == 0);
    run_close(&r);
    run_scalars(&r, "sub", "int64[] int64[]", "", 4, values);
    assert_true(int_at(&r, 3) == INT64_MAX);
    run_close(&r);
    run_scalars(&r, "neg", "int64[]", "", 4, values);
    assert_true(int_at(&r, 0) == INT64_MIN);
    run_close(&r);
    run_scalars(&r, "abs", "int64[]", "", 4, values);
    assert_true(int_at(&r, 0) == INT64_MIN);
    assert_true(int_at(&r, 2) == 127);
    run_close(&r);

    const double small[2][4] = {{127, 65535, 200, -128}, {1, 65535, 100, 1}};
    run_scalars(&r, "add", "int8[] int8[]", "", 1, small);
    assert_true(test_value(&r.out[0], 1, 0, 0) == -128);
    run_close(&r);
    run_scalars(&r, "mul", "uint16[] uint16[]", "", 2, small); /* 65535 * 65535 overflows int */
    assert_true(test_value(&r.out[0], 2, 1, 0) == 1);
    run_close(&r);
    run_scalars(&r, "abs", "int8[]", "", 4, small);
    assert_true(test_value(&r.out[0], 4, 3, 0) == -128);
    run_close(&r);
}

static void floats_become_ints_by_saturation(void **state)
{
    const double values[1][4] = {{1e30, -1e30, (double)NAN, -1.9}};
    struct run r;

    run_scalars(&r, "cast", "float32[]", "dtype=:int64", 4, values);
    assert_true(int_at(&r, 0) == INT64_MAX && int_at(&r, 1) == INT64_MIN && int_at(&r, 2) == 0 &&
                int_at(&r, 3) == -1);
    run_close(&r);
    run_scalars(&r, "cast", "float64[]", "dtype=:int32", 4, values);
    assert_true(test_value(&r.out[0], 4, 0, 0) == INT32_MAX &&
                test_value(&r.out[0], 4, 1, 0) == INT32_MIN);
    run_close(&r);
    run_scalars(&r, "cast", "float64[]", "dtype=:uint8", 4, values);
    assert_true(test_value(&r.out[0], 4, 0, 0) == 255 && test_value(&r.out[0], 4, 1, 0) == 0 &&
                test_value(&r.out[0], 4, 2, 0) == 0 && test_value(&r.out[0], 4, 3, 0) == 0);
    run_close(&r);
    run_scalars(&r, "cast", "float64[]", "dtype=:uint64", 4, values);
    assert_true(((const uint64_t *)r.out[0].c.data)[0] == UINT64_MAX);
    run_close(&r);
    run_scalars(&r, "cast", "float64[]", "dtype=:bool", 4, values);
    assert_true(test_value(&r.out[0], 4, 2, 0) == 1 && test_value(&r.out[0], 4, 3, 0) == 1);
    run_close(&r);
}

static void true_division_gives_floats(void **state)
{
    const double values[2][4] = {{1, 7}, {2, 2}};
    struct run r;

    run_scalars(&r, "div", "int32[] int32[]", "", 2, values);
    assert_int_equal(r.t.out[0].dtype, MR_FLOAT64);
    assert_true(test_value(&r.out[0], 2, 1, 0) == 3.5);
    run_close(&r);
    run_scalars(&r, "div", "int8[] int8[]", "", 2, values);
    assert_int_equal(r.t.out[0].dtype, MR_FLOAT32);
    run_close(&r);
    run_scalars(&r, "div", "float16[] float16[]", "", 2, values);
    assert_int_equal(r.t.out[0].dtype, MR_FLOAT16);
    run_close(&r);
}

static void dtypes_are_not_promoted(void **state)
{
    struct test_call t;
    mr_error err;

    assert_int_equal(test_prepare(&t, "add", "int64[] float32[]", "", &err), MR_EINVAL);
    assert_string_equal(err.message, "dtypes int64 and float32: cast one of them");
    assert_int_equal(test_prepare(&t, "add", "int64[2] int64[3]", "", &err), MR_EINVAL);
    assert_string_equal(err.message, "shapes [2] and [3] do not broadcast");
    assert_int_equal(test_prepare(&t, "reduce_mean", "int32[4]", "", &err), MR_OK);
    assert_int_equal(t.out[0].dtype, MR_INT32);
}

static void shifts_are_clamped(void **state)
{
    const double values[2][4] = {{1, -8, 1, -1}, {100, 100, -3, 31}};
    struct run r;

    run_scalars(&r, "left_shift", "int32[] int32[]", "", 4, values);
    assert_true(test_value(&r.out[0], 4, 0, 0) == INT32_MIN && test_value(&r.out[0], 4, 2, 0) == 1);
    run_close(&r);
    run_scalars(&r, "right_shift", "int32[] int32[]", "", 4, values);
    assert_true(test_value(&r.out[0], 4, 0, 0) == 0 && test_value(&r.out[0], 4, 1, 0) == -1 &&
                test_value(&r.out[0], 4, 3, 0) == -1);
    run_close(&r);
}

static void powers(void **state)
{
    const double values[2][4] = {{3, -2, 0, 2}, {4, 3, 0, -1}};
    struct run r;

    run_scalars(&r, "pow", "int64[] int64[]", "", 3, values);
    assert_true(int_at(&r, 0) == 81 && int_at(&r, 1) == -8 && int_at(&r, 2) == 1);
    run_close(&r);
    run_scalars(&r, "pow", "int64[] int64[]", "", 4, values);
    assert_int_equal(r.rc, MR_EINVAL);
    assert_int_equal(r.bad_row, 3);
    run_close(&r);
}

static void nan_wins(void **state)
{
    const double values[2][4] = {{(double)NAN, 1, -1, 0}, {1, (double)NAN, 2, -3}};
    struct run r;

    run_scalars(&r, "maximum", "float32[] float32[]", "", 4, values);
    assert_true(isnan(test_value(&r.out[0], 4, 0, 0)) && isnan(test_value(&r.out[0], 4, 1, 0)));
    assert_true(test_value(&r.out[0], 4, 2, 0) == 2);
    run_close(&r);
    run_scalars(&r, "round", "float64[]", "", 1, (const double[1][4]){{2.5}});
    assert_true(test_value(&r.out[0], 1, 0, 0) == 2);
    run_close(&r);
}

/* Every half and bfloat16 there is goes to float and back; and rounding goes to even. */
static void halves(void **state)
{
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        mr_half h = {(uint16_t)bits};
        mr_bfloat b = {(uint16_t)bits};
        float f = mr_half_load(h);
        float g = mr_bfloat_load(b);

        assert_true(isnan(f) ? isnan(mr_half_load(mr_half_store(f)))
                             : mr_half_store(f).bits == bits);
        assert_true(isnan(g) ? isnan(mr_bfloat_load(mr_bfloat_store(g)))
                             : mr_bfloat_store(g).bits == bits);
    }
    assert_int_equal(mr_half_store(2049).bits, mr_half_store(2048).bits);
    assert_int_equal(mr_half_store(2051).bits, mr_half_store(2052).bits);
    assert_int_equal(mr_half_store(65519).bits, mr_half_store(65504).bits);
    assert_true(isinf(mr_half_load(mr_half_store(65520))));
    assert_int_equal(mr_half_store(0x1p-25f).bits, 0);
    assert_int_equal(mr_half_store(0x1.8p-25f).bits, 1);
    assert_int_equal(mr_bfloat_store(1 + 0x1p-8f).bits, mr_bfloat_store(1).bits);
    assert_true(isinf(mr_bfloat_load(mr_bfloat_store(FLT_MAX))));
}

/* ---- strings ---- */

static void run_strings(struct run *r, const char *kernel, const char *attrs, uint32_t rows,
                        const char *const *values)
{
    mr_block *block = test_strings(0, NULL, rows, values);

    run_on(r, kernel, "string[]", attrs, rows, &block);
    mr_block_unref(block);
}

/* A process that has set a locale with a decimal comma must not change what "1.5" is. */
static void numbers_ignore_the_locale(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    static const char *const values[] = {" 1.5", "-2e3 ", "inf"};
    const double numbers[1][4] = {{1.5}};
    struct run r;

    bool set = false;

    for (size_t i = 0; i < 4 && !set; i++) {
        set = setlocale(LC_NUMERIC, commas[i]) != NULL;
    }
    if (!set) {
        print_message("no locale with a decimal comma is installed: only the C locale is tried\n");
    }
    run_strings(&r, "string_to_number", "dtype=:float64", 3, values);
    assert_int_equal(r.rc, MR_OK);
    assert_true(test_value(&r.out[0], 3, 0, 0) == 1.5 && test_value(&r.out[0], 3, 1, 0) == -2000);
    run_close(&r);
    run_scalars(&r, "as_string", "float64[]", "precision=2", 1, numbers);
    assert_memory_equal(r.out[0].c.data, "1.50", 4);
    run_close(&r);
    setlocale(LC_NUMERIC, "C");
}

static void what_is_no_number_is_quoted(void **state)
{
    static const char *const values[] = {"12", "12x", "", "3000000000"};
    struct run r;

    run_strings(&r, "string_to_number", "dtype=:int32", 2, values);
    assert_int_equal(r.rc, MR_EINVAL);
    assert_int_equal(r.bad_row, 1);
    assert_non_null(strstr(r.err.message, "'12x'"));
    run_close(&r);
    run_strings(&r, "string_to_number", "dtype=:int32", 1, values + 2);
    assert_int_equal(r.rc, MR_EINVAL);
    run_close(&r);
    run_strings(&r, "string_to_number", "dtype=:int32", 1, values + 3);
    assert_int_equal(r.rc, MR_EINVAL);
    run_close(&r);
    run_strings(&r, "string_to_number", "dtype=:int64", 1, values + 3);
    assert_int_equal(r.rc, MR_OK);
    assert_true(int_at(&r, 0) == 3000000000);
    run_close(&r);
}

static void raw_bytes(void **state)
{
    static const char *const values[] = {"\x01\x02\x03\x04", "abc"};
    struct run r;

    run_strings(&r, "decode_raw", "dtype=:uint16", 1, values);
    assert_int_equal(r.rc, MR_OK);
    assert_true(test_value(&r.out[0], 1, 0, 0) == 0x0201 &&
                test_value(&r.out[0], 1, 0, 1) == 0x0403);
    run_close(&r);
    run_strings(&r, "decode_raw", "dtype=:uint16 little_endian=false", 1, values);
    assert_true(test_value(&r.out[0], 1, 0, 0) == 0x0102);
    run_close(&r);
    run_strings(&r, "decode_raw", "dtype=:uint16", 2, values);
    assert_int_equal(r.rc, MR_EINVAL);
    assert_int_equal(r.bad_row, 1);
    run_close(&r);
}

/* ---- shapes ---- */

/* A float64 tensor 0, 1, 2, ... of @dims through @kernel, compared with @expected. */
static void check_moved(const char *kernel, const char *inputs, const char *attrs, size_t n,
                        const double *expected)
{
    struct test_input parsed[TEST_INPUTS_MAX];
    double values[64];
    mr_block *block;
    struct run r;

    assert_int_equal(test_parse_inputs(inputs, parsed), 1);
    for (int i = 0; i < 64; i++) {
        values[i] = i;
    }
    block = test_block(MR_FLOAT64, parsed[0].spec.rank, parsed[0].spec.dims, 1, values);
    run_on(&r, kernel, inputs, attrs, 1, &block);
    if (r.rc < 0) {
        fail_msg("%s: %s", kernel, r.err.message);
    }
    for (size_t i = 0; i < n; i++) {
        if (test_value(&r.out[0], 1, 0, i) != expected[i]) {
            fail_msg("%s %s: value %zu is %g", kernel, attrs, i, test_value(&r.out[0], 1, 0, i));
        }
    }
    run_close(&r);
    mr_block_unref(block);
}

static void moved_values(void **state)
{
    check_moved("transpose", "float64[2,3]", "", 6, (double[]){0, 3, 1, 4, 2, 5});
    check_moved("reverse", "float64[2,3]", "axes=[1]", 6, (double[]){2, 1, 0, 5, 4, 3});
    check_moved("tile", "float64[1,2]", "multiples=[2,2]", 8, (double[]){0, 1, 0, 1, 0, 1, 0, 1});
    check_moved("pad", "float64[2]", "paddings=[1,2]", 5, (double[]){0, 0, 1, 0, 0});
    check_moved("broadcast_to", "float64[2,1]", "shape=<2,2,2>", 8,
                (double[]){0, 0, 1, 1, 0, 0, 1, 1});
    check_moved("strided_slice", "float64[5]", "begin=[-1] end=[0] strides=[-2] end_mask=1", 3,
                (double[]){4, 2, 0});
    check_moved("strided_slice", "float64[3,4]",
                "begin=[1,1] end=[0,3] strides=[1,1] shrink_axis_mask=1", 2, (double[]){5, 6});
    check_moved("strided_slice", "float64[2,3]",
                "begin=[0,-1] end=[0,0] strides=[1,1] ellipsis_mask=1 shrink_axis_mask=2", 2,
                (double[]){2, 5});
    check_moved("reduce_sum", "float64[2,3]", "axes=[0]", 3, (double[]){3, 5, 7});
    check_moved("reduce_mean", "float64[2,3]", "axes=[1]", 2, (double[]){1, 4});
    check_moved("reduce_max", "float64[2,2,2]", "axes=[0,2]", 2, (double[]){5, 7});
    check_moved("reduce_prod", "float64[2,2,2]", "axes=[1]", 4, (double[]){0, 3, 24, 35});
    check_moved("argmax", "float64[2,3]", "axis=1", 2, (double[]){2, 2});
    check_moved("argmin", "float64[2,3]", "axis=0", 3, (double[]){0, 0, 0});
}

static void products(void **state)
{
    double values[] = {1, 2, 3, 4, 5, 6};
    mr_block *blocks[2] = {test_block(MR_INT32, 2, (int64_t[]){2, 3}, 1, values),
                           test_block(MR_INT32, 2, (int64_t[]){3, 2}, 1, values)};
    const double expected[] = {22, 28, 49, 64};
    struct run r;

    run_on(&r, "matmul", "int32[2,3] int32[3,2]", "", 1, blocks);
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(test_value(&r.out[0], 1, 0, i) == expected[i]);
    }
    run_close(&r);
    mr_block_unref(blocks[0]);
    mr_block_unref(blocks[1]);
}

static void indices_out_of_range(void **state)
{
    struct test_call t;
    mr_error err;
    double values[] = {0, 1, 2, 3};
    mr_block *blocks[2] = {test_block(MR_INT32, 1, (int64_t[]){2}, 2, values),
                           test_block(MR_INT32, 0, NULL, 2, values + 1)};
    struct run r;

    run_on(&r, "gather", "int32[2] int32[]", "", 2, blocks);
    assert_int_equal(r.rc, MR_EINVAL);
    assert_int_equal(r.bad_row, 1);
    assert_non_null(strstr(r.err.message, "index 2 is out of range"));
    run_close(&r);
    mr_block_unref(blocks[0]);
    mr_block_unref(blocks[1]);
    assert_int_equal(test_prepare(&t, "strided_slice", "int32[3]",
                                  "begin=[3] end=[0] strides=[1] shrink_axis_mask=1", &err),
                     MR_EINVAL);
    assert_int_equal(
        test_prepare(&t, "strided_slice", "int32[3]", "begin=[0] end=[0] strides=[0]", &err),
        MR_EINVAL);
    assert_int_equal(
        test_prepare(&t, "strided_slice", "int32[3]", "begin=[0,0] end=[1,1] strides=[1,1]", &err),
        MR_EINVAL);
}

/* A wish for a tensor of any size is refused before memory is asked for. */
static void results_are_bounded(void **state)
{
    const double values[2][4] = {{1e15}, {1}};
    struct test_input parsed[2];
    mr_block *blocks[2];
    struct run r;

    test_parse_inputs("int64[1] float32[]", parsed);
    blocks[0] = test_block(MR_INT64, 1, (int64_t[]){1}, 1, values[0]);
    blocks[1] = test_block(MR_FLOAT32, 0, NULL, 1, values[1]);
    run_on(&r, "fill", "int64[1] float32[]", "", 1, blocks);
    assert_int_equal(r.rc, MR_EEXHAUSTED);
    run_close(&r);
    mr_block_unref(blocks[0]);
    mr_block_unref(blocks[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_int_divided_by_minus_one),
        cmocka_unit_test(division_by_zero_names_the_row),
        cmocka_unit_test(division_rounds_down),
        cmocka_unit_test(narrow_quotients_are_rounded_first),
        cmocka_unit_test(an_infinite_part_makes_an_infinite_number),
        cmocka_unit_test(ints_wrap),
        cmocka_unit_test(floats_become_ints_by_saturation),
        cmocka_unit_test(true_division_gives_floats),
        cmocka_unit_test(dtypes_are_not_promoted),
        cmocka_unit_test(shifts_are_clamped),
        cmocka_unit_test(powers),
        cmocka_unit_test(nan_wins),
        cmocka_unit_test(halves),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(what_is_no_number_is_quoted),
        cmocka_unit_test(raw_bytes),
        cmocka_unit_test(moved_values),
        cmocka_unit_test(products),
        cmocka_unit_test(indices_out_of_range),
        cmocka_unit_test(results_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
