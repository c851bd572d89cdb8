/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * Objects: a cache has a storage and logs. A log has records in memory (its tail), a window, a
 * thread that writes and drops files, and readers. A view refers to chunks of a record, which is in
 * memory or a pinned value of the storage.
 *
 * References: the cache is held by its opener, its logs and records of the storage; a log by its
 * opener and its readers; a record by the tail, by readers, by views.
 *
 * Locks: cache->lock and log->lock; never both. Neither is held across a callback, a release
 * function, or the storage.
 */
#pragma once

#include "base/base.h"
#include "base/sync.h"
#include "cache/cache.h"
#include "cache/record.h"
#include "cache/storage.h"
#include "cache/window/window.h"

#include <stdatomic.h>
#include <sys/queue.h>

/* A record takes no more chunks at this size, or at this age. */
#define MR_CACHE_RECORD_BYTES (64u * 1024u)
#define MR_CACHE_RECORD_AGE_MS 1000
/* Chunks below this are copied: their memory may be a small part of something large. */
#define MR_CACHE_COPY_BYTES (16u * 1024u)
/* What a chunk costs besides its bytes: entries here, in the directory and its padding, and the
 * key. */
#define MR_CACHE_CHUNK_OVERHEAD 64u
#define MR_CACHE_RECORD_OVERHEAD 256u

/* ---- the cache (cache.c) ---- */

struct mr_cache_limits {
    uint64_t log_bytes_max; /* of all logs together, on disk */
    uint64_t log_bytes_min; /* of one */
    /* of one log: unstored elements; the storage's write buffer is not in it */
    uint64_t log_memory_bytes;
    uint32_t logs_max;
};

struct mr_cache {
    _Atomic unsigned refs;
    mr_storage *storage;
    struct mr_cache_limits limits;

    pthread_mutex_t lock; /* guards everything below */
    uint32_t logs;
    uint64_t reserved_bytes;
    uint64_t next_id;
    bool failed;             /* some log failed: begin anew when there is none */
    _Atomic uint32_t pinned; /* values of the storage that are held */
};

/* Over any storage, which it then owns (also on failure). */
int mr_cache_new(mr_storage *storage, const struct mr_cache_limits *limits, mr_cache **ret,
                 mr_error *err);
void mr_cache_unref(mr_cache *cache);
/* A log of it failed. */
void mr_cache_set_failed(mr_cache *cache);
/* A log has gone. */
void mr_cache_release_log(mr_cache *cache, uint64_t bytes);

/* ---- records and views (run.c) ---- */

struct mr_cache_piece {
    void (*release)(void *ctx);
    void *ctx;
};

/* Chunks with their bytes. In memory it grows until it is sealed, under its log's lock; then it is
 * immutable. */
struct mr_cache_run {
    _Atomic unsigned refs;
    uint64_t first;
    uint32_t rows;
    uint64_t payload;
    uint64_t charge; /* what the window counts for it */
    struct mr_cache_view_chunk *chunks;
    size_t nchunks, chunks_cap;
    struct iovec *iov;
    size_t niov, iov_cap;
    /* In memory: what its chunks belong to; small ones are copied to the arena, which is the last
     * of several. */
    struct mr_cache_piece *pieces;
    size_t npieces, pieces_cap;
    unsigned char *arena;
    size_t arena_used, arena_cap;
    int64_t opened_ms;
    bool sealed; /* takes no more chunks (log->lock) */
    bool put;    /* the storage has it (log->lock) */
    /* From the storage. */
    mr_cache *cache;
    struct mr_storage_value value;
};

int mr_cache_run_new(uint64_t first, struct mr_cache_run **ret, mr_error *err);
/* Takes over @chunk's memory, or copies it; on failure nothing has changed. *@copied: release it
 * now. */
int mr_cache_run_add(struct mr_cache_run *run, const struct mr_cache_chunk *chunk, uint64_t bytes,
                     bool *copied, mr_error *err);
/* Over @value of @cache, which it takes in any case; checks it. */
int mr_cache_run_load(mr_cache *cache, uint64_t log, uint64_t first, struct mr_storage_value *value,
                      struct mr_cache_run **ret, mr_error *err);
struct mr_cache_run *mr_cache_run_ref(struct mr_cache_run *run);
void mr_cache_run_unref(struct mr_cache_run *run); /* NULL is fine; not under a lock */
MR_AUTO_DEFINE(struct mr_cache_run, mr_cache_run_unref)

/* Chunks of @run from the one with element @index on. */
int mr_cache_view_new(struct mr_cache_run *run, uint64_t index, uint64_t rows_max,
                      uint64_t bytes_max, mr_cache_view **ret, mr_error *err);

/* ---- logs (log.c, writer.c, reader.c) ---- */

struct mr_cache_log {
    _Atomic unsigned refs;
    /* Set when made, then only read. */
    mr_cache *cache;
    char *name;
    uint64_t id;
    uint64_t chunk_bytes_max;
    mr_storage_log *storage;
    pthread_t writer;

    pthread_mutex_t lock;    /* guards everything below */
    pthread_cond_t producer; /* demand, room, cancel, failure */
    pthread_cond_t work;     /* for the writer: something to write or to drop, or the end */
    pthread_cond_t idle;     /* no read in the storage; a callback has returned */
    mr_window window;
    struct mr_cache_run **tail; /* records in memory, oldest first; the last may be open */
    size_t ntail, tail_cap;
    uint64_t ready_bytes; /* charge of the tail's records that the storage has */
    bool cancelled;
    bool waiting; /* the producer, for room */
    bool closed;
    mr_error failure; /* code MR_OK: it has not failed */
    unsigned reads;   /* of the storage, under way */
    uint64_t appended_bytes, written_bytes, read_disk_records, read_memory_views;
    LIST_HEAD(, mr_cache_reader) readers;
};

struct mr_cache_reader {
    LIST_ENTRY(mr_cache_reader) link; /* all: log->lock */
    mr_cache_log *log;
    mr_window_reader cursor;
    void (*ready)(void *ctx);
    void *ctx;
    bool armed;   /* found nothing: to be told */
    bool due;     /* there is something now */
    bool calling; /* `ready` runs */
    /* The record that holds element `at` begins at `key`: without it the storage has to search. */
    uint64_t at, key;
    struct mr_cache_run *held; /* the last record of the storage, while it is not read to its end */
};

void mr_cache_log_unref(mr_cache_log *log);
/* The log has failed as @err says, unless it had before; context is put in front. Then
 * mr_cache_log_tell(). */
void mr_cache_log_fail_locked(mr_cache_log *log, const mr_error *err);
/* Who waits for elements has something to see. Then mr_cache_log_tell(). */
void mr_cache_log_ready_locked(mr_cache_log *log);
/* Call `ready` of those. No lock is held. */
void mr_cache_log_tell(mr_cache_log *log);
/* The thread that writes and drops files; ctx is the log. */
void *mr_cache_writer_main(void *ctx);
