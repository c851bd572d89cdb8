/* Workers, by life; and newcomers, which have registered and do not watch yet. */
#pragma once

#include "dispatcher/model/base.h"

/* "<incarnation>.<stamp of its registration>" */
#define MR_WORKER_REF_SIZE (MR_ID_HEX + 1 + MR_STAMP_SIZE)
/* and the number of a recovery task */
#define MR_TASK_ID_SIZE (MR_STAMP_SIZE + MR_WORKER_REF_SIZE + 11)
/* that have registered and do not watch yet: a worker does so at once */
#define MR_NEWCOMERS_MAX 1024

struct mr_core_worker {
    TAILQ_ENTRY(mr_core_worker) link;
    TAILQ_ENTRY(mr_core_worker) touched;
    MR_RO Millrace__WorkerRecord *MR_RO rec;
    struct mr_share *MR_RO share;
    /* of this life, for ever: "<incarnation>.<stamp of its registration>" */
    MR_RO char ref[MR_WORKER_REF_SIZE];
    MR_RO struct mr_stamp registered;
    MR_RO struct mr_stamp lost;     /* {0, 0}: alive */
    MR_RO struct mr_stamp draining; /* {0, 0}: not */
    TAILQ_HEAD(, mr_task) tasks;
    MR_RO uint32_t recoveries; /* open recovery tasks among them */
    MR_RO uint64_t version;
    MR_RO int64_t seen; /* last sign of life */
    /* it lived under the leader before this one, and has not opened its watch here yet */
    MR_RO bool awaited;
    MR_RO int64_t lost_at; /* when the core saw it lost (or loaded it so) */
    MR_RO bool is_revived; /* made at takeover, from its name, ... */
    MR_RO bool absent;     /* ... and there was no record of it */
    MR_RO int64_t deadline;
    struct mr_alarm alarm;
    MR_RO Millrace__WorkerUpdate *MR_RO delta;  /* what it hears at the end of this step */
    MR_RO Millrace__CacheProgress *MR_RO cache; /* soft: what it says of its cache; NULL: nothing */
};

struct mr_newcomer {
    TAILQ_ENTRY(mr_newcomer) link;
    Millrace__WorkerRecord *rec; /* of the life that it will have, as far as it is known */
};

static inline bool mr_core_worker_is_live(const struct mr_core_worker *worker)
{
    return !mr_stamp_is_set(worker->lost);
}

static inline bool mr_core_worker_is_draining(const struct mr_core_worker *worker)
{
    return mr_stamp_is_set(worker->draining);
}

/* Does @it, open, have a derived task on @worker? */
bool mr_core_worker_gets_tasks(const struct mr_core_worker *worker, const struct mr_iteration *it);
struct mr_core_worker *mr_core_worker_live(const mr_core *core, const char *incarnation);
/* Lost, and neither said that it goes nor has another process at its address. */
bool mr_core_worker_is_missing(const struct mr_core_worker *worker);
/* Not heard of for half its time: dead, as far as anybody can see. That is found by its silence,
 * and counts as a crash. */
bool mr_core_worker_is_unheard(const mr_core *core, const struct mr_core_worker *worker);
void mr_core_worker_free(struct mr_core_worker *worker);
void mr_newcomers_free(mr_core *core);
struct mr_newcomer *mr_newcomer_find(const mr_core *core, const char *incarnation);
/* All clients of @it have said for a full worker timeout that they cannot reach @worker. */
bool mr_iteration_cannot_reach(const mr_core *core, const struct mr_iteration *it,
                               const struct mr_core_worker *worker);
