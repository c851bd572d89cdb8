/*
 * Coordinated reads, as far as they are the leader's to decide: who takes turns and, once for all,
 * what became of the rounds of a worker that was lost.
 *
 *     open ──(lost: closing)──► in doubt ──(all consumers have reported)──► outcome
 *       ╰──(ended by itself)──────────────────────────────────────────────►┘
 *
 * That a task is closing is derived: it takes turns, is not open, and has no outcome. One
 * transaction writes the outcome with a segment without the task, from the horizon on, where nobody
 * can be yet; so everything below the horizon is decided, and a next leader, which has to ask again
 * if this one was not committed, has told nobody anything else.
 */
#include "dispatcher/rules/rules.h"

/* ---------------------------------------------------------------- the horizon */

/* How far consumers may go before the leader writes again. The pace is measured, so that one write
 * serves some seconds of reading, however fast that is. */

/* So many rounds in @ms. */
static uint64_t rounds_in(const struct mr_coordination *rounds, uint64_t ms)
{
    uint64_t n;

    if (__builtin_mul_overflow(rounds->pace, ms, &n)) {
        return MR_COUNT_SAID_MAX;
    }
    return MR_MIN(n / 1000000, MR_COUNT_SAID_MAX);
}

static uint64_t furthest(const struct mr_coordination *rounds)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < rounds->n; i++) {
        most = rounds->seats[i].known && rounds->seats[i].position > most
                   ? rounds->seats[i].position
                   : most;
    }
    return most;
}

/* From what the consumer that has read most was seen to return, void rounds not counted. */
static void measure_pace(mr_core *core, struct mr_iteration *it)
{
    const struct mr_coordination *rounds = it->rounds;
    uint64_t progress = 0;
    uint64_t pace;
    int64_t ms;

    for (uint32_t i = 0; i < rounds->n; i++) {
        progress = MR_MAX(rounds->seats[i].progress, progress);
    }
    if (rounds->pace_since == MR_NEVER) {
        MR_APPLY(core, pace_measured, it, rounds->pace, progress);
        return;
    }
    ms = core->now - rounds->pace_since;
    if (ms < (rounds->pace == 0 ? MR_REPORT_MS / 20 : MR_REPORT_MS)) {
        return;
    }
    pace = (progress - rounds->pace_progress) * 1000000 / (uint64_t)ms;
    /* Slower at once would move the horizon at the first pause; faster has to. */
    MR_APPLY(core, pace_measured, it, pace > rounds->pace ? pace : (pace + rounds->pace) / 2,
             progress);
}

static bool set_horizon(mr_core *core, struct mr_iteration *it, uint64_t from)
{
    uint64_t ahead = rounds_in(it->rounds, MR_HORIZON_MS) + MR_HORIZON_ROUNDS;
    uint64_t horizon;

    if (__builtin_add_overflow(from, ahead, &horizon) || horizon <= it->rounds->rec->horizon) {
        return false;
    }
    MR_APPLY(core, horizon_moved, it, horizon);
    return true;
}

/* All rounds below are over for every consumer; 0 while one of them is not there or has not said
 * so. */
static uint64_t passed_below(const mr_core *core, const struct mr_iteration *it)
{
    uint64_t least = MR_ROUND_NEVER;

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (!seat->known || mr_seat_client(core, it, seat) == NULL) {
            return 0;
        }
        least = MR_MIN(seat->position, least);
    }
    return least;
}

/* Behind the last round before segment @segment that counts. */
static uint64_t counts_below(const Millrace__RoundSchedule *schedule, size_t segment)
{
    uint64_t end = schedule->segments[segment]->from_round;
    uint64_t most = 0;

    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        const Millrace__RoundOutcome *outcome = mr_schedule_outcome(schedule, i);
        uint64_t below =
            outcome != NULL && outcome->delivered_below < end ? outcome->delivered_below : end;
        uint64_t behind = mr_schedule_behind(schedule, i, below);

        most = MR_MAX(behind, most);
    }
    return most;
}

