/*
 * Random draws by counting: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
 * 2, 3", 2011). Draw k of a stream is a function of the stream's key, of an index and of k alone,
 * so it depends neither on threads nor on the sizes of blocks.
 */
#pragma once

#include "base/rng.h"
#include "ops/kernel.h"

#include <Random123/philox.h>

struct mr_draws {
    philox4x32_key_t key;
    uint64_t index;
    uint64_t blocks;    /* of four words, drawn so far */
    philox4x32_ctr_t r; /* the last one */
    unsigned left;      /* words of it */
};

static inline struct mr_draws mr_draws_of(uint64_t key, uint64_t index)
{
    return (struct mr_draws){.key = {{(uint32_t)key, (uint32_t)(key >> 32)}}, .index = index};
}

/* 32 random bits. */
static inline uint32_t mr_draw32(struct mr_draws *d)
{
    if (d->left == 0) {
        philox4x32_ctr_t counter = {{(uint32_t)d->blocks, (uint32_t)(d->blocks >> 32),
                                     (uint32_t)d->index, (uint32_t)(d->index >> 32)}};

        d->r = philox4x32(counter, d->key);
        d->blocks++;
        d->left = 4;
    }
    return d->r.v[4 - d->left--];
}

static inline uint64_t mr_draw64(struct mr_draws *d)
{
    uint64_t low = mr_draw32(d);

    return (uint64_t)mr_draw32(d) << 32 | low;
}

/* Uniform in [0, n). The bias of the multiplication is below n / 2^64. */
static inline uint64_t mr_draw_below(struct mr_draws *d, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)mr_draw64(d) * n) >> 64);
}

/* Uniform in [0, 1), of 53 bits. */
static inline double mr_draw_unit(struct mr_draws *d)
{
    return (double)(mr_draw64(d) >> 11) * 0x1p-53;
}

/* The stream of a row: the operator's own, or of the seed that is the last input of a @stateless
 * one. With the attribute `seed` operators of one seed draw the same, as TensorFlow's do. */
struct mr_draws mr_draws_of_row(const struct mr_row *row, bool stateless);
/* MR_EINVAL unless the last input of a @stateless one is two ints. */
int mr_infer_seed(const struct mr_kernel_infer *it, bool stateless, mr_error *err);
