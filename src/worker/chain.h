/*
 * A production on this worker: the rows of one pipeline, made once and read by several tasks. They
 * are kept in a window (cache/), as the encoded blocks that clients are sent.
 *
 * The window is on disk. When it cannot be there any more, the production goes on in a small one in
 * memory: what was written before is still read as far as that is possible, what is not readable
 * counts as skipped, and everybody is told. An element that is too large for the window has the
 * same effect. When there is a disk again, and everybody is through with what was written before,
 * it goes on there. So a production is a chain of logs, of which only the last grows; rows are
 * numbered through all of them.
 *
 * Threads: wait, append, finish and close belong to the producer's thread; read and rewind to the
 * reader's; everything else is safe from any. Readers' `ready` is called with no lock held. Locks
 * of this module are taken after a task's.
 */
#pragma once

#include "element/packed.h"
#include "worker/session/reading.h"
#include "worker/windows.h"

typedef struct mr_chain mr_chain;
typedef struct mr_chain_reader mr_chain_reader;

/* ---- the producer's side ---- */

/* Blocks for I/O. Fails without memory only. @make_room(@ctx) is called when there is no room on
 * disk: while it says true it is tried again. NULL: there is none to be made. @windows outlives it.
 * *@ret is a reference. */
int mr_chain_open(mr_windows *windows, const char *id, bool (*make_room)(void *ctx), void *ctx,
                  mr_chain **ret, mr_error *err);
mr_chain *mr_chain_ref(mr_chain *p);
void mr_chain_unref(mr_chain *p); /* closed before the last one; NULL is fine */

/* Of the blocks that are appended. Before the first. */
void mr_chain_set_spec_hash(mr_chain *p, uint64_t spec_hash);
uint64_t mr_chain_spec_hash(const mr_chain *p);
/* Wait until rows are wanted: MR_OK with how many, MR_ECANCELED, or an error (no memory). */
int mr_chain_wait(mr_chain *p, uint64_t *rows, mr_error *err);
/* Takes @block in any case. Blocks while the window is full. */
int mr_chain_append(mr_chain *p, mr_block *block, mr_error *err);
/* The pipeline is over: MR_OK at its end, or negative with a message. */
void mr_chain_finish(mr_chain *p, int code, const char *message);
/* Whoever waits in the calls above returns, now and from now on. */
void mr_chain_cancel(mr_chain *p);
/* If it is complete and nobody reads it, then nobody will any more, and it may be closed. */
bool mr_chain_give_up(mr_chain *p);
/* It is over for everybody: readers get MR_ECANCELED, files are deleted. Blocks for I/O. Once. */
void mr_chain_close(mr_chain *p);

struct mr_chain_stats {
    uint64_t first, end; /* elements [first, end) can be read */
    uint64_t bytes;      /* on disk and in memory */
    uint64_t disk_bytes;
    bool complete;
    uint64_t places; /* of those who read here, or have read a part and may come back */
    bool held;       /* production waits for a reader that does not skip */
    char degraded[MR_ERROR_MESSAGE_SIZE]; /* why it is in memory; "": it is not */
};
void mr_chain_stats(mr_chain *p, struct mr_chain_stats *ret);

/* ---- readers ---- */

/* Step one of joining: *@first is where it would begin; 0 is held for it until it is started or
 * closed. MR_EPRECOND: the production was closed. Readers of one name, @who, come one after another
 * and go on where the last one stood: mr_chain_put_down(). */
int mr_chain_join(mr_chain *p, const char *who, const struct mr_cache_reader_options *opts,
                  mr_chain_reader **ret, uint64_t *first, mr_error *err);
/* Did the pipeline fail? Then true, and *@err says how. */
bool mr_chain_failed(mr_chain *p, mr_error *err);
/* Step two. Returns where it begins now. */
uint64_t mr_chain_start(mr_chain_reader *r);
/* Whoever reads for @r's name next begins at @stand->at, or behind it at what there still is: what
 * lies between counts as skipped. Nothing is read any more. */
void mr_chain_put_down(mr_chain_reader *r, const struct mr_reading_stand *stand);
/* Where the one before this one stood. false: there was none. */
bool mr_chain_stand(mr_chain_reader *r, struct mr_reading_stand *ret);
/* The window was given up, so that nobody joins: where @who stood, and how much it had not read.
 * false: it had not begun. */
bool mr_chain_missed(mr_chain *p, const char *who, struct mr_reading_stand *ret,
                     uint64_t *elements);
void mr_chain_leave(mr_chain_reader *r); /* waits for `ready` to return; NULL is fine */

/* Rows that come next, and the number of the first. */
struct mr_chain_rows {
    uint64_t at;
    struct mr_part *parts; /* references; freed with mr_chain_rows_free() */
    size_t n;
};
/* About @rows_max and @bytes_max. MR_TIMEOUT: nothing yet, see `ready`; MR_END: the pipeline is
 * over, and all was read (its error: mr_chain_failed()); MR_ECANCELED: the production was closed.
 */
int mr_chain_read(mr_chain_reader *r, uint64_t rows_max, uint64_t bytes_max,
                  struct mr_chain_rows *ret, mr_error *err);
void mr_chain_rows_free(struct mr_chain_rows *rows);
/* All below was returned to applications: only this moves the cursor. */
void mr_chain_returned(mr_chain_reader *r, uint64_t upto);
/* Go on reading at @index, which was read and not returned. What the window has lost of it is
 * skipped. */
void mr_chain_rewind(mr_chain_reader *r, uint64_t index);
void mr_chain_set_lag(mr_chain_reader *r, enum mr_cache_lag lag);
/* It has read all that there is by now. */
bool mr_chain_caught_up(mr_chain_reader *r);
mr_chain *mr_chain_of(const mr_chain_reader *r); /* lent */
/* How many elements it could not have. */
uint64_t mr_chain_skipped(mr_chain_reader *r);