static void prune(mr_core *core, struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);
    size_t drop = mr_schedule_segment(schedule, passed_below(core, it));

    for (uint32_t i = 0; i < schedule->n_tasks && drop > 0; i++) {
        /* What is in doubt is not forgotten, wherever its turns were. */
        drop =
            mr_rounds_is_closing(it, i, core) && !mr_rounds_is_used(schedule, i, drop) ? 0 : drop;
    }
    if (drop > 0) {
        MR_APPLY(core, rounds_pruned, it, drop, counts_below(schedule, drop));
    }
}

void mr_rounds_move_horizon(mr_core *core, struct mr_iteration *it)
{
    const struct mr_coordination *rounds = it->rounds;
    uint64_t position = furthest(rounds);
    uint64_t left = rounds->rec->horizon > position ? rounds->rec->horizon - position : 0;
    uint64_t want = rounds_in(rounds, MR_HORIZON_LEFT_MS);

    measure_pace(core, it);
    want = MR_MAX(want, MR_HORIZON_ROUNDS / 2);
    if (left > want || mr_rounds_last_segment(it)->n_tasks == 0) {
        return;
    }
    if (set_horizon(core, it, position)) {
        prune(core, it);
    }
}

/* ---------------------------------------------------------------- turns and outcomes */

static bool vacate(mr_core *core, struct mr_iteration *it)
{
    struct mr_coordination *rounds = it->rounds;
    uint32_t vacated = 0;

    for (uint32_t i = 0; i < rounds->n; i++) {
        const struct mr_seat *seat = &rounds->seats[i];

        if (seat->rec == NULL || seat->rec->client[0] == '\0' ||
            mr_seat_client(core, it, seat) != NULL) {
            continue;
        }
        if (vacated++ == MR_VACATE_MAX) {
            return false;
        }
        mr_core_note(core, "iteration %s: consumer %u is gone: its place is free", it->rec->id, i);
        MR_APPLY(core, seat_vacated, it, i);
    }
    return true;
}

static bool may_end(const mr_core *core, const struct mr_iteration *it)
{
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];
        bool there = mr_seat_client(core, it, seat) != NULL;

        if (there && (!seat->known || seat->position < mr_rounds_end(it))) {
            return false;
        }
    }
    return mr_rounds_schedule(it)->n_tasks == mr_rounds_schedule(it)->n_outcomes;
}

/* Who takes turns from the horizon on: whoever does now and is not over, then whoever came. */
static void take_turns(mr_core *core, struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);
    const Millrace__RoundSegment *last = mr_rounds_last_segment(it);
    const struct mr_task *task, *added[MR_ROUND_TASKS_MAX];
    uint64_t horizon = it->rounds->rec->horizon;
    uint32_t turns[MR_ROUND_TASKS_MAX];
    size_t n = 0, nadded = 0;

    for (size_t i = 0; i < last->n_tasks; i++) {
        if (mr_schedule_outcome(schedule, last->tasks[i]) == NULL) {
            turns[n++] = last->tasks[i];
        }
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        /* A task takes turns from when it joins until it is over. */
        if (task->state == MR_TASK_OPEN && schedule->n_tasks + nadded < MR_ROUND_TASKS_MAX &&
            mr_schedule_find(schedule, task->id) == MR_ROUND_NOBODY) {
            added[nadded++] = task;
        }
    }
    if (n == last->n_tasks && nadded == 0) {
        return;
    }
    MR_APPLY(core, turns_changed, it, turns, n, added, nadded);
    if (core->failed != 0) {
        return;
    }
    mr_core_trace(core, "iteration %s: %zu tasks take turns from round %" PRIu64, it->rec->id,
                  n + nadded, horizon);
    prune(core, it);
    if (n + nadded > 0 && furthest(it->rounds) + MR_HORIZON_ROUNDS / 2 >= horizon) {
        set_horizon(core, it, horizon);
    }
}

static void begin(mr_core *core, struct mr_iteration *it)
{
    MR_APPLY(core, rounds_begun, it);
    if (core->failed == 0) {
        take_turns(core, it);
        mr_iteration_note_assignments(core, it);
    }
}

