/*
 * The schedule of coordinated reads, as far as it is the leader's to decide: who takes turns, how far consumers may go,
 * and, once for all, what became of the rounds of a worker that was lost.
 *
 *     open ──(lost: closing)──► in doubt ──(all consumers have reported)──► outcome
 *       ╰──(ended by itself)──────────────────────────────────────────────►┘
 *
 * That a task is closing is derived: it takes turns, is not open, and has no outcome. One transaction writes the
 * outcome with a segment without the task, from the horizon on, where nobody can be yet; so everything below the
 * horizon is decided, and a next leader, which has to ask again if this one was not committed, has told nobody
 * anything else.
 */
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void rounds_key(const struct mr_iteration *it, char *out, size_t size)
{
    snprintf(out, size, "rounds/%s", it->rec->id);
}

struct mr_coordination *mr_coordination_new(mr_core *core, const struct mr_job *job)
{
    struct mr_coordination *rounds = mr_calloc(1, sizeof *rounds);

    if (rounds == NULL) {
        mr_core_nomem(core);
        return NULL;
    }
    rounds->n = job->rec->num_consumers;
    rounds->asked = rounds->pace_since = MR_NEVER;
    rounds->seats = mr_calloc(rounds->n, sizeof *rounds->seats);
    if (rounds->seats == NULL) {
        mr_core_nomem(core);
        mr_free(rounds);
        return NULL;
    }
    return rounds;
}

void mr_coordination_free(struct mr_coordination *rounds)
{
    if (rounds == NULL) {
        return;
    }
    for (uint32_t i = 0; i < rounds->n; i++) {
        mr_record_free(rounds->seats[i].rec);
        mr_seat_clear(&rounds->seats[i]);
    }
    mr_record_free(rounds->rec);
    mr_free(rounds->seats);
    mr_free(rounds);
}

void mr_rounds_note(mr_core *core, struct mr_iteration *it, bool schedule)
{
    if (!core->ready) {
        return; /* whoever watches begins with all of it */
    }
    it->rounds->moved = true;
    it->rounds->turned = it->rounds->turned || schedule;
    mr_iteration_note_rounds(core, it);
}

void mr_rounds_write(mr_core *core, struct mr_iteration *it)
{
    char key[MR_KEY_SIZE];

    if (it->rounds != NULL && it->rounds->unwritten) {
        it->rounds->unwritten = false;
        rounds_key(it, key, sizeof key);
        mr_core_put(core, key, &it->rounds->rec->base);
    }
}

void mr_rounds_drop(mr_core *core, struct mr_iteration *it)
{
    char key[MR_KEY_SIZE];

    if (it->rounds == NULL) {
        return;
    }
    rounds_key(it, key, sizeof key);
    mr_core_leave_over(core, key);
    mr_consumers_drop(core, it);
    mr_coordination_free(it->rounds);
    it->rounds = NULL;
}

/* ---------------------------------------------------------------- the schedule as a message */

static Millrace__RoundSchedule *schedule_of(const struct mr_iteration *it)
{
    return it->rounds->rec->schedule;
}

static Millrace__RoundSegment *last_segment(const struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = schedule_of(it);

    return schedule->segments[schedule->n_segments - 1];
}

/* One more at the end of the array *@list of @n pointers. */
static bool add(mr_core *core, void *list, size_t n, void *one)
{
    void ***slot = list;
    void **bigger = one != NULL ? mr_reallocarray(*slot, n + 1, sizeof(void *)) : NULL;

    if (bigger == NULL) {
        mr_core_nomem(core);
        mr_record_free(one);
        return false;
    }
    bigger[n] = one;
    *slot = bigger;
    return true;
}

static uint32_t add_task(mr_core *core, Millrace__RoundSchedule *schedule, const char *id)
{
    uint32_t i = mr_schedule_find(schedule, id);
    char **bigger;

    if (i != MR_ROUND_NOBODY) {
        return i;
    }
    bigger = mr_reallocarray(schedule->tasks, schedule->n_tasks + 1, sizeof *bigger);
    if (bigger == NULL) {
        mr_core_nomem(core);
        return 0;
    }
    schedule->tasks = bigger;
    mr_core_set_element(core, &bigger[schedule->n_tasks], id);
    return (uint32_t)schedule->n_tasks++;
}

