/*
 * What time does: workers and clients that fell silent, iterations nobody reads, records nobody
 * needs, and the work that earlier steps left for later. Whatever waits for a moment has an alarm;
 * a step rings those that are due as far as one transaction goes, and what does not fit comes in
 * the next, which is due at once. While the store is full only what deletes is done. Nothing in
 * here walks over all objects of a kind, except over the workers when one of them is to be given
 * up.
 */
#include "dispatcher/rules/rules.h"

/* What a takeover decided about records that are bad or gone is written by the first steps, before
 * anything is counted that rests on it. */
static void write_revived(mr_core *core)
{
    struct mr_core_worker *worker;

    TAILQ_FOREACH(worker, &core->worker_list, link) {
        if (core->revived == 0 || core->full || !mr_core_has_room(core, 1)) {
            return;
        }
        if (worker->is_revived) {
            MR_APPLY(core, worker_revival_written, worker);
        }
    }
}

/* With the job, which notes what has ended. */
#define WRITE_CHANGES 2

static bool write_spoiled(mr_core *core)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &core->iteration_list, link) {
        if (core->spoiled == 0 || core->full || !mr_core_has_room(core, WRITE_CHANGES)) {
            break;
        }
        if (it->broken != NULL) {
            MR_APPLY(core, iteration_break_written, it);
        }
    }
    return core->spoiled == 0;
}

/* Alarms that ring in one step, so that messages need not wait for many that change nothing. */
#define RINGS_MAX 1000
/* Until a lost worker that iterations still need is looked at again. */
#define WORKER_AGAIN_MS (60 * 1000)
/* While the store is full: until what would write is tried again. */
#define FULL_AGAIN_MS 1000

/* Silent for half its time already: heartbeats are missing. */
static bool is_quiet(const mr_core *core, const struct mr_core_worker *worker)
{
    return mr_core_worker_is_live(worker) &&
           worker->deadline - core->config.worker_timeout_ms / 2 <= core->now;
}

/* The brake: when many seem to be gone at once it is rather this dispatcher that heard nothing (it
 * was paused, or cut off). Nobody is given up then for one more full timeout. If that changes
 * nothing, somebody else should judge, once; and if there is nobody, or the loop has had enough of
 * it, it is true. Quiet workers count as silent: those that went together are not silent in the
 * same millisecond. */
static bool is_paused(mr_core *core)
{
    size_t limit = MR_MAX(core->live_workers / 3, 2);
    const struct mr_core_worker *worker;
    size_t quiet = 0;

    if (core->loss_pause == MR_LOSS_PAUSE_ON && core->now < core->loss_pause_until) {
        return true;
    }
    TAILQ_FOREACH(worker, &core->worker_list, link) {
        quiet += is_quiet(core, worker) ? 1 : 0;
    }
    if (quiet <= limit) {
        core->loss_pause = MR_LOSS_PAUSE_OFF;
        return false;
    }
    if (core->loss_pause == MR_LOSS_PAUSE_OFF) {
        core->loss_pause = MR_LOSS_PAUSE_ON;
        core->loss_pause_until = mr_time_add(core->now, core->config.worker_timeout_ms);
        mr_core_note_loss(core, "%zu of %zu workers are silent: one more grace", quiet,
                          core->live_workers);
        return true;
    }
    if (core->loss_pause == MR_LOSS_PAUSE_ON && core->config.may_resign) {
        core->config.may_resign = false; /* once: if nobody takes over, the next time it is true */
        core->loss_pause_until = mr_time_add(core->now, core->config.worker_timeout_ms);
        mr_core_note_loss(core, "%zu of %zu workers are silent: another dispatcher may judge",
                          quiet, core->live_workers);
        mr_core_resign(core);
        return true;
    }
    core->loss_pause = MR_LOSS_PAUSE_SPENT;
    return false;
}

/* Its iteration counts what it said of elements from now on. False: there is no room. */
static bool keep_counts(mr_core *core, struct mr_task *task)
{
    if (mr_task_abandoned(task) == 0 && mr_task_skipped(task) == 0) {
        return true;
    }
    if (core->full || !mr_core_has_room(core, 2)) {
        return false;
    }
    MR_APPLY(core, task_counts_kept, task);
    return true;
}

/* Its loss is counted everywhere, and no iteration needs its tasks to know that something ended, or
 * what went with them: from now on the iterations know it themselves. */
static bool is_forgettable(mr_core *core, const struct mr_core_worker *worker)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        struct mr_iteration *it = task->iteration;

        bool is_noted = task->state == MR_TASK_ENDED ? it->rec->pipeline_ended : task->counted;

        if (!is_noted &&
            (task->state != MR_TASK_ENDED || core->full || !mr_core_has_room(core, 2))) {
            return false;
        }
        if (!is_noted) {
            MR_APPLY(core, pipeline_ended, it);
        }
        if (!keep_counts(core, task)) {
            return false;
        }
    }
    return true;
}

