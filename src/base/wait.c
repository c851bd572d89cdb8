/* What of sync.h waits, and gives up its core by that: apart from the locks, which the gate and all
 * that it uses take. */
#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/sync.h"

#include <errno.h>
#include <time.h>

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

void mr_thread_join(pthread_t thread)
{
    mr_cpu_rest();
    (void)pthread_join(thread, NULL);
}
