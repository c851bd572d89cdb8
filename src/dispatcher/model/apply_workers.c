/*
 * Updates of workers, by life: from the moment that a process has registered and watches until it
 * is silent for too long or superseded by another process at its address. One record a life,
 * written at both ends and never by a heartbeat. A process that was lost and comes back begins
 * another life under the same incarnation, with fresh tasks, since its old ones were given up.
 *
 * A life is named by the stamp of its registration, which is never given again: the record of the
 * life before may be gone by then (retention, somebody's hand), and the process may still have the
 * tasks of that life. The number of a life is for people.
 */
#include "dispatcher/model/apply.h"

/* ---------------------------------------------------------------- newcomers */

/* Its record is the caller's from now on. */
static Millrace__WorkerRecord *take_newcomer(mr_core *core, struct mr_newcomer *one)
{
    Millrace__WorkerRecord *rec = one->rec;

    TAILQ_REMOVE(&core->newcomers, one, link);
    core->nnewcomers--;
    mr_free(one);
    return rec;
}

void mr_newcomers_free(mr_core *core)
{
    while (!TAILQ_EMPTY(&core->newcomers)) {
        mr_record_free(take_newcomer(core, TAILQ_FIRST(&core->newcomers)));
    }
}

static void set_tags(mr_core *core, Millrace__WorkerRecord *rec,
                     const Millrace__RegisterWorkerRequest *in)
{
    for (size_t i = 0; i < in->n_tags; i++) {
        mr_core_append_string(core, &rec->tags, &rec->n_tags, in->tags[i]);
    }
}

/* What it says now counts, whatever it said before. Whoever registers and does not watch is pushed
 * out by others. */
void mr_apply_newcomer_noted(mr_core *core, const struct mr_newcomer_noted *u)
{
    const Millrace__RegisterWorkerRequest *in = u->request;
    struct mr_newcomer *before = mr_newcomer_find(core, in->incarnation);
    struct mr_newcomer *one = mr_core_alloc(core, 1, sizeof *one);

    if (before == NULL && core->nnewcomers >= MR_NEWCOMERS_MAX) {
        before = TAILQ_FIRST(&core->newcomers);
    }
    if (before != NULL) {
        mr_record_free(take_newcomer(core, before));
    }
    if (one == NULL) {
        return;
    }
    one->rec = MR_NEW_RECORD(core, worker_record);
    if (one->rec == NULL) {
        mr_free(one);
        return;
    }
    mr_core_set(core, &one->rec->incarnation, in->incarnation);
    mr_core_set(core, &one->rec->address, in->address);
    mr_core_set(core, &one->rec->version, in->header != NULL ? in->header->version : "");
    set_tags(core, one->rec, in);
    TAILQ_INSERT_TAIL(&core->newcomers, one, link);
    core->nnewcomers++;
}

/* ---------------------------------------------------------------- a life */

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

