/* transpose, reverse, broadcast_to, tile, pad, strided_slice: copies by strides. */
#include "ops/move.h"

#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/table.h"

#include <string.h>

/* ---- copying ---- */

/* @n values, one every @stride of @in. The loops of fixed width are what matters: they become plain
 * loads and stores. */
static void copy_run(unsigned char *out, const unsigned char *in, int64_t stride, uint64_t n,
                     size_t width)
{
    if (stride == 1) {
        memcpy(out, in, n * width);
        return;
    }
    int64_t bytes = stride * (int64_t)width;
#define RUN(W)                                                                                     \
    for (uint64_t i = 0; i < n; i++, in += bytes) {                                                \
        memcpy(out + i * (W), in, (W));                                                            \
    }
    switch (width) {
    case 1:
        RUN(1)
        break;
    case 2:
        RUN(2)
        break;
    case 4:
        RUN(4)
        break;
    case 8:
        RUN(8)
        break;
    default:
        RUN(width)
        break;
    }
#undef RUN
}

/* Steps to the next run along the innermost axis, whose first value is at *@at; false after the
 * last one. */
static bool next_run(int rank, const int64_t *dims, const int64_t *strides,
                     int64_t counter[MR_RANK_MAX], int64_t *at)
{
    for (int d = rank - 2; d >= 0; d--) {
        *at += strides[d];
        if (++counter[d] < dims[d]) {
            return true;
        }
        *at -= strides[d] * dims[d];
        counter[d] = 0;
    }
    return false;
}

void mr_strided_copy(const unsigned char *in, int64_t first, const int64_t *strides, int rank,
                     const int64_t *dims, size_t width, unsigned char *out)
{
    int64_t counter[MR_RANK_MAX] = {0};
    int64_t at = first;

    for (int d = 0; d < rank; d++) {
        if (dims[d] == 0) {
            return;
        }
    }
    uint64_t run = rank == 0 ? 1 : (uint64_t)dims[rank - 1];
    do {
        copy_run(out, in + at * (int64_t)width, rank == 0 ? 1 : strides[rank - 1], run, width);
        out += run * width;
    } while (next_run(rank, dims, strides, counter, &at));
}

void mr_strided_put(const unsigned char *in, int rank, const int64_t *dims, size_t width,
                    unsigned char *out, int64_t first, const int64_t *strides)
{
    int64_t counter[MR_RANK_MAX] = {0};
    int64_t at = first;

    for (int d = 0; d < rank; d++) {
        if (dims[d] == 0) {
            return;
        }
    }
    size_t run = (rank == 0 ? 1 : (size_t)dims[rank - 1]) * width; /* the innermost stride is 1 */
    do {
        memcpy(out + at * (int64_t)width, in, run);
        in += run;
    } while (next_run(rank, dims, strides, counter, &at));
}

void mr_fill_values(unsigned char *out, uint64_t n, const unsigned char *value, size_t width)
{
    for (uint64_t i = 0; i < n; i++) {
        memcpy(out + i * width, value, width);
    }
}

static void signed_strides(int rank, const int64_t *dims, int64_t strides[MR_RANK_MAX])
{
    uint64_t plain[MR_RANK_MAX];

    mr_strides(rank, dims, plain);
    for (int d = 0; d < rank; d++) {
        strides[d] = (int64_t)plain[d];
    }
}

/* ---- transpose ---- */

static int resolve_perm(const struct mr_attr *attrs, size_t nattrs, int rank, int *perm,
                        mr_error *err)
{
    const struct mr_attr *given = mr_attr_find(attrs, nattrs, "perm");
    uint32_t mask;

    if (given != NULL && given->count != rank) {
        return mr_error_set(err, MR_EINVAL, "a permutation of %d axes for rank %d", given->count,
                            rank);
    }
    MR_TRY(mr_axes_resolve(given, rank, &mask, err));
    for (int d = 0; d < rank; d++) {
        perm[d] = rank - 1 - d;
        if (given != NULL) {
            MR_TRY(mr_axis_resolve(given->ints[d], rank, &perm[d], err));
        }
    }
    return MR_OK;
}

static int infer_transpose(const struct mr_attr *attrs, size_t nattrs,
                           const struct mr_leaf_spec *in, size_t nin, struct mr_leaf_spec *out,
                           size_t cap, size_t *nout, mr_error *err)
{
    struct mr_leaf_spec result = in[0];
    int perm[MR_RANK_MAX] = {0};

    *nout = 1;
    if (in[0].rank >= 0) {
        MR_TRY(resolve_perm(attrs, nattrs, in[0].rank, perm, err));
        for (int d = 0; d < in[0].rank; d++) {
            result.dims[d] = in[0].dims[perm[d]];
        }
    }
    out[0] = result;
    return MR_OK;
}

