/* Rows of a block by index, in any order and any number of times. */
#include "element/internal.h"

static int gather_layout(const struct mr_column *c, const uint32_t *rows, uint32_t n,
                         struct mr_column_layout *l, mr_error *err)
{
    memset(l, 0, sizeof *l);
    l->kind = c->kind;
    l->dtype = c->dtype;
    l->rank = c->rank;
    memcpy(l->dims, c->dims, c->rank * sizeof l->dims[0]);
    if (c->kind == MR_COLUMN_FIXED && c->dtype != MR_STRING) {
        if (__builtin_mul_overflow(mr_column_fixed_values(c), (uint64_t)n, &l->values)) {
            return mr_error_nomem(err);
        }
        return MR_OK;
    }
    for (uint32_t r = 0; r < n; r++) {
        uint64_t first;
        uint64_t count;

        mr_column_values(c, rows[r], 1, &first, &count);
        if (__builtin_add_overflow(l->values, count, &l->values) ||
            (c->dtype == MR_STRING &&
             __builtin_add_overflow(l->heap, mr_column_payload(c, first, count), &l->heap))) {
            return mr_error_nomem(err);
        }
    }
    return MR_OK;
}

#define GATHER(type)                                                                               \
    do {                                                                                           \
        type *d = (type *)to;                                                                      \
        const type *s = (const type *)src->data;                                                   \
        for (uint32_t r = 0; r < n; r++) {                                                         \
            d[r] = s[rows[r]];                                                                     \
        }                                                                                          \
    } while (0)

/* Rows of FIXED numbers: one loop for each of the usual sizes. */
static void gather_numbers(struct mr_column *dst, const struct mr_column *src, const uint32_t *rows,
                           uint32_t n)
{
    size_t size = (size_t)mr_column_fixed_values(src) * mr_dtype_size((mr_dtype)src->dtype);
    void *to = mr_column_bytes(dst);

    if (size == 0) {
        return;
    }
    if (mr_column_fixed_values(src) == 1) {
        switch (size) {
        case 1: GATHER(uint8_t); return;
        case 2: GATHER(uint16_t); return;
        case 4: GATHER(uint32_t); return;
        case 8: GATHER(uint64_t); return;
        default: break;
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        memcpy((unsigned char *)to + r * size, (const unsigned char *)src->data + rows[r] * size,
               size);
    }
}

static void gather_column(struct mr_column *dst, const struct mr_column *src, const uint32_t *rows,
                          uint32_t n)
{
    struct mr_column_fill at = {0};

    if (src->kind == MR_COLUMN_FIXED && src->dtype != MR_STRING) {
        gather_numbers(dst, src, rows, n);
        return;
    }
    for (uint32_t r = 0; r < n; r++) {
        mr_column_append(dst, &at, src, rows[r], 1);
    }
}

int mr_block_gather(const mr_block *block, const uint32_t *rows, uint32_t n, mr_block **ret,
                    mr_error *err)
{
    struct mr_column_layout few[8];
    MR_AUTO(mr_free) struct mr_column_layout *many = NULL;
    struct mr_column_layout *layout = few;
    MR_AUTO(mr_block_unref) mr_block *out = NULL;

    for (uint32_t r = 0; r < n; r++) {
        MR_ASSERT(rows[r] < block->rows);
    }
    MR_TRY(mr_block_check_counts(n, block->ncolumns, err));
    if (block->ncolumns > sizeof few / sizeof few[0]) {
        layout = many = mr_reallocarray(NULL, block->ncolumns, sizeof layout[0]);
        MR_CHECK_ALLOC(many, err);
    }
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        MR_TRY(gather_layout(&block->columns[i], rows, n, &layout[i], err));
    }
    MR_TRY(mr_block_layout(n, layout, block->ncolumns, 0, &out, err));
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        gather_column(&out->columns[i], &block->columns[i], rows, n);
    }
    out->origin = mr_origin_ref(block->origin);
    MR_TRY(mr_places_gather(out, block, rows, err));
    mr_trace_gather(out, block, rows);
    *ret = mr_block_sealed(MR_TAKE(out));
    return MR_OK;
}
