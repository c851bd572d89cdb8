/*
 * Whether work on blocks is worth a thread of its own. Handing a block over takes some microseconds
 * on both sides, and what one core has written comes to another at some 3 GB/s, which copying and
 * parsing outrun. What is left of the gain has to be a good part of what the thread does
 * altogether: small gains are not there on a machine that has other work, and every thread in use
 * is one less for a stage that needs it. Zero-initialise it. Threads: none.
 */
#pragma once

#include "base/clock.h"
#include "engine/op.h"

/* What handing over is nothing beside. */
#define MR_PACE_BLOCK_NS 12000
/* Tenths of a nanosecond for each byte that changes cores soon after it was written. */
#define MR_PACE_BYTE_NS_TENTHS 4
/* What a call costs whatever it works on is not multiplied by more than this. */
#define MR_PACE_LARGER_MAX 8u
/* So many calls are judged together: some read a file for those behind them. The longest of them
 * does not count, it may have been interrupted by the machine; nor do the first ones, which meet
 * cold caches. Of calls that take long, two are enough. */
#define MR_PACE_CALLS 16u
#define MR_PACE_LONG_NS (2 * MR_NS_PER_MS)
/* The gain has to be one of so many parts of the thread's work. */
#define MR_PACE_GAIN_PARTS 8

struct mr_pace {
    bool warm; /* MR_PACE_CALLS were made before those that are counted here */
    uint32_t calls;
    int64_t ns;
    int64_t longest;
    int64_t whole; /* as if each had worked on a usual block */
    int64_t longest_whole;
    int64_t beside;
    size_t moved;
};

/* A call took @ns for @bytes, of which @moved would have changed cores; the thread worked @beside
 * ns for the same elements otherwise. true: the work is slow enough for a thread of its own. */
static inline bool mr_pace_is_slow(struct mr_pace *pace, size_t bytes, size_t moved, int64_t ns,
                                   int64_t beside)
{
    size_t times = bytes > 0 ? MR_BLOCK_BYTES_HINT / bytes + 1 : MR_PACE_LARGER_MAX;
    int64_t whole = ns * (int64_t)MR_MIN(times, MR_PACE_LARGER_MAX);

    pace->calls++;
    pace->ns += ns;
    pace->longest = MR_MAX(pace->longest, ns);
    pace->whole += whole;
    pace->longest_whole = MR_MAX(pace->longest_whole, whole);
    pace->moved += moved;
    pace->beside += beside;
    int64_t spent = pace->ns - pace->longest;
    if (pace->calls < MR_PACE_CALLS && spent < MR_PACE_LONG_NS) {
        return false;
    }
    bool warm = pace->warm || pace->calls < MR_PACE_CALLS;
    int64_t gain = spent - (int64_t)(pace->moved / 10) * MR_PACE_BYTE_NS_TENTHS;
    bool slow =
        warm &&
        pace->whole - pace->longest_whole >= (int64_t)(pace->calls - 1) * MR_PACE_BLOCK_NS &&
        gain >= (spent + pace->beside) / MR_PACE_GAIN_PARTS;
    *pace = (struct mr_pace){.warm = true};
    return slow;
}
