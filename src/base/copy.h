/* Copies of bytes that are few: a call of memcpy() costs more than they do. Any thread. */
#pragma once

#include <stddef.h>
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
