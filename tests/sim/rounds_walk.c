#include "rounds_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TROUBLE_TICKS 6000
#define QUIET_MS 60000
#define PROGRESS 50 /* rounds that everybody is to return in the quiet */

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

static const struct {
    const char *name, *text;
} bugs[BUGS] = {
    [BUG_NONE] = {"ROUNDS_NONE", "none"},
    [BUG_COMPLETE_SKIPPED] = {"ROUNDS_COMPLETE_SKIPPED",
                              "a round counts as complete when it is fixed"},
    [BUG_NO_PROMISE] = {"ROUNDS_NO_PROMISE", "a consumer reports what it has, and reads on"},
    [BUG_NO_FENCE] = {"ROUNDS_NO_FENCE", "a worker takes all processes of a place for one"},
    [BUG_RECEIPT_IS_RETURNED] = {"ROUNDS_RECEIPT_IS_RETURNED",
                                 "a worker forgets what all have received"},
    [BUG_TOLD_EARLY] = {"ROUNDS_TOLD_EARLY", "what is decided is told before it is committed"},
    [BUG_NO_BARRIER] = {"ROUNDS_NO_BARRIER", "a new session begins at once"},
    [BUG_HORIZON_IGNORED] = {"ROUNDS_HORIZON_IGNORED", "consumers go on beyond it"},
    [BUG_END_UNSEEN] = {"ROUNDS_END_UNSEEN",
                        "a worker reports its end when it has come to it, whoever knows"},
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
    k.eager = seed % 8 < 2; /* of either kind */
    k.lose_call = (uint32_t)mr_rng_below(&rng, 3000);
    k.repeat_call = (uint32_t)mr_rng_below(&rng, 3000);
    k.break_stream = (uint32_t)mr_rng_below(&rng, 200);
    k.kill_worker = (uint32_t)mr_rng_below(&rng, 10);
    k.pause_worker = (uint32_t)mr_rng_below(&rng, 15);
    k.new_worker = (uint32_t)mr_rng_below(&rng, 10);
    k.kill_consumer = (uint32_t)mr_rng_below(&rng, 10);
    k.pause_consumer = (uint32_t)mr_rng_below(&rng, 10);
    k.fail_over = (uint32_t)mr_rng_below(&rng, 12); /* after each a worker has some seconds */
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

        printf("  consumer %u: process %u at %" PRIu64 ", %" PRIu64 " rounds: %s\n", i,
               w->holder[i], consumer_position(c), judge_rounds(w->judge, i), consumer_why(c));
    }
    leader_show(w);
}

const char *rounds_walk(uint64_t seed, enum bug bug, bool show, struct rounds_tally *tally)
{
    static struct world w;
    static char why[500];
    bool finite = seed % 2 == 0;
    struct knobs knobs = random_knobs(seed, finite);
    uint64_t before[SEATS_MAX];
    bool done = false;

    knobs.eager =
        knobs.eager && bug == BUG_NONE; /* where little is under way, little hides a bug */
    knobs.show = show;
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
    for (size_t i = 0; i < RARES; i++) {
        tally->rares[i] += w.rare[i];
    }
    tally->walks++;
    tally->ms += w.now;
    snprintf(why, sizeof why, "coordinated reads, %u consumers, %u workers: %.380s",
             knobs.consumers, knobs.workers, w.failure);
    done = w.failure[0] == '\0';
    world_close(&w);
    return done ? NULL : why;
}

const char *rounds_rare_text(enum rare rare)
{
    return rare_names[rare];
}

const char *rounds_bug_name(enum bug bug)
{
    return bugs[bug].name;
}

const char *rounds_bug_text(enum bug bug)
{
    return bugs[bug].text;
}

enum bug rounds_bug_named(const char *name)
{
    enum bug bug = BUG_NONE + 1;

    while (bug < BUGS && strcmp(bugs[bug].name, name) != 0) {
        bug++;
    }
    return bug;
}
