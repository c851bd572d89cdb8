/*
 * sim_main [--seeds N] [--first SEED] [--seed SEED] [--bug NAME]: as many walks as one likes, with
 * how fast they went and which rare branches they took. The first walk that goes wrong ends it: its
 * seed, and the command that shows it. Each seed is a walk of a cluster, each third one of
 * coordinated reads, too.
 *
 * --hours H: a cluster that lives for so long, other readers and faults in each hour, from the seed
 * of --seed or --first; then walks of coordinated reads for as long.
 *
 * --ranges K: how soon a bug is found. From K seeds on, 10,000 apart, at most N walks each until
 * one goes wrong; prints how many each took, and fails if one range holds none.
 */
#include "walk.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct options {
    uint64_t first, seeds;
    uint64_t ranges; /* 0: one, told of at length */
    uint64_t hours;  /* > 0: a cluster that lives so long, in place of walks */
    enum sim_bug bug;
    bool one; /* and its transcript */
};

#define RANGES_APART 10000
#define ROUNDS_EVERY 3 /* odd: even seeds are about finite data */

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void report(const char *about, const struct sim_tally *t, double took)
{
    if (t->walks == 0) {
        return;
    }
    printf("%" PRIu64 " walks%s in %.1f s, %.0f/s: %" PRIu64 " grants, %" PRIu64
           " ends of repetitions, %" PRIu64 " takeovers, workers lost in %" PRIu64 "\n",
           t->walks, about, took, (double)t->walks / took, t->grants, t->ends, t->takeovers,
           t->lossy);
    for (int i = 0; i < SIM_RARE_COUNT; i++) {
        if (t->rares[i] > 0) {
            printf("%10" PRIu64 "  %s\n", t->rares[i], sim_rare_text((enum sim_rare)i));
        }
    }
}

/* An assertion ends the program: the walk that it was in has to be known all the same. */
static char last_words[600];

static void on_abort(int signal)
{
    ssize_t n = write(STDERR_FILENO, last_words, strlen(last_words));

    (void)n;
    (void)signal; /* whose default action follows */
}

static const char *bug_name(const struct options *o)
{
    return o->bug != SIM_BUG_NONE ? sim_bug_name(o->bug) : "";
}

static void prepare_last_words(const struct options *o, uint64_t seed, const char *why)
{
    int n = snprintf(last_words, sizeof last_words,
                     "seed %" PRIu64 ": %.400s\nto see it: make sim SEED=%" PRIu64 "%s%s", seed,
                     why, seed, bug_name(o)[0] != '\0' ? " BUG=" : "", bug_name(o));

    if (o->hours > 0) {
        n += snprintf(last_words + n, sizeof last_words - (size_t)n, " HOURS=%" PRIu64, o->hours);
    }
    (void)snprintf(last_words + n, sizeof last_words - (size_t)n, "\n");
}

static void say_wrong(const struct options *o, uint64_t seed, const char *why)
{
    prepare_last_words(o, seed, why);
    fputs(last_words, stdout);
}

struct tallies {
    struct sim_tally cluster, rounds;
    double took_cluster, took_rounds;
};

/* What was recorded of it. */
static void show(const struct sim *sim)
{
    (void)fwrite(sim->transcript.data, 1, sim->transcript.len, stdout);
}

/* Whether it went well. */
static bool walk(const struct options *o, struct sim *sim, uint64_t seed, bool rounds,
                 struct tallies *t)
{
    double began = seconds();
    bool well;

    (rounds ? sim_walk_rounds : sim_walk)(sim, seed, o->bug, o->one);
    sim_tally_add(rounds ? &t->rounds : &t->cluster, sim);
    well = sim->violation[0] == '\0';
    show(sim);
    if (!well && o->ranges == 0) {
        say_wrong(o, seed, sim->violation);
    }
    sim_free(sim);
    *(rounds ? &t->took_rounds : &t->took_cluster) += seconds() - began;
    return well;
}

/* All walks of @seed; with a bug those that it may show itself in. */
static bool walk_seed(const struct options *o, struct sim *sim, uint64_t seed, struct tallies *t)
{
    bool of_rounds = sim_bug_is_of_rounds(o->bug);
    bool rounds = of_rounds || (o->bug == SIM_BUG_NONE && seed % ROUNDS_EVERY == 0);

    prepare_last_words(o, seed, "aborted");
    bool well = of_rounds || walk(o, sim, seed, false, t);

    return (!rounds || walk(o, sim, seed, true, t)) && well;
}

