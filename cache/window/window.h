/*
 * Who reads where in a log, what of it may be dropped, and when there is something to produce: the
 * policy of a sliding window, apart from any storage.
 *
 * Elements are numbered from 0. [head, end) can be read. What was appended is in memory first
 * ("unstored"), then in files: a file covers a run of elements, files are dropped whole, oldest
 * first. A reader has two positions: `next`, up to which it was handed elements, and `returned`, up
 * to which an application has them: only the latter is consumption, and a reader whose consumer
 * went away goes back to it.
 *
 *   lag "skip"   files are dropped without regard to the reader; what it was not handed before is
 *                counted.
 *   lag "wait"   no file is dropped of which the reader did not return all elements; the producer
 *                waits. What such a reader misses is only what a disk gives back damaged.
 *
 * Joining has two steps: a reader that finds element 0 holds it (no file is dropped) until it is
 * started or leaves; one that does not is told where the window begins.
 *
 * Pure: no I/O, clock, lock or thread. One owner at a time.
 */
#pragma once

#include "cache/cache.h"

#include <sys/queue.h>

/* Runs of skipped elements that a reader may still go back over. Beyond that the oldest is
 * forgotten: going back over it counts it again. It takes as many files dropped under the elements
 * that one consumer has not confirmed. */
#define MR_WINDOW_GAPS_MAX 64

struct mr_window_limits {
    uint64_t bytes_max; /* of files and what is unstored; at least 4 x unstored_bytes_max */
    uint64_t unstored_bytes_max;
    uint64_t flush_bytes; /* so much unstored makes a file; at most half of unstored_bytes_max */
    uint64_t ahead_bytes; /* how far production runs ahead of the fastest reader */
};

struct mr_window_gap {
    uint64_t first, end;
};

/* Whoever owns it reads `next`, `returned`, `skipped` and `started`; all is written here. */
typedef struct mr_window_reader {
    LIST_ENTRY(mr_window_reader) link;
    enum mr_cache_lag lag;
    bool started;
    uint64_t next;     /* the next element to be handed out; before the start, where it begins */
    uint64_t returned; /* the cursor */
    uint64_t skipped;
    /* What was skipped between `returned` and `next`: not handed out, so not skipped anew by going
     * back over it. */
    struct mr_window_gap gaps[MR_WINDOW_GAPS_MAX];
    size_t ngaps;
} mr_window_reader;

struct mr_window_file {
    uint64_t end; /* it covers the elements from the end of the one before */
    uint64_t bytes;
};

/* The same: its owner reads all but `files`. */
typedef struct mr_window {
    struct mr_window_limits limits;
    uint64_t head, end;
    uint64_t appended_bytes; /* since the start */
    uint64_t unstored_bytes;
    uint64_t stored_end; /* elements below are in files */
    bool finished;
    struct mr_window_file *files; /* oldest first */
    size_t nfiles, cap;
    uint64_t file_bytes;
    LIST_HEAD(, mr_window_reader) readers;
} mr_window;

void mr_window_init(mr_window *w, const struct mr_window_limits *limits);
void mr_window_clear(mr_window *w); /* a zeroed one is fine */

/* ---- production ---- */

/* Rows to produce now; 0: the fastest reader has enough before it, nobody reads, or the log is
 * finished. */
uint64_t mr_window_demand(const mr_window *w);
/* @bytes more may be appended without exceeding unstored_bytes_max. */
bool mr_window_room(const mr_window *w, uint64_t bytes);
void mr_window_append(mr_window *w, uint64_t rows, uint64_t bytes);
/* Nothing will be appended any more. */
void mr_window_finish(mr_window *w);

/* ---- storage ---- */

/* @ready bytes of what is unstored could be written: true when that is worth a file, and the file
 * fits. */
bool mr_window_flush_due(const mr_window *w, uint64_t ready);
/* Elements below @end are in a new file of @file_bytes; they were @bytes of what is unstored. */
int mr_window_stored(mr_window *w, uint64_t end, uint64_t bytes, uint64_t file_bytes,
                     mr_error *err);
/* The oldest file must go to make room for the next one, and may. */
bool mr_window_trim_due(const mr_window *w);
/* ... must, and may not: some reader holds it. */
bool mr_window_held(const mr_window *w);
/* It goes: head moves, readers that lag skip. */
void mr_window_trim(mr_window *w);

/* The end of the file that holds element @index; 0: none does. */
uint64_t mr_window_file_end(const mr_window *w, uint64_t index);

/* ---- readers ---- */

/* Step one; not started yet. It would begin at `next`: 0 is held for it, anything else moves on. @r
 * is the caller's until mr_window_leave(). */
void mr_window_join(mr_window *w, mr_window_reader *r, enum mr_cache_lag lag);
/* Step two: it reads from there. */
void mr_window_start(mr_window *w, mr_window_reader *r);
/* The same, from @from (at most the end) on: what has gone of that counts as skipped. */
void mr_window_resume(mr_window *w, mr_window_reader *r, uint64_t from);
/* What it holds, it holds from now on; what it was skipped past before is gone. */
void mr_window_set_lag(mr_window *w, mr_window_reader *r, enum mr_cache_lag lag);
void mr_window_leave(mr_window *w, mr_window_reader *r);

/* It was handed the elements up to @upto (next < upto <= end). */
void mr_window_read(mr_window *w, mr_window_reader *r, uint64_t upto);
/* It is not handed the elements up to @upto, which are in files that cannot be read: whatever its
 * lag, they are skipped. */
void mr_window_pass(mr_window *w, mr_window_reader *r, uint64_t upto);
/* An application has everything below @upto that was handed out. MR_EINVAL: not handed out yet. */
int mr_window_returned(mr_window *w, mr_window_reader *r, uint64_t upto, mr_error *err);
/* Hand out again from @index on. MR_EINVAL: below what was returned, or beyond what was handed out.
 * What is no longer there counts as skipped. */
int mr_window_rewind(mr_window *w, mr_window_reader *r, uint64_t index, mr_error *err);
