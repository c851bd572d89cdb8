/* Operators that look at positions: gather, one_hot, argmax, argmin. */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/move.h"
#include "ops/table.h"

#include <string.h>

/* ---- gather ---- */

static int infer_gather(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                        mr_error *err)
{
    struct mr_leaf_spec result = in[0];
    int axis = 0;
    int rc = mr_infer_dtype(in, 1, MR_SET_INDEX, err);

    *nout = 1;
    if (rc < 0) {
        return rc;
    }
    if (in[0].rank < 0 || in[1].rank < 0) {
        mr_shape_unknown(&result);
        out[0] = result;
        return MR_OK;
    }
    MR_TRY(mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", 0), in[0].rank, &axis, err));
    int rank = in[0].rank - 1 + in[1].rank;
    if (rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", rank, MR_RANK_MAX);
    }
    memset(result.dims, 0, sizeof result.dims);
    for (int d = 0; d < rank; d++) {
        bool inside = d >= axis && d < axis + in[1].rank;

        result.dims[d] = d < axis ? in[0].dims[d]
                         : inside ? in[1].dims[d - axis]
                                  : in[0].dims[d - in[1].rank + 1];
    }
    result.rank = (int8_t)rank;
    out[0] = result;
    return MR_OK;
}

static int fill_gather(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                       size_t output, struct mr_result *out, mr_error *err)
{
    unsigned char *at = out->values;
    uint64_t outer = 1;
    uint64_t inner = 1;
    int axis = 0;

    MR_TRY(
        mr_axis_resolve(mr_attr_int(call->attrs, call->nattrs, "axis", 0), in[0].rank, &axis, err));
    for (int d = 0; d < in[0].rank; d++) {
        outer *= d < axis ? (uint64_t)in[0].dims[d] : 1;
        inner *= d > axis ? (uint64_t)in[0].dims[d] : 1;
    }
    int64_t size = in[0].dims[axis];
    for (uint64_t i = 0; i < in[1].count; i++) {
        int64_t index = mr_tensor_index(&in[1], i);
        if (index < 0 || index >= size) {
            return mr_error_set(err, MR_EINVAL,
                                "index %lld is out of range for axis %d of size %lld",
                                (long long)index, axis, (long long)size);
        }
    }
    size_t bytes = inner * out->width;
    for (uint64_t o = 0; bytes > 0 && o < outer; o++) {
        for (uint64_t i = 0; i < in[1].count; i++, at += bytes) {
            uint64_t piece = o * (uint64_t)size + (uint64_t)mr_tensor_index(&in[1], i);

            memcpy(at, in[0].values + piece * bytes, bytes);
        }
    }
    return MR_OK;
}

/* ---- one_hot ---- */

static int infer_one_hot(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                         size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                         mr_error *err)
{
    struct mr_leaf_spec result = in[0];
    int64_t depth = mr_attr_int(attrs, nattrs, "depth", 0);
    int axis = 0;

    MR_TRY(mr_infer_dtype(in, 0, MR_SET_INTS, err));
    MR_TRY(mr_infer_same_dtype(in, 1, nin, err));
    MR_TRY(mr_infer_rank(in, 1, 0, err));
    MR_TRY(mr_infer_rank(in, 2, 0, err));
    if (depth < 0) {
        return mr_error_set(err, MR_EINVAL, "depth %lld", (long long)depth);
    }
    *nout = 1;
    result.dtype = in[1].dtype;
    if (in[0].rank >= 0) {
        if (in[0].rank == MR_RANK_MAX) {
            return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", MR_RANK_MAX + 1,
                                MR_RANK_MAX);
        }
        MR_TRY(mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", -1), in[0].rank + 1, &axis, err));
        for (int d = (int)in[0].rank; d > axis; d--) {
            result.dims[d] = result.dims[d - 1];
        }
        result.dims[axis] = depth;
        result.rank++;
    }
    out[0] = result;
    return MR_OK;
}

/* Any int as an index; what is too large for one comes out negative. */
static int64_t any_index(const struct mr_tensor *t, uint64_t i)
{
#define INDEX(tag, dtype, S, W, N, LD, ST, ...)                                                    \
    case dtype: {                                                                                  \
        S v;                                                                                       \
        memcpy(&v, t->values + i * sizeof v, sizeof v);                                            \
        return (int64_t)v;                                                                         \
    }
    switch (t->dtype) {
        MR_EACH_INT(INDEX, )
    default:
        return -1;
    }
#undef INDEX
}

static int fill_one_hot(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                        size_t output, struct mr_result *out, mr_error *err)
{
    uint64_t inner = 1;
    int axis = 0;
    MR_TRY(
        mr_axis_resolve(mr_attr_int(call->attrs, call->nattrs, "axis", -1), out->rank, &axis, err));
    for (int d = axis + 1; d < out->rank; d++) {
        inner *= (uint64_t)out->dims[d];
    }
    mr_fill_values(out->values, out->count, in[2].values, out->width);
    for (uint64_t i = 0; out->count > 0 && i < in[0].count; i++) {
        int64_t index = any_index(&in[0], i);
        uint64_t piece = i / inner * (uint64_t)out->dims[axis];

        if (index >= 0 && index < out->dims[axis]) {
            uint64_t place = (piece + (uint64_t)index) * inner + i % inner;

            memcpy(out->values + place * out->width, in[1].values, out->width);
        }
    }
    return MR_OK;
}

/* ---- argmax, argmin ---- */

static int infer_arg(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                     size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    mr_dtype dtype = mr_attr_dtype(attrs, nattrs, "dtype", MR_INT64);
    struct mr_leaf_spec result = in[0];
    int axis = 0;
    MR_TRY(mr_infer_dtype(in, 0, MR_SET_NUMBERS | MR_SET(MR_BOOL), err));
    if (dtype != MR_INT32 && dtype != MR_INT64) {
        return mr_error_set(err, MR_EINVAL, "dtype %s: wants int32 or int64", mr_dtype_name(dtype));
    }
    *nout = 1;
    result.dtype = (uint8_t)dtype;
    if (in[0].rank >= 0) {
        MR_TRY(mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", 0), in[0].rank, &axis, err));
        if (in[0].dims[axis] == 0) {
            return mr_error_set(err, MR_EINVAL, "axis %d is empty", axis);
        }
        for (int d = axis; d + 1 < MR_RANK_MAX; d++) {
            result.dims[d] = in[0].dims[d + 1];
        }
        result.dims[MR_RANK_MAX - 1] = 0;
        result.rank--;
    }
    out[0] = result;
    return MR_OK;
}

/* The first of the best of @n values, one every @stride. A NaN is better than anything. */
typedef uint64_t (*best_fn)(const void *values, uint64_t n, uint64_t stride);

#define BEST(tag, dtype, S, W, N, LD, ST, name, op)                                                \
    static uint64_t name##_##tag(const void *values, uint64_t n, uint64_t stride)                  \
    {                                                                                              \
        const S *x = values;                                                                       \
        N best = LD(N, x[0]);                                                                      \
        uint64_t at = 0;                                                                           \
                                                                                                   \
        for (uint64_t i = 1; i < n && best == best; i++) {                                         \
            const N v = LD(N, x[i * stride]);                                                      \
                                                                                                   \
            if (v op best || v != v) {                                                             \
                best = v;                                                                          \
                at = i;                                                                            \
            }                                                                                      \
        }                                                                                          \
        return at;                                                                                 \
    }
#define BEST_ENTRY(tag, dtype, S, W, N, LD, ST, name, ...) [dtype] = name##_##tag,

MR_EACH_NUMBER(BEST, best_max, >)
MR_EACH_BOOL(BEST, best_max, >)
MR_EACH_NUMBER(BEST, best_min, <)
MR_EACH_BOOL(BEST, best_min, <)
static const best_fn max_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(BEST_ENTRY, best_max, )
                                                    MR_EACH_BOOL(BEST_ENTRY, best_max, )};
static const best_fn min_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(BEST_ENTRY, best_min, )
                                                    MR_EACH_BOOL(BEST_ENTRY, best_min, )};

