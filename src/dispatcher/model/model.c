/* The model as a whole: empty, and gone. */
#include "dispatcher/model/apply.h"

void mr_model_init(mr_core *core)
{
    mr_hosts_init(core);
    TAILQ_INIT(&core->production_list);
    TAILQ_INIT(&core->dataset_list);
    TAILQ_INIT(&core->job_list);
    TAILQ_INIT(&core->iteration_list);
    TAILQ_INIT(&core->marked);
    TAILQ_INIT(&core->changed_iterations);
    TAILQ_INIT(&core->changed_workers);
    TAILQ_INIT(&core->worker_list);
    TAILQ_INIT(&core->newcomers);
    TAILQ_INIT(&core->client_list);
    STAILQ_INIT(&core->left_over);
    TAILQ_INIT(&core->flaw_list);
}

static void free_blobs(mr_core *core)
{
    for (size_t i = 0; i < core->blobs.cap; i++) {
        if (core->blobs.slots[i].key != NULL) {
            mr_blob_free(core->blobs.slots[i].value);
        }
    }
}

void mr_model_free(mr_core *core)
{
    struct mr_map *maps[] = {
        &core->blobs,      &core->datasets,    &core->jobs,    &core->jobs_by_id,
        &core->iterations, &core->tasks_by_id, &core->workers, &core->workers_by_address,
        &core->clients,    &core->productions, &core->readers, &core->workers_by_ref,
        &core->trainers,
    };
    struct mr_iteration *it;
    struct mr_client *client;
    struct mr_core_worker *worker;
    struct mr_job *job;
    struct mr_production *p;
    struct mr_dataset_entry *dataset;
    struct mr_left_over *left;

    while ((it = TAILQ_FIRST(&core->iteration_list)) != NULL) {
        TAILQ_REMOVE(&core->iteration_list, it, link);
        mr_iteration_free(it);
    }
    while ((client = TAILQ_FIRST(&core->client_list)) != NULL) {
        TAILQ_REMOVE(&core->client_list, client, link);
        mr_client_free(client);
    }
    mr_newcomers_free(core);
    while ((worker = TAILQ_FIRST(&core->worker_list)) != NULL) {
        TAILQ_REMOVE(&core->worker_list, worker, link);
        mr_core_worker_free(worker);
    }
    while ((job = TAILQ_FIRST(&core->job_list)) != NULL) {
        TAILQ_REMOVE(&core->job_list, job, link);
        mr_trainers_remove(core, job);
        mr_job_free(job);
    }
    while ((p = TAILQ_FIRST(&core->production_list)) != NULL) {
        TAILQ_REMOVE(&core->production_list, p, link);
        mr_production_free(p);
    }
    while ((dataset = TAILQ_FIRST(&core->dataset_list)) != NULL) {
        TAILQ_REMOVE(&core->dataset_list, dataset, link);
        mr_dataset_free(dataset);
    }
    while ((left = STAILQ_FIRST(&core->left_over)) != NULL) {
        STAILQ_REMOVE_HEAD(&core->left_over, link);
        mr_free(left);
    }
    free_blobs(core);
    mr_record_free(core->schema);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        mr_map_free(maps[i]);
    }
    mr_flaws_free(core);
    mr_free(core->alarms);
    mr_hosts_free(core);
}
