/*
 * What can happen to what the dispatcher knows: one struct an update, which names the objects and
 * their new content. mr_apply() makes the move: records, indexes and counts change together, what is
 * to be written and who is to be told is noted. Steps and takeover go through it, and only it.
 *
 * A rule says    MR_APPLY(core, task_barren, producing, true);
 *
 * A new update is a struct, a line of the table and a function mr_apply_<name>() in apply_*.c.
 */
#ifndef MR_DISPATCHER_MODEL_UPDATE_H
#define MR_DISPATCHER_MODEL_UPDATE_H

#include "dispatcher/model/model.h"

/* ---------------------------------------------------------------- takeover */

/* A record of a part of @object was loaded, which is taken. */
struct mr_part_loaded {
    enum mr_stored_kind kind; /* SCHEMA, TASK, CURSOR, GRANT, ROUNDS, CONSUMER */
    void *object;
    size_t index;
    void *rec;
};

/* All is loaded: what is derived is, and every deadline begins anew. */
struct mr_all_loaded {
    int64_t collect_from;
};

/* ---------------------------------------------------------------- datasets, jobs, productions */

struct mr_feature_used {
    const char *feature;
};

/* Of this update and those like it: @rec is taken, and *@ret is the new object. NULL: @rec
 * contradicts what is there, as @err says, or there is no memory. */
struct mr_dataset_added {
    Millrace__DatasetRecord *rec;
    struct mr_dataset_entry **ret;
};

/* It is or was in use: retention starts anew. */
struct mr_dataset_used {
    struct mr_dataset_entry *dataset;
};

struct mr_dataset_removed {
    struct mr_dataset_entry *dataset;
};

struct mr_job_added {
    Millrace__JobRecord *rec;
    struct mr_job **ret;
    mr_error *err;
};

/* Its last client has gone: retention counts from now on. */
struct mr_job_idle {
    struct mr_job *job;
};

/* Somebody asked for a repetition of it that has ended: a use, though nobody attaches. */
struct mr_job_asked {
    struct mr_job *job;
};

/* With all its iterations: from memory now, from the store now (the job) and soon (the rest). */
struct mr_job_removed {
    struct mr_job *job;
};

struct mr_production_added {
    Millrace__ProductionRecord *rec;
    struct mr_production **ret;
    mr_error *err;
};

/* Nobody may join it from now on. */
struct mr_production_closed {
    struct mr_production *production;
    const char *why;
};

/* The stored list of its users may be behind: it is written. */
struct mr_production_listed {
    struct mr_production *production;
};

/* @iteration is taken out of memory alone: it goes on using its production, which stays. */
struct mr_production_kept {
    struct mr_iteration *iteration;
};

/* All is loaded: its list and its users are made one. */
struct mr_production_compared {
    struct mr_production *production;
};

struct mr_production_removed {
    struct mr_production *production;
};

/* ---------------------------------------------------------------- iterations */

/* With its derived tasks. @production: that it uses (NULL: none), or, without @job, whose hidden
 * one it is. */
struct mr_iteration_added {
    struct mr_job *job;
    struct mr_production *production;
    const struct mr_iteration_rules *rules;
    Millrace__IterationRecord *rec;
    struct mr_iteration **ret;
    mr_error *err;
};

/* For ever. @end is taken. Its tasks go, and the job remembers. */
struct mr_iteration_finished {
    struct mr_iteration *iteration;
    Millrace__IterationEnd *end;
    bool is_collected; /* nobody had read it for long */
};

/* From memory now, from the store now or, with its owner (whose record goes now), soon. */
struct mr_iteration_removed {
    struct mr_iteration *iteration;
    bool with_owner;
};

/* What joining production it uses is decided: that one, or @own, as @why says. */
struct mr_iteration_joined {
    struct mr_iteration *iteration;
    struct mr_production *own; /* NULL: it stays */
    const char *why;
};

