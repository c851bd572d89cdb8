/* Small helpers over struct mr_bytes. Pure; safe from any thread. */
#pragma once

#include "base/base.h"
#include "coord/store.h"

static inline struct mr_bytes mr_bytes_str(const char *s)
{
    return (struct mr_bytes){s, strlen(s)};
}

static inline int mr_bytes_compare(struct mr_bytes a, struct mr_bytes b)
{
    size_t n = MR_MIN(a.size, b.size);
    int c = n > 0 ? memcmp(a.data, b.data, n) : 0;

    if (c != 0) {
        return c;
    }
    return (a.size > b.size) - (a.size < b.size);
}

static inline bool mr_bytes_equal(struct mr_bytes a, struct mr_bytes b)
{
    return mr_bytes_compare(a, b) == 0;
}

/* An own copy, to be freed with mr_free((void *)copy.data). data == NULL: out of memory. */
static inline struct mr_bytes mr_bytes_dup(struct mr_bytes b)
{
    return (struct mr_bytes){mr_memdup(b.data, b.size), b.size};
}

static inline void mr_bytes_free(struct mr_bytes b)
{
    mr_free((void *)(uintptr_t)b.data);
}
