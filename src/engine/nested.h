/*
 * Datasets as elements (MR_LEAF_DATASET): the elements of such a dataset as the bytes of a string,
 * which is all that blocks, buffers of operators and states need to know about them. The bytes are
 * encoded blocks, one behind the other.
 *
 * Threads: none.
 */
#pragma once

#include "base/buf.h"
#include "engine/gather.h"

/* Append @rows to the dataset that is being written at the end of @to. */
int mr_nested_append(struct mr_buf *to, const mr_block *rows, mr_error *err);
/* What is known of a dataset in row @row of @block, which was made of the elements that
 * mr_nested_read() has read, is said of each of these, unless it came with them. */
void mr_nested_trace(const struct mr_gather *elements, const mr_block *block, uint32_t row);
/* The datasets in *@block, of @spec, say themselves which records their elements come from, as far as
 * the block knows: for somebody who takes them out of it. It may be exchanged for another block, or,
 * where there is no memory for it, stay as it is. */
void mr_nested_name_records(const mr_spec *spec, mr_block **block);
/* The elements that stand at @bytes, at the end of @ret. They are copied, checked, and must be of
 * @spec: MR_EINVAL or MR_EDATALOSS otherwise. */
int mr_nested_read(const void *bytes, size_t size, const mr_spec *spec, struct mr_gather *ret,
                   mr_error *err);
