/* What the heap has: in use, resident, and free but resident until somebody asks for it. */
#pragma once

#include "base/spare.h"

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>

/* Sanitizers bring a malloc of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MR_TEST_MALLOC_IS_GLIBCS false
#else
#define MR_TEST_MALLOC_IS_GLIBCS true
#endif

/* Twice MR_HEAP_FREE_BYTES is free afterwards, in pieces between small ones that are never
 * freed. */
void mr_test_heap_spike(void);

/* Of this process, without what files are behind. */
size_t mr_test_resident_bytes(void);

/* Bytes that are in use, without what waits to be used again. 0: the sanitizer looks. */
static inline size_t mr_test_heap_in_use(void)
{
    mr_spare_trim();
    return MR_TEST_MALLOC_IS_GLIBCS ? mallinfo2().uordblks : 0;
}
