/*
 * The cache: logs of elements on local disk, each written by one producer and read by many readers,
 * that hold a sliding window of the newest elements. For sharing one production between consumers;
 * knows nothing of jobs, and of elements only that a chunk holds a number of them.
 *
 * Chunks (runs of rows, opaque bytes) are packed into records of 64 KiB or more. A record is in
 * memory first, where readers see it at once; when enough has come together it is written to a file
 * of RocksDB, once. Files are dropped whole, oldest first, to keep the log within its bytes. The
 * cache is ephemeral: what an earlier life left is wiped.
 *
 * Not for: keeping anything. There is no write-ahead log, and a log's end is the end of its files.
 *
 * Threads: everything is safe from any thread, with one exception: append, wait, finish and close
 * of one log belong to one thread at a time (its producer's). No lock is held across a callback or
 * I/O.
 *
 * Failures: a log that cannot be written or read any more (disk full, I/O error, a record that is
 * not what was written) turns to the failed state for good, with an error that says what and where.
 * Nothing can be appended then; readers get what can still be read, and that error at its end or at
 * the damaged record, which they may pass. Other logs go on, as far as their own writes succeed.
 * Once the last log of a database that failed is closed, the next mr_cache_log_open() starts it
 * anew.
 *
 * Units: bytes and elements (rows); indices count elements of a log from 0; times are milliseconds.
 */
#pragma once

#include <millrace/base.h>
#include <sys/uio.h>

typedef struct mr_cache mr_cache;
typedef struct mr_cache_log mr_cache_log;
typedef struct mr_cache_reader mr_cache_reader;
typedef struct mr_cache_view mr_cache_view;

/* A reader whose elements are dropped before it was handed them: skips and counts them, or holds
 * the producer up. */
enum mr_cache_lag { MR_CACHE_LAG_SKIP, MR_CACHE_LAG_WAIT };

/* The size of a chunk is a multiple of it, and so are the offsets of chunks in a record. */
#define MR_CACHE_ALIGNMENT 64u

/* ---- the cache ---- */

/* Everything is copied. */
struct mr_cache_options {
    /* made if missing (not its parents); no other cache may use it at the same time */
    const char *dir;
    /* All files in it, at any time, RocksDB's own included. At least 32 MiB. */
    uint64_t disk_bytes_max;
    /* What is not written yet, and RocksDB's write buffers. Besides these views pin what they hold,
     * and a file of which something is read has its index in memory (some 50 bytes a record, 256
     * files at most). At least 16 MiB. Divided evenly among `logs_max`. */
    uint64_t memory_bytes_max;
    uint32_t logs_max; /* at the same time */
};

/* Blocks while the directory is wiped. MR_EPRECOND: another process (or this one) has the directory
 * open; MR_EINVAL names a bad option; MR_EPERM, MR_ENOTFOUND, MR_EUNAVAIL: the directory cannot be
 * used. *@ret belongs to the caller. */
int mr_cache_open(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err);
/* The same for one log in memory, where there is no disk to be had: @bytes_max is what its window
 * holds; half as much again is unstored or a copy. MR_EINVAL: less than 2 MiB. */
int mr_cache_open_memory(uint64_t bytes_max, mr_cache **ret, mr_error *err);
/* All logs are closed. The files are deleted and the directory is given up; if views are still
 * held, the last of them does that. NULL is fine. Blocks for I/O. */
void mr_cache_close(mr_cache *cache);

/* A log may not have more than this much: what the other logs leave of disk_bytes_max. */
uint64_t mr_cache_bytes_free(mr_cache *cache);

/* ---- logs: the producer's side ---- */

/* A new, empty log, of at most @bytes_max (8 MiB at least; 0: what is free) in files, also while
 * one is written. @name appears in errors; it need not be unique. MR_EEXHAUSTED: too many logs, or
 * @bytes_max is more than is free. *@ret belongs to the caller. Blocks for I/O. */
int mr_cache_log_open(mr_cache *cache, const char *name, uint64_t bytes_max, mr_cache_log **ret,
                      mr_error *err);
/* The production is over for all: its files are deleted now, readers get MR_ECANCELED (and must
 * still be closed). Waits for reads and writes of this log that are under way. NULL is fine. */
void mr_cache_log_close(mr_cache_log *log);

/* Wait until elements are wanted: MR_OK with *@rows, how many; MR_END after mr_cache_log_finish();
 * MR_ECANCELED after mr_cache_log_cancel(); the log's error once it has failed. */
int mr_cache_log_wait(mr_cache_log *log, uint64_t *rows, mr_error *err);

/* @rows elements as @n pieces of bytes whose sum is a multiple of MR_CACHE_ALIGNMENT. They stay the
 * caller's memory, unchanged, until @release(@ctx) is called: exactly once, also on failure, from
 * any thread, with no lock held. Small chunks are copied and released at once. */
struct mr_cache_chunk {
    uint32_t rows;
    const struct iovec *iov; /* the array is copied */
    size_t n;
    void (*release)(void *ctx); /* NULL: nothing to do */
    void *ctx;
};

/* Readers see the chunk when this returns. Blocks while the log's part of memory is full: the disk
 * is slow, or readers that do not skip hold the files up. MR_EINVAL: not a chunk, or it is larger
 * than `chunk_bytes_max` of its stats (the log is not harmed); MR_EEXHAUSTED: out of memory
 * (neither); MR_ECANCELED; else the log's error: it has failed. */
int mr_cache_log_append(mr_cache_log *log, const struct mr_cache_chunk *chunk, mr_error *err);

