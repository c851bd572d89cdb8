/* Ways to make a block that is not made of blocks, and one that descends from more. */
#include "element/internal.h"

#include "base/limits.h"

int mr_block_check_counts(uint64_t rows, uint64_t columns, mr_error *err)
{
    if (rows > MR_BLOCK_ROWS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "%llu rows in a block are more than %u",
                            (unsigned long long)rows, MR_BLOCK_ROWS_MAX);
    }
    if (columns > MR_BLOCK_COLUMNS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "%llu columns in a block are more than %u",
                            (unsigned long long)columns, MR_BLOCK_COLUMNS_MAX);
    }
    return MR_OK;
}

static int alloc_layout(uint32_t i, uint32_t rows, const struct mr_leaf_spec *leaf,
                        struct mr_column_layout *l, mr_error *err)
{
    char shape[128];

    memset(l, 0, sizeof *l);
    l->kind = MR_COLUMN_FIXED;
    l->dtype = leaf->dtype;
    MR_ASSERT(leaf->dtype != MR_STRING);
    if (leaf->rank < 0 || leaf->rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "leaf %u: a block needs a known rank", i);
    }
    l->rank = (uint8_t)leaf->rank;
    memcpy(l->dims, leaf->dims, l->rank * sizeof l->dims[0]);
    if (!mr_dims_product(l->dims, l->rank, &l->values) ||
        __builtin_mul_overflow(l->values, (uint64_t)rows, &l->values)) {
        return mr_error_set(err, MR_EINVAL, "leaf %u: %u rows of shape %s make no block", i, rows,
                            mr_dims_format(l->dims, l->rank, shape, sizeof shape));
    }
    return MR_OK;
}

int mr_block_alloc(uint32_t rows, const struct mr_leaf_spec *leaves, uint32_t n, mr_block **ret,
                   mr_error *err)
{
    struct mr_column_layout few[8];
    MR_AUTO(mr_free) struct mr_column_layout *many = NULL;
    struct mr_column_layout *layout = few;

    MR_TRY(mr_block_check_counts(rows, n, err));
    if (n > sizeof few / sizeof few[0]) {
        layout = many = mr_reallocarray(NULL, n, sizeof layout[0]);
        MR_CHECK_ALLOC(many, err);
    }
    for (uint32_t i = 0; i < n; i++) {
        MR_TRY(alloc_layout(i, rows, &leaves[i], &layout[i], err));
    }
    return mr_block_layout(rows, layout, n, 0, ret, err);
}

void *mr_block_data(mr_block *block, uint32_t column)
{
    MR_ASSERT(column < block->ncolumns);
    MR_ASSERT(block->columns[column].dtype != MR_STRING);
    MR_ASSERT(atomic_load_explicit(&block->refs, memory_order_relaxed) == 1);
    return mr_column_bytes(&block->columns[column]);
}

int mr_block_from_columns(uint32_t rows, const struct mr_owned_column *columns, uint32_t n,
                          mr_block **ret, mr_error *err)
{
    mr_block *block;

    MR_TRY(mr_block_check_counts(rows, n, err));
    MR_TRY(mr_block_shell(rows, n, 3 * n, &block, err));
    for (uint32_t i = 0; i < n; i++) {
        block->columns[i] = columns[i].c;
        for (int k = 0; k < 3; k++) {
            block->owners[i][k] = columns[i].owner[k];
            mr_block_hold(block, columns[i].owner[k]);
        }
    }
    *ret = mr_block_sealed(block);
    return MR_OK;
}

int mr_block_new(uint32_t rows, const struct mr_column *columns, uint32_t ncolumns, mr_block **ret,
                 mr_error *err)
{
    mr_block *block = NULL;

    MR_TRY(mr_block_check_counts(rows, ncolumns, err));
    MR_AUTO(mr_free) struct mr_column_layout *layout = mr_calloc(ncolumns, sizeof layout[0]);
    MR_CHECK_ALLOC(layout, err);
    for (uint32_t i = 0; i < ncolumns; i++) {
        MR_TRY_WRAP(mr_column_check(&columns[i], rows, &layout[i], err), err, "column %u", i);
    }
    MR_TRY(mr_block_layout(rows, layout, ncolumns, 0, &block, err));
    for (uint32_t i = 0; i < ncolumns; i++) {
        mr_column_copy_all(&block->columns[i], &columns[i], rows);
    }
    *ret = mr_block_sealed(block);
    return MR_OK;
}

int mr_block_add_origin(mr_block **block, const mr_origin *more, mr_error *err)
{
    mr_block *b = *block;
    MR_AUTO(mr_block_unref) mr_block *own = NULL;

    if (more == NULL || (mr_origin_mask(more) & ~mr_origin_mask(b->origin)) == 0) {
        return MR_OK;
    }
    if (atomic_load_explicit(&b->refs, memory_order_acquire) == 1) {
        return mr_origin_add(&b->origin, more, err);
    }
    MR_TRY(mr_block_share(b, 0, b->rows, &own, err));
    MR_TRY(mr_origin_add(&own->origin, more, err));
    mr_block_unref(b);
    *block = MR_TAKE(own);
    return MR_OK;
}
