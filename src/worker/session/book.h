/*
 * The book of one task: which elements are ready, who was sent what, what of it arrived. It decides
 * who gets the next message and what is in it; sending is somebody else's business.
 *
 * Elements are given first come, first served to the sessions that wait. When k sessions wait, each
 * gets a k-th of what is ready, so that the first to ask does not get a whole small epoch. A
 * session is (client, number); its elements are numbered from 0. What was sent is kept until the
 * client says that it was returned to its application: a broken connection loses and doubles
 * nothing, since the client comes back with the index of the first element it lacks; and what a
 * client has received and not returned when it says goodbye is given to others. So it is when it
 * goes without a word, where each element must be returned to some application (AT_LEAST_ONCE);
 * else nobody knows what it used, and it is counted as lost: all of it, or where clients say what
 * they have given to their applications (of a production) that.
 *
 * End: a session is told "end" when nothing is ready, the pipeline is over and no *other* session
 * has elements that are kept: until then those may come back and be given to this one. Where
 * elements are not given twice there is a limit to that: a client that has received everything and
 * rests does not keep others for ever (mr_book_stop_waiting()).
 *
 * Pure: no I/O, no clock, no lock. One owner at a time.
 */
#pragma once

#include "element/packed.h"

#define MR_CLIENT_ID_SIZE 33 /* of ids that are remembered: 32 hex digits */

typedef struct mr_book mr_book;
typedef struct mr_book_session mr_book_session;

struct mr_book_limits {
    size_t message_bytes; /* a message is full at this size */
    size_t kept_bytes;    /* a session for which so much is kept is sent nothing */
    uint32_t sessions;    /* at once, of which each host may have its share (base/shares.h) */
    /* AT_LEAST_ONCE: what a client may have used is given to others when nobody knows */
    bool repeats;
    bool reports_given; /* mr_book_given(): what it cannot have used is */
};

int mr_book_new(const struct mr_book_limits *limits, mr_book **ret, mr_error *err);
void mr_book_free(mr_book *book); /* with all sessions; NULL is fine */

/* ---- production ---- */

/* Takes the block in any case, also when it fails (out of memory). */
int mr_book_add(mr_book *book, mr_block *block, mr_error *err);
/* Rows that come from a place where they are numbered: @at is that of the first, not below the last
 * one's. Packed ones are sent as they are, and cut only where a session's credits end in them.
 * Takes @rows in any case. */
int mr_book_feed(mr_book *book, struct mr_part rows, uint64_t at, mr_error *err);
/* All rows below were returned, as far as they were fed. */
uint64_t mr_book_needed(const mr_book *book);
/* Nobody is here, so nothing need be held: drop what is ready, as far back as it can be fed again
 * from *@at on without doubling anything, and without a gap. false: nothing was dropped. */
bool mr_book_take_back(mr_book *book, uint64_t *at);
/* Where somebody else may go on without giving anything twice: behind all that was sent. */
struct mr_book_stand {
    uint64_t at;
    uint64_t fed;     /* rows before that */
    uint64_t missing; /* of them: not known to have arrived at a client, and may not have */
};
void mr_book_stand(const mr_book *book, struct mr_book_stand *ret);
/* Something is ready to be sent. */
bool mr_book_has_ready(const mr_book *book);
/* Nobody is here, and something is ready. */
bool mr_book_deserted(const mr_book *book);
/* So many elements were missed so far: all sessions are told, those of the future too. */
void mr_book_set_skipped(mr_book *book, uint64_t skipped);
/* The pipeline is over: MR_OK at its end, or negative with a message. Only the first call
 * counts. */
void mr_book_finish(mr_book *book, int code, const char *message);
/* All that the end waits for was received by clients that are connected, do not return it, and may
 * never: from now on it is theirs, and waited for no longer. They can still give it back. */
bool mr_book_waits_for_clients(const mr_book *book);
/* ... and there is a client that has nothing left and is kept waiting for its end. */
bool mr_book_keeps_clients(const mr_book *book);
void mr_book_stop_waiting(mr_book *book);
/* All that is left is with clients that are here: how long to wait for them to return it, or close;
 * 0: no longer. -1: that is not so, or they keep nobody, and whoever comes later may get it.
 * @draining: nobody waits for them. */
int64_t mr_book_patience_ms(mr_book *book, bool draining, int64_t now_ms);
/* Rows that may be produced now: what waiting credits ask for and a little more; 0: enough is
 * ready. */
