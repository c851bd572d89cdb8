/* One dimension more, one dimension less. Values never move: only what is said about their shape
 * changes. */
#include "element/internal.h"

#include "base/limits.h"

/* A copy of the columns of @block in a shell of @rows rows that holds the same buffers. @extra:
 * bytes for new arrays of dims and starts, in a buffer of their own which the shell holds too (0:
 * none). */
static int reshape_shell(const mr_block *block, uint32_t rows, size_t extra, mr_block **ret,
                         mr_buffer **arrays, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *b = NULL; /* the shell's reference is enough */
    mr_block *out;

    if (extra > 0) {
        MR_TRY(mr_buffer_new(extra, &b, err));
    }
    MR_TRY(mr_block_shell(rows, block->ncolumns, block->nheld + 1, &out, err));
    mr_block_copy_columns(out, 0, block);
    mr_block_hold(out, b);
    out->origin = mr_origin_ref(block->origin);
    *ret = out;
    *arrays = b;
    return MR_OK;
}

/* A VAR column whose rows all have dims @dims becomes FIXED; nothing is copied. */
static void make_fixed(struct mr_column *c, const int64_t *dims, uint8_t rank)
{
    int64_t copy[MR_RANK_MAX];
    uint64_t first = c->starts[0];

    memcpy(copy, dims, rank * sizeof dims[0]);
    c->kind = MR_COLUMN_FIXED;
    c->rank = rank;
    memset(c->dims, 0, sizeof c->dims);
    memcpy(c->dims, copy, rank * sizeof copy[0]);
    c->row_dims = NULL;
    c->starts = NULL;
    if (c->dtype == MR_STRING) {
        c->offsets = c->offsets == NULL ? NULL : c->offsets + first;
    } else if (c->data != NULL) {
        c->data = (const unsigned char *)c->data + first * mr_dtype_size((mr_dtype)c->dtype);
    }
}

/* Do rows @a and @b have the same dims, from dim @first on? */
static bool rows_agree(const struct mr_column *c, uint32_t a, uint32_t b, uint32_t first)
{
    return memcmp(mr_column_dims(c, a) + first, mr_column_dims(c, b) + first,
                  (c->rank - first) * sizeof c->dims[0]) == 0;
}

/* MR_EINVAL unless the dims of a VAR column, from dim @first on, agree within each group; *@all:
 * they agree everywhere. */
static int check_groups(const struct mr_column *c, const mr_spec *names, uint32_t i, uint32_t first,
                        uint32_t rows, uint32_t per, bool *all, mr_error *err)
{
    char a[128];
    char b[128];

    *all = true;
    for (uint32_t r = 1; r < rows; r++) {
        if (rows_agree(c, r - 1, r, first)) {
            continue;
        }
        *all = false;
        if (r % per != 0) {
            return mr_error_set(err, MR_EINVAL,
                                "%s has the shapes %s and %s within one batch: use padded_batch "
                                "or ragged_batch",
                                MR_COMPONENT(names, i),
                                mr_dims_format(mr_column_dims(c, r - 1), c->rank, a, sizeof a),
                                mr_dims_format(mr_column_dims(c, r), c->rank, b, sizeof b));
        }
    }
    return MR_OK;
}

/* The new arrays of a VAR column go to @at. Returns where they end. */
static unsigned char *batch_var(struct mr_column *c, uint32_t groups, uint32_t per,
                                unsigned char *at)
{
    uint8_t rank = (uint8_t)(c->rank + 1);
    int64_t *dims = (int64_t *)(void *)at;
    uint64_t *starts = (uint64_t *)(void *)(at + (size_t)groups * rank * sizeof *dims);

    for (uint32_t g = 0; g < groups; g++) {
        dims[(size_t)g * rank] = per;
        memcpy(dims + (size_t)g * rank + 1, c->row_dims + (size_t)g * per * c->rank,
               c->rank * sizeof *dims);
        starts[g] = c->starts[(size_t)g * per];
    }
    starts[groups] = c->starts[(size_t)groups * per];
    c->rank = rank;
    c->row_dims = dims;
    c->starts = starts;
    return (unsigned char *)(starts + groups + 1);
}

static void batch_fixed(struct mr_column *c, uint32_t per)
{
    memmove(c->dims + 1, c->dims, c->rank * sizeof c->dims[0]);
    c->dims[0] = per;
    c->rank++;
}

