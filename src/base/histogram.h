/*
 * How long things took, in buckets that double: 0.5 ms, 1 ms, ... 8.192 s, and whatever took
 * longer. Zero-initialise it.
 *
 * Threads: noting and reading from any; a reader may see a duration in the sum that is not in its
 * bucket yet.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MR_HISTOGRAM_BOUNDS 15

struct mr_histogram {
    /* of each bucket alone; the last: beyond all bounds */
    _Atomic uint64_t counts[MR_HISTOGRAM_BOUNDS + 1];
    _Atomic uint64_t sum_ns;
};

/* Bucket @i, below MR_HISTOGRAM_BOUNDS, has what took so long at most (and longer than the one
 * before). */
int64_t mr_histogram_bound_ns(size_t i);
/* What is below 0 counts as 0. */
void mr_histogram_note(struct mr_histogram *h, int64_t ns);
