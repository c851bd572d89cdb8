/* A heap in which much is free and resident, and can only be given back by asking for it. */
#pragma once

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
