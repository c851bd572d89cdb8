/*
 * Which of two ways to do the same work is the quicker one, found out by working both ways: what it
 * costs to hand elements to another core depends on where the machine's cores are and on who else
 * uses them, which no constant tells. Zero-initialise it: work begins in the first way. Both ways
 * are measured in turn, the quicker one is used for a while, and then they are measured again. What
 * is measured first of all does not count: memory is new then, and files are cold.
 * The next epoch of the same dataset begins with what the last one has found out. Threads: none.
 */
#pragma once

#include "base/base.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* So long, and so many calls, each way is measured; after a change it has half of that to
 * settle. */
#define MR_TRIAL_NS (8 * MR_NS_PER_MS)
#define MR_TRIAL_CALLS 16u
/* The choice holds so long; each time that it is confirmed, twice as long. */
#define MR_TRIAL_REST_NS_MIN (16 * MR_TRIAL_NS)
#define MR_TRIAL_REST_NS_MAX (60 * MR_NS_PER_S)
/* The second way is used if it is quicker by more than one part of so many. */
#define MR_TRIAL_MARGIN 32

struct mr_trial {
    enum { MR_TRIAL_SETTLING, MR_TRIAL_MEASURING, MR_TRIAL_RESTING } phase;
    bool second;      /* the way in use */
    uint8_t measured; /* ways, since the last choice */
    bool was_second;  /* the choice before */
    int64_t last;     /* when a call ended last; 0: none has */
    int64_t cost[2];  /* of an element, in nanoseconds / 1024 */
    int64_t rest_ns;
    /* of this phase */
    int64_t ns;
    int64_t longest; /* between two calls: it does not count, somebody may have stopped the clock */
    uint64_t elements;
    uint32_t calls;
};

static inline void mr_trial_next_phase(struct mr_trial *t, int phase)
{
    t->phase = phase;
    t->ns = t->longest = 0;
    t->elements = 0;
    t->calls = 0;
}

static inline bool mr_trial_phase_is_over(const struct mr_trial *t)
{
    int64_t length = t->phase == MR_TRIAL_RESTING     ? t->rest_ns
                     : t->phase == MR_TRIAL_MEASURING ? MR_TRIAL_NS
                                                      : MR_TRIAL_NS / 2;

    return t->ns - t->longest >= length && t->calls >= MR_TRIAL_CALLS;
}

/* Both ways have been measured. */
static inline bool mr_trial_chooses_second(const struct mr_trial *t)
{
    return t->cost[true] < t->cost[false] - t->cost[false] / MR_TRIAL_MARGIN;
}

/* A call that ended at @now, mr_now_ns(), gave @elements. true: change to the other way, which is
 * t->second now. */
static inline bool mr_trial_note(struct mr_trial *t, int64_t now, uint64_t elements)
{
    int64_t ns = t->last != 0 ? now - t->last : 0;

    t->last = now;
    t->ns += ns;
    t->longest = MR_MAX(t->longest, ns);
    t->elements += elements;
    t->calls++;
    if (!mr_trial_phase_is_over(t)) {
        return false;
    }
    if (t->phase != MR_TRIAL_MEASURING) {
        mr_trial_next_phase(t, MR_TRIAL_MEASURING);
        return false;
    }
    t->cost[t->second] = (t->ns - t->longest) * 1024 / (int64_t)MR_MAX(t->elements, 1);
    t->measured++;
    if (t->measured < (t->rest_ns == 0 ? 3 : 2)) {
        t->second = !t->second;
        mr_trial_next_phase(t, MR_TRIAL_SETTLING);
        return true;
    }
    t->measured = 0;
    bool second = mr_trial_chooses_second(t);
    bool changes = second != t->second;

    t->rest_ns = second == t->was_second && t->rest_ns > 0
                     ? MR_MIN(t->rest_ns * 2, MR_TRIAL_REST_NS_MAX)
                     : MR_TRIAL_REST_NS_MIN;
    t->second = t->was_second = second;
    mr_trial_next_phase(t, MR_TRIAL_RESTING);
    return changes;
}

/* What was chosen, for mr_trial_resume(); never 0. After a choice: the phase is MR_TRIAL_RESTING. */
static inline uint32_t mr_trial_outcome(const struct mr_trial *t)
{
    uint32_t doubled = 0;

    while (MR_TRIAL_REST_NS_MIN << doubled < t->rest_ns) {
        doubled++;
    }
    return 1 + (uint32_t)t->second + 2 * doubled;
}

/* Begin with the choice of another trial, for half as long as that one would have kept to it: short
 * epochs measure again, too, if each leaves the outcome that it began with. @outcome: 0: there is
 * none. */
static inline void mr_trial_resume(struct mr_trial *t, uint32_t outcome)
{
    if (outcome != 0) {
        t->phase = MR_TRIAL_RESTING;
        t->second = t->was_second = (outcome - 1) % 2 != 0;
        t->rest_ns = MR_MIN(MR_TRIAL_REST_NS_MIN << (outcome - 1) / 2, MR_TRIAL_REST_NS_MAX);
        t->rest_ns = MR_MAX(t->rest_ns / 2, MR_TRIAL_REST_NS_MIN);
    }
}
