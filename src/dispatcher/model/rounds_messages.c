/* What consumers and workers are told of an iteration's rounds. */
#include "dispatcher/model/model.h"

/* The session of each place; 0: nobody has had it. */
static uint64_t *list_sessions(mr_core *core, const struct mr_coordination *rounds, size_t *n)
{
    uint64_t *sessions = mr_core_alloc(core, rounds->n, sizeof *sessions);

    for (uint32_t i = 0; sessions != NULL && i < rounds->n; i++) {
        sessions[(*n)++] = rounds->seats[i].rec != NULL ? rounds->seats[i].rec->session : 0;
    }
    return sessions;
}

Millrace__RoundsUpdate *mr_rounds_update_of(mr_core *core, const struct mr_iteration *it,
                                            bool with_schedule)
{
    Millrace__RoundsUpdate *update = MR_NEW_RECORD(core, rounds_update);
    const struct mr_coordination *rounds = it->rounds;

    if (update == NULL) {
        return NULL;
    }
    update->horizon = rounds->rec->horizon;
    update->ask = rounds->ask;
    mr_core_set(core, &update->refused, rounds->refused);
    if (with_schedule) {
        update->schedule = mr_rounds_without_first(core, mr_rounds_schedule(it), 0 /* segments */);
    }
    update->sessions = list_sessions(core, rounds, &update->n_sessions);
    for (uint32_t i = 0; i < mr_rounds_schedule(it)->n_tasks; i++) {
        if (mr_rounds_is_closing(it, i, core)) {
            mr_core_append_string(core, &update->closing, &update->n_closing,
                                  mr_rounds_schedule(it)->tasks[i]);
        }
    }
    return update;
}

/* Its turns in segment @s of the schedule, if it has some there. */
static void assign_span(mr_core *core, const struct mr_iteration *it, uint32_t task, size_t s,
                        Millrace__RoundAssignment *assignment)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);
    const Millrace__RoundSegment *segment = schedule->segments[s];
    uint64_t first = mr_schedule_next(schedule, task, segment->from_round);
    uint64_t end = mr_schedule_segment_end(schedule, s);
    Millrace__RoundSpan *span;

    if (first >= end || segment->n_tasks == 0) {
        return;
    }
    span = MR_ADD_RECORD(core, assignment, spans, round_span);
    if (span != NULL) {
        span->first = first;
        span->stride = segment->n_tasks;
        span->end = end != MR_ROUND_NEVER ? end : 0;
    }
}

Millrace__RoundAssignment *mr_rounds_assignment_of(mr_core *core, const struct mr_task *task)
{
    Millrace__RoundAssignment *assignment = MR_NEW_RECORD(core, round_assignment);
    const struct mr_iteration *it = task->iteration;
    const struct mr_coordination *rounds = it->rounds;
    uint32_t i = mr_schedule_find(mr_rounds_schedule(it), task->id);

    if (assignment == NULL) {
        return NULL;
    }
    assignment->num_consumers = rounds->n;
    assignment->last_round = it->job->rec->last_round;
    assignment->horizon = rounds->rec->horizon;
    assignment->sessions = list_sessions(core, rounds, &assignment->n_sessions);
    for (size_t s = 0;
         i != MR_ROUND_NOBODY && s < mr_rounds_schedule(it)->n_segments && core->failed == 0; s++) {
        assign_span(core, it, i, s, assignment);
    }
    return assignment;
}
