/* After Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012): two rounds a word, four
 * at the end. */
#include "base/siphash.h"

struct state {
    uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* The first @n of at most 8 bytes, the lowest first. */
static uint64_t word(const uint8_t *p, size_t n)
{
    uint64_t w = 0;

    for (size_t i = 0; i < n; i++) {
        w |= (uint64_t)p[i] << 8 * i;
    }
    return w;
}

static void rounds(struct state *s, int n)
{
    for (int i = 0; i < n; i++) {
        s->a += s->b;
        s->c += s->d;
        s->b = rotate(s->b, 13) ^ s->a;
        s->d = rotate(s->d, 16) ^ s->c;
        s->a = rotate(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = rotate(s->b, 17) ^ s->c;
        s->d = rotate(s->d, 21) ^ s->a;
        s->c = rotate(s->c, 32);
    }
}

static void take(struct state *s, uint64_t w)
{
    s->d ^= w;
    rounds(s, 2);
    s->a ^= w;
}

uint64_t mr_siphash(const uint8_t key[MR_SIPHASH_KEY_BYTES], const void *p, size_t n)
{
    const uint64_t k0 = word(key, 8), k1 = word(key + 8, 8);
    struct state s = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                      k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    const uint8_t *bytes = p;
    size_t at = 0;

    for (; n - at >= 8; at += 8) {
        take(&s, word(bytes + at, 8));
    }
    take(&s, word(bytes + at, n - at) | (uint64_t)n << 56);
    s.c ^= 0xff;
    rounds(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}
