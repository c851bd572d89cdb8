/* What must hold between the parts of a core, as a walk over all of it. */
#include "dispatcher/model/model.h"

#define REQUIRE(fact, ...)                                                                         \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            return mr_error_set(err, MR_EINTERNAL, __VA_ARGS__);                                   \
        }                                                                                          \
    } while (0)

static int check_rounds(const struct mr_iteration *it, mr_error *err)
{
    const struct mr_coordination *rounds = it->rounds;
    bool expected = mr_job_is_coordinated(it->job) && !it->rec->finished;

    REQUIRE((rounds != NULL) == expected, "iteration %s %s rounds", it->rec->id,
            expected ? "has no" : "has");
    if (rounds == NULL) {
        return MR_OK;
    }
    REQUIRE(rounds->n == it->job->rec->num_consumers && !rounds->moved,
            "iteration %s: its rounds are not written or not told", it->rec->id);
    REQUIRE(mr_schedule_check(rounds->rec->schedule, err) == MR_OK,
            "iteration %s: its schedule is out of order", it->rec->id);
    REQUIRE(mr_rounds_last_segment(it)->from_round <= rounds->rec->horizon,
            "iteration %s: a segment begins beyond the horizon", it->rec->id);
    for (uint32_t i = 0; i < rounds->n; i++) {
        const struct mr_seat *seat = &rounds->seats[i];

        REQUIRE(seat->rec == NULL ? !seat->known : seat->rec->session != 0,
                "iteration %s: nobody has place %u, and it is known", it->rec->id, i);
    }
    return MR_OK;
}

static int check_cursor(const struct mr_iteration *it, size_t i, mr_error *err)
{
    const Millrace__CursorRecord *cursor = it->cursors[i].rec;
    int64_t splits = it->rec->providers[i]->splits;

    if (cursor == NULL) {
        return MR_OK;
    }
    REQUIRE(splits < 0 || cursor->next <= (uint64_t)splits,
            "iteration %s: cursor %zu is beyond its end", it->rec->id, i);
    REQUIRE(cursor->n_pool == 0 || mr_iteration_repeats(it),
            "iteration %s: splits came back, at most once", it->rec->id);
    REQUIRE(mr_given_back_is_sound(it, i),
            "iteration %s: what was given back of %zu is out of order", it->rec->id, i);
    REQUIRE(cursor->n_pool <= MR_SPLIT_RANGES_MAX &&
                mr_split_list_is_sound(mr_pool(it, i), mr_position_end(it, i)),
            "iteration %s: pool %zu is out of order", it->rec->id, i);
    return MR_OK;
}

static int check_grants(const struct mr_task *task, mr_error *err)
{
    const struct mr_iteration *it = task->iteration;
    bool is_void = task->state == MR_TASK_ENDED || task->counted || !mr_iteration_repeats(it);

    for (size_t i = 0; i < it->rec->n_providers; i++) {
        const Millrace__GrantRecord *grant = task->grants[i].rec;
        const Millrace__CursorRecord *cursor = it->cursors[i].rec;

        if (grant == NULL) {
            continue;
        }
        REQUIRE(cursor != NULL, "task %s has a grant of provider %zu, which has no cursor",
                task->id, i);
        REQUIRE(grant->end == (grant->n_ranges == 0),
                "task %s: a grant is neither splits nor the end", task->id);
        if (grant->n_ranges > 0 &&
            grant->repetition + (uint64_t)grant->ahead == cursor->repetition) {
            REQUIRE(grant->ranges[0]->first + grant->ranges[0]->count <= cursor->next,
                    "task %s holds splits beyond the cursor", task->id);
        }
        REQUIRE(grant->n_open == 0 || !is_void, "task %s has open grants and is %s", task->id,
                mr_task_state_name(task->state));
        REQUIRE(mr_grants_are_sound(it, i, grant), "task %s: its open grants are out of order",
                task->id);
    }
    return MR_OK;
}

