#include "engine/ops/ops.h"

/* Sorted by name. */
static const struct mr_operator *const table[] = {
    &mr_operator_batch,
    &mr_operator_cache,
    &mr_operator_choose,
    &mr_operator_concatenate,
    &mr_operator_distribute,
    &mr_operator_elements_of,
    &mr_operator_filter,
    &mr_operator_fixed_length_record,
    &mr_operator_flat_map,
    &mr_operator_from_dataset_id,
    &mr_operator_from_tensor_slices,
    &mr_operator_from_tensors,
    &mr_operator_group_by_window,
    &mr_operator_ignore_errors,
    &mr_operator_interleave,
    &mr_operator_map,
    &mr_operator_padded_batch,
    &mr_operator_prefetch,
    &mr_operator_range,
    &mr_operator_repeat,
    &mr_operator_sample,
    &mr_operator_scan,
    &mr_operator_shard,
    &mr_operator_shuffle,
    &mr_operator_skip,
    &mr_operator_take,
    &mr_operator_take_while,
    &mr_operator_text_line,
    &mr_operator_tfrecord,
    &mr_operator_unbatch,
    &mr_operator_unique,
    &mr_operator_window,
    &mr_operator_zip,
};

const struct mr_operator *mr_operator_find(const char *name)
{
    size_t low = 0;
    size_t high = sizeof table / sizeof table[0];

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(name, table[mid]->name);

        if (order == 0) {
            return table[mid];
        }
        if (order < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return NULL;
}

const struct mr_operator *const *mr_operator_list(size_t *n)
{
    *n = sizeof table / sizeof table[0];
    return table;
}

int mr_unary_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);

    return mr_op_open(&below, head->ds->inputs[0], &((struct mr_unary_iter *)head)->input, err);
}

void mr_unary_close(struct mr_op_iter *head)
{
    mr_op_close(((struct mr_unary_iter *)head)->input);
}

int mr_spec_copy_leaves(const mr_spec *spec, struct mr_leaf_spec **ret, mr_error *err)
{
    size_t n = mr_spec_leaves(spec);
    struct mr_leaf_spec *leaves = mr_calloc(n, sizeof *leaves);

    if (leaves == NULL) {
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        leaves[i] = *mr_spec_leaf(spec, i);
    }
    *ret = leaves;
    return MR_OK;
}

size_t mr_spec_row_bytes(const mr_spec *spec)
{
    size_t n = mr_spec_leaves(spec);
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        const struct mr_leaf_spec *leaf = mr_spec_leaf(spec, i);
        size_t bytes = mr_dtype_size((mr_dtype)leaf->dtype);

        if (bytes == 0 || leaf->rank < 0) {
            return 0;
        }
        for (int d = 0; d < leaf->rank; d++) {
            if (leaf->dims[d] < 0 || __builtin_mul_overflow(bytes, (size_t)leaf->dims[d], &bytes)) {
                return 0;
            }
        }
        if (__builtin_add_overflow(total, bytes, &total)) {
            return 0;
        }
    }
    return total;
}

int mr_op_captures(const struct mr_op_iter *it, const mr_function *fn, mr_block **ret,
                   mr_error *err)
{
    *ret = NULL;
    return fn->ncaptures > 0 ? mr_bound_select(it->bound, fn->captures, fn->ncaptures, ret, err)
                             : MR_OK;
}
