/*
 * What time does: workers and clients that fell silent, iterations nobody reads, records nobody needs, and the work
 * that earlier steps left for later. Each step stays within one transaction; what does not fit comes in the next, which
 * is due at once. While the store is full only what deletes is done. Objects are looked at in turn a few times in the
 * shortest timeout, which costs nothing beside the requests they send.
 */
#include "dispatcher/core/internal.h"

#include <string.h>

#define SCAN_MS_MIN 5
#define SCAN_MS_MAX 1000

int64_t mr_core_scan_interval(const mr_core *core)
{
    int64_t shortest = core->config.worker_timeout_ms;

    shortest = core->config.client_timeout_ms < shortest ? core->config.client_timeout_ms : shortest;
    shortest = core->config.job_gc_timeout_ms < shortest ? core->config.job_gc_timeout_ms : shortest;
    shortest /= 4;
    return shortest < SCAN_MS_MIN ? SCAN_MS_MIN : shortest > SCAN_MS_MAX ? SCAN_MS_MAX : shortest;
}

/* ---------------------------------------------------------------- workers */

static bool is_silent(const mr_core *core, const struct mr_worker *worker)
{
    return mr_worker_is_live(worker) && worker->deadline <= core->now;
}

/*
 * A brake: when many seem to be gone at once it is rather this dispatcher that heard nothing (it was paused, or cut
 * off). Then all of them get one more full grace, once.
 */
static void brake(mr_core *core)
{
    size_t limit = core->live_workers / 3 > 2 ? core->live_workers / 3 : 2;
    struct mr_worker *worker;
    size_t silent = 0, graced = 0;

    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        silent += is_silent(core, worker) ? 1 : 0;
    }
    if (silent <= limit) {
        return;
    }
    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        if (is_silent(core, worker) && !worker->graced) {
            worker->graced = true;
            worker->deadline = mr_time_add(core->now, core->config.worker_timeout_ms);
            graced++;
        }
    }
    if (graced > 0) {
        mr_core_trace(core, "%zu of %zu workers are silent: one more grace for %zu", silent, core->live_workers,
                      graced);
    }
}

/* Its loss is counted everywhere, and no iteration needs it to know what ended. */
static bool is_forgettable(const mr_core *core, const struct mr_worker *worker)
{
    const struct mr_task *task;

    if (mr_worker_is_live(worker) || mr_time_add(worker->lost_at, MR_LOST_KEEP_MS) > core->now) {
        return false;
    }
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        if (task->state == MR_TASK_ENDED || !task->counted) {
            return false;
        }
    }
    return true;
}

