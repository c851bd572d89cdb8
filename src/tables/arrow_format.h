/* What Arrow's format strings say. Threads: any. */
#pragma once

#include <millrace/spec.h>

enum mr_arrow_shape {
    MR_SHAPE_VALUES,
    MR_SHAPE_BITS,
    MR_SHAPE_BYTES32,
    MR_SHAPE_BYTES64,
    MR_SHAPE_BYTES_FIXED,
    MR_SHAPE_LIST32,
    MR_SHAPE_LIST64,
    MR_SHAPE_LIST_FIXED,
    MR_SHAPE_NONE
};

struct mr_arrow_format {
    enum mr_arrow_shape shape;
    enum mr_dtype dtype; /* MR_SHAPE_VALUES */
    int64_t size;        /* MR_SHAPE_BYTES_FIXED, MR_SHAPE_LIST_FIXED */
};

/* MR_SHAPE_NONE: of nothing that a block can hold. */
struct mr_arrow_format mr_arrow_format_of(const char *s);
bool mr_arrow_is_list(const struct mr_arrow_format *f);
