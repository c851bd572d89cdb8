/* The losses of workers become losses of their iterations, as the guarantee says. */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_loss_counted loss = {.task = task};

    mr_guarantee_of(task->iteration)->task_lost(core, task, &loss, why, size);
    mr_apply(core, &(struct mr_update){MR_UPDATE_loss_counted, .loss_counted = loss});
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
