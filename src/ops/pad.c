/* pad: a frame of one value around a tensor, or of the tensor as in a mirror. */
#include "ops/attr.h"
#include "ops/move.h"

enum mode { CONSTANT, REFLECT, SYMMETRIC, MODES };

/* Inputs: x, [value], [paddings]. */
static bool has_value(size_t nin, const struct mr_attr *paddings)
{
    return nin == (paddings != NULL ? 2 : 3);
}

static int pad_dim(int64_t mode, int64_t before, int64_t behind, int64_t *dim, mr_error *err)
{
    int64_t more;

    if (before < 0 || behind < 0 || __builtin_add_overflow(before, behind, &more)) {
        return mr_error_set(err, MR_EINVAL, "paddings %lld and %lld", (long long)before,
                            (long long)behind);
    }
    if (*dim == MR_DIM_UNKNOWN) {
        return MR_OK;
    }
    int64_t most = mode == REFLECT ? *dim - 1 : *dim;
    if (mode != CONSTANT && more > 0 && (before > most || behind > most)) {
        return mr_error_set(err, MR_EINVAL, "paddings %lld and %lld of an axis of size %lld",
                            (long long)before, (long long)behind, (long long)*dim);
    }
    if (__builtin_add_overflow(*dim, more, dim)) {
        return mr_error_set(err, MR_EINVAL, "paddings %lld and %lld", (long long)before,
                            (long long)behind);
    }
    return MR_OK;
}

static int infer_pad(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *paddings = mr_attr_get(it->attrs, "paddings");
    int64_t mode = mr_attr_int(it->attrs, "mode", CONSTANT);
    bool value = has_value(it->nin, paddings);

    if (mode < 0 || mode >= MODES || (mode != CONSTANT && value)) {
        return mr_error_set(err, MR_EINVAL, "mode %lld", (long long)mode);
    }
    if (value) {
        MR_TRY(mr_infer_same_dtype(it->in, 0, 2, err));
        MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    } else if (it->nin != (paddings != NULL ? 1 : 2)) {
        return mr_error_set(err, MR_EINVAL, "wants the paddings as an attribute or as an input");
    }
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    int64_t n = 2 * it->in[0].rank;
    if (paddings != NULL) {
        n = paddings->count;
    } else {
        const struct mr_leaf_spec *in = &it->in[it->nin - 1];

        MR_TRY(mr_infer_dtype(it->in, it->nin - 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, it->nin - 1, 2, err));
        if (in->rank == 2 && in->dims[0] != MR_DIM_UNKNOWN && in->dims[1] != MR_DIM_UNKNOWN) {
            n = in->dims[1] == 2 ? 2 * in->dims[0] : -1;
        }
    }
    if (n != 2 * it->in[0].rank) {
        return mr_error_set(err, MR_EINVAL, "%lld paddings for rank %d; wants two an axis",
                            (long long)n, it->in[0].rank);
    }
    for (int d = 0; d < it->in[0].rank; d++) {
        if (paddings == NULL) {
            it->out->dims[d] = MR_DIM_UNKNOWN;
        } else {
            MR_TRY(pad_dim(mode, paddings->ints[2 * d], paddings->ints[2 * d + 1],
                           &it->out->dims[d], err));
        }
    }
    return MR_OK;
}

static int64_t padding_of(const struct mr_row *row, int i)
{
    const struct mr_attr *paddings = mr_attr_get(row->attrs, "paddings");

    return paddings != NULL ? paddings->ints[i]
                            : mr_tensor_index(&row->in[row->nin - 1], (uint64_t)i);
}

static int dims_pad(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int64_t mode = mr_attr_int(row->attrs, "mode", CONSTANT);

    for (int d = 0; d < spec->rank; d++) {
        spec->dims[d] = row->in[0].dims[d];
        MR_TRY(
            pad_dim(mode, padding_of(row, 2 * d), padding_of(row, 2 * d + 1), &spec->dims[d], err));
    }
    return MR_OK;
}

/* Which place of an axis of size @n stands at place @i, counted from where the axis begins. */
static int64_t mirrored(int64_t i, int64_t n, int64_t mode)
{
    int64_t edge = mode == REFLECT ? 0 : 1; /* whether the border itself is there twice */

    return i < 0 ? -i - edge : i >= n ? 2 * n - 2 + edge - i : i;
}

/* Line by line of the last axis: its middle is a copy. */
static void fill_mirrored(const struct mr_row *row, int64_t mode, struct mr_result *out)
{
    const struct mr_tensor *x = &row->in[0];
    int last = x->rank - 1;
    int64_t strides[MR_RANK_MAX];
    size_t width = out->width;
    int64_t n = x->dims[last];
    int64_t before = padding_of(row, 2 * last);
    uint64_t lines = out->count / (uint64_t)out->dims[last];

    mr_strides_signed(x->rank, x->dims, strides);
    for (uint64_t line = 0; line < lines; line++) {
        unsigned char *to = out->values + line * (uint64_t)out->dims[last] * width;
        const unsigned char *from = x->values;
        uint64_t rest = line;

        for (int d = last - 1; d >= 0; d--) {
            int64_t i = (int64_t)(rest % (uint64_t)out->dims[d]) - padding_of(row, 2 * d);

            from += (size_t)(mirrored(i, x->dims[d], mode) * strides[d]) * width;
            rest /= (uint64_t)out->dims[d];
        }
        for (int64_t i = 0; i < out->dims[last]; i++) {
            if (i == before) {
                memcpy(to + (size_t)i * width, from, (size_t)n * width);
                i += n - 1;
            } else {
                memcpy(to + (size_t)i * width, from + (size_t)mirrored(i - before, n, mode) * width,
                       width);
            }
        }
    }
}

static int fill_pad(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    static const unsigned char zero[sizeof(struct mr_string)];
    bool value = has_value(row->nin, mr_attr_get(row->attrs, "paddings"));
    int64_t mode = mr_attr_int(row->attrs, "mode", CONSTANT);
    int64_t strides[MR_RANK_MAX];
    int64_t first = 0;

    (void)err;
    if (mode != CONSTANT && out->rank > 0) {
        if (out->count > 0) {
            fill_mirrored(row, mode, out);
        }
        return MR_OK;
    }
    mr_fill_values(out->values, out->count, value ? row->in[1].values : zero, out->width);
    mr_strides_signed(out->rank, out->dims, strides);
    for (int d = 0; d < out->rank; d++) {
        first += padding_of(row, 2 * d) * strides[d];
    }
    mr_result_put(&row->in[0], first, strides, out);
    return MR_OK;
}

MR_ROWS_KERNEL(pad, 1, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_pad, .dims = dims_pad,
               .fill = fill_pad,
               .attr_table = {{"mode", MR_ATTR_INT, true}, {"paddings", MR_ATTR_INTS, true}});