static int check_tasks(const mr_core *core, const struct mr_iteration *it, size_t *total,
                       mr_error *err)
{
    const struct mr_task *task;
    const struct mr_core_worker *worker;
    uint32_t open = 0, ended = 0, draining = 0, recoveries = 0, uncounted = 0;
    size_t alive = 0, due = 0;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        bool live = mr_core_worker_is_live(task->worker);

        MR_TRY(check_grants(task, err));
        (*total)++;
        open += task->state == MR_TASK_OPEN ? 1 : 0;
        ended += task->state == MR_TASK_ENDED && !task->drained ? 1 : 0;
        uncounted += task->state == MR_TASK_LOST && !task->counted ? 1 : 0;
        draining += task->state == MR_TASK_OPEN && mr_core_worker_is_draining(task->worker) ? 1 : 0;
        alive += live && !mr_task_is_recovery(task) ? 1 : 0;
        recoveries += mr_task_is_recovery(task) && task->state == MR_TASK_OPEN ? 1 : 0;
        REQUIRE(!mr_task_is_recovery(task) || task->rec->recovery <= it->rec->recoveries,
                "task %s is not counted by its iteration", task->id);
        REQUIRE(!mr_task_is_recovery(task) || task->state == MR_TASK_OPEN || !task->counted,
                "task %s is still there and nothing of it is needed", task->id);
        REQUIRE(task->state != MR_TASK_OPEN || live, "task %s is open and its worker is lost",
                task->id);
        REQUIRE(mr_task_find(core, task->id) == task, "task %s is not found by its id", task->id);
    }
    REQUIRE(open == it->open_tasks && ended == it->ended_tasks,
            "iteration %s counts %u open and %u ended tasks; there are %u and %u", it->rec->id,
            it->open_tasks, it->ended_tasks, open, ended);
    REQUIRE(uncounted == it->uncounted_tasks,
            "iteration %s counts %u losses to be counted; there are %u", it->rec->id,
            it->uncounted_tasks, uncounted);
    REQUIRE(draining == it->draining_tasks,
            "iteration %s counts %u tasks of workers that drain; there are %u", it->rec->id,
            it->draining_tasks, draining);
    TAILQ_FOREACH(worker, &core->worker_list, link) {
        due += !it->rec->finished && mr_core_worker_is_live(worker) &&
                       mr_core_worker_gets_tasks(worker, it)
                   ? 1
                   : 0;
    }
    REQUIRE(alive == due, "iteration %s has %zu tasks on %zu live workers", it->rec->id, alive,
            due);
    REQUIRE(recoveries <= MR_RECOVERIES_MAX, "iteration %s has %u recovery tasks", it->rec->id,
            recoveries);
    REQUIRE(!it->rec->finished || TAILQ_EMPTY(&it->tasks), "iteration %s is finished and has tasks",
            it->rec->id);
    return MR_OK;
}

static int check_content(const mr_core *core, const struct mr_iteration *it, size_t *total,
                         mr_error *err)
{
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        MR_TRY(check_cursor(it, i, err));
    }
    return check_tasks(core, it, total, err);
}

