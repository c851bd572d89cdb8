/* What hash.c calls where the processor can. MR_HASH_AVX2 comes from CMake. */
#pragma once

#include "base/hash.h"

#ifdef MR_HASH_AVX2
uint64_t mr_hash64_avx2(const void *p, size_t n);
#endif
