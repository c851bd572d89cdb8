/* Is this column, or this block, what somebody says it is? */
#include "element/internal.h"

static int check_var(const struct mr_column *c, uint32_t rows, uint64_t *values, mr_error *err)
{
    char shape[128];

    if (c->starts == NULL || (c->row_dims == NULL && rows > 0 && c->rank > 0)) {
        return mr_error_set(err, MR_EINVAL, "varying shapes need row_dims and starts");
    }
    for (uint32_t r = 0; r < rows; r++) {
        const int64_t *dims = c->rank == 0 ? c->dims : c->row_dims + (size_t)r * c->rank;
        uint64_t v;

        if (!mr_dims_product(dims, c->rank, &v)) {
            return mr_error_set(err, MR_EINVAL, "row %u: %s is not a shape", r,
                                mr_dims_format(dims, c->rank, shape, sizeof shape));
        }
        if (c->starts[r + 1] < c->starts[r] || c->starts[r + 1] - c->starts[r] != v) {
            return mr_error_set(
                err, MR_EINVAL, "row %u: holds values %llu to %llu, but its shape is %s", r,
                (unsigned long long)c->starts[r], (unsigned long long)c->starts[r + 1],
                mr_dims_format(dims, c->rank, shape, sizeof shape));
        }
    }
    *values = c->starts[rows] - c->starts[0];
    return MR_OK;
}

static int check_offsets(const uint64_t *offsets, uint64_t values, mr_error *err)
{
    for (uint64_t i = 0; i < values; i++) {
        if (offsets[i + 1] < offsets[i]) {
            return mr_error_set(err, MR_EINVAL,
                                "string %llu ends at byte %llu, before its start at %llu",
                                (unsigned long long)i, (unsigned long long)offsets[i + 1],
                                (unsigned long long)offsets[i]);
        }
    }
    return MR_OK;
}

int mr_bools_check(const void *data, uint64_t n, mr_error *err)
{
    const uint8_t *p = data;
    uint8_t all = 0;

    for (uint64_t i = 0; i < n; i++) {
        all |= p[i];
    }
    return all <= 1 ? MR_OK : mr_error_set(err, MR_EINVAL, "a bool is neither 0 nor 1");
}

int mr_column_check(const struct mr_column *c, uint32_t rows, struct mr_column_layout *l,
                    mr_error *err)
{
    uint64_t first = 0;
    char shape[128];

    memset(l, 0, sizeof *l);
    if (c->kind != MR_COLUMN_FIXED && c->kind != MR_COLUMN_VAR) {
        return mr_error_set(err, MR_EINVAL, "%u is not a kind of column", c->kind);
    }
    if (c->dtype == MR_DTYPE_NONE || c->dtype >= MR_DTYPE_COUNT) {
        return mr_error_set(err, MR_EINVAL, "%u is not a dtype", c->dtype);
    }
    if (c->rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "rank %u is above %d", c->rank, MR_RANK_MAX);
    }
    if (memcmp(c->reserved, (const uint8_t[sizeof c->reserved]){0}, sizeof c->reserved) != 0) {
        return mr_error_set(err, MR_EINVAL, "what is reserved must be 0");
    }
    l->kind = c->kind;
    l->dtype = c->dtype;
    l->rank = c->rank;
    if (c->kind == MR_COLUMN_FIXED) {
        memcpy(l->dims, c->dims, c->rank * sizeof l->dims[0]);
        if (!mr_dims_product(c->dims, c->rank, &l->values) ||
            __builtin_mul_overflow(l->values, (uint64_t)rows, &l->values)) {
            return mr_error_set(err, MR_EINVAL, "%u rows of %s are not a shape", rows,
                                mr_dims_format(c->dims, c->rank, shape, sizeof shape));
        }
    } else {
        MR_TRY(check_var(c, rows, &l->values, err));
        first = c->starts[0];
    }
    if (l->values > 0 && c->dtype == MR_STRING && c->offsets == NULL) {
        return mr_error_set(err, MR_EINVAL, "strings need offsets");
    }
    if (c->dtype == MR_STRING && l->values > 0) {
        MR_TRY(check_offsets(c->offsets + first, l->values, err));
        l->heap = c->offsets[first + l->values] - c->offsets[first];
    }
    if (c->data == NULL && (c->dtype == MR_STRING ? l->heap : l->values) > 0) {
        return mr_error_set(err, MR_EINVAL, "no data for %llu values",
                            (unsigned long long)l->values);
    }
    return c->dtype == MR_BOOL && l->values > 0
               ? mr_bools_check((const uint8_t *)c->data + first, l->values, err)
               : MR_OK;
}

