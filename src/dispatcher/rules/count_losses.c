/*
 * What the changes of its tasks mean for an iteration: losses are counted, and it ends or goes on.
 *
 * It is over when no task is open and one at least saw the end of the data. Nothing that came back,
 * from lost workers (at least once) or unopened from such as drained, may be waiting either. A task
 * that ended because its worker drained is no sign that this is all. An iteration whose tasks were
 * all lost stays open: whoever is there goes on with it, or the next worker.
 *
 * A change of a task only marks its iteration; it is settled when a step has room for all that
 * follows.
 */
#include "dispatcher/rules/rules.h"

/* Is it the first sign in this iteration of the loss of its worker, which may have had several
 * tasks? */
static bool is_first_loss(const struct mr_task *task)
{
    const struct mr_task *other;

    if (!mr_task_is_recovery(task)) {
        return true; /* it stands before those that came on top of it */
    }
    TAILQ_FOREACH(other, &task->iteration->tasks, in_iteration)
    {
        if (other == task || (other->worker == task->worker && other->state == MR_TASK_LOST)) {
            break;
        }
    }
    return other == task;
}

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

static void note_counted(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    if (mr_stamp_compare(task->worker->lost, it->losses_counted_to) > 0) {
        it->losses_counted_to = task->worker->lost;
    }
    task->counted = true;
    it->uncounted_tasks--;
    mr_touch(core, MR_STORED_ITERATION, it, 0);
}

static void set_counted_to(mr_core *core, struct mr_iteration *it)
{
    char stamp[MR_STAMP_SIZE];

    mr_stamp_print(it->losses_counted_to, stamp);
    mr_core_set(core, &it->rec->losses_counted_to,
                mr_stamp_is_set(it->losses_counted_to) ? stamp : "");
}

void mr_iteration_forgive_losses(mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_LOST && !task->counted &&
            !mr_core_worker_is_live(task->worker)) {
            note_counted(core, task);
        }
    }
    set_counted_to(core, it);
}

static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_iteration *it = task->iteration;

    it->rec->lost_workers += is_first_loss(task) ? 1 : 0;
    if (mr_iteration_repeats(it)) {
        mr_recovery_return(core, task, why, size);
    } else {
        uint64_t elements;
        uint64_t lost = splits_behind(core, task, &elements);

        mr_iteration_note_lost(it, lost, elements);
        core->out->tally.lost +=
            it->uses == NULL ? lost : 0; /* once: the production's own iteration counts them */
    }
    note_counted(core, task);
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
            mr_task_retire(core, task);
        }
    }
    set_counted_to(core, it);
}
