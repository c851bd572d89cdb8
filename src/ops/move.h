/*
 * Copying values between layouts. Every operator that picks values by regular steps (transpose,
 * slice, tile, ...) is one copy in which each axis of the result has a stride in the input.
 */
#ifndef MR_OPS_MOVE_H
#define MR_OPS_MOVE_H

#include "ops/rows.h"

/*
 * Value at index (i0, i1, ...) of the result is value @first + i0 * strides[0] + i1 * strides[1] +
 * ... of the first input; strides may be negative or 0.
 */
void mr_result_copy(const struct mr_row *row, int64_t first, const int64_t *strides,
                    struct mr_result *out);
/* @n copies of one value. */
void mr_fill_values(unsigned char *out, uint64_t n, const unsigned char *value, size_t width);

#endif
