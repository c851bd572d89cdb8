/*
 * Updates of tasks. Each open iteration has one for each worker that lived while it was open; a
 * record exists for what cannot be derived, that a task ended or was closed. Ids are the same under
 * every leader.
 *
 *     open ──(it says so)──► ended (or drained: its worker goes, and that is why)
 *       ╰──(its worker is lost, or no client reaches it)──► lost
 *
 * Recovery tasks (rules/recovery.c) come on top of these, with an id and a record of their own, and
 * are forgotten as soon as they have ended or their loss is counted.
 */
#include "dispatcher/model/apply.h"

void mr_task_free(struct mr_task *task)
{
    if (task == NULL) {
        return;
    }
    for (size_t i = 0; task->grants != NULL && i < task->iteration->rec->n_providers; i++) {
        mr_record_free(task->grants[i].rec);
    }
    mr_free(task->grants);
    mr_sharing_report_free(task->sharing);
    mr_free(task->times);
    mr_record_free(task->rec);
    mr_free(task);
}

/* What its iteration and its worker count of it, @sign times. */
static void count_task(const struct mr_task *task, int sign)
{
    struct mr_iteration *it = task->iteration;
    bool is_open = task->state == MR_TASK_OPEN;
    uint32_t n = (uint32_t)sign; /* -1 wraps, and so takes away */

    it->open_tasks += is_open ? n : 0;
    it->draining_tasks += is_open && mr_core_worker_is_draining(task->worker) ? n : 0;
    it->ended_tasks += task->state == MR_TASK_ENDED && !task->drained ? n : 0;
    it->uncounted_tasks += task->state == MR_TASK_LOST && !task->counted ? n : 0;
    task->worker->recoveries += is_open && mr_task_is_recovery(task) ? n : 0;
}

/* @rec: of a recovery task, taken; NULL: derived. */
struct mr_task *mr_task_add(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker,
                            Millrace__TaskRecord *rec)
{
    struct mr_task *task = mr_core_alloc(core, 1, sizeof *task);

    if (task == NULL) {
        mr_record_free(rec);
        return NULL;
    }
    task->iteration = it;
    task->worker = worker;
    task->state = MR_TASK_OPEN;
    task->waited_for = MR_NEVER;
    task->rec = rec;
    if (rec != NULL) {
        snprintf(task->id, sizeof task->id, "%s/%s/%u", it->rec->id, worker->ref, rec->recovery);
    } else {
        snprintf(task->id, sizeof task->id, "%s/%s", it->rec->id, worker->ref);
    }
    if (it->rec->n_providers > 0) {
        task->grants = mr_core_alloc(core, it->rec->n_providers, sizeof *task->grants);
        if (task->grants == NULL) {
            mr_task_free(task);
            return NULL;
        }
    }
    TAILQ_INSERT_TAIL(&it->tasks, task, in_iteration);
    TAILQ_INSERT_TAIL(&worker->tasks, task, in_worker);
    count_task(task, 1);
    core->tasks++;
    mr_core_index(core, &core->tasks_by_id, task->id, task);
    mr_iteration_note_task(core, task);
    if (it->rounds != NULL) {
        mr_iteration_mark(core, it); /* it is to take turns */
    }
    return task;
}

void mr_task_move(mr_core *core, struct mr_task *task, enum mr_task_state to)
{
    struct mr_iteration *it = task->iteration;

    MR_ASSERT(mr_task_may_become(task, to));
    count_task(task, -1);
    task->state = to;
    count_task(task, 1);
    if (to == MR_TASK_ENDED) {
        mr_grants_void(task); /* clients have returned all of it */
    }
    mr_iteration_note_task(core, task);
    mr_core_worker_note_dropped(core, task);
    mr_iteration_mark(core, it);
    if (it->rounds != NULL) {
        mr_rounds_note(core, it, false);
    }
    mr_core_trace(core, "task %s: %s", task->id,
                  task->drained ? "drained" : mr_task_state_name(to));
}

void mr_task_leave_grants(mr_core *core, struct mr_task *task)
{
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        if (task->grants[i].rec != NULL) {
            mr_leave_over(core, MR_STORED_GRANT, task, i);
            mr_record_free(task->grants[i].rec);
            task->grants[i].rec = NULL;
        }
    }
}

