/* Iterations: one pass of a job's readers over its dataset, or the run of a production. */
#pragma once

#include "dispatcher/model/times.h"

struct mr_iteration {
    TAILQ_ENTRY(mr_iteration) link;   /* of the core */
    TAILQ_ENTRY(mr_iteration) in_job; /* of its job */
    TAILQ_ENTRY(mr_iteration) touched;
    TAILQ_ENTRY(mr_iteration) marked; /* waiting for mr_iteration_review() */
    MR_RO Millrace__IterationRecord *MR_RO rec;
    struct mr_share *MR_RO share;
    struct mr_share *MR_RO open_share; /* while it is open: only those have tasks */
    MR_RO mr_iteration_id id;
    MR_RO struct mr_stamp losses_counted_to;
    struct mr_job *MR_RO job;          /* NULL: hidden, of a production */
    struct mr_production *MR_RO makes; /* that one */
    /* a job's: it reads this one and hands out nothing itself; NULL: it does */
    struct mr_production *MR_RO uses;
    struct mr_dataset_entry *MR_RO
        dataset; /* this and the next two: of the job or the production */
    const struct mr_iteration_rules *MR_RO rules; /* of its kind (rules/kinds.h) */
    MR_RO Millrace__ProcessingMode mode;
    MR_RO Millrace__Guarantee guarantee;
    TAILQ_ENTRY(mr_iteration) in_production; /* uses */
    MR_RO int64_t join_until;                /* joining: nobody is waited for any longer */
    TAILQ_HEAD(, mr_task) tasks;             /* empty once finished */
    TAILQ_HEAD(, mr_client) clients;
    struct mr_cursor *MR_RO cursors; /* rec->n_providers */
    MR_RO uint64_t version;          /* of its task list */
    MR_RO uint64_t follows;          /* the version before this step, */
    /* and what its clients hear at the end of it; NULL: nobody listens */
    MR_RO Millrace__ClientUpdate *MR_RO delta;
    struct mr_coordination *MR_RO
        rounds; /* of a coordinated job, until it is finished; else NULL */
    MR_RO uint32_t open_tasks;
    MR_RO uint32_t draining_tasks;  /* of those: their workers drain */
    MR_RO uint32_t ended_tasks;     /* by themselves: the pipeline is over */
    MR_RO uint32_t uncounted_tasks; /* lost, and not counted yet */
    MR_RO uint32_t live_clients;
    struct mr_alarm alarm;
    /* finished, or else unread; on the core's clock, from the takeover at the earliest */
    MR_RO int64_t since;
    MR_RO bool is_marked;
    MR_RO bool is_touched; /* push to its clients at the end of the step */
    /* which of its records was bad, and why: it has ended for that, which is not written yet; or
     * NULL */
    char *MR_RO broken;
    struct mr_iteration_times *MR_RO times; /* soft: of its tasks; NULL: they have said nothing */
};

/* Is it an at_least_once iteration? */
static inline bool mr_iteration_repeats(const struct mr_iteration *it)
{
    return it->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
}

struct mr_iteration *mr_iteration_find(const mr_core *core, const char *id);
void mr_iteration_free(struct mr_iteration *it);
/* Splits that were lost so far, those of losses that are not counted yet too. */
uint64_t mr_iteration_lost_splits(const struct mr_iteration *it);
/* Splits that were handed out again so far. */
uint64_t mr_iteration_repeated(const struct mr_iteration *it);
/* What it lost and repeated so far. */
void mr_iteration_end_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__IterationEnd *end);
/* A task's state changed: look at it when there is room. */
void mr_iteration_mark(mr_core *core, struct mr_iteration *it);
/* There is nothing to look at any more. */
void mr_iteration_unmark(mr_core *core, struct mr_iteration *it);
/* mr_core_check() of one iteration alone. */
int mr_iteration_check(const mr_core *core, const struct mr_iteration *it, mr_error *err);
