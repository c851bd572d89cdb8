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
/*
 * Workers that go on purpose, and what they give back.
 *
 *     alive ──(it says so)──► draining ──(it leaves, or falls silent)──► lost
 *
 * One that drains keeps the tasks it has and gets no others: iterations that are created later have
 * none on it, which is a comparison of stamps as for the lost; no recovery task is opened there,
 * and it is no sharer of what is left. Of each of its tasks it gives back the splits that it has
 * not opened. They were never begun, so they are neither lost nor repeated, whatever the guarantee:
 * they wait in a list of the cursor and go to whoever asks next, or to a recovery task if nobody
 * will.
 *
 * What comes back with a crash behind it (at least once, recovery.c) goes back to the pool it was
 * taken from instead: that it was not opened this time does not make it less of a suspect.
 *
 * The end of a task that drained says nothing about the pipeline: an iteration does not finish by
 * it.
 */
#include "dispatcher/model/model.h"

#include <stdio.h>

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

/* Deleted are first its grants, then its own record, then what became of its tasks: whatever has a
 * grant and no life was not forgotten like this (revive.c), and whatever has a life still has the
 * end of its tasks. */
void mr_core_worker_forget(mr_core *core, struct mr_core_worker *worker)
{
    struct mr_task *task;

    MR_ASSERT(!mr_core_worker_is_live(worker));
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
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
    core->lives--;
    mr_core_worker_free(worker);
}