static int check_iteration(const mr_core *core, const struct mr_iteration *it, size_t *total,
                           mr_error *err)
{
    const struct mr_client *client;
    const struct mr_iteration *other;
    uint32_t live = 0;

    REQUIRE(strcmp(it->rec->job_id, it->job != NULL ? it->job->rec->id : "") == 0,
            "iteration %s is in another job", it->rec->id);
    REQUIRE((it->job == NULL) == (it->makes != NULL), "iteration %s has no owner, or two",
            it->rec->id);
    TAILQ_FOREACH(client, &it->clients, in_iteration) {
        live += client->rec->released ? 0 : 1;
        REQUIRE(client->iteration == it, "client %s is in another iteration", client->rec->client);
        REQUIRE(strcmp(client->rec->iteration_id, it->rec->id) == 0,
                "client %s records another iteration", client->rec->client);
    }
    REQUIRE(live == it->live_clients, "iteration %s counts %u clients; there are %u", it->rec->id,
            it->live_clients, live);
    if (it->makes != NULL) {
        REQUIRE(!it->rec->finished && live == 0 && it->makes->hidden == it,
                "iteration %s is not hidden", it->rec->id);
        return check_content(core, it, total, err);
    }
    REQUIRE(it->rec->finished == mr_job_has_ended(it->job, it->rec->repetition),
            "iteration %s is%s finished, and job %s has it%s among those that ended", it->rec->id,
            it->rec->finished ? "" : " not", mr_job_label(it->job),
            it->rec->finished ? " not" : "");
    REQUIRE(it->rec->finished || (it->uses != NULL) == mr_job_shares(it->job),
            "iteration %s %s a production", it->rec->id, it->uses != NULL ? "has" : "lacks");
    MR_TRY(check_rounds(it, err));
    REQUIRE(!it->rec->joining || (it->uses != NULL && !it->rec->finished),
            "iteration %s is joining nothing", it->rec->id);
    for (other = TAILQ_NEXT(it, in_job); other != NULL; other = TAILQ_NEXT(other, in_job)) {
        REQUIRE(other->rec->repetition != it->rec->repetition,
                "iterations %s and %s are the same repetition", it->rec->id, other->rec->id);
    }
    return check_content(core, it, total, err);
}

static int check_workers(const mr_core *core, mr_error *err)
{
    const struct mr_core_worker *worker;
    size_t live = 0, lives = 0;

    TAILQ_FOREACH(worker, &core->worker_list, link) {
        const struct mr_task *task;
        uint32_t recoveries = 0;

        lives++;
        TAILQ_FOREACH(task, &worker->tasks, in_worker) {
            recoveries += mr_task_is_recovery(task) && task->state == MR_TASK_OPEN ? 1 : 0;
        }
        REQUIRE(recoveries == worker->recoveries,
                "worker %s counts %u recovery tasks; there are %u", worker->ref, worker->recoveries,
                recoveries);
        REQUIRE(mr_map_get(&core->workers_by_ref, worker->ref) == worker, "worker %s is not found",
                worker->ref);
        if (mr_core_worker_is_live(worker)) {
            live++;
            REQUIRE(mr_map_get(&core->workers, worker->rec->incarnation) == worker,
                    "worker %s is alive and not the newest life", worker->ref);
            REQUIRE(mr_map_get(&core->workers_by_address, worker->rec->address) == worker,
                    "worker %s is not the one at its address", worker->ref);
        }
    }
    REQUIRE(live == core->live_workers && lives == core->nworkers,
            "%zu of %zu workers are alive; %zu of %zu are counted", live, lives, core->live_workers,
            core->nworkers);
    REQUIRE(core->workers_by_address.count == live, "%zu addresses for %zu workers",
            core->workers_by_address.count, live);
    return MR_OK;
}

static int check_users(const struct mr_production *p, mr_error *err)
{
    const struct mr_iteration *it;
    uint32_t users = 0, open = 0;

    TAILQ_FOREACH(it, &p->users, in_production) {
        users++;
        open += it->rec->finished ? 0 : 1;
        REQUIRE(it->uses == p && strcmp(it->rec->production, p->rec->id) == 0,
                "iteration %s uses another production", it->rec->id);
        REQUIRE(mr_production_lists(p, it), "production %s does not list iteration %s", p->rec->id,
                it->rec->id);
        REQUIRE(mr_production_fits(p, it->job, it->rec->repetition),
                "production %s is not what iteration %s wants", p->rec->id, it->rec->id);
        REQUIRE(it->rec->n_providers == 0, "iteration %s hands out splits itself", it->rec->id);
    }
    REQUIRE(users == p->nusers && open == p->open_users &&
                (p->kept ? p->rec->n_users >= users : p->rec->n_users == users),
            "production %s counts %u users, %u of them open, and lists %zu; there are %u and %u",
            p->rec->id, p->nusers, p->open_users, p->rec->n_users, users, open);
    return MR_OK;
}