/* A pipeline came to its end, whatever becomes of the record of its task. */
struct mr_pipeline_ended {
    struct mr_iteration *iteration;
};

/* Elements that nobody gets; @instead_of so many of which had been said before. */
struct mr_elements_abandoned {
    struct mr_iteration *iteration;
    uint64_t elements;
    uint64_t instead_of;
};

/* One of its records is bad: it ends for that. Without @why: it does not any more. */
struct mr_iteration_broken {
    struct mr_iteration *iteration;
    const char *why;
};

/* That it has ended for that is written. */
struct mr_iteration_break_written {
    struct mr_iteration *iteration;
};

/* ---------------------------------------------------------------- tasks */

/* A recovery task; the derived ones come with iterations and workers. */
struct mr_task_recovers {
    struct mr_iteration *iteration;
    struct mr_core_worker *worker;
    bool is_isolated;
    Millrace__TaskRecord *rec; /* that was loaded, which is taken; NULL: a new one */
    struct mr_task **ret;      /* NULL: no memory */
};

/* An isolated one goes on like others. */
struct mr_task_joined_in {
    struct mr_task *task;
};

struct mr_task_ended {
    struct mr_task *task;
    int code;
    const Millrace__TaskEndedRequest *request;
};

/* As if its worker were lost, for good. */
struct mr_task_closed {
    struct mr_task *task;
};

/* A recovery task that is over: out of memory and out of the store. */
struct mr_task_retired {
    struct mr_task *task;
};

/* Its iteration counts what it had said of elements. */
struct mr_task_counts_kept {
    struct mr_task *task;
};

/* What its worker says of it. */
struct mr_task_reported {
    struct mr_task *task;
    const Millrace__TaskProgress *progress;
    bool is_waited_for; /* clients want more, and nothing is there */
};

/* Nothing comes of the production it makes, or something again. */
struct mr_task_barren {
    struct mr_task *task;
    bool is_barren;
};

/* The loss of its worker is counted, with what nobody gets any more. */
struct mr_loss_counted {
    struct mr_task *task;
    uint64_t splits;
    uint64_t elements; /* 0: not known */
};

/* ---------------------------------------------------------------- splits */

/* It asks for splits of a source: both have a record from now on. */
struct mr_splits_asked {
    struct mr_task *task;
    size_t provider;
};

enum mr_splits_from { MR_FROM_NOWHERE, MR_FROM_CURSOR, MR_FROM_POOL, MR_FROM_GIVEN_BACK };

/* An answer: splits or, without, the end. */
struct mr_splits_granted {
    struct mr_task *task;
    size_t provider;
    uint64_t seq;
    uint64_t repetition;
    int64_t ahead; /* of that one */
    bool is_kept;  /* what the request gave back was not taken */
    enum mr_splits_from from;
    size_t at; /* range of the list that they are taken from */
    struct mr_split_range range;
    struct mr_owed_splits owed; /* the same, by position */
};

/* The cursor goes on to another repetition: what was left of those before is dropped. */
struct mr_cursor_jumped {
    struct mr_iteration *iteration;
    size_t provider;
    uint64_t repetition;
    uint64_t dropped;
};

struct mr_splits_given_back {
    struct mr_task *task;
    const Millrace__GetSplitsRequest *request;
};

/* Nobody wants what was given back. */
struct mr_given_back_dropped {
    struct mr_iteration *iteration;
    size_t provider;
};

/* Splits of a lost task, by position, are to be read again. */
struct mr_splits_returned {
    struct mr_task *task;
    size_t provider;
    uint64_t first;
    uint64_t count;
    uint32_t losses;
};

struct mr_split_given_up {
    struct mr_iteration *iteration;
    size_t provider;
};

struct mr_grants_reported {
    struct mr_task *task;
    const Millrace__GrantReport *report;
};

/* What was reported is written, since no grant will carry it. */
struct mr_grants_stored {
    struct mr_task *task;
    size_t provider;
};

/* ---------------------------------------------------------------- workers */

