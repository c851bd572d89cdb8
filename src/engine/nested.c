#include "engine/nested.h"

#include "base/limits.h"
#include "element/places.h"
#include "element/trace.h"

int mr_nested_append(struct mr_buf *to, const mr_block *rows, mr_error *err)
{
    struct mr_encoded e = {0};
    int rc = mr_block_encode(rows, 0 /* spec_hash */, false /* checksum */, &e, err);

    for (size_t i = 0; rc == MR_OK && i < e.count; i++) {
        mr_buf_append(to, e.iov[i].iov_base, e.iov[i].iov_len);
    }
    mr_encoded_free(&e);
    return rc == MR_OK && to->failed ? mr_buf_error(to, err) : rc;
}

/* @spec NULL: of any. */
static int read_blocks(const void *bytes, size_t size, const mr_spec *spec, struct mr_gather *ret,
                       mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *buffer = NULL;
    size_t at = 0;

    MR_TRY(mr_buffer_new(size, &buffer, err)); /* aligned, which a string is not */
    if (size > 0) {
        memcpy(mr_buffer_data(buffer), bytes, size);
    }
    while (at < size) {
        MR_AUTO(mr_block_unref) mr_block *rows = NULL;
        size_t used = 0;

        MR_TRY(mr_block_decode(buffer, at, 0 /* spec_hash: not compared */, &rows, &used, err));
        MR_TRY(spec != NULL ? mr_block_check_spec(rows, spec, err) : MR_OK);
        if (mr_block_rows(rows) > 0) {
            MR_TRY(mr_gather_add(ret, rows, 0, mr_block_rows(rows), err));
        }
        at += used;
    }
    return MR_OK;
}

int mr_nested_read(const void *bytes, size_t size, const mr_spec *spec, struct mr_gather *ret,
                   mr_error *err)
{
    return read_blocks(bytes, size, spec, ret, err);
}

void mr_nested_trace(const struct mr_gather *elements, const mr_block *block, uint32_t row)
{
    uint32_t first = 0;

    if (elements->rows > MR_BLOCK_ROWS_MAX) {
        return;
    }
    for (size_t i = elements->head; i < elements->n; i++) {
        mr_block *rows = elements->parts[i].block; /* as they were read: nobody else has them */

        if (!mr_block_traced(rows)) {
            mr_block_trace_inside(rows, block, row, first, (uint32_t)elements->rows);
        }
        first += mr_block_rows(rows);
    }
}

/* The dataset that stands at @bytes, in row @row of @block, with what is known of its elements. */
static int put_named(struct mr_buf *to, const mr_block *block, uint32_t row, const void *bytes,
                     size_t size, mr_error *err)
{
    struct mr_gather elements = {0};
    int rc = read_blocks(bytes, size, NULL, &elements, err);

    mr_nested_trace(&elements, block, row);
    for (size_t i = elements.head; rc == MR_OK && i < elements.n; i++) {
        rc = mr_nested_append(to, elements.parts[i].block, err);
    }
    mr_gather_free(&elements);
    return rc;
}

/* Column @i of @block, whose values are datasets, as a block of its own. */
static int name_column(const mr_block *block, uint32_t i, mr_block **ret, mr_error *err)
{
    const struct mr_column *c = mr_block_column(block, i);
    const uint32_t rows = mr_block_rows(block);
    struct mr_buf bytes = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *heap = &bytes;
    MR_AUTO(mr_free) uint64_t *offsets = mr_calloc(rows + (size_t)1, sizeof *offsets);

    MR_CHECK_ALLOC(offsets, err);
    for (uint32_t r = 0; r < rows; r++) {
        const uint64_t *at = c->offsets + (c->kind == MR_COLUMN_VAR ? c->starts[r] : r);

        MR_TRY(put_named(heap, block, r, (const unsigned char *)c->data + at[0],
                         (size_t)(at[1] - at[0]), err));
        offsets[r + 1] = heap->len;
    }
    const struct mr_column named = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = heap->data};
    return mr_block_new(rows, &named, 1, ret, err);
}

static int name_all(const mr_spec *spec, const mr_block *block, mr_block **ret, mr_error *err)
{
    const uint32_t n = mr_block_column_count(block);
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc(n, sizeof *columns);
    MR_AUTO(mr_free) mr_block **named = mr_calloc(n, sizeof(mr_block *));
    mr_block *all = NULL;
    int rc = columns != NULL && named != NULL ? MR_OK : mr_error_nomem(err);

    for (uint32_t i = 0; rc == MR_OK && i < n; i++) {
        if (mr_spec_leaf(spec, i)->kind == MR_LEAF_DATASET) {
            rc = name_column(block, i, &named[i], err);
        }
        if (rc == MR_OK) {
            columns[i] = named[i] != NULL ? mr_block_owned_column(named[i], 0)
                                          : mr_block_owned_column(block, i);
        }
    }
    rc = rc == MR_OK ? mr_block_from_columns(mr_block_rows(block), columns, n, &all, err) : rc;
    for (uint32_t i = 0; named != NULL && i < n; i++) {
        mr_block_unref(named[i]);
    }
    rc = rc == MR_OK ? mr_block_add_origin(&all, mr_block_origin(block), err) : rc;
    if (rc != MR_OK) {
        mr_block_unref(all);
        return rc;
    }
    mr_block_trace_as(all, block);
    mr_block_place_as(all, block);
    *ret = all;
    return MR_OK;
}

void mr_nested_name_records(const mr_spec *spec, mr_block **block)
{
    bool datasets = false;
    mr_block *named = NULL;

    for (size_t i = 0; i < mr_spec_leaves(spec) && !datasets; i++) {
        datasets = mr_spec_leaf(spec, i)->kind == MR_LEAF_DATASET;
    }
    if (datasets && mr_block_traced(*block) && name_all(spec, *block, &named, NULL) == MR_OK) {
        mr_block_unref(*block);
        *block = named;
    }
}
