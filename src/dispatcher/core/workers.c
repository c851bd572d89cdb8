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
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool mr_core_worker_is_live(const struct mr_core_worker *worker)
{
    return !mr_stamp_is_set(worker->lost);
}

bool mr_core_worker_is_missing(const struct mr_core_worker *worker)
{
    return !mr_core_worker_is_live(worker) && !worker->rec->left && !worker->rec->superseded;
}

struct mr_core_worker *mr_core_worker_live(const mr_core *core, const char *incarnation)
{
    struct mr_core_worker *worker = mr_map_get(&core->workers, incarnation);

    return worker != NULL && mr_core_worker_is_live(worker) ? worker : NULL;
}

void mr_core_worker_free(struct mr_core_worker *worker)
{
    if (worker != NULL) {
        mr_record_free(worker->rec);
        mr_record_free(worker->delta);
        mr_record_free(worker->cache);
        mr_share_give(worker->share, 1);
        mr_free(worker);
    }
}

void mr_core_worker_put(mr_core *core, const struct mr_core_worker *worker)
{
    char key[MR_KEY_SIZE];

    snprintf(key, sizeof key, "workers/%s", worker->ref);
    mr_core_put(core, key, &worker->rec->base);
}

struct mr_core_worker *mr_core_worker_add(mr_core *core, Millrace__WorkerRecord *rec,
                                          const char *ref, mr_error *err)
{
    struct mr_core_worker *worker = mr_calloc(1, sizeof *worker);

    if (worker == NULL) {
        mr_record_free(rec);
        mr_core_nomem(core);
        mr_error_nomem(err);
        return NULL;
    }
    TAILQ_INIT(&worker->tasks);
    worker->rec = rec;
    worker->alarm.kind = MR_ALARM_WORKER;
    worker->deadline = MR_NEVER;
    worker->version = ++core->versions;
    if (!mr_id_is_valid(rec->incarnation) || rec->life == 0 ||
        !mr_stamp_parse_given(core, rec->registered, &worker->registered) ||
        (rec->lost[0] != '\0' && !mr_stamp_parse_given(core, rec->lost, &worker->lost)) ||
        (rec->draining[0] != '\0' &&
         !mr_stamp_parse_given(core, rec->draining, &worker->draining))) {
        mr_error_set(err, MR_EDATALOSS,
                     "worker '%.40s', life %u: registered '%.40s', draining '%.40s', lost '%.40s'",
                     rec->incarnation, rec->life, rec->registered, rec->draining, rec->lost);
        mr_core_worker_free(worker);
        return NULL;
    }
    snprintf(worker->ref, sizeof worker->ref, "%s", ref);
    TAILQ_INSERT_TAIL(&core->worker_list, worker, link);
    core->lives++;
    mr_core_index(core, &core->workers_by_ref, worker->ref, worker);
    worker->share = mr_hosts_note(core, &core->hosts.workers);

    const struct mr_core_worker *newest = mr_map_get(&core->workers, rec->incarnation);

    if (newest == NULL || mr_stamp_compare(newest->registered, worker->registered) < 0) {
        mr_core_index(core, &core->workers, rec->incarnation, worker);
    }
    if (mr_core_worker_is_live(worker)) {
        core->live_workers++;
        mr_core_index(core, &core->workers_by_address, rec->address, worker);
    }
    return worker;
}

void mr_core_worker_seen(mr_core *core, struct mr_core_worker *worker)
{
    int64_t deadline = mr_time_add(core->now, core->config.worker_timeout_ms);

    worker->seen = core->now;
    if (deadline > worker->deadline || worker->deadline == MR_NEVER) {
        worker->deadline = deadline;
        mr_alarm_by(core, &worker->alarm, deadline);
    }
}

bool mr_core_worker_is_unheard(const mr_core *core, const struct mr_core_worker *worker)
{
    return mr_time_add(worker->seen, core->config.worker_timeout_ms / 2) <= core->now;
}

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
    mr_core_worker_put(core, worker);
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

/* Deleted are first its grants, then its own record, then what became of its tasks: whatever has a
 * grant and no life was not forgotten like this (revive.c), and whatever has a life still has the
 * end of its tasks. */
