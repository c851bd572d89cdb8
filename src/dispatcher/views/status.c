/* The state for people and tools, as one JSON document (docs/run/status.md). Ids that act as
 * capabilities are cut short. */
#include "dispatcher/model/flaws.h"
#include "dispatcher/model/iteration.h"
#include "dispatcher/model/job.h"
#include "dispatcher/model/model.h"
#include "dispatcher/model/task.h"
#include "dispatcher/views/views.h"

#include "json/pbjson.h"

#include <string.h>

/* The state for people and tools, as one JSON document (docs/run/status.md). Ids that act as
 * capabilities are cut short. */

static void set_strings(mr_core *core, char ***list, size_t *count, const char *const *from,
                        size_t n)
{
    *list = mr_status_array(core, n);
    for (size_t i = 0; *list != NULL && i < n; i++) {
        *count = i + 1;
        mr_core_set_element(core, &(*list)[i], from[i]);
    }
}

static Millrace__WorkerStatus *worker_status(mr_core *core, const struct mr_core_worker *worker)
{
    Millrace__WorkerStatus *status = mr_core_new_record(core, &millrace__worker_status__descriptor);
    const struct mr_task *task;

    if (status == NULL) {
        return NULL;
    }
    mr_core_set(core, &status->address, worker->rec->address);
    mr_core_set(core, &status->version, worker->rec->version);
    mr_status_set_short(core, &status->worker, worker->rec->incarnation);
    set_strings(core, &status->tags, &status->n_tags, (const char *const *)worker->rec->tags,
                worker->rec->n_tags);
    status->lost = !mr_core_worker_is_live(worker);
    status->left = status->lost && !mr_core_worker_is_missing(worker);
    if (worker->cache != NULL) {
        status->cache = mr_status_cache(core, worker->cache);
    }
    status->draining = !status->lost && mr_core_worker_is_draining(worker);
    status->silent_ms = (uint64_t)(core->now - worker->seen);
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        status->tasks += task->state == MR_TASK_OPEN ? 1 : 0;
    }
    return status;
}

static Millrace__DatasetStatus *dataset_status(mr_core *core,
                                               const struct mr_dataset_entry *dataset)
{
    Millrace__DatasetStatus *status =
        mr_core_new_record(core, &millrace__dataset_status__descriptor);

    if (status == NULL) {
        return NULL;
    }
    mr_core_set(core, &status->id, dataset->rec->id);
    mr_core_set(core, &status->fingerprint, dataset->rec->fingerprint);
    mr_core_set(core, &status->summary, dataset->rec->summary);
    status->cardinality = dataset->rec->cardinality;
    status->definition_size = dataset->rec->definition_size;
    return status;
}

static Millrace__IterationStatus *iteration_status(mr_core *core, const struct mr_iteration *it)
{
    Millrace__IterationStatus *status =
        mr_core_new_record(core, &millrace__iteration_status__descriptor);

    if (status == NULL) {
        return NULL;
    }
    mr_core_set(core, &status->id, it->rec->id);
    status->repetition = it->rec->repetition;
    status->finished = it->rec->finished;
    status->clients = it->live_clients;
    status->end = mr_core_new_record(core, &millrace__iteration_end__descriptor);
    if (status->end != NULL) {
        mr_iteration_end_fill(core, it, status->end);
    }
    mr_status_sharing(core, it, status);
    status->rounds = mr_rounds_status(core, it);
    mr_status_list_tasks(core, it, &status->tasks, &status->n_tasks);
    mr_status_list_providers(core, it, &status->providers, &status->n_providers);
    return status;
}

static Millrace__JobStatus *job_status(mr_core *core, const struct mr_job *job)
{
    Millrace__JobStatus *status = mr_core_new_record(core, &millrace__job_status__descriptor);
    const struct mr_iteration *it;

    if (status == NULL) {
        return NULL;
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
    status->iterations = mr_status_array(core, job->niterations);
    if (status->iterations == NULL) {
        return status;
    }
    TAILQ_FOREACH(it, &job->iterations, in_job)
    {
        Millrace__IterationStatus *one = iteration_status(core, it);

        if (one != NULL) {
            status->iterations[status->n_iterations++] = one;
        }
    }
    return status;
}

/* Jobs that are set aside: their names, and why. */
static void list_flawed(mr_core *core, Millrace__Status *status)
{
    char name[MR_KEY_SIZE], id[MR_KEY_SIZE]; /* which may be any bytes */
    const struct mr_flaw *flaw;

    TAILQ_FOREACH(flaw, &core->flaw_list, link)
    {
        Millrace__JobStatus *one;

        if (strncmp(flaw->key, "jobs/", 5) != 0) {
            continue;
        }
        one = mr_core_new_record(core, &millrace__job_status__descriptor);
        if (!mr_core_append(core, &status->jobs, status->n_jobs, one)) {
            return;
        }
        status->n_jobs++;
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

    status->workers = mr_status_array(core, core->nworkers);
    status->datasets = mr_status_array(core, core->datasets.count);
    status->jobs = mr_status_array(core, core->jobs.count);
    if (core->failed != 0) {
        return;
    }
    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        Millrace__WorkerStatus *one = worker_status(core, worker);

        if (one != NULL) {
            status->workers[status->n_workers++] = one;
        }
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link)
    {
        Millrace__DatasetStatus *one = dataset_status(core, dataset);

        if (one != NULL) {
            status->datasets[status->n_datasets++] = one;
        }
    }
    TAILQ_FOREACH(job, &core->job_list, link)
    {
        Millrace__JobStatus *one = job_status(core, job);

        if (one != NULL) {
            status->jobs[status->n_jobs++] = one;
        }
    }
    list_flawed(core, status);
}

void mr_core_do_status(mr_core *core, const struct mr_status_about *about)
{
    Millrace__Status *status = mr_core_new_record(core, &millrace__status__descriptor);
    Millrace__StatusReply *reply;
    char *json = NULL;
    mr_error err;

    if (status == NULL) {
        return;
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
    set_strings(core, &status->dispatchers, &status->n_dispatchers, about->dispatchers,
                about->ndispatchers);
    list_objects(core, status);
    mr_status_productions(core, status);
    if (core->failed == 0) {
        int rc = mr_pbjson_write(&status->base, &json, NULL, &err);

        if (rc < 0) {
            mr_core_fail(core, rc, &err);
        }
    }
    mr_record_free(status);
    if (core->failed != 0) {
        return;
    }
    reply =
        mr_core_reply(core, &millrace__status_reply__descriptor, true /* fenced: it may deny */);
    if (reply == NULL) {
        mr_free(json);
        return;
    }
    reply->json = json;
    core->out->effects[core->out->neffects - 1].from_memory = about->store_silent_ms > 0;
}
