/*
 * Named cases in virtual time. No chance plays a part in them: a message takes 1 ms, a split 100
 * ms, an OFF task one second; a reader's application takes four elements every 100 ms, a slow one
 * none.
 */
#ifndef MR_TESTS_SIM_STORY_H
#define MR_TESTS_SIM_STORY_H

#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The state is a struct sim that keeps its transcript. */
int story_setup(void **state);
int story_teardown(void **state);
/* What @client is going to read, once; @job "" is a job of its own. */
void story_plan(struct sim *sim, int client, const char *job, int dataset, bool dynamic);
/* Until a key that begins with @prefix is in the store. */
void story_until_stored(struct sim *sim, const char *prefix);
/* Everybody has read everything, and nothing was wrong. */
void story_ends_well(struct sim *sim, int64_t by);

#endif
