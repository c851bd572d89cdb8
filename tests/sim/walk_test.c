/*
 * Random walks: whole clusters under faults, each from a seed, judged all the way by the checker. A failure prints the
 * seed; MR_SEED=<seed> runs that one alone and prints its transcript, MR_SEEDS=<n> changes how many are run.
 *
 * The same walks with a bug put in must be objected to: a checker that accepts those would prove nothing.
 */
#include "sim.h"

#include "base/alloc.h"

#include <millrace/dataset.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 1000
#define SEEDS_WITH_BUG 2000
#define FAULTS_MS 20000
#define PATIENCE_MS 400000

static const struct sim_faults mild = {
    .loss_percent = 2,
    .duplicate_percent = 5,
    .slow_percent = 2,
    .answer_loss_percent = 5,
    .kill_replicas = true,
    .freeze_replicas = true,
};

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
        p->repetitions = job == 0 ? 1 + sim_draw(sim, 2) : 2;
    }
}

/* Long after everybody has read everything: whatever is left in the store is meant to stay. */
static void check_nothing_is_left(struct sim *sim)
{
    static const char *const gone[] = {"clients/", "iterations/", "tasks/", "cursors/", "grants/", "jobs/~"};
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

static void run(struct sim *sim, uint64_t seed, enum sim_bug bug, bool record)
{
    sim_init(sim, seed);
    sim->record = record;
    sim->bug = bug;
    sim->faults = mild;
    sim->faults.store_away = sim_chance(sim, 50);
    sim->faults.kill_workers = sim_chance(sim, 50);
    sim->faults.freeze_workers = sim_chance(sim, 30);
    sim->faults.kill_clients = sim_chance(sim, 50);
    sim->job_gc_ms = sim_chance(sim, 50) ? 0 : 1500;
    sim_add_workers(sim, 1 + (int)sim_draw(sim, 4));
    sim_add_clients(sim, 1 + (int)sim_draw(sim, 5));
    plan(sim);
    sim_start_clients(sim, 10000);
    sim_start_faults(sim, FAULTS_MS);
    while (sim->violation[0] == '\0' && !sim_all_done(sim) && sim->now < PATIENCE_MS) {
        sim_run_until(sim, sim->now + 1000);
    }
    if (sim->violation[0] == '\0' && !sim_all_done(sim)) {
        sim_violation(sim, "after %d s somebody still reads", PATIENCE_MS / 1000);
    }
    if (sim->violation[0] == '\0' && bug == SIM_BUG_NONE && seed % 10 == 0) {
        check_nothing_is_left(sim);
    }
}

/* The last lines of a long transcript tell most. */
static void print_transcript(const struct sim *sim)
{
    size_t from = sim->transcript_len > 60000 ? sim->transcript_len - 60000 : 0;

    if (sim->transcript != NULL) {
        fputs(sim->transcript + from, stdout);
    }
}

static void walks_hold(void **state)
{
    const char *only = getenv("MR_SEED");
    const char *many = getenv("MR_SEEDS");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    uint64_t n = only != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : SEEDS;
    uint64_t grants = 0, ends = 0, takeovers = 0, lossy = 0;
    struct sim *sim = mr_calloc(1, sizeof *sim);

    (void)state;
    for (uint64_t seed = first; seed < first + n; seed++) {
        run(sim, seed, SIM_BUG_NONE, only != NULL);
        if (only != NULL) {
            print_transcript(sim);
        }
        if (sim->violation[0] != '\0') {
            char why[sizeof sim->violation];

            snprintf(why, sizeof why, "%s", sim->violation);
            sim_free(sim);
            mr_free(sim);
            fail_msg("MR_SEED=%llu: %s", (unsigned long long)seed, why);
        }
        grants += sim->grants;
        ends += sim->ends;
        takeovers += sim->takeovers;
        lossy += sim->workers_lost ? 1 : 0;
        sim_free(sim);
    }
    mr_free(sim);
    print_message("%llu walks: %llu grants, %llu ends of repetitions, %llu takeovers, workers lost in %llu\n",
                  (unsigned long long)n, (unsigned long long)grants, (unsigned long long)ends,
                  (unsigned long long)takeovers, (unsigned long long)lossy);
    if (only == NULL) { /* what was to be tried was tried */
        assert_true(grants > 10 * n);
        assert_true(ends > n);
        assert_true(takeovers > 2 * n);
        assert_true(lossy > n / 10);
        assert_true(lossy < n);
    }
}

static void is_caught(enum sim_bug bug)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    bool caught = false;

    for (uint64_t seed = 1; seed <= SEEDS_WITH_BUG && !caught; seed++) {
        run(sim, seed, bug, false);
        caught = sim->violation[0] != '\0';
        if (caught) {
            print_message("seed %llu: %s\n", (unsigned long long)seed, sim->violation);
        }
        sim_free(sim);
    }
    mr_free(sim);
    assert_true(caught);
}

static void without_the_fence(void **state)
{
    (void)state;
    is_caught(SIM_BUG_NO_FENCE);
}

static void answering_before_the_commit(void **state)
{
    (void)state;
    is_caught(SIM_BUG_ANSWER_EARLY);
}

static void deciding_on_committed_state(void **state)
{
    (void)state;
    is_caught(SIM_BUG_DECIDE_ON_COMMITTED);
}

static void settling_by_a_read(void **state)
{
    (void)state;
    is_caught(SIM_BUG_READ_SETTLES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_hold),
        cmocka_unit_test(without_the_fence),
        cmocka_unit_test(answering_before_the_commit),
        cmocka_unit_test(deciding_on_committed_state),
        cmocka_unit_test(settling_by_a_read),
    };

    if (getenv("MR_SEED") != NULL) {
        cmocka_set_test_filter("walks_hold");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
