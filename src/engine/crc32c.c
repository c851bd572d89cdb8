#include "engine/crc32c.h"

#include "base/base.h"

#define POLYNOMIAL 0x82f63b78u /* reversed */

static uint32_t table_of_byte(uint32_t byte)
{
    for (int i = 0; i < 8; i++) {
        byte = (byte >> 1) ^ ((byte & 1) != 0 ? POLYNOMIAL : 0);
    }
    return byte;
}

uint32_t mr_crc32c_portable(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    uint32_t table[256]; /* 2,000 steps to make, once a call: this is the slow road anyway */
    uint32_t crc = UINT32_MAX;

    for (uint32_t i = 0; i < 256; i++) {
        table[i] = table_of_byte(i);
    }
    for (size_t i = 0; i < n; i++) {
        crc = table[(crc ^ bytes[i]) & 0xff] ^ (crc >> 8);
    }
    return ~crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* The instruction takes three cycles, and one can begin in each: so three runs at once. */
#define RUN 256u

/* x^(8 * RUN * n - 33) modulo the polynomial, reversed: a CRC times it, carried through the
 * instruction with 8 bytes of the product, is the CRC of the same followed by n * RUN zeros. */
#define BEHIND_1 0xb9e02b86u
#define BEHIND_2 0xdd7e3b0cu

#define SSE42 __attribute__((target("sse4.2,pclmul")))

SSE42 static uint64_t load(const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return word;
}

SSE42 static uint64_t behind(uint64_t crc, uint32_t factor)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)factor), 0);

    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

SSE42 static uint32_t crc32c_sse42(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    uint64_t crc = UINT32_MAX;

    for (; n >= 3 * RUN; n -= 3 * RUN, bytes += 3 * RUN) {
        uint64_t second = 0;
        uint64_t third = 0;

        for (size_t i = 0; i < RUN; i += 8) {
            crc = _mm_crc32_u64(crc, load(bytes + i));
            second = _mm_crc32_u64(second, load(bytes + RUN + i));
            third = _mm_crc32_u64(third, load(bytes + 2 * RUN + i));
        }
        crc = behind(crc, BEHIND_2) ^ behind(second, BEHIND_1) ^ third;
    }
    for (; n >= 8; n -= 8, bytes += 8) {
        crc = _mm_crc32_u64(crc, load(bytes));
    }
    for (; n > 0; n--) {
        crc = _mm_crc32_u8((uint32_t)crc, *bytes++);
    }
    return ~(uint32_t)crc;
}
#endif

uint32_t mr_crc32c(const void *p, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        return crc32c_sse42(p, n);
    }
#endif
    return mr_crc32c_portable(p, n);
}

uint32_t mr_crc32c_masked(const void *p, size_t n)
{
    uint32_t crc = mr_crc32c(p, n);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
