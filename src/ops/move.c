/* transpose, reverse, broadcast_to, tile: copies by strides. */
#include "ops/move.h"

#include "ops/attr.h"
#include "ops/loops.h"

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
    case 1: RUN(1) break;
    case 2: RUN(2) break;
    case 4: RUN(4) break;
    case 8: RUN(8) break;
    default: RUN(width) break;
    }
#undef RUN
}

/* A copy as few axes as possible: those that lie behind one another in the input are one. */
struct copy {
    int rank;
    int64_t dims[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX];
};

static struct copy fewest_axes(int rank, const int64_t *dims, const int64_t *strides)
{
    struct copy c = {.rank = 0};

    for (int d = 0; d < rank; d++) {
        int last = c.rank - 1;

        if (dims[d] == 1) {
            continue;
        }
        if (last >= 0 && c.strides[last] == strides[d] * dims[d]) {
            c.dims[last] *= dims[d];
            c.strides[last] = strides[d];
        } else {
            c.dims[c.rank] = dims[d];
            c.strides[c.rank++] = strides[d];
        }
    }
    return c;
}

/* Reverses @n pixels of three bytes; @in is the last one of the source. A vector of 16 bytes holds
 * five: its spare byte is read in front of them, and written behind them. */
MR_HOT static void reverse_pixels(unsigned char *out, const unsigned char *in, uint64_t n)
{
    typedef unsigned char vector __attribute__((vector_size(16)));

    for (; n > 5; n -= 5, in -= 15, out += 15) {
        vector v;

        memcpy(&v, in - 13, sizeof v);
        v = __builtin_shufflevector(v, v, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
        memcpy(out, &v, sizeof v);
    }
    for (; n > 0; n--, in -= 3, out += 3) {
        memcpy(out, in, 3);
    }
}

/* @n pieces of @bytes each, one every @step bytes of @in: pixels, most of the time. */
static void copy_pieces(unsigned char *out, const unsigned char *in, int64_t step, uint64_t n,
                        size_t bytes)
{
    if (bytes == 3 && step == -3) {
        reverse_pixels(out, in, n);
        return;
    }
#define PIECES(B)                                                                                  \
    for (uint64_t i = 0; i < n; i++, in += step) {                                                 \
        memcpy(out + i * (B), in, (B));                                                            \
    }
    switch (bytes) {
    case 2: PIECES(2) break;
    case 3: PIECES(3) break;
    case 4: PIECES(4) break;
    case 6: PIECES(6) break;
    case 8: PIECES(8) break;
    case 12: PIECES(12) break;
    case 16: PIECES(16) break;
    default: PIECES(bytes) break;
    }
#undef PIECES
}

void mr_result_copy(const struct mr_row *row, int64_t first, const int64_t *strides,
                    struct mr_result *out)
{
    int64_t counter[MR_RANK_MAX] = {0};
    unsigned char *to = out->values;
    size_t width = out->width;

    if (out->count == 0) { /* dims beside one of 0 may be of any size */
        return;
    }
    struct copy c = fewest_axes(out->rank, out->dims, strides);
    bool pieces = c.rank > 1 && c.strides[c.rank - 1] == 1;
    if (c.rank == 0) {
        memcpy(to, row->in[0].values + first * (int64_t)width, width);
        return;
    }
    /* Where the last axis lies together, what is copied is its pieces, along the axis before it. */
    int inner = pieces ? c.rank - 2 : c.rank - 1;
    uint64_t n = (uint64_t)c.dims[inner];
    size_t bytes = pieces ? (size_t)c.dims[c.rank - 1] * width : width;
    int64_t step = c.strides[inner] * (int64_t)width;
    do {
        const unsigned char *from = row->in[0].values + first * (int64_t)width;

        if (pieces) {
            copy_pieces(to, from, step, n, bytes);
        } else {
            copy_run(to, from, c.strides[inner], n, width);
        }
        to += n * bytes;
    } while (mr_next_run(inner + 1, c.dims, c.strides, counter, &first));
}

void mr_result_put(const struct mr_tensor *in, int64_t first, const int64_t *strides,
                   struct mr_result *out)
{
    size_t run = (in->rank == 0 ? 1 : (size_t)in->dims[in->rank - 1]) * in->width;
    int64_t counter[MR_RANK_MAX] = {0};
    const unsigned char *from = in->values;

    if (in->count == 0) {
        return;
    }
    do {
        memcpy(out->values + first * (int64_t)in->width, from, run);
        from += run;
    } while (mr_next_run(in->rank, in->dims, strides, counter, &first));
}

void mr_fill_values(unsigned char *out, uint64_t n, const unsigned char *value, size_t width)
{
    for (uint64_t i = 0; i < n; i++) {
        memcpy(out + i * width, value, width);
    }
}

void mr_strides_signed(int rank, const int64_t *dims, int64_t strides[MR_RANK_MAX])
{
    uint64_t plain[MR_RANK_MAX];

    mr_strides(rank, dims, plain);
    for (int d = 0; d < rank; d++) {
        strides[d] = (int64_t)plain[d];
    }
}

/* ---- transpose ---- */

static int resolve_perm(struct mr_attrs attrs, int rank, int *perm, mr_error *err)
{
    const struct mr_attr *given = mr_attr_get(attrs, "perm");
    uint32_t mask;

    if (given != NULL && given->count != rank) {
        return mr_error_set(err, MR_EINVAL, "a permutation of %d axes for rank %d", given->count,
                            rank);
    }
    MR_TRY(mr_axes_resolve(given, rank, &mask, err));
    for (int d = 0; d < rank; d++) {
        MR_TRY(mr_axis_resolve(given != NULL ? given->ints[d] : rank - 1 - d, rank, &perm[d], err));
    }
    return MR_OK;
}

static int infer_transpose(struct mr_kernel_infer *it, mr_error *err)
{
    int perm[MR_RANK_MAX] = {0};

    if (it->in[0].rank >= 0) {
        MR_TRY(resolve_perm(it->attrs, it->in[0].rank, perm, err));
        for (int d = 0; d < it->in[0].rank; d++) {
            it->out->dims[d] = it->in[0].dims[perm[d]];
        }
    }
    return MR_OK;
}

static int fill_transpose(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int64_t plain[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX];
    int perm[MR_RANK_MAX];
    MR_TRY(resolve_perm(row->attrs, out->rank, perm, err));
    mr_strides_signed(out->rank, row->in[0].dims, plain);
    for (int d = 0; d < out->rank; d++) {
        strides[d] = plain[perm[d]];
    }
    mr_result_copy(row, 0, strides, out);
    return MR_OK;
}

/* ---- reverse ---- */

static int infer_reverse(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *axes = mr_attr_get(it->attrs, "axes");
    uint32_t mask;

    if (it->nin == 2) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET(MR_BOOL), err));
        MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    }
    return it->in[0].rank < 0 ? MR_OK : mr_axes_resolve(axes, it->in[0].rank, &mask, err);
}

