/*
 * Random walks, a thousand of them, and the same walks with a bug put in, which the checker must
 * object to: one that accepts those would prove nothing. A failure prints the seed and the command
 * that shows it.
 */
#include "walk.h"

#include <setjmp.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1 /* many times: here it is memory that is looked at */
#define SEEDS 200
#else
#define SLOW 0
#define SEEDS 1000
#endif
#define SEEDS_WITH_BUG 2500
#define HOURS 6

static void walks_hold(void **state)
{
    struct sim_tally tally = {0};
    struct sim *sim = mr_calloc(1, sizeof *sim);

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char why[sizeof sim->violation];

        sim_walk(sim, seed, SIM_BUG_NONE, false);
        sim_tally_add(&tally, sim);
        snprintf(why, sizeof why, "%s", sim->violation);
        sim_free(sim);
        if (why[0] != '\0') {
            mr_free(sim);
            fail_msg("seed %llu: %s (make sim SEED=%llu)", (unsigned long long)seed, why,
                     (unsigned long long)seed);
        }
    }
    mr_free(sim);
    /* What was to be tried was tried. */
    assert_true(tally.grants > 10 * tally.walks);
    assert_true(tally.ends > tally.walks);
    assert_true(tally.lossy < tally.walks);
    for (int i = 0; i < SIM_RARE_ROUNDS_CLOSING_TAKEOVER && !SLOW; i++) {
        if (tally.rares[i] == 0) {
            fail_msg("never in %d walks: %s", SEEDS, sim_rare_text((enum sim_rare)i));
        }
    }
}

/* One cluster for some hours; make sim HOURS=24 for a day. */
static void hours_hold(void **state)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    char why[sizeof sim->violation];

    sim_hours(sim, 1, HOURS, false);
    snprintf(why, sizeof why, "%s", sim->violation);
    sim_free(sim);
    mr_free(sim);
    if (why[0] != '\0') {
        fail_msg("%s (make sim HOURS=%d SEED=1)", why, HOURS);
    }
}

static void is_caught(void **state)
{
    enum sim_bug bug = *(const enum sim_bug *)*state;
    struct sim *sim = mr_calloc(1, sizeof *sim);
    bool caught = false;

    for (uint64_t seed = 1; seed <= SEEDS_WITH_BUG && !caught; seed++) {
        sim_walk(sim, seed, bug, false);
        caught = sim->violation[0] != '\0';
        if (caught) {
            print_message("seed %llu: %s\n", (unsigned long long)seed, sim->violation);
        }
        sim_free(sim);
    }
    mr_free(sim);
    assert_true(caught);
}

int main(void)
{
    static enum sim_bug bugs[SIM_BUG_COUNT];
    struct CMUnitTest tests[SIM_BUG_COUNT + 1] = {cmocka_unit_test(walks_hold)};

    int n = 1;

    for (; n < SIM_BUG_COUNT && !sim_bug_is_of_rounds((enum sim_bug)n); n++) {
        bugs[n] = (enum sim_bug)n;
        tests[n] =
            (struct CMUnitTest){sim_bug_name((enum sim_bug)n), is_caught, NULL, NULL, &bugs[n]};
    }
    tests[n] = (struct CMUnitTest)cmocka_unit_test(hours_hold);
    if (SLOW) {
        cmocka_set_test_filter("walks_hold");
    }
    return _cmocka_run_group_tests("walks", tests, (size_t)n + 1, NULL, NULL);
}