void mr_core_worker_forget(mr_core *core, struct mr_core_worker *worker)
{
    struct mr_task *task;
    char key[MR_KEY_SIZE];

    MR_ASSERT(!mr_core_worker_is_live(worker));
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        mr_task_leave_grants(core, task);
    }
    snprintf(key, sizeof key, "workers/%s", worker->ref);
    mr_core_leave_over(core, key);
    while (!TAILQ_EMPTY(&worker->tasks)) {
        mr_task_remove(core, TAILQ_FIRST(&worker->tasks));
    }
    mr_core_worker_untouch(core, worker);
    mr_map_remove(&core->workers_by_ref, worker->ref);
    if (mr_map_get(&core->workers, worker->rec->incarnation) == worker) {
        mr_map_remove(&core->workers, worker->rec->incarnation);
    }
    mr_alarm_off(core, &worker->alarm);
    TAILQ_REMOVE(&core->worker_list, worker, link);
    core->lives--;
    mr_core_worker_free(worker);
}

/* ---------------------------------------------------------------- afterwards */

static void refuse_unknown(mr_core *core, const ProtobufCMessageDescriptor *desc,
                           const char *incarnation)
{
    const struct mr_core_worker *last = mr_map_get(&core->workers, incarnation);
    mr_error err;

    if (last != NULL && last->rec->superseded) {
        mr_error_set(&err, MR_EPRECOND, "superseded: another process registered at %s",
                     last->rec->address);
    } else {
        mr_error_set(&err, MR_ENOTFOUND, "worker %.8s is not registered%s", incarnation,
                     last != NULL ? ": it was lost" : "");
    }
    mr_core_refuse(core, desc, &err);
}

void mr_core_do_watch_worker(mr_core *core, const Millrace__WatchWorkerRequest *in, bool watches)
{
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);
    mr_error err;

    if (worker == NULL) {
        worker = mr_core_worker_arrive(core, in->incarnation, watches, &err);
    }
    if (worker == NULL && err.code == MR_ENOTFOUND) {
        refuse_unknown(core, &millrace__worker_update__descriptor, in->incarnation);
        return;
    }
    if (worker == NULL) {
        mr_core_refuse(core, &millrace__worker_update__descriptor, &err);
        return;
    }
    mr_core_worker_seen(core, worker);
    worker->awaited = false;
    Millrace__WorkerUpdate *update =
        mr_core_reply(core, &millrace__worker_update__descriptor, true /* fenced */);

    if (update != NULL) {
        mr_core_worker_update_fill(core, worker, update);
    }
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

static void note_cache(mr_core *core, struct mr_core_worker *worker,
                       const Millrace__CacheProgress *cache)
{
    char line[MR_ERROR_MESSAGE_SIZE];

    if (worker->cache == NULL) {
        worker->cache = mr_core_new_record(core, &millrace__cache_progress__descriptor);
    }
    if (worker->cache != NULL) {
        worker->cache->bytes = cache->bytes;
        worker->cache->bytes_max = cache->bytes_max;
        worker->cache->failures = cache->failures;
        mr_line_copy(cache->degraded, line, sizeof line);
        mr_core_set(core, &worker->cache->degraded, line);
    }
}

void mr_core_do_worker_heartbeat(mr_core *core, const Millrace__WorkerHeartbeatRequest *in)
{
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);

    if (worker == NULL) {
        refuse_unknown(core, &millrace__worker_heartbeat_reply__descriptor, in->incarnation);
        return;
    }
    mr_core_worker_seen(core, worker);
    if (in->cache != NULL) {
        note_cache(core, worker, in->cache);
    }
    for (size_t i = 0; i < in->n_tasks; i++) {
        struct mr_task *task = mr_task_find(core, in->tasks[i]->task_id);

        if (task != NULL && task->worker == worker) {
            mr_task_note_progress(core, task, in->tasks[i]);
            mr_join_note(core, task, in->tasks[i]);
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
        mr_core_reply(core, &millrace__worker_heartbeat_reply__descriptor,
                      in->leaving /* else a positive refresh */);

    if (reply != NULL) {
        reply->version = worker->version;
    }
}
