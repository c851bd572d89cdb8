#include "walk.h"

#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 400000

static const char *const rare_names[][2] = {
#define X(name, text) {#name, text},
    SIM_RARES(X)
#undef X
};

static const char *const bug_names[][2] = {{"NONE", "nothing is wrong"},
#define X(name, text) {#name, text},
                                           SIM_BUGS(X)
#undef X
};

const char *sim_rare_name(enum sim_rare rare)
{
    return rare_names[rare][0];
}

const char *sim_rare_text(enum sim_rare rare)
{
    return rare_names[rare][1];
}

const char *sim_bug_name(enum sim_bug bug)
{
    return bug_names[bug][0];
}

const char *sim_bug_text(enum sim_bug bug)
{
    return bug_names[bug][1];
}

enum sim_bug sim_bug_named(const char *name)
{
    int bug = 0;

    while (bug < SIM_BUG_COUNT && strcmp(name, bug_names[bug][0]) != 0) {
        bug++;
    }
    return (enum sim_bug)bug;
}

/* ---------------------------------------------------------------- a walk */

/* Not everything goes wrong in every walk: what is common would hide what comes of the rest. */
static void draw_faults(struct sim *sim)
{
    sim->faults = (struct sim_faults){
        .loss_percent = (unsigned)sim_draw(sim, 4),
        .duplicate_percent = (unsigned)sim_draw(sim, 8),
        .slow_percent = (unsigned)sim_draw(sim, 4),
        .answer_loss_percent = (unsigned)sim_draw(sim, 10),
        .minutes_permille = sim_chance(sim, 30) ? 5 : 0,
        .refusal_permille = sim_chance(sim, 20) ? 10 : 0,
        .late_turn_permille = sim_chance(sim, 60) ? (unsigned)sim_draw(sim, 400) : 0,
        .pace_ms = sim_chance(sim, 30) ? 900 : 2500,
        .kill_replicas = sim_chance(sim, 75),
        .freeze_replicas = sim_chance(sim, 75),
        .kill_workers = sim_chance(sim, 50),
        .freeze_workers = sim_chance(sim, 50),
        .kill_clients = sim_chance(sim, 50),
        .freeze_clients = sim_chance(sim, 30),
        .store_away = sim_chance(sim, 50),
        .store_full = sim_chance(sim, 20),
        .cuts = sim_chance(sim, 50),
        .wall_jumps = sim_chance(sim, 20),
        .drain_workers = sim_chance(sim, 50),
    };
}

/* Of several sources only at_most_once can be had. */
static bool may_repeat(struct sim *sim, const struct sim_plan *p, unsigned job)
{
    bool one_source = sim->datasets[p->dataset].nproviders == 1;

    return p->dynamic && one_source && (job == 0 ? sim_chance(sim, 60) : sim->seed % 3 != 0);
}

/* Several jobs that want the same, or trainers of one job. */
static void plan_sharing(struct sim *sim)
{
    bool cached = sim_chance(sim, 30);

    for (int i = 0; i < sim->nclients; i++) {
        struct sim_plan *p = &sim->clients[i].plan;
        unsigned job = p->job[0] == '\0' ? 0 : p->job[0] == 't' ? 1 : 2;

        p->shares = job != 0 || sim_chance(sim, 70);
        p->repeats = false;
        p->dynamic = p->dynamic || sim->seed % 4 != 0;
        if (p->shares && sim->seed % 5 != 0) {
            p->dataset = (int)(sim->seed % 4);
        }
        p->waits = p->shares && (job == 0 ? sim_chance(sim, 50) : (sim->seed / 3 + job) % 2 == 0);
        if (cached && job != 0) {
            snprintf(p->trainer, sizeof p->trainer, "t%u", job);
            snprintf(p->job, sizeof p->job, "train");
            p->dataset = (int)(sim->seed % SIM_DATASETS);
            p->dynamic = true; /* trainers agree on all of it */
        }
    }
}

