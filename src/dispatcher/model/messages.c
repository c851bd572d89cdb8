/* Tasks as messages, for clients and workers. */
#include "dispatcher/model/iteration.h"
#include "dispatcher/model/model.h"
#include "dispatcher/model/production.h"

/* Room for one more pointer in the array *@list of @n: it grows when @n is a power of two. */
bool mr_core_make_room(mr_core *core, void *list, size_t n)
{
    void **slot = list;
    void *bigger;

    if ((n & (n - 1)) != 0) {
        return true;
    }
    bigger = mr_reallocarray(*slot, n == 0 ? 1 : 2 * n, sizeof(void *));
    if (bigger == NULL) {
        mr_core_nomem(core);
        return false;
    }
    *slot = bigger;
    return true;
}

Millrace__TaskInfo *mr_task_info(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskInfo *info = mr_core_new_record(core, &millrace__task_info__descriptor);

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

Millrace__IterationEnd *mr_end_copy(mr_core *core, const Millrace__IterationEnd *end)
{
    Millrace__IterationEnd *copy = mr_core_new_record(core, &millrace__iteration_end__descriptor);

    if (copy != NULL) {
        copy->lost_splits = end->lost_splits;
        copy->lost_elements = end->lost_elements;
        copy->lost_workers = end->lost_workers;
        copy->repeated_splits = end->repeated_splits;
        copy->quarantined_splits = end->quarantined_splits;
        copy->error_code = end->error_code;
        copy->rounds = end->rounds;
        copy->skipped = end->skipped;
        copy->abandoned = end->abandoned;
        mr_core_set(core, &copy->error, end->error);
    }
    return copy;
}

static bool assign_providers(mr_core *core, const struct mr_iteration *it,
                             Millrace__TaskAssignment *assignment)
{
    assignment->providers = mr_calloc(it->rec->n_providers, sizeof *assignment->providers);
    if (assignment->providers == NULL) {
        mr_core_nomem(core);
        return false;
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        Millrace__ProviderInfo *info =
            mr_core_new_record(core, &millrace__provider_info__descriptor);

        if (info == NULL) {
            return false;
        }
        info->splits = it->rec->providers[i]->splits;
        mr_core_set(core, &info->source, it->rec->providers[i]->source);
        assignment->providers[assignment->n_providers++] = info;
    }
    return true;
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
    Millrace__TaskAssignment *assignment =
        mr_core_new_record(core, &millrace__task_assignment__descriptor);
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
    assignment->guarantee = it->guarantee;
    assign_production(core, it, assignment);
    if (it->rounds != NULL) {
        assignment->rounds = mr_rounds_assignment_of(core, task);
    }
    if (it->rec->n_providers > 0) {
        assign_providers(core, it, assignment);
    }
    return assignment;
}