static int fill_reverse(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int64_t strides[MR_RANK_MAX];
    int64_t first = 0;
    uint32_t mask = 0;
    MR_TRY(mr_axes_resolve(mr_attr_get(row->attrs, "axes"), out->rank, &mask, err));
    mr_strides_signed(out->rank, out->dims, strides);
    if (row->nin == 2 && row->in[1].values[0] == 0) {
        mask = 0;
    }
    for (int d = 0; d < out->rank; d++) {
        if ((mask & (1u << d)) != 0) {
            first += (out->dims[d] - 1) * strides[d];
            strides[d] = -strides[d];
        }
    }
    mr_result_copy(row, first, strides, out);
    return MR_OK;
}

/* ---- broadcast_to ---- */

static int check_broadcast(const struct mr_leaf_spec *in, int rank, const int64_t *dims,
                           mr_error *err)
{
    char a[MR_SHAPE_TEXT];
    char b[MR_SHAPE_TEXT];

    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d of the shape is %lld", d,
                                (long long)dims[d]);
        }
    }
    for (int d = 0; d < in->rank; d++) {
        int to = rank - in->rank + d;
        int64_t dim = in->dims[d];

        if (to < 0 || (dim != 1 && dim != MR_DIM_UNKNOWN && dim != dims[to])) {
            return mr_error_set(err, MR_EINVAL, "shape %s does not broadcast to %s",
                                mr_shape_text(in->rank, in->dims, a), mr_shape_text(rank, dims, b));
        }
    }
    return MR_OK;
}

static int infer_broadcast_to(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *shape = mr_attr_get(it->attrs, "shape");

    MR_TRY(mr_infer_attr_or_input(shape != NULL, it, "shape", err));
    if (shape == NULL) {
        MR_TRY(mr_shape_open(it->out, &it->in[1], "the shape", err));
        /* Dims that are values are looked at when they are known: of rank 0 there are none. */
        return it->in[0].rank <= it->out->rank
                   ? MR_OK
                   : mr_error_set(err, MR_EINVAL, "rank %d does not broadcast to rank %d",
                                  it->in[0].rank, it->out->rank);
    }
    if (shape->count < 0) {
        return mr_error_set(err, MR_EINVAL, "the rank of the shape is unknown");
    }
    MR_TRY(check_broadcast(&it->in[0], shape->count, shape->ints, err));
    mr_shape_set(it->out, shape->count, shape->ints);
    return MR_OK;
}