static void task_ends(mr_core *core, const struct mr_task *task,
                      const Millrace__TaskEndedRequest *in)
{
    struct mr_iteration *it = task->iteration;
    uint32_t i = mr_schedule_find(mr_rounds_schedule(it), task->id);

    if (i != MR_ROUND_NOBODY && mr_schedule_outcome(mr_rounds_schedule(it), i) == NULL) {
        MR_APPLY(core, rounds_decided, it, i, in->end_round);
        mr_core_trace(core, "task %s: ended before round %" PRIu64, task->id, in->end_round);
    }
}

/* Behind the last round of task @i that counts: somebody has returned it, or all have it. A place
 * that nobody has holds nothing: whoever takes it begins behind what others have returned. Where
 * its worker has come to its end nothing more counts, though positions may be far beyond. False:
 * somebody has not reported. */
static bool judge(const mr_core *core, const struct mr_iteration *it, uint32_t i,
                  uint64_t *delivered)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);
    uint64_t returned = 0, held = MR_ROUND_NEVER, end = MR_ROUND_NEVER;

    for (uint32_t k = 0; k < it->rounds->n; k++) {
        const struct mr_seat *seat = &it->rounds->seats[k];
        const struct mr_held_turns *report;
        uint64_t below;

        if (mr_seat_client(core, it, seat) == NULL) {
            held = 0;
            continue;
        }
        report = mr_seat_held(seat, schedule->tasks[i]);
        if (report == NULL) {
            return false;
        }
        below = MR_MAX(report->below, seat->from);
        held = MR_MIN(below, held);
        end = MR_MIN(report->end, end);
        /* Whoever has returned nothing may have passed over void rounds; and what is before its
         * first one nobody has returned because of it. */
        below = seat->returned > 0 ? mr_schedule_behind(schedule, i, seat->position) : 0;
        if (below > seat->from && below > returned) {
            returned = below;
        }
    }
    held = MR_MAX(held, returned);
    *delivered = mr_schedule_behind(schedule, i, MR_MIN(held, end));
    return true;
}

/* Decide about whoever all consumers have reported on. */
static void decide(mr_core *core, struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);

    for (uint32_t i = 0; i < schedule->n_tasks && core->failed == 0; i++) {
        uint64_t delivered;

        if (!mr_rounds_is_closing(it, i, core)) {
            continue;
        }
        /* Whoever never had a turn below the horizon has nothing that could be in doubt. */
        if (mr_schedule_next(schedule, i, 0) >= it->rounds->rec->horizon) {
            MR_APPLY(core, rounds_decided, it, i, 0);
        } else if (judge(core, it, i, &delivered)) {
            MR_APPLY(core, rounds_decided, it, i, delivered);
            mr_core_trace(core,
                          "task %s: its rounds below %" PRIu64 " count, those up to %" PRIu64
                          " are void",
                          schedule->tasks[i], delivered, it->rounds->rec->horizon);
        }
    }
}

static bool any_closing(const mr_core *core, const struct mr_iteration *it)
{
    for (uint32_t i = 0; i < mr_rounds_schedule(it)->n_tasks; i++) {
        if (mr_rounds_is_closing(it, i, core)) {
            return true;
        }
    }
    return false;
}

static void look(mr_core *core, struct mr_iteration *it)
{
    if (any_closing(core, it)) {
        mr_rounds_note(core, it, false);
        if (vacate(core, it)) {
            decide(core, it);
        } else {
            mr_iteration_mark(core, it);
        }
    }
    if (core->failed == 0) {
        take_turns(core, it);
    }
}

static size_t changes(const struct mr_iteration *it)
{
    return 2 + MR_ROUNDS_CHANGES;
}

const struct mr_iteration_rules mr_rounds_rules = {
    .name = "rounds",
    .closes_refusing = true,
    .recovers = true,
    .begin = begin,
    .attach = mr_consumer_take,
    .answer = mr_consumer_reply,
    .changes = changes,
    .look = look,
    .may_end = may_end,
    .task_ends = task_ends,
};
