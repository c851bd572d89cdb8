/* A worker says that it lives, what its tasks do, and that it drains or leaves. */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

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
            mr_task_note_progress(core, task, in->tasks[i]);
            take_reports(core, task, in->tasks[i]);
        }
    }
    if (in->draining && !core->full) { /* the next one says it again */
        mr_core_worker_note_draining(core, worker);
    }
    if (in->leaving) {
        mr_core_worker_lose(core, worker, MR_LOSS_LEFT);
    }
    Millrace__WorkerHeartbeatReply *reply =
        mr_core_reply(core, in->leaving /* else a positive refresh */);

    if (reply != NULL) {
        reply->version = worker->version;
    }
    return MR_OK;
}
