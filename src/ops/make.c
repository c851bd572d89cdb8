/* Tensors whose shape is a value: fill, range_tensor. And matmul. */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/move.h"
#include "ops/table.h"

#include <math.h>
#include <string.h>

/* ---- fill ---- */

static int infer_fill(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                      size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    struct mr_leaf_spec result = in[1];

    MR_TRY(mr_infer_dtype(in, 0, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(in, 0, 1, err));
    MR_TRY(mr_infer_rank(in, 1, 0, err));
    if (in[0].rank != 1 || in[0].dims[0] < 0 || in[0].dims[0] > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "the length of dims must be known and at most %d",
                            MR_RANK_MAX);
    }
    result.rank = (int8_t)in[0].dims[0];
    for (int d = 0; d < MR_RANK_MAX; d++) {
        result.dims[d] = d < result.rank ? MR_DIM_UNKNOWN : 0;
    }
    out[0] = result;
    *nout = 1;
    return MR_OK;
}

static int dims_fill(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                     struct mr_leaf_spec *spec, mr_error *err)
{
    for (int d = 0; d < spec->rank; d++) {
        spec->dims[d] = mr_tensor_index(&in[0], (uint64_t)d);
        if (spec->dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d is %lld", d, (long long)spec->dims[d]);
        }
    }
    return MR_OK;
}

static int fill_fill(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                     size_t output, struct mr_result *out, mr_error *err)
{
    mr_fill_values(out->values, out->count, in[1].values, out->width);
    return MR_OK;
}

/* ---- range_tensor ---- */

static int infer_range(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                       size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                       mr_error *err)
{
    struct mr_leaf_spec result = in[0];
    int64_t unknown = MR_DIM_UNKNOWN;

    MR_TRY(mr_infer_same_dtype(in, 0, nin, err));
    MR_TRY(mr_infer_dtype(in, 0, MR_SET_NUMBERS, err));
    for (size_t i = 0; i < nin; i++) {
        MR_TRY(mr_infer_rank(in, i, 0, err));
    }
    mr_shape_set(&result, 1, &unknown);
    out[0] = result;
    *nout = 1;
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
        uint64_t span =                                                                            \
            up ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;            \
        uint64_t step = up ? (uint64_t)delta : 0 - (uint64_t)delta;                                \
        *ret = (up ? start >= limit : start <= limit) ? 0 : (span - 1) / step + 1;                 \
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
        if (delta == 0 || steps != steps || steps > 0x1p62) {                                      \
            return mr_error_set(err, MR_EINVAL, "no range from %g to %g by %g", start, limit,      \
                                delta);                                                            \
        }                                                                                          \
        *ret = steps > 0 ? (uint64_t)steps : 0;                                                    \
        return MR_OK;                                                                              \
    }

static int count_steps(const struct mr_tensor *in, uint64_t *ret, mr_error *err)
{
    switch (in[0].dtype) {
        MR_EACH_INT(INT_STEPS, )
        MR_EACH_FLOAT(FLOAT_STEPS, )
    default:
        return mr_error_set(err, MR_EINTERNAL, "dtype %u", in[0].dtype);
    }
}

static int dims_range(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      struct mr_leaf_spec *spec, mr_error *err)
{
    uint64_t n = 0;
    int rc = count_steps(in, &n, err);

    if (rc == MR_OK && n > INT64_MAX) {
        rc = mr_error_set(err, MR_EEXHAUSTED, "a range of %llu values", (unsigned long long)n);
    }
    spec->dims[0] = (int64_t)n;
    return rc;
}

#define RANGE_FILL(tag, dtype, S, W, N, LD, ST, ...)                                               \
    case dtype: {                                                                                  \
        S *z = (S *)(void *)out->values;                                                           \
        S x[2];                                                                                    \
        memcpy(&x[0], in[0].values, sizeof x[0]);                                                  \
        memcpy(&x[1], in[2].values, sizeof x[1]);                                                  \
        const W start = LD(W, x[0]);                                                               \
        const W delta = LD(W, x[1]);                                                               \
        for (uint64_t i = 0; i < out->count; i++) {                                                \
            z[i] = ST(S, start + (W)i * delta);                                                    \
        }                                                                                          \
        return MR_OK;                                                                              \
    }

