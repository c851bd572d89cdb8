/*
 * Inside the core: one production for several iterations. Part of internal.h, which includes it.
 *
 * A production owns a hidden iteration, which has no job and no clients: its derived tasks are the
 * producing tasks, its cursors and grants hand out the splits, its losses are counted like any
 * other's, and it never ends. Iterations of jobs that use it have reading tasks, and no cursors or
 * grants.
 */
#ifndef MR_DISPATCHER_CORE_SHARING_H
#define MR_DISPATCHER_CORE_SHARING_H

#include "dispatcher/core/internal.h"

/* Of one production: its record lists them. More of the same kind make another one. */
#define MR_PRODUCTION_USERS_MAX 256
/* Of one job name: they are deleted in one transaction. */
#define MR_JOB_TRAINERS_MAX 64
#define MR_TRAINER_BYTES_MAX 64
/* Workers are waited for so many heartbeats when somebody joins. */
#define MR_JOIN_HEARTBEATS 10

struct mr_production {
    TAILQ_ENTRY(mr_production) link;    /* of the core */
    TAILQ_ENTRY(mr_production) in_blob; /* of the same content */
    Millrace__ProductionRecord *rec;
    mr_iteration_id id; /* the hidden iteration's too */
    struct mr_dataset_entry *dataset;
    struct mr_iteration *hidden;
    TAILQ_HEAD(, mr_iteration) users; /* finished ones too, while their record is kept */
    uint32_t nusers;
    uint32_t open_users; /* of those: not finished */
    bool kept;           /* for users whose jobs are set aside: the list names them */
    bool unwritten;      /* the stored list of users has some that are gone */
    struct mr_alarm alarm;
};

/* Trainers of one job name. */
struct mr_family {
    TAILQ_HEAD(, mr_job) jobs;
    size_t njobs;
    char name[]; /* encoded */
};

/* What a worker says of a task that makes or reads a production. */
struct mr_sharing_report {
    Millrace__JoinAnswer *join; /* NULL: none */
    Millrace__WindowProgress *window;
    uint64_t skipped;
};

/* ---------------------------------------------------------------- productions.c */

/* Does the job get its elements from productions? */
bool mr_job_shares(const struct mr_job *job);
struct mr_production *mr_production_find(const mr_core *core, const char *id);
/* Index @rec (taken). */
struct mr_production *mr_production_add(mr_core *core, Millrace__ProductionRecord *rec,
                                        mr_error *err);
/* A new one for @job, with its hidden iteration; both are put. */
struct mr_production *mr_production_create(mr_core *core, const struct mr_job *job,
                                           uint64_t repetition, uint64_t seed);
/* The newest that makes what @job's @repetition wants; NULL if there is none. */
struct mr_production *mr_production_newest(const mr_core *core, const struct mr_job *job,
                                           uint64_t repetition);
/* Why nobody may join it, in @why; false: one may. */
#define MR_REFUSAL_SIZE 200
bool mr_production_refuses(const struct mr_production *p, char why[MR_REFUSAL_SIZE]);
/* Nobody may join it from now on. One change. */
void mr_production_close(mr_core *core, struct mr_production *p, const char *why);
/* @it uses it, as its record says already. mr_production_list() puts that; mr_production_leave()
 * has it put soon. */
void mr_production_join(struct mr_production *p, struct mr_iteration *it);
void mr_production_list(mr_core *core, struct mr_production *p, const struct mr_iteration *it);
void mr_production_leave(mr_core *core, struct mr_iteration *it);
/* @it has finished; it still holds its production for those who come late. */
void mr_production_note_finished(mr_core *core, struct mr_iteration *it);
/* Does it make what @job's @repetition wants? */
bool mr_production_fits(const struct mr_production *p, const struct mr_job *job,
                        uint64_t repetition);
/* @it is taken out of memory alone: it goes on using its production, which stays. */
void mr_production_keep_for(struct mr_iteration *it);
/* All is loaded: its list and its users are made one. */
void mr_productions_ready(mr_core *core);
/* The last user has gone: it goes. One change. */
bool mr_production_is_over(const struct mr_production *p);
void mr_production_forget(mr_core *core, struct mr_production *p);
/* What is listed and gone is taken out of the record. One change. */
void mr_production_write(mr_core *core, struct mr_production *p);
void mr_production_free(struct mr_production *p);
/* The producing task beside a reading one; NULL if there is none. */
struct mr_task *mr_task_producing(const mr_core *core, const struct mr_task *reading);

/* ---------------------------------------------------------------- join.c */

/* The production that a new iteration of @job uses, made if there is none to join; says in @rec
 * whether that is decided. */
struct mr_production *mr_join_choose(mr_core *core, const struct mr_job *job,
                                     Millrace__IterationRecord *rec);
/* Decide for a joining iteration, if it can be decided; its own record is left unwritten. At most
 * MR_JOIN_CHANGES changes. */
#define MR_JOIN_CHANGES 4
void mr_join_settle(mr_core *core, struct mr_iteration *it);
void mr_join_note(mr_core *core, struct mr_task *task, const Millrace__TaskProgress *progress);
/* MR_NEVER: it is not joining; in the past: it is due. */
int64_t mr_join_due(const struct mr_iteration *it);
void mr_sharing_report_free(struct mr_sharing_report *report);
/* It has nothing to give because others, whom its production waits for, read slowly. */
bool mr_task_is_held_up(const mr_core *core, const struct mr_task *task);
uint64_t mr_iteration_skipped(const struct mr_iteration *it);

/* ---------------------------------------------------------------- trainers.c */

/* Trainers of a job name; NULL: there is none. */
struct mr_family *mr_family_find(const mr_core *core, const char *name);
void mr_family_join(mr_core *core, struct mr_job *job);
void mr_family_leave(mr_core *core, struct mr_job *job);
/* "name+trainer", as people say it; NULL if there is none. */
struct mr_job *mr_job_by_label(const mr_core *core, const char *label);

/* ---------------------------------------------------------------- status_sharing.c */

void mr_status_productions(mr_core *core, Millrace__Status *status);
void mr_status_sharing(mr_core *core, const struct mr_iteration *it,
                       Millrace__IterationStatus *status);
void mr_status_task_sharing(mr_core *core, const struct mr_task *task,
                            Millrace__TaskStatus *status);
Millrace__CacheProgress *mr_status_cache(mr_core *core, const Millrace__CacheProgress *cache);
Millrace__TaskStatus *mr_status_task(mr_core *core, const struct mr_task *task); /* status.c */
Millrace__ProviderStatus *mr_status_provider(mr_core *core, const struct mr_iteration *it,
                                             size_t i); /* status.c */

#endif
