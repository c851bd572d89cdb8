/* The state for people and tools, as one JSON document (docs/run/status.md). Ids that act as
 * capabilities are cut short. */
#include "dispatcher/views/views.h"
#include "json/pbjson.h"

static void fill_sharing(mr_core *core, const struct mr_iteration *it,
                         Millrace__IterationStatus *status)
{
    mr_core_set(core, &status->production, it->rec->production);
    mr_core_set(core, &status->unshared, it->rec->unshared);
    status->joining = it->rec->joining;
    status->skipped = mr_iteration_skipped(it);
}

static void add_user(mr_core *core, const struct mr_iteration *it, Millrace__ProductionStatus *all)
{
    Millrace__ProductionUserStatus *status =
        MR_ADD_RECORD(core, all, users, production_user_status);
    const struct mr_task *task;

    if (status == NULL) {
        return;
    }
    mr_core_set(core, &status->job_id, it->rec->job_id);
    mr_core_set(core, &status->job, mr_job_is_anonymous(it->job) ? "" : mr_job_label(it->job));
    mr_core_set(core, &status->iteration_id, it->rec->id);
    status->lag = it->job->rec->lag;
    status->joining = it->rec->joining;
    status->finished = it->rec->finished;
    status->skipped = mr_iteration_skipped(it);
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        status->delivered += task->delivered;
    }
}

static void add_production(mr_core *core, const struct mr_production *p, Millrace__Status *all)
{
    Millrace__ProductionStatus *status = MR_ADD_RECORD(core, all, productions, production_status);
    const struct mr_iteration *it;

    if (status == NULL) {
        return;
    }
    mr_core_set(core, &status->id, p->rec->id);
    mr_core_set(core, &status->scope, p->rec->scope);
    mr_core_set(core, &status->fingerprint, p->rec->fingerprint);
    mr_core_set(core, &status->dataset_id, p->rec->dataset_id);
    mr_core_set(core, &status->closed, p->rec->closed);
    status->mode = p->rec->mode;
    status->guarantee = p->rec->guarantee;
    status->repetition = p->rec->repetition;
    status->endless = p->rec->endless;
    status->lost_splits = mr_iteration_lost_splits(p->hidden);
    status->lost_workers = p->hidden->rec->lost_workers;
    TAILQ_FOREACH(it, &p->users, in_production) {
        add_user(core, it, status);
    }
    mr_status_list_tasks(core, p->hidden, &status->tasks, &status->n_tasks);
    mr_status_list_providers(core, p->hidden, &status->providers, &status->n_providers);
}

static void list_productions(mr_core *core, Millrace__Status *status)
{
    const struct mr_production *p;

    TAILQ_FOREACH(p, &core->production_list, link) {
        add_production(core, p, status);
    }
}

static Millrace__ConsumerStatus *consumer_status(mr_core *core, const struct mr_iteration *it,
                                                 const struct mr_seat *seat)
{
    Millrace__ConsumerStatus *status = MR_NEW_RECORD(core, consumer_status);
    bool there = mr_seat_client(core, it, seat) != NULL;
    char client[9] = "";

    if (status == NULL) {
        return NULL;
    }
    status->index = mr_seat_index(it, seat);
    if (there) {
        snprintf(client, sizeof client, "%.8s", seat->rec->client);
    }
    mr_core_set(core, &status->client, client);
    status->session = seat->rec != NULL ? seat->rec->session : 0;
    status->known = seat->known;
    status->position = seat->position;
    status->silent_ms = seat->known ? (uint64_t)(core->now - seat->heard) : 0;
    status->missed_ms = mr_seat_missed_ms(core, seat);
    return status;
}

static void fill_closing(mr_core *core, const struct mr_iteration *it,
                         Millrace__RoundsStatus *status)
{
    const Millrace__RoundSchedule *schedule = it->rounds->rec->schedule;

    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        const struct mr_task *task = mr_task_find(core, schedule->tasks[i]);

        if (mr_rounds_is_closing(it, i, core)) {
            mr_core_append_string(core, &status->closing, &status->n_closing,
                                  task != NULL ? task->worker->rec->address : schedule->tasks[i]);
        }
    }
}

