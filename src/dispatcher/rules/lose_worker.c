/* The end of a worker's life: one record, whatever the number of its tasks. That they are lost is a
 * comparison of stamps. */
#include "dispatcher/rules/rules.h"

static void note_loss(mr_core *core, const struct mr_task *task)
{
    const struct mr_iteration *it = task->iteration;
    uint64_t splits = mr_task_granted(task);

    if (splits > 0 && !mr_iteration_repeats(it)) {
        mr_core_note_loss(core, "iteration %s of %s %s: %" PRIu64 " splits lost", it->rec->id,
                          it->job != NULL ? "job" : "production",
                          it->job != NULL ? mr_job_label(it->job) : it->makes->rec->id, splits);
    }
}

void mr_core_worker_lose(mr_core *core, struct mr_core_worker *worker, enum mr_loss why)
{
    static const struct {
        const char *name;
        int code;
        const char *text;
    } losses[] = {
        [MR_LOSS_SILENT] = {"lost", MR_ENOTFOUND,
                            "lost: nothing was heard of this worker for too long"},
        [MR_LOSS_SUPERSEDED] = {"superseded", MR_EPRECOND,
                                "superseded: another process registered at this address"},
        [MR_LOSS_LEFT] = {"left", MR_ENOTFOUND, "it has left"},
    };
    const struct mr_task *task;

    mr_core_note(core, "worker %.8s.%u at %s: %s", worker->rec->incarnation, worker->rec->life,
                 worker->rec->address, losses[why].name);
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        if (task->state == MR_TASK_OPEN) {
            note_loss(core, task);
        }
    }
    MR_APPLY(core, worker_lost, worker, why);
    mr_core_end_stream(core, MR_EFFECT_END_WORKER, worker->rec->incarnation, losses[why].code,
                       losses[why].text);
}
