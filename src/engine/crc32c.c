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
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    uint64_t crc = UINT32_MAX;

    for (; n >= 8; n -= 8, bytes += 8) {
        uint64_t word;

        memcpy(&word, bytes, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; n > 0; n--) {
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *bytes++);
    }
    return ~(uint32_t)crc;
}
#endif

uint32_t mr_crc32c(const void *p, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
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