static Millrace__RoundsStatus *rounds_status(mr_core *core, const struct mr_iteration *it)
{
    const struct mr_coordination *rounds = it->rounds;
    Millrace__RoundsStatus *status;

    if (rounds == NULL) {
        return NULL;
    }
    status = MR_NEW_RECORD(core, rounds_status);
    if (status == NULL) {
        return NULL;
    }
    status->horizon = rounds->rec->horizon;
    status->rounds_per_s = rounds->pace / 1000;
    status->outcomes = rounds->rec->schedule->n_outcomes;
    for (uint32_t i = 0; i < rounds->n; i++) {
        Millrace__ConsumerStatus *one = consumer_status(core, it, &rounds->seats[i]);

        if (MR_APPEND(core, status, consumers, one)) {
            status->position = MR_MAX(status->position, one->position);
        }
    }
    fill_closing(core, it, status);
    return status;
}

static void set_strings(mr_core *core, char ***list, size_t *count, const char *const *from,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_core_append_string(core, list, count, from[i]);
    }
}

static void add_worker(mr_core *core, const struct mr_core_worker *worker, Millrace__Status *all)
{
    Millrace__WorkerStatus *status = MR_ADD_RECORD(core, all, workers, worker_status);
    const struct mr_task *task;

    if (status == NULL) {
        return;
    }
    mr_core_set(core, &status->address, worker->rec->address);
    mr_core_set(core, &status->version, worker->rec->version);
    mr_status_set_short(core, &status->worker, worker->rec->incarnation);
    set_strings(core, &status->tags, &status->n_tags, (const char *const *)worker->rec->tags,
                worker->rec->n_tags);
    status->lost = !mr_core_worker_is_live(worker);
    status->left = status->lost && !mr_core_worker_is_missing(worker);
    if (worker->cache != NULL) {
        status->cache = mr_core_copy(core, &worker->cache->base);
    }
    status->draining = !status->lost && mr_core_worker_is_draining(worker);
    status->silent_ms = (uint64_t)(core->now - worker->seen);
    status->registered_ms = worker->rec->registered_ms;
    status->lost_ms = status->lost ? worker->rec->lost_ms : 0;
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        status->tasks += task->state == MR_TASK_OPEN ? 1 : 0;
    }
}

static void add_dataset(mr_core *core, const struct mr_dataset_entry *dataset,
                        Millrace__Status *all)
{
    Millrace__DatasetStatus *status = MR_ADD_RECORD(core, all, datasets, dataset_status);

    if (status == NULL) {
        return;
    }
    mr_core_set(core, &status->id, dataset->rec->id);
    mr_core_set(core, &status->fingerprint, dataset->rec->fingerprint);
    mr_core_set(core, &status->summary, dataset->rec->summary);
    status->cardinality = dataset->rec->cardinality;
    status->definition_size = dataset->rec->definition_size;
}

static void add_iteration(mr_core *core, const struct mr_iteration *it, Millrace__JobStatus *all)
{
    Millrace__IterationStatus *status = MR_ADD_RECORD(core, all, iterations, iteration_status);

    if (status == NULL) {
        return;
    }
    mr_core_set(core, &status->id, it->rec->id);
    status->repetition = it->rec->repetition;
    status->finished = it->rec->finished;
    status->clients = it->live_clients;
    status->created_ms = it->rec->created_ms;
    status->finished_ms = it->rec->finished_ms;
    status->end = MR_NEW_RECORD(core, iteration_end);
    if (status->end != NULL) {
        mr_iteration_end_fill(core, it, status->end);
    }
    fill_sharing(core, it, status);
    status->rounds = rounds_status(core, it);
    mr_status_list_tasks(core, it, &status->tasks, &status->n_tasks);
    mr_status_list_providers(core, it, &status->providers, &status->n_providers);
}

