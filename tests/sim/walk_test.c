/* Random walks, a thousand of them, and the same walks with a bug put in, which the checker must
 * object to: one that accepts those would prove nothing. A failure prints the seed and the command
 * that shows it. ROUNDS: walks about coordinated reads. */
#include "walk.h"

#include <setjmp.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1 /* ten times and more: here it is memory that is looked at */
#else
#define SLOW 0
#endif
#if ROUNDS
#define WALK sim_walk_rounds
#define SEEDS (SLOW ? 24 : 80)
#define SEEDS_WITH_BUG 400
#define HOURS 0
#define RARES_FROM SIM_RARE_ROUNDS_CLOSING_TAKEOVER
#define RARES_TO SIM_RARE_COUNT
#else
#define WALK sim_walk
#define SEEDS (SLOW ? 200 : 1000)
#define SEEDS_WITH_BUG 2500
#define HOURS (SLOW ? 0 : 6)
#define RARES_FROM 0
#define RARES_TO SIM_RARE_ROUNDS_CLOSING_TAKEOVER
#endif

static void walks_hold(void **state)
{
    struct sim_tally tally = {0};
    struct sim *sim = mr_calloc(1, sizeof *sim);

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char why[sizeof sim->violation];

        WALK(sim, seed, SIM_BUG_NONE, false);
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
    assert_true(ROUNDS || tally.grants > 10 * tally.walks);
    assert_true(ROUNDS || tally.ends > tally.walks);
    assert_true(ROUNDS || tally.lossy < tally.walks);
    for (int i = RARES_FROM; i < RARES_TO && !SLOW; i++) {
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
        WALK(sim, seed, bug, false);
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
    size_t n = 1;

    for (int bug = 1; bug < SIM_BUG_COUNT && !SLOW; bug++) {
        if (sim_bug_is_of_rounds((enum sim_bug)bug) == ROUNDS) {
            bugs[n] = (enum sim_bug)bug;
            tests[n] = (struct CMUnitTest){sim_bug_name((enum sim_bug)bug), is_caught, NULL, NULL,
                                           &bugs[n]};
            n++;
        }
    }
    if (HOURS > 0) {
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(hours_hold);
    }
    return _cmocka_run_group_tests(ROUNDS ? "rounds" : "walks", tests, n, NULL, NULL);
}
