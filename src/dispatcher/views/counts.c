/* Numbers for metrics: what the status document says, counted instead of listed. Nothing is
 * allocated. */
#include "dispatcher/views/views.h"
#include "dispatcher/views/why.h"

static const char *const shown_names[MR_SHOWN_COUNT] = {[MR_SHOWN_OPEN] = "open",
                                                        [MR_SHOWN_ENDED] = "ended",
                                                        [MR_SHOWN_DRAINED] = "drained",
                                                        [MR_SHOWN_FAILED] = "failed",
                                                        [MR_SHOWN_LOST] = "lost"};

const char *mr_task_shown_name(enum mr_task_shown shown)
{
    return shown_names[shown];
}

enum mr_task_shown mr_task_shown(const struct mr_task *task)
{
    static const enum mr_task_shown by_state[] = {[MR_TASK_OPEN] = MR_SHOWN_OPEN,
                                                  [MR_TASK_ENDED] = MR_SHOWN_ENDED,
                                                  [MR_TASK_LOST] = MR_SHOWN_LOST};

    if (task->rec != NULL && task->rec->code < 0) {
        return MR_SHOWN_FAILED;
    }
    return task->drained ? MR_SHOWN_DRAINED : by_state[task->state];
}

static void count_workers(const mr_core *core, struct mr_core_counts *ret)
{
    const struct mr_core_worker *worker;

    TAILQ_FOREACH(worker, &core->worker_list, link) {
        if (!mr_core_worker_is_live(worker)) {
            ret->workers_lost += mr_core_worker_is_missing(worker) ? 1 : 0;
        } else if (mr_core_worker_is_draining(worker)) {
            ret->workers_draining++;
        } else {
            ret->workers_live++;
        }
    }
    ret->keys += core->nworkers - core->absent;
}

static void count_task(const mr_core *core, const struct mr_task *task, struct mr_core_counts *ret)
{
    const Millrace__WindowProgress *window = task->sharing != NULL ? task->sharing->window : NULL;

    ret->tasks[mr_task_shown(task)]++;
    ret->tasks_stalled += mr_task_stalled_ms(core, task) >= core->config.stall_timeout_ms ? 1 : 0;
    if (window != NULL && task->state == MR_TASK_OPEN) {
        *(window->degraded[0] == '\0' ? &ret->windows_on_disk : &ret->windows_in_memory) += 1;
    }
    ret->keys += task->rec != NULL ? 1 : 0;
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        ret->keys += task->grants[i].rec != NULL ? 1 : 0;
    }
}

static void count_rounds_keys(const struct mr_iteration *it, struct mr_core_counts *ret)
{
    if (it->rounds == NULL) {
        return;
    }
    ret->keys += it->rounds->rec != NULL ? 1 : 0;
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        ret->keys += it->rounds->seats[i].rec != NULL ? 1 : 0;
    }
}

static void count_iteration(const mr_core *core, const struct mr_iteration *it,
                            struct mr_core_counts *ret)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        count_task(core, task, ret);
    }
    ret->keys++;
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        ret->keys += it->cursors[i].rec != NULL ? 1 : 0;
    }
    count_rounds_keys(it, ret);
    if (it->job == NULL) {
        return; /* A production's. */
    }
    *(it->rec->finished ? &ret->iterations_finished : &ret->iterations_open) += 1;
    if (!it->rec->finished) {
        ret->unshared_guarantee += it->job->rec->unshared[0] != '\0' ? 1 : 0;
        ret->unshared_apart += it->rec->unshared[0] != '\0' ? 1 : 0;
    }
}

static void count_clients(const mr_core *core, struct mr_core_counts *ret)
{
    const struct mr_client *client;

    TAILQ_FOREACH(client, &core->client_list, link) {
        ret->clients += client->rec->released ? 0 : 1;
        ret->keys += client->iteration != NULL ? 1 : 0; /* Else its key is left over. */
    }
}

static bool is_active(const struct mr_job *job)
{
    return job->niterations > job->nfinished;
}

void mr_core_count(const mr_core *core, struct mr_core_counts *ret)
{
    const struct mr_left_over *left;
    const struct mr_iteration *it;
    const struct mr_job *job;

    *ret = (struct mr_core_counts){.datasets = core->datasets.count,
                                   .productions = core->productions.count};
    count_workers(core, ret);
    count_clients(core, ret);
    TAILQ_FOREACH(job, &core->job_list, link) {
        *(is_active(job) ? &ret->jobs_active : &ret->jobs_idle) += 1;
    }
    TAILQ_FOREACH(it, &core->iteration_list, link) {
        count_iteration(core, it, ret);
    }
    STAILQ_FOREACH(left, &core->left_over, link) {
        ret->keys += mr_left_over_is_in_use(core, left->key) ? 0 : 1;
    }
    ret->keys += core->datasets.count + core->jobs.count + core->productions.count + core->parts +
                 core->kept_keys + 1 /* the schema */;
}

static void visit_rounds(const mr_core *core, const struct mr_iteration *it, const char *label,
                         const struct mr_core_visitor *visitor, struct mr_job_numbers *ret)
{
    ret->position = 0;
    ret->rounds_per_s = it->rounds->pace / 1000;
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];
        uint64_t missed_ms = mr_seat_missed_ms(core, seat);

        ret->position = MR_MAX(seat->position, ret->position);
        if (missed_ms > 0) {
            visitor->waited_for(visitor->ctx, label, i, missed_ms);
        }
    }
}

static void visit_why(const mr_core *core, const struct mr_job *job, const char *label,
                      const struct mr_core_visitor *visitor)
{
    struct mr_why why;

    if (!mr_job_why(core, job, &why)) {
        return;
    }
    for (size_t i = 0; i < why.n; i++) {
        visitor->why(visitor->ctx, label, mr_bound_name(why.parts[i].bound), why.parts[i].permille);
    }
}

static void visit_job(const mr_core *core, const struct mr_job *job,
                      const struct mr_core_visitor *visitor)
{
    struct mr_job_numbers n = {.label =
                                   mr_job_is_anonymous(job) ? "(anonymous)" : mr_job_label(job),
                               .clients = job->live_clients,
                               .coordinated = mr_job_is_coordinated(job)};
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        n.skipped += mr_iteration_skipped(it);
        n.lost_splits += it->rec->lost_splits;
        n.repeated_splits += mr_iteration_repeated(it);
        if (it->rounds != NULL) {
            visit_rounds(core, it, n.label, visitor, &n);
        }
    }
    visitor->job(visitor->ctx, &n);
    visit_why(core, job, n.label, visitor);
}

void mr_core_visit_jobs(const mr_core *core, const struct mr_core_visitor *visitor)
{
    const struct mr_job *job;

    for (int active = 1; active >= 0; active--) {
        TAILQ_FOREACH(job, &core->job_list, link) {
            if (is_active(job) == (active == 1)) {
                visit_job(core, job, visitor);
            }
        }
    }
}