void mr_task_remove(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    if (task->state == MR_TASK_OPEN) {
        mr_core_worker_note_dropped(core, task);
    }
    mr_task_leave_grants(core, task);
    if (task->rec != NULL) {
        mr_leave_over(core, MR_STORED_TASK, task, 0);
    }
    count_task(task, -1);
    core->tasks--;
    mr_map_remove(&core->tasks_by_id, task->id);
    TAILQ_REMOVE(&it->tasks, task, in_iteration);
    TAILQ_REMOVE(&task->worker->tasks, task, in_worker);
    mr_task_free(task);
}

void mr_task_set_counted(struct mr_task *task)
{
    count_task(task, -1);
    task->counted = true;
    count_task(task, 1);
}

/* ---------------------------------------------------------------- recovery tasks */

void mr_apply_task_recovers(mr_core *core, const struct mr_task_recovers *u)
{
    const struct mr_task *derived = mr_task_derived(core, u->iteration, u->worker);
    Millrace__TaskRecord *rec;

    *u->ret = NULL;
    if (u->rec != NULL) {
        *u->ret = mr_task_add(core, u->iteration, u->worker, u->rec);
        return;
    }
    rec = MR_NEW_RECORD(core, task_record);
    if (rec == NULL) {
        return;
    }
    rec->recovery = ++u->iteration->rec->recoveries;
    rec->isolated = u->is_isolated;
    rec->behind = derived != NULL && derived->rec != NULL ? derived->rec->behind : 0;
    mr_touch(core, MR_STORED_ITERATION, u->iteration, 0);
    *u->ret = mr_task_add(core, u->iteration, u->worker, rec);
    if (*u->ret != NULL) {
        mr_core_worker_note_task(core, *u->ret);
        mr_touch(core, MR_STORED_TASK, *u->ret, 0);
    }
}

void mr_apply_task_joined_in(mr_core *core, const struct mr_task_joined_in *u)
{
    MR_ASSERT(u->task->rec->isolated);
    u->task->rec->isolated = false;
    mr_touch(core, MR_STORED_TASK, u->task, 0);
}

/* What @task has said of elements that nobody gets is with its iteration from now on; or, if others
 * may come to read there and say it again, with the task before it. */
static void hand_over_counts(mr_core *core, const struct mr_task *task)
{
    struct mr_task *before = mr_task_before(task);
    Millrace__IterationRecord *it = task->iteration->rec;

    if (before != NULL && before->rec != NULL) {
        before->rec->abandoned =
            MR_MAX(mr_task_said_abandoned(before), mr_task_said_abandoned(task));
        before->rec->skipped = MR_MAX(mr_task_said_skipped(before), mr_task_said_skipped(task));
        mr_touch(core, MR_STORED_TASK, before, 0);
    } else {
        it->abandoned = mr_count_add(it->abandoned, mr_task_abandoned(task));
        it->skipped = mr_count_add(it->skipped, mr_task_skipped(task));
    }
}

void mr_apply_task_retired(mr_core *core, const struct mr_task_retired *u)
{
    struct mr_task *task = u->task;

    MR_ASSERT(mr_task_is_recovery(task));
    MR_ASSERT(task->state != MR_TASK_OPEN);
    hand_over_counts(core, task);
    mr_touch(core, MR_STORED_ITERATION, task->iteration, 0);
    mr_delete(core, MR_STORED_TASK, task, 0);
    mr_record_free(task->rec);
    task->rec = NULL;
    mr_task_remove(core, task);
}

void mr_apply_task_counts_kept(mr_core *core, const struct mr_task_counts_kept *u)
{
    struct mr_task *task = u->task;

    MR_ASSERT(!mr_task_is_recovery(task));
    hand_over_counts(core, task);
    task->abandoned = 0;
    if (task->sharing != NULL) {
        task->sharing->skipped = 0;
    }
    if (task->rec != NULL) {
        task->rec->abandoned = task->rec->skipped = 0;
        mr_touch(core, MR_STORED_TASK, task, 0);
    }
    mr_touch(core, MR_STORED_ITERATION, task->iteration, 0);
}

/* ---------------------------------------------------------------- the end */

static bool give_record(mr_core *core, struct mr_task *task)
{
    if (task->rec == NULL) {
        task->rec = MR_NEW_RECORD(core, task_record);
    }
    return task->rec != NULL;
}