static int fill_transpose(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                          size_t output, struct mr_result *out, mr_error *err)
{
    int64_t plain[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX];
    int perm[MR_RANK_MAX];
    MR_TRY(resolve_perm(call->attrs, call->nattrs, out->rank, perm, err));
    signed_strides(out->rank, in[0].dims, plain);
    for (int d = 0; d < out->rank; d++) {
        strides[d] = plain[perm[d]];
    }
    mr_strided_copy(in[0].values, 0, strides, out->rank, out->dims, out->width, out->values);
    return MR_OK;
}

/* ---- reverse ---- */

static int infer_reverse(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                         size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                         mr_error *err)
{
    uint32_t mask;

    out[0] = in[0];
    *nout = 1;
    return in[0].rank < 0
               ? MR_OK
               : mr_axes_resolve(mr_attr_find(attrs, nattrs, "axes"), in[0].rank, &mask, err);
}

static int fill_reverse(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                        size_t output, struct mr_result *out, mr_error *err)
{
    int64_t strides[MR_RANK_MAX];
    int64_t first = 0;
    uint32_t mask = 0;
    MR_TRY(mr_axes_resolve(mr_attr_find(call->attrs, call->nattrs, "axes"), out->rank, &mask, err));
    signed_strides(out->rank, out->dims, strides);
    for (int d = 0; d < out->rank; d++) {
        if ((mask & (1u << d)) != 0) {
            first += (out->dims[d] - 1) * strides[d];
            strides[d] = -strides[d];
        }
    }
    mr_strided_copy(in[0].values, first, strides, out->rank, out->dims, out->width, out->values);
    return MR_OK;
}

/* ---- broadcast_to ---- */

