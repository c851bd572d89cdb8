/* The part of the status document that is about productions and who reads them. */
#include "dispatcher/views/views.h"

void mr_status_sharing(mr_core *core, const struct mr_iteration *it,
                       Millrace__IterationStatus *status)
{
    mr_core_set(core, &status->production, it->rec->production);
    mr_core_set(core, &status->unshared, it->rec->unshared);
    status->joining = it->rec->joining;
    status->skipped = mr_iteration_skipped(it);
}

static void add_user(mr_core *core, const struct mr_iteration *it, Millrace__ProductionStatus *all)
{
    Millrace__ProductionUserStatus *status =
        MR_ADD_RECORD(core, all, users, production_user_status);
    const struct mr_task *task;

    if (status == NULL) {
        return;
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
}

static void add_production(mr_core *core, const struct mr_production *p, Millrace__Status *all)
{
    Millrace__ProductionStatus *status = MR_ADD_RECORD(core, all, productions, production_status);
    const struct mr_iteration *it;

    if (status == NULL) {
        return;
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
    TAILQ_FOREACH(it, &p->users, in_production)
    {
        add_user(core, it, status);
    }
    mr_status_list_tasks(core, p->hidden, &status->tasks, &status->n_tasks);
    mr_status_list_providers(core, p->hidden, &status->providers, &status->n_providers);
}

void mr_status_productions(mr_core *core, Millrace__Status *status)
{
    const struct mr_production *p;

    TAILQ_FOREACH(p, &core->production_list, link)
    {
        add_production(core, p, status);
    }
}
