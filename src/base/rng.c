#include "base/rng.h"

#include "base/base.h"

#include <errno.h>
#include <sys/random.h>

uint64_t mr_mix64(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void mr_rng_seed(struct mr_rng *rng, uint64_t seed)
{
    for (size_t i = 0; i < 4; i++) {
        seed = mr_mix64(seed + i);
        rng->s[i] = seed;
    }
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t mr_rng_next(struct mr_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t mr_rng_below(struct mr_rng *rng, uint64_t n)
{
    MR_ASSERT(n > 0);
    /* Values under 2^64 mod n would make small results likelier. */
    uint64_t floor = (0 - n) % n;
    uint64_t x;

    do {
        x = mr_rng_next(rng);
    } while (x < floor);
    return x % n;
}

void mr_random_bytes(void *out, size_t n)
{
    unsigned char *p = out;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        MR_ASSERT(got > 0 || errno == EINTR);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
}

uint64_t mr_random_u64(void)
{
    uint64_t x;

    mr_random_bytes(&x, sizeof x);
    return x;
}

void mr_random_id(char out[33])
{
    uint64_t hi = mr_random_u64();
    uint64_t lo = mr_random_u64();

    (void)snprintf(out, 33, "%016llx%016llx", (unsigned long long)hi, (unsigned long long)lo);
}
