#include "engine/crc32c.h"

#include <isa-l/crc.h>

/* As ISA-L's functions take their length. */
#define PIECE ((size_t)1 << 30)

uint32_t mr_crc32c(const void *p, size_t n)
{
    unsigned char *at = (unsigned char *)(uintptr_t)p; /* read, whatever its type says */
    uint32_t crc = UINT32_MAX;

    for (; n > PIECE; n -= PIECE, at += PIECE) {
        crc = crc32_iscsi(at, (int)PIECE, crc);
    }
    return ~crc32_iscsi(at, (int)n, crc);
}

uint32_t mr_crc32c_masked(const void *p, size_t n)
{
    uint32_t crc = mr_crc32c(p, n);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
