/* What chain.c (life, logs, the producer's side) and chain_reader.c share. Nothing else includes
 * it. */
#pragma once

#include "base/sync.h"
#include "worker/chain.h"

#include <stdatomic.h>
#include <sys/queue.h>

/* Open at a time. The first is on disk; each further one is there because the one before failed, or
 * was too small for an element, or because there is a disk again. They are numbered without end,
 * each is in the slot of its number modulo this. */
#define MR_CHAIN_LOGS_MAX 16u
#define MR_CHAIN_LOG(p, i) ((p)->segments[(i) % MR_CHAIN_LOGS_MAX])
#define MR_CHAIN_IN(r, i) ((r)->in[(i) % MR_CHAIN_LOGS_MAX])
#define MR_CHAIN_LOST(r, i) ((r)->lost[(i) % MR_CHAIN_LOGS_MAX])

struct mr_chain_segment {
    mr_cache_log *log;
    mr_cache *memory; /* in which the log is, if it is not on disk */
    uint64_t taken;   /* of the worker's memory, for that */
    uint64_t base;    /* number of its first element */
};

/* Of those who read, or have begun to: then it outlives their readers. */
struct mr_chain_place {
    LIST_ENTRY(mr_chain_place) link;
    char *who;
    uint32_t readers; /* that have it now */
    bool is_set;
    struct mr_reading_stand stand;
};

struct mr_chain {
    _Atomic unsigned refs;
    mr_windows *windows;
    char *id;
    _Atomic uint64_t spec_hash;

    /* A log's own lock comes after it. Not held while a log calls back. */
    pthread_mutex_t lock; /* guards everything below */
    struct mr_chain_segment segments[MR_CHAIN_LOGS_MAX];
    uint32_t retired; /* logs before this are closed: nobody will read there again */
    uint32_t n;
    bool cancelled;
    bool closed;
    uint64_t closed_end; /* closed: the number after that of its last element */
    bool given_up;       /* nobody joins any more */
    bool ended;
    mr_error end; /* ended: code MR_OK, or why */
    char degraded[MR_ERROR_MESSAGE_SIZE];
    int64_t retry_ms; /* degraded: when to look for a disk again; 0: not */
    uint32_t losses;  /* of a window on disk, in its life */
    LIST_HEAD(, mr_chain_reader) readers;
    LIST_HEAD(, mr_chain_place) places;
    uint64_t nplaces;
};

struct mr_chain_reader {
    LIST_ENTRY(mr_chain_reader) link;
    mr_chain *chain;
    struct mr_cache_reader_options opts;
    /* chain->lock */
    struct mr_chain_place *place;
    mr_cache_reader *in[MR_CHAIN_LOGS_MAX]; /* NULL: of those before it joined */
    uint64_t lost[MR_CHAIN_LOGS_MAX]; /* elements at the end of a log that could not be read */
    uint32_t at;                      /* the log that it reads in; the reader's thread moves it */
    uint32_t joined;                  /* the first log that it may go back to */
    uint64_t returned;
    uint64_t past_skipped; /* in logs that are closed */
    uint64_t unreadable;   /* in the log that it reads in; the reader's thread only */
    bool started;
};

/* Log @i said @rc. Has it failed, so that what comes next is in another one? MR_OK: yes, and there
 * is one, unless the pipeline was over; otherwise the error as it was. No lock is held. */
int mr_chain_fail_over(mr_chain *p, uint32_t i, int rc, mr_error *err);
