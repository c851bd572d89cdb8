/* A cluster: who takes part, from the beginning to the end. */
#include "rounds.h"

#include "base/log.h"

static void make_datasets(struct sim *sim)
{
    static const struct sim_dataset list[SIM_DATASETS] = {
        {.id = "numbers", .nproviders = 1, .splits = {100}, .passes = 1},
        {.id = "pairs", .nproviders = 2, .splits = {30, 50}, .passes = 1},
        {.id = "again", .nproviders = 1, .splits = {20}, .passes = 3},
        {.id = "few", .nproviders = 1, .splits = {3}, .passes = 1},
        {.id = "poison", .nproviders = 1, .splits = {12}, .passes = 1, .poison = 5},
        {.id = "bitter",
         .nproviders = 1,
         .splits = {12},
         .passes = 1,
         .poison = 7,
         .ignores_errors = true},
    };

    for (int i = 0; i < SIM_DATASETS; i++) {
        sim->datasets[i] = list[i];
        snprintf(sim->datasets[i].fingerprint, sizeof sim->datasets[i].fingerprint, "%032x", i + 1);
    }
}

void sim_init(struct sim *sim, uint64_t seed)
{
    memset(sim, 0, sizeof *sim);
    mr_log_init(MR_LOG_OFF, MR_LOG_TEXT, "sim"); /* the transcript says what happens */
    sim->seed = seed;
    sim->plain = seed == 0;
    mr_rng_seed(&sim->rng, seed);
    sim->befall = sim_befall;
    sim_store_init(sim, sim_check_batch);
    sim->ahead = 24;
    make_datasets(sim);
    for (int i = 0; i < SIM_CLIENTS_MAX; i++) {
        sim->clients[i].sim = sim;
    }
    for (int i = 0; i < SIM_REPLICAS; i++) {
        sim->replicas[i].number = i;
        sim_replica_start(sim, &sim->replicas[i]);
    }
}

void sim_add_workers(struct sim *sim, int n)
{
    for (; n > 0; n--) {
        struct sim_worker *worker = &sim->workers[sim->nworkers];

        MR_ASSERT(sim->nworkers < SIM_WORKERS_MAX);
        worker->number = sim->nworkers++;
        sim_worker_start(sim, worker);
    }
}

void sim_add_clients(struct sim *sim, int n)
{
    for (; n > 0; n--) {
        MR_ASSERT(sim->nclients < SIM_CLIENTS_MAX);
        sim->clients[sim->nclients].number = sim->nclients;
        sim->nclients++;
    }
}

void sim_client_come(struct sim *sim, void *arg)
{
    sim_client_start(sim, arg);
}

void sim_start_clients(struct sim *sim, int64_t within_ms)
{
    for (int i = 0; i < sim->nclients; i++) {
        sim_after(sim, (int64_t)sim_draw(sim, (uint64_t)within_ms), NULL, sim_client_come,
                  &sim->clients[i], false);
    }
}

void sim_free(struct sim *sim)
{
    for (int i = 0; i < SIM_REPLICAS; i++) {
        sim_replica_stop(sim, &sim->replicas[i]);
    }
    for (int i = 0; i < sim->nworkers; i++) {
        sim_call_cancel(&sim->workers[i].control);
        sim_worker_drop_tasks(&sim->workers[i]);
    }
    for (int i = 0; i < sim->nclients; i++) {
        sim_call_cancel(&sim->clients[i].control);
        sim_reader_reset(&sim->clients[i]);
    }
    sim_world_free(sim);
    sim_store_free(sim);
    judge_free(sim->rounds.judge);
    sim_check_free(sim);
}
