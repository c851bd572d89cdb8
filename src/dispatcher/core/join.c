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
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void mr_sharing_report_free(struct mr_sharing_report *report)
{
    if (report != NULL) {
        mr_record_free(report->join);
        mr_record_free(report->window);
        mr_free(report);
    }
}

/* What others say is shown to people and stored: text of a line. */
static void set_text(mr_core *core, char **slot, const char *text)
{
    char line[MR_ERROR_MESSAGE_SIZE];

    mr_line_copy(text, line, sizeof line);
    mr_core_set(core, slot, line);
}

static bool is_full(const struct mr_production *p, char why[MR_REFUSAL_SIZE])
{
    if (p->nusers >= MR_PRODUCTION_USERS_MAX) {
        snprintf(why, MR_REFUSAL_SIZE, "production %s has %u users already", p->rec->id, p->nusers);
    }
    return p->nusers >= MR_PRODUCTION_USERS_MAX;
}

struct mr_production *mr_join_choose(mr_core *core, const struct mr_job *job,
                                     Millrace__IterationRecord *rec)
{
    struct mr_production *p = mr_production_newest(core, job, rec->repetition);
    char why[MR_REFUSAL_SIZE];

    if (p != NULL && !mr_production_refuses(p, why) && !is_full(p, why)) {
        rec->joining = !p->rec->endless;
    } else {
        if (p != NULL) {
            set_text(core, &rec->unshared, why);
        }
        p = mr_production_create(core, job, rec->repetition, rec->seed);
    }
    if (p != NULL) {
        mr_core_set(core, &rec->production, p->rec->id);
    }
    return p;
}

int64_t mr_join_due(const struct mr_iteration *it)
{
    return it->rec->joining ? it->join_until : MR_NEVER;
}

/* ---------------------------------------------------------------- answers */

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
        set_text(core, &report->join->refused, join->refused);
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
        set_text(core, &report->window->degraded, window->degraded);
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

bool mr_task_is_held_up(const mr_core *core, const struct mr_task *task)
{
    const struct mr_task *producing = mr_task_producing(core, task);

    return producing != NULL && producing->sharing != NULL && producing->sharing->window != NULL &&
           producing->sharing->window->held;
}

uint64_t mr_iteration_skipped(const struct mr_iteration *it)
{
    const struct mr_task *task;
    uint64_t sum = it->rec->skipped;

    if (it->rec->end != NULL) {
        return it->rec->end->skipped;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        sum = mr_count_add(sum, mr_task_skipped(task));
    }
    return sum;
}

/* ---------------------------------------------------------------- the decision */

enum verdict { WAIT, SHARE, APART, APART_FOR_ALL /* nobody else needs to try */ };

/* What the answer of one worker leads to. */
static enum verdict judge_task(const mr_core *core, const struct mr_task *task,
                               char why[MR_REFUSAL_SIZE])
{
    const Millrace__JoinAnswer *join = task->sharing != NULL ? task->sharing->join : NULL;
    const char *address = task->worker->rec->address;

    if (join == NULL && core->now < task->iteration->join_until) {
        return WAIT;
    }
    if (join == NULL) {
        snprintf(why, MR_REFUSAL_SIZE, "worker %.80s did not say whether it has the start",
                 address);
        return APART;
    }
    if (join->refused[0] != '\0') {
        snprintf(why, MR_REFUSAL_SIZE, "worker %.60s refuses: %.100s", address, join->refused);
        return APART_FOR_ALL;
    }
    if (join->first > 0) {
        snprintf(why, MR_REFUSAL_SIZE,
                 "worker %.80s has nothing below element %" PRIu64 " any more", address,
                 join->first);
        return APART_FOR_ALL;
    }
    return SHARE;
}

static enum verdict judge(const mr_core *core, const struct mr_iteration *it,
                          char why[MR_REFUSAL_SIZE])
{
    enum verdict verdict = SHARE;
    const struct mr_task *task;

    if (mr_production_refuses(it->uses, why)) {
        return APART;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_OPEN) {
            enum verdict one = judge_task(core, task, why);

            if (one == APART || one == APART_FOR_ALL) {
                return one;
            }
            verdict = one == WAIT ? WAIT : verdict;
        }
    }
    return verdict;
}

static void go_apart(mr_core *core, struct mr_iteration *it, enum verdict verdict, const char *why)
{
    struct mr_production *old = it->uses;
    struct mr_production *own =
        mr_production_create(core, it->job, it->rec->repetition, it->rec->seed);

    if (own == NULL) {
        return;
    }
    mr_production_leave(core, it);
    if (verdict == APART_FOR_ALL) {
        mr_production_close(core, old, why);
    }
    mr_core_set(core, &it->rec->production, own->rec->id);
    set_text(core, &it->rec->unshared, why);
    mr_production_join(own, it);
    mr_production_list(core, own, it);
}

void mr_join_settle(mr_core *core, struct mr_iteration *it)
{
    char why[MR_REFUSAL_SIZE] = "";
    enum verdict verdict = judge(core, it, why);

    MR_ASSERT(it->rec->joining);
    if (verdict == WAIT) {
        return;
    }
    if (verdict != SHARE) {
        go_apart(core, it, verdict, why);
    }
    it->rec->joining = false;
    mr_iteration_forgive_losses(core, it); /* they had given it nothing, and nobody had to */
    it->unwritten = true;
    mr_iteration_note_assignments(core, it);
    mr_core_trace(core, "iteration %s: %s production %s%s%s", it->rec->id,
                  verdict == SHARE ? "joined" : "has its own", it->rec->production,
                  why[0] != '\0' ? ", " : "", why);
}
