/*
 * The engine: runs dataset graphs. Iterators pull blocks bounded by demand; see
 * docs/change/architecture.md.
 *
 * Used by clients (through <millrace/iterator.h>) and by workers. Threads: one thread at a time per
 * iterator, except for mr_engine_cancel().
 */
#pragma once

#include "base/cpu.h"
#include "base/memory.h"
#include "element/block.h"

#include <millrace/dataset.h>
#include <stdatomic.h>

typedef struct mr_engine_iter mr_engine_iter;

/* How much the consumer wants: never more than rows_max rows; bytes_hint is when a block is large
 * enough. */
struct mr_want {
    /* 0: as many as are sensible: one at first, more while the consumer keeps coming */
    uint32_t rows_max;
    size_t bytes_hint; /* 0: 64 KiB */
};

struct mr_range {
    uint64_t first;
    uint64_t count;
};

/*
 * Where the sources of the outermost graph get their splits from, when they do not read everything
 * (DYNAMIC). Split i of a source is its i-th run of elements before any operator; with up to
 * MR_SPLITS_WHOLE_MAX elements, its i-th element. MR_OK, MR_END (of this repetition) or an error.
 * May block; returns MR_ECANCELED once the iterator is cancelled (the implementation is told by
 * `cancel`).
 *
 * *@origin is NULL, and may be set to a reference for the engine: then every block that descends
 * from these splits carries it, and something holds it until they were read to their end and
 * nothing descends from them in the engine any more. Closing the iterator ends both.
 */
struct mr_split_source {
    void *ctx;
    int (*next)(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                mr_origin **origin, mr_error *err);
    void (*cancel)(void *ctx);
};

/* A source whose elements come from elsewhere: reading from the service, provided by the client
 * library. */
struct mr_external_iter {
    void *ctx;
    /* MR_OK, MR_END, MR_TIMEOUT or an error. timeout_ms as in mr_iterator_next_block(). */
    int (*pull)(void *ctx, struct mr_want want, int timeout_ms, mr_block **ret, mr_error *err);
    void (*cancel)(void *ctx);
    void (*close)(void *ctx);
};
struct mr_external_opener {
    void *ctx;
    /* @ordinal: how many iterators this dataset node has had before (the repetition). Attributes
     * are the node's. */
    int (*open)(void *ctx, const char *op, const struct mr_attr *attrs, size_t nattrs,
                mr_dataset *input /* or NULL */, uint64_t ordinal, struct mr_external_iter *ret,
                mr_error *err);
};

/* How long its consumer has waited in pulls, for somebody on another thread. */
struct mr_pull_log {
    _Atomic uint64_t waited_ns; /* in pulls that have ended */
    _Atomic int64_t since_ns;   /* mr_now_ns(), when the one that goes on began; 0: none does */
};

struct mr_engine_options {
    uint64_t seed;  /* for operators without a seed; 0: drawn */
    uint64_t epoch; /* ordinal of the pass (repetition of the job on a worker) */
    /* What it shares with others (lent); NULL: nothing. Of it, or of its own, it may have
     * memory_budget_bytes: 0 for all of it, or a quarter of what the process may use. */
    mr_memory *memory;
    uint64_t memory_budget_bytes;
    uint32_t threads; /* 0: cores this process may use */
    /* The job that its threads work for (lent): they begin with a piece of work when it has its
     * turn. Who pulls has entered it. NULL: none, they never wait. */
    mr_cpu_share *share;
    const struct mr_split_source *splits; /* NULL: read everything */
    /* With `splits`: which of those it is that read parts of one dataset. Where elements are
     * numbered as they come, functions draw other random numbers in each part. */
    uint64_t part;
    /* NULL: "distribute" and "from_dataset_id" are MR_EUNIMPL */
    const struct mr_external_opener *external;
    bool profile;            /* mr_engine_look() */
    struct mr_pull_log *log; /* lent; NULL: nobody asks */
    /* Add to `epoch` how many iterators with this option @ds has had before: a loop over a dataset
     * is a pass each time. */
    bool count_epochs;
};

int mr_engine_open(mr_dataset *ds, const struct mr_engine_options *opts, mr_engine_iter **ret,
                   mr_error *err);
/* MR_OK with 1..want.rows_max rows (the caller's reference), MR_END, or an error that names
 * operator and place. Never waits in order to fill a block. An error is given once; the rows before
 * it were delivered; reading on is allowed. @timeout_ms -1: wait. Otherwise MR_TIMEOUT when nothing
 * is ready by then (best effort: an operator that computes is interrupted by cancelling only). */
int mr_engine_pull(mr_engine_iter *it, struct mr_want want, int timeout_ms, mr_block **ret,
                   mr_error *err);
/* The last pull ended with an error in the place of an element, which the next one does not meet
 * again. */
bool mr_engine_passed(const mr_engine_iter *it);
/* Any thread: blocked and later pulls return MR_ECANCELED. */
void mr_engine_cancel(mr_engine_iter *it);
/* Any thread: bytes of elements in buffers of its operators (shuffle, cache, prefetch, ...). */
size_t mr_engine_held_bytes(const mr_engine_iter *it);
/* Any thread: how many errors of elements its ignore_errors have left out. */
uint64_t mr_engine_ignored_errors(const mr_engine_iter *it);

/* Where the time of its pulls went (engine/profile.h), if it was opened with `profile`. */
#define MR_ENGINE_TIMES 6
#define MR_ENGINE_TIMES_NAME 192
#define MR_ENGINE_TIMES_PATH 200

struct mr_engine_operator_time {
    char name[MR_ENGINE_TIMES_NAME]; /* "map (step 2, train.py:41)" */
    uint64_t work_ns;
    uint64_t storage_ns;
    char path[MR_ENGINE_TIMES_PATH]; /* of a file that it was seen waiting for; "": none */
};

struct mr_engine_times {
    size_t n;
    struct mr_engine_operator_time operators[MR_ENGINE_TIMES]; /* those that took most */
    uint64_t others_ns;                                        /* the rest of them together */
    uint64_t splits_ns; /* waits for the dispatcher to hand out splits */
    uint64_t pool_ns;   /* ... for threads that do what was handed over */
    uint64_t memory_ns; /* of all that: while stages kept less ahead for want of memory */
};

/* @ns went by since the last look. false: nobody pulls. Any thread, one at a time, as for the
 * numbers. */
bool mr_engine_look(mr_engine_iter *it, uint64_t ns);
void mr_engine_times(const mr_engine_iter *it, struct mr_engine_times *ret);
/* Origins are not part of a state: what a restored iterator had read already descends from
 * nothing. */
int mr_engine_save(mr_engine_iter *it, void **ret, size_t *size, mr_error *err);
int mr_engine_restore(mr_engine_iter *it, const void *state, size_t size, mr_error *err);
void mr_engine_close(mr_engine_iter *it); /* waits for its threads; NULL is fine */

/* The split providers of @ds under DYNAMIC: how many splits each has (-1: endless), in the order of
 * the provider numbers. zip and concatenate of sources are one provider. MR_EUNIMPL names a source
 * or operator that cannot be split. */
int mr_dataset_providers(const mr_dataset *ds, int64_t *splits, size_t cap, size_t *n,
                         mr_error *err);
/* How many elements @ds makes of a split of provider @index, at most; 0: that is not known. */
int mr_dataset_provider_elements(const mr_dataset *ds, size_t index, uint64_t *ret, mr_error *err);
/* What people know provider @index as: "range (step 0)". */
int mr_dataset_provider_name(const mr_dataset *ds, size_t index, char *out, size_t size,
                             mr_error *err);