uint32_t mr_book_demand(const mr_book *book);
/* There is demand, and so little is ready that a producer that rests should go on. */
bool mr_book_low(const mr_book *book);

/* ---- sessions ---- */

/* Open or come back to session @number of @client. @resume_from: elements below it arrived. A
 * higher number than before abandons the earlier session, and has its place. MR_EABORTED: the
 * session cannot be resumed from there; MR_EEXHAUSTED: @host has too many sessions; MR_EINVAL: no
 * client counts that far. @owner is what mr_book_next() gives back, never looked at. *@ret is lent
 * until it is closed. */
int mr_book_open(mr_book *book, const char *host, const char *client, uint64_t number,
                 uint64_t resume_from, void *owner, mr_book_session **ret, mr_error *err);
/* Its connection is gone: nothing is sent until it is opened again. */
void mr_book_disconnect(mr_book_session *s);
void *mr_book_owner(const mr_book_session *s); /* NULL: not connected */
/* MR_EINVAL: acknowledges what was never sent. */
int mr_book_credit(mr_book *book, mr_book_session *s, uint64_t limit_elements, uint64_t limit_bytes,
                   uint64_t received, uint64_t returned, mr_error *err);
/* Elements below @given are with the application, used or not. MR_EINVAL: they were never sent. */
int mr_book_given(mr_book_session *s, uint64_t given, mr_error *err);
/* The client says good-bye: what is kept for it is ready for others again, without @gives_back only
 * what did not arrive (a client that does not know better uses the rest). @s is gone afterwards. */
void mr_book_close(mr_book *book, mr_book_session *s, bool gives_back);
/* So many elements are kept for it. */
uint64_t mr_book_kept(const mr_book_session *s);
const char *mr_book_client(const mr_book_session *s); /* lent as long as the session */
/* Nobody knows what the client has: it fell silent, or begins anew. What is not known to have
 * arrived may have, so it counts as lost, or, if each element has to be returned, is ready for
 * others again. @s is gone afterwards. */
void mr_book_abandon(mr_book *book, mr_book_session *s);
/* The dispatcher says that @client is gone: that is remembered, and its session abandoned. Returns
 * the owner that the session had, or NULL. (Had it said goodbye, its session would be closed.) */
void *mr_book_release(mr_book *book, const char *client);
/* Has the dispatcher said so, lately? */
bool mr_book_was_released(const mr_book *book, const char *client);
/* The session of @client, or NULL. */
mr_book_session *mr_book_find(const mr_book *book, const char *client);
/* The next session after @s (NULL: the first). */
mr_book_session *mr_book_each(const mr_book *book, const mr_book_session *s);

/* ---- sending ---- */

struct mr_book_message {
    mr_book_session *session;
    void *owner;
    uint64_t number; /* of the session */
    uint64_t first;
    uint32_t elements;
    struct mr_part *parts; /* references; freed by mr_book_message_free() */
    size_t n, cap;
    uint64_t skipped;
    bool end;
    int code;            /* with end: how the pipeline ended */
    const char *message; /* lent: valid as long as the book */
};
/* What to send next, and to whom: MR_OK, MR_END (nothing at the moment) or an error (out of memory;
 * session and owner are set, nothing is lost). The session is busy until mr_book_sent(),
 * mr_book_open() or mr_book_disconnect(). */
int mr_book_next(mr_book *book, struct mr_book_message *ret, mr_error *err);
void mr_book_message_free(struct mr_book_message *m);
void mr_book_sent(mr_book_session *s);

/* The pipeline is over and no element is waited for: each was returned somewhere, or is with a
 * client that rests. */
bool mr_book_is_complete(const mr_book *book);

struct mr_book_counts {
    uint64_t produced;
    uint64_t received; /* acknowledged by clients */
    uint64_t returned; /* given to applications */
    uint64_t lost;     /* sent to a session that was abandoned, perhaps never seen */
    uint64_t untaken;  /* received by one, perhaps never given to an application */
    uint32_t sessions;
    uint64_t buffered_bytes; /* ready, or sent and kept */
    bool finished;           /* the pipeline has ended */
};
void mr_book_counts(const mr_book *book, struct mr_book_counts *ret);

/* For assertions: do counts and lists agree? */
bool mr_book_check(const mr_book *book);
