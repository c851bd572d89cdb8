/*
 * Operators that keep all values in their order: reshape, expand_dims, squeeze, identity. The
 * result shares the buffers of the input. And those that look at shapes only: shape, size, rank.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/table.h"

#include <string.h>

/* ---- result shapes ---- */

static int infer_identity(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                          size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                          mr_error *err)
{
    out[0] = in[0];
    *nout = 1;
    return MR_OK;
}

static int infer_expand_dims(const struct mr_attr *attrs, size_t nattrs,
                             const struct mr_leaf_spec *in, size_t nin, struct mr_leaf_spec *out,
                             size_t cap, size_t *nout, mr_error *err)
{
    int axis = 0;

    out[0] = in[0];
    *nout = 1;
    if (in[0].rank < 0) {
        return MR_OK;
    }
    if (in[0].rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", MR_RANK_MAX + 1,
                            MR_RANK_MAX);
    }
    MR_TRY(mr_axis_resolve(mr_attr_int(attrs, nattrs, "axis", 0), in[0].rank + 1, &axis, err));
    out[0].rank++;
    for (int d = (int)in[0].rank; d > axis; d--) {
        out[0].dims[d] = in[0].dims[d - 1];
    }
    out[0].dims[axis] = 1;
    return MR_OK;
}

static int infer_squeeze(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                         size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                         mr_error *err)
{
    const struct mr_attr *axes = mr_attr_find(attrs, nattrs, "axes");
    bool all = axes == NULL || axes->count == 0;
    int64_t dims[MR_RANK_MAX];
    uint32_t mask = 0;
    int rank = 0;

    out[0] = in[0];
    *nout = 1;
    if (in[0].rank < 0) {
        return mr_error_set(err, MR_EINVAL, "the rank of the input is unknown: set its shape");
    }
    MR_TRY(mr_axes_resolve(all ? NULL : axes, in[0].rank, &mask, err));
    for (int d = 0; d < in[0].rank; d++) {
        int64_t dim = in[0].dims[d];
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
    mr_shape_set(&out[0], rank, dims);
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

/*
 * Put the number of values that is left over into the dim that is -1. Dims of 0 on both sides are
 * left out of that count: (0, 6) as (0, -1, 3) has 2 there.
 */
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

static int infer_reshape(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                         size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                         mr_error *err)
{
    const struct mr_attr *shape = mr_attr_find(attrs, nattrs, "shape");
    struct mr_leaf_spec result = in[0];

    *nout = 1;
    if ((shape != NULL) == (nin == 2)) {
        return mr_error_set(err, MR_EINVAL, "wants the shape as an attribute or as an input");
    }
    if (shape != NULL) {
        if (shape->count < 0) {
            return mr_error_set(err, MR_EINVAL, "the rank of the shape is unknown");
        }
        mr_shape_set(&result, shape->count, shape->ints);
        MR_TRY(complete_shape(&in[0], &result, err));
        out[0] = result;
        return MR_OK;
    }
    MR_TRY(mr_infer_dtype(in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(in, 1, 1, err));
    if (in[1].rank < 0 || in[1].dims[0] < 0 || in[1].dims[0] > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "the length of the shape must be known and at most %d",
                            MR_RANK_MAX);
    }
    result.rank = (int8_t)in[1].dims[0];
    for (int d = 0; d < MR_RANK_MAX; d++) {
        result.dims[d] = d < result.rank ? MR_DIM_UNKNOWN : 0;
    }
    out[0] = result;
    return MR_OK;
}

/* ---- sharing ---- */

/* The shape of one row: from the attributes, or from the second input of reshape. */
static int shape_of_row(const struct mr_kernel_call *call, const struct mr_tensor *row, size_t nin,
                        struct mr_leaf_spec *ret, mr_error *err)
{
    struct mr_leaf_spec have;
    int rc = mr_rows_infer(call, row, nin, ret, 1, err);

    if (rc < 0 || nin == 1) {
        return rc;
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

    if (in->broadcast && rows != 1) {
        int rc = mr_column_expand(c, rows, out, err);

        if (rc < 0) {
            return rc;
        }
    } else {
        mr_column_share(c, out);
    }
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
    struct mr_owned_column whole;
    uint64_t *starts;
    uint64_t count = 0;
    int rc = MR_OK;

    if (in->broadcast) {
        rc = mr_column_expand(in->column, rows, &whole, err);
    } else {
        mr_column_share(in->column, &whole);
    }
    if (rc < 0) {
        return rc;
    }
    starts = mr_reallocarray(NULL, (size_t)rows + 1, sizeof *starts);
    if (starts == NULL) {
        mr_column_release(&whole);
        return mr_error_nomem(err);
    }
    (void)mr_shape_count(whole.c.rank, whole.c.dims, &count);
    for (uint32_t r = 0; r <= rows; r++) {
        starts[r] = r * count;
    }
    whole.c.kind = MR_COLUMN_VAR;
    whole.c.starts = starts; /* share_var() copies them */
    rc = share_var(&whole, rows, rank, row_dims, out, err);
    mr_column_release(&whole);
    mr_free(starts);
    return rc;
}

/* No row says what the shape is: what is unknown is 0. */
static int share_empty(const struct mr_kernel_in *in, const struct mr_leaf_spec *spec,
                       struct mr_owned_column *out, mr_error *err)
{
    struct mr_output empty;
    struct mr_leaf_spec s = *spec;

    for (int d = 0; d < s.rank; d++) {
        s.dims[d] = s.dims[d] < 0 ? 0 : s.dims[d];
    }
    MR_TRY(mr_output_fixed(&empty, in->column->c.dtype, 0, s.rank < 0 ? 0 : s.rank, s.dims, err));
    return mr_output_finish(&empty, out, err);
}

static bool same_rows(const int64_t *dims, uint32_t rows, int rank)
{
    for (uint32_t r = 1; r < rows; r++) {
        if (memcmp(dims, dims + (size_t)r * (size_t)rank, (size_t)rank * sizeof *dims) != 0) {
            return false;
        }
    }
    return true;
}

/* Shapes differ from row to row, or may do so. */
static int eval_each(const struct mr_kernel_call *call, uint32_t rows,
                     const struct mr_kernel_in *in, const struct mr_input *inputs, size_t nin,
                     struct mr_owned_column *out, uint32_t *bad_row, mr_error *err)
{
    struct mr_leaf_spec spec = {0};
    int64_t *dims = NULL;
    int rc = MR_OK;

    for (uint32_t r = 0; r < rows; r++) {
        struct mr_tensor row[2];

        for (size_t i = 0; i < nin; i++) {
            row[i] = mr_input_row(&inputs[i], r);
        }
        *bad_row = r;
        rc = shape_of_row(call, row, nin, &spec, err);
        if (rc == MR_OK && dims == NULL) {
            dims = mr_reallocarray(NULL, (size_t)rows * (size_t)spec.rank + 1, sizeof *dims);
            rc = dims == NULL ? mr_error_nomem(err) : MR_OK;
        }
        if (rc < 0) {
            goto out;
        }
        memcpy(dims + (size_t)r * (size_t)spec.rank, spec.dims, (size_t)spec.rank * sizeof *dims);
    }
    *bad_row = 0;
    if (same_rows(dims, rows, spec.rank)) {
        rc = share_fixed(&in[0], rows, spec.rank, dims, out, err);
    } else if (in[0].broadcast || in[0].column->c.kind == MR_COLUMN_FIXED) {
        rc = share_as_var(&in[0], rows, spec.rank, dims, out, err);
    } else {
        rc = share_var(in[0].column, rows, spec.rank, dims, out, err);
    }

out:
    mr_free(dims);
    return rc;
}

static int eval_reshape(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                        size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct mr_leaf_spec spec;
    struct mr_input *inputs = NULL;
    int rc;

    *bad_row = 0;
    if (rows == 0) {
        return share_empty(&in[0], &call->out_specs[0], out, err);
    }
    if (nin == 1 && (in[0].column->c.kind == MR_COLUMN_FIXED)) {
        struct mr_tensor row = {
            NULL, 0, in[0].column->c.dims, in[0].column->c.rank, in[0].column->c.dtype, 0};

        rc = shape_of_row(call, &row, 1, &spec, err);
        return rc < 0 ? rc : share_fixed(&in[0], rows, spec.rank, spec.dims, out, err);
    }
    MR_TRY(mr_inputs_open(in, nin, rows, &inputs, err));
    rc = eval_each(call, rows, in, inputs, nin, out, bad_row, err);
    mr_inputs_close(inputs, nin);
    return rc;
}

static int eval_identity(const struct mr_kernel_call *call, uint32_t rows,
                         const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                         size_t nout, uint32_t *bad_row, mr_error *err)
{
    *bad_row = 0;
    if (in[0].broadcast) {
        return mr_column_expand(in[0].column, rows, out, err);
    }
    mr_column_share(in[0].column, out);
    return MR_OK;
}

#define SHARING_KERNEL(symbol, text, more_flags, inputs_max, infer_fn, attrs_of, eval_fn)          \
    const struct mr_kernel symbol = {                                                              \
        .name = text,                                                                              \
        .version = 1,                                                                              \
        .flags = (more_flags),                                                                     \
        .min_inputs = 1,                                                                           \
        .max_inputs = (inputs_max),                                                                \
        .infer = infer_fn,                                                                         \
        .eval = eval_fn,                                                                           \
        .attr_table = attrs_of,                                                                    \
    }

static const struct mr_kernel_attr expand_dims_attrs[] = {{"axis", MR_ATTR_INT, false},
                                                          {NULL, 0, false}};
static const struct mr_kernel_attr squeeze_attrs[] = {{"axes", MR_ATTR_INTS, true},
                                                      {NULL, 0, false}};
static const struct mr_kernel_attr reshape_attrs[] = {{"shape", MR_ATTR_SHAPE, true},
                                                      {NULL, 0, false}};

SHARING_KERNEL(mr_kernel_identity, "identity", MR_KERNEL_ELEMENTWISE, 1, infer_identity, NULL,
               eval_identity);
SHARING_KERNEL(mr_kernel_expand_dims, "expand_dims", 0, 1, infer_expand_dims, expand_dims_attrs,
               eval_reshape);
SHARING_KERNEL(mr_kernel_squeeze, "squeeze", MR_KERNEL_MAY_FAIL, 1, infer_squeeze, squeeze_attrs,
               eval_reshape);
SHARING_KERNEL(mr_kernel_reshape, "reshape", MR_KERNEL_MAY_FAIL, 2, infer_reshape, reshape_attrs,
               eval_reshape);

/* ---- shapes as values ---- */

static int infer_counts(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        struct mr_leaf_spec *out, mr_error *err)
{
    mr_dtype dtype = mr_attr_dtype(attrs, nattrs, "dtype", MR_INT32);

    memset(out, 0, sizeof *out);
    if (dtype != MR_INT32 && dtype != MR_INT64) {
        return mr_error_set(err, MR_EINVAL, "dtype %s: wants int32 or int64", mr_dtype_name(dtype));
    }
    out->dtype = (uint8_t)dtype;
    return MR_OK;
}

static int infer_shape(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                       size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                       mr_error *err)
{
    int64_t length = in[0].rank < 0 ? MR_DIM_UNKNOWN : in[0].rank;
    int rc = infer_counts(attrs, nattrs, in, &out[0], err);

    mr_shape_set(&out[0], 1, &length);
    *nout = 1;
    return rc;
}

static int infer_size(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                      size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    *nout = 1;
    return infer_counts(attrs, nattrs, in, &out[0], err);
}

static void put_count(struct mr_result *out, uint64_t i, uint64_t v)
{
    if (out->dtype == MR_INT32) {
        ((int32_t *)(void *)out->values)[i] = (int32_t)(uint32_t)v;
    } else {
        ((int64_t *)(void *)out->values)[i] = (int64_t)v;
    }
}

static int fill_shape(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      size_t output, struct mr_result *out, mr_error *err)
{
    for (uint64_t d = 0; d < out->count; d++) {
        put_count(out, d, (uint64_t)in[0].dims[d]);
    }
    return MR_OK;
}

static int fill_size(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                     size_t output, struct mr_result *out, mr_error *err)
{
    put_count(out, 0, in[0].count);
    return MR_OK;
}

static int fill_rank(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                     size_t output, struct mr_result *out, mr_error *err)
{
    put_count(out, 0, (uint64_t)in[0].rank);
    return MR_OK;
}

static const struct mr_kernel_attr count_attrs[] = {{"dtype", MR_ATTR_DTYPE, true},
                                                    {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_shape, "shape", 0, 1, 1, infer_shape, count_attrs, NULL, fill_shape);
MR_ROWS_KERNEL(mr_kernel_size, "size", 0, 1, 1, infer_size, count_attrs, NULL, fill_size);
MR_ROWS_KERNEL(mr_kernel_rank, "rank", 0, 1, 1, infer_size, NULL, NULL, fill_rank);
