/* Coordinated reads (docs/change/rounds.md): the schedule of an iteration and the places of
 * consumers. Durable as far as anybody acts on them; positions, paces and reports are heard anew by
 * each leader. */
#pragma once

#include "dispatcher/model/iteration.h"
#include "dispatcher/model/job.h"
#include "dispatcher/model/task.h"
#include "rounds/schedule.h"

/* The horizon lies so much reading ahead of the furthest consumer, and is moved when less than the
 * second is left. */
#define MR_HORIZON_MS (20 * 1000)
#define MR_HORIZON_LEFT_MS (15 * 1000)
/* While the pace is not known: at least so many rounds. */
#define MR_HORIZON_ROUNDS 16
/* Consumers say where they are so often at least. */
#define MR_REPORT_MS 1000
/* Whoever does not answer within it when asked for its position is not waited for. */
#define MR_ASK_MS 2000
/* An answer is good for so long, unless somebody takes a place meanwhile. */
#define MR_ASK_FRESH_MS 5000
/* Consumers that are further apart than a round, and none of which was heard to read on within it,
 * are not on their way to the same round. */
#define MR_STILL_MS 5000
/* Places that are taken from consumers who are gone, in one step. */
#define MR_VACATE_MAX 16
/* What settling an iteration changes for its rounds. */
#define MR_ROUNDS_CHANGES (1 + MR_VACATE_MAX)

/* What a consumer has of a task that is closing. */
struct mr_held_turns {
    char task[MR_TASK_ID_SIZE];
    uint64_t below;
    /* void from here on, as its worker has said; MR_ROUND_NEVER: it has said no such thing */
    uint64_t end;
};

/* A consumer's place. */
struct mr_seat {
    MR_RO Millrace__ConsumerRecord *MR_RO rec; /* NULL: nobody has ever come */
    /* Of its session, as this leader has heard of it. */
    MR_RO bool known;
    MR_RO uint64_t from;
    MR_RO uint64_t position;
    MR_RO uint64_t returned;
    MR_RO uint64_t answered; /* the last question it has answered */
    MR_RO int64_t heard;
    MR_RO int64_t advanced; /* when it was last heard to be further than before */
    struct mr_held_turns *MR_RO held;
    MR_RO size_t nheld;
    MR_RO uint64_t
        progress; /* rounds it was seen to return, in all its sessions: measures the pace */
    MR_RO uint64_t missed_ms;  /* others have waited so long for it ... */
    MR_RO int64_t missed_seen; /* ... when that was heard */
};

struct mr_coordination {
    MR_RO Millrace__RoundsRecord *MR_RO rec;
    struct mr_seat *MR_RO seats; /* as many as the job has consumers */
    MR_RO uint32_t n;
    MR_RO bool moved;  /* something that others hear of changed in this step, */
    MR_RO bool turned; /* namely the schedule */
    /* consumers are asked where they are, and no other leader has used this number; 0: nobody
     * asked */
    MR_RO uint64_t ask;
    MR_RO int64_t asked; /* MR_NEVER: whoever wants to know has to ask again */
    MR_RO char refused[MR_ERROR_MESSAGE_SIZE]; /* all consumers are new */
    MR_RO uint64_t pace;                       /* rounds in a thousand seconds; 0: not known */
    MR_RO uint64_t pace_progress;
    MR_RO int64_t pace_since; /* MR_NEVER: not measured yet */
};

static inline Millrace__RoundSchedule *mr_rounds_schedule(const struct mr_iteration *it)
{
    return it->rounds->rec->schedule;
}

static inline Millrace__RoundSegment *mr_rounds_last_segment(const struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);

    return schedule->segments[schedule->n_segments - 1];
}

/* The iteration ends: behind its last round. */
uint64_t mr_rounds_end(const struct mr_iteration *it);
/* The place of task @i of the schedule is in doubt: it is neither open nor was anything decided. */
bool mr_rounds_is_closing(const struct mr_iteration *it, uint32_t i, const mr_core *core);
uint32_t mr_seat_index(const struct mr_iteration *it, const struct mr_seat *seat);
/* The client that has this place, if it is there; else NULL. */
struct mr_client *mr_seat_client(const mr_core *core, const struct mr_iteration *it,
                                 const struct mr_seat *seat);
/* What it holds of the task; NULL: it has not reported. */
const struct mr_held_turns *mr_seat_held(const struct mr_seat *seat, const char *task);
/* Others have waited so long for it to receive a round; 0: they do not, or not any more. */
uint64_t mr_seat_missed_ms(const mr_core *core, const struct mr_seat *seat);
/* The schedule without its first @drop segments, and without what only they named. NULL: no
 * memory. */
Millrace__RoundSchedule *
mr_rounds_without_first(mr_core *core, const Millrace__RoundSchedule *schedule, size_t drop);
bool mr_rounds_is_used(const Millrace__RoundSchedule *schedule, uint32_t task, size_t from_segment);
