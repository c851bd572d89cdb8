/*
 * A worker's rounds of one coordinated task (docs/change/rounds.md): which rounds are its own,
 * which of them is fixed, what each consumer is to be sent next, when a round is complete, and what
 * may be forgotten. It knows rounds by their number; the elements of a group are the caller's, who
 * finds them again by `ordinal` (0, 1, 2, ... in the order of fixing).
 *
 *     mr_round_book_may_fix() ── a whole group ──► mr_round_book_fix(), or mr_round_book_end()
 *     mr_round_book_open(), mr_round_book_tell() ── a consumer says what it has
 *                                                ──► mr_round_book_next(): send
 *     mr_round_book_kept() ── drop what is before it
 *
 * A round is fixed before anybody is sent any of it, and then stays what it is until all consumers
 * have returned it: a consumer that comes back, or takes another one's place, gets the same
 * element. It is complete when all of them have acknowledged it in the sessions that are known
 * here; a session that is over is refused, and what it acknowledged without the next one is told to
 * that one (`complete_before`).
 *
 * Everything told is absolute, so messages may be repeated, and those of a stream that is gone do
 * no harm.
 *
 * Pure: no I/O, no clock, no lock. One owner at a time.
 */
#pragma once

#include <millrace/base.h>

#include "millrace/service.pb-c.h"

typedef struct mr_round_book mr_round_book;

/* At most @keep rounds (2 at least) are fixed and not yet returned by everybody. MR_EINVAL: such an
 * assignment cannot be. */
int mr_round_book_new(const Millrace__RoundAssignment *assignment, uint32_t keep,
                      mr_round_book **ret, mr_error *err);
void mr_round_book_free(mr_round_book *book); /* NULL is fine */
/* It was told anew. MR_EINVAL: it cannot be; the book is as before then. */
int mr_round_book_assign(mr_round_book *book, const Millrace__RoundAssignment *assignment,
                         mr_error *err);

/* ---- production ---- */

struct mr_round {
    uint64_t round;
    uint64_t ordinal;
};

/* The round that may be fixed next, whether or not a consumer has room for it yet: it is below the
 * horizon, and not too many are kept. */
bool mr_round_book_may_fix(const mr_round_book *book, struct mr_round *ret);
/* There is a whole group for what mr_round_book_may_fix() says. */
void mr_round_book_fix(mr_round_book *book);
/* There will be none any more: its next round, once that is known (below the horizon), is the end.
 * Final. */
void mr_round_book_end(mr_round_book *book);

/* All before it may be dropped: everybody has returned it. `ordinal` counts what was ever
 * dropped. */
struct mr_round mr_round_book_kept(const mr_round_book *book);
/* Ended, and all consumers know and have returned everything: TaskEnded, with *@end_round. */
bool mr_round_book_over(const mr_round_book *book, uint64_t *end_round);

/* ---- consumers ---- */

/* A stream of a consumer begins: its answer, at once, is what mr_round_book_header() says. @stream
 * is the caller's number for it, growing; an earlier stream of the same consumer is to be closed
 * (mr_round_book_is_current() says so). MR_EINVAL: no such consumer, or it says that it has what
 * was never sent. MR_EPRECOND: another process has its place. MR_EUNAVAIL: no assignment has named
 * that session yet. */
int mr_round_book_open(mr_round_book *book, const Millrace__RoundOpen *open, uint64_t stream,
                       mr_error *err);
/* False: a later stream or session has taken over; close this one with MR_EPRECOND "another process
 * ..." */
bool mr_round_book_is_current(const mr_round_book *book, uint32_t consumer, uint64_t stream);
/* What a ReadRequest on that stream says; ignored if it is not the current one. MR_EINVAL: it says
 * that it has what was not sent; the book is as before. */
int mr_round_book_tell(mr_round_book *book, uint32_t consumer, uint64_t stream,
                       uint64_t limit_round, uint64_t received_below, uint64_t returned_below,
                       mr_error *err);

/* The next round to send to that consumer; false: nothing at the moment. Sent on a stream that
 * breaks, it comes again on the next one. */
bool mr_round_book_next(const mr_round_book *book, uint32_t consumer, struct mr_round *ret);
/* ... was given to the stream. */
void mr_round_book_sent(mr_round_book *book, uint32_t consumer, uint64_t round);
/* There is something to tell beside elements: that the stream is open, what is complete, the
 * end. */
bool mr_round_book_has_news(const mr_round_book *book, uint32_t consumer);
/* Fill @ret (all but `rounds`) for a message that is sent now on its current stream. */
void mr_round_book_header(mr_round_book *book, uint32_t consumer, Millrace__RoundHeader *ret);

/* ---- for people ---- */

/* Who keeps the others waiting. @ret's `missing` is allocated (mr_free()); on no memory it is left
 * empty. */
void mr_round_book_progress(mr_round_book *book, int64_t now_ms, Millrace__RoundProgress *ret);
