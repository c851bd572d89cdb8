/* What cannot fail here, and arrays that grow one by one. */
#pragma once

#include "base/base.h"

/* Of a call: it went well. */
static inline void sim_must(int rc)
{
    MR_ASSERT(rc == MR_OK);
}

/* Of an allocation: there it is. */
static inline void *sim_got(void *memory)
{
    MR_ASSERT(memory != NULL);
    return memory;
}

static inline void *sim_grow(void *array, size_t *cap, size_t n, size_t size)
{
    if (n < *cap) {
        return array;
    }
    *cap = 2 * *cap + 8;
    return sim_got(mr_reallocarray(array, *cap, size));
}
#define MORE(array, cap, n) (array) = sim_grow((array), &(cap), (n), sizeof *(array))
