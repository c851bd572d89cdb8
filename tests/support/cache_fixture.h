/* What the test programs of the cache share: one cache a test, one log, its figures, a producer on
 * a thread. */
#pragma once

#include "base/base.h"
#include "support/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * KIB)
#define ANY UINT64_MAX
#define MEMORY (2 * MIB) /* of a log: files of 512 KiB or more */
#define SCALE 1024       /* rows of 64 bytes to 64 KiB, about 32 */

extern struct test_cache t; /* of the test that runs */

int setup(void **state);
int teardown(void **state);
/* A failed test leaves logs open, which the teardown would stumble over before the failure is
 * printed: abort. */
void test_cache_abort_on_failure(void);

mr_cache_log *open_log(uint64_t bytes_max);
struct mr_cache_log_stats stats_of(mr_cache_log *log);
uint64_t skipped_by(const struct test_reader *r);
/* Must succeed. */
void append(struct test_feed *f, uint32_t rows);
/* Read what there is, and return it; how many elements. */
uint64_t drain(struct test_reader *r, const struct test_feed *f);
/* For test_wait(), of a log: less than a file is in memory. */
bool memory_is_written(void *log);

struct producer {
    pthread_t thread;
    struct test_feed feed;
    uint64_t rows; /* to produce; then the log is finished */
    bool on_demand;
    _Atomic uint64_t produced;
    int rc;
};
void start_producer(struct producer *p, mr_cache_log *log, uint64_t seed, uint64_t rows,
                    bool on_demand);
