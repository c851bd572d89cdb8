/* Updates of coordinated reads: the schedule of an iteration, and the places of its consumers.
 * Schedule and sessions are durable as far as anybody acts on them; positions, paces and reports
 * are heard anew by each leader. */
#include "dispatcher/model/apply.h"

#include "base/rng.h"

struct mr_coordination *mr_coordination_new(mr_core *core, const struct mr_job *job)
{
    struct mr_coordination *rounds = mr_core_alloc(core, 1, sizeof *rounds);

    if (rounds == NULL) {
        return NULL;
    }
    rounds->n = job->rec->num_consumers;
    rounds->asked = rounds->pace_since = MR_NEVER;
    rounds->seats = mr_core_alloc(core, rounds->n, sizeof *rounds->seats);
    if (rounds->seats == NULL) {
        mr_free(rounds);
        return NULL;
    }
    return rounds;
}

/* What was heard in a session that is over. */
static void clear_seat(struct mr_seat *seat)
{
    mr_free(seat->held);
    seat->held = NULL;
    seat->nheld = 0;
    seat->known = false;
    seat->from = seat->position = seat->returned = seat->answered = 0;
    seat->missed_ms = 0;
}

void mr_coordination_free(struct mr_coordination *rounds)
{
    if (rounds == NULL) {
        return;
    }
    for (uint32_t i = 0; i < rounds->n; i++) {
        mr_record_free(rounds->seats[i].rec);
        clear_seat(&rounds->seats[i]);
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

static void drop_consumers(mr_core *core, struct mr_iteration *it)
{
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        if (it->rounds->seats[i].rec != NULL) {
            mr_leave_over(core, MR_STORED_CONSUMER, it, i);
        }
    }
}

void mr_rounds_drop(mr_core *core, struct mr_iteration *it)
{
    if (it->rounds == NULL) {
        return;
    }
    if (it->rounds->rec != NULL) {
        mr_leave_over(core, MR_STORED_ROUNDS, it, 0);
    }
    drop_consumers(core, it);
    mr_coordination_free(it->rounds);
    it->rounds = NULL;
}

/* ---------------------------------------------------------------- the schedule */

void mr_apply_rounds_begun(mr_core *core, const struct mr_rounds_begun *u)
{
    Millrace__RoundsRecord *rec = MR_NEW_RECORD(core, rounds_record);

    if (rec == NULL) {
        return;
    }
    u->iteration->rounds->rec = rec;
    rec->schedule = MR_NEW_RECORD(core, round_schedule);
    if (rec->schedule != NULL) {
        mr_rounds_add_segment(core, rec->schedule, 0, NULL, 0);
    }
    mr_touch(core, MR_STORED_ROUNDS, u->iteration, 0);
}

void mr_apply_turns_changed(mr_core *core, const struct mr_turns_changed *u)
{
    Millrace__RoundSchedule *schedule = mr_rounds_schedule(u->iteration);
    uint64_t horizon = u->iteration->rounds->rec->horizon;
    uint32_t turns[MR_ROUND_TASKS_MAX];
    size_t n = u->n;

    memcpy(turns, u->tasks, n * sizeof *turns);
    for (size_t i = 0; i < u->nadded; i++) {
        turns[n++] = mr_rounds_add_task(core, schedule, u->added[i]->id);
    }
    if (core->failed != 0) {
        return;
    }
    /* nobody can have begun it */
    if (mr_rounds_last_segment(u->iteration)->from_round == horizon) {
        mr_record_free(schedule->segments[--schedule->n_segments]);
    }
    mr_rounds_add_segment(core, schedule, horizon, turns, n);
    mr_touch(core, MR_STORED_ROUNDS, u->iteration, 0);
    mr_rounds_note(core, u->iteration, true);
}

void mr_apply_rounds_decided(mr_core *core, const struct mr_rounds_decided *u)
{
    struct mr_iteration *it = u->iteration;
    Millrace__RoundOutcome *outcome =
        MR_ADD_RECORD(core, mr_rounds_schedule(it), outcomes, round_outcome);
    uint64_t horizon = it->rounds->rec->horizon;

    if (outcome == NULL) {
        return;
    }
    outcome->task = u->task;
    outcome->delivered_below = MR_MIN(u->delivered_below, horizon);
    outcome->void_below = horizon;
    mr_touch(core, MR_STORED_ROUNDS, it, 0);
    mr_rounds_note(core, it, true);
}

void mr_apply_horizon_moved(mr_core *core, const struct mr_horizon_moved *u)
{
    u->iteration->rounds->rec->horizon = u->horizon;
    mr_touch(core, MR_STORED_ROUNDS, u->iteration, 0);
    mr_rounds_note(core, u->iteration, false);
}

void mr_apply_rounds_pruned(mr_core *core, const struct mr_rounds_pruned *u)
{
    Millrace__RoundsRecord *rec = u->iteration->rounds->rec;
    Millrace__RoundSchedule *rest = mr_rounds_without_first(core, rec->schedule, u->segments);

    if (rest == NULL) {
        return;
    }
    rec->forgotten_below = MR_MAX(rec->forgotten_below, u->counts_below);
    mr_record_free(rec->schedule);
    rec->schedule = rest;
    mr_touch(core, MR_STORED_ROUNDS, u->iteration, 0);
    mr_rounds_note(core, u->iteration, true);
}

void mr_apply_pace_measured(mr_core *core, const struct mr_pace_measured *u)
{
    u->iteration->rounds->pace = u->pace;
    u->iteration->rounds->pace_progress = u->progress;
    u->iteration->rounds->pace_since = core->now;
}

/* ---------------------------------------------------------------- places */

void mr_apply_consumers_asked(mr_core *core, const struct mr_consumers_asked *u)
{
    struct mr_coordination *rounds = u->iteration->rounds;

    rounds->ask = mr_mix64(mr_mix64(core->config.epoch) + ++core->versions);
    rounds->asked = core->now;
    mr_rounds_note(core, u->iteration, false);
}

void mr_apply_consumers_refused(mr_core *core, const struct mr_consumers_refused *u)
{
    struct mr_coordination *rounds = u->iteration->rounds;

    snprintf(rounds->refused, sizeof rounds->refused, "%s", u->why);
    mr_rounds_note(core, u->iteration, false);
}

void mr_apply_seat_taken(mr_core *core, const struct mr_seat_taken *u)
{
    struct mr_iteration *it = u->iteration;
    struct mr_seat *seat = &it->rounds->seats[u->place];

    if (seat->rec == NULL) {
        seat->rec = MR_NEW_RECORD(core, consumer_record);
    }
    if (seat->rec == NULL) {
        return;
    }
    seat->rec->session++;
    seat->rec->from_round = u->from_round;
    seat->rec->placed = u->is_placed;
    seat->rec->joined = false;
    mr_core_set(core, &seat->rec->client, u->client);
    clear_seat(seat);
    it->rounds->refused[0] = '\0';
    it->rounds->asked = MR_NEVER;
    mr_touch(core, MR_STORED_CONSUMER, it, u->place);
    mr_rounds_note(core, it, false);
    mr_iteration_mark(core, it); /* a decision may have waited for whoever had it */
}

void mr_apply_seat_vacated(mr_core *core, const struct mr_seat_vacated *u)
{
    struct mr_seat *seat = &u->iteration->rounds->seats[u->place];

    mr_core_set(core, &seat->rec->client, "");
    seat->rec->session++;
    seat->rec->joined = false;
    clear_seat(seat);
    mr_touch(core, MR_STORED_CONSUMER, u->iteration, u->place);
    mr_rounds_note(core, u->iteration, false);
}

void mr_apply_seat_joined(mr_core *core, const struct mr_seat_joined *u)
{
    u->iteration->rounds->seats[u->place].rec->joined = true;
    mr_touch(core, MR_STORED_CONSUMER, u->iteration, u->place);
}

static uint64_t as_far(uint64_t round)
{
    return MR_MIN(round, MR_COUNT_SAID_MAX);
}

static void take_held(mr_core *core, struct mr_seat *seat, const Millrace__ConsumerReport *report)
{
    size_t n = MR_MIN(report->n_closing, MR_ROUND_TASKS_MAX);
    struct mr_held_turns *held = n > 0 ? mr_core_alloc(core, n, sizeof *held) : NULL;

    if (n > 0 && held == NULL) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(held[i].task, sizeof held[i].task, "%s", report->closing[i]->task_id);
        held[i].below = as_far(report->closing[i]->held_below);
        held[i].end =
            report->closing[i]->ended ? as_far(report->closing[i]->end_round) : MR_ROUND_NEVER;
    }
    mr_free(seat->held);
    seat->held = held;
    seat->nheld = n;
}

void mr_apply_seat_reported(mr_core *core, const struct mr_seat_reported *u)
{
    struct mr_seat *seat = &u->iteration->rounds->seats[u->place];

    seat->progress += seat->known && u->report->returned > seat->returned
                          ? u->report->returned - seat->returned
                          : 0;
    if (!seat->known || u->report->position > seat->position) {
        seat->advanced = core->now;
    }
    seat->known = true;
    seat->heard = core->now;
    seat->from = u->report->from_round;
    seat->position = u->report->position;
    seat->returned = u->report->returned;
    seat->answered = u->report->ask;
    take_held(core, seat, u->report);
}

void mr_apply_seat_missed(mr_core *core, const struct mr_seat_missed *u)
{
    struct mr_seat *seat = &u->iteration->rounds->seats[u->place];

    seat->missed_ms = u->waiting_ms;
    seat->missed_seen = core->now;
}
