/* What the tests of jobs that read at least once share: workers w1 and w2, and a job of client c1
 * over 100 splits. */
#pragma once

#include "core_support.h"

struct fixture {
    struct table t;
    char iteration[64];
    char tasks[8][160]; /* of the workers in the test */
};

int recovery_setup(void **state);
int recovery_teardown(void **state);
/* A job of c1 over @dataset, under its name. */
void open_at_least_once(struct fixture *f, const char *dataset);
/* Everybody falls silent, but c1 and @survivor (NULL: nobody), until the others are lost. */
void lose(struct fixture *f, const char *survivor);
/* All that is left of the repetition to @worker, from request @seq on; returns the number of the
 * last grant. */
uint64_t drain(struct fixture *f, const char *worker, const char *task, uint64_t seq);
/* The id of the n-th task of @worker that is none of @f->tasks, or NULL. */
const char *recovery_of(struct fixture *f, const char *worker, size_t n);
/* What c1 is told of the end; NULL: the iteration has not ended. */
const Millrace__IterationEnd *the_end(struct fixture *f);
/* The stored record of the splits; NULL: there is none. */
const char *cursor(struct fixture *f);
