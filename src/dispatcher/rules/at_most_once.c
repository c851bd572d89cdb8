/* At most once: what a lost worker held is not handed out again, it is counted. */
#include "dispatcher/rules/rules.h"

/* What was given to the pipeline that the task's elements come from, and was not counted when the
 * task before it at the same production was lost. */
static void task_lost(mr_core *core, struct mr_task *task, struct mr_loss_counted *loss, char *why,
                      size_t size)
{
    const struct mr_iteration_rules *rules = task->iteration->rules;
    const struct mr_task *source = rules->source != NULL ? rules->source(core, task) : task;
    uint64_t granted = source != NULL ? mr_task_granted(source) : 0;
    uint64_t before = mr_task_is_recovery(task) ? task->rec->behind : 0;

    loss->splits = granted > before ? granted - before : 0;
    loss->elements = loss->splits > 0 ? mr_task_granted_elements(source, loss->splits) : 0;
    if (source == task) { /* once: the production's own iteration counts them */
        core->out->tally.lost += loss->splits;
    }
}

/* Nobody knows which splits a task has; what was given back before it cannot have. */
static bool holds(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count)
{
    return !mr_split_list_touches(mr_given_back(task->iteration, provider), first, count);
}

const struct mr_guarantee_rules mr_at_most_once = {
    .task_lost = task_lost,
    .holds = holds,
};
