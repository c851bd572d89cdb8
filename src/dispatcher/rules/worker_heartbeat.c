/* A worker says that it lives, what its tasks do, and that it drains or leaves. */
#include "dispatcher/rules/rules.h"

/* It made nothing for long, and now something: whoever was closed for that may read there again. */
static void note_going_on(mr_core *core, struct mr_task *producing)
{
    struct mr_iteration *user;

    MR_APPLY(core, task_barren, producing, false);
    TAILQ_FOREACH(user, &producing->iteration->makes->users, in_production) {
        mr_iteration_look_again(core, user);
    }
}

/* Whom others wait for in coordinated reads. */
static void note_missing(mr_core *core, struct mr_iteration *it,
                         const Millrace__RoundProgress *progress)
{
    for (size_t i = 0; it->rounds != NULL && i < progress->n_missing; i++) {
        if (progress->missing[i] < it->rounds->n) {
            MR_APPLY(core, seat_missed, it, progress->missing[i], progress->waiting_ms);
        }
    }
}

static void note_progress(mr_core *core, struct mr_task *task,
                          const Millrace__TaskProgress *progress)
{
    bool is_waited_for = progress->sessions > 0 && !progress->finished &&
                         !mr_task_is_held_up(core, task) &&
                         progress->produced == progress->delivered + progress->skipped;

    if (progress->rounds != NULL) {
        note_missing(core, task->iteration, progress->rounds);
    }
    if (task->barren && task->produced != progress->produced) {
        note_going_on(core, task);
    }
    MR_APPLY(core, task_reported, task, progress, is_waited_for);
}

/* A report that cannot be is left out: the rest of the heartbeat is still a sign of life. If it
 * shows that the worker and we do not mean the same by this task, nothing could come of that any
 * more. */
static void take_reports(mr_core *core, struct mr_task *task,
                         const Millrace__TaskProgress *progress)
{
    mr_error err;

    for (size_t i = 0; i < progress->n_reports && task->state == MR_TASK_OPEN; i++) {
        int rc = mr_grants_report(core, task, progress->reports[i], &err);

        if (rc == MR_ERANGE && mr_task_disown(core, task, &err)) {
            return;
        }
        if (rc < 0) {
            mr_core_trace(core, "%s", err.message);
        }
    }
    if (task->state == MR_TASK_OPEN) {
        mr_grants_write(core, task);
    }
}

int mr_core_do_worker_heartbeat(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__WorkerHeartbeatRequest *in = command->worker_heartbeat;
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);

    if (worker == NULL) {
        return mr_core_worker_refuse_unknown(core, in->incarnation, err);
    }
    MR_APPLY(core, worker_seen, worker);
    if (in->cache != NULL) {
        MR_APPLY(core, worker_cache, worker, in->cache);
    }
    for (size_t i = 0; i < in->n_tasks; i++) {
        struct mr_task *task = mr_task_find(core, in->tasks[i]->task_id);

        if (task != NULL && task->worker == worker) {
            note_progress(core, task, in->tasks[i]);
            if (in->tasks[i]->times != NULL && task->state == MR_TASK_OPEN) {
                MR_APPLY(core, task_times_said, task, in->tasks[i]->times);
            }
            take_reports(core, task, in->tasks[i]);
        }
    }
    if (in->draining && !core->full) {
        mr_core_worker_note_draining(core, worker);
    }
    if (in->leaving) {
        mr_core_worker_lose(core, worker, MR_LOSS_LEFT);
    }
    Millrace__WorkerHeartbeatReply *reply =
        mr_core_reply(core, in->leaving /* else a positive refresh */);

    if (reply != NULL) {
        reply->version = worker->version;
        reply->drain_unwritten = in->draining && !mr_core_worker_is_draining(worker);
        reply->drain = !in->draining && !in->leaving && mr_core_worker_is_draining(worker);
    }
    return MR_OK;
}
