/* CRC32C (Castagnoli), and TFRecord's masked form of it. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t mr_crc32c(const void *p, size_t n);
/* Rotated and shifted, so that the checksum of data with checksums in it is not degenerate. */
uint32_t mr_crc32c_masked(const void *p, size_t n);
