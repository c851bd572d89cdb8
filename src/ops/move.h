/*
 * Copying values between layouts. Every operator that picks values by regular steps (transpose,
 * slice, tile, ...) is one copy in which each axis of the result has a stride in the input.
 */
#ifndef MR_OPS_MOVE_H
#define MR_OPS_MOVE_H

#include "ops/rows.h"

/*
 * Value at index (i0, i1, ...) of the result is value @first + i0 * strides[0] + i1 * strides[1] +
 * ... of the input; strides may be negative or 0. @dims: of the result.
 */
void mr_strided_copy(const unsigned char *in, int64_t first, const int64_t *strides, int rank,
                     const int64_t *dims, size_t width, unsigned char *out);
/* The same the other way: value i of the input goes to place @first + ... of the result. @dims: of
 * the input. */
void mr_strided_put(const unsigned char *in, int rank, const int64_t *dims, size_t width,
                    unsigned char *out, int64_t first, const int64_t *strides);
/* @n copies of one value. */
void mr_fill_values(unsigned char *out, uint64_t n, const unsigned char *value, size_t width);

#endif
