/*
 * The rounds of a consumer, and which is next. What must hold, here and in the two files beside,
 * and why:
 *
 *  A round is returned when it is complete, or when an outcome says that it was delivered. Then
 *  everybody has it, or has begun behind it. Whoever promised not to listen to a task any more
 *  returns none of its rounds before the outcome: the dispatcher decides on what was reported with
 *  the promise. A new session returns nothing before it has everything that was complete without it
 *  ("may start"). From then on a round that anybody returns is one that this session has received:
 *  it can never be told of a delivered round in the middle of its own that it lacks.
 */
#include "client/rounds_internal.h"

int mr_client_rounds_fail(const mr_client_rounds *rounds, mr_error *err)
{
    return mr_error_pass(err, rounds->failed, &rounds->failure);
}

mr_client_rounds *mr_client_rounds_new(const struct mr_client_rounds_config *config)
{
    mr_client_rounds *rounds = mr_calloc(1, sizeof *rounds);

    if (rounds != NULL) {
        rounds->config = *config;
        rounds->config.ahead = config->ahead < 2 ? 2 : config->ahead;
        rounds->first = config->from_round;
        rounds->position = config->from_round;
        rounds->report_at = MR_ROUND_NEVER;
    }
    return rounds;
}

void mr_client_rounds_task_free(struct mr_round_task *task)
{
    if (task != NULL) {
        mr_free(task->id);
        mr_free(task);
    }
}

void mr_client_rounds_free(mr_client_rounds *rounds)
{
    if (rounds == NULL) {
        return;
    }
    for (size_t i = 0; i < rounds->ntasks; i++) {
        mr_client_rounds_task_free(rounds->tasks[i]);
    }
    millrace__round_schedule__free_unpacked(rounds->schedule, NULL);
    mr_free(rounds->tasks);
    mr_free(rounds->closing);
    mr_free(rounds->by_index);
    mr_free(rounds);
}

uint64_t mr_client_rounds_position(const mr_client_rounds *rounds)
{
    return rounds->position;
}

uint64_t mr_client_rounds_first(const mr_client_rounds *rounds)
{
    return rounds->first;
}

/* ---------------------------------------------------------------- tasks */

struct mr_round_task *mr_client_rounds_task_find(const mr_client_rounds *rounds, const char *id)
{
    for (size_t i = 0; i < rounds->ntasks; i++) {
        if (strcmp(rounds->tasks[i]->id, id) == 0) {
            return rounds->tasks[i];
        }
    }
    return NULL;
}

static struct mr_round_task *add_task(mr_client_rounds *rounds, const char *id)
{
    struct mr_round_task **bigger =
        mr_reallocarray(rounds->tasks, rounds->ntasks + 1, sizeof(struct mr_round_task *));
    Millrace__ClosingReport **closing =
        mr_reallocarray(rounds->closing, rounds->ntasks + 1, sizeof(Millrace__ClosingReport *));
    struct mr_round_task *task = mr_calloc(1, sizeof *task);
    char *name = mr_strdup(id);

    rounds->tasks = bigger != NULL ? bigger : rounds->tasks;
    rounds->closing = closing != NULL ? closing : rounds->closing;
    if (bigger == NULL || closing == NULL || task == NULL || name == NULL) {
        mr_free(name);
        mr_free(task);
        return NULL;
    }
    task->id = name;
    task->index = MR_ROUND_NOBODY;
    task->held = rounds->first;
    bigger[rounds->ntasks++] = task;
    return task;
}

struct mr_round_task *mr_client_rounds_task_get(mr_client_rounds *rounds, const char *id)
{
    struct mr_round_task *task = mr_client_rounds_task_find(rounds, id);

    return task != NULL ? task : add_task(rounds, id);
}

uint64_t mr_client_rounds_task_next(const mr_client_rounds *rounds,
                                    const struct mr_round_task *task, uint64_t from)
{
    return task->index == MR_ROUND_NOBODY ? MR_ROUND_NEVER
                                          : mr_schedule_next(rounds->schedule, task->index, from);
}

static bool is_void(const struct mr_round_task *task, uint64_t round)
{
    return (task->has_outcome && round >= task->delivered) ||
           (task->ended && round >= task->end_round);
}

/* ---------------------------------------------------------------- where it begins */

/* Begin at @round: whatever is before it is of no concern. MR_EPRECOND: it was to begin with one
 * before that. */
static int begin_at(mr_client_rounds *rounds, uint64_t round, mr_error *err)
{
    if (rounds->config.placed) {
        rounds->failed =
            mr_error_set(&rounds->failure, MR_EPRECOND,
                         "round %" PRIu64 " cannot be had any more: the first that can is %" PRIu64,
                         rounds->first, round);
        return mr_client_rounds_fail(rounds, err);
    }
    rounds->first = round;
    rounds->position = MR_MAX(rounds->position, round);
    for (size_t i = 0; i < rounds->ntasks; i++) {
        rounds->tasks[i]->held = MR_MAX(rounds->tasks[i]->held, round);
    }
    return MR_OK;
}

