/* Tensor operators on what nobody meant: the examples of kernel_examples.h with the smallest and the
 * largest numbers, NaN, bytes that are no text; with any other shapes and attributes that infer takes.
 * An operator gives a result or says why not; the sanitizers look on. */
#include "base/memory.h"
#include "base/rng.h"
#include "kernel_examples.h"
#include "kernel_support.h"
#include "ops/attr.h"
#include "ops/half.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROWS_MAX 3u
#define EXAMPLES (sizeof kernel_examples / sizeof kernel_examples[0])
#define VALUES_MAX 4096u
#define BUDGET_BYTES (64u << 20)

static struct {
    const struct kernel_example *example;
    struct mr_rng rng;
    uint32_t rows;
    struct test_call t;
    struct test_input inputs[TEST_INPUTS_MAX];
    mr_block *blocks[TEST_INPUTS_MAX];
    mr_error err;
} now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("%s(%s) %s: %s [%s]", now.example->kernel, now.example->inputs,               \
                     now.example->attrs, #condition, now.err.message);                             \
        }                                                                                          \
    } while (0)

static uint64_t below(uint64_t n)
{
    return mr_rng_below(&now.rng, n);
}

/* ---- values ---- */

/* Most are small, so that operators find nothing to refuse, and go on to the next. */
static void put_int(size_t width, unsigned char *to)
{
    uint64_t top = UINT64_C(1) << (8 * width - 1);
    const uint64_t rare[] = {top, top - 1, top + 1, UINT64_MAX, UINT64_MAX - 1, top >> 1};
    uint64_t v = below(4) == 0 ? rare[below(sizeof rare / sizeof rare[0])] : below(5);

    memcpy(to, &v, width); /* little-endian */
}

static double any_float(void)
{
    const double rare[] = {-0.0,    INFINITY,  -INFINITY, (double)NAN, DBL_MAX, -DBL_MAX,
                           DBL_MIN, 0x1p-1070, 0x1p31,    -0x1p63,     0x1p64,  65504};

    return below(3) == 0 ? rare[below(sizeof rare / sizeof rare[0])] : ((double)below(17) - 8) / 4;
}

static void put_part(mr_dtype dtype, unsigned char *to)
{
    double wide = any_float();
    float narrow = (float)wide;
    mr_half half = mr_half_store(narrow);
    mr_bfloat bfloat = mr_bfloat_store(narrow);

    switch ((int)dtype) {
    case MR_FLOAT16: memcpy(to, &half, sizeof half); break;
    case MR_BFLOAT16: memcpy(to, &bfloat, sizeof bfloat); break;
    case MR_FLOAT32: memcpy(to, &narrow, sizeof narrow); break;
    default: memcpy(to, &wide, sizeof wide); break;
    }
}

static void put_value(mr_dtype dtype, unsigned char *to)
{
    mr_dtype part = dtype == MR_COMPLEX64 ? MR_FLOAT32 : MR_FLOAT64;

    if (dtype == MR_BOOL) {
        *to = (unsigned char)below(2);
    } else if ((MR_SET(dtype) & MR_SET_COMPLEX) != 0) {
        put_part(part, to);
        put_part(part, to + mr_dtype_size(part));
    } else if ((MR_SET(dtype) & MR_SET_FLOATS) != 0) {
        put_part(dtype, to);
    } else {
        put_int(mr_dtype_size(dtype), to);
    }
}

/* Letters, digits and signs; half of characters, and zeros. */
static unsigned char any_byte(void)
{
    static const unsigned char bytes[] = "a9-,\"[]{}\\ \n\xc3\xa9\xed\xa0\xff";

    return bytes[below(sizeof bytes)];
}

/* @c with values of its own. */
static mr_block *with_values(struct mr_column c, uint32_t rows, uint64_t count)
{
    unsigned char data[VALUES_MAX * 16];
    uint64_t offsets[VALUES_MAX + 1] = {0};
    mr_block *block = NULL;

    CHECK(count <= VALUES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        if (c.dtype == MR_STRING) {
            offsets[i + 1] = offsets[i] + below(8);
            for (uint64_t k = offsets[i]; k < offsets[i + 1]; k++) {
                data[k] = any_byte();
            }
        } else {
            put_value((mr_dtype)c.dtype, data + i * mr_dtype_size((mr_dtype)c.dtype));
        }
    }
    c.data = data;
    c.offsets = c.dtype == MR_STRING ? offsets : NULL;
    CHECK(mr_block_new(rows, &c, 1, &block, &now.err) == MR_OK);
    return block;
}