static struct mr_core_worker *add_worker(mr_core *core, Millrace__WorkerRecord *rec,
                                         const char *ref, mr_error *err)
{
    struct mr_core_worker *worker = mr_core_alloc(core, 1, sizeof *worker);

    if (worker == NULL) {
        mr_record_free(rec);
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
    core->nworkers++;
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

void mr_apply_worker_added(mr_core *core, const struct mr_worker_added *u)
{
    *u->ret = add_worker(core, u->rec, u->ref, u->err);
}

void mr_apply_worker_seen(mr_core *core, const struct mr_worker_seen *u)
{
    int64_t deadline = mr_time_add(core->now, core->config.worker_timeout_ms);
    struct mr_core_worker *worker = u->worker;

    worker->seen = core->now;
    worker->awaited = worker->awaited && !u->is_watch;
    if (deadline > worker->deadline || worker->deadline == MR_NEVER) {
        worker->deadline = deadline;
        mr_alarm_by(core, &worker->alarm, deadline);
    }
}

void mr_apply_worker_arrived(mr_core *core, const struct mr_worker_arrived *u)
{
    Millrace__WorkerRecord *rec = take_newcomer(core, u->newcomer);
    const struct mr_core_worker *last = mr_map_get(&core->workers, rec->incarnation);
    char ref[MR_WORKER_REF_SIZE];
    struct mr_iteration *it;
    mr_error err;

    *u->ret = NULL;
    mr_core_set_stamp(core, &rec->registered, mr_core_stamp(core));
    rec->life = last != NULL ? last->rec->life + 1 : 1;
    rec->registered_ms = (uint64_t)core->wall_ms;
    if (core->failed != 0) {
        mr_record_free(rec);
        return;
    }
    snprintf(ref, sizeof ref, "%s.%s", rec->incarnation, rec->registered);
    *u->ret = add_worker(core, rec, ref, &err);
    if (*u->ret == NULL) {
        return;
    }
    mr_apply_worker_seen(core, &(struct mr_worker_seen){*u->ret, false});
    mr_touch(core, MR_STORED_WORKER, *u->ret, 0);
    TAILQ_FOREACH(it, &core->iteration_list, link) {
        if (!it->rec->finished) {
            mr_task_add(core, it, *u->ret, NULL);
        }
    }
}

void mr_apply_worker_cache(mr_core *core, const struct mr_worker_cache *u)
{
    struct mr_core_worker *worker = u->worker;

    mr_record_free(worker->cache);
    worker->cache = mr_core_copy(core, &u->cache->base);
    if (worker->cache != NULL) {
        mr_core_set_line(core, &worker->cache->degraded, u->cache->degraded);
    }
}

void mr_apply_worker_drains(mr_core *core, const struct mr_worker_drains *u)
{
    struct mr_core_worker *worker = u->worker;
    const struct mr_task *task;

    MR_ASSERT(mr_core_worker_is_live(worker) && !mr_core_worker_is_draining(worker));
    worker->draining = mr_core_stamp(core);
    mr_core_set_stamp(core, &worker->rec->draining, worker->draining);
    mr_touch(core, MR_STORED_WORKER, worker, 0);
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        task->iteration->draining_tasks += task->state == MR_TASK_OPEN ? 1 : 0;
    }
}

void mr_apply_worker_lost(mr_core *core, const struct mr_worker_lost *u)
{
    struct mr_core_worker *worker = u->worker;
    struct mr_task *task;

    MR_ASSERT(mr_core_worker_is_live(worker));
    worker->lost = mr_core_stamp(core);
    worker->lost_at = core->now;
    mr_alarm_by(core, &worker->alarm, core->now);
    mr_core_set_stamp(core, &worker->rec->lost, worker->lost);
    worker->rec->superseded = u->why == MR_LOSS_SUPERSEDED;
    worker->rec->left = u->why == MR_LOSS_LEFT;
    worker->rec->lost_ms = (uint64_t)core->wall_ms;
    mr_touch(core, MR_STORED_WORKER, worker, 0);
    core->live_workers--;
    mr_map_remove(&core->workers_by_address, worker->rec->address);
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        if (task->state == MR_TASK_OPEN) {
            mr_task_move(core, task, MR_TASK_LOST);
        }
    }
}

/* Deleted are first its grants, then its own record, then what became of its tasks: whatever has a
 * grant and no life was not forgotten like this (set_aside.c), and whatever has a life still has
 * the end of its tasks. */
void mr_apply_worker_removed(mr_core *core, const struct mr_worker_removed *u)
{
    struct mr_core_worker *worker = u->worker;
    struct mr_task *task;

    MR_ASSERT(!mr_core_worker_is_live(worker));
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        mr_task_leave_grants(core, task);
    }
    mr_leave_over(core, MR_STORED_WORKER, worker, 0);
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
    core->nworkers--;
    mr_core_worker_free(worker);
}

/* ---------------------------------------------------------------- takeover */

void mr_apply_worker_revived(mr_core *core, const struct mr_worker_revived *u)
{
    u->worker->is_revived = true;
    u->worker->absent = u->is_absent;
    core->revived++;
    core->absent += u->is_absent ? 1 : 0;
}

void mr_apply_worker_revival_written(mr_core *core, const struct mr_worker_revival_written *u)
{
    struct mr_core_worker *worker = u->worker;

    worker->rec->lost_ms = (uint64_t)core->wall_ms;
    core->absent -= worker->absent ? 1 : 0;
    core->revived--;
    worker->absent = false;
    worker->is_revived = false;
    mr_touch(core, MR_STORED_WORKER, worker, 0);
}
