/* What differs between kinds of iterations, behind one struct of functions; an iteration points to
 * its own. A new kind is a file with such a struct, and a line in mr_kind_choose(). */
#pragma once

#include "dispatcher/model/update.h"

/* A function that is NULL has nothing to do, or says what stands beside it. */
struct mr_iteration_rules {
    const char *name;
    bool closes_refusing; /* a worker that refuses connections and is silent is closed at once */
    bool recovers;        /* with recovery tasks */

    /* It has begun: its tasks are there, and nobody has heard of them. */
    void (*begin)(mr_core *core, struct mr_iteration *it);
    /* @in has attached a reader, from round @from on; and what it is answered. */
    void (*attach)(mr_core *core, struct mr_iteration *it, const Millrace__OpenRequest *in,
                   uint64_t from);
    void (*answer)(mr_core *core, const struct mr_iteration *it, const Millrace__OpenRequest *in,
                   Millrace__OpenReply *reply);
    /* Keys that are changed when it is looked at, beside those of any; NULL: two. */
    size_t (*changes)(const struct mr_iteration *it);
    /* Something has to be decided before anything else. True: it is not. */
    bool (*decide)(mr_core *core, struct mr_iteration *it);
    /* Its losses are counted: what follows. */
    void (*look)(mr_core *core, struct mr_iteration *it);
    /* Nothing is open in it. May it end? NULL: it may. */
    bool (*may_end)(const mr_core *core, const struct mr_iteration *it);
    void (*failed)(mr_core *core, struct mr_iteration *it, const char *why);
    /* May a task of it end by itself? NULL: it may. MR_EPRECOND. */
    int (*check_end)(const struct mr_task *task, mr_error *err);
    /* One is about to, without an error. */
    void (*task_ends)(mr_core *core, const struct mr_task *task,
                      const Millrace__TaskEndedRequest *in);
    /* The task whose splits make the elements of @task; NULL: itself. */
    const struct mr_task *(*source)(const mr_core *core, const struct mr_task *task);
    /* May a recovery task run beside the derived @task? NULL: it may. */
    bool (*may_host)(const mr_core *core, const struct mr_task *task);
};

extern const struct mr_iteration_rules mr_plain_rules;     /* kinds.c */
extern const struct mr_iteration_rules mr_producing_rules; /* kinds.c */
extern const struct mr_iteration_rules mr_reading_rules;   /* reading.c */
extern const struct mr_iteration_rules mr_rounds_rules;    /* rounds.c */

/* Of an iteration of @job that uses @production, or, without @job, makes it. */
const struct mr_iteration_rules *mr_kind_choose(const struct mr_job *job,
                                                const struct mr_production *production);

/* What differs between guarantees. */
struct mr_guarantee_rules {
    /* The worker of @task is lost: what it held is to be read again, or counted. @why is filled in
     * if the iteration has to fail for it. */
    void (*task_lost)(mr_core *core, struct mr_task *task, struct mr_loss_counted *loss, char *why,
                      size_t size);
    /* Does @task hold these splits, by position, so that it can give them back? */
    bool (*holds)(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count);
};

const struct mr_guarantee_rules *mr_guarantee_of(const struct mr_iteration *it);
extern const struct mr_guarantee_rules mr_at_least_once; /* at_least_once.c */
