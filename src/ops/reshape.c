/* Operators that keep all values in their order: reshape, expand_dims, squeeze, identity. The
 * result shares the buffers of the input. And those that look at shapes only: shape, size, rank. */
#include "ops/attr.h"
#include "ops/rows.h"

/* ---- result shapes ---- */

static int infer_expand_dims(struct mr_kernel_infer *it, mr_error *err)
{
    return it->out->rank < 0 ? MR_OK
                             : mr_shape_insert(it->out, mr_attr_int(it->attrs, "axis", 0), 1, err);
}

static int infer_squeeze(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *axes = mr_attr_get(it->attrs, "axes");
    bool all = axes == NULL || axes->count == 0;
    int64_t dims[MR_RANK_MAX];
    uint32_t mask = 0;
    int rank = 0;

    if (it->in[0].rank < 0) {
        return mr_error_set(err, MR_EINVAL, "the rank of the input is unknown: set its shape");
    }
    MR_TRY(mr_axes_resolve(all ? NULL : axes, it->in[0].rank, &mask, err));
    for (int d = 0; d < it->in[0].rank; d++) {
        int64_t dim = it->in[0].dims[d];
        bool asked = (mask & (1u << d)) != 0;

        if (all && dim == MR_DIM_UNKNOWN) {
            return mr_error_set(err, MR_EINVAL, "axis %d has an unknown size: name the axes", d);
        }
        if (asked && !all && dim != 1 && dim != MR_DIM_UNKNOWN) {
            return mr_error_set(err, MR_EINVAL, "axis %d has size %lld, not 1", d, (long long)dim);
        }
        if (!asked || (all && dim != 1)) {
            dims[rank++] = dim;
        }
    }
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

/* The product of the dims that are not 0. It fits, or mr_shape_count() had refused them. */
static uint64_t nonzero_count(const struct mr_leaf_spec *in)
{
    uint64_t n = 1;

    for (int d = 0; d < in->rank; d++) {
        n *= in->dims[d] > 0 ? (uint64_t)in->dims[d] : 1;
    }
    return n;
}

/* Put the number of values that is left over into the dim that is -1. Dims of 0 on both sides are
 * left out of that count: (0, 6) as (0, -1, 3) has 2 there. */
static int complete_shape(const struct mr_leaf_spec *in, struct mr_leaf_spec *out, mr_error *err)
{
    char from[MR_SHAPE_TEXT];
    char to[MR_SHAPE_TEXT];
    uint64_t have;
    uint64_t known = 1; /* the product of the dims that are given */
    uint64_t nonzero = 1;
    int open = -1;

    for (int d = 0; d < out->rank; d++) {
        if (out->dims[d] >= 0) {
            if (__builtin_mul_overflow(nonzero, (uint64_t)(out->dims[d] > 0 ? out->dims[d] : 1),
                                       &nonzero)) {
                goto mismatch;
            }
            known = out->dims[d] > 0 ? known : 0;
        } else if (out->dims[d] != MR_DIM_UNKNOWN || open >= 0) {
            return mr_error_set(err, MR_EINVAL, "shape %s: one dim at most may be -1",
                                mr_shape_text(out->rank, out->dims, to));
        } else {
            open = d;
        }
    }
    known *= nonzero;
    if (in->rank < 0 || !mr_shape_count(in->rank, in->dims, &have)) {
        return MR_OK;
    }
    if (open >= 0 && known == 0 && have == 0) {
        have = nonzero_count(in);
        known = nonzero;
    }
    if (open >= 0 && known > 0 && have % known == 0 && have / known <= INT64_MAX) {
        out->dims[open] = (int64_t)(have / known);
        return MR_OK;
    }
    if (open < 0 && have == known) {
        return MR_OK;
    }

mismatch:
    return mr_error_set(err, MR_EINVAL, "shape %s cannot become %s",
                        mr_shape_text(in->rank, in->dims, from),
                        mr_shape_text(out->rank, out->dims, to));
}

static int infer_reshape(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *shape = mr_attr_get(it->attrs, "shape");

    if ((shape != NULL) == (it->nin == 2)) {
        return mr_error_set(err, MR_EINVAL, "wants the shape as an attribute or as an input");
    }
    if (shape == NULL) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 1, err));
        return mr_shape_open(it->out, &it->in[1], "the shape", err);
    }
    if (shape->count < 0) {
        return mr_error_set(err, MR_EINVAL, "the rank of the shape is unknown");
    }
    mr_shape_set(it->out, shape->count, shape->ints);
    return complete_shape(&it->in[0], it->out, err);
}

/* ---- sharing ---- */

/* The shape of one row: from the attributes, or from the second input of reshape. */
static int shape_of_row(const struct mr_kernel_call *call, const struct mr_tensor *row, size_t nin,
                        struct mr_leaf_spec *ret, mr_error *err)
{
    struct mr_leaf_spec have;

