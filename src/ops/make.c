/* Tensors whose shape is a value: fill, range_tensor. And matmul. */
#include "ops/attr.h"
#include "ops/einsum_product.h"
#include "ops/loops.h"
#include "ops/move.h"

#include <math.h>

/* ---- fill ---- */

static int infer_fill(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 0, 1, err));
    MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    it->out->dtype = it->in[1].dtype;
    return mr_shape_open(it->out, &it->in[0], "dims", err);
}

static int dims_fill(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    for (int d = 0; d < spec->rank; d++) {
        spec->dims[d] = mr_tensor_index(&row->in[0], (uint64_t)d);
        if (spec->dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d is %lld", d, (long long)spec->dims[d]);
        }
    }
    return MR_OK;
}

static int fill_fill(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    mr_fill_values(out->values, out->count, row->in[1].values, out->width);
    return MR_OK;
}

/* ---- range_tensor ---- */

static int infer_range(struct mr_kernel_infer *it, mr_error *err)
{
    for (size_t i = 0; i < it->nin; i++) {
        MR_TRY(mr_infer_rank(it->in, i, 0, err));
    }
    mr_shape_set(it->out, 1, (int64_t[]){MR_DIM_UNKNOWN});
    return MR_OK;
}

/* How many steps of @delta from @start stay before @limit; computed unsigned, so that nothing
 * overflows. */
#define INT_STEPS(tag, dtype, S, W, N, LD, ST, ...)                                                \
    case dtype: {                                                                                  \
        S start;                                                                                   \
        S limit;                                                                                   \
        S delta;                                                                                   \
        memcpy(&start, in[0].values, sizeof start);                                                \
        memcpy(&limit, in[1].values, sizeof limit);                                                \
        memcpy(&delta, in[2].values, sizeof delta);                                                \
        if (delta == 0) {                                                                          \
            return mr_error_set(err, MR_EINVAL, "a delta of 0");                                   \
        }                                                                                          \
        bool up = delta > 0;                                                                       \
        if (up ? start > limit : start < limit) {                                                  \
            return mr_error_set(err, MR_EINVAL, "no range: the limit lies before the start");      \
        }                                                                                          \
        uint64_t span =                                                                            \
            up ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;            \
        uint64_t step = up ? (uint64_t)delta : 0 - (uint64_t)delta;                                \
        *ret = span == 0 ? 0 : (span - 1) / step + 1;                                              \
        return MR_OK;                                                                              \
    }
#define FLOAT_STEPS(tag, dtype, S, W, N, LD, ST, ...)                                              \
    case dtype: {                                                                                  \
        S x[3];                                                                                    \
        for (int k = 0; k < 3; k++) {                                                              \
            memcpy(&x[k], in[k].values, sizeof x[k]);                                              \
        }                                                                                          \
        double start = (double)LD(N, x[0]);                                                        \
        double limit = (double)LD(N, x[1]);                                                        \
        double delta = (double)LD(N, x[2]);                                                        \
        double steps = ceil((limit - start) / delta);                                              \
        if (delta == 0 || steps != steps || steps > 0x1p62 ||                                      \
            (delta > 0 ? start > limit : start < limit)) {                                         \
            return mr_error_set(err, MR_EINVAL, "no range from %g to %g by %g", start, limit,      \
                                delta);                                                            \
        }                                                                                          \
        *ret = (uint64_t)steps;                                                                    \
        return MR_OK;                                                                              \
    }

static int count_steps(const struct mr_tensor *in, uint64_t *ret, mr_error *err)
{
    switch (in[0].dtype) {
        MR_EACH_INT(INT_STEPS, )
        MR_EACH_FLOAT(FLOAT_STEPS, )
    default: return mr_error_set(err, MR_EINTERNAL, "dtype %u", in[0].dtype);
    }
}

static int dims_range(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    uint64_t n = 0;

    MR_TRY(count_steps(row->in, &n, err));
    if (n > INT64_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "a range of %llu values", (unsigned long long)n);
    }
    spec->dims[0] = (int64_t)n;
    return MR_OK;
}

#define RANGE_FILL(tag, dtype, S, W, N, LD, ST, ...)                                               \
    case dtype: {                                                                                  \
        S *z = (S *)(void *)out->values;                                                           \
        S x[2];                                                                                    \
        memcpy(&x[0], row->in[0].values, sizeof x[0]);                                             \
        memcpy(&x[1], row->in[2].values, sizeof x[1]);                                             \
        const W start = LD(W, x[0]);                                                               \
        const W delta = LD(W, x[1]);                                                               \
        for (uint64_t i = 0; i < out->count; i++) {                                                \
            z[i] = ST(S, start + (W)i * delta);                                                    \
        }                                                                                          \
        return MR_OK;                                                                              \
    }

static int fill_range(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    switch (out->dtype) {
        MR_EACH_NUMBER(RANGE_FILL, )
    default: return mr_error_set(err, MR_EINTERNAL, "dtype %u", out->dtype);
    }
}

/* ---- matmul ---- */

struct product {
    uint64_t rows; /* of the result */
    uint64_t columns;
    uint64_t inner;
    uint64_t a_row; /* strides of a and b */
    uint64_t a_inner;
    uint64_t b_inner;
    uint64_t b_column;
};

