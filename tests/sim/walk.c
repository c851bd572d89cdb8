#include "walk.h"
#include "rounds.h"

#define PATIENCE_MS 400000

static const char *const rare_texts[] = {
#define X(name, text) text,
    SIM_RARES(X)
#undef X
};

static const char *const bug_names[][2] = {{"NONE", "nothing is wrong"},
#define X(name, text) {#name, text},
                                           SIM_BUGS(X)
#undef X
};

const char *sim_rare_text(enum sim_rare rare)
{
    return rare_texts[rare];
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

/* Long after everybody has read everything: whatever is left in the store is meant to stay. */
static void check_nothing_is_left(struct sim *sim)
{
    static const char *const gone[] = {"clients/", "iterations/", "tasks/",      "cursors/",
                                       "grants/",  "jobs/~",      "productions/"};
    size_t lives = 0;

    sim_run_until(sim, sim->now + 1500 * 1000);
    for (size_t k = 0; k < sizeof gone / sizeof gone[0]; k++) {
        if (sim_store_count(sim, gone[k]) > 0) {
            sim_violation(sim, "keys below '%s' stay for ever", gone[k]);
        }
    }
    lives = sim_store_count(sim, "workers/");
    if (lives != (size_t)sim->nworkers) {
        sim_violation(sim, "%zu records of %d workers stay", lives, sim->nworkers);
    }
}

/* Until all have read everything. */
static void read_all(struct sim *sim)
{
    int64_t until = sim->now + PATIENCE_MS;

    while (sim->violation[0] == '\0' && !sim_all_done(sim) && sim->now < until) {
        sim_run_until(sim, sim->now + 1000);
    }
    if (sim->violation[0] == '\0' && !sim_all_done(sim)) {
        sim_violation(sim, "after %d s somebody still reads", PATIENCE_MS / 1000);
    }
    if (sim->violation[0] == '\0') {
        sim_view_all_over(sim);
    }
}

void sim_walk(struct sim *sim, uint64_t seed, enum sim_bug bug, bool record)
{
    bool is_long = seed % 10 == 1; /* so that what comes minutes late still finds somebody */
    int64_t faults_ms = is_long ? 150000 : 20000;

    sim_init(sim, seed);
    sim->record = record;
    sim->bug = bug;
    sim_swarm(sim);
    if (is_long) {
        sim->faults.pace_ms *= 5;
    }
    if (seed % 12 == 0) { /* one about sharing; no other is like that for long enough */
        sim_strand(sim, sim->start_ms + 500);
    }
    sim_start_clients(sim, sim->start_ms);
    sim_start_faults(sim, faults_ms);
    read_all(sim);
    if (sim->violation[0] == '\0' && bug == SIM_BUG_NONE && seed % 10 == 0) {
        check_nothing_is_left(sim);
    }
}

#define ROUNDS_FAULTS_MS 40000
#define ROUNDS_QUIET_MS 250000
#define ROUNDS_PROGRESS 50 /* that everybody is to return in the quiet */

void sim_walk_rounds(struct sim *sim, uint64_t seed, enum sim_bug bug, bool record)
{
    uint64_t before[SIM_SEATS_MAX];
    bool done = false;

    sim_init(sim, seed);
    sim->record = record;
    sim->bug = bug;
    sim_swarm_rounds(sim);
    sim_start_faults(sim, ROUNDS_FAULTS_MS);
    sim_run_until(sim, ROUNDS_FAULTS_MS);
    sim->grain_ms = 1;
    for (uint32_t i = 0; i < sim->rounds.consumers; i++) {
        before[i] = judge_rounds(sim->rounds.judge, i);
    }
    while (sim->violation[0] == '\0' && !done && sim->now < ROUNDS_FAULTS_MS + ROUNDS_QUIET_MS) {
        sim_run_until(sim, sim->now + 1000);
        done = sim->rounds.groups > 0 ? sim_all_done(sim)
                                      : sim_rounds_progressed(sim, before, ROUNDS_PROGRESS);
    }
    if (sim->violation[0] == '\0' && !done) {
        sim_violation(sim, "coordinated reads: nobody gets on");
    }
}

bool sim_bug_is_of_rounds(enum sim_bug bug)
{
    return bug >= SIM_BUG_ROUNDS_COMPLETE_SKIPPED && bug < SIM_BUG_COUNT;
}

/* ---------------------------------------------------------------- a day */

/* Who was lost in an earlier hour excuses nothing in this one; what was read then is judged. */
static void close_the_books(struct sim *sim)
{
    sim_views_free(sim);
    sim->workers_lost = sim->clients_lost = false;
    sim->rares[SIM_RARE_UNREACHABLE] = sim->rares[SIM_RARE_CLIENT_LOST] = 0;
}

void sim_hours(struct sim *sim, uint64_t seed, unsigned hours, bool record)
{
    sim_init(sim, seed);
    sim->record = record;
    sim_swarm(sim);
    for (unsigned hour = 0; hour < hours && sim->violation[0] == '\0'; hour++) {
        bool is_calm = hour % 4 == 3;

        if (hour > 0) {
            sim_swarm_again(sim, hour);
            close_the_books(sim);
        }
        for (int i = 0; i < sim->nclients && hour > 0; i++) {
            sim_client_again(&sim->clients[i]);
        }
        sim_start_clients(sim, sim->start_ms);
        if (is_calm) {
            sim->faults = (struct sim_faults){0};
        } else {
            sim_start_faults(sim, sim->now + 150000);
        }
        read_all(sim);
        if (sim->violation[0] == '\0') {
            check_nothing_is_left(sim);
        }
        if (sim->violation[0] == '\0') {
            sim_run_until(sim, (int64_t)(hour + 1) * 3600 * 1000);
        }
    }
}

void sim_tally_add(struct sim_tally *tally, const struct sim *sim)
{
    tally->walks++;
    tally->ms += sim->now;
    tally->grants += sim->grants;
    tally->ends += sim->ends;
    tally->takeovers += sim->takeovers;
    tally->lossy += sim->workers_lost ? 1 : 0;
    for (int i = 0; i < SIM_RARE_COUNT; i++) {
        tally->rares[i] += sim->rares[i];
    }
}
