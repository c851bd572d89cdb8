/* sparse_to_dense: values at places, in a tensor of defaults. */
#include "ops/attr.h"
#include "ops/move.h"

static int infer_dense(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t rank = MR_DIM_UNKNOWN;

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_INT64), err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET(MR_INT64), err));
    MR_TRY(mr_infer_same_dtype(it->in, 2, it->nin, err));
    for (size_t i = 0; i < 4; i++) {
        MR_TRY(mr_infer_rank(it->in, i, i == 0 ? 2 : i == 3 ? 0 : 1, err));
    }
    if (it->in[0].rank == 2) {
        rank = it->in[0].dims[1];
    }
    if (rank == MR_DIM_UNKNOWN && it->in[1].rank == 1) {
        rank = it->in[1].dims[0];
    }
    if (rank < 0 || rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "the rank of the dense shape must be known, and at most "
                            "%d: use mr.ensure_shape",
                            MR_RANK_MAX);
    }
    *it->out = (struct mr_leaf_spec){.dtype = it->in[2].dtype, .rank = (int8_t)rank};
    for (int64_t d = 0; d < rank; d++) {
        it->out->dims[d] = MR_DIM_UNKNOWN;
    }
    return MR_OK;
}

/* As many indices as values, and as many sizes as an index has numbers. */
static int check_parts(const struct mr_row *row, mr_error *err)
{
    const struct mr_tensor *indices = &row->in[0];
    const struct mr_tensor *shape = &row->in[1];

    if (indices->dims[1] != shape->dims[0] || indices->dims[0] != row->in[2].dims[0]) {
        return mr_error_set(err, MR_EINVAL,
                            "indices of shape [%lld,%lld] for %lld values in %lld dimensions",
                            (long long)indices->dims[0], (long long)indices->dims[1],
                            (long long)row->in[2].dims[0], (long long)shape->dims[0]);
    }
    return MR_OK;
}

static int dims_dense(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    const struct mr_tensor *shape = &row->in[1];

    MR_TRY(check_parts(row, err));
    for (uint64_t d = 0; d < shape->count; d++) {
        spec->dims[d] = mr_tensor_index(shape, d);
        if (spec->dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "size %lld of axis %llu", (long long)spec->dims[d],
                                (unsigned long long)d);
        }
    }
    return MR_OK;
}

/* The place of value @i, in values. */
static int place_of(const struct mr_row *row, const struct mr_result *out, uint64_t i,
                    uint64_t *ret, mr_error *err)
{
    uint64_t at = 0;

    for (int d = 0; d < out->rank; d++) {
        int64_t index = mr_tensor_index(&row->in[0], i * (uint64_t)out->rank + (uint64_t)d);

        if (index < 0 || index >= out->dims[d]) {
            return mr_error_set(
                err, MR_EINVAL, "index %llu is out of range: %lld for axis %d of size %lld",
                (unsigned long long)i, (long long)index, d, (long long)out->dims[d]);
        }
        at = at * (uint64_t)out->dims[d] + (uint64_t)index;
    }
    *ret = at;
    return MR_OK;
}

static int fill_dense(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    uint64_t last = 0;

    MR_TRY(check_parts(row, err)); /* nobody has asked for the dims of a scalar */
    mr_fill_values(out->values, out->count, row->in[3].values, out->width);
    for (uint64_t i = 0; i < row->in[2].count; i++) {
        uint64_t at = 0;

        MR_TRY(place_of(row, out, i, &at, err));
        if (i > 0 && at <= last) {
            return mr_error_set(err, MR_EINVAL, "index %llu is out of order, or repeated",
                                (unsigned long long)i);
        }
        last = at;
        memcpy(out->values + at * out->width, row->in[2].values + i * out->width, out->width);
    }
    return MR_OK;
}

MR_ROWS_KERNEL(sparse_to_dense, 4, 4, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_dense,
               .dims = dims_dense, .fill = fill_dense);