static int infer_matmul(struct mr_kernel_infer *it, mr_error *err)
{
    bool ta = mr_attr_bool(it->attrs, "transpose_a", false);
    bool tb = mr_attr_bool(it->attrs, "transpose_b", false);
    struct mr_leaf_spec a = it->in[0];
    struct mr_leaf_spec b = it->in[1];

    if (a.rank < 2 || b.rank < 2) {
        return mr_error_set(err, MR_EINVAL, "ranks %d and %d; wants 2 or more", a.rank, b.rank);
    }
    int64_t rows = a.dims[a.rank - (ta ? 1 : 2)];
    int64_t inner_a = a.dims[a.rank - (ta ? 2 : 1)];
    int64_t inner_b = b.dims[b.rank - (tb ? 1 : 2)];
    int64_t columns = b.dims[b.rank - (tb ? 2 : 1)];
    if (inner_a != inner_b && inner_a != MR_DIM_UNKNOWN && inner_b != MR_DIM_UNKNOWN) {
        return mr_error_set(err, MR_EINVAL, "inner sizes %lld and %lld", (long long)inner_a,
                            (long long)inner_b);
    }
    mr_shape_set(&a, a.rank - 2, it->in[0].dims);
    mr_shape_set(&b, b.rank - 2, it->in[1].dims);
    MR_TRY(mr_shape_broadcast(&b, &a, err));
    a.dims[a.rank++] = rows;
    a.dims[a.rank++] = columns;
    it->out[0] = a;
    return MR_OK;
}

#define MATMUL(tag, dtype, S, W, N, LD, ST, ...)                                                   \
    static void matmul_##tag(const struct product *p, const void *x, const void *y, void *z)       \
    {                                                                                              \
        const S *a = x;                                                                            \
        const S *b = y;                                                                            \
        S *c = z;                                                                                  \
                                                                                                   \
        for (uint64_t i = 0; i < p->rows; i++) {                                                   \
            for (uint64_t j = 0; j < p->columns; j++) {                                            \
                W sum = 0;                                                                         \
                                                                                                   \
                for (uint64_t k = 0; k < p->inner; k++) {                                          \
                    sum += LD(W, a[i * p->a_row + k * p->a_inner]) *                               \
                           LD(W, b[k * p->b_inner + j * p->b_column]);                             \
                }                                                                                  \
                c[i * p->columns + j] = ST(S, sum);                                                \
            }                                                                                      \
        }                                                                                          \
    }
MR_EACH_FLOAT(MATMUL, )
MATMUL(i32, MR_INT32, int32_t, uint32_t, int32_t, MR_INT_LOAD, MR_INT_STORE, )
MATMUL(i64, MR_INT64, int64_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, )

static void (*const matmuls[MR_DTYPE_COUNT])(const struct product *, const void *, const void *,
                                             void *) = {
    [MR_INT32] = matmul_i32, [MR_INT64] = matmul_i64, MR_EACH_FLOAT(MR_LOOP_ENTRY, matmul, )};

/* From so many multiplications on, copies of the matrices that lie together are worth their while.
 * The sums are the same: their terms come in one order. */
#define COPY_FROM 4096

static struct mr_axes one_axis(uint64_t size, uint64_t left, uint64_t right, uint64_t result)
{
    return (struct mr_axes){.n = 1,
                            .count = size,
                            .sizes = {(int64_t)size},
                            .strides = {{(int64_t)left}, {(int64_t)right}, {(int64_t)result}}};
}

static struct mr_product large_product(const struct product *p)
{
    struct mr_axes none = {.count = 1};

    return (struct mr_product){.batch = none,
                               .kept = {one_axis(p->rows, p->a_row, 0, p->columns),
                                        one_axis(p->columns, 0, p->b_column, 1)},
                               .inner = one_axis(p->inner, p->a_inner, p->b_inner, 0),
                               .summed = {none, none}};
}

static int fill_matmul(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    bool ta = mr_attr_bool(row->attrs, "transpose_a", false);
    bool tb = mr_attr_bool(row->attrs, "transpose_b", false);
    uint64_t a_width = (uint64_t)row->in[0].dims[row->in[0].rank - 1];
    uint64_t b_width = (uint64_t)row->in[1].dims[row->in[1].rank - 1];
    struct product p = {
        .rows = (uint64_t)out->dims[out->rank - 2],
        .columns = (uint64_t)out->dims[out->rank - 1],
        .inner = (uint64_t)row->in[0].dims[row->in[0].rank - (ta ? 2 : 1)],
        .a_row = ta ? 1 : a_width,
        .a_inner = ta ? a_width : 1,
        .b_inner = tb ? 1 : b_width,
        .b_column = tb ? b_width : 1,
    };
    uint64_t size = p.rows * p.columns;
    struct mr_product large = large_product(&p);

    for (uint64_t m = 0; out->count > 0 && m < out->count / size; m++) {
        const unsigned char *values[2] = {
            row->in[0].values +
                mr_broadcast_index(&row->in[0], out, 2, m) * p.rows * p.inner * out->width,
            row->in[1].values +
                mr_broadcast_index(&row->in[1], out, 2, m) * p.inner * p.columns * out->width};
        unsigned char *to = out->values + m * size * out->width;

        if (size * p.inner < COPY_FROM) {
            matmuls[out->dtype](&p, values[0], values[1], to);
        } else {
            MR_TRY(mr_product_run(&large, out->dtype, values, to, err));
        }
    }
    return MR_OK;
}

MR_ROWS_KERNEL(fill, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_fill, .dims = dims_fill,
               .fill = fill_fill);
MR_ROWS_KERNEL(range_tensor, 3, 3, MR_SET_NUMBERS, .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_range, .dims = dims_range, .fill = fill_range);
MR_ROWS_KERNEL(matmul, 2, 2, MR_SET_FLOATS | MR_SET_INDEX, .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_matmul, .fill = fill_matmul,
               .attr_table = {{"transpose_a", MR_ATTR_BOOL, true},
                              {"transpose_b", MR_ATTR_BOOL, true}});
