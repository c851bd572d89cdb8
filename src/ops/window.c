/* slice: a box of a tensor at a place that is a value; what lies outside may be zeros. */
#include "ops/attr.h"
#include "ops/rows.h"

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

/* Size -1: up to the end. */
static int dims_slice(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    bool outside = mr_attr_bool(row->attrs, "outside", false);

    for (int d = 0; d < x->rank; d++) {
        int64_t begin = mr_tensor_index(&row->in[1], (uint64_t)d);
        int64_t size = mr_tensor_index(&row->in[2], (uint64_t)d);
        int64_t left = begin <= x->dims[d] && begin >= 0 ? x->dims[d] - begin : -1;

        size = size == -1 && !outside ? left : size;
        if (size < 0 || (!outside && size > left)) {
            return mr_error_set(
                err, MR_EINVAL, "begin %lld, size %lld is not within axis %d, which has size %lld",
                (long long)begin, (long long)mr_tensor_index(&row->in[2], (uint64_t)d), d,
                (long long)x->dims[d]);
        }
        spec->dims[d] = size;
    }
    return MR_OK;
}

/* The part of an axis that both boxes have: from @to on in the result, from @from on in the input. */
struct overlap {
    uint64_t to;
    uint64_t from;
    uint64_t n;
};

static struct overlap overlap_of(int64_t begin, int64_t size, int64_t whole)
{
    int64_t first = begin < 0 ? 0 : begin;
    int64_t end;

    if (__builtin_add_overflow(begin, size, &end) || end > whole) {
        end = whole;
    }
    if (first >= end) {
        return (struct overlap){0};
    }
    return (struct overlap){(uint64_t)(first - begin), (uint64_t)first, (uint64_t)(end - first)};
}

static int fill_slice(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    struct overlap parts[MR_RANK_MAX];
    uint64_t from[MR_RANK_MAX];
    uint64_t to[MR_RANK_MAX];
    uint64_t lines = 1;
    int last = x->rank - 1;

    if (out->count > 0) {
        memset(out->values, 0, out->count * out->width);
    }
    mr_strides(x->rank, x->dims, from);
    mr_strides(x->rank, out->dims, to);
    for (int d = 0; d < x->rank; d++) {
        parts[d] = overlap_of(mr_tensor_index(&row->in[1], (uint64_t)d), out->dims[d], x->dims[d]);
        lines *= d < last ? parts[d].n : parts[d].n > 0;
    }
    if (x->rank == 0) {
        memcpy(out->values, x->values, out->width);
        return MR_OK;
    }
    for (uint64_t i = 0; i < lines; i++) {
        uint64_t source = parts[last].from;
        uint64_t target = parts[last].to;
        uint64_t index = i;

        for (int d = last - 1; d >= 0; d--) {
            source += (parts[d].from + index % parts[d].n) * from[d];
            target += (parts[d].to + index % parts[d].n) * to[d];
            index /= parts[d].n;
        }
        memcpy(out->values + target * out->width, x->values + source * out->width,
               parts[last].n * out->width);
    }
    return MR_OK;
}

MR_ROWS_KERNEL(slice, 3, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_slice,
               .dims = dims_slice, .fill = fill_slice,
               .attr_table = {{"outside", MR_ATTR_BOOL, true}});