static void ring_lost_worker(mr_core *core, struct mr_core_worker *worker)
{
    int64_t left = mr_retention_left(core, worker->lost_at, worker->rec->lost_ms,
                                     core->config.worker_retention_ms);

    if (left > 0) {
        mr_alarm_at(core, &worker->alarm, mr_retention_again(core, left));
    } else if (is_forgettable(core, worker)) {
        MR_APPLY(core, worker_removed, worker);
    } else {
        mr_alarm_at(core, &worker->alarm, mr_time_add(core->now, WORKER_AGAIN_MS));
    }
}

#define OWNER(alarm, type) ((type *)(void *)((char *)(alarm)-offsetof(type, alarm)))

static bool ring_worker(mr_core *core, struct mr_alarm *alarm)
{
    struct mr_core_worker *worker = OWNER(alarm, struct mr_core_worker);
    if (!mr_core_worker_is_live(worker)) {
        ring_lost_worker(core, worker);
    } else if (worker->deadline > core->now) {
        mr_alarm_at(core, &worker->alarm, worker->deadline);
    } else if (core->full) {
        mr_alarm_at(core, &worker->alarm, mr_time_add(core->now, FULL_AGAIN_MS));
    } else if (is_paused(core)) {
        mr_alarm_at(core, &worker->alarm, core->loss_pause_until);
    } else {
        mr_core_worker_lose(core, worker, MR_LOSS_SILENT);
        ring_lost_worker(core, worker);
    }
    return true;
}

static bool ring_client(mr_core *core, struct mr_alarm *alarm)
{
    struct mr_client *client = OWNER(alarm, struct mr_client);
    bool live = client->iteration != NULL && !client->rec->released;

    if (live && client->deadline > core->now) {
        mr_alarm_at(core, &client->alarm, client->deadline);
        return true;
    }
    if (live && core->full) {
        mr_alarm_at(core, &client->alarm, mr_time_add(core->now, FULL_AGAIN_MS));
        return true;
    }
    if (live) {
        mr_client_release(core, client, false /* by_itself */);
    }
    int64_t left = mr_retention_left(core, client->since, client->rec->released_ms,
                                     core->config.client_retention_ms);

    if (left > 0) {
        mr_alarm_at(core, &client->alarm, mr_retention_again(core, left));
    } else {
        MR_APPLY(core, client_removed, client);
    }
    return true;
}

static bool is_dynamic(const struct mr_iteration *it)
{
    return it->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
}

static bool has_gone_on(const struct mr_iteration *it)
{
    const struct mr_iteration *other;

    TAILQ_FOREACH(other, &it->job->iterations, in_job) {
        if (other->rec->repetition > it->rec->repetition) {
            return true;
        }
    }
    return mr_job_ends_at(it->job) > it->rec->repetition;
}

/* Its job has more finished ones than are kept, and it is the oldest of them. */
static bool is_superfluous(const struct mr_iteration *it)
{
    const struct mr_iteration *oldest = TAILQ_FIRST(&it->job->iterations);

    while (oldest != NULL && (!oldest->rec->finished || oldest->live_clients > 0)) {
        oldest = TAILQ_NEXT(oldest, in_job);
    }
    return it->job->nfinished > MR_FINISHED_KEPT_MAX && it == oldest;
}

/* Until it may go; MR_NEVER: something else has to happen first, which will ring its alarm. */
static int64_t iteration_left(const mr_core *core, const struct mr_iteration *it)
{
    if (it->live_clients > 0) {
        return MR_NEVER;
    }
    if (it->rec->finished) {
        return is_superfluous(it) ? 0
                                  : mr_retention_left(core, it->since, it->rec->finished_ms,
                                                      core->config.finished_retention_ms);
    }
    if (is_dynamic(it) && !core->config.gc_dynamic && !has_gone_on(it)) {
        return MR_NEVER;
    }
    return mr_retention_left(core, it->since, it->rec->unread_ms, core->config.job_gc_timeout_ms);
}

static void end_of_iteration(mr_core *core, struct mr_iteration *it)
{
    if (it->rec->finished) {
        mr_core_trace(core, "iteration %s: forgotten", it->rec->id);
        MR_APPLY(core, iteration_removed, it, false /* with_owner */);
    } else if (is_dynamic(it) || has_gone_on(it)) {
        mr_iteration_collect(core, it);
    } else {
        mr_core_trace(core, "iteration %s: collected", it->rec->id);
        MR_APPLY(core, iteration_removed, it, false /* with_owner */);
    }
}

static bool ring_iteration(mr_core *core, struct mr_alarm *alarm)
{
    struct mr_iteration *it = OWNER(alarm, struct mr_iteration);
    int64_t report, left;

    if (it->job == NULL) { /* it goes with its production */
        mr_alarm_off(core, &it->alarm);
        return true;
    }
    if (!mr_core_has_room(core, 1 + mr_iteration_review_changes(it)) ||
        !mr_iteration_close_tasks(core, it, &report)) {
        return false;
    }
    left = iteration_left(core, it);
    if (left <= 0 && core->full && !it->rec->finished) {
        left = FULL_AGAIN_MS;
    }
    if (left <= 0) {
        end_of_iteration(core, it);
        return true;
    }
    int64_t again = left != MR_NEVER ? mr_retention_again(core, left) : MR_NEVER;

    if (mr_join_due(it) <= core->now) {
        mr_iteration_mark(core, it);
    } else {
        again = MR_MIN(mr_join_due(it), again);
    }
    mr_alarm_at(core, &it->alarm, MR_MIN(report, again));
    return true;
}

