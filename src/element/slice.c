/* Parts of blocks that share the buffers of the whole. */
#include "element/internal.h"

#include "base/limits.h"

static void slice_column(struct mr_column *c, uint32_t first)
{
    if (c->kind == MR_COLUMN_VAR) {
        c->row_dims = c->row_dims == NULL ? NULL : c->row_dims + (size_t)first * c->rank;
        c->starts += first;
        return;
    }
    uint64_t skip = mr_column_fixed_values(c) * first;
    if (c->dtype == MR_STRING) {
        c->offsets = c->offsets == NULL ? NULL : c->offsets + skip;
    } else if (c->data != NULL) {
        c->data = (const unsigned char *)c->data + skip * mr_dtype_size((mr_dtype)c->dtype);
    }
}

int mr_block_share(const mr_block *block, uint32_t first, uint32_t count, mr_block **ret,
                   mr_error *err)
{
    mr_block *part;
    MR_TRY(mr_block_shell(count, block->ncolumns, block->nheld, &part, err));
    mr_block_copy_columns(part, 0, block);
    for (uint32_t i = 0; first > 0 && i < part->ncolumns; i++) {
        slice_column(&part->columns[i], first);
    }
    part->origin = mr_origin_ref(block->origin);
    mr_trace_slice(part, block, first);
    mr_places_slice(part, block, first);
    *ret = mr_block_sealed(part);
    return MR_OK;
}

int mr_block_slice(const mr_block *block, uint32_t first, uint32_t count, mr_block **ret,
                   mr_error *err)
{
    MR_ASSERT(first <= block->rows);
    MR_ASSERT(count <= block->rows - first);
    if (count == block->rows) {
        *ret = mr_block_ref(block);
        return MR_OK;
    }
    return mr_block_share(block, first, count, ret, err);
}

int mr_block_select(const mr_block *block, const uint32_t *columns, uint32_t n, mr_block **ret,
                    mr_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        MR_ASSERT(columns[i] < block->ncolumns);
    }
    mr_block *part;
    /* Only the buffers of the columns that are kept: the others may go. */
    MR_TRY(mr_block_shell(block->rows, n, 3 * n, &part, err));
    for (uint32_t i = 0; i < n; i++) {
        part->columns[i] = block->columns[columns[i]];
        for (int k = 0; k < 3; k++) {
            part->owners[i][k] = block->owners[columns[i]][k];
            mr_block_hold(part, part->owners[i][k]);
        }
    }
    part->origin = mr_origin_ref(block->origin);
    mr_block_trace_as(part, block);
    mr_block_place_as(part, block);
    *ret = mr_block_sealed(part);
    return MR_OK;
}

int mr_block_zip(const mr_block *const *blocks, size_t n, mr_block **ret, mr_error *err)
{
    uint64_t ncolumns = 0;
    uint64_t nheld = 0;
    MR_AUTO(mr_block_unref) mr_block *whole = NULL;

    MR_ASSERT(n > 0);
    for (size_t i = 0; i < n; i++) {
        if (blocks[i]->rows != blocks[0]->rows) {
            return mr_error_set(err, MR_EINVAL, "zipping a block of %u rows with one of %u",
                                blocks[0]->rows, blocks[i]->rows);
        }
        ncolumns += blocks[i]->ncolumns;
        nheld += blocks[i]->nheld;
    }
    if (ncolumns > MR_BLOCK_COLUMNS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "%llu columns in a block are more than %llu",
                            (unsigned long long)ncolumns, (unsigned long long)MR_BLOCK_COLUMNS_MAX);
    }
    MR_TRY(mr_block_shell(blocks[0]->rows, (uint32_t)ncolumns, (uint32_t)nheld, &whole, err));
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        mr_block_copy_columns(whole, at, blocks[i]);
        at += blocks[i]->ncolumns;
    }
    for (size_t i = 0; i < n; i++) {
        MR_TRY(mr_block_inherit(whole, blocks[i], err));
    }
    mr_places_zip(whole, blocks, n);
    mr_trace_zip(whole, blocks, n);
    *ret = mr_block_sealed(MR_TAKE(whole));
    return MR_OK;
}

uint64_t mr_column_payload(const struct mr_column *c, uint64_t first, uint64_t count)
{
    if (count == 0) {
        return 0;
    }
    if (c->dtype == MR_STRING) {
        return c->offsets[first + count] - c->offsets[first];
    }
    return count * mr_dtype_size((mr_dtype)c->dtype);
}

size_t mr_block_row_bytes(const mr_block *block, uint32_t first, uint32_t count)
{
    uint64_t bytes = 0;

    MR_ASSERT(first <= block->rows);
    MR_ASSERT(count <= block->rows - first);
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        const struct mr_column *c = &block->columns[i];
        uint64_t at;
        uint64_t n;

        mr_column_values(c, first, count, &at, &n);
        bytes += mr_column_payload(c, at, n);
        if (c->dtype == MR_STRING) {
            bytes += n * sizeof c->offsets[0];
        }
        if (c->kind == MR_COLUMN_VAR) {
            bytes += (uint64_t)count * (c->rank * sizeof c->row_dims[0] + sizeof c->starts[0]);
        }
    }
    return (size_t)bytes;
}

int mr_block_trace_alike(mr_block **block, const struct mr_trace_view *v, mr_error *err)
{
    mr_block *own = *block;

    if (v->of == NULL || own->trace.of != NULL) {
        return MR_OK;
    }
    if (atomic_load_explicit(&own->refs, memory_order_acquire) > 1) {
        MR_TRY(mr_block_share(*block, 0, (*block)->rows, &own, err));
        mr_block_unref(*block);
        *block = own;
    }
    mr_trace_share(own, *v);
    return MR_OK;
}