struct mr_newcomer_noted {
    const Millrace__RegisterWorkerRequest *request;
};

/* @ref: what its tasks are named by. With its derived tasks. */
struct mr_worker_added {
    Millrace__WorkerRecord *rec;
    const char *ref;
    struct mr_core_worker **ret;
    mr_error *err;
};

/* A newcomer watches: its life begins. */
struct mr_worker_arrived {
    struct mr_newcomer *newcomer;
    struct mr_core_worker **ret; /* NULL: no memory */
};

struct mr_worker_seen {
    struct mr_core_worker *worker;
    bool is_watch; /* it is not awaited any more */
};

struct mr_worker_cache {
    struct mr_core_worker *worker;
    const Millrace__CacheProgress *cache;
};

struct mr_worker_drains {
    struct mr_core_worker *worker;
};

enum mr_loss { MR_LOSS_SILENT, MR_LOSS_SUPERSEDED, MR_LOSS_LEFT };

/* Its life is over, and its tasks are lost. */
struct mr_worker_lost {
    struct mr_core_worker *worker;
    enum mr_loss why;
};

struct mr_worker_removed {
    struct mr_core_worker *worker;
};

/* At takeover: there is no good record of this life. */
struct mr_worker_revived {
    struct mr_core_worker *worker;
    bool is_absent; /* nor a bad one */
};

struct mr_worker_revival_written {
    struct mr_core_worker *worker;
};

/* ---------------------------------------------------------------- clients */

/* @iteration: that it reads, or read, last. */
struct mr_client_added {
    Millrace__ClientRecord *rec;
    struct mr_iteration *iteration;
};

/* @id reads @iteration, whatever it read before. */
struct mr_client_attached {
    const char *id;
    struct mr_iteration *iteration;
};

struct mr_client_seen {
    struct mr_client *client;
};

struct mr_client_released {
    struct mr_client *client;
    bool by_itself; /* or nothing was heard of it */
};

/* Its job goes while it reads: its record goes with the iteration. */
struct mr_client_evicted {
    struct mr_client *client;
};

struct mr_client_removed {
    struct mr_client *client;
};

/* The workers that it cannot reach, in place of those of before. */
struct mr_client_misses {
    struct mr_client *client;
    char *const *incarnations;
    size_t n;
};

/* It had elements of a task that has ended. */
struct mr_client_holds {
    struct mr_client *client;
    uint64_t elements;
};

/* What it took along of an open task, whose worker may not hear that. */
struct mr_client_unheard {
    struct mr_client *client;
    const struct mr_task *task;
    uint64_t elements;
};

/* It said better what it was said to hold. */
struct mr_client_explained {
    struct mr_client *client;
};

/* ---------------------------------------------------------------- coordinated reads */

struct mr_rounds_begun {
    struct mr_iteration *iteration;
};

/* From the horizon on these take turns, by index in the schedule; @added ones come behind. */
struct mr_turns_changed {
    struct mr_iteration *iteration;
    const uint32_t *tasks; /* that go on */
    size_t n;
    const struct mr_task *const *added;
    size_t nadded;
};

/* What became of a task's rounds. */
struct mr_rounds_decided {
    struct mr_iteration *iteration;
    uint32_t task;
    uint64_t delivered_below;
};

struct mr_horizon_moved {
    struct mr_iteration *iteration;
    uint64_t horizon;
};

/* So many segments at the beginning are forgotten; nothing below @counts_below can be had. */
struct mr_rounds_pruned {
    struct mr_iteration *iteration;
    size_t segments;
    uint64_t counts_below;
};

struct mr_pace_measured {
    struct mr_iteration *iteration;
    uint64_t pace;
    uint64_t progress;
};

/* Consumers are asked where they are. */
struct mr_consumers_asked {
    struct mr_iteration *iteration;
};

/* All consumers are new, which they are told. */
struct mr_consumers_refused {
    struct mr_iteration *iteration;
    const char *why;
};