/* As batch_var(), of rows that are put behind one another along their first dim. */
static unsigned char *join_var(struct mr_column *c, uint32_t groups, uint32_t per,
                               unsigned char *at)
{
    int64_t *dims = (int64_t *)(void *)at;
    uint64_t *starts = (uint64_t *)(void *)(at + (size_t)groups * c->rank * sizeof *dims);

    for (uint32_t g = 0; g < groups; g++) {
        const int64_t *from = c->row_dims + (size_t)g * per * c->rank;
        int64_t *to = dims + (size_t)g * c->rank;

        memcpy(to, from, c->rank * sizeof *to);
        for (uint32_t r = 1; r < per; r++) {
            to[0] += from[(size_t)r * c->rank];
        }
        starts[g] = c->starts[(size_t)g * per];
    }
    starts[groups] = c->starts[(size_t)groups * per];
    c->row_dims = dims;
    c->starts = starts;
    return (unsigned char *)(starts + groups + 1);
}

static int check_batched(const struct mr_column *c, const mr_spec *names, uint32_t i, bool joined,
                         mr_error *err)
{
    if (joined && c->rank == 0) {
        return mr_error_set(err, MR_EINVAL, "%s is a scalar: nothing to join",
                            MR_COMPONENT(names, i));
    }
    if (!joined && c->rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "%s: a batch would have rank %d, above %d",
                            MR_COMPONENT(names, i), MR_RANK_MAX + 1, MR_RANK_MAX);
    }
    return MR_OK;
}

/* Bytes of new arrays for column @i. */
static int batch_size(const struct mr_column *c, const mr_spec *names, uint32_t i, bool joined,
                      uint32_t rows, uint32_t per, size_t *extra, mr_error *err)
{
    size_t groups = rows / per;
    bool all;

    MR_TRY(check_batched(c, names, i, joined, err));
    if (c->kind == MR_COLUMN_VAR) {
        MR_TRY(check_groups(c, names, i, joined, rows, per, &all, err));
        *extra += groups * (c->rank + 1u) * sizeof(int64_t) + (groups + 1) * sizeof(uint64_t);
    }
    return MR_OK;
}

/* As batch_var(), of any column. *@used: the column needs the new arrays. */
static unsigned char *batch_column(struct mr_column *c, bool joined, uint32_t rows, uint32_t per,
                                   unsigned char *at, bool *used)
{
    bool all = false;

    *used = c->kind == MR_COLUMN_VAR;
    if (*used && joined) {
        return join_var(c, rows / per, per, at);
    }
    if (*used) {
        (void)check_groups(c, NULL, 0, 0, rows, per, &all, NULL);
        *used = !(all && rows > 0);
        if (*used) {
            return batch_var(c, rows / per, per, at);
        }
        make_fixed(c, c->row_dims, c->rank);
    }
    if (joined) {
        c->dims[0] *= per;
    } else {
        batch_fixed(c, per);
    }
    return at;
}

int mr_block_batch(const mr_block *block, uint32_t per, const bool *joined, const mr_spec *names,
                   mr_block **ret, mr_error *err)
{
    size_t extra = 0;
    MR_AUTO(mr_block_unref) mr_block *out = NULL;
    mr_buffer *arrays = NULL;

    MR_ASSERT(per > 0);
    MR_ASSERT(block->rows % per == 0);
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        MR_TRY(batch_size(&block->columns[i], names, i, joined != NULL && joined[i], block->rows,
                          per, &extra, err));
    }
    MR_TRY(reshape_shell(block, block->rows / per, extra, &out, &arrays, err));
    unsigned char *at = arrays == NULL ? NULL : mr_buffer_data(arrays);
    for (uint32_t i = 0; i < out->ncolumns; i++) {
        bool used;

        at = batch_column(&out->columns[i], joined != NULL && joined[i], block->rows, per, at,
                          &used);
        if (used) {
            mr_owner_of_arrays(out->owners[i], &out->columns[i], arrays);
        }
    }
    MR_TRY(mr_places_group(out, block, per, err));
    mr_block_trace_groups(out, block, per);
    *ret = mr_block_sealed(MR_TAKE(out));
    return MR_OK;
}

/* How many rows row @r is cut into; MR_EINVAL if the components do not agree. */
static int count_cuts(const mr_block *block, uint32_t r, uint64_t *cuts, mr_error *err)
{
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        const struct mr_column *c = &block->columns[i];

        uint64_t d = (uint64_t)mr_column_dims(c, r)[0];
        if (i > 0 && d != *cuts) {
            return mr_error_set(
                err, MR_EINVAL,
                "components 0 and %u have %llu and %llu rows: they cannot be unbatched together", i,
                (unsigned long long)*cuts, (unsigned long long)d);
        }
        *cuts = d;
    }
    return MR_OK;
}

