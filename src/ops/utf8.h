/* Characters in UTF-8 (RFC 3629: no surrogates, nothing longer than need be). Pure. */
#pragma once

#include "ops/tensor.h"

#define MR_UTF8_BAD UINT32_MAX

/* The character at @at, which is within @s, and how many bytes it has; MR_UTF8_BAD: there is none,
 * and *@size is how many bytes looked like one: what Unicode calls a maximal subpart. */
static inline uint32_t mr_utf8_decode(struct mr_string s, size_t at, size_t *size)
{
    const unsigned char *p = s.data + at;
    size_t left = s.size - at;
    unsigned first = p[0];

    *size = 1;
    if (first < 0x80) {
        return first;
    }
    size_t want = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    uint32_t code = first & (0x7fu >> want);
    /* of the second byte: no surrogates, nothing too long, nothing above U+10FFFF */
    unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

    if (want == 0) {
        return MR_UTF8_BAD;
    }
    for (; *size < want; (*size)++, low = 0x80, high = 0xbf) {
        if (*size == left || p[*size] < low || p[*size] > high) {
            return MR_UTF8_BAD;
        }
        code = code << 6 | (p[*size] & 0x3fu);
    }
    return code;
}

/* To @to, which has room for 4 bytes; how many. */
static inline size_t mr_utf8_encode(uint32_t code, unsigned char *to)
{
    if (code < 0x80) {
        to[0] = (unsigned char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (size_t i = n - 1; i > 0; i--, code >>= 6) {
        to[i] = (unsigned char)(0x80u | (code & 0x3fu));
    }
    to[0] = (unsigned char)((0xf00u >> n) | code);
    return n;
}
