/* gather_nd, scatter: places that are given by several indices each, the last axis of a tensor. */
#include "ops/attr.h"
#include "ops/combine.h"
#include "ops/rows.h"

/* How many indices a place has. */
static int infer_depth(const struct mr_leaf_spec *indices, int room, int *depth, mr_error *err)
{
    MR_TRY(mr_infer_known_rank(indices, err));
    if (indices->rank < 1 || indices->dims[indices->rank - 1] == MR_DIM_UNKNOWN) {
        return mr_error_set(err, MR_EINVAL,
                            "indices of rank %d whose last axis has an unknown size",
                            indices->rank);
    }
    if (indices->dims[indices->rank - 1] > room) {
        return mr_error_set(err, MR_EINVAL, "%lld indices for each place; there are %d axes",
                            (long long)indices->dims[indices->rank - 1], room);
    }
    *depth = (int)indices->dims[indices->rank - 1];
    return MR_OK;
}

/* Which piece of the axes of @dims, of which there are @depth, the indices from @i on say. */
static int place_of(const struct mr_tensor *indices, uint64_t i, int depth, const int64_t *dims,
                    uint64_t *ret, mr_error *err)
{
    *ret = 0;
    for (int d = 0; d < depth; d++) {
        int64_t index = mr_tensor_index(indices, i + (uint64_t)d);

        if (index < 0 || index >= dims[d]) {
            return mr_error_set(err, MR_EINVAL,
                                "index %lld is out of range for axis %d of size %lld",
                                (long long)index, d, (long long)dims[d]);
        }
        *ret = *ret * (uint64_t)dims[d] + (uint64_t)index;
    }
    return MR_OK;
}

/* ---- gather_nd ---- */

static int infer_gather(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *x = &it->in[0];
    const struct mr_leaf_spec *indices = &it->in[1];
    int64_t batch = mr_attr_int(it->attrs, "batch_dims", 0);
    int64_t dims[MR_RANK_MAX];
    int depth = 0;

    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_known_rank(x, err));
    MR_TRY(mr_infer_known_rank(indices, err));
    if (batch < 0 || batch > x->rank || batch >= indices->rank) {
        return mr_error_set(err, MR_EINVAL, "batch_dims %lld for ranks %d and %d", (long long)batch,
                            x->rank, indices->rank);
    }
    MR_TRY(infer_depth(indices, x->rank - (int)batch, &depth, err));
    for (int64_t d = 0; d < batch; d++) {
        if (x->dims[d] >= 0 && indices->dims[d] >= 0 && x->dims[d] != indices->dims[d]) {
            return mr_error_set(err, MR_EINVAL, "axis %lld has size %lld and %lld", (long long)d,
                                (long long)x->dims[d], (long long)indices->dims[d]);
        }
    }
    int whole = x->rank - (int)batch - depth;
    int rank = indices->rank - 1 + whole;
    if (rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", rank, MR_RANK_MAX);
    }
    memcpy(dims, indices->dims, (size_t)(indices->rank - 1) * sizeof dims[0]);
    memcpy(dims + indices->rank - 1, x->dims + x->rank - whole, (size_t)whole * sizeof dims[0]);
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

static uint64_t product(const int64_t *dims, int n)
{
    uint64_t count = 1;

    for (int d = 0; d < n; d++) {
        count *= (uint64_t)dims[d];
    }
    return count;
}

static int fill_gather(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    const struct mr_tensor *indices = &row->in[1];
    int batch = (int)mr_attr_int(row->attrs, "batch_dims", 0);
    int depth = (int)indices->dims[indices->rank - 1];
    uint64_t places = product(indices->dims, indices->rank - 1);
    uint64_t each = product(indices->dims + batch, indices->rank - 1 - batch); /* in one batch */
    uint64_t pieces = product(x->dims + batch, depth);
    size_t bytes = (size_t)product(x->dims + batch + depth, x->rank - batch - depth) * x->width;

    /* Places that take no values from no indices may be any number. */
    for (uint64_t i = 0; i < places && (depth > 0 || bytes > 0); i++) {
        uint64_t piece;

        MR_TRY(place_of(indices, i * (uint64_t)depth, depth, x->dims + batch, &piece, err));
        if (bytes > 0) {
            memcpy(out->values + i * bytes, x->values + (i / each * pieces + piece) * bytes, bytes);
        }
    }
    return MR_OK;
}

