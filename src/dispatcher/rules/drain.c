/*
 * Workers that go on purpose, and what they give back.
 *
 *     alive ──(it says so)──► draining ──(it leaves, or falls silent)──► lost
 *       ╰─(DrainWorker: somebody wants it; the answers to its heartbeats say so until it says it)
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
#include "dispatcher/rules/rules.h"

void mr_core_worker_note_draining(mr_core *core, struct mr_core_worker *worker)
{
    struct mr_task *task;

    if (mr_core_worker_is_draining(worker)) {
        return;
    }
    MR_APPLY(core, feature_used, MR_FEATURE_DRAINING);
    MR_APPLY(core, worker_drains, worker);
    mr_core_note(core, "worker %.8s.%u at %s: drains", worker->rec->incarnation, worker->rec->life,
                 worker->rec->address);
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        if (task->state == MR_TASK_OPEN) {
            mr_iteration_look_again(core, task->iteration); /* it will not ask for what waits */
        }
    }
}

#define ID_DIGITS_MIN 8 /* as many as people are shown */

/* By its address, or by the beginning of its incarnation. */
static int find_meant(const mr_core *core, const char *name, struct mr_core_worker **ret,
                      mr_error *err)
{
    struct mr_core_worker *there = mr_map_get(&core->workers_by_address, name);
    struct mr_core_worker *worker;
    size_t n = strlen(name), found = 0;

    TAILQ_FOREACH(worker, &core->worker_list, link) {
        if (there == NULL && n >= ID_DIGITS_MIN && mr_core_worker_is_live(worker) &&
            strncmp(worker->rec->incarnation, name, n) == 0) {
            found++;
            *ret = worker;
        }
    }
    if (there == NULL && found == 0) {
        return mr_error_set(err, MR_ENOTFOUND, "there is no live worker '%s'", MR_SHOWN(name));
    }
    if (found > 1) {
        return mr_error_set(err, MR_EPRECOND, "the ids of %zu workers begin with '%s'", found,
                            MR_SHOWN(name));
    }
    *ret = there != NULL ? there : *ret;
    return MR_OK;
}

static uint32_t open_tasks(const struct mr_core_worker *worker)
{
    const struct mr_task *task;
    uint32_t n = 0;

    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        n += task->state == MR_TASK_OPEN ? 1 : 0;
    }
    return n;
}

int mr_core_do_drain_worker(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__DrainWorkerRequest *in = command->drain_worker;
    struct mr_core_worker *worker = NULL;
    char id[ID_DIGITS_MIN + 1];

    MR_TRY(find_meant(core, in->worker, &worker, err));
    mr_core_worker_note_draining(core, worker);
    Millrace__DrainWorkerReply *reply = mr_core_reply(core, true /* fenced */);

    if (reply != NULL) {
        (void)snprintf(id, sizeof id, "%s", worker->rec->incarnation);
        mr_core_set(core, &reply->address, worker->rec->address);
        mr_core_set(core, &reply->worker, id);
        reply->tasks = open_tasks(worker);
    }
    return MR_OK;
}

void mr_given_back_drop_unwanted(mr_core *core, struct mr_iteration *it,
                                 const struct mr_task *recovery)
{
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        uint64_t splits = mr_given_back_splits(it, i);

        if (splits == 0 || recovery->grants[i].rec != NULL || mr_iteration_will_ask(it, i)) {
            continue;
        }
        mr_core_trace(core,
                      "iteration %s: %" PRIu64
                      " splits of provider %zu that were given back: nobody wants them",
                      it->rec->id, splits, i);
        MR_APPLY(core, given_back_dropped, it, i);
    }
}