static void add_job(mr_core *core, const struct mr_job *job, Millrace__Status *all)
{
    Millrace__JobStatus *status = MR_ADD_RECORD(core, all, jobs, job_status);
    const struct mr_iteration *it;

    if (status == NULL) {
        return;
    }
    mr_core_set(core, &status->id, job->rec->id);
    mr_core_set(core, &status->name, job->rec->name);
    mr_core_set(core, &status->dataset_id, job->rec->dataset_id);
    mr_core_set(core, &status->target_workers, job->rec->target_workers);
    mr_core_set(core, &status->trainer, job->rec->trainer);
    mr_core_set(core, &status->unshared, job->rec->unshared);
    status->sharing = job->rec->sharing;
    status->lag = job->rec->lag;
    status->num_consumers = job->rec->num_consumers;
    status->last_round = job->rec->last_round;
    status->mode = job->rec->mode;
    status->guarantee = job->rec->guarantee;
    status->ended_below = job->rec->ended_below;
    status->why = mr_status_why(core, job);
    status->created_ms = job->rec->created_ms;
    status->released_ms = job->rec->released_ms;
    TAILQ_FOREACH(it, &job->iterations, in_job) {
        add_iteration(core, it, status);
    }
}

/* Jobs that are set aside: their names, and why. */
static void list_flawed(mr_core *core, Millrace__Status *status)
{
    char name[MR_KEY_SIZE], id[MR_KEY_SIZE]; /* which may be any bytes */
    const struct mr_flaw *flaw;

    TAILQ_FOREACH(flaw, &core->flaw_list, link) {
        Millrace__JobStatus *one;

        if (strncmp(flaw->key, "jobs/", 5) != 0) {
            continue;
        }
        one = MR_ADD_RECORD(core, status, jobs, job_status);
        if (one == NULL) {
            return;
        }
        mr_line_copy(flaw->key + 5, name, sizeof name);
        mr_line_copy(flaw->by_id != NULL ? flaw->by_id + 1 : "", id, sizeof id);
        mr_core_set(core, &one->name, name);
        mr_core_set(core, &one->id, id);
        mr_core_set(core, &one->set_aside, flaw->why);
    }
}

static void list_objects(mr_core *core, Millrace__Status *status)
{
    const struct mr_dataset_entry *dataset;
    const struct mr_core_worker *worker;
    const struct mr_job *job;

    TAILQ_FOREACH(worker, &core->worker_list, link) {
        add_worker(core, worker, status);
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link) {
        add_dataset(core, dataset, status);
    }
    TAILQ_FOREACH(job, &core->job_list, link) {
        add_job(core, job, status);
    }
    list_flawed(core, status);
}

int mr_core_do_status(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const struct mr_status_about *about = command->status;
    Millrace__Status *status = MR_NEW_RECORD(core, status);
    Millrace__StatusReply *reply;
    char *json = NULL;

    if (status == NULL) {
        return MR_OK; /* the core has failed */
    }
    mr_core_set(core, &status->cluster, about->cluster);
    mr_core_set(core, &status->incarnation, about->incarnation);
    mr_core_set(core, &status->leader, about->leader);
    mr_core_set(core, &status->version, about->version);
    status->epoch = core->config.epoch;
    status->store_bytes_per_s = (uint64_t)about->store_bytes_per_s;
    status->grant_ms = (uint64_t)core->grant_ms;
    status->store_full = core->full;
    status->store_silent_ms = (uint64_t)about->store_silent_ms;
    status->wall_ms = (uint64_t)core->wall_ms;
    set_strings(core, &status->dispatchers, &status->n_dispatchers, about->dispatchers,
                about->ndispatchers);
    list_objects(core, status);
    list_productions(core, status);
    if (core->failed == 0) {
        int rc = mr_pbjson_write(&status->base, &json, NULL, err);

        if (rc < 0) {
            mr_core_fail(core, rc, err);
        }
    }
    mr_record_free(status);
    reply = mr_core_reply(core, true /* fenced: it may deny */);
    if (reply == NULL) {
        mr_free(json);
        return MR_OK;
    }
    reply->json = json;
    core->out->effects[core->out->neffects - 1].from_memory = about->store_silent_ms > 0;
    return MR_OK;
}
