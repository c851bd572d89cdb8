/* frame: pieces of an axis that may overlap. */
#include "ops/attr.h"
#include "ops/move.h"

static int infer_frame(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t length = mr_attr_int(it->attrs, "length", 0);
    int64_t step = mr_attr_int(it->attrs, "step", 0);
    int64_t dims[MR_RANK_MAX + 1];
    int axis = 0;

    if (length < 1 || step < 1) {
        return mr_error_set(err, MR_EINVAL, "frames of length %lld, one every %lld values",
                            (long long)length, (long long)step);
    }
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    int8_t rank = it->in[0].rank;
    MR_TRY(mr_attr_axis(it->attrs, -1, rank, &axis, err));
    if (rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", rank + 1,
                            MR_RANK_MAX);
    }
    int64_t size = it->in[0].dims[axis];
    for (int d = 0; d <= rank; d++) {
        dims[d] = it->in[0].dims[d <= axis ? d : d - 1];
    }
    dims[axis] = size == MR_DIM_UNKNOWN ? size : size < length ? 0 : (size - length) / step + 1;
    dims[axis + 1] = length;
    mr_shape_set(it->out, rank + 1, dims);
    return MR_OK;
}

static int fill_frame(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int64_t plain[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX];
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, -1, row->in[0].rank, &axis, err));
    mr_strides_signed(row->in[0].rank, row->in[0].dims, plain);
    for (int d = 0; d < out->rank; d++) {
        strides[d] = plain[d <= axis ? d : d - 1];
    }
    if (out->dims[axis] > 1) { /* else the step may be anything */
        strides[axis] *= mr_attr_int(row->attrs, "step", 1);
    }
    mr_result_copy(row, 0, strides, out);
    return MR_OK;
}

MR_ROWS_KERNEL(frame, 1, 1, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_frame,
               .fill = fill_frame,
               .attr_table = {{"axis", MR_ATTR_INT, true},
                              {"length", MR_ATTR_INT, false},
                              {"step", MR_ATTR_INT, false}});