static int dims_broadcast_to(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    struct mr_leaf_spec in;

    if (row->nin == 1) {
        return MR_OK;
    }
    for (int d = 0; d < spec->rank; d++) {
        spec->dims[d] = mr_tensor_index(&row->in[1], (uint64_t)d);
    }
    mr_tensor_spec(&row->in[0], &in);
    return check_broadcast(&in, spec->rank, spec->dims, err);
}

static int fill_broadcast_to(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int64_t plain[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX] = {0};
    int added = out->rank - row->in[0].rank;

    mr_strides_signed(row->in[0].rank, row->in[0].dims, plain);
    for (int d = 0; d < row->in[0].rank; d++) {
        strides[added + d] = row->in[0].dims[d] == 1 ? 0 : plain[d];
    }
    mr_result_copy(row, 0, strides, out);
    return MR_OK;
}

/* ---- tile ---- */

static int tile_dim(int64_t dim, int64_t multiple, int64_t *ret, mr_error *err)
{
    if (multiple < 0 || (dim > 0 && __builtin_mul_overflow(dim, multiple, ret))) {
        return mr_error_set(err, MR_EINVAL, "multiple %lld", (long long)multiple);
    }
    return MR_OK;
}

static int infer_tile(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *multiples = mr_attr_get(it->attrs, "multiples");

    MR_TRY(mr_infer_attr_or_input(multiples != NULL, it, "multiples", err));
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    int64_t n = multiples != NULL     ? multiples->count
                : it->in[1].rank == 1 ? it->in[1].dims[0]
                                      : MR_DIM_UNKNOWN;
    if (n != MR_DIM_UNKNOWN && n != it->in[0].rank) {
        return mr_error_set(err, MR_EINVAL, "%lld multiples for rank %d", (long long)n,
                            it->in[0].rank);
    }
    for (int d = 0; d < it->in[0].rank; d++) {
        if (multiples == NULL) {
            it->out->dims[d] = MR_DIM_UNKNOWN;
        } else {
            MR_TRY(tile_dim(it->in[0].dims[d], multiples->ints[d], &it->out->dims[d], err));
        }
    }
    return MR_OK;
}

static int dims_tile(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    for (int d = 0; row->nin == 2 && d < spec->rank; d++) {
        spec->dims[d] = row->in[0].dims[d];
        MR_TRY(tile_dim(row->in[0].dims[d], mr_tensor_index(&row->in[1], (uint64_t)d),
                        &spec->dims[d], err));
    }
    return MR_OK;
}

/* The tile is put at each place in turn: an axis of the input is there once for each multiple. */
static int fill_tile(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int64_t multiples[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX];
    int64_t steps[MR_RANK_MAX]; /* from one tile to the next */
    int64_t counter[MR_RANK_MAX] = {0};
    int64_t first = 0;

    (void)err;
    if (out->count == 0) {
        return MR_OK;
    }
    mr_strides_signed(out->rank, out->dims, strides);
    for (int d = 0; d < out->rank; d++) {
        multiples[d] = out->dims[d] / row->in[0].dims[d];
        steps[d] = strides[d] * row->in[0].dims[d];
    }
    do {
        mr_result_put(&row->in[0], first, strides, out);
    } while (mr_next_run(out->rank + 1, multiples, steps, counter, &first));
    return MR_OK;
}

MR_ROWS_KERNEL(transpose, 1, 1, 0, .infer = infer_transpose, .fill = fill_transpose,
               .attr_table = {{"perm", MR_ATTR_INTS, true}});
MR_ROWS_KERNEL(reverse, 1, 2, 0, .infer = infer_reverse, .fill = fill_reverse,
               .attr_table = {{"axes", MR_ATTR_INTS, false}});
MR_ROWS_KERNEL(broadcast_to, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_broadcast_to,
               .dims = dims_broadcast_to, .fill = fill_broadcast_to,
               .attr_table = {{"shape", MR_ATTR_SHAPE, true}});
MR_ROWS_KERNEL(tile, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_tile, .dims = dims_tile,
               .fill = fill_tile, .attr_table = {{"multiples", MR_ATTR_INTS, true}});
