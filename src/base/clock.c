#include "base/clock.h"

#include "base/base.h"

#include <time.h>

#define DAY_S 86400
/* After so many years the calendar repeats. */
#define CYCLE_YEARS 400
#define CYCLE_DAYS 146097

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

int64_t mr_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t mr_wall_ms(void)
{
    return read_clock(CLOCK_REALTIME) / MR_NS_PER_MS;
}

static int days_of_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month] + (month == 1 && leap);
}

static int64_t floor_of(int64_t n, int64_t unit)
{
    return n / unit - (n % unit < 0);
}

size_t mr_utc_format(int64_t seconds, char out[32])
{
    int64_t days = floor_of(seconds, DAY_S);
    int64_t time = seconds - days * DAY_S;
    int64_t cycles = floor_of(days, CYCLE_DAYS);
    int64_t year = 1970 + cycles * CYCLE_YEARS;
    int month = 0;

    days -= cycles * CYCLE_DAYS;
    while (days >= days_of_month(year, month)) {
        days -= days_of_month(year, month);
        month = (month + 1) % 12;
        year += month == 0;
    }
    return (size_t)snprintf(out, 32, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d", year, month + 1,
                            (int)days + 1, (int)(time / 3600), (int)(time / 60 % 60),
                            (int)(time % 60));
}

void mr_wall_format(int64_t wall_ms, char out[32])
{
    int64_t seconds = floor_of(wall_ms, 1000);
    size_t n = mr_utc_format(seconds, out);

    (void)snprintf(out + n, 32 - n, ".%03dZ", (int)(wall_ms - seconds * 1000));
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
