/* Rows of several blocks in one, and copies of rows. */
#include "element/internal.h"

static void append_shapes(struct mr_column *dst, const struct mr_column_fill *at,
                          const struct mr_column *src, uint32_t row, uint32_t rows)
{
    int64_t *row_dims = mr_column_row_dims(dst) + (size_t)at->rows * dst->rank;
    uint64_t *starts = mr_column_starts(dst) + at->rows;

    for (uint32_t r = 0; r < rows; r++) {
        uint64_t first;
        uint64_t count;

        memcpy(row_dims + (size_t)r * dst->rank, mr_column_dims(src, row + r),
               dst->rank * sizeof row_dims[0]);
        mr_column_values(src, row + r, 1, &first, &count);
        starts[r + 1] = starts[r] + count;
    }
}

void mr_column_append(struct mr_column *dst, struct mr_column_fill *at, const struct mr_column *src,
                      uint32_t row, uint32_t rows)
{
    uint64_t first;
    uint64_t count;
    uint64_t bytes;

    mr_column_values(src, row, rows, &first, &count);
    bytes = mr_column_payload(src, first, count);
    if (dst->kind == MR_COLUMN_VAR) {
        append_shapes(dst, at, src, row, rows);
    }
    if (dst->dtype == MR_STRING) {
        uint64_t *offsets = mr_column_offsets(dst) + at->values;

        if (bytes > 0) {
            memcpy(mr_column_bytes(dst) + at->heap,
                   (const unsigned char *)src->data + src->offsets[first], bytes);
        }
        for (uint64_t i = 0; i < count; i++) {
            offsets[i + 1] = at->heap + (src->offsets[first + i + 1] - src->offsets[first]);
        }
        at->heap += bytes;
    } else if (bytes > 0) {
        size_t size = mr_dtype_size((mr_dtype)src->dtype);

        memcpy(mr_column_bytes(dst) + at->values * size,
               (const unsigned char *)src->data + first * size, bytes);
    }
    at->rows += rows;
    at->values += count;
}

void mr_column_copy_all(struct mr_column *dst, const struct mr_column *src, uint32_t rows)
{
    struct mr_column_fill at = {0};

    mr_column_append(dst, &at, src, 0, rows);
}

static bool same_dims(const struct mr_column *a, const struct mr_column *b)
{
    return memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* What column @i of all parts together needs. */
static int concat_layout(const struct mr_block_part *parts, size_t n, uint32_t i,
                         struct mr_column_layout *l, mr_error *err)
{
    const struct mr_column *head = &parts[0].block->columns[i];

    memset(l, 0, sizeof *l);
    l->kind = head->kind;
    l->dtype = head->dtype;
    l->rank = head->rank;
    memcpy(l->dims, head->dims, head->rank * sizeof l->dims[0]);
    for (size_t k = 0; k < n; k++) {
        const struct mr_column *c = &parts[k].block->columns[i];
        uint64_t first;
        uint64_t count;

        if (c->dtype != head->dtype || c->rank != head->rank) {
            return mr_error_set(err, MR_EINVAL,
                                "column %u: %s of rank %u cannot follow %s of rank %u", i,
                                mr_dtype_name((mr_dtype)c->dtype), c->rank,
                                mr_dtype_name((mr_dtype)head->dtype), head->rank);
        }
        if (c->kind == MR_COLUMN_VAR || !same_dims(c, head)) {
            l->kind = MR_COLUMN_VAR;
        }
        mr_column_values(c, parts[k].first, parts[k].count, &first, &count);
        if (__builtin_add_overflow(l->values, count, &l->values)) {
            return mr_error_nomem(err);
        }
        if (c->dtype == MR_STRING) {
            l->heap += mr_column_payload(c, first, count);
        }
    }
    return MR_OK;
}

int mr_block_concat_parts(const struct mr_block_part *parts, size_t n, mr_block **ret,
                          mr_error *err)
{
    uint32_t ncolumns = parts[0].block->ncolumns;
    struct mr_column_layout few[8] = {{0}};
    MR_AUTO(mr_free) struct mr_column_layout *many = NULL;
    struct mr_column_layout *layout = few;
    MR_AUTO(mr_block_unref) mr_block *whole = NULL;
    uint64_t rows = 0;

    for (size_t k = 0; k < n; k++) {
        if (parts[k].block->ncolumns != ncolumns) {
            return mr_error_set(err, MR_EINVAL, "a block of %u columns cannot follow one of %u",
                                parts[k].block->ncolumns, ncolumns);
        }
        rows += parts[k].count;
    }
    MR_TRY(mr_block_check_counts(rows, ncolumns, err));
    if (ncolumns > sizeof few / sizeof few[0]) {
        layout = many = mr_reallocarray(NULL, ncolumns, sizeof layout[0]);
        MR_CHECK_ALLOC(many, err);
    }
    for (uint32_t i = 0; i < ncolumns; i++) {
        MR_TRY(concat_layout(parts, n, i, &layout[i], err));
    }
    MR_TRY(mr_block_layout((uint32_t)rows, layout, ncolumns, 0, &whole, err));
    for (uint32_t i = 0; i < ncolumns; i++) {
        struct mr_column_fill at = {0};

        for (size_t k = 0; k < n; k++) {
            mr_column_append(&whole->columns[i], &at, &parts[k].block->columns[i], parts[k].first,
                             parts[k].count);
        }
    }
    for (size_t k = 0; k < n; k++) {
        MR_TRY(mr_block_inherit(whole, parts[k].block, err));
    }
    MR_TRY(mr_places_concat(whole, parts, n, err));
    mr_trace_concat(whole, parts, n);
    *ret = mr_block_sealed(MR_TAKE(whole));
    return MR_OK;
}

int mr_block_concat(const mr_block *const *blocks, size_t n, mr_block **ret, mr_error *err)
{
    struct mr_block_part few[16];
    MR_AUTO(mr_free) struct mr_block_part *many = NULL;
    struct mr_block_part *parts = few;

    MR_ASSERT(n > 0);
    if (n == 1) {
        *ret = mr_block_ref(blocks[0]);
        return MR_OK;
    }
    if (n > sizeof few / sizeof few[0]) {
        parts = many = mr_reallocarray(NULL, n, sizeof *parts);
        MR_CHECK_ALLOC(many, err);
    }
    for (size_t k = 0; k < n; k++) {
        parts[k] = (struct mr_block_part){.block = (mr_block *)(uintptr_t)blocks[k], /* only read */
                                          .count = blocks[k]->rows};
    }
    return mr_block_concat_parts(parts, n, ret, err);
}

int mr_block_copy_rows(const mr_block *block, uint32_t first, uint32_t count, mr_block **ret,
                       mr_error *err)
{
    const struct mr_block_part part = {.block = (mr_block *)(uintptr_t)block, /* only read */
                                       .first = first,
                                       .count = count};

    MR_ASSERT(first <= block->rows);
    MR_ASSERT(count <= block->rows - first);
    return mr_block_concat_parts(&part, 1, ret, err);
}
