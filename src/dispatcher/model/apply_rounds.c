/*
 * The schedule of coordinated reads, as far as it is the leader's to decide: who takes turns, how
 * far consumers may go, and, once for all, what became of the rounds of a worker that was lost.
 *
 *     open ──(lost: closing)──► in doubt ──(all consumers have reported)──► outcome
 *       ╰──(ended by itself)──────────────────────────────────────────────►┘
 *
 * That a task is closing is derived: it takes turns, is not open, and has no outcome. One
 * transaction writes the outcome with a segment without the task, from the horizon on, where nobody
 * can be yet; so everything below the horizon is decided, and a next leader, which has to ask again
 * if this one was not committed, has told nobody anything else.
 */
/*
 * The places of consumers in coordinated reads: who has one, in which session, and what it says.
 *
 * Whoever opens takes the place it names, and the session number grows: workers and dispatcher
 * refuse the one before. Somebody who takes it from another begins where the others are, and they
 * are asked for that: the answer has to be of one moment, after it came. When all are new there is
 * nobody to ask, and no way to know where the model is that they train: that is told, to all of
 * them. A new one is not new any more when it has read a round together with one that is not, which
 * is remembered: reading alone proves nothing, since the receipts of whoever was there before let a
 * new one go on for some rounds.
 */
#include "dispatcher/model/model.h"

#include <stdio.h>

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

void mr_rounds_drop(mr_core *core, struct mr_iteration *it)
{

    if (it->rounds == NULL) {
        return;
    }
    if (it->rounds->rec != NULL) {
        mr_leave_over(core, MR_STORED_ROUNDS, it, 0);
    }
    mr_consumers_drop(core, it);
    mr_coordination_free(it->rounds);
    it->rounds = NULL;
}

/* ---------------------------------------------------------------- outcomes */
void mr_rounds_add_outcome(mr_core *core, struct mr_iteration *it, uint32_t task,
                           uint64_t delivered)
{
    Millrace__RoundOutcome *outcome =
        mr_core_new_record(core, &millrace__round_outcome__descriptor);
    Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);
    uint64_t horizon = it->rounds->rec->horizon;

    if (outcome == NULL) {
        return;
    }
    outcome->task = task;
    outcome->delivered_below = delivered < horizon ? delivered : horizon;
    outcome->void_below = horizon;
    if (mr_core_append(core, &schedule->outcomes, schedule->n_outcomes, outcome)) {
        schedule->n_outcomes++;
    }
    mr_touch(core, MR_STORED_ROUNDS, it, 0);
    mr_rounds_note(core, it, true);
}

void mr_consumers_drop(mr_core *core, struct mr_iteration *it)
{

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        if (it->rounds->seats[i].rec != NULL) {
            mr_leave_over(core, MR_STORED_CONSUMER, it, i);
        }
    }
}

/* What was heard in a session that is over. */
void mr_seat_clear(struct mr_seat *seat)
{
    mr_free(seat->held);
    seat->held = NULL;
    seat->nheld = 0;
    seat->known = false;
    seat->from = seat->position = seat->returned = seat->answered = 0;
    seat->missed_ms = 0;
}
