/* Operators that look at positions: gather, one_hot, argmax, argmin. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/move.h"

/* ---- gather ---- */

/* Of params [batch..., before..., axis, behind...] and indices [batch..., places...]. */
static int gather_axes(struct mr_attrs attrs, int rank, int indices_rank, int *axis, int *batch,
                       mr_error *err)
{
    int64_t wanted = mr_attr_int(attrs, "batch_dims", 0);

    MR_TRY(mr_attr_axis(attrs, 0, rank, axis, err));
    if (wanted < 0 || wanted > *axis || wanted > indices_rank) {
        return mr_error_set(err, MR_EINVAL, "batch_dims %lld with axis %d and indices of rank %d",
                            (long long)wanted, *axis, indices_rank);
    }
    *batch = (int)wanted;
    return MR_OK;
}

static int infer_gather(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *x = &it->in[0];
    const struct mr_leaf_spec *indices = &it->in[1];
    int64_t dims[MR_RANK_MAX];
    int batch = 0;
    int axis = 0;

    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    if (x->rank < 0 || indices->rank < 0) {
        mr_shape_unknown(it->out);
        return MR_OK;
    }
    MR_TRY(gather_axes(it->attrs, x->rank, indices->rank, &axis, &batch, err));
    int places = indices->rank - batch;
    int rank = x->rank - 1 + places;
    if (rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", rank, MR_RANK_MAX);
    }
    for (int d = 0; d < batch; d++) {
        if (x->dims[d] >= 0 && indices->dims[d] >= 0 && x->dims[d] != indices->dims[d]) {
            return mr_error_set(err, MR_EINVAL, "axis %d has size %lld and %lld", d,
                                (long long)x->dims[d], (long long)indices->dims[d]);
        }
    }
    for (int d = 0; d < rank; d++) {
        dims[d] = d < axis            ? x->dims[d]
                  : d < axis + places ? indices->dims[d - axis + batch]
                                      : x->dims[d - places + 1];
    }
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

static int fill_gather(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    const struct mr_tensor *indices = &row->in[1];
    unsigned char *at = out->values;
    uint64_t batches = 1;
    uint64_t outer;
    uint64_t inner;
    int batch = 0;
    int axis = 0;

    MR_TRY(gather_axes(row->attrs, x->rank, indices->rank, &axis, &batch, err));
    mr_shape_split(x->rank, x->dims, axis, &outer, &inner);
    int64_t size = x->dims[axis];
    for (uint64_t i = 0; i < indices->count; i++) {
        int64_t index = mr_tensor_index(indices, i);
        if (index < 0 || index >= size) {
            return mr_error_set(err, MR_EINVAL,
                                "index %lld is out of range for axis %d of size %lld",
                                (long long)index, axis, (long long)size);
        }
    }
    size_t bytes = inner * out->width;
    if (bytes == 0 || out->count == 0) {
        return MR_OK;
    }
    for (int d = 0; d < batch; d++) {
        batches *= (uint64_t)x->dims[d];
    }
    uint64_t places = indices->count / batches;
    for (uint64_t o = 0; o < outer; o++) {
        uint64_t first = o / (outer / batches) * places;

        for (uint64_t i = 0; i < places; i++, at += bytes) {
            uint64_t piece = o * (uint64_t)size + (uint64_t)mr_tensor_index(indices, first + i);

            memcpy(at, x->values + piece * bytes, bytes);
        }
    }
    return MR_OK;
}

/* ---- one_hot ---- */

static int infer_one_hot(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t depth = mr_attr_int(it->attrs, "depth", 0);

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_INTS, err));
    MR_TRY(mr_infer_same_dtype(it->in, 1, it->nin, err));
    MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    MR_TRY(mr_infer_rank(it->in, 2, 0, err));
    if (depth < 0) {
        return mr_error_set(err, MR_EINVAL, "depth %lld", (long long)depth);
    }
    it->out->dtype = it->in[1].dtype;
    return it->out->rank < 0
               ? MR_OK
               : mr_shape_insert(it->out, mr_attr_int(it->attrs, "axis", -1), depth, err);
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
    default: return -1;
    }
#undef INDEX
}

static int fill_one_hot(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, -1, out->rank, &axis, err));
    mr_shape_split(out->rank, out->dims, axis, &outer, &inner);
    mr_fill_values(out->values, out->count, row->in[2].values, out->width);
    for (uint64_t i = 0; out->count > 0 && i < row->in[0].count; i++) {
        int64_t index = any_index(&row->in[0], i);
        uint64_t piece = i / inner * (uint64_t)out->dims[axis];

        if (index >= 0 && index < out->dims[axis]) {
            uint64_t place = (piece + (uint64_t)index) * inner + i % inner;

            memcpy(out->values + place * out->width, row->in[1].values, out->width);
        }
    }
    return MR_OK;
}

/* ---- argmax, argmin ---- */

static int infer_arg(struct mr_kernel_infer *it, mr_error *err)
{
    int axis = 0;

    MR_TRY(mr_attr_index_dtype(it->attrs, MR_INT64, &it->out->dtype, err));
    if (it->in[0].rank < 0) {
        return MR_OK;
    }
    MR_TRY(mr_attr_axis(it->attrs, 0, it->in[0].rank, &axis, err));
    if (it->in[0].dims[axis] == 0) {
        return mr_error_set(err, MR_EINVAL, "axis %d is empty", axis);
    }
    mr_shape_remove(it->out, axis);
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
MR_EACH_NUMBER(BEST, best_max, >)
MR_EACH_BOOL(BEST, best_max, >)
MR_EACH_NUMBER(BEST, best_min, <)
MR_EACH_BOOL(BEST, best_min, <)
static const best_fn max_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, best_max, )
                                                    MR_EACH_BOOL(MR_LOOP_ENTRY, best_max, )};
static const best_fn min_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, best_min, )
                                                    MR_EACH_BOOL(MR_LOOP_ENTRY, best_min, )};

static int fill_best(const struct mr_row *row, const best_fn *fns, struct mr_result *out,
                     mr_error *err)
{
    const struct mr_tensor *in = row->in;
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, 0, in[0].rank, &axis, err));
    mr_shape_split(in[0].rank, in[0].dims, axis, &outer, &inner);
    uint64_t size = (uint64_t)in[0].dims[axis];
    for (uint64_t i = 0; i < out->count; i++) {
        const unsigned char *first =
            in[0].values + (i / inner * size * inner + i % inner) * in[0].width;
        mr_result_put_index(out, i, fns[in[0].dtype](first, size, inner));
    }
    return MR_OK;
}

static int fill_argmax(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_best(row, max_fns, out, err);
}

static int fill_argmin(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_best(row, min_fns, out, err);
}

MR_ROWS_KERNEL(gather, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_gather,
               .fill = fill_gather,
               .attr_table = {{"axis", MR_ATTR_INT, true}, {"batch_dims", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(one_hot, 3, 3, 0, .infer = infer_one_hot, .fill = fill_one_hot,
               .attr_table = {{"depth", MR_ATTR_INT, false}, {"axis", MR_ATTR_INT, true}});

#define ARG_KERNEL(name)                                                                           \
    MR_ROWS_KERNEL(name, 1, 1, MR_SET_NUMBERS | MR_SET(MR_BOOL), .flags = MR_KERNEL_MAY_FAIL,      \
                   .infer = infer_arg, .fill = fill_##name,                                        \
                   .attr_table = {{"axis", MR_ATTR_INT, true}, {"dtype", MR_ATTR_DTYPE, true}})

ARG_KERNEL(argmax);
ARG_KERNEL(argmin);
