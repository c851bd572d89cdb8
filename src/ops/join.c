/* Joining and cutting tensors along an axis: concat, stack, unstack. */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/table.h"

#include <string.h>

/* Values before and behind an axis: a tensor is `outer` pieces of dims[axis] * inner values. */
static void split_at(int rank, const int64_t *dims, int axis, uint64_t *outer, uint64_t *inner)
{
    *outer = 1;
    *inner = 1;
    for (int d = 0; d < rank; d++) {
        if (d < axis) {
            *outer *= (uint64_t)dims[d];
        } else if (d > axis) {
            *inner *= (uint64_t)dims[d];
        }
    }
}

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

static int infer_concat(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                        mr_error *err)
{
    struct mr_leaf_spec result = in[0];
    int axis = 0;
    int rc = mr_infer_same_dtype(in, 0, nin, err);

    *nout = 1;
    for (size_t i = 0; rc == MR_OK && i < nin; i++) {
        if (in[i].rank < 0) {
            mr_shape_unknown(&result);
            out[0] = result;
            return MR_OK;
        }
    }
    if (rc == MR_OK) {
        rc = mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", 0), in[0].rank, &axis, err);
    }
    for (size_t i = 1; rc == MR_OK && i < nin; i++) {
        rc = merge_dims(&in[i], i, axis, &result, err);
        if (rc == MR_OK) {
            int64_t *sum = &result.dims[axis];
            int64_t more = in[i].dims[axis];

            if (*sum < 0 || more < 0) {
                *sum = MR_DIM_UNKNOWN;
            } else if (__builtin_add_overflow(*sum, more, sum)) {
                rc = mr_error_set(err, MR_EINVAL, "the result is too large");
            }
        }
    }
    if (rc < 0) {
        return rc;
    }
    out[0] = result;
    return MR_OK;
}

static int infer_stack(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                       size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                       mr_error *err)
{
    struct mr_leaf_spec result = in[0];
    int axis = 0;
    int rc = mr_infer_same_dtype(in, 0, nin, err);

    *nout = 1;
    for (size_t i = 0; rc == MR_OK && i < nin; i++) {
        if (in[i].rank < 0) {
            mr_shape_unknown(&result);
            out[0] = result;
            return MR_OK;
        }
        rc = i == 0 ? MR_OK : merge_dims(&in[i], i, -1, &result, err);
    }
    if (rc == MR_OK && result.rank == MR_RANK_MAX) {
        rc = mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", MR_RANK_MAX + 1,
                          MR_RANK_MAX);
    }
    if (rc == MR_OK) {
        rc = mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", 0), result.rank + 1, &axis, err);
    }
    if (rc < 0) {
        return rc;
    }
    for (int d = (int)result.rank; d > axis; d--) {
        result.dims[d] = result.dims[d - 1];
    }
    result.dims[axis] = (int64_t)nin;
    result.rank++;
    out[0] = result;
    return MR_OK;
}

static int infer_unstack(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                         size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                         mr_error *err)
{
    struct mr_leaf_spec part = in[0];
    int axis = 0;

    if (in[0].rank < 0) {
        return mr_error_set(err, MR_EINVAL, "the rank of the input is unknown");
    }
    MR_TRY(mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", 0), in[0].rank, &axis, err));
    if (in[0].dims[axis] < 1 || (uint64_t)in[0].dims[axis] > cap) {
        return mr_error_set(err, MR_EINVAL, "axis %d has size %lld; wants a known size of 1 to %zu",
                            axis, (long long)in[0].dims[axis], cap);
    }
    for (int d = axis; d + 1 < MR_RANK_MAX; d++) {
        part.dims[d] = in[0].dims[d + 1];
    }
    part.dims[MR_RANK_MAX - 1] = 0;
    part.rank--;
    *nout = (size_t)in[0].dims[axis];
    for (size_t o = 0; o < *nout; o++) {
        out[o] = part;
    }
    return MR_OK;
}

/* Inputs side by side along an axis of the result, input i giving part[i] = its dims[axis] (1 for
 * stack). */
static void interleave(const struct mr_tensor *in, size_t nin, int axis, bool stacked,
                       struct mr_result *out)
{
    unsigned char *at = out->values;
    uint64_t outer;
    uint64_t inner;

    split_at(out->rank, out->dims, axis, &outer, &inner);
    for (uint64_t o = 0; o < outer; o++) {
        for (size_t i = 0; i < nin; i++) {
            uint64_t part = (stacked ? 1 : (uint64_t)in[i].dims[axis]) * inner;

            if (part > 0) {
                memcpy(at, in[i].values + o * part * out->width, part * out->width);
                at += part * out->width;
            }
        }
    }
}

static int fill_joined(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                       bool stacked, struct mr_result *out, mr_error *err)
{
    int axis = 0;

    MR_TRY(
        mr_axis_resolve(mr_attr_int(call->attrs, call->nattrs, "axis", 0), out->rank, &axis, err));
    if (out->count > 0) {
        interleave(in, nin, axis, stacked, out);
    }
    return MR_OK;
}

static int fill_concat(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                       size_t output, struct mr_result *out, mr_error *err)
{
    return fill_joined(call, in, nin, false, out, err);
}

static int fill_stack(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      size_t output, struct mr_result *out, mr_error *err)
{
    return fill_joined(call, in, nin, true, out, err);
}

static int fill_unstack(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                        size_t output, struct mr_result *out, mr_error *err)
{
    unsigned char *at = out->values;
    uint64_t outer;
    uint64_t inner;
    int axis = 0;
    int rc =
        mr_axis_resolve(mr_attr_int(call->attrs, call->nattrs, "axis", 0), in[0].rank, &axis, err);

    if (rc < 0 || out->count == 0) {
        return rc;
    }
    split_at(in[0].rank, in[0].dims, axis, &outer, &inner);
    for (uint64_t o = 0; o < outer; o++) {
        uint64_t first = (o * (uint64_t)in[0].dims[axis] + output) * inner;

        memcpy(at, in[0].values + first * out->width, inner * out->width);
        at += inner * out->width;
    }
    return MR_OK;
}

static const struct mr_kernel_attr concat_attrs[] = {{"axis", MR_ATTR_INT, false},
                                                     {NULL, 0, false}};
static const struct mr_kernel_attr stack_attrs[] = {{"axis", MR_ATTR_INT, true}, {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_concat, "concat", MR_KERNEL_MAY_FAIL, 1, -1, infer_concat, concat_attrs,
               NULL, fill_concat);
MR_ROWS_KERNEL(mr_kernel_stack, "stack", MR_KERNEL_MAY_FAIL, 1, -1, infer_stack, stack_attrs, NULL,
               fill_stack);
MR_ROWS_KERNEL(mr_kernel_unstack, "unstack", MR_KERNEL_MAY_FAIL, 1, 1, infer_unstack, stack_attrs,
               NULL, fill_unstack);
