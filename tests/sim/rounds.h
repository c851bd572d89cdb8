/* Coordinated reads in the cluster (rounds.c), and the judge of them (rounds_judge.c). */
#pragma once

#include "sim.h"

/* One group of elements: of a task, and which one. */
struct group {
    uint64_t task;
    uint64_t ordinal;
};

struct judge *judge_new(uint32_t consumers);
void judge_free(struct judge *j); /* NULL is fine */
/* Process @process has the place now; what another one returns there from now on is nobody's
 * step. */
void judge_placed(struct judge *j, uint32_t seat, uint64_t process);
/* The application of @process took an element of @group, number @index in it, in @round. */
void judge_returned(struct judge *j, uint32_t seat, uint64_t process, uint64_t round,
                    struct group group, uint32_t index);
void judge_ended(struct judge *j, uint32_t seat, uint64_t process);
/* NULL: all is well. */
const char *judge_verdict(const struct judge *j);
uint64_t judge_rounds(const struct judge *j, uint32_t seat); /* returned there by whoever had it */
uint64_t judge_next(const struct judge *j); /* behind the last round that anybody returned */

/* @consumers places, each with two clients: the process that has it, and the next one. */
void sim_rounds_begin(struct sim *sim, uint32_t consumers);
/* All processes that have places have come @n rounds further than @before. */
bool sim_rounds_progressed(const struct sim *sim, const uint64_t *before, uint64_t n);
