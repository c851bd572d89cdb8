/* What stays of a tensor, and how often: repeat, boolean_mask; where something is: where_true. */
#include "ops/attr.h"
#include "ops/rows.h"

/* ---- repeat ---- */

static int infer_repeat(struct mr_kernel_infer *it, mr_error *err)
{
    int axis = 0;

    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    MR_TRY(mr_attr_axis(it->attrs, 0, it->in[0].rank, &axis, err));
    if (it->in[1].rank > 1) {
        return mr_error_set(err, MR_EINVAL, "repeats of rank %d: a scalar or a vector is wanted",
                            it->in[1].rank);
    }
    it->out->dims[axis] = MR_DIM_UNKNOWN;
    return MR_OK;
}

static int64_t repeats_of(const struct mr_row *row, uint64_t i)
{
    return mr_tensor_index(&row->in[1], row->in[1].count == 1 ? 0 : i);
}

static int dims_repeat(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int64_t total = 0;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, 0, row->in[0].rank, &axis, err));
    uint64_t n = (uint64_t)row->in[0].dims[axis];
    if (row->in[1].count != 1 && row->in[1].count != n) {
        return mr_error_set(err, MR_EINVAL, "%llu repeats for axis %d of size %llu",
                            (unsigned long long)row->in[1].count, axis, (unsigned long long)n);
    }
    for (uint64_t i = 0; i < n; i++) {
        int64_t times = repeats_of(row, i);

        if (times < 0 || __builtin_add_overflow(total, times, &total)) {
            return mr_error_set(err, MR_EINVAL, "%lld repeats", (long long)times);
        }
    }
    spec->dims[axis] = total;
    return MR_OK;
}

static int fill_repeat(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    unsigned char *at = out->values;
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, 0, x->rank, &axis, err));
    mr_shape_split(x->rank, x->dims, axis, &outer, &inner);
    uint64_t n = (uint64_t)x->dims[axis];
    size_t bytes = (size_t)inner * x->width;
    for (uint64_t o = 0; bytes > 0 && o < outer; o++) {
        for (uint64_t i = 0; i < n; i++) {
            for (int64_t k = repeats_of(row, i); k > 0; k--, at += bytes) {
                memcpy(at, x->values + (o * n + i) * bytes, bytes);
            }
        }
    }
    return MR_OK;
}

/* ---- boolean_mask ---- */

static int infer_mask(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *x = &it->in[0];
    const struct mr_leaf_spec *mask = &it->in[1];

    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET(MR_BOOL), err));
    MR_TRY(mr_infer_known_rank(x, err));
    MR_TRY(mr_infer_known_rank(mask, err));
    if (mask->rank < 1 || mask->rank > x->rank) {
        return mr_error_set(err, MR_EINVAL, "a mask of rank %d for a tensor of rank %d", mask->rank,
                            x->rank);
    }
    for (int8_t d = 0; d < mask->rank; d++) {
        if (x->dims[d] >= 0 && mask->dims[d] >= 0 && x->dims[d] != mask->dims[d]) {
            return mr_error_set(err, MR_EINVAL, "axis %d of the mask has size %lld, not %lld", d,
                                (long long)mask->dims[d], (long long)x->dims[d]);
        }
    }
    int64_t dims[MR_RANK_MAX] = {MR_DIM_UNKNOWN};
    int8_t rank = (int8_t)(x->rank - mask->rank + 1);
    memcpy(dims + 1, x->dims + mask->rank, (size_t)(rank - 1) * sizeof dims[0]);
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

static int dims_mask(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    (void)err;
    spec->dims[0] = 0;
    for (uint64_t i = 0; i < row->in[1].count; i++) {
        spec->dims[0] += row->in[1].values[i] != 0;
    }
    return MR_OK;
}

static int fill_mask(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *mask = &row->in[1];
    size_t bytes = row->in[0].width;
    unsigned char *at = out->values;

    (void)err;
    for (int d = mask->rank; d < row->in[0].rank; d++) {
        bytes *= (size_t)row->in[0].dims[d];
    }
    for (uint64_t i = 0; bytes > 0 && i < mask->count; i++) {
        if (mask->values[i] != 0) {
            memcpy(at, row->in[0].values + i * bytes, bytes);
            at += bytes;
        }
    }
    return MR_OK;
}

/* ---- where_true ---- */

static int infer_where(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    mr_shape_set(it->out, 2, (int64_t[]){MR_DIM_UNKNOWN, it->in[0].rank});
    return MR_OK;
}

static int dims_where(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    (void)err;
    spec->dims[0] = 0;
    for (uint64_t i = 0; i < row->in[0].count; i++) {
        spec->dims[0] += row->in[0].values[i] != 0;
    }
    return MR_OK;
}

static int fill_where(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    uint64_t at = 0;

    (void)err;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t rest = i;

        if (x->values[i] == 0) {
            continue;
        }
        for (int d = x->rank - 1; d >= 0; d--) {
            mr_result_put_index(out, at + (uint64_t)d, rest % (uint64_t)x->dims[d]);
            rest /= (uint64_t)x->dims[d];
        }
        at += (uint64_t)x->rank;
    }
    return MR_OK;
}

MR_ROWS_KERNEL(repeat, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_repeat,
               .dims = dims_repeat, .fill = fill_repeat,
               .attr_table = {{"axis", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(boolean_mask, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_mask,
               .dims = dims_mask, .fill = fill_mask);
MR_ROWS_KERNEL(where_true, 1, 1, MR_SET(MR_BOOL), .result = MR_INT64, .infer = infer_where,
               .dims = dims_where, .fill = fill_where);
