/*
 * The state of reading one task: what came, what the application took, what the worker may send.
 * Pure: no I/O, no clock, no lock; one owner at a time. The counters are those of protocol messages
 * (proto/millrace/service.proto, ReadRequest): elements are numbered within a session, limits are
 * absolute.
 *
 * Slow start: the window begins at 2 elements and doubles when the queue is found empty while the
 * worker has used half of what it was allowed; a worker that is slower than its window is not asked
 * for more.
 */
#pragma once

#include "client/queue.h"

#define MR_WINDOW_FIRST 2u
#define MR_WINDOW_MAX (1u << 24)

struct mr_session {
    uint64_t number;   /* from 1 */
    uint64_t received; /* elements of this session that came */
    uint64_t returned; /* ... that the application took */
    uint64_t used;     /* ... that it is through with, as far as we know: what workers are told */
    uint64_t given_bytes; /* ... that it took and is not through with */
    uint64_t bytes;       /* payload that came in this session */
    uint64_t limit;       /* last sent */
    uint64_t limit_bytes; /* last sent */
    uint64_t limit_max;   /* highest ever sent: more than this cannot come */
    uint64_t told_received;
    uint64_t told_returned;
    uint64_t told_given;
    uint64_t told_taken_bytes; /* payload that had been taken when that was told */
    uint64_t window;
    struct mr_queue queue;
};

void mr_session_init(struct mr_session *s);
/* The worker lost it: count anew. What is queued stays. */
void mr_session_next(struct mr_session *s);
/* The stream is new: no limit has been told on it. */
void mr_session_reconnect(struct mr_session *s);

/* Elements [first, first + rows of @blocks) came. Duplicates of what is known are dropped.
 * MR_EDATALOSS: a gap, or more than was allowed. Takes references of its own. */
int mr_session_add(struct mr_session *s, uint64_t first, mr_block *const *blocks, size_t n,
                   mr_error *err);
/* Up to @rows rows from the queue's head: MR_OK, or MR_END when it is empty. *@ret is the caller's
 * reference, *@session the number of the session that they came in. */
int mr_session_take(struct mr_session *s, uint32_t rows, mr_block **ret, uint64_t *session,
                    mr_error *err);

/* Rows that are queued or may still come. */
uint64_t mr_session_outstanding(const struct mr_session *s);
/* The queue was found empty: the window grows if it was the cause. */
void mr_session_found_empty(struct mr_session *s);
/* What the worker may be told: at most @window_max elements and @budget bytes outstanding, and none
 * while the application has several and @given_max bytes that it is not through with: its own
 * buffers hold that much. */
void mr_session_limits(const struct mr_session *s, uint64_t window_max, uint64_t budget,
                       uint64_t given_max, uint64_t *limit, uint64_t *limit_bytes);
/* Payload that the application took in this session. */
uint64_t mr_session_taken_bytes(const struct mr_session *s);
/* A message with these limits has left, and with it how far we are. */
void mr_session_told(struct mr_session *s, uint64_t limit, uint64_t limit_bytes);
/* Walks the queue; for assertions. */
bool mr_session_is_consistent(const struct mr_session *s);
/* Telling these limits now keeps the worker from waiting. */
bool mr_session_worth_telling(const struct mr_session *s, uint64_t limit, uint64_t limit_bytes);