static bool scan_workers(mr_core *core)
{
    struct mr_worker *worker, *next;

    brake(core);
    for (worker = TAILQ_FIRST(&core->worker_list); worker != NULL; worker = next) {
        next = TAILQ_NEXT(worker, link);
        if (!mr_core_has_room(core, 1)) {
            return false;
        }
        if (is_silent(core, worker)) {
            if (!core->full) {
                mr_worker_lose(core, worker, false /* superseded */);
            }
        } else if (is_forgettable(core, worker)) {
            mr_worker_forget(core, worker);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- workers that no client reaches */

/* All clients of @it have said for a full worker timeout that they cannot reach @worker. */
static bool is_unreachable(const mr_core *core, const struct mr_iteration *it, const struct mr_worker *worker)
{
    const struct mr_client *client;

    TAILQ_FOREACH(client, &it->clients, in_iteration)
    {
        bool reported = false;

        if (client->rec->released) {
            continue;
        }
        for (size_t i = 0; i < client->nunreachable; i++) {
            const struct mr_unreachable *report = &client->unreachable[i];

            reported = reported || (strcmp(report->incarnation, worker->rec->incarnation) == 0 &&
                                    mr_time_add(report->since, core->config.worker_timeout_ms) <= core->now);
        }
        if (!reported) {
            return false;
        }
    }
    return it->live_clients > 0;
}

static bool has_reports(const struct mr_iteration *it)
{
    const struct mr_client *client;

    TAILQ_FOREACH(client, &it->clients, in_iteration)
    {
        if (client->nunreachable > 0) {
            return true;
        }
    }
    return false;
}

static bool close_unreachable(mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task, *next;

    if (it->rec->finished || core->full || !has_reports(it)) {
        return true;
    }
    for (task = TAILQ_FIRST(&it->tasks); task != NULL; task = next) {
        next = TAILQ_NEXT(task, in_iteration);
        if (task->state != MR_TASK_OPEN || !is_unreachable(core, it, task->worker)) {
            continue;
        }
        if (!mr_core_has_room(core, 1 + MR_SETTLE_CHANGES)) {
            return false;
        }
        mr_core_trace(core, "task %s: no client reaches %s", task->id, task->worker->rec->address);
        mr_task_close_unreachable(core, task);
        if (it->rec->finished) {
            break; /* its tasks are gone */
        }
    }
    return true;
}

/* ---------------------------------------------------------------- clients */

static bool scan_clients(mr_core *core)
{
    struct mr_client *client, *next;

    for (client = TAILQ_FIRST(&core->client_list); client != NULL; client = next) {
        next = TAILQ_NEXT(client, link);
        if (client->deadline > core->now) {
            continue;
        }
        if (!mr_core_has_room(core, 3)) {
            return false;
        }
        if (client->iteration != NULL && !client->rec->released) {
            if (!core->full) {
                mr_client_release(core, client, false /* by_itself */);
            }
        } else {
            mr_client_forget(core, client);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- iterations, jobs, datasets */

static bool is_past_use(const mr_core *core, const struct mr_iteration *it)
{
    if (it->live_clients > 0) {
        return false;
    }
    if (it->rec->finished) {
        return it->forget_at <= core->now && it->rec->repetition < it->job->rec->ended_below;
    }
    return it->collect_at <= core->now && it->job->rec->mode != MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
}

static bool scan_iterations(mr_core *core)
{
    struct mr_iteration *it, *next;

    for (it = TAILQ_FIRST(&core->iteration_list); it != NULL; it = next) {
        next = TAILQ_NEXT(it, link);
        if (!mr_core_has_room(core, 1)) {
            return false;
        }
        if (!close_unreachable(core, it)) {
            return false;
        }
        if (is_past_use(core, it)) {
            mr_core_trace(core, "iteration %s: %s", it->rec->id, it->rec->finished ? "forgotten" : "collected");
            mr_iteration_forget(core, it, false /* with_job */);
        }
    }
    return true;
}

/* Retention goes by wall time, since timers start anew with each leader and a daily roll-out must not keep things for
 * ever. */
static bool is_older(const mr_core *core, uint64_t since_ms, int64_t retention_ms)
{
    return core->wall_ms > 0 && since_ms < (uint64_t)core->wall_ms &&
           (uint64_t)core->wall_ms - since_ms > (uint64_t)retention_ms;
}

static bool is_job_past_use(const mr_core *core, const struct mr_job *job)
{
    const struct mr_iteration *it;
    bool read_lately = false;

    if (!mr_job_is_idle(job)) {
        return false;
    }
    if (!mr_job_is_anonymous(job)) {
        return job->rec->released_ms != 0 && is_older(core, job->rec->released_ms, core->config.job_retention_ms);
    }
    TAILQ_FOREACH(it, &job->iterations, in_job)
    {
        read_lately = read_lately || (it->rec->finished ? it->forget_at : it->collect_at) > core->now;
    }
    return !read_lately;
}

static bool scan_jobs(mr_core *core)
{
    struct mr_job *job, *next;

    for (job = TAILQ_FIRST(&core->job_list); job != NULL; job = next) {
        next = TAILQ_NEXT(job, link);
        if (!mr_core_has_room(core, 2)) {
            return false;
        }
        if (is_job_past_use(core, job)) {
            mr_job_forget(core, job);
        }
    }
    return true;
}

static bool scan_datasets(mr_core *core)
{
    struct mr_dataset_entry *dataset, *next;

    for (dataset = TAILQ_FIRST(&core->dataset_list); dataset != NULL; dataset = next) {
        next = TAILQ_NEXT(dataset, link);
        if (!mr_core_has_room(core, 1)) {
            return false;
        }
        if (dataset->jobs == 0 && !mr_dataset_is_named(dataset) &&
            is_older(core, dataset->rec->used_ms, core->config.dataset_retention_ms)) {
            mr_dataset_forget(core, dataset);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- what earlier steps left */

static void settle(mr_core *core)
{
    while (!core->full && !TAILQ_EMPTY(&core->unsettled) && mr_core_has_room(core, MR_SETTLE_CHANGES)) {
        mr_iteration_settle(core, TAILQ_FIRST(&core->unsettled));
    }
}

/* A client may have attached again since its key was left over. */
static bool is_in_use(const mr_core *core, const char *key)
{
    static const char clients[] = "clients/";
    size_t n = sizeof clients - 1;
    const struct mr_client *client;

    if (strncmp(key, clients, n) != 0) {
        return false;
    }
    client = mr_map_get(&core->clients, key + n);
    return client != NULL && client->iteration != NULL;
}

static void sweep(mr_core *core)
{
    struct mr_left_over *left;

    while ((left = STAILQ_FIRST(&core->left_over)) != NULL && mr_core_has_room(core, 1)) {
        STAILQ_REMOVE_HEAD(&core->left_over, link);
        if (!is_in_use(core, left->key)) {
            mr_core_delete(core, left->key);
        }
        mr_free(left);
    }
}

void mr_core_do_timer(mr_core *core)
{
    settle(core);
    if (core->scan_again || core->next_scan <= core->now) {
        bool whole =
            scan_workers(core) && scan_clients(core) && scan_iterations(core) && scan_jobs(core) && scan_datasets(core);

        core->scan_again = !whole;
        core->next_scan = mr_time_add(core->now, mr_core_scan_interval(core));
        settle(core);
    }
    sweep(core);
}
