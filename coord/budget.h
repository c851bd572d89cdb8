/*
 * How much is written to the store, and how much further apart writes that come again and again
 * should be, so that a budget holds. What a store keeps of its past until it is compacted grows
 * with the bytes written, so those are what counts.
 *
 * A write that was made when the stretch was s will be followed by the next of its kind after s. So
 * what was written and is not due again yet is what one round of all writers costs, however long
 * their rounds are by now; the stretch is the time in which the budget allows that much. Means over
 * a round are held; rounds may come in bursts.
 *
 * Pure; time comes in as an argument. Threads: one at a time.
 */
#pragma once

#include <millrace/base.h>

#define MR_BUDGET_INTERVAL_MS 500
#define MR_BUDGET_INTERVALS 64 /* more than the longest stretch */

struct mr_budget {
    int64_t bytes_per_s; /* allowed */
    int64_t base_ms;     /* between two writes of one kind, when there is room */
    int64_t max_ms;      /* at most MR_BUDGET_INTERVAL_MS * (MR_BUDGET_INTERVALS - 1) */
    /* its own business */
    struct {
        uint64_t bytes;
        int64_t due_ms; /* when what was written then is due again */
    } past[MR_BUDGET_INTERVALS];
    size_t next;
    uint64_t written; /* before the interval that is being measured */
    int64_t since_ms;
    int64_t rate; /* bytes per second, over the last two seconds or so */
    int64_t stretch_ms;
};

void mr_budget_init(struct mr_budget *b, int64_t bytes_per_s, int64_t base_ms, int64_t max_ms,
                    uint64_t written, int64_t now_ms);
/* @written: all bytes so far. As often as one likes. */
void mr_budget_update(struct mr_budget *b, uint64_t written, int64_t now_ms);
int64_t mr_budget_rate(const struct mr_budget *b);       /* bytes per second */
int64_t mr_budget_stretch_ms(const struct mr_budget *b); /* base_ms .. max_ms */
