/*
 * Random walks of coordinated reads, all three sides at once: kills, pauses, leaves, lost, late and repeated calls,
 * streams that break, several failovers, workers that join, consumers that restart. Then quiet, in which everybody has
 * to get on. MR_SEED replays one walk, MR_WALKS says how many.
 */
#include "rounds_world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TROUBLE_TICKS 6000
#define QUIET_MS 60000
#define BUG_WALKS 400
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WALKS 16
#define SEEK_BUGS 0 /* ten times as slow, and about the judge */
#else
#define WALKS 40
#define SEEK_BUGS 1
#endif
#define PROGRESS 50 /* rounds that everybody is to return in the quiet */

static uint64_t rare[RARES];
static const char *const rare_names[RARES] = {
    [RARE_FAILOVER] = "failover",
    [RARE_CLOSING_FAILOVER] = "failover while a worker is closing",
    [RARE_RESTART] = "restart",
    [RARE_RESTART_IN_CLOSING] = "restart while a worker is closing",
    [RARE_ZOMBIE_REFUSED] = "an earlier session is refused by a worker",
    [RARE_BEGAN_BEHIND] = "began behind what is gone",
    [RARE_ASKED] = "the others were asked",
    [RARE_JOINED] = "joined",
    [RARE_LEFT] = "said that it leaves",
    [RARE_UNKNOWN_COMMIT] = "committed, and nobody heard of it",
};

static struct knobs random_knobs(uint64_t seed, bool finite)
{
    struct mr_rng rng;
    struct knobs k = {0};

    mr_rng_seed(&rng, mr_mix64(seed));
    k.consumers = 1 + (uint32_t)mr_rng_below(&rng, SEATS_MAX);
    k.workers = 1 + (uint32_t)mr_rng_below(&rng, 3);
    k.groups = finite ? 20 + mr_rng_below(&rng, 200) : 0;
    k.keep = 2 + (uint32_t)mr_rng_below(&rng, 5);
    k.ahead = 2 + (uint32_t)mr_rng_below(&rng, 5);
    k.eager = seed % 4 == 0;
    k.lose_call = (uint32_t)mr_rng_below(&rng, 3000);
    k.repeat_call = (uint32_t)mr_rng_below(&rng, 3000);
    k.break_stream = (uint32_t)mr_rng_below(&rng, 200);
    k.kill_worker = (uint32_t)mr_rng_below(&rng, 10);
    k.pause_worker = (uint32_t)mr_rng_below(&rng, 15);
    k.new_worker = (uint32_t)mr_rng_below(&rng, 10);
    k.kill_consumer = (uint32_t)mr_rng_below(&rng, 10);
    k.pause_consumer = (uint32_t)mr_rng_below(&rng, 10);
    k.fail_over = (uint32_t)mr_rng_below(&rng, 30);
    return k;
}

static bool has_progressed(const struct world *w, const uint64_t *before)
{
    for (uint32_t i = 0; i < w->knobs.consumers; i++) {
        if (judge_rounds(w->judge, i) < before[i] + PROGRESS) {
            return false;
        }
    }
    return true;
}

static void say_where(const struct world *w)
{
    for (uint32_t i = 0; i < w->knobs.consumers; i++) {
        const struct consumer *c = w->consumers[w->holder[i]];

        printf("  consumer %u: process %u at %" PRIu64 ", %" PRIu64 " rounds: %s\n", i, w->holder[i],
               consumer_position(c), judge_rounds(w->judge, i), consumer_why(c));
    }
    leader_show(w);
}

