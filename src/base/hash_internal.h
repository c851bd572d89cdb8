/* What hash.c calls where the processor can. MR_HASH_AVX2 comes from CMake. */
#ifndef MR_BASE_HASH_INTERNAL_H
#define MR_BASE_HASH_INTERNAL_H

#include "base/hash.h"

#ifdef MR_HASH_AVX2
uint64_t mr_hash64_avx2(const void *p, size_t n);
#endif

#endif
