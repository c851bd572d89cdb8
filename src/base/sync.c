#include "base/sync.h"

#include "base/base.h"

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
