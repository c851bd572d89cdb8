/*
 * The threads of an asynchronous stage (prefetch, parallel map, parallel interleave): they pull
 * upstream while the consumer does something else. The stage keeps its queue under the driver's
 * lock.
 *
 * Pausing is how a stage is saved: nobody pulls, everything that was pulled lies in the queue. Who
 * pauses or stops a driver need not wait for the next element (it may never come): pulls under way
 * are interrupted. Cancelling the iterator wakes everybody.
 *
 * Threads: start, pause, resume and stop are the consumer's.
 */
#pragma once

#include "engine/env.h"
#include "engine/op.h"

struct mr_driver {
    struct mr_env *env;
    uint32_t magic;
    uint32_t number;        /* of the stage in the profile */
    pthread_mutex_t lock;   /* guards state, idle, and the queue of the stage */
    pthread_cond_t changed; /* anything under the lock */
    /* Under the lock: something to do, or NULL. Not called while paused or cancelled. */
    void *(*take)(void *ctx);
    /* Without the lock; publishes under it. Its pulls must carry `interrupt`, and may then end with
     * MR_TIMEOUT. */
    void (*run)(void *ctx, void *work);
    void *ctx;
    struct mr_canceller canceller;
    pthread_t *threads;
    uint32_t nthreads;
    uint32_t idle;
    uint32_t state;        /* of driver.c's table; guarded by lock */
    atomic_bool interrupt; /* for the pulls of the threads */
};

/* @ds: of the stage. */
void mr_driver_init(struct mr_driver *d, struct mr_env *env, const mr_dataset *ds,
                    void *(*take)(void *), void (*run)(void *, void *), void *ctx);
/* Does nothing if the threads run already. */
int mr_driver_start(struct mr_driver *d, uint32_t nthreads, mr_error *err);
/* No thread is in run() when this returns. MR_ECANCELED: then stop is all that is left. */
int mr_driver_pause(struct mr_driver *d, mr_error *err);
void mr_driver_resume(struct mr_driver *d);
/* Wait for the threads to end. */
void mr_driver_stop(struct mr_driver *d);
/* after stop; one that was never initialised is not fine */
void mr_driver_destroy(struct mr_driver *d);

/* Under the lock: wait until something changed. MR_OK, MR_TIMEOUT at the deadline (at once if it is
 * 0) or when @pull is interrupted, MR_ECANCELED. */
int mr_driver_wait_locked(struct mr_driver *d, const struct mr_pull *pull, mr_error *err);
/* Under the lock: something changed. */
void mr_driver_changed_locked(struct mr_driver *d);

/* A pull of a thread ended with @rc since the iterator is cancelled, which is all that there is to
 * say. Others may say the same of what is theirs: that is an error like any. */
static inline bool mr_driver_gave_up(const struct mr_driver *d, int rc)
{
    return rc == MR_ECANCELED && mr_env_cancelled(d->env);
}

/* How many rows a driver asks for: doubles while making a block is quick and the block is small. */
uint32_t mr_driver_next_demand(uint32_t demand, uint32_t got, size_t bytes, int64_t ns);
