/* One row, cut into rows of several lengths: ragged and sparse tensors, row by row. */
#include "element/internal.h"

#include "base/limits.h"

/* The numbers of column @column of a block of one row. */
static int open_counts(const mr_block *block, uint32_t column, uint32_t rows, const int64_t **ret,
                       mr_error *err)
{
    const struct mr_column *c = mr_block_column(block, column);

    if (c->dtype != MR_INT64 || c->rank != 1 || mr_column_dims(c, 0)[0] != (int64_t)rows) {
        return mr_error_set(err, MR_EINVAL, "component %u does not say how long %u rows are",
                            column, rows);
    }
    *ret = (const int64_t *)c->data + (c->kind == MR_COLUMN_VAR ? c->starts[0] : 0);
    return MR_OK;
}

/* Dims and starts of the pieces of @c, which is one row, into these arrays. */
static int lay_out(const struct mr_column *c, uint32_t column, const int64_t *counts, uint32_t rows,
                   int64_t *dims, uint64_t *starts, mr_error *err)
{
    const int64_t *whole = mr_column_dims(c, 0);
    uint64_t inner = 1;
    int64_t left = whole[0];

    for (uint32_t d = 1; d < c->rank; d++) {
        inner *= (uint64_t)whole[d];
    }
    starts[0] = c->kind == MR_COLUMN_VAR ? c->starts[0] : 0;
    for (uint32_t r = 0; r < rows; r++) {
        if (counts[r] < 0 || counts[r] > left) {
            return mr_error_set(err, MR_EINVAL, "component %u: row %u has %lld of %lld values left",
                                column, r, (long long)counts[r], (long long)left);
        }
        left -= counts[r];
        memcpy(dims + (size_t)r * c->rank, whole, c->rank * sizeof *dims);
        dims[(size_t)r * c->rank] = counts[r];
        starts[r + 1] = starts[r] + (uint64_t)counts[r] * inner;
    }
    return left == 0 ? MR_OK
                     : mr_error_set(err, MR_EINVAL, "component %u: %lld values are in no row",
                                    column, (long long)left);
}

static int cut_column(const mr_block *block, uint32_t column, uint32_t counts_in, uint32_t rows,
                      struct mr_owned_column *ret, mr_error *err)
{
    struct mr_owned_column made = mr_block_owned_column(block, column);
    const int64_t *counts = NULL;
    mr_buffer *arrays = NULL;

    if (made.c.rank == 0) {
        return mr_error_set(err, MR_EINVAL, "component %u is a scalar: nothing to cut", column);
    }
    MR_TRY(open_counts(block, counts_in, rows, &counts, err));
    size_t dims_bytes = (size_t)rows * made.c.rank * sizeof(int64_t);
    MR_TRY(mr_buffer_new(dims_bytes + ((size_t)rows + 1) * sizeof(uint64_t), &arrays, err));
    unsigned char *at = mr_buffer_data(arrays);
    int64_t *dims = (int64_t *)(void *)at;
    uint64_t *starts = (uint64_t *)(void *)(at + dims_bytes);
    int rc = lay_out(&made.c, column, counts, rows, dims, starts, err);
    if (rc != MR_OK) {
        mr_buffer_unref(arrays);
        return rc;
    }
    made.c.kind = MR_COLUMN_VAR;
    made.c.row_dims = dims;
    made.c.starts = starts;
    *ret = made;
    mr_owner_of_arrays(ret->owner, &ret->c, arrays); /* the caller's reference */
    return MR_OK;
}

/* The columns that have a row each, cut. */
static int cut_even(const mr_block *block, const uint32_t *counts, uint32_t *even, mr_block **ret,
                    mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *some = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < mr_block_column_count(block); i++) {
        if (counts[i] == MR_COLUMN_NONE) {
            even[n++] = i;
        }
    }
    if (n == 0) {
        return mr_error_set(err, MR_EINVAL, "no component says how many rows there are");
    }
    MR_TRY(mr_block_select(block, even, n, &some, err));
    return mr_block_unbatch(some, ret, err);
}

int mr_block_unbatch_by(const mr_block *block, const uint32_t *counts, mr_block **ret,
                        mr_error *err)
{
    uint32_t n = mr_block_column_count(block);
    MR_AUTO(mr_block_unref) mr_block *even = NULL;
    MR_AUTO(mr_free) uint32_t *numbers = mr_calloc(n, sizeof *numbers);
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc(n, sizeof *columns);
    MR_AUTO(mr_free) mr_buffer **arrays = mr_calloc(n, sizeof(mr_buffer *));
    uint32_t at = 0;
    int rc = MR_OK;

    MR_ASSERT(mr_block_rows(block) == 1);
    MR_CHECK_ALLOC(numbers, err);
    MR_CHECK_ALLOC(columns, err);
    MR_CHECK_ALLOC(arrays, err);
    MR_TRY(cut_even(block, counts, numbers, &even, err));
    uint32_t rows = mr_block_rows(even);
    for (uint32_t i = 0; rc == MR_OK && i < n; i++) {
        if (counts[i] == MR_COLUMN_NONE) {
            columns[i] = mr_block_owned_column(even, at++);
        } else {
            rc = cut_column(block, i, counts[i], rows, &columns[i], err);
            arrays[i] = rc == MR_OK ? columns[i].owner[1] : NULL;
        }
    }
    rc = rc == MR_OK ? mr_block_from_columns(rows, columns, n, ret, err) : rc;
    for (uint32_t i = 0; i < n; i++) {
        mr_buffer_unref(arrays[i]);
    }
    return rc == MR_OK ? mr_block_add_origin(ret, mr_block_origin(block), err) : rc;
}
