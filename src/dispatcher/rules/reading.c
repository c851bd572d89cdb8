/*
 * Iterations that read a production; joining one that runs already.
 *
 * One that never ends is joined at once, at the start of each worker's window. Of one that may end
 * a job wants all, so it takes two steps:
 *
 *   1. the iteration is committed as joining. Each live worker opens a reader, which pins what is
 *      there, and answers with the first element that it can have, until it hears the decision.
 *   2. all have answered 0, and no splits went with lost workers: it is committed as a user.
 *      Otherwise it is committed with a production of its own, and says why. Elements are delivered
 *      only then.
 *
 * Answers are soft: the next leader hears them again. A worker that does not answer is not waited
 * for longer than MR_JOIN_HEARTBEATS heartbeats: to produce once more costs CPU, and waiting holds
 * the job up.
 */
#include "dispatcher/rules/rules.h"

/* A new one for @job, with its hidden iteration; both are put. */
static struct mr_production *create(mr_core *core, const struct mr_job *job, uint64_t repetition,
                                    uint64_t seed)
{
    Millrace__ProductionRecord *rec = MR_NEW_RECORD(core, production_record);
    struct mr_production *p = NULL;
    mr_error err;

    if (rec == NULL) {
        return NULL;
    }
    mr_core_set_stamp(core, &rec->id, mr_core_stamp(core));
    mr_core_set(core, &rec->scope, mr_production_scope(job));
    mr_core_set(core, &rec->fingerprint, job->dataset->rec->fingerprint);
    mr_core_set(core, &rec->dataset_id, job->rec->dataset_id);
    rec->mode = job->rec->mode;
    rec->guarantee = job->rec->guarantee;
    rec->repetition = repetition;
    rec->endless = job->dataset->rec->cardinality == -1;
    rec->created_ms = (uint64_t)core->wall_ms;
    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    MR_APPLY(core, production_added, rec, &p, &err);
    if (p != NULL) {
        mr_core_trace(core, "production %s: made for job %s", rec->id, mr_job_label(job));
        mr_iteration_create_hidden(core, p, seed);
    }
    return core->failed == 0 ? p : NULL;
}

static bool refuses(const struct mr_production *p, char why[MR_REFUSAL_SIZE])
{
    uint64_t lost = mr_iteration_lost_splits(p->hidden);

    why[0] = '\0';
    if (p->rec->closed[0] != '\0') {
        snprintf(why, MR_REFUSAL_SIZE, "%s", p->rec->closed);
    } else if (!p->rec->endless && lost > 0) {
        snprintf(why, MR_REFUSAL_SIZE, "production %s lost up to %llu splits with its workers",
                 p->rec->id, (unsigned long long)lost);
    } else if (!p->rec->endless &&
               p->hidden->draining_tasks > 0) { /* which gets no task of those who come now */
        snprintf(why, MR_REFUSAL_SIZE, "a part of production %s is on a worker that drains",
                 p->rec->id);
    }
    return why[0] != '\0';
}

static bool is_full(const struct mr_production *p, char why[MR_REFUSAL_SIZE])
{
    if (p->nusers >= MR_PRODUCTION_USERS_MAX) {
        snprintf(why, MR_REFUSAL_SIZE, "production %s has %u users already", p->rec->id, p->nusers);
    }
    return p->nusers >= MR_PRODUCTION_USERS_MAX;
}

struct mr_production *mr_join_choose(mr_core *core, const struct mr_job *job,
                                     Millrace__IterationRecord *rec)
{
    struct mr_production *p = mr_production_newest(core, job, rec->repetition);
    char why[MR_REFUSAL_SIZE];

    if (p != NULL && !refuses(p, why) && !is_full(p, why)) {
        rec->joining = !p->rec->endless;
    } else {
        if (p != NULL) {
            mr_core_set_line(core, &rec->unshared, why);
        }
        p = create(core, job, rec->repetition, rec->seed);
    }
    if (p != NULL) {
        mr_core_set(core, &rec->production, p->rec->id);
    }
    return p;
}

enum verdict { WAIT, SHARE, APART, APART_FOR_ALL /* nobody else needs to try */ };

