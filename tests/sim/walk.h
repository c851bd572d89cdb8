/* A random walk: a whole cluster under faults, all from one seed, judged all the way by the
 * checker. */
#pragma once

#include "sim.h"

/* What many walks came to. */
struct sim_tally {
    uint64_t walks, grants, ends, takeovers, lossy;
    int64_t ms; /* of virtual time */
    uint64_t rares[SIM_RARE_COUNT];
};

/* Run one from @seed > 0 with @bug put in; sim->violation says what was wrong. sim_free() it. */
void sim_walk(struct sim *sim, uint64_t seed, enum sim_bug bug, bool record);
/* The same about coordinated reads: of finite data if @seed is even. */
void sim_walk_rounds(struct sim *sim, uint64_t seed, enum sim_bug bug, bool record);
bool sim_bug_is_of_rounds(enum sim_bug bug);
/* A cluster that lives for @hours (at most 1000), whose faults and readers are others in each of
 * them, but for the calm ones. What is left half an hour after the last reader is what is alive. */
void sim_hours(struct sim *sim, uint64_t seed, unsigned hours, bool record);
void sim_tally_add(struct sim_tally *tally, const struct sim *sim);

const char *sim_rare_text(enum sim_rare rare);
const char *sim_bug_name(enum sim_bug bug);
const char *sim_bug_text(enum sim_bug bug);
/* SIM_BUG_COUNT: there is none of that name. */
enum sim_bug sim_bug_named(const char *name);
