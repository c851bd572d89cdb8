/* Pipelines that cover every operator, for tests of what holds for all of them. */
#pragma once

#include "engine_support.h"

struct pipeline {
    const char *name;
    mr_dataset *(*make)(void);
    size_t most; /* elements to look at, for endless ones; 0: all */
    bool any_order;
    /* elements of a later pass descend from nothing: an earlier one has accounted for them */
    bool kept;
    bool by_value; /* which elements are put together depends on their values */
    bool company;  /* what an element is, or whether it comes, depends on those that come with it */
};

/* All of them; the caller frees the list. */
struct pipeline *pipelines_list(size_t *n);

/* The files that they read: for cmocka_run_group_tests(). */
int pipelines_setup(void **state);
int pipelines_teardown(void **state);

/* ---- between the files of this list ---- */

extern const struct pipeline basic_pipelines[];
extern const size_t basic_pipelines_count;
extern const struct pipeline more_pipelines[];
extern const size_t more_pipelines_count;

mr_dataset *map_of(mr_dataset *ds, mr_function *(*fn)(const mr_dataset *), int64_t calls,
                   bool ordered);
mr_dataset *p_saved(void);
mr_dataset *p_snapshot(void);
mr_dataset *p_snapshot_fails(void);
void saved_pipelines_setup(const char *dir);
void saved_pipelines_teardown(void);
mr_dataset *p_map_fails(void);
mr_dataset *p_map_fails_parallel(void);
mr_dataset *p_shuffle_vectors(void);