/* ---- blocks ---- */

static uint64_t count_of(const struct mr_column *c, uint32_t rows)
{
    uint64_t count = 0;

    if (c->kind == MR_COLUMN_VAR) {
        return c->starts[rows] - c->starts[0];
    }
    CHECK(mr_shape_count(c->rank, c->dims, &count));
    return rows * count;
}

/* The shapes of the example. What is a record, or an image, stays one. */
static void make_values(uint64_t seed)
{
    test_random_blocks(now.inputs, now.t.nin, now.rows, seed, now.blocks);
    for (size_t i = 0; i < now.t.nin; i++) {
        mr_block *was = now.blocks[i];
        struct mr_column c = *mr_block_column(was, 0);

        if (now.inputs[i].content == CONTENT_WORD && below(4) > 0) {
            now.blocks[i] = with_values(c, now.rows, count_of(&c, now.rows));
            mr_block_unref(was);
        }
    }
}

/* Any shapes: of all inputs one, or each its own. */
static void make_shapes(uint64_t seed)
{
    struct mr_column same = {.kind = MR_COLUMN_FIXED};

    test_random_blocks(now.inputs, now.t.nin, now.rows, seed, now.blocks);
    for (size_t i = 0; i < now.t.nin; i++) {
        struct mr_column c = {.kind = MR_COLUMN_FIXED, .rank = (uint8_t)below(4)};
        uint64_t count = 0;

        for (int d = 0; d < c.rank; d++) {
            c.dims[d] = (int64_t)below(4);
        }
        c = i > 0 && below(3) == 0 ? same : c;
        same = c;
        c.dtype = now.inputs[i].spec.dtype;
        if (now.inputs[i].content != CONTENT_WORD) {
            continue;
        }
        mr_block_unref(now.blocks[i]);
        CHECK(mr_shape_count(c.rank, c.dims, &count));
        now.blocks[i] = with_values(c, now.rows, now.rows * count);
    }
}

/* What infer is told of the blocks: all, or not how large axes are. */
static void describe(void)
{
    for (size_t i = 0; i < now.t.nin; i++) {
        const struct mr_column *c = mr_block_column(now.blocks[i], 0);
        struct mr_leaf_spec *spec = &now.t.in[i];

        *spec = (struct mr_leaf_spec){.dtype = c->dtype, .rank = (int8_t)c->rank};
        for (int d = 0; d < c->rank; d++) {
            bool known = c->kind == MR_COLUMN_FIXED && below(4) > 0;

            spec->dims[d] = known ? c->dims[d] : MR_DIM_UNKNOWN;
        }
    }
}

/* ---- attributes ---- */

static int64_t any_int(void)
{
    const int64_t rare[] = {INT64_MIN, INT64_MAX, -1, INT64_C(1) << 40, 0, 1, 2};

    return rare[below(sizeof rare / sizeof rare[0])];
}

/* One attribute is another one of its kind, as mr_attrs_copy() takes it. */
static void change_attr(void)
{
    struct mr_attr *a = &now.t.attrs.attrs[below(now.t.attrs.n)];
    int64_t *ints = now.t.attrs.ints[a - now.t.attrs.attrs];

    switch (a->kind) {
    case MR_ATTR_INT: a->i = any_int(); break;
    case MR_ATTR_BOOL: a->i = (int64_t)below(2); break;
    case MR_ATTR_DTYPE: a->i = 1 + (int64_t)below(MR_DTYPE_COUNT - 1); break;
    case MR_ATTR_BYTES: a->size = below(a->size + 1); break;
    case MR_ATTR_INTS:
    case MR_ATTR_SHAPE:
        a->count = (int32_t)below(6) - (a->kind == MR_ATTR_SHAPE);
        a->ints = ints;
        for (int32_t i = 0; i < a->count; i++) {
            ints[i] = below(2) == 0 ? any_int() : (int64_t)below(5) - 1;
            ints[i] = a->kind == MR_ATTR_SHAPE ? MR_MAX(ints[i], MR_DIM_UNKNOWN) : ints[i];
        }
        break;
    default: break;
    }
}

