/* The table entries of all dataset operators, and what several of them share. */
#ifndef MR_ENGINE_OPS_OPS_H
#define MR_ENGINE_OPS_OPS_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "engine/bound.h"
#include "engine/env.h"
#include "engine/op.h"
#include "engine/state.h"
#include "ops/kernel.h"

#include <string.h>

extern const struct mr_operator mr_operator_batch;
extern const struct mr_operator mr_operator_cache;
extern const struct mr_operator mr_operator_choose;
extern const struct mr_operator mr_operator_concatenate;
extern const struct mr_operator mr_operator_distribute;
extern const struct mr_operator mr_operator_elements_of;
extern const struct mr_operator mr_operator_filter;
extern const struct mr_operator mr_operator_fixed_length_record;
extern const struct mr_operator mr_operator_flat_map;
extern const struct mr_operator mr_operator_from_dataset_id;
extern const struct mr_operator mr_operator_from_tensor_slices;
extern const struct mr_operator mr_operator_from_tensors;
extern const struct mr_operator mr_operator_group_by_window;
extern const struct mr_operator mr_operator_ignore_errors;
extern const struct mr_operator mr_operator_interleave;
extern const struct mr_operator mr_operator_map;
extern const struct mr_operator mr_operator_padded_batch;
extern const struct mr_operator mr_operator_prefetch;
extern const struct mr_operator mr_operator_range;
extern const struct mr_operator mr_operator_repeat;
extern const struct mr_operator mr_operator_sample;
extern const struct mr_operator mr_operator_scan;
extern const struct mr_operator mr_operator_shard;
extern const struct mr_operator mr_operator_shuffle;
extern const struct mr_operator mr_operator_skip;
extern const struct mr_operator mr_operator_take;
extern const struct mr_operator mr_operator_take_while;
extern const struct mr_operator mr_operator_text_line;
extern const struct mr_operator mr_operator_tfrecord;
extern const struct mr_operator mr_operator_unbatch;
extern const struct mr_operator mr_operator_unique;
extern const struct mr_operator mr_operator_window;
extern const struct mr_operator mr_operator_zip;

/* An operator without state of its own but one input: the most common beginning of an iterator. */
struct mr_unary_iter {
    struct mr_op_iter head;
    struct mr_op_iter *input;
};

int mr_unary_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err);
void mr_unary_close(struct mr_op_iter *head);

/* The narrowest spec that covers both. MR_EINVAL says how they differ in structure or dtype. */
int mr_spec_join(const mr_spec *a, const mr_spec *b, mr_spec **ret, mr_error *err);

/* The leaves of @spec in one array that is freed with mr_free(). */
int mr_spec_copy_leaves(const mr_spec *spec, struct mr_leaf_spec **ret, mr_error *err);

/* Bytes of a row of @spec where that is known, else 0. */
size_t mr_spec_row_bytes(const mr_spec *spec);

/* The block that a function's captures are for this iterator; *@ret = NULL if it has none. The
 * caller's reference. */
int mr_op_captures(const struct mr_op_iter *it, const mr_function *fn, mr_block **ret,
                   mr_error *err);

#endif