/* NULL: all went well. */
static const char *walk(uint64_t seed, bool finite, enum bug bug)
{
    static struct world w;
    static char why[500];
    struct knobs knobs = random_knobs(seed, finite);
    uint64_t before[SEATS_MAX];
    bool done = false;

    knobs.eager = knobs.eager && bug == BUG_NONE; /* where little is under way, little hides a bug */
    world_open(&w, seed, &knobs, bug);
    w.faults = true;
    for (int i = 0; i < TROUBLE_TICKS && w.failure[0] == '\0'; i++) {
        world_tick(&w);
    }
    w.faults = false;
    for (uint32_t i = 0; i < knobs.consumers; i++) {
        before[i] = judge_rounds(w.judge, i);
    }
    for (int64_t until = w.now + QUIET_MS; w.now < until && w.failure[0] == '\0' && !done;) {
        world_tick(&w);
        done = finite ? judge_all_ended(w.judge) : has_progressed(&w, before);
    }
    if (w.failure[0] == '\0' && !done) {
        snprintf(w.failure, sizeof w.failure, "nobody gets on");
        if (bug == BUG_NONE) {
            say_where(&w);
        }
    }
    for (size_t i = 0; i < RARES && bug == BUG_NONE; i++) {
        rare[i] += w.rare[i];
    }
    snprintf(why, sizeof why, "seed %" PRIu64 " (%u consumers, %u workers): %.380s", seed, knobs.consumers,
             knobs.workers, w.failure);
    done = w.failure[0] == '\0';
    world_close(&w);
    return done ? NULL : why;
}

static void walks(bool finite)
{
    const char *one = getenv("MR_SEED");
    const char *number = getenv("MR_WALKS");
    uint64_t n = number != NULL ? strtoull(number, NULL, 10) : WALKS;

    for (uint64_t i = 0; i < (one != NULL ? 1 : n); i++) {
        const char *why = walk(one != NULL ? strtoull(one, NULL, 10) : i + 1, finite, BUG_NONE);

        if (why != NULL) {
            fail_msg("%s", why);
        }
    }
}

static void endless_data_goes_on(void **state)
{
    walks(false);
}

static void finite_data_ends_for_all(void **state)
{
    walks(true);
}

static void bugs_are_found(void **state)
{
    static const char *const names[BUGS] = {
        [BUG_COMPLETE_SKIPPED] = "complete skipped",
        [BUG_NO_PROMISE] = "no promise",
        [BUG_NO_FENCE] = "no fence",
        [BUG_RECEIPT_IS_RETURNED] = "receipt is returned",
        [BUG_TOLD_EARLY] = "told early",
        [BUG_NO_BARRIER] = "no barrier",
        [BUG_HORIZON_IGNORED] = "horizon ignored",
        [BUG_END_UNSEEN] = "end unseen",
    };
    /* Where to begin: some of them are rare. */
    static const uint64_t first[BUGS] = {
        [BUG_NO_PROMISE] = 77, [BUG_RECEIPT_IS_RETURNED] = 189, [BUG_NO_BARRIER] = 375};
    int missed = 0;

    for (int bug = BUG_NONE + 1; bug < BUGS && SEEK_BUGS && getenv("MR_SEED") == NULL; bug++) {
        const char *why = NULL;

        for (uint64_t i = 0; why == NULL && i < BUG_WALKS; i++) {
            uint64_t seed = i + (first[bug] > 0 ? first[bug] : 1);

            why = walk(seed, seed % 2 == 0, (enum bug)bug);
        }
        missed += why == NULL ? 1 : 0;
        if (why == NULL || getenv("MR_VERBOSE") != NULL) {
            printf("  %s: %s\n", names[bug], why != NULL ? why : "not found");
        }
    }
    assert_int_equal(missed, 0);
}

static void rare_things_happened(void **state)
{
    for (size_t i = 0; i < RARES && getenv("MR_VERBOSE") != NULL; i++) {
        printf("  %8" PRIu64 " %s\n", rare[i], rare_names[i]);
    }
    for (size_t i = 0; i < RARES && getenv("MR_SEED") == NULL; i++) {
        if (rare[i] == 0) {
            fail_msg("it never came to pass: %s", rare_names[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endless_data_goes_on),
        cmocka_unit_test(finite_data_ends_for_all),
        cmocka_unit_test(rare_things_happened),
        cmocka_unit_test(bugs_are_found),
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
