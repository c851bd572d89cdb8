/* What operators that take functions have in common. The functions run on many rows at a time: rows
 * are sorted by what is to be done with them, and the results are put back in order. */
#pragma once

#include "ops/tensor.h"

/* Infer: the inputs behind the first @own are what the functions want behind their first @given. */
int mr_infer_captured(const struct mr_kernel_infer *it, size_t own, size_t given, mr_error *err);
/* Rows @list[0..count) of these inputs, which have @rows of them, as a block. NULL: all of them. */
int mr_take_rows(const struct mr_kernel_in *in, size_t nin, uint32_t rows, const uint32_t *list,
                 uint32_t count, mr_block **ret, mr_error *err);
/* The columns of @block as results. */
void mr_give_columns(const mr_block *block, struct mr_owned_column *out, size_t nout);
void mr_unref_blocks(mr_block **blocks, size_t n);
