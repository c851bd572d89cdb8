/* Tasks as messages, for clients and workers. */
#include "dispatcher/model/model.h"

Millrace__TaskInfo *mr_task_info(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskInfo *info = MR_NEW_RECORD(core, task_info);

    if (info != NULL) {
        mr_core_set(core, &info->task_id, task->id);
        mr_core_set(core, &info->worker_address, task->worker->rec->address);
        mr_core_set(core, &info->worker_incarnation, task->worker->rec->incarnation);
        info->attempt = mr_task_attempt(task);
        info->ended = task->state == MR_TASK_ENDED;
        info->lost = task->state == MR_TASK_LOST;
    }
    return info;
}

static void assign_providers(mr_core *core, const struct mr_iteration *it,
                             Millrace__TaskAssignment *assignment)
{
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        Millrace__ProviderInfo *info = MR_ADD_RECORD(core, assignment, providers, provider_info);

        if (info == NULL) {
            return;
        }
        info->splits = it->rec->providers[i]->splits;
        mr_core_set(core, &info->source, it->rec->providers[i]->source);
    }
}

static void assign_production(mr_core *core, const struct mr_iteration *it,
                              Millrace__TaskAssignment *assignment)
{
    if (it->makes != NULL) {
        mr_core_set(core, &assignment->production, it->makes->rec->id);
        assignment->producing = true;
    } else if (it->uses != NULL) {
        mr_core_set(core, &assignment->production, it->uses->rec->id);
        assignment->joining = it->rec->joining;
        assignment->lag = it->job->rec->lag;
        assignment->unread = it->live_clients == 0;
    }
}

Millrace__TaskAssignment *mr_task_assignment(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskAssignment *assignment = MR_NEW_RECORD(core, task_assignment);
    const struct mr_iteration *it = task->iteration;

    if (assignment == NULL) {
        return NULL;
    }
    mr_core_set(core, &assignment->task_id, task->id);
    mr_core_set(core, &assignment->iteration_id, it->rec->id);
    mr_core_set(core, &assignment->job_id, it->rec->job_id);
    mr_core_set(core, &assignment->dataset_id, it->dataset->rec->id);
    mr_core_set(core, &assignment->fingerprint, it->dataset->rec->fingerprint);
    assignment->definition_size = it->dataset->rec->definition_size;
    assignment->mode = it->mode;
    assignment->seed = it->rec->seed;
    assignment->repetition = it->rec->repetition;
    assignment->attempt = mr_task_attempt(task);
    if (it->share != NULL) { /* NULL: no memory, which is known already */
        mr_core_set(core, &assignment->host, it->share->host);
    }
    if (it->job != NULL) { /* NULL: a production, which is for several */
        mr_core_set(core, &assignment->owner, it->job->rec->owner);
        assignment->owner_weight = it->job->rec->owner_weight;
    }
    assignment->guarantee = it->guarantee;
    assign_production(core, it, assignment);
    if (it->rounds != NULL) {
        assignment->rounds = mr_rounds_assignment_of(core, task);
    }
    assign_providers(core, it, assignment);
    return assignment;
}
