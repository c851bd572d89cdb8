/* A sum of products over strided axes, by matrices that lie together. One thread. */
#pragma once

#include "ops/kernel.h"

/* Some axes: sizes, and strides in the left input, the right one and the result. */
struct mr_axes {
    int n;
    uint64_t count; /* the product of the sizes */
    int64_t sizes[MR_RANK_MAX];
    int64_t strides[3][MR_RANK_MAX];
};

struct mr_product {
    struct mr_axes batch;
    struct mr_axes kept[2]; /* of the left input: rows; of the right one: columns */
    struct mr_axes inner;
    struct mr_axes summed[2]; /* of one input only */
};

/* @values[1] is NULL where there is one input: then its values are what is kept. */
int mr_product_run(const struct mr_product *p, unsigned dtype, const unsigned char *const values[2],
                   unsigned char *out, mr_error *err);
