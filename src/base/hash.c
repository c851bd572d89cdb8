#include "base/hash.h"

#include "base/hash_internal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Below this the vector width does not matter. */
#define LONG_BYTES 1024u

uint64_t mr_hash64(const void *p, size_t n)
{
#ifdef MR_HASH_AVX2
    if (n >= LONG_BYTES && __builtin_cpu_supports("avx2")) {
        return mr_hash64_avx2(p, n);
    }
#endif
    return XXH3_64bits(p, n);
}

void mr_hash128(const void *p, size_t n, uint8_t out[16])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(p, n));
    memcpy(out, canonical.digest, 16);
}
