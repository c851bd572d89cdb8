/* Joining and cutting tensors along an axis: concat, stack, unstack. */
#include "ops/attr.h"
#include "ops/rows.h"

/* Dims of inputs that are to be equal, except along @axis (-1: no exception). */
static int merge_dims(const struct mr_leaf_spec *in, size_t i, int axis, struct mr_leaf_spec *acc,
                      mr_error *err)
{
    char a[MR_SHAPE_TEXT];
    char b[MR_SHAPE_TEXT];

    if (in->rank != acc->rank) {
        goto mismatch;
    }
    for (int d = 0; d < acc->rank; d++) {
        if (d == axis || in->dims[d] == acc->dims[d] || in->dims[d] == MR_DIM_UNKNOWN) {
            continue;
        }
        if (acc->dims[d] != MR_DIM_UNKNOWN) {
            goto mismatch;
        }
        acc->dims[d] = in->dims[d];
    }
    return MR_OK;

mismatch:
    return mr_error_set(err, MR_EINVAL, "input %zu has shape %s; does not fit %s", i,
                        mr_shape_text(in->rank, in->dims, a),
                        mr_shape_text(acc->rank, acc->dims, b));
}

static bool rank_is_unknown(const struct mr_kernel_infer *it)
{
    for (size_t i = 0; i < it->nin; i++) {
        if (it->in[i].rank < 0) {
            return true;
        }
    }
    return false;
}

static int infer_concat(struct mr_kernel_infer *it, mr_error *err)
{
    int axis = 0;

    if (rank_is_unknown(it)) {
        mr_shape_unknown(it->out);
        return MR_OK;
    }
    MR_TRY(mr_attr_axis(it->attrs, 0, it->in[0].rank, &axis, err));
    for (size_t i = 1; i < it->nin; i++) {
        int64_t *sum = &it->out->dims[axis];
        int64_t more = it->in[i].dims[axis];

        MR_TRY(merge_dims(&it->in[i], i, axis, it->out, err));
        if (*sum < 0 || more < 0) {
            *sum = MR_DIM_UNKNOWN;
        } else if (__builtin_add_overflow(*sum, more, sum)) {
            return mr_error_set(err, MR_EINVAL, "the result is too large");
        }
    }
    return MR_OK;
}

static int infer_stack(struct mr_kernel_infer *it, mr_error *err)
{
    if (rank_is_unknown(it)) {
        mr_shape_unknown(it->out);
        return MR_OK;
    }
    for (size_t i = 1; i < it->nin; i++) {
        MR_TRY(merge_dims(&it->in[i], i, -1, it->out, err));
    }
    return mr_shape_insert(it->out, mr_attr_int(it->attrs, "axis", 0), (int64_t)it->nin, err);
}

static int infer_unstack(struct mr_kernel_infer *it, mr_error *err)
{
    struct mr_leaf_spec part = it->in[0];
    int axis = 0;

    MR_TRY(mr_infer_known_rank(it->in, err));
    MR_TRY(mr_attr_axis(it->attrs, 0, part.rank, &axis, err));
    if (part.dims[axis] < 1 || (uint64_t)part.dims[axis] > it->cap) {
        return mr_error_set(err, MR_EINVAL, "axis %d has size %lld; wants a known size of 1 to %zu",
                            axis, (long long)part.dims[axis], it->cap);
    }
    it->nout = (size_t)part.dims[axis];
    mr_shape_remove(&part, axis);
    for (size_t o = 0; o < it->nout; o++) {
        it->out[o] = part;
    }
    return MR_OK;
}

/* Inputs side by side along an axis of the result, of which each takes its dims[axis] (1 for
 * stack). */
static int interleave(const struct mr_row *row, bool stacked, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *in = row->in;
    unsigned char *at = out->values;
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, 0, out->rank, &axis, err));
    mr_shape_split(out->rank, out->dims, axis, &outer, &inner);
    for (uint64_t o = 0; out->count > 0 && o < outer; o++) {
        for (size_t i = 0; i < row->nin; i++) {
            uint64_t part = (stacked ? 1 : (uint64_t)in[i].dims[axis]) * inner;

            if (part > 0) {
                memcpy(at, in[i].values + o * part * out->width, part * out->width);
                at += part * out->width;
            }
        }
    }
    return MR_OK;
}

static int fill_concat(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return interleave(row, false, out, err);
}

static int fill_stack(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return interleave(row, true, out, err);
}

static int fill_unstack(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    unsigned char *at = out->values;
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, 0, row->in[0].rank, &axis, err));
    mr_shape_split(row->in[0].rank, row->in[0].dims, axis, &outer, &inner);
    for (uint64_t o = 0; out->count > 0 && o < outer; o++) {
        uint64_t first = (o * (uint64_t)row->in[0].dims[axis] + out->index) * inner;

        memcpy(at, row->in[0].values + first * out->width, inner * out->width);
        at += inner * out->width;
    }
    return MR_OK;
}

MR_ROWS_KERNEL(concat, 1, -1, MR_SET_ANY | MR_SET_COMPLEX, .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_concat, .fill = fill_concat,
               .attr_table = {{"axis", MR_ATTR_INT, false}});
MR_ROWS_KERNEL(stack, 1, -1, MR_SET_ANY | MR_SET_COMPLEX, .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_stack, .fill = fill_stack,
               .attr_table = {{"axis", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(unstack, 1, 1, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_unstack,
               .fill = fill_unstack, .attr_table = {{"axis", MR_ATTR_INT, true}});
