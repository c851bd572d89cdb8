/* Values that are combined with those that stand at their place already. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum mr_combination {
    MR_COMBINE_SUM,
    MR_COMBINE_DIFFERENCE,
    MR_COMBINE_PRODUCT,
    MR_COMBINE_MIN,
    MR_COMBINE_MAX
};

/* @n values at @values into those at @acc. */
typedef void (*mr_combine_fn)(void *acc, const void *values, uint64_t n);

/* NULL for dtypes that are no numbers. A NaN is neither a minimum nor a maximum. */
mr_combine_fn mr_combine_of(enum mr_combination how, unsigned dtype);