static int check_productions(const mr_core *core, mr_error *err)
{
    const struct mr_dataset_entry *dataset;
    const struct mr_production *p;
    size_t n = 0, uses = 0;

    TAILQ_FOREACH(p, &core->production_list, link) {
        MR_TRY(check_users(p, err));
        n++;
        REQUIRE(p->hidden != NULL && p->hidden->makes == p, "production %s has no hidden iteration",
                p->rec->id);
        REQUIRE(mr_production_find(core, p->rec->id) == p, "production %s is not found",
                p->rec->id);
        REQUIRE(mr_schema_has(core, MR_FEATURE_SHARING),
                "production %s, and the schema does not tell", p->rec->id);
        /* Not at once, but nothing else has to happen first. */
        REQUIRE(!mr_production_is_over(p) || p->alarm.at != 0, "production %s is over and stays",
                p->rec->id);
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link) {
        uses += dataset->productions;
    }
    REQUIRE(n == core->productions.count && uses == n,
            "%zu productions; %zu are indexed, %zu use datasets", n, core->productions.count, uses);
    return MR_OK;
}

static int check_jobs(const mr_core *core, mr_error *err)
{
    const struct mr_dataset_entry *dataset;
    const struct mr_iteration *it;
    const struct mr_job *job;
    size_t jobs = 0, uses = 0;

    TAILQ_FOREACH(job, &core->job_list, link) {
        uint32_t n = 0;

        jobs++;
        TAILQ_FOREACH(it, &job->iterations, in_job) {
            n++;
        }
        REQUIRE(n == job->niterations, "job %s counts %u iterations; there are %u",
                mr_job_label(job), job->niterations, n);
        REQUIRE(mr_map_get(&core->jobs, job->slot) == job, "job %s is not found",
                mr_job_label(job));
        REQUIRE(mr_dataset_find(core, job->rec->dataset_id) == job->dataset,
                "job %s has another dataset", mr_job_label(job));
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link) {
        uses += dataset->jobs;
        REQUIRE(strcmp(dataset->blob->id, dataset->rec->blob) == 0,
                "dataset %s has another definition", dataset->rec->id);
    }
    MR_TRY(check_productions(core, err));
    REQUIRE(jobs == core->jobs.count && uses == jobs, "%zu jobs; %zu are indexed, %zu use datasets",
            jobs, core->jobs.count, uses);
    return MR_OK;
}

int mr_iteration_check(const mr_core *core, const struct mr_iteration *it, mr_error *err)
{
    size_t tasks = 0;

    return check_iteration(core, it, &tasks, err);
}

int mr_core_check(const mr_core *core, mr_error *err)
{
    const struct mr_iteration *it;
    size_t tasks = 0, open = 0;

    MR_TRY(check_workers(core, err));
    MR_TRY(check_jobs(core, err));
    TAILQ_FOREACH(it, &core->iteration_list, link) {
        MR_TRY(check_iteration(core, it, &tasks, err));
        open += it->rec->finished ? 0 : 1;
    }
    REQUIRE(tasks == core->tasks && tasks == core->tasks_by_id.count,
            "%zu tasks; %zu are counted, %zu indexed", tasks, core->tasks, core->tasks_by_id.count);
    REQUIRE(core->hosts.iterations.taken == core->iterations.count &&
                core->hosts.open_iterations.taken == core->open_iterations &&
                core->hosts.clients.taken == core->clients.count &&
                core->hosts.datasets.taken == core->datasets.count &&
                core->hosts.workers.taken == core->nworkers,
            "of %zu iterations, %zu clients, %zu datasets and %zu workers not all are some host's",
            core->iterations.count, core->clients.count, core->datasets.count, core->nworkers);
    REQUIRE(open == core->open_iterations, "%zu iterations are open; %zu are counted", open,
            core->open_iterations);
    return MR_OK;
}
