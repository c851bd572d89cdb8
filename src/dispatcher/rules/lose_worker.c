/*
 * Workers, by life: from the moment that a process has registered and watches (register.c) until it
 * is silent for too long or superseded by another process at its address. One record a life,
 * written at both ends and never by a heartbeat. A process that was lost and comes back begins
 * another life under the same incarnation, with fresh tasks, since its old ones were given up.
 *
 * A life is named by the stamp of its registration, which is never given again: the record of the
 * life before may be gone by then (retention, somebody's hand), and the process may still have the
 * tasks of that life. The number of a life is for people.
 *
 * The end of a life is one put, whatever the number of its tasks: that they are lost is a
 * comparison of stamps.
 */
#include "dispatcher/rules/rules.h"

#include <inttypes.h>

static void note_loss(mr_core *core, const struct mr_task *task)
{
    const struct mr_iteration *it = task->iteration;
    uint64_t splits = mr_task_granted(task);

    if (splits > 0 && !mr_iteration_repeats(it)) {
        mr_core_note(core, "iteration %s of %s %s: %" PRIu64 " splits lost", it->rec->id,
                     it->job != NULL ? "job" : "production",
                     it->job != NULL ? mr_job_label(it->job) : it->makes->rec->id, splits);
    }
}

void mr_core_worker_lose(mr_core *core, struct mr_core_worker *worker, enum mr_loss why)
{
    bool superseded = why == MR_LOSS_SUPERSEDED;
    struct mr_task *task;
    char stamp[MR_STAMP_SIZE];

    MR_ASSERT(mr_core_worker_is_live(worker));
    worker->lost = mr_core_stamp(core);
    worker->lost_at = core->now;
    mr_alarm_by(core, &worker->alarm, core->now);
    mr_stamp_print(worker->lost, stamp);
    mr_core_set(core, &worker->rec->lost, stamp);
    worker->rec->superseded = superseded;
    worker->rec->left = why == MR_LOSS_LEFT;
    worker->rec->lost_ms = (uint64_t)core->wall_ms;
    mr_touch(core, MR_STORED_WORKER, worker, 0);
    core->live_workers--;
    mr_map_remove(&core->workers_by_address, worker->rec->address);

    mr_core_note(core, "worker %.8s.%u at %s: %s", worker->rec->incarnation, worker->rec->life,
                 worker->rec->address,
                 superseded            ? "superseded"
                 : why == MR_LOSS_LEFT ? "left"
                                       : "lost");
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        if (task->state == MR_TASK_OPEN) {
            note_loss(core, task);
            mr_task_move(core, task, MR_TASK_LOST);
        }
    }
    mr_core_end_stream(core, MR_EFFECT_END_WORKER, worker->rec->incarnation,
                       superseded ? MR_EPRECOND : MR_ENOTFOUND,
                       superseded ? "superseded: another process registered at this address"
                       : why == MR_LOSS_LEFT
                           ? "it has left"
                           : "lost: nothing was heard of this worker for too long");
}
