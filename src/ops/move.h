/* Copying values between layouts. Every operator that picks values by regular steps (transpose,
 * slice, tile, ...) is one copy in which each axis of the result has a stride in the input. */
#pragma once

#include "ops/rows.h"

/* Value at index (i0, i1, ...) of the result is value @first + i0 * strides[0] + i1 * strides[1] +
 * ... of the first input; strides may be negative or 0. */
void mr_result_copy(const struct mr_row *row, int64_t first, const int64_t *strides,
                    struct mr_result *out);
/* The other way: value (i0, i1, ...) of @in goes to place @first + i0 * strides[0] + ... of the
 * result, whose strides these are. */
void mr_result_put(const struct mr_tensor *in, int64_t first, const int64_t *strides,
                   struct mr_result *out);
/* mr_strides() as signed numbers. */
void mr_strides_signed(int rank, const int64_t *dims, int64_t strides[MR_RANK_MAX]);
/* Steps to the next run along the innermost axis, whose first value is at *@at; false after the
 * last one. @counter begins with 0s. */
static inline bool mr_next_run(int rank, const int64_t *dims, const int64_t *strides,
                               int64_t counter[MR_RANK_MAX], int64_t *at)
{
    for (int d = rank - 2; d >= 0; d--) {
        *at += strides[d];
        if (++counter[d] < dims[d]) {
            return true;
        }
        *at -= strides[d] * dims[d];
        counter[d] = 0;
    }
    return false;
}

/* @n copies of one value. */
void mr_fill_values(unsigned char *out, uint64_t n, const unsigned char *value, size_t width);
