/* A worker says that a task has come to its end. */
#include "dispatcher/rules/rules.h"

/* Whose number is too large for one transaction is not waited for. */
static void note_holders(mr_core *core, struct mr_iteration *it,
                         const Millrace__TaskEndedRequest *in)
{
    for (size_t i = 0; i < in->n_holders; i++) {
        const Millrace__Holder *holder = in->holders[i];

        if (i < MR_HOLDERS_MAX && mr_core_has_room(core, 2 + mr_iteration_review_changes(it))) {
            mr_client_hold(core, it, in->task_id, holder);
        } else {
            MR_APPLY(core, elements_abandoned, it, holder->elements, 0);
        }
    }
}

/* The record of a recovery task goes; that a pipeline came to its end is noted with the iteration,
 * and so is what went with clients. */
static void end_recovery(mr_core *core, struct mr_task *task, const Millrace__TaskEndedRequest *in)
{
    struct mr_task *producing = mr_task_producing(core, task);
    struct mr_iteration *it = task->iteration;

    if (in->drained && producing != NULL) { /* that its worker drains may be heard of later */
        MR_APPLY(core, task_barren, producing, true);
    }
    if (!in->drained && !it->rec->pipeline_ended) {
        MR_APPLY(core, pipeline_ended, it);
    }
    MR_APPLY(core, task_ended, task, MR_OK, in);
    if (!in->drained) {
        mr_given_back_drop_unwanted(core, it, task);
    }
    MR_APPLY(core, task_retired, task);
    note_holders(core, it, in);
    mr_iteration_review(core, it);
}

/* In the words that clients have for it that hear of it from the worker: a file that is missing is
 * missing there. */
static void fail_iteration(mr_core *core, struct mr_task *task, int code)
{
    mr_error why;

    mr_error_set(&why, code, "worker %s: %s", task->worker->rec->address, task->rec->message);
    mr_iteration_fail(core, task->iteration, code, why.message);
}

static void end_task(mr_core *core, struct mr_task *task, int code,
                     const Millrace__TaskEndedRequest *in)
{
    struct mr_iteration *it = task->iteration;

    if (mr_task_is_recovery(task) && code >= 0) {
        end_recovery(core, task, in);
        return;
    }
    MR_APPLY(core, task_ended, task, code, in);
    note_holders(core, it, in);
    if (code < 0) {
        fail_iteration(core, task, code);
    } else {
        mr_iteration_review(core, it);
    }
}

int mr_core_do_task_ended(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__TaskEndedRequest *in = command->task_ended;
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);
    struct mr_task *task = mr_task_find(core, in->task_id);

    if (worker == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "worker %.8s is not registered", in->incarnation);
    }
    MR_APPLY(core, worker_seen, worker);
    if (in->drained && !core->full) { /* no recovery task goes there again */
        mr_core_worker_note_draining(core, worker);
    }
    if (task != NULL && task->worker != worker) {
        return mr_error_set(err, MR_EPRECOND, "task %s is not of worker %.8s", task->id,
                            in->incarnation);
    }
    if (task == NULL) { /* its end counts when it is there again */
        MR_TRY(mr_task_refuse_held(core, in->task_id, err));
    } else if (task->iteration->rules->check_end != NULL) {
        MR_TRY(task->iteration->rules->check_end(task, err));
    }
    if (in->end_round > MR_COUNT_SAID_MAX) {
        return mr_error_set(err, MR_EINVAL, "task %.100s ended at round %" PRIu64 ": out of range",
                            in->task_id, in->end_round);
    }
    /* A task that is gone or closed needs no end any more: the worker may drop it. */
    if (task != NULL && task->state == MR_TASK_OPEN && in->code >= 0 &&
        task->iteration->rules->task_ends != NULL) {
        task->iteration->rules->task_ends(core, task, in);
    }
    if (task != NULL && task->state == MR_TASK_OPEN) {
        end_task(core, task, in->code <= 0 ? in->code : MR_EUNKNOWN, in);
    }
    mr_core_reply(core, true /* fenced */);
    return MR_OK;
}
