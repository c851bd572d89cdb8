/* Rows of different shapes become one row, padded to one shape. */
#include "element/internal.h"

#include "base/copy.h"

#define NO_VALUE UINT64_MAX

/* The dims that each row of @c gets. */
static int padded_dims(const struct mr_column *c, const mr_spec *names, uint32_t i, uint32_t rows,
                       const struct mr_leaf_spec *shape, int64_t *dims, mr_error *err)
{
    char have[128];
    char want[128];

    if (c->rank != (uint8_t)shape->rank) {
        return mr_error_set(err, MR_EINVAL,
                            "%s: an element of %u dimensions cannot be padded to %s",
                            MR_COMPONENT(names, i), c->rank,
                            mr_dims_format(shape->dims, shape->rank, want, sizeof want));
    }
    for (uint32_t d = 0; d < c->rank; d++) {
        dims[d] = shape->dims[d] != MR_DIM_UNKNOWN ? shape->dims[d] : 0;
    }
    for (uint32_t r = 0; r < rows; r++) {
        const int64_t *row = mr_column_dims(c, r);

        for (uint32_t d = 0; d < c->rank; d++) {
            if (row[d] > dims[d] && shape->dims[d] != MR_DIM_UNKNOWN) {
                return mr_error_set(err, MR_EDATALOSS,
                                    "%s has the shape %s, which is larger than the padded shape %s",
                                    MR_COMPONENT(names, i),
                                    mr_dims_format(row, (int)c->rank, have, sizeof have),
                                    mr_dims_format(shape->dims, shape->rank, want, sizeof want));
            }
            dims[d] = MR_MAX(row[d], dims[d]);
        }
        if (c->kind == MR_COLUMN_FIXED) {
            break; /* all rows are as the first */
        }
    }
    return MR_OK;
}

/* Call @put for each run of values that lies together in a row of shape @row and in its place of
 * shape @dims. */
static void each_run(const int64_t *row, const int64_t *dims, uint32_t rank,
                     void (*put)(void *ctx, uint64_t to, uint64_t from, uint64_t n), void *ctx)
{
    int64_t index[MR_RANK_MAX] = {0};
    uint64_t run = rank > 0 ? (uint64_t)row[rank - 1] : 1;
    uint64_t from = 0;

    for (uint32_t d = 0; d < rank; d++) {
        if (row[d] == 0) {
            return;
        }
    }
    for (;;) {
        uint64_t to = 0;
        uint32_t d = rank > 0 ? rank - 1 : 0;

        for (uint32_t k = 0; k < rank; k++) {
            to = to * (uint64_t)dims[k] + (uint64_t)index[k];
        }
        put(ctx, to, from, run);
        from += run;
        /* The last axis is the run; the others count. */
        while (d > 0 && ++index[d - 1] == row[d - 1]) {
            index[--d] = 0;
        }
        if (d == 0) {
            return;
        }
    }
}

struct number_run {
    unsigned char *to;
    const unsigned char *from;
    size_t size;
};

static void put_numbers(void *ctx, uint64_t to, uint64_t from, uint64_t n)
{
    struct number_run *r = ctx;

    memcpy(r->to + to * r->size, r->from + from * r->size, (size_t)n * r->size);
}

/* @n values of @size bytes, all equal to the one at @value. */
static void fill(unsigned char *to, uint64_t n, const unsigned char *value, size_t size)
{
    size_t bytes = (size_t)n * size;
    size_t done = size;

    if (bytes == 0) {
        return;
    }
    memcpy(to, value, size);
    while (done < bytes) {
        size_t step = MR_MIN(done, bytes - done);

        memcpy(to + done, to, step);
        done += step;
    }
}

/* Vectors, and scalars: a row is one run. */
static void pad_number_vectors(struct mr_column *out, const struct mr_column *in, uint32_t rows,
                               const unsigned char *value)
{
    size_t size = mr_dtype_size((mr_dtype)in->dtype);
    uint64_t each = mr_column_fixed_values(out) / rows;
    unsigned char *to = mr_column_bytes(out);

    for (uint32_t r = 0; r < rows; r++, to += each * size) {
        uint64_t first;
        uint64_t count;

        mr_column_values(in, r, 1, &first, &count);
        if (count > 0) {
            memcpy(to, (const unsigned char *)in->data + first * size, (size_t)count * size);
        }
        fill(to + count * size, each - count, value, size);
    }
}

