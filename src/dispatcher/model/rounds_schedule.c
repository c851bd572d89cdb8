/* The schedule of an iteration as a message: what is added at its end, and forgotten at its
 * beginning when no consumer can ask for it any more. */
#include "dispatcher/model/apply.h"

uint32_t mr_rounds_add_task(mr_core *core, Millrace__RoundSchedule *schedule, const char *id)
{
    uint32_t i = mr_schedule_find(schedule, id);

    if (i != MR_ROUND_NOBODY) {
        return i;
    }
    return mr_core_append_string(core, &schedule->tasks, &schedule->n_tasks, id)
               ? (uint32_t)schedule->n_tasks - 1
               : 0;
}

void mr_rounds_add_segment(mr_core *core, Millrace__RoundSchedule *schedule, uint64_t from,
                           const uint32_t *tasks, size_t n)
{
    Millrace__RoundSegment *segment = MR_NEW_RECORD(core, round_segment);

    if (segment == NULL) {
        return;
    }
    segment->from_round = from;
    segment->tasks = mr_core_alloc(core, n, sizeof *segment->tasks);
    if (segment->tasks == NULL) {
        mr_record_free(segment);
        return;
    }
    if (n > 0) {
        memcpy(segment->tasks, tasks, n * sizeof *tasks);
    }
    segment->n_tasks = n;
    MR_APPEND(core, schedule, segments, segment);
}

bool mr_rounds_is_used(const Millrace__RoundSchedule *schedule, uint32_t task, size_t from_segment)
{
    for (size_t i = from_segment; i < schedule->n_segments; i++) {
        for (size_t k = 0; k < schedule->segments[i]->n_tasks; k++) {
            if (schedule->segments[i]->tasks[k] == task) {
                return true;
            }
        }
    }
    return false;
}

Millrace__RoundSchedule *
mr_rounds_without_first(mr_core *core, const Millrace__RoundSchedule *schedule, size_t drop)
{
    Millrace__RoundSchedule *rest = MR_NEW_RECORD(core, round_schedule);
    uint32_t map[MR_ROUND_TASKS_MAX];

    if (rest == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        map[i] = mr_rounds_is_used(schedule, i, drop)
                     ? mr_rounds_add_task(core, rest, schedule->tasks[i])
                     : MR_ROUND_NOBODY;
    }
    for (size_t i = drop; i < schedule->n_segments && core->failed == 0; i++) {
        const Millrace__RoundSegment *segment = schedule->segments[i];

        mr_rounds_add_segment(core, rest, segment->from_round, segment->tasks, segment->n_tasks);
        for (size_t k = 0; k < segment->n_tasks && core->failed == 0; k++) {
            rest->segments[rest->n_segments - 1]->tasks[k] = map[segment->tasks[k]];
        }
    }
    for (size_t i = 0; i < schedule->n_outcomes && core->failed == 0; i++) {
        const Millrace__RoundOutcome *old = schedule->outcomes[i];
        Millrace__RoundOutcome *outcome;

        if (map[old->task] == MR_ROUND_NOBODY) {
            continue;
        }
        outcome = MR_ADD_RECORD(core, rest, outcomes, round_outcome);
        if (outcome != NULL) {
            outcome->task = map[old->task];
            outcome->delivered_below = old->delivered_below;
            outcome->void_below = old->void_below;
        }
    }
    return rest;
}
