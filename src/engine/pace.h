/*
 * Whether work on blocks is worth a thread of its own. Handing a block over takes some 10 us both
 * ways, and what one core has written comes to another at a few GB/s, which copying and parsing
 * outrun. Zero-initialise it. Threads: none.
 */
#pragma once

#include "base/clock.h"
#include "engine/op.h"

/* What handing over is nothing beside. */
#define MR_PACE_BLOCK_NS 25000
/* Tenths of a nanosecond for each byte that changes cores. */
#define MR_PACE_BYTE_NS_TENTHS 3
/* What a call costs whatever it works on is not multiplied by more than this. */
#define MR_PACE_LARGER_MAX 8u
/* So many calls in a row: one may have been interrupted by the machine. Long ones: two. */
#define MR_PACE_CALLS 8u
#define MR_PACE_LONG_CALLS 2u

struct mr_pace {
    uint32_t slow; /* calls in a row that were worth it */
};

/* A call took @ns for @bytes, of which @moved would have changed cores. true: the work is slow enough
 * for a thread of its own. */
static inline bool mr_pace_is_slow(struct mr_pace *pace, size_t bytes, size_t moved, int64_t ns)
{
    size_t times = bytes > 0 ? MR_BLOCK_BYTES_HINT / bytes + 1 : MR_PACE_LARGER_MAX;
    int64_t whole = ns * (int64_t)MR_MIN(times, MR_PACE_LARGER_MAX); /* of a usual block */
    bool slow = whole >= MR_PACE_BLOCK_NS && ns >= (int64_t)(moved / 10) * MR_PACE_BYTE_NS_TENTHS;

    pace->slow = slow ? pace->slow + 1 : 0;
    return pace->slow >= (ns >= MR_NS_PER_MS ? MR_PACE_LONG_CALLS : MR_PACE_CALLS);
}
