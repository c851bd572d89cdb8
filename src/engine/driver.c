#include "engine/driver.h"

#include "base/clock.h"
#include "base/doing.h"
#include "base/limits.h"
#include "base/states.h"
#include "engine/profile.h"

#define FAST_NS (MR_NS_PER_MS / 2)
#define SLOW_NS (MR_NS_PER_MS * 2)

#define MAGIC UINT32_C(0x6d726472)

enum { RUNNING, PAUSED, STOPPING };
static const struct mr_state_row states[] = {
    [RUNNING] = {"running", MR_STATES(PAUSED) | MR_STATES(STOPPING)},
    [PAUSED] = {"paused", MR_STATES(RUNNING) | MR_STATES(STOPPING)},
    [STOPPING] = {"stopping", 0},
};

/* @ctx comes back as it was given: a driver. */
static struct mr_driver *driver_of(void *ctx)
{
    struct mr_driver *d = ctx;

    MR_CHECK_MAGIC(d, MAGIC);
    return d;
}

static void move_to(struct mr_driver *d, uint32_t state)
{
    MR_LOCK(&d->lock);
    MR_ASSERT(d->idle <= d->nthreads);
    mr_state_move("driver", d, states, &d->state, state);
}

static void wake(void *ctx)
{
    struct mr_driver *d = driver_of(ctx);

    MR_LOCK(&d->lock);
    (void)pthread_cond_broadcast(&d->changed);
}

void mr_driver_init(struct mr_driver *d, struct mr_env *env, const mr_dataset *ds,
                    void *(*take)(void *), void (*run)(void *, void *), void *ctx)
{
    *d = (struct mr_driver){.magic = MAGIC, .env = env, .take = take, .run = run, .ctx = ctx};
    d->number = mr_profile_number(env->profile, ds);
    mr_mutex_init(&d->lock);
    mr_cond_init(&d->changed);
    atomic_init(&d->interrupt, false);
    d->canceller.gentle = true;
    mr_env_add_canceller(env, &d->canceller, wake, d);
}

static void *driver_main(void *arg)
{
    struct mr_driver *d = driver_of(arg);

    struct mr_env_work before = mr_env_enter_stage(d->env, d->number);
    mr_cpu_enter(d->env->share);
    mr_mutex_lock(&d->lock);
    while (d->state != STOPPING) {
        bool working = d->state == RUNNING && !mr_env_cancelled(d->env);
        void *work = working ? d->take(d->ctx) : NULL;

        if (work == NULL) {
            d->idle++;
            if (d->state == PAUSED) {
                (void)pthread_cond_broadcast(&d->changed);
            }
            mr_cond_wait(&d->changed, &d->lock);
            d->idle--;
            continue;
        }
        mr_mutex_unlock(&d->lock);
        d->run(d->ctx, work);
        mr_mutex_lock(&d->lock);
    }
    mr_mutex_unlock(&d->lock);
    mr_cpu_leave();
    mr_env_leave(before);
    return NULL;
}

int mr_driver_start(struct mr_driver *d, uint32_t nthreads, mr_error *err)
{
    int rc = MR_OK;

    if (d->nthreads > 0) {
        return MR_OK;
    }
    if (d->threads == NULL) {
        d->threads = mr_calloc(nthreads, sizeof *d->threads);
    }
    MR_CHECK_ALLOC(d->threads, err);
    while (d->nthreads < nthreads && rc == MR_OK) {
        rc = mr_thread_start(&d->threads[d->nthreads], "mr-driver", driver_main, d, err);
        d->nthreads += rc == MR_OK;
    }
    return d->nthreads > 0 ? MR_OK : rc; /* fewer than wanted will do */
}

/* Have the pulls of the threads come back, wherever further up they wait. */
static void interrupt(struct mr_driver *d)
{
    atomic_store(&d->interrupt, true);
    mr_env_wake(d->env);
}

int mr_driver_pause(struct mr_driver *d, mr_error *err)
{
    move_to(d, PAUSED);
    interrupt(d);
    MR_LOCK(&d->lock);
    while (d->idle < d->nthreads) {
        if (mr_env_cancelled(d->env)) {
            return mr_env_canceled_error(err);
        }
        mr_cond_wait(&d->changed, &d->lock);
    }
    return MR_OK;
}

void mr_driver_resume(struct mr_driver *d)
{
    atomic_store(&d->interrupt, false);
    move_to(d, RUNNING);
    wake(d);
}

void mr_driver_stop(struct mr_driver *d)
{
    move_to(d, STOPPING);
    interrupt(d);
    for (uint32_t i = 0; i < d->nthreads; i++) {
        mr_thread_join(d->threads[i]);
    }
    d->nthreads = 0;
}

void mr_driver_destroy(struct mr_driver *d)
{
    mr_env_remove_canceller(d->env, &d->canceller);
    MR_ASSERT(d->nthreads == 0);
    d->magic = 0;
    mr_free(d->threads);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
}

static int wait_locked(struct mr_driver *d, const struct mr_pull *pull, mr_error *err)
{
    if (mr_env_cancelled(d->env)) {
        return mr_env_canceled_error(err);
    }
    if (pull->interrupt != NULL && atomic_load(pull->interrupt)) {
        return MR_TIMEOUT;
    }
    if (pull->deadline_ms == MR_NO_DEADLINE) {
        mr_cond_wait(&d->changed, &d->lock);
        return MR_OK;
    }
    int64_t left = pull->deadline_ms > 0 ? pull->deadline_ms - mr_now_ms() : 0;
    if (left <= 0) {
        return MR_TIMEOUT;
    }
    (void)mr_cond_wait_ms(&d->changed, &d->lock, left);
    return MR_OK;
}

int mr_driver_wait_locked(struct mr_driver *d, const struct mr_pull *pull, mr_error *err)
{
    uint32_t before = mr_doing_begin(mr_doing_word(d->number, MR_DOING_STAGE));
    int rc = wait_locked(d, pull, err);

    mr_doing_end(before);
    return rc;
}

void mr_driver_changed_locked(struct mr_driver *d)
{
    (void)pthread_cond_broadcast(&d->changed);
}

uint32_t mr_driver_next_demand(uint32_t demand, uint32_t got, size_t bytes, int64_t ns)
{
    if (ns > SLOW_NS && got > 1) {
        return got / 2;
    }
    bool room = got >= demand / 2 && bytes < MR_BLOCK_BYTES_HINT && demand < MR_BLOCK_ROWS_MAX;
    return room && ns < FAST_NS ? demand * 2 : demand;
}