static void add_segment(mr_core *core, Millrace__RoundSchedule *schedule, uint64_t from, const uint32_t *tasks,
                        size_t n)
{
    Millrace__RoundSegment *segment = mr_core_new_record(core, &millrace__round_segment__descriptor);

    if (segment == NULL) {
        return;
    }
    segment->from_round = from;
    segment->tasks = mr_reallocarray(NULL, n + 1, sizeof *segment->tasks);
    if (segment->tasks == NULL) {
        mr_core_nomem(core);
        mr_record_free(segment);
        return;
    }
    if (n > 0) {
        memcpy(segment->tasks, tasks, n * sizeof *tasks);
    }
    segment->n_tasks = n;
    if (add(core, &schedule->segments, schedule->n_segments, segment)) {
        schedule->n_segments++;
    }
}

static void add_outcome(mr_core *core, struct mr_iteration *it, uint32_t task, uint64_t delivered)
{
    Millrace__RoundOutcome *outcome = mr_core_new_record(core, &millrace__round_outcome__descriptor);
    Millrace__RoundSchedule *schedule = schedule_of(it);
    uint64_t horizon = it->rounds->rec->horizon;

    if (outcome == NULL) {
        return;
    }
    outcome->task = task;
    outcome->delivered_below = delivered < horizon ? delivered : horizon;
    outcome->void_below = horizon;
    if (add(core, &schedule->outcomes, schedule->n_outcomes, outcome)) {
        schedule->n_outcomes++;
    }
    it->rounds->unwritten = true;
    mr_rounds_note(core, it, true);
}

/* ---------------------------------------------------------------- what nobody needs any more */

/* All rounds below are over for every consumer; 0 while one of them is not there or has not said so. */
static uint64_t passed_below(const mr_core *core, const struct mr_iteration *it)
{
    uint64_t least = MR_ROUND_NEVER;

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (!seat->known || mr_seat_client(core, it, seat) == NULL) {
            return 0;
        }
        least = seat->position < least ? seat->position : least;
    }
    return least;
}

static bool is_used(const Millrace__RoundSchedule *schedule, uint32_t task, size_t from_segment)
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

/* The schedule without its first @drop segments, and without what only they named. */
static Millrace__RoundSchedule *without_first(mr_core *core, const Millrace__RoundSchedule *schedule, size_t drop)
{
    Millrace__RoundSchedule *rest = mr_core_new_record(core, &millrace__round_schedule__descriptor);
    uint32_t map[MR_ROUND_TASKS_MAX];

    if (rest == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        map[i] = is_used(schedule, i, drop) ? add_task(core, rest, schedule->tasks[i]) : MR_ROUND_NOBODY;
    }
    for (size_t i = drop; i < schedule->n_segments && core->failed == 0; i++) {
        const Millrace__RoundSegment *segment = schedule->segments[i];

        add_segment(core, rest, segment->from_round, segment->tasks, segment->n_tasks);
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
        outcome = mr_core_new_record(core, &millrace__round_outcome__descriptor);
        if (outcome != NULL) {
            outcome->task = map[old->task];
            outcome->delivered_below = old->delivered_below;
            outcome->void_below = old->void_below;
        }
        if (add(core, &rest->outcomes, rest->n_outcomes, outcome)) {
            rest->n_outcomes++;
        }
    }
    return rest;
}

/* Behind the last round before segment @segment that counts. */
static uint64_t counts_below(const Millrace__RoundSchedule *schedule, size_t segment)
{
    uint64_t end = schedule->segments[segment]->from_round;
    uint64_t most = 0;

    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        const Millrace__RoundOutcome *outcome = mr_schedule_outcome(schedule, i);
        uint64_t below = outcome != NULL && outcome->delivered_below < end ? outcome->delivered_below : end;
        uint64_t behind = mr_schedule_behind(schedule, i, below);

        most = behind > most ? behind : most;
    }
    return most;
}

