/* Random numbers: a seeded generator (xoshiro256**, Blackman and Vigna 2018) for everything that
 * must be repeatable, and the kernel's for identities. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct mr_rng {
    uint64_t s[4];
};

void mr_rng_seed(struct mr_rng *rng, uint64_t seed);
uint64_t mr_rng_next(struct mr_rng *rng);
/* Uniform in [0, n), n > 0, without modulo bias. */
uint64_t mr_rng_below(struct mr_rng *rng, uint64_t n);

/* Mix a number into another one (splitmix64's finaliser): derived seeds. */
uint64_t mr_mix64(uint64_t x);

/* From the kernel; ends the process if it has none to give. */
void mr_random_bytes(void *out, size_t n);
uint64_t mr_random_u64(void);
/* 128 random bits as 32 hex digits. */
void mr_random_id(char out[33]);
