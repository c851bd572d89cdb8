/* Bytes that are few, copied and compared: a call of memcpy() costs more than they do. Any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* As memcpy(); NULL is fine where @n is 0. */
static inline void mr_copy_bytes(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n > 16) {
        memcpy(to, from, n);
    } else if (n >= 8) { /* two words, which may overlap */
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else if (n > 0) {
        to[0] = from[0];
        to[n / 2] = from[n / 2];
        to[n - 1] = from[n - 1];
    }
}

/* As memcmp() == 0; NULL is fine where @n is 0. */
static inline bool mr_equal_bytes(const unsigned char *a, const unsigned char *b, size_t n)
{
    uint64_t x[2] = {0};
    uint64_t y[2] = {0};

    if (n > 16) {
        return memcmp(a, b, n) == 0;
    }
    if (n >= 8) { /* two words, which may overlap */
        memcpy(&x[0], a, 8);
        memcpy(&x[1], a + n - 8, 8);
        memcpy(&y[0], b, 8);
        memcpy(&y[1], b + n - 8, 8);
    } else {
        mr_copy_bytes((unsigned char *)x, a, n);
        mr_copy_bytes((unsigned char *)y, b, n);
    }
    return x[0] == y[0] && x[1] == y[1];
}
