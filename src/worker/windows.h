/*
 * Where the windows of this worker's productions are: one cache on disk, in a directory of its own
 * below one that the workers of a machine share; opened when the first production needs it. What
 * workers that are gone left there is wiped at the start.
 *
 * Not for: deciding what is in a window (chain.h).
 *
 * Threads: everything from any thread but new and free. mr_windows_open() blocks for I/O, nothing
 * else does.
 */
#pragma once

#include "base/base.h"
#include "base/memory.h"
#include "cache/cache.h"

typedef struct mr_windows mr_windows;

/* Zero or NULL means "the default" in every field. */
struct mr_windows_options {
    /* the workers' common one; made if missing. Default: one of this user's in TMPDIR */
    const char *dir;
    /* of all windows, and of one; default 10 GiB. Less than what is possible is rounded up */
    uint64_t disk_bytes_max;
    /* what is not written yet; default 1/8 of the machine, 128 MiB to 2 GiB, and at most a
     * quarter of the budget */
    uint64_t memory_bytes_max;
    mr_memory *memory; /* the worker's budget, which all of it is charged to; NULL: none */
    int64_t retry_ms;  /* how often one in memory looks for room on disk, at first; default 30 s */
};

/* Never fails for the directory's sake: that is said when a window is opened. */
int mr_windows_new(const struct mr_windows_options *opts, mr_windows **ret, mr_error *err);
/* All logs are closed. Deletes the files. NULL is fine. */
void mr_windows_free(mr_windows *w);

/* A window on disk for production @name: half of what is free. Fails when there is none at the
 * moment, with the reason. */
int mr_windows_open(mr_windows *w, const char *name, mr_cache_log **ret, mr_error *err);
/* Memory for a window that is in memory only: *@bytes, at least @least, which may be 0. Each has
 * half of what others have left of memory_bytes_max, and 2 MiB when nothing is left; *@taken is
 * what it takes of the worker's budget, with its copies. MR_EEXHAUSTED: that has no more. */
int mr_windows_take_memory(mr_windows *w, uint64_t least, uint64_t *bytes, uint64_t *taken,
                           mr_error *err);
void mr_windows_give_memory(mr_windows *w, uint64_t taken);
int64_t mr_windows_retry_ms(const mr_windows *w);

/* A production goes on in memory, because of @why; and: it is over, or on disk again. */
void mr_windows_degraded(mr_windows *w, const mr_error *why);
void mr_windows_restored(mr_windows *w);

struct mr_windows_progress {
    bool used;          /* something was shared here */
    uint64_t bytes_max; /* on disk */
    uint64_t failures;
    uint64_t failures_by[MR_CODES];       /* the same by -code */
    char degraded[MR_ERROR_MESSAGE_SIZE]; /* "": nothing is */
};
void mr_windows_progress(mr_windows *w, struct mr_windows_progress *ret);