static bool dims_fit(const struct mr_leaf_spec *leaf, const int64_t *dims)
{
    for (int i = 0; i < leaf->rank; i++) {
        if (leaf->dims[i] != MR_DIM_UNKNOWN && leaf->dims[i] != dims[i]) {
            return false;
        }
    }
    return true;
}

static int check_leaf(const struct mr_column *c, uint32_t rows, const struct mr_leaf_spec *leaf,
                      mr_error *err)
{
    char have[128];
    char want[128];

    if (c->dtype != leaf->dtype) {
        return mr_error_set(err, MR_EINVAL, "is %s, not %s", mr_dtype_name((mr_dtype)c->dtype),
                            mr_dtype_name((mr_dtype)leaf->dtype));
    }
    if (leaf->rank == MR_RANK_UNKNOWN) {
        return MR_OK;
    }
    /* A FIXED column has one shape for all rows: looking at one is enough, and at none if there is
     * no row. */
    uint32_t n = c->kind == MR_COLUMN_FIXED && rows > 1 ? 1 : rows;
    for (uint32_t r = 0; r < n; r++) {
        const int64_t *dims = mr_column_dims(c, r);

        if ((int)c->rank != (int)leaf->rank || !dims_fit(leaf, dims)) {
            return mr_error_set(err, MR_EINVAL, "row %u has shape %s, not %s", r,
                                mr_dims_format(dims, c->rank, have, sizeof have),
                                mr_dims_format(leaf->dims, leaf->rank, want, sizeof want));
        }
    }
    return MR_OK;
}

int mr_block_check_spec(const mr_block *block, const mr_spec *spec, mr_error *err)
{
    if (block->ncolumns != mr_spec_leaves(spec)) {
        return mr_error_set(err, MR_EINVAL, "element has %u components, not %zu", block->ncolumns,
                            mr_spec_leaves(spec));
    }
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        MR_TRY_WRAP(check_leaf(&block->columns[i], block->rows, mr_spec_leaf(spec, i), err), err,
                    "component %u", i);
    }
    return MR_OK;
}

static bool is_held(const mr_block *block, const mr_buffer *b)
{
    for (uint32_t i = 0; i < block->nheld; i++) {
        if (block->held[i] == b) {
            return true;
        }
    }
    return false;
}

mr_buffer *mr_owner_of(mr_buffer *const owner[3], const void *array)
{
    for (int k = 0; k < 3; k++) {
        if (owner[k] != NULL && array != NULL && mr_buffer_has(owner[k], array)) {
            return owner[k];
        }
    }
    return NULL;
}

static bool lies_in_owner(mr_buffer *const owner[3], const void *array)
{
    return array == NULL || mr_owner_of(owner, array) != NULL;
}

bool mr_block_is_sound(const mr_block *block)
{
    bool sound = block->nheld <= block->held_cap;

    for (uint32_t i = 0; i < block->ncolumns && sound; i++) {
        const struct mr_column *c = &block->columns[i];
        mr_buffer *const *owner = block->owners[i];
        struct mr_column_layout layout;

        sound = mr_column_check(c, block->rows, &layout, NULL) == MR_OK &&
                lies_in_owner(owner, c->row_dims) && lies_in_owner(owner, c->starts) &&
                lies_in_owner(owner, c->offsets) && lies_in_owner(owner, c->data);
        for (int k = 0; k < 3 && sound; k++) {
            sound = owner[k] == NULL || is_held(block, owner[k]);
        }
    }
    return sound;
}
