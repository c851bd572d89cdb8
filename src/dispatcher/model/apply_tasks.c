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
#include "dispatcher/model/model.h"

#include <stdio.h>

void mr_task_free(struct mr_task *task)
{
    if (task == NULL) {
        return;
    }
    for (size_t i = 0; task->grants != NULL && i < task->iteration->rec->n_providers; i++) {
        mr_record_free(task->grants[i].rec);
    }
    mr_free(task->grants);
    mr_sharing_report_free(task->sharing);
    mr_record_free(task->rec);
    mr_free(task);
}

/* @rec: of a recovery task, taken; NULL: derived. */
static struct mr_task *add_task(mr_core *core, struct mr_iteration *it,
                                struct mr_core_worker *worker, Millrace__TaskRecord *rec)
{
    struct mr_task *task = mr_calloc(1, sizeof *task);

    if (task == NULL) {
        mr_core_nomem(core);
        mr_record_free(rec);
        return NULL;
    }
    task->iteration = it;
    task->worker = worker;
    task->state = MR_TASK_OPEN;
    task->waited_for = MR_NEVER;
    task->rec = rec;
    if (rec != NULL) {
        snprintf(task->id, sizeof task->id, "%s/%s/%u", it->rec->id, worker->ref, rec->recovery);
    } else {
        snprintf(task->id, sizeof task->id, "%s/%s", it->rec->id, worker->ref);
    }
    if (it->rec->n_providers > 0) {
        task->grants = mr_calloc(it->rec->n_providers, sizeof *task->grants);
        if (task->grants == NULL) {
            mr_core_nomem(core);
            mr_task_free(task);
            return NULL;
        }
    }
    TAILQ_INSERT_TAIL(&it->tasks, task, in_iteration);
    TAILQ_INSERT_TAIL(&worker->tasks, task, in_worker);
    it->open_tasks++;
    it->draining_tasks += mr_core_worker_is_draining(worker) ? 1 : 0;
    worker->recoveries += rec != NULL ? 1 : 0;
    core->tasks++;
    mr_core_index(core, &core->tasks_by_id, task->id, task);
    mr_iteration_note_task(core, task);
    if (it->rounds != NULL) {
        mr_iteration_unsettle(core, it); /* it is to take turns */
    }
    return task;
}

struct mr_task *mr_task_add(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker)
{
    return add_task(core, it, worker, NULL);
}

void mr_task_move(mr_core *core, struct mr_task *task, enum mr_task_state to)
{
    struct mr_iteration *it = task->iteration;

    MR_ASSERT(mr_task_may_become(task, to));
    task->state = to;
    it->open_tasks--;
    it->draining_tasks -= mr_core_worker_is_draining(task->worker) ? 1 : 0;
    it->ended_tasks += to == MR_TASK_ENDED && !task->drained ? 1 : 0;
    it->uncounted_tasks += to == MR_TASK_LOST && !task->counted ? 1 : 0;
    task->worker->recoveries -= mr_task_is_recovery(task) ? 1 : 0;
    if (to == MR_TASK_ENDED) {
        mr_grants_void(task); /* clients have returned all of it */
    }
    mr_iteration_note_task(core, task);
    mr_core_worker_note_dropped(core, task);
    mr_iteration_unsettle(core, it);
    if (it->rounds != NULL) {
        mr_rounds_note(core, it, false);
    }
    mr_core_trace(core, "task %s: %s", task->id,
                  task->drained ? "drained" : mr_task_state_name(to));
}

bool mr_task_give_record(mr_core *core, struct mr_task *task)
{
    MR_ASSERT(task->rec == NULL);
    task->rec = mr_core_new_record(core, &millrace__task_record__descriptor);
    return task->rec != NULL;
}

void mr_task_recover(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker,
                     bool isolated)
{
    Millrace__TaskRecord *rec = mr_core_new_record(core, &millrace__task_record__descriptor);
    struct mr_task *task;

    if (rec == NULL) {
        return;
    }
    rec->recovery = ++it->rec->recoveries;
    rec->isolated = isolated;
    mr_touch(core, MR_STORED_ITERATION, it, 0);
    task = mr_task_derived(core, it, worker);
    rec->behind = task != NULL && task->rec != NULL ? task->rec->behind : 0;
    task = add_task(core, it, worker, rec);
    if (task != NULL) {
        mr_core_trace(core, "task %s: opened, a recovery task%s", task->id,
                      isolated ? " for suspects" : "");
        mr_core_worker_note_task(core, task);
        mr_touch(core, MR_STORED_TASK, task, 0);
    }
}

