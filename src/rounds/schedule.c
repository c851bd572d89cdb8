#include "rounds/schedule.h"

/* Place of @task in the turns of @segment; MR_ROUND_NOBODY: it has none there. */
static uint32_t place_of(const Millrace__RoundSegment *segment, uint32_t task)
{
    for (size_t i = 0; i < segment->n_tasks; i++) {
        if (segment->tasks[i] == task) {
            return (uint32_t)i;
        }
    }
    return MR_ROUND_NOBODY;
}

static int check_segment(const Millrace__RoundSchedule *schedule, size_t i, mr_error *err)
{
    const Millrace__RoundSegment *segment = schedule->segments[i];

    if (i > 0 && segment->from_round <= schedule->segments[i - 1]->from_round) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the schedule goes from round %" PRIu64 " back to %" PRIu64,
                            schedule->segments[i - 1]->from_round, segment->from_round);
    }
    for (size_t k = 0; k < segment->n_tasks; k++) {
        if (segment->tasks[k] >= schedule->n_tasks || place_of(segment, segment->tasks[k]) != k) {
            return mr_error_set(err, MR_EDATALOSS,
                                "the schedule from round %" PRIu64
                                " names task %u of %zu, or twice",
                                segment->from_round, segment->tasks[k], schedule->n_tasks);
        }
    }
    return MR_OK;
}

int mr_schedule_check(const Millrace__RoundSchedule *schedule, mr_error *err)
{
    if (schedule->n_segments == 0 || schedule->n_tasks > MR_ROUND_TASKS_MAX) {
        return mr_error_set(err, MR_EDATALOSS, "the schedule has %zu segments and %zu tasks",
                            schedule->n_segments, schedule->n_tasks);
    }
    for (size_t i = 0; i < schedule->n_segments; i++) {
        MR_TRY(check_segment(schedule, i, err));
    }
    for (size_t i = 0; i < schedule->n_outcomes; i++) {
        const Millrace__RoundOutcome *outcome = schedule->outcomes[i];

        if (outcome->task >= schedule->n_tasks ||
            mr_schedule_outcome(schedule, outcome->task) != outcome ||
            outcome->delivered_below > outcome->void_below) {
            return mr_error_set(err, MR_EDATALOSS, "the outcome of task %u cannot be",
                                outcome->task);
        }
    }
    return MR_OK;
}

size_t mr_schedule_segment(const Millrace__RoundSchedule *schedule, uint64_t round)
{
    size_t i = schedule->n_segments - 1;

    while (i > 0 && schedule->segments[i]->from_round > round) {
        i--;
    }
    return i;
}

uint64_t mr_schedule_segment_end(const Millrace__RoundSchedule *schedule, size_t segment)
{
    return segment + 1 < schedule->n_segments ? schedule->segments[segment + 1]->from_round
                                              : MR_ROUND_NEVER;
}

uint32_t mr_schedule_owner(const Millrace__RoundSchedule *schedule, uint64_t round)
{
    const Millrace__RoundSegment *segment =
        schedule->segments[mr_schedule_segment(schedule, round)];

    if (segment->n_tasks == 0 || round < segment->from_round) {
        return MR_ROUND_NOBODY;
    }
    return segment->tasks[(round - segment->from_round) % segment->n_tasks];
}

uint64_t mr_schedule_next(const Millrace__RoundSchedule *schedule, uint32_t task, uint64_t from)
{
    for (size_t i = mr_schedule_segment(schedule, from); i < schedule->n_segments; i++) {
        const Millrace__RoundSegment *segment = schedule->segments[i];
        uint32_t place = place_of(segment, task);

        if (place == MR_ROUND_NOBODY) {
            continue;
        }
        uint64_t begin = from > segment->from_round ? from - segment->from_round : 0;
        uint64_t turn = begin % segment->n_tasks;
        uint64_t wait = place >= turn ? place - turn : segment->n_tasks - turn + place;
        uint64_t round;

        if (__builtin_add_overflow(segment->from_round, begin, &round) ||
            __builtin_add_overflow(round, wait, &round)) {
            return MR_ROUND_NEVER;
        }
        if (round < mr_schedule_segment_end(schedule, i)) {
            return round;
        }
    }
    return MR_ROUND_NEVER;
}

uint64_t mr_schedule_behind(const Millrace__RoundSchedule *schedule, uint32_t task, uint64_t below)
{
    for (size_t i = schedule->n_segments; i-- > 0;) {
        const Millrace__RoundSegment *segment = schedule->segments[i];
        uint64_t end = mr_schedule_segment_end(schedule, i);
        uint32_t place = place_of(segment, task);

        end = MR_MIN(end, below);
        if (place == MR_ROUND_NOBODY || end <= segment->from_round ||
            end - segment->from_round <= place) {
            continue;
        }
        /* The last offset below the end that is `place` modulo the number of tasks. */
        uint64_t last = end - segment->from_round - 1;

        return segment->from_round + last - (last - place) % segment->n_tasks + 1;
    }
    return 0;
}

uint32_t mr_schedule_find(const Millrace__RoundSchedule *schedule, const char *task_id)
{
    for (size_t i = 0; i < schedule->n_tasks; i++) {
        if (strcmp(schedule->tasks[i], task_id) == 0) {
            return (uint32_t)i;
        }
    }
    return MR_ROUND_NOBODY;
}

const Millrace__RoundOutcome *mr_schedule_outcome(const Millrace__RoundSchedule *schedule,
                                                  uint32_t task)
{
    for (size_t i = 0; i < schedule->n_outcomes; i++) {
        if (schedule->outcomes[i]->task == task) {
            return schedule->outcomes[i];
        }
    }
    return NULL;
}