static int fill_range(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      size_t output, struct mr_result *out, mr_error *err)
{
    switch (out->dtype) {
        MR_EACH_NUMBER(RANGE_FILL, )
    default:
        return mr_error_set(err, MR_EINTERNAL, "dtype %u", out->dtype);
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

static int infer_matmul(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                        mr_error *err)
{
    bool ta = mr_attr_bool(attrs, nattrs, "transpose_a", false);
    bool tb = mr_attr_bool(attrs, nattrs, "transpose_b", false);
    struct mr_leaf_spec a = in[0];
    struct mr_leaf_spec b = in[1];

    MR_TRY(mr_infer_same_dtype(in, 0, nin, err));
    MR_TRY(mr_infer_dtype(in, 0, MR_SET_FLOATS | MR_SET_INDEX, err));
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
    mr_shape_set(&a, a.rank - 2, in[0].dims);
    mr_shape_set(&b, b.rank - 2, in[1].dims);
    MR_TRY(mr_shape_broadcast(&b, &a, err));
    a.dims[a.rank++] = rows;
    a.dims[a.rank++] = columns;
    out[0] = a;
    *nout = 1;
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
#define MATMUL_CASE(tag, dtype, ...)                                                               \
    case dtype:                                                                                    \
        return matmul_##tag;
MR_EACH_FLOAT(MATMUL, )
MATMUL(i32, MR_INT32, int32_t, uint32_t, int32_t, MR_INT_LOAD, MR_INT_STORE, )
MATMUL(i64, MR_INT64, int64_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, )

typedef void (*matmul_fn)(const struct product *p, const void *x, const void *y, void *z);
static matmul_fn matmul_of(unsigned dtype)
{
    switch (dtype) {
        MR_EACH_FLOAT(MATMUL_CASE, )
        MATMUL_CASE(i32, MR_INT32)
        MATMUL_CASE(i64, MR_INT64)
    default:
        return NULL;
    }
}

/* Which matrix of @t belongs to matrix @m of the result. */
static uint64_t matrix_of(const struct mr_tensor *t, const struct mr_result *out, uint64_t m)
{
    uint64_t at = 0;
    uint64_t stride = 1;

    for (int d = out->rank - 3, e = t->rank - 3; d >= 0; d--, e--) {
        uint64_t index = m % (uint64_t)out->dims[d];

        m /= (uint64_t)out->dims[d];
        if (e >= 0) {
            at += t->dims[e] == 1 ? 0 : index * stride;
            stride *= (uint64_t)t->dims[e];
        }
    }
    return at;
}

static int fill_matmul(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                       size_t output, struct mr_result *out, mr_error *err)
{
    bool ta = mr_attr_bool(call->attrs, call->nattrs, "transpose_a", false);
    bool tb = mr_attr_bool(call->attrs, call->nattrs, "transpose_b", false);
    uint64_t a_width = (uint64_t)in[0].dims[in[0].rank - 1];
    uint64_t b_width = (uint64_t)in[1].dims[in[1].rank - 1];
    struct product p = {
        .rows = (uint64_t)out->dims[out->rank - 2],
        .columns = (uint64_t)out->dims[out->rank - 1],
        .inner = (uint64_t)in[0].dims[in[0].rank - (ta ? 2 : 1)],
        .a_row = ta ? 1 : a_width,
        .a_inner = ta ? a_width : 1,
        .b_inner = tb ? 1 : b_width,
        .b_column = tb ? b_width : 1,
    };
    uint64_t size = p.rows * p.columns;

    for (uint64_t m = 0; out->count > 0 && m < out->count / size; m++) {
        matmul_of(out->dtype)(
            &p, in[0].values + matrix_of(&in[0], out, m) * p.rows * p.inner * out->width,
            in[1].values + matrix_of(&in[1], out, m) * p.inner * p.columns * out->width,
            out->values + m * size * out->width);
    }
    return MR_OK;
}

static const struct mr_kernel_attr matmul_attrs[] = {
    {"transpose_a", MR_ATTR_BOOL, true}, {"transpose_b", MR_ATTR_BOOL, true}, {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_fill, "fill", MR_KERNEL_MAY_FAIL, 2, 2, infer_fill, NULL, dims_fill,
               fill_fill);
MR_ROWS_KERNEL(mr_kernel_range_tensor, "range_tensor", MR_KERNEL_MAY_FAIL, 3, 3, infer_range, NULL,
               dims_range, fill_range);
MR_ROWS_KERNEL(mr_kernel_matmul, "matmul", MR_KERNEL_MAY_FAIL, 2, 2, infer_matmul, matmul_attrs,
               NULL, fill_matmul);