/* ---- scatter ---- */

enum scatter_mode { UPDATE, ADD, SUB, MIN, MAX, MODES };

static int infer_scatter(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *x = &it->in[0];
    const struct mr_leaf_spec *indices = &it->in[1];
    const struct mr_leaf_spec *updates = &it->in[2];
    int64_t mode = mr_attr_int(it->attrs, "mode", UPDATE);
    int depth = 0;

    if (mode < 0 || mode >= MODES) {
        return mr_error_set(err, MR_EINVAL, "mode %lld", (long long)mode);
    }
    MR_TRY(mode == UPDATE ? MR_OK : mr_infer_dtype(it->in, 0, MR_SET_NUMBERS, err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    if (updates->dtype != x->dtype) {
        return mr_error_set(err, MR_EINVAL, "updates are %s, the tensor is %s",
                            mr_dtype_name((mr_dtype)updates->dtype),
                            mr_dtype_name((mr_dtype)x->dtype));
    }
    MR_TRY(mr_infer_known_rank(x, err));
    MR_TRY(mr_infer_known_rank(updates, err));
    MR_TRY(infer_depth(indices, x->rank, &depth, err));
    int before = indices->rank - 1;
    if (updates->rank != before + x->rank - depth) {
        return mr_error_set(err, MR_EINVAL, "updates of rank %d; wants %d", updates->rank,
                            before + x->rank - depth);
    }
    for (int d = 0; d < updates->rank; d++) {
        int64_t dim = d < before ? indices->dims[d] : x->dims[depth + d - before];

        if (dim >= 0 && updates->dims[d] >= 0 && dim != updates->dims[d]) {
            return mr_error_set(err, MR_EINVAL, "axis %d of the updates has size %lld, not %lld", d,
                                (long long)updates->dims[d], (long long)dim);
        }
    }
    return MR_OK;
}

static mr_combine_fn combination(int64_t mode, unsigned dtype)
{
    switch (mode) {
    case ADD: return mr_combine_of(MR_COMBINE_SUM, dtype);
    case SUB: return mr_combine_of(MR_COMBINE_DIFFERENCE, dtype);
    case MIN: return mr_combine_of(MR_COMBINE_MIN, dtype);
    case MAX: return mr_combine_of(MR_COMBINE_MAX, dtype);
    default: return NULL;
    }
}

static int fill_scatter(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    const struct mr_tensor *indices = &row->in[1];
    mr_combine_fn combine = combination(mr_attr_int(row->attrs, "mode", UPDATE), out->dtype);
    int depth = (int)indices->dims[indices->rank - 1];
    uint64_t places = product(indices->dims, indices->rank - 1);
    uint64_t inner = product(x->dims + depth, x->rank - depth);
    size_t bytes = (size_t)inner * x->width;

    if (x->count > 0) {
        memcpy(out->values, x->values, x->count * x->width);
    }
    for (uint64_t i = 0; i < places && (depth > 0 || bytes > 0); i++) {
        const unsigned char *from = row->in[2].values + i * bytes;
        uint64_t piece;

        MR_TRY(place_of(indices, i * (uint64_t)depth, depth, x->dims, &piece, err));
        if (bytes > 0 && combine != NULL) {
            combine(out->values + piece * bytes, from, inner);
        } else if (bytes > 0) {
            memcpy(out->values + piece * bytes, from, bytes);
        }
    }
    return MR_OK;
}

MR_ROWS_KERNEL(gather_nd, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_gather,
               .fill = fill_gather, .attr_table = {{"batch_dims", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(scatter, 3, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_scatter,
               .fill = fill_scatter, .attr_table = {{"mode", MR_ATTR_INT, true}});