/* With a write that is to be made anyway. */
static void prune(mr_core *core, struct mr_iteration *it)
{
    Millrace__RoundSchedule *schedule = schedule_of(it);
    size_t drop = mr_schedule_segment(schedule, passed_below(core, it));
    Millrace__RoundSchedule *rest;

    for (uint32_t i = 0; i < schedule->n_tasks && drop > 0; i++) {
        /* What is in doubt is not forgotten, wherever its turns were. */
        drop = mr_rounds_is_closing(it, i, core) && !is_used(schedule, i, drop) ? 0 : drop;
    }
    if (drop == 0) {
        return;
    }
    rest = without_first(core, schedule, drop);
    if (rest != NULL) {
        uint64_t counts = counts_below(schedule, drop);

        if (counts > it->rounds->rec->forgotten_below) {
            it->rounds->rec->forgotten_below = counts;
        }
        mr_record_free(schedule);
        it->rounds->rec->schedule = rest;
        mr_rounds_note(core, it, true);
    }
}

/* ---------------------------------------------------------------- horizon */

/* So many rounds in @ms. */
static uint64_t rounds_in(const struct mr_coordination *rounds, uint64_t ms)
{
    uint64_t n;

    if (__builtin_mul_overflow(rounds->pace, ms, &n)) {
        return MR_COUNT_SAID_MAX;
    }
    return n / 1000000 < MR_COUNT_SAID_MAX ? n / 1000000 : MR_COUNT_SAID_MAX;
}

static uint64_t furthest(const struct mr_coordination *rounds)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < rounds->n; i++) {
        most = rounds->seats[i].known && rounds->seats[i].position > most ? rounds->seats[i].position : most;
    }
    return most;
}

/* From what the consumer that has read most was seen to return, void rounds not counted. */
static void measure_pace(mr_core *core, struct mr_coordination *rounds)
{
    uint64_t progress = 0;
    uint64_t pace;
    int64_t ms;

    for (uint32_t i = 0; i < rounds->n; i++) {
        progress = rounds->seats[i].progress > progress ? rounds->seats[i].progress : progress;
    }
    if (rounds->pace_since == MR_NEVER) {
        rounds->pace_since = core->now;
        rounds->pace_progress = progress;
        return;
    }
    ms = core->now - rounds->pace_since;
    if (ms < (rounds->pace == 0 ? MR_REPORT_MS / 20 : MR_REPORT_MS)) {
        return;
    }
    pace = (progress - rounds->pace_progress) * 1000000 / (uint64_t)ms;
    /* Slower at once would move the horizon at the first pause; faster has to. */
    rounds->pace = pace > rounds->pace ? pace : (pace + rounds->pace) / 2;
    rounds->pace_since = core->now;
    rounds->pace_progress = progress;
}

static void set_horizon(mr_core *core, struct mr_iteration *it, uint64_t from)
{
    uint64_t ahead = rounds_in(it->rounds, MR_HORIZON_MS) + MR_HORIZON_ROUNDS;
    uint64_t horizon;

    if (__builtin_add_overflow(from, ahead, &horizon) || horizon <= it->rounds->rec->horizon) {
        return;
    }
    it->rounds->rec->horizon = horizon;
    it->rounds->unwritten = true;
    mr_rounds_note(core, it, false);
}

void mr_rounds_move_horizon(mr_core *core, struct mr_iteration *it)
{
    struct mr_coordination *rounds = it->rounds;
    uint64_t position = furthest(rounds);
    uint64_t left = rounds->rec->horizon > position ? rounds->rec->horizon - position : 0;
    uint64_t want = rounds_in(rounds, MR_HORIZON_LEFT_MS);

    measure_pace(core, rounds);
    want = want > MR_HORIZON_ROUNDS / 2 ? want : MR_HORIZON_ROUNDS / 2;
    if (left > want || last_segment(it)->n_tasks == 0) {
        return;
    }
    set_horizon(core, it, position);
    if (rounds->unwritten) {
        prune(core, it);
    }
}

/* ---------------------------------------------------------------- turns */

static bool is_open(const mr_core *core, const char *task_id)
{
    const struct mr_task *task = mr_task_find(core, task_id);

    return task != NULL && task->state == MR_TASK_OPEN;
}

bool mr_rounds_is_closing(const struct mr_iteration *it, uint32_t i, const mr_core *core)
{
    const Millrace__RoundSchedule *schedule = schedule_of(it);

    return !is_open(core, schedule->tasks[i]) && mr_schedule_outcome(schedule, i) == NULL;
}

