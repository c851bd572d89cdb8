/*
 * A production on this worker: the rows of one pipeline, made once and read by several tasks. They are kept in a window
 * (cache/), as the encoded blocks that clients are sent.
 *
 * The window is on disk. When it cannot be there any more, the production goes on in a small one in memory: what was
 * written before is still read as far as that is possible, what is not readable counts as skipped, and everybody is
 * told. An element that is too large for the window has the same effect. So a production is a chain of logs, of which
 * only the last grows; rows are numbered through all of them.
 *
 * Threads: wait, append, finish and close belong to the producer's thread; read and rewind to the reader's; everything
 * else is safe from any. Readers' `ready` is called with no lock held. Locks of this module are taken after a task's.
 */
#ifndef MR_WORKER_PRODUCTION_H
#define MR_WORKER_PRODUCTION_H

#include "element/packed.h"
#include "worker/windows.h"

typedef struct mr_production mr_production;
typedef struct mr_production_reader mr_production_reader;

/* ---- the producer's side ---- */

/* Blocks for I/O. Fails without memory only. @windows outlives it. *@ret is a reference. */
int mr_production_open(mr_windows *windows, const char *id, mr_production **ret, mr_error *err);
mr_production *mr_production_ref(mr_production *p);
void mr_production_unref(mr_production *p); /* closed before the last one; NULL is fine */

/* Of the blocks that are appended. Before the first. */
void mr_production_set_spec_hash(mr_production *p, uint64_t spec_hash);
uint64_t mr_production_spec_hash(const mr_production *p);
/* Wait until rows are wanted: MR_OK with how many, MR_ECANCELED, or an error (no memory). */
int mr_production_wait(mr_production *p, uint64_t *rows, mr_error *err);
/* Takes @block in any case. Blocks while the window is full. */
int mr_production_append(mr_production *p, mr_block *block, mr_error *err);
/* The pipeline is over: MR_OK at its end, or negative with a message. */
void mr_production_finish(mr_production *p, int code, const char *message);
/* Whoever waits in the calls above returns, now and from now on. */
void mr_production_cancel(mr_production *p);
/* It is over for everybody: readers get MR_ECANCELED, files are deleted. Blocks for I/O. Once. */
void mr_production_close(mr_production *p);

struct mr_production_stats {
    uint64_t first, end; /* elements [first, end) can be read */
    uint64_t bytes;      /* on disk and in memory */
    uint64_t disk_bytes;
    bool complete;
    char degraded[MR_ERROR_MESSAGE_SIZE]; /* why it is in memory; "": it is not */
};
void mr_production_stats(mr_production *p, struct mr_production_stats *ret);

/* ---- readers ---- */

struct mr_production_reader_options {
    const char *name;
    enum mr_cache_lag lag;
    /* After read() said MR_TIMEOUT: it would say something else now. Must not block. */
    void (*ready)(void *ctx);
    void *ctx;
};
/*
 * Step one of joining: *@first is where it would begin; 0 is held for it until it is started or closed. MR_EPRECOND:
 * the production was closed.
 */
int mr_production_join(mr_production *p, const struct mr_production_reader_options *opts, mr_production_reader **ret,
                       uint64_t *first, mr_error *err);
/* Did the pipeline fail? Then true, and *@err says how. */
bool mr_production_failed(mr_production *p, mr_error *err);
/* Step two. *@first is where it begins now. */
void mr_production_start(mr_production_reader *r, uint64_t *first);
void mr_production_leave(mr_production_reader *r); /* waits for `ready` to return; NULL is fine */

/* Rows that come next, and the number of the first. */
struct mr_production_rows {
    uint64_t at;
    struct mr_part *parts; /* references; freed with mr_production_rows_free() */
    size_t n;
};
/*
 * About @rows_max and @bytes_max. MR_TIMEOUT: nothing yet, see `ready`; MR_END: the pipeline is over, and all was read
 * (its error: mr_production_failed()); MR_ECANCELED: the production was closed.
 */
int mr_production_read(mr_production_reader *r, uint64_t rows_max, uint64_t bytes_max, struct mr_production_rows *ret,
                       mr_error *err);
void mr_production_rows_free(struct mr_production_rows *rows);
/* All below was returned to applications: only this moves the cursor. */
void mr_production_returned(mr_production_reader *r, uint64_t upto);
/* Go on reading at @index, which was read and not returned. What the window has lost of it is skipped. */
void mr_production_rewind(mr_production_reader *r, uint64_t index);
void mr_production_set_lag(mr_production_reader *r, enum mr_cache_lag lag);
/* It has read all that there is by now. */
bool mr_production_caught_up(mr_production_reader *r);
mr_production *mr_production_of(const mr_production_reader *r); /* lent */
/* How many elements it could not have. */
uint64_t mr_production_skipped(mr_production_reader *r);

#endif