struct mr_seat_taken {
    struct mr_iteration *iteration;
    uint32_t place;
    const char *client;
    uint64_t from_round;
    bool is_placed; /* it was told where to begin */
};

struct mr_seat_vacated {
    struct mr_iteration *iteration;
    uint32_t place;
};

/* It has read with one that knows the job's round. */
struct mr_seat_joined {
    struct mr_iteration *iteration;
    uint32_t place;
};

struct mr_seat_reported {
    struct mr_iteration *iteration;
    uint32_t place;
    const Millrace__ConsumerReport *report;
};

/* Others wait for it. */
struct mr_seat_missed {
    struct mr_iteration *iteration;
    uint32_t place;
    uint64_t waiting_ms;
};

/* ---------------------------------------------------------------- all of them */

/* clang-format off */
#define MR_UPDATES(UPDATE) \
    UPDATE(part_loaded) UPDATE(all_loaded) UPDATE(feature_used) UPDATE(dataset_added) \
    UPDATE(dataset_used) UPDATE(dataset_removed) UPDATE(job_added) UPDATE(job_idle) \
    UPDATE(job_asked) UPDATE(job_removed) UPDATE(production_added) UPDATE(production_closed) \
    UPDATE(production_listed) UPDATE(production_kept) UPDATE(production_compared) \
    UPDATE(production_removed) UPDATE(iteration_added) UPDATE(iteration_finished) \
    UPDATE(iteration_removed) UPDATE(iteration_joined) UPDATE(pipeline_ended) \
    UPDATE(elements_abandoned) UPDATE(iteration_broken) UPDATE(iteration_break_written) \
    UPDATE(task_recovers) UPDATE(task_joined_in) UPDATE(task_ended) UPDATE(task_closed) \
    UPDATE(task_retired) UPDATE(task_counts_kept) UPDATE(task_reported) UPDATE(task_barren) \
    UPDATE(loss_counted) UPDATE(splits_asked) UPDATE(splits_granted) UPDATE(cursor_jumped) \
    UPDATE(splits_given_back) UPDATE(given_back_dropped) UPDATE(splits_returned) \
    UPDATE(split_given_up) UPDATE(grants_reported) UPDATE(grants_stored) UPDATE(newcomer_noted) \
    UPDATE(worker_added) UPDATE(worker_arrived) UPDATE(worker_seen) UPDATE(worker_cache) \
    UPDATE(worker_drains) UPDATE(worker_lost) UPDATE(worker_removed) UPDATE(worker_revived) \
    UPDATE(worker_revival_written) UPDATE(client_added) UPDATE(client_attached) \
    UPDATE(client_seen) UPDATE(client_released) UPDATE(client_evicted) UPDATE(client_removed) \
    UPDATE(client_misses) UPDATE(client_holds) UPDATE(client_unheard) UPDATE(client_explained) \
    UPDATE(rounds_begun) UPDATE(turns_changed) UPDATE(rounds_decided) UPDATE(horizon_moved) \
    UPDATE(rounds_pruned) UPDATE(pace_measured) UPDATE(consumers_asked) \
    UPDATE(consumers_refused) UPDATE(seat_taken) UPDATE(seat_vacated) UPDATE(seat_joined) \
    UPDATE(seat_reported) UPDATE(seat_missed)
/* clang-format on */

struct mr_update {
    enum mr_update_kind {
#define UPDATE(name) MR_UPDATE_##name,
        MR_UPDATES(UPDATE)
#undef UPDATE
            MR_UPDATE_COUNT
    } kind;
    union {
#define UPDATE(name) struct mr_##name name;
        MR_UPDATES(UPDATE)
#undef UPDATE
    };
};

void mr_apply(mr_core *core, const struct mr_update *update);

#define MR_APPLY(core, what, ...)                                                                  \
    mr_apply(core, &(struct mr_update){.kind = MR_UPDATE_##what, .what = {__VA_ARGS__}})

#endif
