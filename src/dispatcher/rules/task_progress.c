/*
 * Joining a production that runs already.
 *
 * One that never ends is joined at once, at the start of each worker's window. Of one that may end
 * a job wants all, so it takes two steps:
 *
 *   1. the iteration is committed as joining. Each live worker opens a reader, which pins what is
 *      there, and answers with the first element that it can have, until it hears the decision.
 *   2. all have answered 0, and no splits went with lost workers: it is committed as a user.
 *      Otherwise it is committed with a production of its own, and says why. Elements are delivered
 *      only then.
 *
 * Answers are soft: the next leader hears them again. A worker that does not answer is not waited
 * for longer than MR_JOIN_HEARTBEATS heartbeats: to produce once more costs CPU, and waiting holds
 * the job up.
 */
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

static struct mr_sharing_report *report_of(mr_core *core, struct mr_task *task)
{
    if (task->sharing == NULL) {
        task->sharing = mr_calloc(1, sizeof *task->sharing);
        if (task->sharing == NULL) {
            mr_core_nomem(core);
        }
    }
    return task->sharing;
}

static void note_join(mr_core *core, struct mr_task *task, struct mr_sharing_report *report,
                      const Millrace__JoinAnswer *join)
{
    if (report->join == NULL) {
        report->join = mr_core_new_record(core, &millrace__join_answer__descriptor);
    }
    if (report->join != NULL) {
        report->join->first = join->first;
        mr_core_set_line(core, &report->join->refused, join->refused);
        mr_iteration_unsettle(core, task->iteration);
    }
}

static void note_window(mr_core *core, struct mr_sharing_report *report,
                        const Millrace__WindowProgress *window)
{
    if (report->window == NULL) {
        report->window = mr_core_new_record(core, &millrace__window_progress__descriptor);
    }
    if (report->window != NULL) {
        report->window->first = window->first;
        report->window->end = window->end;
        report->window->bytes = window->bytes;
        report->window->complete = window->complete;
        report->window->held = window->held;
        mr_core_set_line(core, &report->window->degraded, window->degraded);
    }
}

void mr_join_note(mr_core *core, struct mr_task *task, const Millrace__TaskProgress *progress)
{
    const struct mr_iteration *it = task->iteration;
    struct mr_sharing_report *report;

    if (task->state != MR_TASK_OPEN || (it->uses == NULL && it->makes == NULL)) {
        return;
    }
    report = report_of(core, task);
    if (report == NULL) {
        return;
    }
    report->skipped = progress->skipped;
    if (it->rec->joining && progress->join != NULL) {
        note_join(core, task, report, progress->join);
    }
    if (it->makes != NULL && progress->window != NULL) {
        note_window(core, report, progress->window);
    }
}

/* It made nothing for long, and now something: whoever was closed for that may read there again. */
static void note_going_on(mr_core *core, struct mr_task *producing)
{
    struct mr_iteration *user;

    producing->barren = false;
    TAILQ_FOREACH(user, &producing->iteration->makes->users, in_production)
    {
        mr_iteration_look_again(core, user);
    }
}

void mr_task_note_progress(mr_core *core, struct mr_task *task,
                           const Millrace__TaskProgress *progress)
{
    bool wanted = progress->sessions > 0 && !progress->finished &&
                  !mr_task_is_held_up(core, task) &&
                  progress->produced == progress->delivered + progress->skipped;
    int64_t timeout_ms = core->config.task_timeout_ms;

    if (!wanted || task->state != MR_TASK_OPEN) {
        task->waited_for = MR_NEVER;
    } else if (task->waited_for == MR_NEVER || task->produced != progress->produced) {
        task->waited_for = core->now;
    }
    if (progress->rounds != NULL) {
        mr_consumers_note_missing(core, task->iteration, progress->rounds);
    }
    if (task->barren && task->produced != progress->produced) {
        note_going_on(core, task);
    }
    task->produced = progress->produced;
    task->delivered = progress->delivered;
    task->abandoned = progress->abandoned;
    task->finished = progress->finished;
    if (timeout_ms > 0 && task->waited_for != MR_NEVER) {
        mr_alarm_by(core, &task->iteration->alarm, mr_time_add(task->waited_for, timeout_ms));
    }
}