static void pad_numbers(struct mr_column *out, const struct mr_column *in, uint32_t rows,
                        const unsigned char *value)
{
    size_t size = mr_dtype_size((mr_dtype)in->dtype);
    uint64_t each = mr_column_fixed_values(out) / rows;
    struct number_run run = {.size = size};

    fill(mr_column_bytes(out), each * rows, value, size);
    for (uint32_t r = 0; r < rows; r++) {
        uint64_t first;
        uint64_t count;

        mr_column_values(in, r, 1, &first, &count);
        run.to = mr_column_bytes(out) + r * each * size;
        run.from = count > 0 ? (const unsigned char *)in->data + first * size : NULL;
        each_run(mr_column_dims(in, r), out->dims + 1, in->rank, put_numbers, &run);
    }
}

/* The same of strings: the bytes of a row lie together. */
static void pad_string_vectors(struct mr_column *out, const struct mr_column *in, uint32_t rows,
                               const unsigned char *value, size_t value_bytes)
{
    uint64_t each = mr_column_fixed_values(out) / rows;
    uint64_t *offsets = mr_column_offsets(out);
    unsigned char *heap = mr_column_bytes(out);
    uint64_t at = 0;

    for (uint32_t r = 0; r < rows; r++, offsets += each) {
        uint64_t first;
        uint64_t count;

        mr_column_values(in, r, 1, &first, &count);
        const uint64_t *from = in->offsets + first;
        size_t bytes = count > 0 ? (size_t)(from[count] - from[0]) : 0;

        for (uint64_t i = 0; i < count; i++) {
            offsets[i] = at + (from[i] - from[0]);
        }
        if (bytes > 0) {
            memcpy(heap + at, (const unsigned char *)in->data + from[0], bytes);
        }
        at += bytes;
        for (uint64_t i = count; i < each; i++) {
            offsets[i] = at;
            mr_copy_bytes(heap + at, value, value_bytes);
            at += value_bytes;
        }
    }
    *offsets = at;
}

struct string_run {
    uint64_t *source; /* of each value of the row */
    uint64_t first;
};

static void put_strings(void *ctx, uint64_t to, uint64_t from, uint64_t n)
{
    struct string_run *r = ctx;

    for (uint64_t i = 0; i < n; i++) {
        r->source[to + i] = r->first + from + i;
    }
}

/* Strings have to be put down in order: first where each value comes from, then the values. */
static void pad_strings(struct mr_column *out, const struct mr_column *in, uint32_t rows,
                        const unsigned char *value, size_t value_bytes, uint64_t *source)
{
    uint64_t each = mr_column_fixed_values(out) / rows;
    uint64_t *offsets = mr_column_offsets(out);
    unsigned char *heap = mr_column_bytes(out);
    uint64_t at = 0;

    for (uint32_t r = 0; r < rows; r++) {
        struct string_run run = {.source = source};
        uint64_t count;

        mr_column_values(in, r, 1, &run.first, &count);
        for (uint64_t i = 0; i < each; i++) {
            source[i] = NO_VALUE;
        }
        each_run(mr_column_dims(in, r), out->dims + 1, in->rank, put_strings, &run);
        for (uint64_t i = 0; i < each; i++) {
            const unsigned char *from = value;
            size_t bytes = value_bytes;

            if (source[i] != NO_VALUE) {
                from = (const unsigned char *)in->data + in->offsets[source[i]];
                bytes = (size_t)(in->offsets[source[i] + 1] - in->offsets[source[i]]);
            }
            offsets[r * each + i] = at;
            if (bytes > 0) {
                memcpy(heap + at, from, bytes);
            }
            at += bytes;
        }
    }
    offsets[each * rows] = at;
}

/* The bytes of the scalar that pads column @i. */
static const unsigned char *pad_value(const mr_block *padding, uint32_t i, size_t *bytes)
{
    static const unsigned char zero[16]; /* of the widest dtype */
    const struct mr_column *p = padding != NULL ? &padding->columns[i] : NULL;

    *bytes = 0;
    if (p == NULL) {
        return zero;
    }
    if (p->dtype != MR_STRING) {
        return p->data;
    }
    *bytes = (size_t)(p->offsets[1] - p->offsets[0]);
    return *bytes > 0 ? (const unsigned char *)p->data + p->offsets[0] : zero;
}