void mr_apply_task_ended(mr_core *core, const struct mr_task_ended *u)
{
    const Millrace__TaskEndedRequest *in = u->request;
    struct mr_task *task = u->task;

    if (!give_record(core, task)) {
        return;
    }
    task->drained = in->drained && u->code >= 0;
    task->rec->ended = true;
    task->rec->drained = task->drained;
    task->rec->code = u->code;
    task->rec->skipped = task->iteration->uses != NULL ? mr_count_add(in->skipped, 0) : 0;
    task->rec->abandoned = mr_count_add(in->abandoned, 0);
    mr_core_set_line(core, &task->rec->message, in->message);
    mr_task_move(core, task, MR_TASK_ENDED);
    mr_touch(core, MR_STORED_TASK, task, 0);
}

void mr_apply_task_closed(mr_core *core, const struct mr_task_closed *u)
{
    struct mr_task *task = u->task;
    const struct mr_task *producing = mr_task_producing(core, task);
    bool recovers = mr_task_is_recovery(task); /* its record goes when its loss is counted */
    struct mr_task *derived =
        recovers ? mr_task_derived(core, task->iteration, task->worker) : task;

    if (!recovers) {
        if (!give_record(core, task)) {
            return;
        }
        task->rec->lost = true;
        task->rec->abandoned = mr_task_said_abandoned(task); /* nobody says it to the next leader */
        task->rec->skipped = mr_task_said_skipped(task);
        mr_touch(core, MR_STORED_TASK, task, 0);
    }
    mr_task_move(core, task, MR_TASK_LOST);
    if (producing != NULL && derived != NULL && derived->rec != NULL) {
        derived->rec->behind = mr_task_granted(producing);
        mr_touch(core, MR_STORED_TASK, derived, 0);
    }
}

/* ---------------------------------------------------------------- what workers say */

void mr_apply_task_barren(mr_core *core, const struct mr_task_barren *u)
{
    u->task->barren = u->is_barren;
}

static void note_join(mr_core *core, struct mr_task *task, const Millrace__JoinAnswer *join)
{
    struct mr_sharing_report *report = task->sharing;

    mr_record_free(report->join);
    report->join = mr_core_copy(core, &join->base);
    if (report->join != NULL) {
        mr_core_set_line(core, &report->join->refused, join->refused);
        mr_iteration_mark(core, task->iteration);
    }
}

static void note_window(mr_core *core, struct mr_sharing_report *report,
                        const Millrace__WindowProgress *window)
{
    mr_record_free(report->window);
    report->window = mr_core_copy(core, &window->base);
    if (report->window != NULL) {
        mr_core_set_line(core, &report->window->degraded, window->degraded);
    }
}

/* Of a task that makes or reads a production. */
static void note_sharing(mr_core *core, struct mr_task *task,
                         const Millrace__TaskProgress *progress)
{
    const struct mr_iteration *it = task->iteration;

    if (task->sharing == NULL) {
        task->sharing = mr_core_alloc(core, 1, sizeof *task->sharing);
    }
    if (task->sharing == NULL) {
        return;
    }
    task->sharing->skipped = progress->skipped;
    if (it->rec->joining && progress->join != NULL) {
        note_join(core, task, progress->join);
    }
    if (it->makes != NULL && progress->window != NULL) {
        note_window(core, task->sharing, progress->window);
    }
}

void mr_apply_task_reported(mr_core *core, const struct mr_task_reported *u)
{
    const Millrace__TaskProgress *progress = u->progress;
    int64_t timeout_ms = core->config.task_timeout_ms;
    struct mr_task *task = u->task;

    if (!u->is_waited_for || task->state != MR_TASK_OPEN) {
        task->waited_for = MR_NEVER;
    } else if (task->waited_for == MR_NEVER || task->produced != progress->produced) {
        task->waited_for = core->now;
    }
    task->produced = progress->produced;
    task->delivered = progress->delivered;
    task->abandoned = progress->abandoned;
    task->finished = progress->finished;
    if (timeout_ms > 0 && task->waited_for != MR_NEVER) {
        mr_alarm_by(core, &task->iteration->alarm, mr_time_add(task->waited_for, timeout_ms));
    }
    if (task->state == MR_TASK_OPEN &&
        (task->iteration->uses != NULL || task->iteration->makes != NULL)) {
        note_sharing(core, task, progress);
    }
}