static bool ring_job(mr_core *core, struct mr_alarm *alarm)
{
    struct mr_job *job = OWNER(alarm, struct mr_job);
    int64_t keep =
        mr_job_is_anonymous(job) ? core->config.job_gc_timeout_ms : core->config.job_retention_ms;

    mr_alarm_off(core, &job->alarm);
    if (!mr_job_is_idle(job)) {
        return true; /* its last client rings it */
    }
    if (job->rec->released_ms == 0 && core->full) {
        mr_alarm_at(core, &job->alarm, mr_time_add(core->now, FULL_AGAIN_MS));
        return true;
    }
    if (job->rec->released_ms == 0) { /* nobody wrote down when: it is now */
        MR_APPLY(core, job_idle, job);
    }
    int64_t left = mr_retention_left(core, job->idle_since, job->rec->released_ms, keep);

    if (left > 0) {
        mr_alarm_at(core, &job->alarm, mr_retention_again(core, left));
    } else {
        MR_APPLY(core, job_removed, job);
    }
    return true;
}

static bool ring_dataset(mr_core *core, struct mr_alarm *alarm)
{
    struct mr_dataset_entry *dataset = OWNER(alarm, struct mr_dataset_entry);
    int64_t keep = core->config.dataset_retention_ms;
    int64_t left;

    mr_alarm_off(core, &dataset->alarm);
    if (dataset->jobs > 0 || dataset->productions > 0 || mr_dataset_is_named(dataset)) {
        return true; /* its last user rings it */
    }
    left = mr_retention_left(core, dataset->since, dataset->rec->used_ms, keep);
    left = core->keeps ? MR_WALL_AGAIN_MS : left; /* a job that is set aside may be of it */
    if (left > 0) {
        mr_alarm_at(core, &dataset->alarm, mr_retention_again(core, left));
    } else {
        MR_APPLY(core, dataset_removed, dataset);
    }
    return true;
}

static bool ring_production(mr_core *core, struct mr_alarm *alarm)
{
    struct mr_production *p = OWNER(alarm, struct mr_production);
    mr_alarm_off(core, &p->alarm);
    if (mr_production_is_over(p)) {
        MR_APPLY(core, production_removed, p);
    } else if (p->is_behind && !core->full) {
        MR_APPLY(core, production_listed, p);
    } else if (p->is_behind) {
        mr_alarm_at(core, &p->alarm, mr_time_add(core->now, FULL_AGAIN_MS));
    }
    return true;
}

/* What rings, and how many keys that changes at most. An iteration counts them itself. */
static const struct {
    bool (*ring)(mr_core *core, struct mr_alarm *alarm); /* false: there is no room */
    size_t changes;
} rings[] = {
    [MR_ALARM_WORKER] = {ring_worker, 1},    [MR_ALARM_CLIENT] = {ring_client, 3},
    [MR_ALARM_ITERATION] = {ring_iteration}, [MR_ALARM_JOB] = {ring_job, 2},
    [MR_ALARM_DATASET] = {ring_dataset, 1},  [MR_ALARM_PRODUCTION] = {ring_production, 2},
};

static bool ring(mr_core *core, struct mr_alarm *alarm)
{
    size_t changes = rings[alarm->kind].changes;

    return (changes == 0 || mr_core_has_room(core, changes)) &&
           rings[alarm->kind].ring(core, alarm);
}

static void review_marked(mr_core *core)
{
    struct mr_iteration *it;

    while (!core->full && (it = TAILQ_FIRST(&core->marked)) != NULL &&
           mr_core_has_room(core, mr_iteration_review_changes(it))) {
        mr_iteration_review(core, it);
    }
}

static void sweep(mr_core *core)
{
    struct mr_left_over *left;

    while ((left = STAILQ_FIRST(&core->left_over)) != NULL && mr_core_has_room(core, 1)) {
        STAILQ_REMOVE_HEAD(&core->left_over, link);
        if (!mr_left_over_is_in_use(core, left->key)) {
            mr_delete_key(core, left->key);
        }
        mr_free(left);
    }
}

int mr_core_do_timer(mr_core *core, const struct mr_command *command, mr_error *err)
{
    bool written = write_spoiled(core);
    struct mr_alarm *alarm;

    write_revived(core); /* where that finds no room, nothing is reviewed either */
    review_marked(core);
    for (int i = 0; i < RINGS_MAX && core->failed == 0; i++) {
        alarm = mr_alarm_first(core);
        if (alarm == NULL || alarm->due > core->now || !ring(core, alarm)) {
            break;
        }
    }
    review_marked(core);
    if (written) {
        sweep(core);
    }
    return MR_OK;
}
