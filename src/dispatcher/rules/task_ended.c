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

#include <inttypes.h>

static void set_message(mr_core *core, Millrace__TaskRecord *rec, const char *message)
{
    char text[MR_ERROR_MESSAGE_SIZE];

    mr_line_copy(message, text, sizeof text);
    mr_core_set(core, &rec->message, text);
}

/* Whose number is too large for one transaction is not waited for. */
static void note_holders(mr_core *core, struct mr_iteration *it,
                         const Millrace__TaskEndedRequest *in)
{
    for (size_t i = 0; i < in->n_holders; i++) {
        const Millrace__Holder *holder = in->holders[i];

        if (i < MR_HOLDERS_MAX && mr_core_has_room(core, 2 + mr_iteration_settle_changes(it))) {
            mr_client_hold(core, it, in->task_id, holder);
        } else {
            mr_iteration_note_abandoned(core, it, holder->elements, 0);
        }
    }
}

/* The record of a recovery task goes; that a pipeline came to its end is noted with the iteration,
 * and so is what went with clients. */
static void end_recovery(mr_core *core, struct mr_task *task, const Millrace__TaskEndedRequest *in)
{
    struct mr_iteration *it = task->iteration;
    struct mr_task *producing = mr_task_producing(core, task);

    if (task->drained && producing != NULL) {
        producing->barren = true; /* that its worker drains may be heard of later */
    }
    if (!task->drained) {
        it->rec->pipeline_ended = true;
        mr_touch(core, MR_STORED_ITERATION, it, 0);
    }
    mr_task_move(core, task, MR_TASK_ENDED);
    if (!task->drained) {
        mr_given_back_drop_unwanted(core, it, task);
    }
    task->rec->abandoned = mr_count_add(in->abandoned, 0);
    task->rec->skipped = it->uses != NULL ? mr_count_add(in->skipped, 0) : 0;
    mr_task_retire(core, task);
    note_holders(core, it, in);
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
        mr_iteration_settle(core, it);
        return;
    }
    if (task->rec == NULL && !mr_task_give_record(core, task)) {
        return;
    }
    task->rec->ended = true;
    task->rec->drained = task->drained;
    task->rec->code = code;
    task->rec->skipped = it->uses != NULL ? mr_count_add(in->skipped, 0) : 0;
    task->rec->abandoned = mr_count_add(in->abandoned, 0);
    set_message(core, task->rec, in->message);
    mr_task_move(core, task, MR_TASK_ENDED);
    mr_touch(core, MR_STORED_TASK, task, 0);
    note_holders(core, it, in);
    if (code < 0) {
        fail_iteration(core, task, code);
    } else {
        mr_iteration_settle(core, it);
    }
}

void mr_core_do_task_ended(mr_core *core, const Millrace__TaskEndedRequest *in)
{
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);
    struct mr_task *task = mr_task_find(core, in->task_id);
    mr_error err;

    if (worker == NULL) {
        mr_error_set(&err, MR_ENOTFOUND, "worker %.8s is not registered", in->incarnation);
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    mr_core_worker_seen(core, worker);
    if (task != NULL && task->worker != worker) {
        mr_error_set(&err, MR_EPRECOND, "task %s is not of worker %.8s", task->id, in->incarnation);
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    if (task != NULL && (task->iteration->makes != NULL || task->iteration->rec->joining)) {
        mr_error_set(&err, MR_EPRECOND, "task %s does not end by itself: %s", task->id,
                     task->iteration->makes != NULL ? "it makes a production"
                                                    : "it is joining one");
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    if (task == NULL && mr_task_refuse_held(core, in->task_id, &err) <
                            0) { /* its end counts when it is there again */
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    if (in->end_round > MR_COUNT_SAID_MAX) {
        mr_error_set(&err, MR_EINVAL,
                     "task %.100s ended at round %" PRIu64 ": nothing counts that far", in->task_id,
                     in->end_round);
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    /* A task that is gone or closed needs no end any more: the worker may drop it. */
    if (task != NULL && task->state == MR_TASK_OPEN && task->iteration->rounds != NULL &&
        in->code >= 0) {
        mr_rounds_note_end(core, task, in->end_round);
    }
    if (task != NULL && task->state == MR_TASK_OPEN) {
        task->drained = in->drained && in->code >= 0;
        end_task(core, task, in->code <= 0 ? in->code : MR_EUNKNOWN, in);
    }
    mr_core_reply(core, &millrace__task_ended_reply__descriptor, true /* fenced */);
}
