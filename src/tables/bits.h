/* Packed integers: value i is the @width bits from bit i * @width on, lowest first. */
#pragma once

#include "base/base.h"

static inline uint64_t mr_load64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t mr_load32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Up to 8 bytes that are there; the rest is 0. */
static inline uint64_t mr_load_some(const unsigned char *p, size_t n)
{
    uint64_t v = 0;

    memcpy(&v, p, n < sizeof v ? n : sizeof v);
    return v;
}

static inline bool mr_bit(const unsigned char *bits, uint64_t i)
{
    return (bits[i / 8] >> (i % 8) & 1) != 0;
}

static inline void mr_set_bit(unsigned char *bits, uint64_t i)
{
    bits[i / 8] = (unsigned char)(bits[i / 8] | 1u << (i % 8));
}

/* Bits [from, to) of @bits, all of them. */
static inline void mr_set_bits(unsigned char *bits, uint64_t from, uint64_t to)
{
    while (from < to && from % 8 != 0) {
        mr_set_bit(bits, from++);
    }
    if (to - from >= 8) {
        memset(bits + from / 8, 0xff, (to - from) / 8);
        from += (to - from) / 8 * 8;
    }
    while (from < to) {
        mr_set_bit(bits, from++);
    }
}
