#include "base/hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mr_hash64(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}

void mr_hash128(const void *p, size_t n, uint8_t out[16])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(p, n));
    memcpy(out, canonical.digest, 16);
}
