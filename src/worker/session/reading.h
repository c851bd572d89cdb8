/*
 * What a task that reads a shared window decides: whether it reads now, where it goes back to, what
 * it counts as skipped, and where the next task of its iteration goes on. The window, and reading
 * in it, is its owner's.
 *
 * Happy path: the reader joins the window (mr_reading_joined()), the dispatcher agrees
 * (mr_reading_decided()), reading starts (mr_reading_started()); rows go into the book, and the
 * reader's cursor follows what clients return. When the task is dropped, or through, it says where
 * it stands, and the window keeps that for the next task of the same iteration.
 *
 * Pure: no I/O, no clock, no lock. One owner at a time.
 */
#pragma once

#include "worker/session/book.h"

/* Where the tasks of one iteration stand in a window, and what all of them say until there: the
 * next one says it, too, since what the one before it did not come to say nobody else knows. */
struct mr_reading_stand {
    uint64_t at; /* all before it was sent to somebody, or skipped; the next one begins there */
    uint64_t skipped; /* elements before it */
    uint64_t told;    /* clients heard that so many were skipped: perhaps also some behind it */
    /* elements before it that were sent, and may never have got to an application */
    uint64_t missing;
};

struct mr_reading {
    mr_book *book; /* lent */
    bool open;     /* it has a reader in the window */
    bool joining;  /* nothing is delivered before the dispatcher has decided */
    bool more;     /* the reader has not said that there is nothing yet */
    bool gone;     /* the window was given up before this task could go on in it */
    uint64_t first;
    uint64_t returned; /* as the reader was told */
    uint64_t skipped;  /* elements that this task and those before it could not have */
    struct mr_reading_stand before;
};

/* ---- joining ---- */

void mr_reading_init(struct mr_reading *r, mr_book *book, bool joining);
/* It has a reader, which holds the window from @first on. */
void mr_reading_joined(struct mr_reading *r, uint64_t first);
/* The dispatcher has let it in. Does its reader start now? */
bool mr_reading_decided(struct mr_reading *r);
/* Its reader has started at @first. @before: where an earlier task of its iteration stood; NULL:
 * there was none. */
void mr_reading_started(struct mr_reading *r, uint64_t first,
                        const struct mr_reading_stand *before);
/* The window was given up. An earlier task stood @before, and had not read @unread elements.
 * Returns how many of those skipped clients did not know. */
uint64_t mr_reading_missed(struct mr_reading *r, const struct mr_reading_stand *before,
                           uint64_t unread);
/* It has no reader any more. */
void mr_reading_closed(struct mr_reading *r);

/* ---- reading ---- */

enum mr_reading_step {
    MR_READING_WAIT,
    MR_READING_READ,
    MR_READING_READ_END, /* only if all there is was read: nobody wants rows, but an end is found */
};
/* What to do now. @resting: it waits already, and goes on only when it is worth it. */
enum mr_reading_step mr_reading_next(const struct mr_reading *r, bool resting);
/* How many rows to ask for. */
uint32_t mr_reading_rows(const struct mr_reading *r);
/* Nobody is there, so what was read ahead was dropped: read on from *@at. false: nothing was. */
bool mr_reading_goes_back(struct mr_reading *r, uint64_t *at);
/* Clients have returned all below *@upto. false: that is not new. */
bool mr_reading_returns(struct mr_reading *r, uint64_t *upto);
/* The reader has skipped so many elements by now. Returns how many that clients did not know. */
uint64_t mr_reading_skips(struct mr_reading *r, uint64_t by_reader);

/* ---- how it stands ---- */

/* Where the next task of its iteration goes on. false: it has read nothing. */
bool mr_reading_stand(const struct mr_reading *r, struct mr_reading_stand *ret);
/* Of a window that ends at @end, so many elements were to come to this task and those before it:
 * what was delivered and what was skipped add up to it when all is read. */
uint64_t mr_reading_produced(const struct mr_reading *r, uint64_t end);
