/*
 * The schedule of coordinated reads (docs/change/rounds.md): whose turn each round is, as a
 * function of segments and nothing else. The dispatcher computes with the one it has decided on,
 * consumers with the one they were told; workers are told their rounds as spans.
 *
 * Pure: reads the message it is given. A schedule from outside is checked once
 * (mr_schedule_check()), after which the other functions may be called.
 */
#pragma once

#include "base/base.h"
#include "millrace/service.pb-c.h"

#define MR_ROUND_NEVER UINT64_MAX
#define MR_ROUND_NOBODY UINT32_MAX

/* So many tasks take turns at most, and so many consumers read together. */
#define MR_ROUND_TASKS_MAX 1024
#define MR_ROUND_CONSUMERS_MAX 1024

/* MR_EDATALOSS: no segments, or not ascending; an index without a task; a task twice; a task with
 * two outcomes. */
int mr_schedule_check(const Millrace__RoundSchedule *schedule, mr_error *err);

/* The segment that @round is in; the first one if it is before all. */
size_t mr_schedule_segment(const Millrace__RoundSchedule *schedule, uint64_t round);
/* The first round behind segment @segment; MR_ROUND_NEVER behind the last. */
uint64_t mr_schedule_segment_end(const Millrace__RoundSchedule *schedule, size_t segment);

/* Index of the task whose turn it is in @round; MR_ROUND_NOBODY in a segment without tasks. */
uint32_t mr_schedule_owner(const Millrace__RoundSchedule *schedule, uint64_t round);
/* The first round of @task that is not below @from; MR_ROUND_NEVER: it has none. */
uint64_t mr_schedule_next(const Millrace__RoundSchedule *schedule, uint32_t task, uint64_t from);
/* Behind the last round of @task that is below @below; 0: it has none. */
uint64_t mr_schedule_behind(const Millrace__RoundSchedule *schedule, uint32_t task, uint64_t below);

/* Index of the task of that id; MR_ROUND_NOBODY. */
uint32_t mr_schedule_find(const Millrace__RoundSchedule *schedule, const char *task_id);
/* What was decided of it; NULL: nothing. */
const Millrace__RoundOutcome *mr_schedule_outcome(const Millrace__RoundSchedule *schedule,
                                                  uint32_t task);
