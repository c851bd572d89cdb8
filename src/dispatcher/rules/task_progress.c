/* What a worker says of a task in its heartbeats. */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

/* It made nothing for long, and now something: whoever was closed for that may read there again. */
static void note_going_on(mr_core *core, struct mr_task *producing)
{
    struct mr_iteration *user;

    MR_APPLY(core, task_barren, producing, false);
    TAILQ_FOREACH(user, &producing->iteration->makes->users, in_production)
    {
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

void mr_task_note_progress(mr_core *core, struct mr_task *task,
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
