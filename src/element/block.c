/* References to a block, and what it holds. */
#include "element/internal.h"

#include <stdlib.h>

mr_block *mr_block_ref(const mr_block *block)
{
    mr_block *b = (mr_block *)(uintptr_t)block; /* The count is not part of what is immutable. */
    uint32_t before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

    MR_ASSERT(before > 0);
    return b;
}

void mr_block_unref(const mr_block *block)
{
    mr_block *b = (mr_block *)(uintptr_t)block;
    uint32_t before;

    if (b == NULL) {
        return;
    }
    before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    MR_ASSERT(before > 0);
    if (before > 1) {
        return;
    }
    mr_origin_unref(b->origin);
    mr_trace_unref(b->trace.of);
    mr_buffer_unref(b->places.owner);
    bool embedded = b->embedded;
    for (uint32_t i = embedded ? 1 : 0; i < b->nheld; i++) {
        mr_buffer_unref(b->held[i]);
    }
    if (embedded) {
        mr_buffer_unref(&b->own); /* Last: the block lies in that memory. */
    } else {
        mr_free(b);
    }
}

uint32_t mr_block_rows(const mr_block *block)
{
    return block->rows;
}

uint32_t mr_block_column_count(const mr_block *block)
{
    return block->ncolumns;
}

const struct mr_column *mr_block_column(const mr_block *block, uint32_t i)
{
    MR_ASSERT(i < block->ncolumns);
    return &block->columns[i];
}

struct mr_owned_column mr_block_owned_column(const mr_block *block, uint32_t i)
{
    MR_ASSERT(i < block->ncolumns);
    mr_buffer *const *owner = block->owners[i];
    return (struct mr_owned_column){block->columns[i], {owner[0], owner[1], owner[2]}};
}

/* Where the numbers of a column lie. */
struct extent {
    uintptr_t begin;
    uintptr_t end;
};

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a;
    const struct extent *y = b;

    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Whether two columns of numbers lie in the same memory: a function may return one tensor twice. */
static bool columns_overlap(const mr_block *block)
{
    struct extent few[8];
    struct extent *extents = few;
    uint32_t n = 0;
    bool overlap = false;

    if (block->ncolumns < 2) {
        return false;
    }
    if (block->ncolumns > sizeof few / sizeof few[0]) {
        extents = mr_reallocarray(NULL, block->ncolumns, sizeof *extents);
        if (extents == NULL) {
            return true; /* not known to be disjoint */
        }
    }
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        const struct mr_column *c = &block->columns[i];
        uint64_t first;
        uint64_t count;

        mr_column_values(c, 0, block->rows, &first, &count);
        if (c->dtype != MR_STRING && count > 0) {
            size_t size = mr_dtype_size((mr_dtype)c->dtype);
            uintptr_t begin = (uintptr_t)c->data + (size_t)first * size;

            extents[n++] = (struct extent){begin, begin + (size_t)count * size};
        }
    }
    qsort(extents, n, sizeof *extents, by_begin);
    for (uint32_t i = 1; i < n && !overlap; i++) {
        overlap = extents[i].begin < extents[i - 1].end;
    }
    if (extents != few) {
        mr_free(extents);
    }
    return overlap;
}

bool mr_block_exclusive(const mr_block *block)
{
    if (atomic_load_explicit(&block->refs, memory_order_acquire) != 1) {
        return false;
    }
    for (uint32_t i = 0; i < block->nheld; i++) {
        uint32_t mine = 0;

        for (uint32_t k = 0; k < block->nheld; k++) {
            mine += block->held[k] == block->held[i];
        }
        if (mr_buffer_refs(block->held[i]) != mine) {
            return false;
        }
    }
    return !columns_overlap(block);
}

const mr_origin *mr_block_origin(const mr_block *block)
{
    return block->origin;
}

int mr_block_inherit(mr_block *to, const mr_block *from, mr_error *err)
{
    return from->origin == NULL ? MR_OK : mr_origin_add(&to->origin, from->origin, err);
}

void mr_block_discharge(const mr_block *block)
{
    for (uint32_t i = 0; i < block->nheld; i++) {
        mr_buffer_discharge(block->held[i]);
    }
    if (block->places.owner != NULL) {
        mr_buffer_discharge(block->places.owner);
    }
    mr_trace_discharge(block->trace.of);
}

size_t mr_block_pinned_bytes(const mr_block *block)
{
    size_t n = 0;

    for (uint32_t i = 0; i < block->nheld; i++) {
        n += mr_buffer_size(block->held[i]);
    }
    return n + mr_trace_bytes(block->trace.of);
}
