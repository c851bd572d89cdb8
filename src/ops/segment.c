/* segment_reduce: values that have one number go into one result. */
#include "ops/attr.h"
#include "ops/combine.h"
#include "ops/loops.h"
#include "ops/rows.h"

enum reduction { SUM, PROD, MIN, MAX, REDUCTIONS };
static const enum mr_combination combinations[REDUCTIONS] = {
    [SUM] = MR_COMBINE_SUM,
    [PROD] = MR_COMBINE_PRODUCT,
    [MIN] = MR_COMBINE_MIN,
    [MAX] = MR_COMBINE_MAX,
};

/* What stands before the axes that the numbers have is the result's first axis. */
static int infer_segments(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *x = &it->in[0];
    const struct mr_leaf_spec *ids = &it->in[1];
    const struct mr_attr *count = mr_attr_get(it->attrs, "count");
    int64_t reduction = mr_attr_int(it->attrs, "reduction", SUM);
    bool sorted = mr_attr_bool(it->attrs, "sorted", false);

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_NUMBERS, err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    if (reduction < 0 || reduction >= REDUCTIONS) {
        return mr_error_set(err, MR_EINVAL, "reduction %lld", (long long)reduction);
    }
    if ((it->nin == 3) + (count != NULL) + sorted != 1) {
        return mr_error_set(err, MR_EINVAL,
                            "wants the number of segments as an attribute, as an input, or sorted");
    }
    if (it->nin == 3) {
        MR_TRY(mr_infer_dtype(it->in, 2, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 2, 0, err));
    }
    MR_TRY(mr_infer_known_rank(x, err));
    MR_TRY(mr_infer_known_rank(ids, err));
    if (ids->rank > x->rank || (sorted && ids->rank != 1)) {
        return mr_error_set(err, MR_EINVAL, "segment ids of rank %d for data of rank %d", ids->rank,
                            x->rank);
    }
    for (int8_t d = 0; d < ids->rank; d++) {
        if (x->dims[d] >= 0 && ids->dims[d] >= 0 && x->dims[d] != ids->dims[d]) {
            return mr_error_set(err, MR_EINVAL,
                                "axis %d of the segment ids has size %lld, not %lld", d,
                                (long long)ids->dims[d], (long long)x->dims[d]);
        }
    }
    int64_t dims[MR_RANK_MAX] = {MR_DIM_UNKNOWN};
    if (count != NULL) {
        if (count->i < 0) {
            return mr_error_set(err, MR_EINVAL, "%lld segments", (long long)count->i);
        }
        dims[0] = count->i;
    }
    int rank = x->rank - ids->rank + 1;
    if (rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", rank, MR_RANK_MAX);
    }
    memcpy(dims + 1, x->dims + ids->rank, (size_t)(rank - 1) * sizeof dims[0]);
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

static int dims_segments(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    const struct mr_tensor *ids = &row->in[1];

    if (mr_attr_bool(row->attrs, "sorted", false)) {
        int64_t last = ids->count > 0 ? mr_tensor_index(ids, ids->count - 1) : -1;

        if (last < -1 || last == INT64_MAX) {
            return mr_error_set(err, MR_EINVAL, "segment id %lld", (long long)last);
        }
        spec->dims[0] = last + 1;
    } else if (row->nin == 3) {
        spec->dims[0] = mr_tensor_index(&row->in[2], 0);
        if (spec->dims[0] < 0) {
            return mr_error_set(err, MR_EINVAL, "%lld segments", (long long)spec->dims[0]);
        }
    }
    return MR_OK;
}

/* What a reduction begins with, as one value of @dtype. */
static void first_value(enum reduction reduction, unsigned dtype, unsigned char value[8])
{
#define FIRST(tag, dtype, S, low, high, ST)                                                        \
    case dtype: {                                                                                  \
        const S v = reduction == SUM    ? ST(S, 0)                                                 \
                    : reduction == PROD ? ST(S, 1)                                                 \
                    : reduction == MIN  ? ST(S, high)                                              \
                                        : ST(S, low);                                               \
        memcpy(value, &v, sizeof v);                                                               \
        break;                                                                                     \
    }
    switch (dtype) {
        FIRST(i8, MR_INT8, int8_t, INT8_MIN, INT8_MAX, MR_INT_STORE)
        FIRST(i16, MR_INT16, int16_t, INT16_MIN, INT16_MAX, MR_INT_STORE)
        FIRST(i32, MR_INT32, int32_t, INT32_MIN, INT32_MAX, MR_INT_STORE)
        FIRST(i64, MR_INT64, int64_t, INT64_MIN, INT64_MAX, MR_INT_STORE)
        FIRST(u8, MR_UINT8, uint8_t, 0, UINT8_MAX, MR_INT_STORE)
        FIRST(u16, MR_UINT16, uint16_t, 0, UINT16_MAX, MR_INT_STORE)
        FIRST(u32, MR_UINT32, uint32_t, 0, UINT32_MAX, MR_INT_STORE)
        FIRST(u64, MR_UINT64, uint64_t, 0, UINT64_MAX, MR_INT_STORE)
        FIRST(f16, MR_FLOAT16, mr_half, -65504.0f, 65504.0f, MR_HALF_STORE)
        FIRST(bf16, MR_BFLOAT16, mr_bfloat, -0x1.FEp127f, 0x1.FEp127f, MR_BFLOAT_STORE)
        FIRST(f32, MR_FLOAT32, float, -0x1.fffffep127f, 0x1.fffffep127f, MR_INT_STORE)
        FIRST(f64, MR_FLOAT64, double, -0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023,
              MR_INT_STORE)
    default: memset(value, 0, 8);
    }
#undef FIRST
}

static void set_values(const struct mr_result *out, uint64_t first, uint64_t n,
                       const unsigned char *value)
{
    for (uint64_t i = first; i < first + n; i++) {
        memcpy(out->values + i * out->width, value, out->width);
    }
}

static int fill_sorted(const struct mr_row *row, mr_combine_fn combine, uint64_t inner,
                       struct mr_result *out, mr_error *err)
{
    static const unsigned char zero[8];
    const struct mr_tensor *x = &row->in[0];
    bool ordered = mr_attr_int(row->attrs, "reduction", SUM) >= MIN;
    int64_t before = -1;

    for (uint64_t i = 0; i < row->in[1].count; i++) {
        int64_t id = mr_tensor_index(&row->in[1], i);
        const unsigned char *from = x->values + i * inner * x->width;

        if (id < before || id < 0) {
            return mr_error_set(err, MR_EINVAL, "segment id %lld behind %lld: they do not decrease",
                                (long long)id, (long long)before);
        }
        if (id >= out->dims[0]) {
            return mr_error_set(err, MR_EINVAL, "segment id %lld before %lld: they do not decrease",
                                (long long)id, (long long)out->dims[0] - 1);
        }
        unsigned char *to = out->values + (uint64_t)id * inner * out->width;
        if (id > before && ordered) { /* what is empty has 0 here, and not the lowest value */
            set_values(out, (uint64_t)(before + 1) * inner, (uint64_t)(id - before - 1) * inner,
                       zero);
        }
        if (inner > 0) {
            combine(to, from, inner);
        }
        before = id;
    }
    return MR_OK;
}

static int fill_unsorted(const struct mr_row *row, mr_combine_fn combine, uint64_t inner,
                         struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];

    if (x->count == 0) {
        return MR_OK; // as TensorFlow: of numbers that nothing belongs to, none is wrong
    }
    for (uint64_t i = 0; i < row->in[1].count; i++) {
        int64_t id = mr_tensor_index(&row->in[1], i);

        if (id >= out->dims[0]) {
            return mr_error_set(err, MR_EINVAL, "segment id %lld of %lld segments", (long long)id,
                                (long long)out->dims[0]);
        }
        if (id >= 0) {
            combine(out->values + (uint64_t)id * inner * out->width,
                    x->values + i * inner * x->width, inner);
        }
    }
    return MR_OK;
}

static int fill_segments(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    enum reduction reduction = (enum reduction)mr_attr_int(row->attrs, "reduction", SUM);
    mr_combine_fn combine = mr_combine_of(combinations[reduction], out->dtype);
    unsigned char value[8];
    uint64_t inner = 1;

    for (int d = 1; d < out->rank; d++) {
        inner *= (uint64_t)out->dims[d];
    }
    first_value(reduction, out->dtype, value);
    set_values(out, 0, out->count, value);
    return mr_attr_bool(row->attrs, "sorted", false) ? fill_sorted(row, combine, inner, out, err)
                                                     : fill_unsorted(row, combine, inner, out, err);
}

MR_ROWS_KERNEL(segment_reduce, 2, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_segments,
               .dims = dims_segments, .fill = fill_segments,
               .attr_table = {{"count", MR_ATTR_INT, true},
                              {"reduction", MR_ATTR_INT, true},
                              {"sorted", MR_ATTR_BOOL, true}});
