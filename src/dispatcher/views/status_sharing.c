/* The part of the status document that is about productions and who reads them. */
#include "dispatcher/model/iteration.h"
#include "dispatcher/model/model.h"
#include "dispatcher/model/production.h"
#include "dispatcher/views/views.h"

Millrace__CacheProgress *mr_status_cache(mr_core *core, const Millrace__CacheProgress *cache)
{
    Millrace__CacheProgress *copy = mr_core_new_record(core, &millrace__cache_progress__descriptor);

    if (copy != NULL) {
        copy->bytes = cache->bytes;
        copy->bytes_max = cache->bytes_max;
        copy->failures = cache->failures;
        mr_core_set(core, &copy->degraded, cache->degraded);
    }
    return copy;
}

void mr_status_sharing(mr_core *core, const struct mr_iteration *it,
                       Millrace__IterationStatus *status)
{
    mr_core_set(core, &status->production, it->rec->production);
    mr_core_set(core, &status->unshared, it->rec->unshared);
    status->joining = it->rec->joining;
    status->skipped = mr_iteration_skipped(it);
}

static Millrace__ProductionUserStatus *user_status(mr_core *core, const struct mr_iteration *it)
{
    Millrace__ProductionUserStatus *status =
        mr_core_new_record(core, &millrace__production_user_status__descriptor);
    const struct mr_task *task;

    if (status == NULL) {
        return NULL;
    }
    mr_core_set(core, &status->job_id, it->rec->job_id);
    mr_core_set(core, &status->job, mr_job_is_anonymous(it->job) ? "" : mr_job_label(it->job));
    mr_core_set(core, &status->iteration_id, it->rec->id);
    status->lag = it->job->rec->lag;
    status->joining = it->rec->joining;
    status->finished = it->rec->finished;
    status->skipped = mr_iteration_skipped(it);
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        status->delivered += task->delivered;
    }
    return status;
}

static void list_users(mr_core *core, const struct mr_production *p,
                       Millrace__ProductionStatus *status)
{
    const struct mr_iteration *it;

    status->users = mr_status_array(core, p->nusers);
    TAILQ_FOREACH(it, &p->users, in_production)
    {
        Millrace__ProductionUserStatus *one = core->failed == 0 ? user_status(core, it) : NULL;

        if (one != NULL) {
            status->users[status->n_users++] = one;
        }
    }
}

static Millrace__ProductionStatus *production_status(mr_core *core, const struct mr_production *p)
{
    Millrace__ProductionStatus *status =
        mr_core_new_record(core, &millrace__production_status__descriptor);

    if (status == NULL) {
        return NULL;
    }
    mr_core_set(core, &status->id, p->rec->id);
    mr_core_set(core, &status->scope, p->rec->scope);
    mr_core_set(core, &status->fingerprint, p->rec->fingerprint);
    mr_core_set(core, &status->dataset_id, p->rec->dataset_id);
    mr_core_set(core, &status->closed, p->rec->closed);
    status->mode = p->rec->mode;
    status->guarantee = p->rec->guarantee;
    status->repetition = p->rec->repetition;
    status->endless = p->rec->endless;
    status->lost_splits = mr_iteration_lost_splits(p->hidden);
    status->lost_workers = p->hidden->rec->lost_workers;
    list_users(core, p, status);
    mr_status_list_tasks(core, p->hidden, &status->tasks, &status->n_tasks);
    mr_status_list_providers(core, p->hidden, &status->providers, &status->n_providers);
    return status;
}

void mr_status_productions(mr_core *core, Millrace__Status *status)
{
    const struct mr_production *p;

    status->productions = mr_status_array(core, core->productions.count);
    TAILQ_FOREACH(p, &core->production_list, link)
    {
        Millrace__ProductionStatus *one = core->failed == 0 ? production_status(core, p) : NULL;

        if (one != NULL) {
            status->productions[status->n_productions++] = one;
        }
    }
}
