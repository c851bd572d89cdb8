/* The losses of workers become losses of their iterations: by guarantee they are counted, or what was
 * lost comes back. */
#include "dispatcher/rules/rules.h"

/* At most once: what was given to the pipeline that the task's elements come from, and was not
 * counted when the task before it at the same production was lost. *@elements: what comes of it at
 * most; 0: not known. */
static uint64_t splits_behind(const mr_core *core, const struct mr_task *task, uint64_t *elements)
{
    const struct mr_task *source =
        task->iteration->uses != NULL ? mr_task_producing(core, task) : task;
    uint64_t granted = source != NULL ? mr_task_granted(source) : 0;
    uint64_t before = mr_task_is_recovery(task) ? task->rec->behind : 0;
    uint64_t splits = granted > before ? granted - before : 0;

    *elements = splits > 0 ? mr_task_granted_elements(source, splits) : 0;
    return splits;
}

static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_iteration *it = task->iteration;
    uint64_t splits = 0, elements = 0;

    if (mr_iteration_repeats(it)) {
        mr_recovery_return(core, task, why, size);
    } else {
        splits = splits_behind(core, task, &elements);
        /* once: the production's own iteration counts them */
        core->out->tally.lost += it->uses == NULL ? splits : 0;
    }
    MR_APPLY(core, loss_counted, task, splits, elements);
}

/* Losses that the record does not have yet. @why: see mr_recovery_return(). */
void mr_iteration_count_losses(mr_core *core, struct mr_iteration *it, char *why, size_t size)
{
    struct mr_task *task, *next;

    if (it->uncounted_tasks == 0) {
        return; /* nearly always: no walk over all tasks for each one that ends */
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_LOST && !task->counted) {
            count_loss(core, task, why, size);
        }
    }
    for (task = TAILQ_FIRST(&it->tasks); task != NULL; task = next) {
        next = TAILQ_NEXT(task, in_iteration);
        if (task->state == MR_TASK_LOST && mr_task_is_recovery(task)) {
            MR_APPLY(core, task_retired, task);
        }
    }
}
