#include "engine/ops/cycle.h"

#define SIZES_MAX (1 << 20)

int mr_cycle_infer(const struct mr_infer *in, bool drop_remainder, int64_t *count, mr_error *err)
{
    const struct mr_attr *a = mr_infer_attr(in, "sizes");
    int64_t sum = 0;

    if (a->count == 0 || a->count > SIZES_MAX) {
        return mr_error_set(err, MR_EINVAL, "argument 'sizes': %d sizes, 1 to %d are possible",
                            a->count, SIZES_MAX);
    }
    for (int32_t i = 0; i < a->count; i++) {
        if (a->ints[i] < 0 || a->ints[i] > MR_BLOCK_ROWS_MAX) {
            return mr_error_set(err, MR_EINVAL, "argument 'sizes': %lld is not in [0, %lld]",
                                (long long)a->ints[i], (long long)MR_BLOCK_ROWS_MAX);
        }
        sum += a->ints[i];
    }
    if (sum == 0) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'sizes': all are 0, so the batches would have no end");
    }
    if (*count < 0) {
        return MR_OK; /* unknown, or endless */
    }
    int64_t left = *count % sum;
    *count = mr_cardinality_mul(*count / sum, a->count);
    /* Of the cycle that is not whole. A batch of 0 comes when its turn does. */
    for (int32_t i = 0; i < a->count && *count >= 0; i++) {
        if (a->ints[i] > left) {
            *count = mr_cardinality_add(*count, left > 0 && !drop_remainder);
            break;
        }
        left -= a->ints[i];
        *count = mr_cardinality_add(*count, 1);
    }
    return MR_OK;
}

int mr_cycle_open(const struct mr_op_iter *head, struct mr_cycle *ret, mr_error *err)
{
    MR_AUTO(mr_free) int64_t *sizes = NULL;

    MR_TRY(mr_op_ints(head, "sizes", &sizes, &ret->n, err));
    ret->sizes = mr_calloc(ret->n, sizeof *ret->sizes);
    MR_CHECK_ALLOC(ret->sizes, err);
    for (size_t i = 0; i < ret->n; i++) {
        ret->sizes[i] = (uint32_t)sizes[i];
    }
    return MR_OK;
}

int mr_cycle_empty(const mr_spec *spec, mr_block **ret, mr_error *err)
{
    size_t n = mr_spec_leaves(spec);
    MR_AUTO(mr_free) struct mr_column *columns = mr_calloc(n, sizeof *columns);
    const uint64_t offset = 0;

    MR_CHECK_ALLOC(columns, err);
    for (size_t i = 0; i < n; i++) {
        const struct mr_leaf_spec *leaf = mr_spec_leaf(spec, i);

        if (leaf->rank == MR_RANK_UNKNOWN) {
            return mr_error_set(err, MR_EINVAL,
                                "component %zu: nobody knows how many dimensions a batch of 0 has",
                                i);
        }
        columns[i] = (struct mr_column){.kind = MR_COLUMN_FIXED,
                                        .dtype = leaf->dtype,
                                        .rank = (uint8_t)leaf->rank,
                                        .offsets = leaf->dtype == MR_STRING ? &offset : NULL};
        for (int d = 1; d < leaf->rank; d++) {
            columns[i].dims[d] = MR_MAX(leaf->dims[d], 0);
        }
    }
    return mr_block_new(1, columns, (uint32_t)n, ret, err);
}
