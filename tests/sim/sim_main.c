/*
 * sim_main [--seeds N] [--first SEED] [--seed SEED] [--bug NAME]: as many walks as one likes, with how fast they went
 * and which rare branches they took. The first walk that goes wrong ends it: its seed, and the command that shows it.
 *
 * --hours H: a cluster that lives for so long, other readers and faults in each hour, from the seed of --seed or
 * --first.
 *
 * --ranges K: how soon a bug is found. From K seeds on, 10,000 apart, at most N walks each until one goes wrong; prints
 * how many each took, and fails if one range holds none.
 */
#include "walk.h"

#include "base/alloc.h"

#include <getopt.h>
#include <inttypes.h>
#include <millrace/dataset.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void report(const struct sim_tally *t, double took)
{
    printf("%" PRIu64 " walks in %.1f s, %.0f/s: %" PRIu64 " grants, %" PRIu64 " ends of repetitions, %" PRIu64
           " takeovers, workers lost in %" PRIu64 "\n",
           t->walks, took, (double)t->walks / took, t->grants, t->ends, t->takeovers, t->lossy);
    for (int i = 0; i < SIM_RARE_COUNT; i++) {
        printf("%10" PRIu64 "  %s\n", t->rares[i], sim_rare_text((enum sim_rare)i));
    }
}

/* An assertion ends the program: the walk that it was in has to be known all the same. */
static char last_words[120];

static void on_abort(int signal)
{
    ssize_t n = write(STDERR_FILENO, last_words, strlen(last_words));

    (void)n;
    (void)signal; /* whose default action follows */
}

static void prepare_last_words(uint64_t seed, enum sim_bug bug)
{
    snprintf(last_words, sizeof last_words, "seed %" PRIu64 ": aborted\nto see it: make sim SEED=%" PRIu64 "%s%s\n",
             seed, seed, bug != SIM_BUG_NONE ? " BUG=" : "", bug != SIM_BUG_NONE ? sim_bug_name(bug) : "");
}

static int run(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    struct sim_tally tally = {0};
    double began = seconds();
    int status = 0;

    for (uint64_t seed = o->first; seed < o->first + o->seeds && status == 0; seed++) {
        prepare_last_words(seed, o->bug);
        sim_walk(sim, seed, o->bug, o->one);
        sim_tally_add(&tally, sim);
        if (o->one && sim->transcript != NULL) {
            fputs(sim->transcript, stdout);
        }
        if (sim->violation[0] != '\0') {
            printf("seed %" PRIu64 ": %s\n", seed, sim->violation);
            printf("to see it: make sim SEED=%" PRIu64 "%s%s\n", seed, o->bug != SIM_BUG_NONE ? " BUG=" : "",
                   o->bug != SIM_BUG_NONE ? sim_bug_name(o->bug) : "");
            status = 1;
        }
        sim_free(sim);
    }
    mr_free(sim);
    if (!o->one) {
        report(&tally, seconds() - began);
    }
    return status;
}

static int run_hours(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    double began = seconds();
    int status;

    sim_hours(sim, o->first, (unsigned)o->hours, o->one);
    if (sim->transcript != NULL) {
        fputs(sim->transcript, stdout);
    }
    status = sim->violation[0] != '\0' ? 1 : 0;
    if (status != 0) {
        printf("seed %" PRIu64 ": %s\nto see it: make sim HOURS=%" PRIu64 " SEED=%" PRIu64 "\n", o->first,
               sim->violation, o->hours, o->first);
    }
    printf("%.1f hours in %.1f s: %" PRIu64 " grants, %" PRIu64 " ends of repetitions, %" PRIu64 " takeovers\n",
           (double)sim->now / 3600e3, seconds() - began, sim->grants, sim->ends, sim->takeovers);
    sim_free(sim);
    mr_free(sim);
    return status;
}

/* The walks from @first on until one goes wrong; 0: none of @n does. */
static uint64_t first_caught(struct sim *sim, uint64_t first, uint64_t n, enum sim_bug bug)
{
    for (uint64_t i = 0; i < n; i++) {
        bool caught;

        prepare_last_words(first + i, bug);
        sim_walk(sim, first + i, bug, false);
        caught = sim->violation[0] != '\0';
        sim_free(sim);
        if (caught) {
            return i + 1;
        }
    }
    return 0;
}

static int run_ranges(const struct options *o)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);
    int status = 0;

    printf("%s:", sim_bug_name(o->bug));
    for (uint64_t i = 0; i < o->ranges; i++) {
        uint64_t n = first_caught(sim, o->first + i * RANGES_APART, o->seeds, o->bug);

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
    fprintf(
        stderr,
        "usage: %s [--seeds N] [--first SEED] [--seed SEED] [--bug NAME] [--ranges K] [--hours H]\nbugs to put in:\n",
        program);
    for (int i = 0; i < SIM_BUG_COUNT; i++) {
        fprintf(stderr, "  %-20s %s\n", sim_bug_name((enum sim_bug)i), sim_bug_text((enum sim_bug)i));
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
        case 'n':
            fine = fine && number(optarg, &o.seeds);
            break;
        case 'f':
            fine = fine && number(optarg, &o.first);
            break;
        case 's':
            fine = fine && number(optarg, &o.first);
            o.seeds = 1;
            o.one = true;
            break;
        case 'r':
            fine = fine && number(optarg, &o.ranges);
            break;
        case 'h':
            fine = fine && number(optarg, &o.hours) && o.hours <= 1000;
            break;
        case 'b':
            o.bug = sim_bug_named(optarg);
            fine = fine && o.bug != SIM_BUG_COUNT;
            break;
        default:
            fine = false;
        }
    }
    if (!fine || optind != argc) {
        return usage(argv[0]);
    }
    return o.hours > 0 ? run_hours(&o) : o.ranges > 0 ? run_ranges(&o) : run(&o);
}
