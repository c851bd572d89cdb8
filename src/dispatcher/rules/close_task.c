/*
 * Tasks are derived: each open iteration has one for each worker that lived while it was open. A
 * record exists for what cannot be derived, that a task ended or was closed. Ids are the same under
 * every leader.
 *
 *     open ──(it says so)──► ended (or drained: its worker goes, and that is why)
 *       ╰──(its worker is lost, or no client reaches it)──► lost
 *
 * Recovery tasks (recovery.c) come on top of these, with an id and a record of their own, and are
 * forgotten as soon as they have ended or their loss is counted.
 */
#include "dispatcher/rules/rules.h"

void mr_task_close_unreachable(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;
    bool recovers = mr_task_is_recovery(task);
    struct mr_task *derived = recovers ? mr_task_derived(core, it, task->worker) : task;
    const struct mr_task *producing = mr_task_producing(core, task);

    if (!recovers && !mr_task_give_record(core, task)) {
        return;
    }
    if (!recovers) {
        task->rec->lost = true;
        task->rec->abandoned =
            mr_task_said_abandoned(task); /* nobody says it under the next leader */
        task->rec->skipped = mr_task_said_skipped(task);
    }
    mr_task_move(core, task, MR_TASK_LOST); /* the record of a recovery task goes with the count */
    if (producing != NULL && derived != NULL && derived->rec != NULL) {
        derived->rec->behind = mr_task_granted(producing);
    }
    if (!recovers || (producing != NULL && derived != NULL && derived->rec != NULL)) {
        mr_touch(core, MR_STORED_TASK, derived, 0);
    }
    mr_iteration_settle(core, it);
}

bool mr_task_disown(mr_core *core, struct mr_task *task, const mr_error *why)
{
    if (core->full || !mr_core_has_room(core, 1 + mr_iteration_settle_changes(task->iteration))) {
        return false; /* the worker says it again */
    }
    mr_core_note(core, "%s: closed", why->message);
    mr_task_close_unreachable(core, task);
    return true;
}