struct mr_task *mr_task_adopt_recovery(mr_core *core, struct mr_iteration *it,
                                       struct mr_core_worker *worker, Millrace__TaskRecord *rec)
{
    return add_task(core, it, worker, rec);
}

void mr_task_join_in(mr_core *core, struct mr_task *task)
{
    MR_ASSERT(task->rec->isolated);
    task->rec->isolated = false;
    mr_touch(core, MR_STORED_TASK, task, 0);
}

void mr_task_leave_grants(mr_core *core, struct mr_task *task)
{

    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        if (task->grants[i].rec != NULL) {
            mr_leave_over(core, MR_STORED_GRANT, task, i);
            mr_record_free(task->grants[i].rec);
            task->grants[i].rec = NULL;
        }
    }
}

void mr_task_remove(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    if (task->state == MR_TASK_OPEN) {
        mr_core_worker_note_dropped(core, task);
    }
    mr_task_leave_grants(core, task);
    if (task->rec != NULL) {
        mr_leave_over(core, MR_STORED_TASK, task, 0);
    }
    it->open_tasks -= task->state == MR_TASK_OPEN ? 1 : 0;
    it->draining_tasks -=
        task->state == MR_TASK_OPEN && mr_core_worker_is_draining(task->worker) ? 1 : 0;
    it->ended_tasks -= task->state == MR_TASK_ENDED && !task->drained ? 1 : 0;
    it->uncounted_tasks -= task->state == MR_TASK_LOST && !task->counted ? 1 : 0;
    task->worker->recoveries -= task->state == MR_TASK_OPEN && mr_task_is_recovery(task) ? 1 : 0;
    core->tasks--;
    mr_map_remove(&core->tasks_by_id, task->id);
    TAILQ_REMOVE(&it->tasks, task, in_iteration);
    TAILQ_REMOVE(&task->worker->tasks, task, in_worker);
    mr_task_free(task);
}

/* What @task has said of elements that nobody gets is with its iteration from now on; or, if others
 * may come to read there and say it again, with the task before it. */
static void hand_over_counts(mr_core *core, const struct mr_task *task)
{
    struct mr_task *before = mr_task_before(task);
    Millrace__IterationRecord *it = task->iteration->rec;

    if (before != NULL && before->rec != NULL) {
        before->rec->abandoned =
            mr_larger(mr_task_said_abandoned(before), mr_task_said_abandoned(task));
        before->rec->skipped = mr_larger(mr_task_said_skipped(before), mr_task_said_skipped(task));
        mr_touch(core, MR_STORED_TASK, before, 0);
    } else {
        it->abandoned = mr_count_add(it->abandoned, mr_task_abandoned(task));
        it->skipped = mr_count_add(it->skipped, mr_task_skipped(task));
    }
}

bool mr_task_give_up_counts(mr_core *core, struct mr_task *task)
{
    if (mr_task_abandoned(task) == 0 && mr_task_skipped(task) == 0) {
        return true;
    }
    if (core->full || !mr_core_has_room(core, 2)) {
        return false;
    }
    MR_ASSERT(!mr_task_is_recovery(task));
    hand_over_counts(core, task);
    task->abandoned = 0;
    if (task->sharing != NULL) {
        task->sharing->skipped = 0;
    }
    if (task->rec != NULL) {
        task->rec->abandoned = task->rec->skipped = 0;
        mr_touch(core, MR_STORED_TASK, task, 0);
    }
    mr_touch(core, MR_STORED_ITERATION, task->iteration, 0);
    return true;
}

void mr_task_retire(mr_core *core, struct mr_task *task)
{

    MR_ASSERT(mr_task_is_recovery(task));
    MR_ASSERT(task->state != MR_TASK_OPEN);
    hand_over_counts(core, task);
    mr_touch(core, MR_STORED_ITERATION, task->iteration, 0);
    mr_delete(core, MR_STORED_TASK, task, 0);
    mr_record_free(task->rec);
    task->rec = NULL;
    mr_task_remove(core, task);
}