static int plan_column(const mr_block *block, const mr_spec *names, uint32_t i,
                       const struct mr_leaf_spec *shape, const mr_block *padding,
                       struct mr_column_layout *l, size_t *total, mr_error *err)
{
    const struct mr_column *c = &block->columns[i];
    size_t value_bytes;
    size_t payload;
    uint64_t first;
    uint64_t count;
    uint64_t heap;

    if (c->rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "%s: a batch would have rank %d, above %d",
                            MR_COMPONENT(names, i), MR_RANK_MAX + 1, MR_RANK_MAX);
    }
    *l = (struct mr_column_layout){
        .kind = MR_COLUMN_FIXED, .dtype = c->dtype, .rank = (uint8_t)(c->rank + 1)};
    l->dims[0] = block->rows;
    MR_TRY(padded_dims(c, names, i, block->rows, shape, l->dims + 1, err));
    bool fits = mr_dims_product(l->dims, l->rank, &l->values);
    size_t size = c->dtype == MR_STRING ? sizeof(uint64_t) : mr_dtype_size((mr_dtype)c->dtype);
    fits = fits && !__builtin_mul_overflow(l->values, size, &payload);
    if (fits && c->dtype == MR_STRING) {
        (void)pad_value(padding, i, &value_bytes);
        mr_column_values(c, 0, block->rows, &first, &count);
        heap = count > 0 ? c->offsets[first + count] - c->offsets[first] : 0;
        fits = !__builtin_mul_overflow(l->values - count, value_bytes, &l->heap) &&
               !__builtin_add_overflow(l->heap, heap, &l->heap) &&
               !__builtin_add_overflow(payload, l->heap, &payload);
    }
    if (!fits || __builtin_add_overflow(*total, payload, total)) {
        *total = SIZE_MAX;
    }
    return MR_OK;
}

/* Whether the rows have the shape that they are to be padded to, all columns of them. */
static bool fits_as_it_is(const mr_block *block, const struct mr_column_layout *layout)
{
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        const struct mr_column *c = &block->columns[i];

        if (c->kind != MR_COLUMN_FIXED ||
            memcmp(c->dims, layout[i].dims + 1, c->rank * sizeof c->dims[0]) != 0) {
            return false;
        }
    }
    return true;
}

static int pad_columns(const mr_block *block, const mr_block *padding, mr_block *out, mr_error *err)
{
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        const struct mr_column *in = &block->columns[i];
        struct mr_column *to = &out->columns[i];
        size_t value_bytes;
        const unsigned char *value = pad_value(padding, i, &value_bytes);

        if (in->dtype != MR_STRING) {
            (in->rank <= 1 ? pad_number_vectors : pad_numbers)(to, in, block->rows, value);
            continue;
        }
        if (in->rank <= 1) {
            pad_string_vectors(to, in, block->rows, value, value_bytes);
            continue;
        }
        uint64_t each = mr_column_fixed_values(to) / block->rows;
        uint64_t *source = mr_reallocarray(NULL, (size_t)each + 1, sizeof *source);
        MR_CHECK_ALLOC(source, err);
        pad_strings(to, in, block->rows, value, value_bytes, source);
        mr_free(source);
    }
    return MR_OK;
}

int mr_block_pad(const mr_block *block, const struct mr_leaf_spec *shapes, const mr_block *padding,
                 size_t bytes_max, const mr_spec *names, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_free)
    struct mr_column_layout *layout = mr_calloc(block->ncolumns, sizeof *layout);
    MR_AUTO(mr_block_unref) mr_block *out = NULL;
    size_t total = 0;

    MR_ASSERT(block->rows > 0);
    MR_ASSERT(padding == NULL || padding->ncolumns == block->ncolumns);
    MR_CHECK_ALLOC(layout, err);
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        MR_TRY(plan_column(block, names, i, &shapes[i], padding, &layout[i], &total, err));
    }
    if (total > bytes_max) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "%u elements padded to one shape take %s%zu bytes, the limit is %zu",
                            block->rows, total == SIZE_MAX ? "more than " : "", total, bytes_max);
    }
    if (fits_as_it_is(block, layout)) {
        return mr_block_batch(block, block->rows, NULL, names, ret, err);
    }
    MR_TRY(mr_block_layout(1, layout, block->ncolumns, 0, &out, err));
    MR_TRY(pad_columns(block, padding, out, err));
    out->origin = mr_origin_ref(block->origin);
    MR_TRY(mr_places_group(out, block, block->rows, err));
    mr_block_trace_groups(out, block, block->rows);
    *ret = mr_block_sealed(MR_TAKE(out));
    return MR_OK;
}
