/* A box of a tensor: where it begins and its size are values, one an axis, as `slice` takes
 * them. */
#pragma once

#include "ops/rows.h"

/* The part of an axis that box and tensor share: from @to on in the box, from @from on in the
 * tensor. */
struct mr_overlap {
    uint64_t to;
    uint64_t from;
    uint64_t n;
};

/* The shape of the box, of a tensor of @rank @whole. Size -1: up to the end. MR_EINVAL unless it
 * lies within, or @outside is allowed. */
int mr_box_dims(int rank, const int64_t *whole, const struct mr_tensor *begin,
                const struct mr_tensor *size, bool outside, int64_t *dims, mr_error *err);
/* By axis, for a box of the shape @dims. */
void mr_box_overlaps(int rank, const int64_t *whole, const struct mr_tensor *begin,
                     const int64_t *dims, struct mr_overlap *ret);
/* Copy what both share from @values, a tensor of @rank @whole, into @out, whose other values become
 * zero. */
void mr_box_copy(int rank, const int64_t *whole, const unsigned char *values,
                 const struct mr_overlap *parts, struct mr_result *out);
