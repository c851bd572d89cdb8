/* XXH3 (xxHash 0.8, inlined: the shared library's build is three to four times slower), by AVX2
 * where there is one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t mr_hash64(const void *p, size_t n);
void mr_hash128(const void *p, size_t n, uint8_t out[16]); /* canonical (big-endian) form */
