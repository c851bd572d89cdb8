/* What the tests of shared productions have in common: jobs a and b over one dataset, on workers w1
 * and w2. */
#pragma once

#include "core_support.h"

struct fixture {
    struct table t;
    char production[64]; /* the first job's */
    char a[64], b[64];   /* iterations */
};

/* For cmocka. Beside the usual there is a dataset "endless". */
int sharing_setup(void **state);
int sharing_teardown(void **state);
/* A client of its own for each job: the name's. */
void open_shared(struct fixture *f, const char *dataset, const char *job, char *iteration);
bool record_says(struct fixture *f, const char *prefix, const char *id, const char *text);
bool exists(struct fixture *f, const char *prefix, const char *id);
/* What @worker is told of its task in @iteration; lent until the next step. */
const Millrace__TaskAssignment *assignment_of(struct fixture *f, const char *worker,
                                              const char *iteration);
const char *production_of(struct fixture *f, const char *iteration);
bool is_joining(struct fixture *f, const char *iteration);
/* Job a has a production; job b is joining it. */
void open_two(struct fixture *f);
void answer(struct fixture *f, const char *worker, const char *iteration, uint64_t first,
            const char *refused);
void share(struct fixture *f);
/* Job b has a production of its own, for that reason. */
void expect_apart(struct fixture *f, const char *why);
/* Splits for the producing task of @worker. */
void produce(struct fixture *f, const char *worker, uint64_t seq);
int delete_job(struct table *t, const char *name);