bool mr_rounds_are_settled(const mr_core *core, const struct mr_iteration *it)
{
    if (it->rounds == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];
        bool there = mr_seat_client(core, it, seat) != NULL;

        if (there && (!seat->known || seat->position < mr_rounds_end(it))) {
            return false;
        }
    }
    return schedule_of(it)->n_tasks == schedule_of(it)->n_outcomes;
}

/* Who takes turns from the horizon on: whoever does now and is not over, then whoever came. Returns how many. */
static size_t next_turns(mr_core *core, struct mr_iteration *it, uint32_t *turns, bool *changed)
{
    Millrace__RoundSchedule *schedule = schedule_of(it);
    const Millrace__RoundSegment *last = last_segment(it);
    const struct mr_task *task;
    size_t n = 0;

    for (size_t i = 0; i < last->n_tasks; i++) {
        if (mr_schedule_outcome(schedule, last->tasks[i]) == NULL) {
            turns[n++] = last->tasks[i];
        }
    }
    *changed = n != last->n_tasks;
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        /* A task takes turns from when it joins until it is over. */
        if (task->state != MR_TASK_OPEN || mr_schedule_find(schedule, task->id) != MR_ROUND_NOBODY) {
            continue;
        }
        if (schedule->n_tasks == MR_ROUND_TASKS_MAX) {
            break;
        }
        turns[n++] = add_task(core, schedule, task->id);
        *changed = true;
    }
    return n;
}

static void take_turns(mr_core *core, struct mr_iteration *it)
{
    Millrace__RoundSchedule *schedule = schedule_of(it);
    uint64_t horizon = it->rounds->rec->horizon;
    uint32_t turns[MR_ROUND_TASKS_MAX];
    bool changed;
    size_t n = next_turns(core, it, turns, &changed);

    if (!changed || core->failed != 0) {
        return;
    }
    if (last_segment(it)->from_round == horizon) { /* nobody can have begun it */
        mr_record_free(schedule->segments[--schedule->n_segments]);
    }
    add_segment(core, schedule, horizon, turns, n);
    if (core->failed != 0) {
        return;
    }
    mr_core_trace(core, "iteration %s: %zu tasks take turns from round %" PRIu64, it->rec->id, n, horizon);
    it->rounds->unwritten = true;
    prune(core, it);
    if (n > 0 && furthest(it->rounds) + MR_HORIZON_ROUNDS / 2 >= horizon) {
        set_horizon(core, it, horizon);
    }
    mr_rounds_note(core, it, true);
}

void mr_rounds_begin(mr_core *core, struct mr_iteration *it)
{
    Millrace__RoundsRecord *rec = mr_core_new_record(core, &millrace__rounds_record__descriptor);

    if (rec == NULL) {
        return;
    }
    it->rounds->rec = rec;
    rec->schedule = mr_core_new_record(core, &millrace__round_schedule__descriptor);
    if (rec->schedule == NULL) {
        return;
    }
    add_segment(core, rec->schedule, 0, NULL, 0);
    it->rounds->unwritten = true;
    if (core->failed == 0) {
        take_turns(core, it);
        mr_rounds_write(core, it);
    }
}

/* ---------------------------------------------------------------- outcomes */

void mr_rounds_note_end(mr_core *core, const struct mr_task *task, uint64_t end_round)
{
    struct mr_iteration *it = task->iteration;
    uint32_t i = mr_schedule_find(schedule_of(it), task->id);

    if (i != MR_ROUND_NOBODY && mr_schedule_outcome(schedule_of(it), i) == NULL) {
        add_outcome(core, it, i, end_round);
        mr_core_trace(core, "task %s: ended before round %" PRIu64, task->id, end_round);
    }
}

/*
 * Behind the last round of task @i that counts: somebody has returned it, or all have it. A place that nobody has holds
 * nothing: whoever takes it begins behind what others have returned. Where its worker has come to its end nothing more
 * counts, though positions may be far beyond. False: somebody has not reported.
 */
