/* What an iteration lost, repeated and skipped, so far or at its end. */
#include "dispatcher/model/model.h"

uint64_t mr_iteration_lost_splits(const struct mr_iteration *it)
{
    uint64_t sum = it->rec->lost_splits;
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        sum += task->state == MR_TASK_LOST && !task->counted ? mr_task_granted(task) : 0;
    }
    return sum;
}

uint64_t mr_iteration_repeated(const struct mr_iteration *it)
{
    uint64_t sum = 0;

    if (it->rec->end != NULL) {
        return it->rec->end->repeated_splits;
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        sum += it->cursors[i].rec != NULL ? it->cursors[i].rec->repeated_splits : 0;
    }
    return sum;
}

/* As far as is known of tasks that were lost. */
static uint64_t abandoned_elements(const struct mr_iteration *it)
{
    const struct mr_task *task;
    uint64_t sum = it->rec->abandoned;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        sum = mr_count_add(sum, mr_task_abandoned(task));
    }
    return sum;
}

void mr_iteration_end_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__IterationEnd *end)
{
    const Millrace__IterationEnd *known = it->rec->end;

    end->lost_splits = it->rec->lost_splits;
    end->lost_elements = it->rec->lost_elements;
    end->lost_workers = it->rec->lost_workers;
    end->quarantined_splits = it->rec->quarantined_splits;
    end->repeated_splits = mr_iteration_repeated(it);
    end->error_code = known != NULL ? known->error_code : 0;
    end->rounds = known != NULL ? known->rounds : mr_rounds_end(it);
    end->skipped = mr_iteration_skipped(it);
    end->abandoned = known != NULL ? known->abandoned : abandoned_elements(it);
    mr_core_set(core, &end->error, known != NULL ? known->error : "");
}

uint64_t mr_iteration_skipped(const struct mr_iteration *it)
{
    const struct mr_task *task;
    uint64_t sum = it->rec->skipped;

    if (it->rec->end != NULL) {
        return it->rec->end->skipped;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        sum = mr_count_add(sum, mr_task_skipped(task));
    }
    return sum;
}

bool mr_task_is_held_up(const mr_core *core, const struct mr_task *task)
{
    const struct mr_task *producing = mr_task_producing(core, task);

    return producing != NULL && producing->sharing != NULL && producing->sharing->window != NULL &&
           producing->sharing->window->held;
}

int64_t mr_join_due(const struct mr_iteration *it)
{
    return it->rec->joining ? it->join_until : MR_NEVER;
}
