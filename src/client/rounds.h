/*
 * A consumer of a coordinated job (docs/change/rounds.md): which round comes next and from whom,
 * whether it may be returned, and what is to be told to workers and to the dispatcher. It knows
 * rounds by their number; the elements are the caller's, who queues them by task, in the order in
 * which they were accepted, and drops those that are below mr_client_rounds_position().
 *
 *     mr_client_rounds_update() ◄── ClientUpdate.rounds: the first must be complete
 *     mr_client_rounds_open(), _receive(), _tell() ── the stream of each task
 *     mr_client_rounds_next() ── take, and mr_client_rounds_taken(); or wait; or the end
 *     mr_client_rounds_report() ──► ClientHeartbeatRequest.rounds
 *
 * Tasks are named by their id and may be spoken of in any order: a task that the schedule does not
 * know yet (or any more) is one that nothing is expected of.
 *
 * Pure: no I/O, no clock, no lock. One owner at a time.
 */
#pragma once

#include <millrace/base.h>

#include "millrace/service.pb-c.h"

typedef struct mr_client_rounds mr_client_rounds;

struct mr_client_rounds_config {
    uint32_t consumer_index;
    uint64_t session;    /* OpenReply */
    uint64_t from_round; /* OpenReply */
    bool placed;         /* resume_round was given: it begins there or not at all */
    /* rounds of each worker that may be here at once; 2 at least hide the way of the receipts */
    uint32_t ahead;
};

mr_client_rounds *
mr_client_rounds_new(const struct mr_client_rounds_config *config); /* NULL: out of memory */
void mr_client_rounds_free(mr_client_rounds *rounds);               /* NULL is fine */

/* ---- the dispatcher ---- */

/* MR_EPRECOND: this session is over (another process has its place), or all consumers are new.
 * MR_EDATALOSS: a schedule that cannot be, or a round that the others have returned is not here:
 * going on would put this consumer out of step. Errors are final: mr_client_rounds_next() says them
 * again. */
int mr_client_rounds_update(mr_client_rounds *rounds, const Millrace__RoundsUpdate *update,
                            mr_error *err);
/* The iteration has ended, without an error. */
void mr_client_rounds_finish(mr_client_rounds *rounds);

/* A heartbeat should be sent at once, not only when it is due. */
bool mr_client_rounds_must_report(const mr_client_rounds *rounds);
/* Fill @ret for a heartbeat; its parts are lent until the next update or report. Returns a number
 * for mr_client_rounds_reported(), to be called when the dispatcher has answered; never 0. */
uint64_t mr_client_rounds_report(mr_client_rounds *rounds, Millrace__ConsumerReport *ret);
void mr_client_rounds_reported(mr_client_rounds *rounds, uint64_t number);

/* ---- the stream of a task ---- */

/* Should there be a stream to it? Not to one that is closing, or over: that stream is to be cut,
 * and what is queued of it kept until it is below the position. */
bool mr_client_rounds_wants(const mr_client_rounds *rounds, const char *task_id);
/* What to open a stream with; the answer to earlier ones is not waited for any more. */
int mr_client_rounds_open(mr_client_rounds *rounds, const char *task_id, Millrace__RoundOpen *ret,
                          mr_error *err);
/* A message came. Of its @n elements those from *@first on are new, the ones before it are known;
 * without elements n is 0 and *first too. MR_EDATALOSS: it cannot be. A task that is closing is not
 * listened to: *first is n. */
int mr_client_rounds_receive(mr_client_rounds *rounds, const char *task_id,
                             const Millrace__RoundHeader *header, size_t *first, mr_error *err);
/* Fill the round fields of @ret; true: they say more than the last ones that were told on this
 * stream, so that they should be sent. They count as told then. */
bool mr_client_rounds_tell(mr_client_rounds *rounds, const char *task_id,
                           Millrace__ReadRequest *ret);

/* ---- next ---- */

enum mr_client_rounds_turn {
    MR_ROUNDS_WAIT, /* until the next update or message */
    MR_ROUNDS_TAKE, /* @ret says which element */
    MR_ROUNDS_END,
};
struct mr_client_rounds_next {
    enum mr_client_rounds_turn turn;
    uint64_t round;
    /* Of whom; lent until the next update. Of a WAIT: of whom something is missing; NULL: no round
     * is due. */
    const char *task_id;
};

/* Moves on over void rounds and says what is next. Errors as of mr_client_rounds_update(). */
int mr_client_rounds_next(mr_client_rounds *rounds, struct mr_client_rounds_next *ret,
                          mr_error *err);
/* The application has what the last mr_client_rounds_next() said (MR_ROUNDS_TAKE). */
void mr_client_rounds_taken(mr_client_rounds *rounds);

/* All rounds below were returned, or are void, or are before its first. */
uint64_t mr_client_rounds_position(const mr_client_rounds *rounds);
/* Its first round. Final once something was returned. */
uint64_t mr_client_rounds_first(const mr_client_rounds *rounds);
