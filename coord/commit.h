/*
 * Fenced group commit: changes become transactions that only the current leader can apply, each
 * exactly once.
 *
 * One batch is in flight; the next ones gather. Every batch compares CREATE(leader) with the epoch
 * and MOD(meta/batch) with what the last one left there, and writes meta/batch = {epoch, number,
 * nonce}. A batch is immutable once it was sent: after any outcome that is not a definite refusal
 * the same bytes are sent again, until the store answers. The failure branch reads both keys: our
 * nonce in meta/batch means that an earlier attempt was applied.
 *
 * A store that is full takes deletes alone, and each batch puts meta/batch. So a batch that was
 * refused for want of space is withdrawn: a transaction under the same guards deletes meta/batch,
 * which no attempt of the batch can survive, together with the keys that the batch deletes if it
 * writes nothing else. Batches of deletes, and empty ones, are committed that way; one that puts is
 * refused for certain. Each is tried as it is first, and so it is found out when there is room
 * again.
 *
 * This part is pure: it says what to send and judges the answers; time comes in as an argument.
 * coord/member.h drives it. Threads: one at a time.
 */
#pragma once

#include "coord/store.h"

typedef struct mr_commit mr_commit;

/* What is to be known of it, at any time. */
struct mr_commit_status {
    /* Bytes that wait for the batch in flight, or to be sent. What is more than the most is refused
     * by mr_commit_add(). */
    size_t backlog_bytes;
    uint64_t newest;        /* number of the youngest batch ever made; 0: none */
    uint64_t committed;     /* number of the last one that was committed; 0: none */
    int64_t batch_revision; /* mod revision of meta/batch, for the term's next mr_commit */
    /* when the attempt was sent that was last answered COMMITTED; INT64_MIN: none */
    int64_t proven_ms;
    /* the last answered batch was refused for want of space (whatever became of it then) */
    bool full;
    /* An attempt that compares the absence of meta/batch may still come: nothing is withdrawn any
     * more, in the whole term. */
    bool stray;
    uint64_t written; /* bytes of keys and values in all batches that were committed */
};

/* How much may wait, over all batches. */
#define MR_COMMIT_BACKLOG_BYTES_MAX (16 * MR_MIB)

struct mr_write {
    const char *key;   /* below the root */
    const void *value; /* NULL: delete */
    size_t size;
};

enum mr_verdict {
    MR_VERDICT_COMMITTED, /* and this term goes on */
    /* an earlier attempt was applied, but somebody else leads by now */
    MR_VERDICT_COMMITTED_DEPOSED,
    MR_VERDICT_AGAIN, /* unknown: the same bytes go out again at mr_commit_due() */
    /* the term is over; whether the batch was applied is unknown if maybe_applied */
    MR_VERDICT_DEPOSED,
    /* definitely not applied: what rests on it must be forgotten. MR_EEXHAUSTED: the store is
     * full */
    MR_VERDICT_REFUSED,
};

/* @root "/millrace/<cluster>/"; @epoch: create revision of the leader key; @batch_revision: mod
 * revision of meta/batch as read when the term was won (0: there is none). @stray: as the term's
 * last one had it. @seed for nonces and jitter. NULL: out of memory. */
mr_commit *mr_commit_new(const char *root, int64_t epoch, int64_t batch_revision, bool stray,
                         uint64_t seed);
void mr_commit_free(mr_commit *c);

/* Put the writes of one command, in whole, into the youngest batch that was not sent, or a new one.
 * *@batch is its number. @alone: into a batch of its own. MR_ERANGE: too large for a transaction;
 * MR_EEXHAUSTED: the backlog is full. */
int mr_commit_add(mr_commit *c, const struct mr_write *writes, size_t n, bool alone,
                  uint64_t *batch, mr_error *err);
/* The number of the youngest batch that was not sent; an empty one is made if there is none. */
int mr_commit_fence(mr_commit *c, uint64_t *batch, mr_error *err);

/* Lent as long as @c lives. */
const struct mr_commit_status *mr_commit_status(const mr_commit *c);
/* How long the batch in flight has been unanswered; 0: there is none. */
int64_t mr_commit_stalled_ms(const mr_commit *c, int64_t now_ms);

/* When mr_commit_send() has something to send: 0 at once; INT64_MAX: nothing, or an answer is
 * awaited. */
int64_t mr_commit_due(const mr_commit *c);
/* The transaction to send now, lent until the answer. false: none is due. */
bool mr_commit_send(mr_commit *c, int64_t now_ms, struct mr_txn *txn);
/* What the store said to it. @err is filled for DEPOSED and REFUSED. */
enum mr_verdict mr_commit_answer(mr_commit *c, int64_t now_ms, int rc,
                                 const struct mr_txn_result *r, const mr_error *why,
                                 bool *maybe_applied, mr_error *err);
