/* Time. Monotonic (it counts suspend, see etcd leases) for deadlines and intervals; wall time for
 * people only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MR_NS_PER_MS INT64_C(1000000)
#define MR_NS_PER_S INT64_C(1000000000)

int64_t mr_now_ns(void);        /* CLOCK_BOOTTIME */
int64_t mr_now_ms(void);        /* the same, in ms */
int64_t mr_thread_cpu_ns(void); /* that this thread has used */
int64_t mr_wall_ms(void);       /* since 1970, UTC */
/* "2026-01-31T12:00:00", of seconds since 1970; its length, at most 28. Safe after fork():
 * gmtime_r() takes a lock of the C library, which a child may find held by a thread that it does
 * not have. */
size_t mr_utc_format(int64_t seconds, char out[32]);
/* "2026-01-31T12:00:00.123Z" */
void mr_wall_format(int64_t wall_ms, char out[32]);

/* Wait before retry number @attempt (0-based): grows from @base_ms by 1.6 to @max_ms, with a jitter
 * of +-25 % taken from @random (any number). */
int64_t mr_backoff_ms(uint32_t attempt, int64_t base_ms, int64_t max_ms, uint64_t random);
