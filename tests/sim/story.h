/* Named cases in virtual time. No chance plays a part in them: a message takes 1 ms, a split 100
 * ms, an OFF task one second; a reader's application takes four elements every 100 ms, a slow one
 * none. */
#pragma once

#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What is read, as sim_init() numbers it. */
enum { NUMBERS = 0, PAIRS = 1, FEW = 3, POISON = 4, BITTER = 5 };

/* The state is a struct sim that keeps its transcript. */
int story_setup(void **state);
int story_teardown(void **state);
/* What @client is going to read, once; @job "" is a job of its own. */
void story_plan(struct sim *sim, int client, const char *job, int dataset, bool dynamic);
/* So many of each, who are to read @dataset, once, DYNAMIC in the job "digits"; @repeats: at least
 * once. */
void story_join(struct sim *sim, int workers, int clients, int dataset, bool repeats);
/* The workers are registered; then the readers start. Both is looked at. */
void story_start(struct sim *sim);
/* The same, until the readers are attached. */
void story_begin(struct sim *sim, int workers, int clients, int dataset, bool repeats);
/* The same, until splits are handed out. */
void story_read(struct sim *sim, int workers, int clients, int dataset, bool repeats);
/* Run until so many lines were said as @lines has, and compare: what was said since the last time.
 * The lines are the core's own, and what befell the cluster. */
void mr_sim_expect(struct sim *sim, const char *lines);
const char *story_said(const struct sim *sim); /* so far */
/* What was said so far is not compared. */
void mr_sim_skip(struct sim *sim);
/* The leader sleeps, and neither hears nor knows yet that another one leads: until @until. */
void story_pause_leader(struct sim *sim, int64_t until);
/* Until a key that begins with @prefix is in the store. What was said till then is not compared. */
void story_until_stored(struct sim *sim, const char *prefix);
/* By then everybody has read everything, nothing was wrong, and @lines were said since the last
 * time: all but which splits somebody was given, or has finished. @lines NULL: too many to read,
 * not compared. */
void story_ends_well(struct sim *sim, int64_t by, const char *lines);