int mr_client_rounds_begin_behind(mr_client_rounds *rounds, const struct mr_round_task *task,
                                  uint64_t below, mr_error *err)
{
    uint64_t missing =
        mr_client_rounds_task_next(rounds, task, MR_MAX(task->held, rounds->position));

    if (missing >= below) {
        return MR_OK;
    }
    if (rounds->started) {
        rounds->failed = mr_error_set(
            &rounds->failure, MR_EDATALOSS,
            "round %" PRIu64 " was returned by other consumers and is lost here", missing);
        return mr_client_rounds_fail(rounds, err);
    }
    return begin_at(rounds, mr_schedule_behind(rounds->schedule, task->index, below), err);
}

/* ---------------------------------------------------------------- next */

/* Nobody in this segment has any more rounds, from the position on. */
static bool is_over_from(const mr_client_rounds *rounds, size_t segment)
{
    const Millrace__RoundSegment *turns = rounds->schedule->segments[segment];

    for (size_t i = 0; i < turns->n_tasks; i++) {
        const struct mr_round_task *task = rounds->by_index[turns->tasks[i]];

        if (!is_void(task, mr_client_rounds_task_next(rounds, task, rounds->position))) {
            return false;
        }
    }
    return true;
}

/* Move on over rounds that nobody returns. False: at the horizon, or where the schedule has nobody
 * (yet). */
static bool skip_voids(mr_client_rounds *rounds)
{
    while (rounds->position < rounds->horizon) {
        size_t segment = mr_schedule_segment(rounds->schedule, rounds->position);
        uint64_t begin = rounds->schedule->segments[segment]->from_round;
        uint64_t end = mr_schedule_segment_end(rounds->schedule, segment);
        uint32_t owner = mr_schedule_owner(rounds->schedule, rounds->position);

        if (rounds->position < begin) {
            rounds->position = MR_MIN(begin, rounds->horizon);
            continue; /* what was there is forgotten, and void for whoever may begin there */
        }
        if (owner != MR_ROUND_NOBODY && !is_void(rounds->by_index[owner], rounds->position)) {
            return true;
        }
        if (owner != MR_ROUND_NOBODY && !is_over_from(rounds, segment)) {
            rounds->position++;
        } else if (end == MR_ROUND_NEVER) {
            return false; /* whoever joins, or the end of the iteration, says how it goes on */
        } else {
            rounds->position = MR_MIN(end, rounds->horizon);
        }
    }
    return false;
}

/* Whose word or rounds are missing before it may begin: all that may have been complete without
 * this session. NULL: nothing is, or it has begun. */
static const struct mr_round_task *missing_to_start(const mr_client_rounds *rounds)
{
    for (size_t i = 0; !rounds->started && i < rounds->ntasks; i++) {
        const struct mr_round_task *task = rounds->tasks[i];

        if (task->has_outcome ||
            mr_client_rounds_task_next(rounds, task, rounds->first) >= rounds->horizon) {
            continue;
        }
        if (task->closing || !task->met ||
            mr_client_rounds_task_next(rounds, task, task->held) < task->complete_before) {
            return task;
        }
    }
    return NULL;
}

static bool is_ready(const mr_client_rounds *rounds, const struct mr_round_task *task)
{
    uint64_t round = rounds->position;

    if (round >= task->held || missing_to_start(rounds) != NULL) {
        return false;
    }
    return task->has_outcome || (!task->closing && round < task->complete);
}

/* Of whom something is waited for before the round of @task may be returned. */
static const struct mr_round_task *waited_for(const mr_client_rounds *rounds,
                                              const struct mr_round_task *task)
{
    const struct mr_round_task *missing =
        rounds->position < task->held ? missing_to_start(rounds) : NULL;

    return missing != NULL ? missing : task;
}

int mr_client_rounds_next(mr_client_rounds *rounds, struct mr_client_rounds_next *ret,
                          mr_error *err)
{
    struct mr_round_task *task = NULL;

    if (rounds->failed < 0) {
        return mr_client_rounds_fail(rounds, err);
    }
    rounds->ready_to_take = false;
    if (rounds->schedule != NULL && skip_voids(rounds)) {
        task = rounds->by_index[mr_schedule_owner(rounds->schedule, rounds->position)];
        rounds->ready_to_take = is_ready(rounds, task);
    }
    if (rounds->position >= rounds->report_at) {
        rounds->report_at = rounds->position < rounds->horizon ? rounds->horizon : MR_ROUND_NEVER;
        rounds->reports++;
    }
    ret->round = rounds->position;
    ret->task_id = NULL;
    if (task != NULL) {
        ret->task_id = rounds->ready_to_take ? task->id : waited_for(rounds, task)->id;
    }
    ret->turn = rounds->ready_to_take ? MR_ROUNDS_TAKE
                : rounds->finished    ? MR_ROUNDS_END
                                      : MR_ROUNDS_WAIT;
    return MR_OK;
}

void mr_client_rounds_taken(mr_client_rounds *rounds)
{
    MR_ASSERT(rounds->ready_to_take);
    rounds->ready_to_take = false;
    rounds->position++;
    rounds->returned++;
    rounds->started = true;
}
