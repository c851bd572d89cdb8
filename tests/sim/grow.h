/* Arrays that grow one by one. */
#pragma once

#include "base/base.h"

static inline void *sim_grow(void *array, size_t *cap, size_t n, size_t size)
{
    if (n < *cap) {
        return array;
    }
    *cap = 2 * *cap + 8;
    array = mr_reallocarray(array, *cap, size);
    MR_ASSERT(array != NULL);
    return array;
}
#define MORE(array, cap, n) (array) = sim_grow((array), &(cap), (n), sizeof *(array))
