/*
 * A random walk of coordinated reads, all three sides at once: kills, pauses, leaves, lost, late
 * and repeated calls, streams that break, several failovers, workers that join, consumers that
 * restart. Then quiet, in which everybody has to get on.
 */
#ifndef MR_TESTS_SIM_ROUNDS_WALK_H
#define MR_TESTS_SIM_ROUNDS_WALK_H

#include <stdbool.h>
#include <stdint.h>

/* Rules that are left out, each where two sides meet: the walks have to find every one. */
enum bug {
    BUG_NONE,
    BUG_COMPLETE_SKIPPED,    /* a round counts as complete when it is fixed */
    BUG_NO_PROMISE,          /* a consumer reports what it has, and reads on */
    BUG_NO_FENCE,            /* a worker takes all processes of a place for one */
    BUG_RECEIPT_IS_RETURNED, /* a worker forgets what all have received */
    BUG_TOLD_EARLY,          /* what is decided is told before it is committed */
    BUG_NO_BARRIER,          /* a new session begins at once */
    BUG_HORIZON_IGNORED,     /* consumers go on beyond it */
    BUG_END_UNSEEN,          /* a worker reports its end when it has come to it, whoever knows */
    BUGS
};

/* "Sometimes": what a number of walks must have met. */
enum rare {
    RARE_FAILOVER,
    RARE_CLOSING_FAILOVER,
    RARE_RESTART,
    RARE_RESTART_IN_CLOSING,
    RARE_ZOMBIE_REFUSED,
    RARE_BEGAN_BEHIND,
    RARE_ASKED,
    RARE_JOINED,
    RARE_UNKNOWN_COMMIT,
    RARE_LEFT,
    RARES
};

/* Over walks without a bug. */
struct rounds_tally {
    uint64_t walks;
    int64_t ms; /* of virtual time */
    uint64_t rares[RARES];
};

/* NULL: all went well; else why not, until the next walk. Even seeds are about finite data. @show:
 * its story, on stdout. */
const char *rounds_walk(uint64_t seed, enum bug bug, bool show, struct rounds_tally *tally);
const char *rounds_rare_text(enum rare rare);
const char *rounds_bug_name(enum bug bug); /* as sim_main takes it */
const char *rounds_bug_text(enum bug bug);
enum bug rounds_bug_named(const char *name); /* BUGS: none is called so */

#endif
