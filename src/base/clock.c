#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * MR_NS_PER_S + ts.tv_nsec;
}

int64_t mr_now_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

int64_t mr_now_ms(void)
{
    return mr_now_ns() / MR_NS_PER_MS;
}

int64_t mr_wall_ms(void)
{
    return read_clock(CLOCK_REALTIME) / MR_NS_PER_MS;
}

void mr_wall_format(int64_t wall_ms, char out[32])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;

    (void)gmtime_r(&seconds, &tm);
    size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + n, 32 - n, ".%03dZ", (int)(wall_ms % 1000));
}

int64_t mr_backoff_ms(uint32_t attempt, int64_t base_ms, int64_t max_ms, uint64_t random)
{
    double wait = (double)base_ms;

    for (uint32_t i = 0; i < attempt && wait < (double)max_ms; i++) {
        wait *= 1.6;
    }
    wait = wait < (double)max_ms ? wait : (double)max_ms;
    return (int64_t)(wait * (0.75 + 0.5 * (double)(random % 1024) / 1024.0)) + 1;
}
