/* Tasks that are closed though their worker lives, so that reading ends: none of their readers
 * reaches it, or nothing comes of them and that was not to be waited for. */
#include "dispatcher/rules/rules.h"

static void close_task(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    MR_APPLY(core, task_closed, task);
    mr_iteration_review(core, it);
}

bool mr_task_disown(mr_core *core, struct mr_task *task, const mr_error *why)
{
    if (core->full || !mr_core_has_room(core, 1 + mr_iteration_review_changes(task->iteration))) {
        return false; /* the worker says it again */
    }
    mr_core_note(core, "%s: closed", why->message);
    close_task(core, task);
    return true;
}

/* ---------------------------------------------------------------- workers that no client
 * reaches */

/* When the next report of a client of @it will be old enough to count; MR_NEVER if there is
 * none. */
static int64_t next_report(const mr_core *core, const struct mr_iteration *it, bool *any_counts)
{
    const struct mr_client *client;
    int64_t next = MR_NEVER;

    *any_counts = false;
    TAILQ_FOREACH(client, &it->clients, in_iteration) {
        for (size_t i = 0; i < client->nunreachable; i++) {
            int64_t due = mr_time_add(client->unreachable[i].since, core->config.worker_timeout_ms);

            if (due <= core->now) {
                *any_counts = true;
            } else if (due < next) {
                next = due;
            }
        }
    }
    return next;
}

/* Somebody else is there to go on, or has come to the end: without, closing the task would only end
 * all reading. */
static bool others_are_left(const mr_core *core, const struct mr_iteration *it,
                            const struct mr_core_worker *worker)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        bool there = mr_core_worker_is_live(task->worker) &&
                     !mr_core_worker_is_draining(task->worker) &&
                     !mr_core_worker_is_unheard(core, task->worker) &&
                     !mr_iteration_cannot_reach(core, it, task->worker);

        if (task->worker != worker && (task->state == MR_TASK_OPEN || mr_iteration_repeats(it)) &&
            there) {
            return true;
        }
    }
    return it->ended_tasks > 0 && !mr_iteration_repeats(it);
}

static struct mr_task *find_unreachable(const mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN && !mr_core_worker_is_unheard(core, task->worker) &&
            mr_iteration_cannot_reach(core, it, task->worker) &&
            others_are_left(core, it, task->worker)) {
            break;
        }
    }
    return task;
}

/* False: there was no room for all. */
static bool close_unreachable(mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task;

    if (core->full) {
        return true; /* the next heartbeat reports it again */
    }
    while ((task = find_unreachable(core, it)) !=
           NULL) { /* none in a finished one, whose tasks are gone */
        if (!mr_core_has_room(core, 1 + mr_iteration_review_changes(it))) {
            return false;
        }
        mr_core_note_loss(core, "task %s: no client reaches %s", task->id,
                          task->worker->rec->address);
        close_task(core, task);
    }
    return true;
}

static struct mr_task *find_refusing(const mr_core *core, struct mr_iteration *it,
                                     const char *incarnation)
{
    int64_t silence = core->config.heartbeat_ms + core->config.heartbeat_ms / 2;
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN &&
            strcmp(task->worker->rec->incarnation, incarnation) == 0 &&
            mr_time_add(task->worker->seen, silence) <= core->now &&
            others_are_left(core, it, task->worker)) {
            break;
        }
    }
    return task;
}

void mr_iteration_close_refusing(mr_core *core, struct mr_iteration *it, char *const *incarnations,
                                 size_t n)
{
    /* A wrong guess costs a coordinated job one worker's elements; waiting costs all of its
     * consumers their time. At least once, a crash has to be told from a worker that is out of
     * reach. */
    if (!it->rules->closes_refusing || mr_iteration_repeats(it) || core->full) {
        return;
    }
    n = MR_MIN(n, MR_UNREACHABLE_MAX);
    for (size_t i = 0; i < n && mr_core_has_room(core, 1 + mr_iteration_review_changes(it)); i++) {
        struct mr_task *task = find_refusing(core, it, incarnations[i]);

        if (task != NULL) {
            mr_core_note_loss(core, "task %s: %s refuses connections and is silent, closed",
                              task->id, task->worker->rec->address);
            close_task(core, task);
        }
    }
}

static struct mr_task *find_stuck(const mr_core *core, const struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (mr_task_stalled_ms(core, task) >= core->config.task_timeout_ms) {
            break;
        }
    }
    return task;
}

/* An operator that does not return would keep its readers for ever. False: there was no room for
 * all. */
static bool close_stuck(mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task;

    if (core->config.task_timeout_ms <= 0 || core->full) {
        return true; /* the next heartbeat rings again */
    }
    while ((task = find_stuck(core, it)) !=
           NULL) { /* none in a finished one, whose tasks are gone */
        if (!mr_core_has_room(core, 1 + mr_iteration_review_changes(it))) {
            return false;
        }
        struct mr_task *producing = mr_task_producing(core, task);

        mr_core_note_loss(core, "task %s: nothing came of it for %lld ms, closed", task->id,
                          (long long)mr_task_stalled_ms(core, task));
        if (producing != NULL) {
            MR_APPLY(core, task_barren, producing, true); /* so nobody else is to read there */
        }
        close_task(core, task);
    }
    return true;
}

bool mr_iteration_close_tasks(mr_core *core, struct mr_iteration *it, int64_t *again)
{
    bool any_counts;

    *again = next_report(core, it, &any_counts);
    return (!any_counts || close_unreachable(core, it)) && close_stuck(core, it);
}