static void plan(struct sim *sim)
{
    static const char *const jobs[] = {"", "train", "eval"};

    for (int i = 0; i < sim->nclients; i++) {
        struct sim_plan *p = &sim->clients[i].plan;
        unsigned job = (unsigned)sim_draw(sim, 3);

        snprintf(p->job, sizeof p->job, "%s", jobs[job]);
        /* Who shares a name agrees on the rest. */
        p->dataset = job == 0 ? (int)sim_draw(sim, SIM_DATASETS) : (int)((sim->seed + job) % SIM_DATASETS);
        p->dynamic = job == 0 ? sim_chance(sim, 60) : job == 1;
        p->repeats = may_repeat(sim, p, job);
        p->slow = sim_chance(sim, 30);
        p->repetitions = job == 0 ? 1 + sim_draw(sim, 2) : 2;
    }
}

/* Long after everybody has read everything: whatever is left in the store is meant to stay. */
static void check_nothing_is_left(struct sim *sim)
{
    static const char *const gone[] = {"clients/", "iterations/", "tasks/",      "cursors/",
                                       "grants/",  "jobs/~",      "productions/"};
    size_t lives = 0;

    sim_run_until(sim, sim->now + 1500 * 1000);
    for (size_t i = 0; i < sim->store.count; i++) {
        const char *key = sim->store.kvs[i].key;

        lives += strncmp(key, "workers/", 8) == 0 ? 1 : 0;
        for (size_t k = 0; k < sizeof gone / sizeof gone[0]; k++) {
            if (strncmp(key, gone[k], strlen(gone[k])) == 0) {
                sim_violation(sim, "'%s' stays for ever", key);
            }
        }
    }
    if (lives != (size_t)sim->nworkers) {
        sim_violation(sim, "%zu records of %d workers stay", lives, sim->nworkers);
    }
}

void sim_walk(struct sim *sim, uint64_t seed, enum sim_bug bug, bool record)
{
    bool is_long = seed % 10 == 1; /* so that what comes minutes late still finds somebody */
    int64_t faults_ms = is_long ? 150000 : 20000;

    sim_init(sim, seed);
    sim->record = record;
    sim->bug = bug;
    draw_faults(sim);
    if (is_long) {
        sim->faults.pace_ms *= 5;
    }
    sim->gc_dynamic = sim_chance(sim, 30);
    sim->job_gc_ms = !sim->gc_dynamic && sim_chance(sim, 50) ? 0 : 1500;
    sim_add_workers(sim, 1 + (int)sim_draw(sim, 4));
    sim_add_clients(sim, 1 + (int)sim_draw(sim, 5));
    plan(sim);
    if (seed % 3 == 0) {
        plan_sharing(sim);
    }
    sim_start_clients(sim, faults_ms / 2);
    sim_start_faults(sim, faults_ms);
    while (sim->violation[0] == '\0' && !sim_all_done(sim) && sim->now < PATIENCE_MS) {
        sim_run_until(sim, sim->now + 1000);
    }
    if (sim->violation[0] == '\0' && !sim_all_done(sim)) {
        sim_violation(sim, "after %d s somebody still reads", PATIENCE_MS / 1000);
    }
    if (sim->violation[0] == '\0') {
        sim_view_all_over(sim);
    }
    if (sim->violation[0] == '\0' && bug == SIM_BUG_NONE && seed % 10 == 0) {
        check_nothing_is_left(sim);
    }
}

void sim_tally_add(struct sim_tally *tally, const struct sim *sim)
{
    tally->walks++;
    tally->grants += sim->grants;
    tally->ends += sim->ends;
    tally->takeovers += sim->takeovers;
    tally->lossy += sim->workers_lost ? 1 : 0;
    for (int i = 0; i < SIM_RARE_COUNT; i++) {
        tally->rares[i] += sim->rares[i];
    }
}
