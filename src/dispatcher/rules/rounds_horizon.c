/*
 * How far consumers may go before the leader writes again. The pace is measured, so that one write
 * serves some seconds of reading, however fast that is.
 */
#include "dispatcher/rules/rules.h"

/* So many rounds in @ms. */
static uint64_t rounds_in(const struct mr_coordination *rounds, uint64_t ms)
{
    uint64_t n;

    if (__builtin_mul_overflow(rounds->pace, ms, &n)) {
        return MR_COUNT_SAID_MAX;
    }
    return n / 1000000 < MR_COUNT_SAID_MAX ? n / 1000000 : MR_COUNT_SAID_MAX;
}

uint64_t mr_rounds_furthest(const struct mr_coordination *rounds)
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
        progress = rounds->seats[i].progress > progress ? rounds->seats[i].progress : progress;
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

bool mr_rounds_set_horizon(mr_core *core, struct mr_iteration *it, uint64_t from)
{
    uint64_t ahead = rounds_in(it->rounds, MR_HORIZON_MS) + MR_HORIZON_ROUNDS;
    uint64_t horizon;

    if (__builtin_add_overflow(from, ahead, &horizon) || horizon <= it->rounds->rec->horizon) {
        return false;
    }
    MR_APPLY(core, horizon_moved, it, horizon);
    return true;
}

void mr_rounds_move_horizon(mr_core *core, struct mr_iteration *it)
{
    const struct mr_coordination *rounds = it->rounds;
    uint64_t position = mr_rounds_furthest(rounds);
    uint64_t left = rounds->rec->horizon > position ? rounds->rec->horizon - position : 0;
    uint64_t want = rounds_in(rounds, MR_HORIZON_LEFT_MS);

    measure_pace(core, it);
    want = want > MR_HORIZON_ROUNDS / 2 ? want : MR_HORIZON_ROUNDS / 2;
    if (left > want || mr_rounds_last_segment(it)->n_tasks == 0) {
        return;
    }
    if (mr_rounds_set_horizon(core, it, position)) {
        mr_rounds_prune(core, it);
    }
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
        least = seat->position < least ? seat->position : least;
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

        most = behind > most ? behind : most;
    }
    return most;
}

void mr_rounds_prune(mr_core *core, struct mr_iteration *it)
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