    MR_TRY(mr_rows_infer(call, row, nin, ret, 1, err));
    if (nin == 1) {
        return MR_OK;
    }
    mr_tensor_spec(&row[0], &have);
    for (int d = 0; d < ret->rank; d++) {
        ret->dims[d] = mr_tensor_index(&row[1], (uint64_t)d);
    }
    return complete_shape(&have, ret, err);
}

/* The column of @in with one shape for all rows. */
static int share_fixed(const struct mr_kernel_in *in, uint32_t rows, int rank, const int64_t *dims,
                       struct mr_owned_column *out, mr_error *err)
{
    const struct mr_owned_column *c = in->column;
    const struct mr_kernel_in all = {c, in->broadcast && rows != 1};

    MR_TRY(mr_column_pass(&all, rows, out, err));
    if (out->c.kind == MR_COLUMN_VAR) {
        if (out->c.dtype == MR_STRING) {
            out->c.offsets = c->c.offsets + c->c.starts[0];
        } else if (out->c.data != NULL) {
            out->c.data = (const unsigned char *)c->c.data +
                          c->c.starts[0] * mr_dtype_size((mr_dtype)c->c.dtype);
        }
        out->c.kind = MR_COLUMN_FIXED;
        out->c.row_dims = NULL;
        out->c.starts = NULL;
    }
    out->c.rank = (uint8_t)rank;
    memset(out->c.dims, 0, sizeof out->c.dims);
    memcpy(out->c.dims, dims, (size_t)rank * sizeof *dims);
    return MR_OK;
}

/* An owner of @c that holds neither data nor offsets, or holds what another one holds too. */
static size_t spare_owner(const struct mr_owned_column *c)
{
    size_t i = 0;

    for (; i < 3; i++) {
        const mr_buffer *b = c->owner[i];
        bool again = false;

        for (size_t k = 0; k < i; k++) {
            again = again || c->owner[k] == b;
        }
        if (b == NULL || again ||
            (!mr_buffer_has(b, c->c.data) && !mr_buffer_has(b, c->c.offsets))) {
            break;
        }
    }
    return i;
}

/* The VAR column of @in (not a broadcast) with other dims a row. */
static int share_var(const struct mr_owned_column *c, uint32_t rows, int rank,
                     const int64_t *row_dims, struct mr_owned_column *out, mr_error *err)
{
    size_t dims_bytes = (size_t)rows * (size_t)rank * sizeof *row_dims;
    mr_buffer *meta;
    MR_TRY(mr_buffer_new(dims_bytes + ((size_t)rows + 1) * sizeof(uint64_t), &meta, err));
    int64_t *dims = mr_buffer_data(meta);
    uint64_t *starts = (uint64_t *)(void *)((unsigned char *)mr_buffer_data(meta) + dims_bytes);
    if (dims_bytes > 0) {
        memcpy(dims, row_dims, dims_bytes);
    }
    memcpy(starts, c->c.starts, ((size_t)rows + 1) * sizeof *starts);
    size_t spare = spare_owner(c);
    if (spare == 3) {
        mr_buffer_unref(meta);
        return mr_error_set(err, MR_EINTERNAL, "a column with more owners than parts");
    }
    mr_column_share(c, out);
    mr_buffer_unref(out->owner[spare]);
    out->owner[spare] = meta;
    out->c.rank = (uint8_t)rank;
    out->c.row_dims = dims;
    out->c.starts = starts;
    return MR_OK;
}

/* A FIXED column whose rows get shapes of their own: (6) becomes (2,3) here and (3,2) there. */
static int share_as_var(const struct mr_kernel_in *in, uint32_t rows, int rank,
                        const int64_t *row_dims, struct mr_owned_column *out, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    struct mr_owned_column whole;
    uint64_t count = 0;

    MR_TRY(mr_buffer_new(((size_t)rows + 1) * sizeof(uint64_t), &held, err));
    uint64_t *starts = mr_buffer_data(held);
    MR_TRY(mr_column_pass(in, rows, &whole, err));
    (void)mr_shape_count(whole.c.rank, whole.c.dims, &count);
    for (uint32_t r = 0; r <= rows; r++) {
        starts[r] = r * count;
    }
    whole.c.kind = MR_COLUMN_VAR;
    whole.c.starts = starts; /* share_var() copies them */
    int rc = share_var(&whole, rows, rank, row_dims, out, err);
    mr_column_release(&whole);
    return rc;
}