static int run(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    struct tallies t = {0};
    bool well = true;

    for (uint64_t seed = o->first; seed < o->first + o->seeds && well; seed++) {
        well = walk_seed(o, sim, seed, &t);
    }
    mr_free(sim);
    if (!o->one) {
        report("", &t.cluster, t.took_cluster);
        report(" of coordinated reads", &t.rounds, t.took_rounds);
    }
    return well ? 0 : 1;
}

static bool cluster_lives(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    double began = seconds();
    bool well;

    prepare_last_words(o, o->first, "aborted");
    sim_hours(sim, o->first, (unsigned)o->hours, o->one);
    show(sim);
    well = sim->violation[0] == '\0';
    if (!well) {
        say_wrong(o, o->first, sim->violation);
    }
    printf("%.1f hours in %.1f s: %" PRIu64 " grants, %" PRIu64 " ends of repetitions, %" PRIu64
           " takeovers\n",
           (double)sim->now / 3600e3, seconds() - began, sim->grants, sim->ends, sim->takeovers);
    sim_free(sim);
    mr_free(sim);
    return well;
}

/* One cluster, then walks of coordinated reads for as long. */
static int run_hours(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    struct tallies t = {0};
    bool well = cluster_lives(o);

    for (uint64_t seed = o->first; t.rounds.ms < (int64_t)o->hours * 3600 * 1000 && well; seed++) {
        struct options one = {.bug = SIM_BUG_NONE, .first = seed}; /* it is shown as a walk */

        prepare_last_words(&one, seed, "aborted");
        well = walk(&one, sim, seed, true, &t);
    }
    mr_free(sim);
    report(" of coordinated reads", &t.rounds, t.took_rounds);
    return well ? 0 : 1;
}

/* How many walks it took from @first on until one went wrong; 0: none did. */
static uint64_t first_caught(const struct options *o, struct sim *sim, uint64_t first)
{
    struct tallies ignored = {0};

    for (uint64_t i = 0; i < o->seeds; i++) {
        if (!walk_seed(o, sim, first + i, &ignored)) {
            return i + 1;
        }
    }
    return 0;
}

static int run_ranges(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    int status = 0;

    printf("%s:", bug_name(o));
    for (uint64_t i = 0; i < o->ranges; i++) {
        uint64_t n = first_caught(o, sim, o->first + i * RANGES_APART);

        printf(n > 0 ? " %" PRIu64 : " none of %" PRIu64, n > 0 ? n : o->seeds);
        fflush(stdout);
        status = n > 0 ? status : 1;
    }
    printf("\n");
    mr_free(sim);
    return status;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--seeds N] [--first SEED] [--seed SEED] [--bug NAME] [--ranges K] [--hours "
            "H]\nbugs to put in:\n",
            program);
    for (int i = 0; i < SIM_BUG_COUNT; i++) {
        fprintf(stderr, "  %-20s %s\n", sim_bug_name((enum sim_bug)i),
                sim_bug_text((enum sim_bug)i));
    }
    return 2;
}

static bool number(const char *text, uint64_t *ret)
{
    char *end;

    *ret = strtoull(text, &end, 10);
    return *end == '\0' && *ret > 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"seeds", required_argument, NULL, 'n'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"bug", required_argument, NULL, 'b'},
                                          {"ranges", required_argument, NULL, 'r'},
                                          {"hours", required_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.first = 1, .seeds = 10000, .bug = SIM_BUG_NONE};
    bool fine = true;
    int c;

    (void)signal(SIGABRT, on_abort);

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'n': fine = fine && number(optarg, &o.seeds); break;
        case 'f': fine = fine && number(optarg, &o.first); break;
        case 's':
            fine = fine && number(optarg, &o.first);
            o.seeds = 1;
            o.one = true;
            break;
        case 'r': fine = fine && number(optarg, &o.ranges); break;
        case 'h': fine = fine && number(optarg, &o.hours) && o.hours <= 1000; break;
        case 'b':
            o.bug = sim_bug_named(optarg);
            fine = fine && o.bug != SIM_BUG_COUNT;
            break;
        default: fine = false;
        }
    }
    if (!fine || optind != argc) {
        return usage(argv[0]);
    }
    return o.hours > 0 ? run_hours(&o) : o.ranges > 0 ? run_ranges(&o) : run(&o);
}