static void make_attrs(uint64_t seed)
{
    test_free_attrs(&now.t.attrs);
    test_parse_attrs(now.example->attrs, &now.t.attrs);
    for (uint64_t i = 0; now.t.attrs.n > 0 && i < 1 + below(2); i++) {
        change_attr();
    }
    test_random_blocks(now.inputs, now.t.nin, now.rows, seed, now.blocks);
}

/* ---- calls ---- */

static void open_example(size_t e)
{
    memset(&now, 0, sizeof now);
    now.example = &kernel_examples[e];
    mr_rng_seed(&now.rng, 1 + e);
    test_parse_inputs(now.example->inputs, now.inputs);
    int rc = test_prepare(&now.t, now.example->kernel, now.example->inputs, now.example->attrs,
                          &now.err);
    CHECK(rc == MR_OK);
    now.t.call.attrs = now.t.attrs.attrs;
    now.t.call.out_specs = now.t.out;
}

static int eval(struct mr_owned_column *out, uint32_t *bad_row)
{
    const struct mr_kernel *kernel = now.t.kernel;

    MR_TRY(mr_kernel_infer(kernel, now.t.attrs.attrs, now.t.attrs.n, now.t.in, now.t.nin, NULL, 0,
                           now.t.out, TEST_OUTPUTS_MAX, &now.t.nout, &now.err));
    now.t.call.state = NULL;
    if (kernel->prepare != NULL) {
        MR_TRY(kernel->prepare(now.t.attrs.attrs, now.t.attrs.n, &now.t.call.state, &now.err));
    }
    int rc = test_eval(&now.t, now.rows, now.blocks, 0, out, bad_row, &now.err);
    if (kernel->release != NULL) {
        kernel->release(now.t.call.state);
    }
    return rc;
}

/* Whether there is a result, which is sound. */
static bool run(void)
{
    struct mr_owned_column out[TEST_OUTPUTS_MAX];
    uint32_t bad_row = 0;
    int rc = eval(out, &bad_row);

    CHECK(rc == MR_OK || rc == MR_EINVAL || rc == MR_EEXHAUSTED || rc == MR_ENOTFOUND);
    CHECK(bad_row < now.rows);
    CHECK(rc == MR_OK || now.err.message[0] != '\0');
    for (size_t o = 0; rc == MR_OK && o < now.t.nout; o++) {
        mr_block *block = NULL;

        CHECK(out[o].c.dtype == now.t.out[o].dtype);
        CHECK(mr_block_new(now.rows, &out[o].c, 1, &block, &now.err) ==
              MR_OK); /* which checks it */
        mr_block_unref(block);
    }
    if (rc == MR_OK) {
        test_release(&now.t, out);
    }
    for (size_t i = 0; i < now.t.nin; i++) {
        mr_block_unref(now.blocks[i]);
    }
    return rc == MR_OK;
}

static void try_all(void (*make)(uint64_t seed), uint64_t times)
{
    mr_memory *memory = NULL;
    size_t results = 0;

    assert_int_equal(mr_memory_new(BUDGET_BYTES, NULL, &memory, NULL), MR_OK);
    const uint64_t none = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    for (size_t e = 0; e < EXAMPLES; e++) {
        open_example(e);
        for (uint64_t i = 0; i < times; i++) {
            now.rows = 1 + (uint32_t)below(ROWS_MAX);
            make(1 + e * times + i);
            describe();
            results += run();
        }
        test_free_attrs(&now.t.attrs);
        CHECK(mr_memory_used(memory) == none);
    }
    assert_true(results > EXAMPLES);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
}

static void any_values(void **state)
{
    try_all(make_values, 40);
}

static void any_shapes(void **state)
{
    try_all(make_shapes, 100);
}

static void any_attributes(void **state)
{
    try_all(make_attrs, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_values),
        cmocka_unit_test(any_shapes),
        cmocka_unit_test(any_attributes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