static bool judge(const mr_core *core, const struct mr_iteration *it, uint32_t i, uint64_t *delivered)
{
    const Millrace__RoundSchedule *schedule = schedule_of(it);
    uint64_t returned = 0, held = MR_ROUND_NEVER, end = MR_ROUND_NEVER;

    for (uint32_t k = 0; k < it->rounds->n; k++) {
        const struct mr_seat *seat = &it->rounds->seats[k];
        const struct mr_held *report;
        uint64_t below;

        if (mr_seat_client(core, it, seat) == NULL) {
            held = 0;
            continue;
        }
        report = mr_seat_held(seat, schedule->tasks[i]);
        if (report == NULL) {
            return false;
        }
        below = report->below > seat->from ? report->below : seat->from;
        held = below < held ? below : held;
        end = report->end < end ? report->end : end;
        /* Whoever has returned nothing may have passed over void rounds. */
        if (seat->returned > 0 && seat->position > returned) {
            returned = seat->position;
        }
    }
    held = held > returned ? held : returned;
    *delivered = mr_schedule_behind(schedule, i, held < end ? held : end);
    return true;
}

/* Decide about whoever all consumers have reported on. */
static void decide(mr_core *core, struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = schedule_of(it);

    for (uint32_t i = 0; i < schedule->n_tasks && core->failed == 0; i++) {
        uint64_t delivered;

        if (!mr_rounds_is_closing(it, i, core)) {
            continue;
        }
        /* Whoever never had a turn below the horizon has nothing that could be in doubt. */
        if (mr_schedule_next(schedule, i, 0) >= it->rounds->rec->horizon) {
            add_outcome(core, it, i, 0);
        } else if (judge(core, it, i, &delivered)) {
            add_outcome(core, it, i, delivered);
            mr_core_trace(core, "task %s: its rounds below %" PRIu64 " count, those up to %" PRIu64 " are void",
                          schedule->tasks[i], delivered, it->rounds->rec->horizon);
        }
    }
}

static bool any_closing(const mr_core *core, const struct mr_iteration *it)
{
    for (uint32_t i = 0; i < schedule_of(it)->n_tasks; i++) {
        if (mr_rounds_is_closing(it, i, core)) {
            return true;
        }
    }
    return false;
}

void mr_rounds_settle(mr_core *core, struct mr_iteration *it)
{
    if (it->rounds == NULL) {
        return;
    }
    if (any_closing(core, it)) {
        mr_rounds_note(core, it, false);
        if (mr_consumers_vacate(core, it)) {
            decide(core, it);
        } else {
            mr_iteration_unsettle(core, it);
        }
    }
    if (core->failed == 0) {
        take_turns(core, it);
    }
}

uint64_t mr_rounds_end(const struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule;
    uint64_t end;

    if (it->rounds == NULL) {
        return 0;
    }
    schedule = schedule_of(it);
    end = schedule->segments[0]->from_round;
    for (size_t i = 0; i < schedule->n_outcomes; i++) {
        const Millrace__RoundOutcome *outcome = schedule->outcomes[i];
        uint64_t behind = mr_schedule_behind(schedule, outcome->task, outcome->delivered_below);

        end = behind > end ? behind : end;
    }
    return end;
}

/* ---------------------------------------------------------------- what others are told */

static void copy_schedule(mr_core *core, const struct mr_iteration *it, Millrace__RoundsUpdate *update)
{
    update->schedule = without_first(core, schedule_of(it), 0);
}

Millrace__RoundsUpdate *mr_rounds_update_of(mr_core *core, const struct mr_iteration *it, bool with_schedule)
{
    Millrace__RoundsUpdate *update = mr_core_new_record(core, &millrace__rounds_update__descriptor);
    const struct mr_coordination *rounds = it->rounds;

    if (update == NULL) {
        return NULL;
    }
    update->horizon = rounds->rec->horizon;
    update->ask = rounds->ask;
    mr_core_set(core, &update->refused, rounds->refused);
    if (with_schedule) {
        copy_schedule(core, it, update);
    }
    update->sessions = mr_reallocarray(NULL, rounds->n, sizeof *update->sessions);
    update->closing = mr_calloc(schedule_of(it)->n_tasks + 1, sizeof *update->closing);
    if (update->sessions == NULL || update->closing == NULL) {
        mr_core_nomem(core);
        return update;
    }
    for (uint32_t i = 0; i < rounds->n; i++) {
        update->sessions[update->n_sessions++] = rounds->seats[i].rec != NULL ? rounds->seats[i].rec->session : 0;
    }
    for (uint32_t i = 0; i < schedule_of(it)->n_tasks; i++) {
        if (mr_rounds_is_closing(it, i, core)) {
            mr_core_set_element(core, &update->closing[update->n_closing++], schedule_of(it)->tasks[i]);
        }
    }
    return update;
}

