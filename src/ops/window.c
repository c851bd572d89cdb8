/* slice: a box of a tensor at a place that is a value; what lies outside may be zeros. */
#include "ops/attr.h"
#include "ops/box.h"

static int infer_slice(struct mr_kernel_infer *it, mr_error *err)
{
    int8_t rank = it->in[0].rank;
    int64_t unknown[MR_RANK_MAX];

    for (size_t i = 1; i < 3; i++) {
        MR_TRY(mr_infer_dtype(it->in, i, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, i, 1, err));
        int64_t n = it->in[i].rank == 1 ? it->in[i].dims[0] : MR_DIM_UNKNOWN;
        if (rank >= 0 && n != MR_DIM_UNKNOWN && n != rank) {
            return mr_error_set(err, MR_EINVAL, "%s of %lld values for a tensor of rank %d",
                                i == 1 ? "a begin" : "a size", (long long)n, rank);
        }
    }
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    for (int d = 0; d < rank; d++) {
        unknown[d] = MR_DIM_UNKNOWN;
    }
    mr_shape_set(it->out, rank, unknown);
    return MR_OK;
}

static int dims_slice(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];

    return mr_box_dims(x->rank, x->dims, &row->in[1], &row->in[2],
                       mr_attr_bool(row->attrs, "outside", false), spec->dims, err);
}

static int fill_slice(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    struct mr_overlap parts[MR_RANK_MAX];

    mr_box_overlaps(x->rank, x->dims, &row->in[1], out->dims, parts);
    mr_box_copy(x->rank, x->dims, x->values, parts, out);
    return MR_OK;
}

MR_ROWS_KERNEL(slice, 3, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_slice,
               .dims = dims_slice, .fill = fill_slice,
               .attr_table = {{"outside", MR_ATTR_BOOL, true}});