static int infer_broadcast_to(const struct mr_attr *attrs, size_t nattrs,
                              const struct mr_leaf_spec *in, size_t nin, struct mr_leaf_spec *out,
                              size_t cap, size_t *nout, mr_error *err)
{
    const struct mr_attr *shape = mr_attr_find(attrs, nattrs, "shape");
    struct mr_leaf_spec result = in[0];
    char a[MR_SHAPE_TEXT];
    char b[MR_SHAPE_TEXT];

    *nout = 1;
    for (int32_t d = 0; d < shape->count; d++) {
        if (shape->ints[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d of the shape is unknown", d);
        }
    }
    if (shape->count < 0) {
        return mr_error_set(err, MR_EINVAL, "the rank of the shape is unknown");
    }
    for (int d = 0; in[0].rank >= 0 && d < in[0].rank; d++) {
        int to = shape->count - in[0].rank + d;
        int64_t dim = in[0].dims[d];

        if (to < 0 || (dim != 1 && dim != MR_DIM_UNKNOWN && dim != shape->ints[to])) {
            return mr_error_set(err, MR_EINVAL, "shape %s does not broadcast to %s",
                                mr_shape_text(in[0].rank, in[0].dims, a),
                                mr_shape_text(shape->count, shape->ints, b));
        }
    }
    mr_shape_set(&result, shape->count, shape->ints);
    out[0] = result;
    return MR_OK;
}

static int fill_broadcast_to(const struct mr_kernel_call *call, const struct mr_tensor *in,
                             size_t nin, size_t output, struct mr_result *out, mr_error *err)
{
    int64_t plain[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX] = {0};
    int added = out->rank - in[0].rank;

    signed_strides(in[0].rank, in[0].dims, plain);
    for (int d = 0; d < in[0].rank; d++) {
        strides[added + d] = in[0].dims[d] == 1 ? 0 : plain[d];
    }
    mr_strided_copy(in[0].values, 0, strides, out->rank, out->dims, out->width, out->values);
    return MR_OK;
}

/* ---- tile, pad ---- */

static int infer_tile(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                      size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    const struct mr_attr *multiples = mr_attr_find(attrs, nattrs, "multiples");
    struct mr_leaf_spec result = in[0];

    *nout = 1;
    if (in[0].rank != multiples->count) {
        return mr_error_set(err, MR_EINVAL, "%d multiples for rank %d", multiples->count,
                            in[0].rank);
    }
    for (int d = 0; d < in[0].rank; d++) {
        int64_t dim = in[0].dims[d];

        if (multiples->ints[d] < 0 ||
            (dim > 0 && __builtin_mul_overflow(dim, multiples->ints[d], &result.dims[d]))) {
            return mr_error_set(err, MR_EINVAL, "multiple %lld", (long long)multiples->ints[d]);
        }
    }
    out[0] = result;
    return MR_OK;
}

/* The tile is put at each place in turn: an axis of the input is there once for each multiple. */
static int fill_tile(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                     size_t output, struct mr_result *out, mr_error *err)
{
    const struct mr_attr *multiples = mr_attr_find(call->attrs, call->nattrs, "multiples");
    int64_t strides[MR_RANK_MAX];
    int64_t counter[MR_RANK_MAX] = {0};
    int64_t first = 0;
    int rank = out->rank;

    if (out->count == 0) {
        return MR_OK;
    }
    signed_strides(rank, out->dims, strides);
    for (;;) {
        int d = rank - 1;

        mr_strided_put(in[0].values, rank, in[0].dims, out->width, out->values, first, strides);
        for (; d >= 0; d--) {
            first += strides[d] * in[0].dims[d];
            if (++counter[d] < multiples->ints[d]) {
                break;
            }
            first -= strides[d] * in[0].dims[d] * multiples->ints[d];
            counter[d] = 0;
        }
        if (d < 0) {
            return MR_OK;
        }
    }
}

static int infer_pad(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                     size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    const struct mr_attr *paddings = mr_attr_find(attrs, nattrs, "paddings");
    struct mr_leaf_spec result = in[0];

    MR_TRY(nin == 2 ? mr_infer_same_dtype(in, 0, nin, err) : MR_OK);
    if (nin == 2) {
        MR_TRY(mr_infer_rank(in, 1, 0, err));
    }
    *nout = 1;
    if (in[0].rank < 0 || paddings->count != 2 * in[0].rank) {
        return mr_error_set(err, MR_EINVAL, "%d paddings for rank %d; wants two an axis",
                            paddings->count, in[0].rank);
    }
    for (int d = 0; d < in[0].rank; d++) {
        int64_t before = paddings->ints[2 * d];
        int64_t behind = paddings->ints[2 * d + 1];
        int64_t more;

        if (before < 0 || behind < 0 || __builtin_add_overflow(before, behind, &more) ||
            (in[0].dims[d] >= 0 && __builtin_add_overflow(in[0].dims[d], more, &result.dims[d]))) {
            return mr_error_set(err, MR_EINVAL, "paddings %lld and %lld", (long long)before,
                                (long long)behind);
        }
    }
    out[0] = result;
    return MR_OK;
}

static int fill_pad(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                    size_t output, struct mr_result *out, mr_error *err)
{
    static const unsigned char zero[sizeof(struct mr_string)];
    const struct mr_attr *paddings = mr_attr_find(call->attrs, call->nattrs, "paddings");
    int64_t strides[MR_RANK_MAX];
    int64_t first = 0;

    mr_fill_values(out->values, out->count, nin == 2 ? in[1].values : zero, out->width);
    signed_strides(out->rank, out->dims, strides);
    for (int d = 0; d < out->rank; d++) {
        first += paddings->ints[2 * d] * strides[d];
    }
    mr_strided_put(in[0].values, out->rank, in[0].dims, out->width, out->values, first, strides);
    return MR_OK;
}

static const struct mr_kernel_attr transpose_attrs[] = {{"perm", MR_ATTR_INTS, true},
                                                        {NULL, 0, false}};
static const struct mr_kernel_attr reverse_attrs[] = {{"axes", MR_ATTR_INTS, false},
                                                      {NULL, 0, false}};
static const struct mr_kernel_attr broadcast_attrs[] = {{"shape", MR_ATTR_SHAPE, false},
                                                        {NULL, 0, false}};
static const struct mr_kernel_attr tile_attrs[] = {{"multiples", MR_ATTR_INTS, false},
                                                   {NULL, 0, false}};
static const struct mr_kernel_attr pad_attrs[] = {{"paddings", MR_ATTR_INTS, false},
                                                  {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_transpose, "transpose", 0, 1, 1, infer_transpose, transpose_attrs, NULL,
               fill_transpose);
MR_ROWS_KERNEL(mr_kernel_reverse, "reverse", 0, 1, 1, infer_reverse, reverse_attrs, NULL,
               fill_reverse);
MR_ROWS_KERNEL(mr_kernel_broadcast_to, "broadcast_to", MR_KERNEL_MAY_FAIL, 1, 1, infer_broadcast_to,
               broadcast_attrs, NULL, fill_broadcast_to);
MR_ROWS_KERNEL(mr_kernel_tile, "tile", 0, 1, 1, infer_tile, tile_attrs, NULL, fill_tile);
MR_ROWS_KERNEL(mr_kernel_pad, "pad", 0, 1, 2, infer_pad, pad_attrs, NULL, fill_pad);