/* Its turns in segment @s of the schedule, if it has some there. */
static void assign_span(mr_core *core, const struct mr_iteration *it, uint32_t task, size_t s,
                        Millrace__RoundAssignment *assignment)
{
    const Millrace__RoundSchedule *schedule = schedule_of(it);
    const Millrace__RoundSegment *segment = schedule->segments[s];
    uint64_t first = mr_schedule_next(schedule, task, segment->from_round);
    uint64_t end = mr_schedule_segment_end(schedule, s);
    Millrace__RoundSpan *span;

    if (first >= end || segment->n_tasks == 0) {
        return;
    }
    span = mr_core_new_record(core, &millrace__round_span__descriptor);
    if (span != NULL) {
        span->first = first;
        span->stride = segment->n_tasks;
        span->end = end != MR_ROUND_NEVER ? end : 0;
    }
    if (add(core, &assignment->spans, assignment->n_spans, span)) {
        assignment->n_spans++;
    }
}

Millrace__RoundAssignment *mr_rounds_assignment_of(mr_core *core, const struct mr_task *task)
{
    Millrace__RoundAssignment *assignment = mr_core_new_record(core, &millrace__round_assignment__descriptor);
    const struct mr_iteration *it = task->iteration;
    const struct mr_coordination *rounds = it->rounds;
    uint32_t i = mr_schedule_find(schedule_of(it), task->id);

    if (assignment == NULL) {
        return NULL;
    }
    assignment->num_consumers = rounds->n;
    assignment->last_round = it->job->rec->last_round;
    assignment->horizon = rounds->rec->horizon;
    assignment->sessions = mr_reallocarray(NULL, rounds->n, sizeof *assignment->sessions);
    if (assignment->sessions == NULL) {
        mr_core_nomem(core);
        return assignment;
    }
    for (uint32_t k = 0; k < rounds->n; k++) {
        assignment->sessions[assignment->n_sessions++] =
            rounds->seats[k].rec != NULL ? rounds->seats[k].rec->session : 0;
    }
    for (size_t s = 0; i != MR_ROUND_NOBODY && s < schedule_of(it)->n_segments && core->failed == 0; s++) {
        assign_span(core, it, i, s, assignment);
    }
    return assignment;
}

/* ---------------------------------------------------------------- takeover, invariants */

int mr_rounds_ready(mr_core *core, mr_error *err)
{
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (it->rounds != NULL && it->rounds->rec == NULL) {
            return mr_error_set(err, MR_EDATALOSS, "'rounds/%s' is missing: its job reads in rounds", it->rec->id);
        }
    }
    return MR_OK;
}

int mr_rounds_check(const mr_core *core, const struct mr_iteration *it, mr_error *err)
{
    const struct mr_coordination *rounds = it->rounds;
    bool expected = mr_job_is_coordinated(it->job) && !it->rec->finished;
    int rc;

    if ((rounds != NULL) != expected) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s %s rounds", it->rec->id, expected ? "has no" : "has");
    }
    if (rounds == NULL) {
        return MR_OK;
    }
    if (rounds->n != it->job->rec->num_consumers || rounds->unwritten || rounds->moved) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s: its rounds are not written or not told", it->rec->id);
    }
    rc = mr_schedule_check(rounds->rec->schedule, err);
    if (rc < 0) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s: its schedule is out of order", it->rec->id);
    }
    if (last_segment(it)->from_round > rounds->rec->horizon) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s: a segment begins beyond the horizon", it->rec->id);
    }
    for (uint32_t i = 0; i < rounds->n; i++) {
        const struct mr_seat *seat = &rounds->seats[i];

        if (seat->rec == NULL ? seat->known : seat->rec->session == 0) {
            return mr_error_set(err, MR_EINTERNAL, "iteration %s: nobody has place %u, and it is known", it->rec->id,
                                i);
        }
    }
    return core->ready ? MR_OK : rc;
}
