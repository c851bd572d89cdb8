/* What the four files of an iteration's rounds share. Nothing outside includes it. */
#ifndef MR_DISPATCHER_CORE_ROUNDS_INTERNAL_H
#define MR_DISPATCHER_CORE_ROUNDS_INTERNAL_H

#include "dispatcher/core/internal.h"

static inline Millrace__RoundSchedule *mr_rounds_schedule(const struct mr_iteration *it)
{
    return it->rounds->rec->schedule;
}

static inline Millrace__RoundSegment *mr_rounds_last_segment(const struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);

    return schedule->segments[schedule->n_segments - 1];
}

/* ---------------------------------------------------------------- rounds_schedule.c */

/* Its index in @schedule; added, if it is not there. */
uint32_t mr_rounds_add_task(mr_core *core, Millrace__RoundSchedule *schedule, const char *id);
/* From round @from on the @n @tasks (indices) take turns. */
void mr_rounds_add_segment(mr_core *core, Millrace__RoundSchedule *schedule, uint64_t from,
                           const uint32_t *tasks, size_t n);
/* The schedule without its first @drop segments, and without what only they named. NULL: no
 * memory. */
Millrace__RoundSchedule *
mr_rounds_without_first(mr_core *core, const Millrace__RoundSchedule *schedule, size_t drop);
/* Forget what nobody needs any more. With a write that is to be made anyway. */
void mr_rounds_prune(mr_core *core, struct mr_iteration *it);

/* ---------------------------------------------------------------- rounds_horizon.c */

/* The position of the consumer that has come furthest. */
uint64_t mr_rounds_furthest(const struct mr_coordination *rounds);
/* So far ahead of round @from as the pace asks for; never back. Left unwritten. */
void mr_rounds_set_horizon(mr_core *core, struct mr_iteration *it, uint64_t from);

#endif
