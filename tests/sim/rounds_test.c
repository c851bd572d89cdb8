/* Walks of coordinated reads, and the same with bugs put in, which the judge must find; make sim
 * SEED=n shows one. */
#include "walk.h"

#include <setjmp.h>

#include <cmocka.h>

#define BUG_WALKS 400
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WALKS 24
#define SLOW 1 /* ten times, and about the judge */
#else
#define WALKS 80
#define SLOW 0
#endif

static void everybody_gets_on(void **state)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    struct sim_tally tally = {0};
    char why[sizeof sim->violation] = "";

    for (uint64_t seed = 1; seed <= WALKS && why[0] == '\0'; seed++) {
        sim_walk_rounds(sim, seed, SIM_BUG_NONE, false);
        sim_tally_add(&tally, sim);
        if (sim->violation[0] != '\0') {
            snprintf(why, sizeof why, "seed %llu: %.400s", (unsigned long long)seed,
                     sim->violation);
        }
        sim_free(sim);
    }
    mr_free(sim);
    if (why[0] != '\0') {
        fail_msg("%s", why);
    }
    for (int i = SIM_RARE_ROUNDS_CLOSING_TAKEOVER; i < SIM_RARE_COUNT && !SLOW; i++) {
        if (tally.rares[i] == 0) {
            fail_msg("it never came to pass: %s", sim_rare_text((enum sim_rare)i));
        }
    }
}

static void is_caught(void **state)
{
    enum sim_bug bug = *(const enum sim_bug *)*state;
    struct sim *sim = mr_calloc(1, sizeof *sim);
    bool caught = false;

    for (uint64_t seed = 1; seed <= BUG_WALKS && !caught; seed++) {
        sim_walk_rounds(sim, seed, bug, false);
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
    struct CMUnitTest tests[SIM_BUG_COUNT + 1] = {cmocka_unit_test(everybody_gets_on)};
    size_t n = 1;

    for (int bug = 1; bug < SIM_BUG_COUNT && !SLOW; bug++) {
        if (sim_bug_is_of_rounds((enum sim_bug)bug)) {
            bugs[n] = (enum sim_bug)bug;
            tests[n] = (struct CMUnitTest){sim_bug_name((enum sim_bug)bug), is_caught, NULL, NULL,
                                           &bugs[n]};
            n++;
        }
    }
    return _cmocka_run_group_tests("rounds", tests, n, NULL, NULL);
}
