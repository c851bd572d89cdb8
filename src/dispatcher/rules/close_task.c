/* A task is closed though its worker lives. */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

void mr_task_close_unreachable(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    MR_APPLY(core, task_closed, task);
    mr_iteration_review(core, it);
}

bool mr_task_disown(mr_core *core, struct mr_task *task, const mr_error *why)
{
    if (core->full || !mr_core_has_room(core, 1 + mr_iteration_review_changes(task->iteration))) {
        return false; /* the worker says it again */
    }
    mr_core_note(core, "%s: closed", why->message);
    mr_task_close_unreachable(core, task);
    return true;
}
