#include "ops/functions.h"

/* Rows @list[0..count) of @column, which has @rows of them. */
static int gather_column(const struct mr_owned_column *column, uint32_t rows, const uint32_t *list,
                         uint32_t count, struct mr_owned_column *ret, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *all = NULL;
    MR_AUTO(mr_block_unref) mr_block *some = NULL;

    MR_TRY(mr_block_from_columns(rows, column, 1, &all, err));
    MR_TRY(mr_block_gather(all, list, count, &some, err));
    struct mr_owned_column lent = mr_block_owned_column(some, 0);
    mr_column_share(&lent, ret);
    return MR_OK;
}

int mr_take_rows(const struct mr_kernel_in *in, size_t nin, uint32_t rows, const uint32_t *list,
                 uint32_t count, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc(nin, sizeof *columns);
    size_t n = 0;
    int rc = columns != NULL ? MR_OK : mr_error_nomem(err);

    for (; rc == MR_OK && n < nin; n += rc == MR_OK) {
        if (in[n].broadcast || list == NULL) {
            rc = mr_column_pass(&in[n], count, &columns[n], err);
        } else {
            rc = gather_column(in[n].column, rows, list, count, &columns[n], err);
        }
    }
    if (rc == MR_OK) {
        rc = mr_block_from_columns(count, columns, (uint32_t)nin, ret, err);
    }
    for (size_t i = 0; i < n; i++) {
        mr_column_release(&columns[i]);
    }
    return rc;
}

void mr_give_columns(const mr_block *block, struct mr_owned_column *out, size_t nout)
{
    for (size_t i = 0; i < nout; i++) {
        struct mr_owned_column lent = mr_block_owned_column(block, (uint32_t)i);

        mr_column_share(&lent, &out[i]);
    }
}

void mr_unref_blocks(mr_block **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_block_unref(blocks[i]);
    }
}

int mr_infer_captured(const struct mr_kernel_infer *it, size_t own, size_t given, mr_error *err)
{
    size_t at = own;

    for (size_t f = 0; f < it->nfunctions; f++) {
        for (size_t i = given; i < it->functions[f].nin; i++, at++) {
            if (at >= it->nin || it->in[at].dtype != it->functions[f].in[i].dtype ||
                it->in[at].rank != it->functions[f].in[i].rank) {
                return mr_error_set(err, MR_EINVAL,
                                    "input %zu is not what function %zu wants for its input %zu",
                                    at, f, i);
            }
        }
    }
    if (at != it->nin) {
        return mr_error_set(err, MR_EINVAL, "%zu inputs; it and its functions take %zu", it->nin,
                            at);
    }
    return MR_OK;
}
