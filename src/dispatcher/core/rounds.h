/*
 * Inside the core: coordinated reads. Part of internal.h, which includes it. docs/change/rounds.md has the
 * protocol.
 *
 * rounds.c keeps the schedule of an iteration: who takes turns, what became of a worker's rounds;
 * rounds_horizon.c says how far consumers may go. consumers.c keeps the places of consumers and
 * what each of them says. All are durable as far as anybody acts on them; positions, paces and
 * reports are heard anew by each leader.
 */
#ifndef MR_DISPATCHER_CORE_ROUNDS_H
#define MR_DISPATCHER_CORE_ROUNDS_H

#include "dispatcher/core/internal.h"
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
    Millrace__ConsumerRecord *rec; /* NULL: nobody has ever come */
    /* Of its session, as this leader has heard of it. */
    bool known;
    uint64_t from;
    uint64_t position;
    uint64_t returned;
    uint64_t answered; /* the last question it has answered */
    int64_t heard;
    struct mr_held_turns *held;
    size_t nheld;
    uint64_t progress;   /* rounds it was seen to return, in all its sessions: measures the pace */
    uint64_t missed_ms;  /* others have waited so long for it ... */
    int64_t missed_seen; /* ... when that was heard */
};

struct mr_coordination {
    Millrace__RoundsRecord *rec;
    struct mr_seat *seats; /* as many as the job has consumers */
    uint32_t n;
    bool unwritten; /* the record changed in this step, and is put before the step ends */
    bool moved;     /* something that others hear of changed in this step, */
    bool turned;    /* namely the schedule */
    /* consumers are asked where they are, and no other leader has used this number; 0: nobody
     * asked */
    uint64_t ask;
    int64_t asked;                       /* MR_NEVER: whoever wants to know has to ask again */
    char refused[MR_ERROR_MESSAGE_SIZE]; /* all consumers are new */
    uint64_t pace;                       /* rounds in a thousand seconds; 0: not known */
    uint64_t pace_progress;
    int64_t pace_since; /* MR_NEVER: not measured yet */
};

/* Does the job read in rounds? */
static inline bool mr_job_is_coordinated(const struct mr_job *job)
{
    return job != NULL && job->rec->num_consumers > 0;
}

/* ---------------------------------------------------------------- rounds.c */

/* For an iteration of a coordinated job that is not finished; without a record yet. NULL: no
 * memory. */
struct mr_coordination *mr_coordination_new(mr_core *core, const struct mr_job *job);
void mr_coordination_free(struct mr_coordination *rounds);
/* The first schedule of a new iteration: its tasks take turns. One change. */
void mr_rounds_begin(mr_core *core, struct mr_iteration *it);
/* Its task ended by itself: @end_round and what would follow is void. Left unwritten. */
void mr_rounds_note_end(mr_core *core, const struct mr_task *task, uint64_t end_round);
/* Decide what is to be decided about lost workers, let tasks join and leave. Left unwritten. Up to
 * MR_VACATE_MAX changes beside that. Nothing to do for an ordinary iteration, as below. */
void mr_rounds_settle(mr_core *core, struct mr_iteration *it);
/* Nothing of a lost worker is in doubt, and all consumers that are there have returned whatever
 * counts: an end would hide from them what was decided. */
bool mr_rounds_are_settled(const mr_core *core, const struct mr_iteration *it);
/* Put the record if it changed. One change. */
void mr_rounds_write(mr_core *core, struct mr_iteration *it);
/* The iteration ends: behind its last round. */
uint64_t mr_rounds_end(const struct mr_iteration *it);
/* It has ended: what is stored is left over. */
void mr_rounds_drop(mr_core *core, struct mr_iteration *it);
/* The place of task @i of the schedule is in doubt: it is neither open nor was anything decided. */
bool mr_rounds_is_closing(const struct mr_iteration *it, uint32_t i, const mr_core *core);
/* Something changed: consumers and workers hear of it at the end of this step. */
void mr_rounds_note(mr_core *core, struct mr_iteration *it, bool schedule);
int mr_rounds_check(const mr_core *core, const struct mr_iteration *it, mr_error *err);
/* Everything is loaded. */
void mr_rounds_ready(mr_core *core);

/* ---------------------------------------------------------------- rounds_horizon.c,
 * rounds_told.c */

/* Somebody came further: move the horizon if it is near. Left unwritten. */
void mr_rounds_move_horizon(mr_core *core, struct mr_iteration *it);
/* What consumers and workers are told; NULL without memory. */
Millrace__RoundsUpdate *mr_rounds_update_of(mr_core *core, const struct mr_iteration *it,
                                            bool with_schedule);
Millrace__RoundAssignment *mr_rounds_assignment_of(mr_core *core, const struct mr_task *task);

/* ---------------------------------------------------------------- consumers.c */

/*
 * May @in take the place that it asks for? On MR_OK *@from is where it would begin. MR_EUNAVAIL:
 * not known yet, the others are being asked. @it: NULL if it is to be created.
 */
int mr_consumer_judge(mr_core *core, struct mr_iteration *it, const struct mr_job *job,
                      const Millrace__OpenRequest *in, uint64_t *from, mr_error *err);
/* It takes it, and whoever had it loses it; nothing changes if it is its own. It is attached
 * already. At most four changes. */
void mr_consumer_take(mr_core *core, struct mr_iteration *it, const Millrace__OpenRequest *in,
                      uint64_t from);
void mr_consumer_reply(mr_core *core, const struct mr_iteration *it,
                       const Millrace__OpenRequest *in, Millrace__OpenReply *reply);
/* What it says in a heartbeat. */
void mr_consumer_report(mr_core *core, struct mr_client *client,
                        const Millrace__ConsumerReport *report);
/* Whoever is still waited for, as a worker says. */
void mr_consumers_note_missing(mr_core *core, struct mr_iteration *it,
                               const Millrace__RoundProgress *progress);
/* The client that has this place, if it is there; else NULL. */
struct mr_client *mr_seat_client(const mr_core *core, const struct mr_iteration *it,
                                 const struct mr_seat *seat);
/* What it holds of the task; NULL: it has not reported. */
const struct mr_held_turns *mr_seat_held(const struct mr_seat *seat, const char *task);
/* Give up the places of consumers that are gone, so that nothing is decided against one that comes
 * back. False: some are left for the next step. */
bool mr_consumers_vacate(mr_core *core, struct mr_iteration *it);
void mr_seat_clear(struct mr_seat *seat);
void mr_consumers_drop(mr_core *core, struct mr_iteration *it);
/* Others have waited so long for it to receive a round; 0: they do not, or not any more. */
uint64_t mr_seat_missed_ms(const mr_core *core, const struct mr_seat *seat);
Millrace__RoundsStatus *mr_rounds_status(mr_core *core, const struct mr_iteration *it);

#endif
