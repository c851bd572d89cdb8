#include "base/sync.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

void mr_mutex_init(pthread_mutex_t *m)
{
    int rc = pthread_mutex_init(m, NULL);

    MR_ASSERT(rc == 0);
}

void mr_mutex_lock(pthread_mutex_t *m)
{
    int rc = pthread_mutex_lock(m);

    MR_ASSERT(rc == 0);
}

void mr_mutex_unlock(pthread_mutex_t *m)
{
    int rc = pthread_mutex_unlock(m);

    MR_ASSERT(rc == 0);
}

void mr_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    int rc = pthread_condattr_init(&attr);
    MR_ASSERT(rc == 0);
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    MR_ASSERT(rc == 0);
    rc = pthread_cond_init(c, &attr);
    MR_ASSERT(rc == 0);
    (void)pthread_condattr_destroy(&attr);
}

void mr_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    mr_cpu_rest();
    int rc = pthread_cond_wait(c, m);

    MR_ASSERT(rc == 0);
}

bool mr_cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t timeout_ms)
{
    struct timespec ts;

    if (timeout_ms < 0) {
        mr_cond_wait(c, m);
        return true;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += timeout_ms / 1000;
    ts.tv_nsec += (timeout_ms % 1000) * MR_NS_PER_MS;
    if (ts.tv_nsec >= MR_NS_PER_S) {
        ts.tv_sec++;
        ts.tv_nsec -= MR_NS_PER_S;
    }
    mr_cpu_rest();
    int rc = pthread_cond_timedwait(c, m, &ts);
    MR_ASSERT(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}

int mr_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg,
                    mr_error *err)
{
    sigset_t all;
    sigset_t old;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        return mr_error_set(err, MR_EEXHAUSTED, "no thread for '%s' (limit of processes or memory)",
                            name);
    }
    (void)pthread_setname_np(*thread, name);
    return MR_OK;
}

void mr_thread_join(pthread_t thread)
{
    mr_cpu_rest();
    (void)pthread_join(thread, NULL);
}
