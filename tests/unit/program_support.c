#include "program_support.h"

struct mr_leaf_spec leaf(mr_dtype dtype, int rank, const int64_t *dims)
{
    struct mr_leaf_spec s = {.dtype = (uint8_t)dtype, .rank = (int8_t)rank};

    for (int d = 0; d < rank; d++) {
        s.dims[d] = dims[d];
    }
    return s;
}

mr_builder *begin(const struct mr_leaf_spec *leaves, size_t n)
{
    mr_builder *b = NULL;
    mr_spec *spec = NULL;

    CHECK_OK(mr_spec_new(leaves, n, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    return b;
}

uint32_t add(mr_builder *b, const char *op, const struct mr_attr *attr, size_t nin,
             const uint32_t *in)
{
    uint32_t out = 0;
    size_t n = 0;

    CHECK_OK(mr_builder_add(b, op, in, nin, attr, attr == NULL ? 0 : 1, NULL, 0, &out, 1, &n, e));
    assert_int_equal(n, 1);
    return out;
}

uint32_t cast(mr_builder *b, uint32_t x, mr_dtype to)
{
    struct mr_attr dtype = {.name = "dtype", .kind = MR_ATTR_DTYPE, .i = to};

    return add(b, "cast", &dtype, 1, &x);
}

mr_block *ints(uint32_t rows, const int64_t *values)
{
    struct mr_leaf_spec s = leaf(MR_INT64, 0, NULL);
    mr_block *block = NULL;

    CHECK_OK(mr_block_alloc(rows, &s, 1, &block, e));
    int64_t *data = mr_block_data(block, 0);
    for (uint32_t r = 0; r < rows; r++) {
        data[r] = values == NULL ? (int64_t)r : values[r];
    }
    return block;
}

uint32_t constant(mr_builder *b, int64_t v)
{
    mr_block *block = ints(1, &v);
    uint32_t value = 0;

    CHECK_OK(mr_builder_constant(b, block, &value, e));
    mr_block_unref(block);
    return value;
}

mr_program *compile(mr_builder *b, const uint32_t *outputs, size_t n)
{
    mr_function *fn = NULL;
    mr_program *p = NULL;

    CHECK_OK(mr_builder_finish(b, outputs, n, NULL, &fn, e));
    CHECK_OK(mr_program_new(fn, &p, e));
    mr_function_unref(fn);
    mr_builder_free(b);
    return p;
}

mr_block *run_ok(const mr_program *p, const mr_block *in)
{
    mr_block *out = NULL;
    uint32_t bad_row = 0;

    CHECK_OK(mr_program_run(p, in, NULL, NULL, &out, &bad_row, e));
    assert_int_equal(mr_block_rows(out), mr_block_rows(in));
    return out;
}

int64_t int_at(const mr_block *block, uint32_t column, uint32_t row)
{
    assert_int_equal(mr_block_column(block, column)->dtype, MR_INT64);
    return ((const int64_t *)mr_block_column(block, column)->data)[row];
}
