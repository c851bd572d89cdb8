/*
 * The canonical form that fingerprints are made of. Every node's and every value's hash is made of
 * the hashes of what it uses, so it does not depend on numbering, sharing, dead code or the order
 * of construction.
 *
 * Fingerprints are stored (datasets in the service, iterator states): a change of what is hashed
 * here is a new MR_CANONICAL_FORMAT.
 */
#pragma once

#include "dataset/operator.h"

#define MR_CANONICAL_FORMAT 1

/* Content of a block, whatever buffers it lies in. */
int mr_canonical_block(const mr_block *block, uint8_t ret[16], mr_error *err);

/* @values: the table that MR_ATTR_VALUE attributes refer to; NULL if there are none. */
int mr_canonical_dataset(const mr_dataset *ds, const struct mr_fn_value *values, uint8_t ret[16],
                         mr_error *err);

/* The computation of a tensor operator, and then of each of its results. */
int mr_canonical_fn_node(const struct mr_fn_node *node, const struct mr_fn_value *values,
                         uint8_t ret[16], mr_error *err);
void mr_canonical_result(const uint8_t node[16], uint32_t output, uint8_t ret[16]);
void mr_canonical_input(uint32_t leaf, uint8_t ret[16]);
void mr_canonical_capture(const uint8_t outer[16], uint8_t ret[16]);

int mr_canonical_function(const mr_function *fn, uint8_t ret[16], mr_error *err);
