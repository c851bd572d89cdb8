/*
 * A task of a coordinated job: its rows become groups (row_groups.h), its rounds are those of the
 * round book, and each consumer has one stream at a time. What an ordinary task does with its book
 * (book.h) is done here for the consumers.
 *
 * Threads: everything with task->lock, but for what says that it takes it.
 */
#ifndef MR_WORKER_TURNS_H
#define MR_WORKER_TURNS_H

#include "rpc/rpc.h"
#include "worker/round_book.h"
#include "worker/row_groups.h"

struct mr_conn;
struct mr_sink;
struct mr_worker_task;

/* The stream of a consumer. */
struct mr_turns_stream {
    struct mr_conn *conn; /* NULL: none */
    uint64_t number;      /* ours, growing */
    uint64_t session;     /* the client's number for the stream, as messages carry it */
    uint64_t elements;    /* sent on it */
    uint64_t bytes;
    uint64_t limit_bytes;
    bool busy; /* a message is under way */
};

struct mr_turns {
    mr_round_book *book;
    mr_row_groups *groups;
    uint32_t consumers;
    size_t kept_bytes; /* beyond it two groups are kept at most */
    bool pad;
    bool over;            /* the pipeline is */
    bool ended;           /* ... and so did the rounds */
    uint64_t fixed;       /* groups that have a round */
    uint64_t last_stream; /* number */
    struct mr_turns_stream streams[];
};

/* While @kept_bytes are kept, nothing is made ahead of what consumers have. MR_EINVAL: such an
 * assignment cannot be. */
int mr_turns_new(const Millrace__RoundAssignment *assignment, size_t kept_bytes,
                 struct mr_turns **ret, mr_error *err);
void mr_turns_free(struct mr_turns *turns); /* no stream is attached; NULL is fine */

/* Told anew. Takes the lock. */
void mr_turns_assign(struct mr_worker_task *t, const Millrace__RoundAssignment *assignment);
/* Where the rows of the pipeline go. */
extern const struct mr_sink mr_turns_sink;
/* The pipeline is over. Wait until everybody has returned everything: true, with the first round
 * that it has not. False: cancelled. Takes the lock. */
bool mr_turns_finish(struct mr_worker_task *t, uint64_t *end_round);

/* Attach @c, whose first message opens; *@replaced: the stream to be cut, a reference, or NULL. */
int mr_turns_attach_locked(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                           mr_error *err);
/* What a message of @c says. MR_EINVAL: it cannot be; the place of its consumer is free then. */
int mr_turns_tell_locked(struct mr_conn *c, const Millrace__ReadRequest *req, mr_error *err);
void mr_turns_sent_locked(struct mr_conn *c);
void mr_turns_detach_locked(struct mr_conn *c);
/* The stream of one consumer, detached; NULL: none is attached any more. A reference. */
mr_rpc_stream *mr_turns_cut_locked(struct mr_worker_task *t);
/* Send what can be sent. No lock is held. */
void mr_turns_pump(struct mr_worker_task *t);

void mr_turns_progress_locked(struct mr_worker_task *t, Millrace__TaskProgress *ret,
                              Millrace__RoundProgress *rounds);

#endif