/* Rows of the result; *@extra: bytes of new arrays at most. */
static int unbatch_size(const mr_block *block, uint32_t *rows, size_t *extra, mr_error *err)
{
    uint64_t total = 0;
    bool fixed = true;

    for (uint32_t i = 0; i < block->ncolumns; i++) {
        fixed = fixed && block->columns[i].kind == MR_COLUMN_FIXED;
        if (block->columns[i].rank == 0) {
            return mr_error_set(err, MR_EINVAL, "component %u is a scalar: nothing to unbatch", i);
        }
    }
    for (uint32_t r = 0; r < block->rows && total <= MR_BLOCK_ROWS_MAX; r++) {
        uint64_t cuts = 0;
        MR_TRY(count_cuts(block, r, &cuts, err));
        total += cuts < MR_BLOCK_ROWS_MAX ? cuts : MR_BLOCK_ROWS_MAX + 1ull;
        if (fixed) {
            total *= block->rows; /* All rows have the dims of the first. */
            break;
        }
    }
    if (total > MR_BLOCK_ROWS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "unbatching gives more than %u rows in a block",
                            MR_BLOCK_ROWS_MAX);
    }
    *rows = (uint32_t)total;
    *extra = 0;
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        if (block->columns[i].kind == MR_COLUMN_VAR) {
            *extra += (size_t)total * (block->columns[i].rank - 1u) * sizeof(int64_t) +
                      ((size_t)total + 1) * sizeof(uint64_t);
        }
    }
    return MR_OK;
}

/* As batch_var(). */
static unsigned char *unbatch_var(struct mr_column *c, uint32_t old_rows, uint32_t rows,
                                  unsigned char *at)
{
    uint8_t rank = (uint8_t)(c->rank - 1);
    int64_t *dims = (int64_t *)(void *)at;
    uint64_t *starts = (uint64_t *)(void *)(at + (size_t)rows * rank * sizeof *dims);
    uint32_t to = 0;

    for (uint32_t r = 0; r < old_rows; r++) {
        const int64_t *from = c->row_dims + (size_t)r * c->rank;
        uint64_t each = from[0] == 0 ? 0 : (c->starts[r + 1] - c->starts[r]) / (uint64_t)from[0];

        for (int64_t k = 0; k < from[0]; k++, to++) {
            memcpy(dims + (size_t)to * rank, from + 1, rank * sizeof *dims);
            starts[to] = c->starts[r] + (uint64_t)k * each;
        }
    }
    MR_ASSERT(to == rows);
    starts[rows] = c->starts[old_rows];
    c->rank = rank;
    c->row_dims = dims;
    c->starts = starts;
    return (unsigned char *)(starts + rows + 1);
}

static void unbatch_fixed(struct mr_column *c)
{
    c->rank--;
    memmove(c->dims, c->dims + 1, c->rank * sizeof c->dims[0]);
    c->dims[c->rank] = 0;
}

/* Do all rows agree from the second dimension on? Then the result is FIXED. */
static bool inner_dims_agree(const struct mr_column *c, uint32_t rows)
{
    for (uint32_t r = 1; r < rows; r++) {
        if (memcmp(c->row_dims + 1, c->row_dims + (size_t)r * c->rank + 1,
                   (c->rank - 1u) * sizeof(int64_t)) != 0) {
            return false;
        }
    }
    return rows > 0;
}

int mr_block_unbatch(const mr_block *block, mr_block **ret, mr_error *err)
{
    uint32_t rows = 0;
    size_t extra = 0;
    mr_block *out;
    mr_buffer *arrays = NULL;

    MR_TRY(unbatch_size(block, &rows, &extra, err));
    MR_TRY(reshape_shell(block, rows, extra, &out, &arrays, err));
    unsigned char *at = arrays == NULL ? NULL : mr_buffer_data(arrays);
    for (uint32_t i = 0; i < out->ncolumns; i++) {
        struct mr_column *c = &out->columns[i];

        if (c->kind == MR_COLUMN_FIXED) {
            unbatch_fixed(c);
        } else if (inner_dims_agree(c, block->rows)) {
            make_fixed(c, c->row_dims + 1, (uint8_t)(c->rank - 1));
        } else {
            at = unbatch_var(c, block->rows, rows, at);
            mr_owner_of_arrays(out->owners[i], &out->columns[i], arrays);
        }
    }
    *ret = mr_block_sealed(out);
    return MR_OK;
}