static int fill_best(const struct mr_kernel_call *call, const struct mr_tensor *in,
                     const best_fn *fns, struct mr_result *out, mr_error *err)
{
    uint64_t inner = 1;
    int axis = 0;

    MR_TRY(
        mr_axis_resolve(mr_attr_int(call->attrs, call->nattrs, "axis", 0), in[0].rank, &axis, err));
    for (int d = axis + 1; d < in[0].rank; d++) {
        inner *= (uint64_t)in[0].dims[d];
    }
    uint64_t size = (uint64_t)in[0].dims[axis];
    for (uint64_t i = 0; i < out->count; i++) {
        const unsigned char *first =
            in[0].values + (i / inner * size * inner + i % inner) * in[0].width;
        uint64_t at = fns[in[0].dtype](first, size, inner);
        if (out->dtype == MR_INT32) {
            ((int32_t *)(void *)out->values)[i] = (int32_t)(uint32_t)at;
        } else {
            ((int64_t *)(void *)out->values)[i] = (int64_t)at;
        }
    }
    return MR_OK;
}

static int fill_argmax(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                       size_t output, struct mr_result *out, mr_error *err)
{
    return fill_best(call, in, max_fns, out, err);
}

static int fill_argmin(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                       size_t output, struct mr_result *out, mr_error *err)
{
    return fill_best(call, in, min_fns, out, err);
}

static const struct mr_kernel_attr gather_attrs[] = {{"axis", MR_ATTR_INT, true}, {NULL, 0, false}};
static const struct mr_kernel_attr one_hot_attrs[] = {
    {"depth", MR_ATTR_INT, false}, {"axis", MR_ATTR_INT, true}, {NULL, 0, false}};
static const struct mr_kernel_attr arg_attrs[] = {
    {"axis", MR_ATTR_INT, true}, {"dtype", MR_ATTR_DTYPE, true}, {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_gather, "gather", MR_KERNEL_MAY_FAIL, 2, 2, infer_gather, gather_attrs,
               NULL, fill_gather);
MR_ROWS_KERNEL(mr_kernel_one_hot, "one_hot", 0, 3, 3, infer_one_hot, one_hot_attrs, NULL,
               fill_one_hot);
MR_ROWS_KERNEL(mr_kernel_argmax, "argmax", MR_KERNEL_MAY_FAIL, 1, 1, infer_arg, arg_attrs, NULL,
               fill_argmax);
MR_ROWS_KERNEL(mr_kernel_argmin, "argmin", MR_KERNEL_MAY_FAIL, 1, 1, infer_arg, arg_attrs, NULL,
               fill_argmin);