/* The pipeline is over: readers get MR_END once they have read everything. */
void mr_cache_log_finish(mr_cache_log *log);

/* Make the producer's waiting calls return MR_ECANCELED, now and from now on. Any thread. */
void mr_cache_log_cancel(mr_cache_log *log);

struct mr_cache_log_stats {
    uint64_t head, end; /* elements [head, end) can be read */
    bool held;          /* the producer waits for room, because of a reader that does not skip */
    mr_error failure;   /* code MR_OK, or why it failed */
    uint64_t bytes_max; /* as it was opened */
    uint64_t chunk_bytes_max; /* of the largest chunk that it takes */
    uint64_t file_bytes;      /* on disk */
    uint64_t memory_bytes;    /* not written yet */
    uint64_t appended_bytes;  /* since the start, as encoded in records */
    uint64_t written_bytes;   /* of files, since the start */
    /* records read from files, and how many reads were served from memory */
    uint64_t read_disk_records;
    uint64_t read_memory_views;
    size_t files;
    size_t readers;
};
void mr_cache_log_stats(mr_cache_log *log, struct mr_cache_log_stats *ret);

/* ---- readers ---- */

struct mr_cache_reader_options {
    enum mr_cache_lag lag;
    /* Called once after mr_cache_reader_next() said MR_TIMEOUT and it would say something else now.
     * On the thread that appended, finished, failed or closed the log; it must not block or call
     * into the cache but for mr_cache_reader_next(). NULL: nobody is told. */
    void (*ready)(void *ctx);
    void *ctx;
};

/* Join, step one. *@first is where the reader would begin: 0 is held for it until it is started or
 * closed (no file is dropped meanwhile, which holds the producer up: decide soon). Anything else is
 * not held: the window's start moves on. */
int mr_cache_reader_open(mr_cache_log *log, const struct mr_cache_reader_options *opts,
                         mr_cache_reader **ret, uint64_t *first, mr_error *err);
/* Step two: read from where open said, or from further on when that was not 0; returns where. */
uint64_t mr_cache_reader_start(mr_cache_reader *r);
/* Step two for one that follows on another, at most at the end: what the window has lost from @from
 * on is skipped. */
void mr_cache_reader_resume(mr_cache_reader *r, uint64_t from);
/* Its lag is another one from now on. A "wait" reader misses nothing that it has not missed
 * before. */
void mr_cache_reader_set_lag(mr_cache_reader *r, enum mr_cache_lag lag);
/* Gone, with its cursor and what it held. Waits for `ready` to return if it runs. NULL is fine. */
void mr_cache_reader_close(mr_cache_reader *r);

/* What comes next: chunks of one record, at least one, as many as fit @rows_max and @bytes_max. The
 * first may begin before the reader's position (`skip`). *@ret is a reference.
 * MR_TIMEOUT: nothing yet, see `ready`; MR_END: the log is finished and read; MR_ECANCELED: it was
 * closed; MR_EDATALOSS: a record is not what was written; else the log's error.
 * Does not wait but for the disk. One call at a time for each reader. */
int mr_cache_reader_next(mr_cache_reader *r, uint64_t rows_max, uint64_t bytes_max,
                         mr_cache_view **ret, mr_error *err);

/* After an error of next(): leave out the record that cannot be read, or the rest of its file if it
 * cannot be told where the next one begins. Returns how many elements that are: they are skipped,
 * whatever the lag. 0: there is nothing behind it. Waits for the disk. */
uint64_t mr_cache_reader_pass(mr_cache_reader *r);

/* Everything below @upto that was handed out was returned to an application: only this moves the
 * cursor. MR_EINVAL: it was not handed out. */
int mr_cache_reader_returned(mr_cache_reader *r, uint64_t upto, mr_error *err);
/* Hand out again from @index on: the consumer went away with elements it did not return. MR_EINVAL:
 * below what was returned, or not handed out yet. What the window has lost of it counts as skipped.
 * Not during a next(). */
int mr_cache_reader_rewind(mr_cache_reader *r, uint64_t index, mr_error *err);

struct mr_cache_reader_stats {
    uint64_t next;     /* the next element to be handed out */
    uint64_t returned; /* the cursor */
    uint64_t skipped;  /* dropped before they were handed out, or handed out again; or passed */
};
void mr_cache_reader_stats(const mr_cache_reader *r, struct mr_cache_reader_stats *ret);

/* ---- views ---- */

struct mr_cache_view_chunk {
    uint32_t rows;
    uint64_t bytes;
    size_t iov_first, iov_count; /* its pieces in the view's iov */
};

/* A view is immutable and outlives reader, log and cache; ref, unref and reading are safe from any
 * thread. */
struct mr_cache_view {
    uint64_t first; /* the first row of the first chunk */
    uint64_t rows;  /* of all chunks */
    uint64_t bytes;
    uint32_t skip; /* rows at the start that the reader was handed before (it was rewound) */
    struct mr_cache_view_chunk *chunks;
    size_t nchunks;
    /* The bytes in order, without a copy: the producer's memory, or RocksDB's (pinned; aligned to
     * nothing, one piece a chunk, adjacent in memory). */
    struct iovec *iov;
    size_t niov;
    /* The cache's. */
    _Atomic unsigned refs;
    struct mr_cache_run *run;
};
mr_cache_view *mr_cache_view_ref(mr_cache_view *view);
/* NULL is fine; takes void * to serve as the release function of a buffer or slice. The last one
 * may do I/O. */
void mr_cache_view_unref(void *view);
