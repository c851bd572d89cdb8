/* One production for several iterations. It owns a hidden iteration, which has no job and no
 * clients: its derived tasks are the producing tasks, its cursors and grants hand out the splits,
 * and it never ends. Iterations of jobs that use it have reading tasks, and no cursors or grants.
 */
#pragma once

#include "dispatcher/model/job.h"
#include "dispatcher/model/task.h"

/* Why a production takes no more users, as a line for people. */
#define MR_REFUSAL_SIZE 200
/* Of one production: its record lists them. More of the same kind make another one. */
#define MR_PRODUCTION_USERS_MAX 256
/* Workers are waited for so many heartbeats when somebody joins. */
#define MR_JOIN_HEARTBEATS 10

struct mr_production {
    TAILQ_ENTRY(mr_production) link;    /* of the core */
    TAILQ_ENTRY(mr_production) in_blob; /* of the same content */
    MR_RO Millrace__ProductionRecord *MR_RO rec;
    MR_RO mr_iteration_id id; /* the hidden iteration's too */
    struct mr_dataset_entry *MR_RO dataset;
    struct mr_iteration *MR_RO hidden;
    TAILQ_HEAD(, mr_iteration) users; /* finished ones too, while their record is kept */
    MR_RO uint32_t nusers;
    MR_RO uint32_t open_users; /* of those: not finished */
    MR_RO bool kept;           /* for users whose jobs are set aside: the list names them */
    MR_RO bool is_behind;      /* the stored list of users has some that are gone */
    struct mr_alarm alarm;
};

/* What a worker says of a task that makes or reads a production. */
struct mr_sharing_report {
    Millrace__JoinAnswer *join; /* NULL: none */
    Millrace__WindowProgress *window;
    uint64_t skipped;
};

/* MR_NEVER: it is not joining; in the past: it is due. */
int64_t mr_join_due(const struct mr_iteration *it);
/* It has nothing to give because others, whom its production waits for, read slowly. */
bool mr_task_is_held_up(const mr_core *core, const struct mr_task *task);
uint64_t mr_iteration_skipped(const struct mr_iteration *it);
struct mr_production *mr_production_find(const mr_core *core, const char *id);
/* The newest that makes what @job's @repetition wants; NULL if there is none. */
struct mr_production *mr_production_newest(const mr_core *core, const struct mr_job *job,
                                           uint64_t repetition);
/* Does it make what @job's @repetition wants? */
bool mr_production_fits(const struct mr_production *p, const struct mr_job *job,
                        uint64_t repetition);
bool mr_production_lists(const struct mr_production *p, const struct mr_iteration *it);
/* The last user has gone: it goes. */
bool mr_production_is_over(const struct mr_production *p);
void mr_production_free(struct mr_production *p);
const char *mr_production_scope(const struct mr_job *job);
