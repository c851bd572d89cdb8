/*
 * The port to what keeps records on disk: what the cache needs of it, and no more. The adapters:
 * cache/rocks (RocksDB), cache/memory, and cache/fake (that one with faults, for tests), held
 * together by one suite of tests.
 *
 * A storage has logs; a log has records under ascending 64-bit keys, and files. What was put is in
 * memory until a flush makes a file of it; files hold runs of consecutive keys and are removed
 * whole, oldest first.
 *
 * Threads: calls are safe from any thread, but put() of one log comes from one thread at a time,
 * and so do flush() and remove_oldest(); the two may overlap. get() and find() come from any
 * thread. drop() and reset() overlap nothing else of what they destroy. All of them may do I/O;
 * none waits for another log's.
 *
 * A failure is final for the log it happened to (the caller puts and flushes no more), get() goes
 * on as far as it can.
 */
#pragma once

#include <millrace/base.h>
#include <sys/uio.h>

typedef struct mr_storage mr_storage;
typedef struct mr_storage_log mr_storage_log;

/* A file that a flush made. */
struct mr_storage_file {
    uint64_t last; /* the key of its last record */
    uint64_t bytes;
};

/* A record, pinned until release(). */
struct mr_storage_value {
    const void *data;
    size_t size;
    void *handle;
};

struct mr_storage_ops {
    /* A new, empty log; @id is not that of another one of this process's life. */
    int (*create)(mr_storage *s, uint64_t id, mr_storage_log **ret, mr_error *err);
    /* Does not wait for the disk. What iov[0..n) point at is copied. */
    int (*put)(mr_storage_log *log, uint64_t key, const struct iovec *iov, size_t n, mr_error *err);
    /* Everything put before this call is in files when it returns, perhaps some of what was put
     * since. One file. */
    int (*flush)(mr_storage_log *log, struct mr_storage_file *ret, mr_error *err);
    int (*remove_oldest)(mr_storage_log *log, mr_error *err);
    /* What was put: a storage that reads files verifies each byte by a checksum. MR_EDATALOSS: it
     * is something else; MR_ENOTFOUND: no such record (any more). A value outlives its file and its
     * log. */
    int (*get)(mr_storage_log *log, uint64_t key, struct mr_storage_value *ret, mr_error *err);
    void (*release)(mr_storage *s, struct mr_storage_value *value);
    /* The key that is there next to @key, which it may be, @upwards or downwards. MR_ENOTFOUND:
     * there is none. Upwards it may fail next to a damaged record, and then succeed a little
     * further on. */
    int (*find)(mr_storage_log *log, uint64_t key, bool upwards, uint64_t *ret, mr_error *err);
    /* The log and its files are gone; a failure means that files may be left until a reset. */
    int (*drop)(mr_storage_log *log, mr_error *err);
    /* Begin anew after a failure: there is no log and no value. */
    int (*reset)(mr_storage *s, mr_error *err);
    /* There is no log and no value; NULL is not allowed. */
    void (*close)(mr_storage *s);
};

struct mr_storage {
    const struct mr_storage_ops *ops;
    const char *place; /* for messages: the directory */
};

struct mr_storage_log {
    mr_storage *storage;
};

/* In memory (memory/memory.c), for a window where there is no disk to be had: what was put is
 * copied, a file is a run of records, and nothing fails but for memory. Of any mr_storage whose
 * `ops` they are, or begin with (cache/fake). */
extern const struct mr_storage_ops mr_memory_storage_ops;