/* What the answer of one worker leads to. */
static enum verdict judge_task(const mr_core *core, const struct mr_task *task,
                               char why[MR_REFUSAL_SIZE])
{
    const Millrace__JoinAnswer *join = task->sharing != NULL ? task->sharing->join : NULL;
    const char *address = task->worker->rec->address;

    if (join == NULL && core->now < task->iteration->join_until) {
        return WAIT;
    }
    if (join == NULL) {
        snprintf(why, MR_REFUSAL_SIZE, "worker %.80s did not say whether it has the start",
                 address);
        return APART;
    }
    if (join->refused[0] != '\0') {
        snprintf(why, MR_REFUSAL_SIZE, "worker %.60s refuses: %.100s", address, join->refused);
        return APART_FOR_ALL;
    }
    if (join->first > 0) {
        snprintf(why, MR_REFUSAL_SIZE,
                 "worker %.80s has nothing below element %" PRIu64 " any more", address,
                 join->first);
        return APART_FOR_ALL;
    }
    return SHARE;
}

static enum verdict judge(const mr_core *core, const struct mr_iteration *it,
                          char why[MR_REFUSAL_SIZE])
{
    enum verdict verdict = SHARE;
    const struct mr_task *task;

    if (refuses(it->uses, why)) {
        return APART;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN) {
            enum verdict one = judge_task(core, task, why);

            if (one == APART || one == APART_FOR_ALL) {
                return one;
            }
            verdict = one == WAIT ? WAIT : verdict;
        }
    }
    return verdict;
}

/* True: it is joining, and waits or has just been told. */
static bool decide(mr_core *core, struct mr_iteration *it)
{
    char why[MR_REFUSAL_SIZE] = "";
    enum verdict verdict;
    struct mr_production *old, *own = NULL;

    if (!it->rec->joining) {
        return false;
    }
    verdict = judge(core, it, why);
    if (verdict == WAIT) {
        return true;
    }
    old = it->uses;
    if (verdict != SHARE) {
        own = create(core, it->job, it->rec->repetition, it->rec->seed);
        if (own == NULL) {
            return true;
        }
    }
    MR_APPLY(core, iteration_joined, it, own, why);
    if (verdict == APART_FOR_ALL) {
        MR_APPLY(core, production_closed, old, why);
    }
    mr_core_trace(core, "iteration %s: %s production %s%s%s", it->rec->id,
                  verdict == SHARE ? "joined" : "has its own", it->rec->production,
                  why[0] != '\0' ? ", " : "", why);
    return true;
}

static size_t changes(const struct mr_iteration *it)
{
    return it->rec->joining ? MR_JOIN_CHANGES : 3;
}

static void failed(mr_core *core, struct mr_iteration *it, const char *why)
{
    if (it->uses != NULL) { /* Who comes later may have more luck. */
        MR_APPLY(core, production_closed, it->uses, why);
    }
}

static int check_end(const struct mr_task *task, mr_error *err)
{
    return task->iteration->rec->joining
               ? mr_error_set(err, MR_EPRECOND, "task %s does not end by itself: it is joining one",
                              task->id)
               : MR_OK;
}

static const struct mr_task *source(const mr_core *core, const struct mr_task *task)
{
    return mr_task_producing(core, task);
}

/* There is something to go on with, and nobody does. */
static bool may_host(const mr_core *core, const struct mr_task *task)
{
    const struct mr_task *producing, *other;

    producing = mr_task_producing(core, task);
    if (task->state != MR_TASK_LOST || producing == NULL || producing->state != MR_TASK_OPEN ||
        producing->barren) {
        return false;
    }
    TAILQ_FOREACH(other, &task->worker->tasks, in_worker) {
        if (other->iteration == task->iteration && other->state == MR_TASK_OPEN) {
            return false;
        }
    }
    return true;
}

/* Workers hear of its tasks when a client is attached. */
const struct mr_iteration_rules mr_reading_rules = {
    .name = "reading",
    .recovers = true,
    .changes = changes,
    .decide = decide,
    .failed = failed,
    .check_end = check_end,
    .source = source,
    .may_host = may_host,
};