/* Shapes differ from row to row, or may do so. */
static int eval_each(const struct mr_kernel_call *call, uint32_t rows,
                     const struct mr_kernel_in *in, const struct mr_input *inputs, size_t nin,
                     struct mr_owned_column *out, uint32_t *bad_row, mr_error *err)
{
    struct mr_leaf_spec spec = {0};
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    int64_t *dims = NULL;

    for (uint32_t r = 0; r < rows; r++) {
        struct mr_tensor row[2];

        for (size_t i = 0; i < nin; i++) {
            row[i] = mr_input_row(&inputs[i], r);
        }
        *bad_row = r;
        MR_TRY(shape_of_row(call, row, nin, &spec, err));
        if (r == 0) {
            MR_TRY(mr_buffer_new((size_t)rows * (size_t)spec.rank * sizeof *dims, &held, err));
            dims = mr_buffer_data(held);
        }
        memcpy(dims + (size_t)r * (size_t)spec.rank, spec.dims, (size_t)spec.rank * sizeof *dims);
    }
    *bad_row = 0;
    if (mr_rows_agree(dims, rows, spec.rank)) {
        return share_fixed(&in[0], rows, spec.rank, dims, out, err);
    }
    return in[0].broadcast || in[0].column->c.kind == MR_COLUMN_FIXED
               ? share_as_var(&in[0], rows, spec.rank, dims, out, err)
               : share_var(in[0].column, rows, spec.rank, dims, out, err);
}

static int eval_reshape(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                        size_t nout, uint32_t *bad_row, mr_error *err)
{
    const struct mr_column *c = &in[0].column->c;
    struct mr_leaf_spec spec = call->out_specs[0];
    struct mr_input *inputs = NULL;

    *bad_row = 0;
    if (rows == 0) {
        struct mr_output empty;

        spec.dtype = c->dtype;
        MR_TRY(mr_output_empty(&empty, &spec, err));
        return mr_output_finish(&empty, out, err);
    }
    if (nin == 1 && c->kind == MR_COLUMN_FIXED) {
        struct mr_tensor row = {NULL, 0, c->dims, c->rank, c->dtype, 0};

        MR_TRY(shape_of_row(call, &row, 1, &spec, err));
        return share_fixed(&in[0], rows, spec.rank, spec.dims, out, err);
    }
    MR_TRY(mr_inputs_open(in, nin, rows, &inputs, err));
    int rc = eval_each(call, rows, in, inputs, nin, out, bad_row, err);
    mr_inputs_close(inputs, nin);
    return rc;
}

static int eval_identity(const struct mr_kernel_call *call, uint32_t rows,
                         const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                         size_t nout, uint32_t *bad_row, mr_error *err)
{
    *bad_row = 0;
    return mr_column_pass(&in[0], rows, out, err);
}

MR_DEFINE_KERNEL(identity, 1, 1, 0, .flags = MR_KERNEL_ELEMENTWISE, .eval = eval_identity);
MR_DEFINE_KERNEL(expand_dims, 1, 1, 0, .infer = infer_expand_dims, .eval = eval_reshape,
                 .attr_table = {{"axis", MR_ATTR_INT, false}});
MR_DEFINE_KERNEL(squeeze, 1, 1, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_squeeze,
                 .eval = eval_reshape, .attr_table = {{"axes", MR_ATTR_INTS, true}});
MR_DEFINE_KERNEL(reshape, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_reshape,
                 .eval = eval_reshape, .attr_table = {{"shape", MR_ATTR_SHAPE, true}});

/* ---- shapes as values ---- */

static int infer_shape(struct mr_kernel_infer *it, mr_error *err)
{
    mr_shape_set(it->out, 1, (int64_t[]){it->in[0].rank < 0 ? MR_DIM_UNKNOWN : it->in[0].rank});
    return mr_attr_index_dtype(it->attrs, MR_INT32, &it->out->dtype, err);
}

static int infer_size(struct mr_kernel_infer *it, mr_error *err)
{
    mr_shape_set(it->out, 0, NULL);
    return mr_attr_index_dtype(it->attrs, MR_INT32, &it->out->dtype, err);
}

static int fill_shape(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    for (uint64_t d = 0; d < out->count; d++) {
        mr_result_put_index(out, d, (uint64_t)row->in[0].dims[d]);
    }
    return MR_OK;
}

static int fill_size(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    mr_result_put_index(out, 0, row->in[0].count);
    return MR_OK;
}

static int fill_rank(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    mr_result_put_index(out, 0, (uint64_t)row->in[0].rank);
    return MR_OK;
}

MR_ROWS_KERNEL(shape, 1, 1, 0, .infer = infer_shape, .fill = fill_shape,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, true}});
MR_ROWS_KERNEL(size, 1, 1, 0, .infer = infer_size, .fill = fill_size,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, true}});
MR_ROWS_KERNEL(rank, 1, 1, 0, .infer = infer_size, .fill = fill_rank);
