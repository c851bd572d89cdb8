/*
 * The pool: one set of threads for all iterators of the process, for kernel work on blocks.
 *
 * A task never pulls and never waits for another task: that is what keeps iterators from blocking
 * each other. The threads exist only while somebody uses the pool, so that a process that has
 * closed its iterators may fork.
 *
 * Threads: safe from any thread, except that a task must not release the pool.
 */
#pragma once

#include "base/cpu.h"

/* Embedded in what the task works on; untouched by the pool once run() was called. */
struct mr_pool_task {
    struct mr_cpu_work work; /* first member; the pool's */
    struct mr_pool_task *next;
    void (*run)(struct mr_pool_task *task);
    mr_cpu_share *share; /* the job that it is for, or NULL: it runs when that has its turn */
};

/* Threads are started by the first user (as many as cores may be used). */
int mr_pool_acquire(mr_error *err);
/* All tasks that the user submitted have ended. The last user's call waits for the threads. */
void mr_pool_release(void);

void mr_pool_submit(struct mr_pool_task *task);
/* true: @task, which was submitted, will not be run. false: it is running, or has been run. */
bool mr_pool_take_back(struct mr_pool_task *task);
/* How many threads have nothing to do. */
uint32_t mr_pool_idle(void);
