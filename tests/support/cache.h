/*
 * Elements whose bytes follow from their number, for tests of the cache: appended in random chunks,
 * checked in views.
 *
 * Threads: a feed belongs to one thread; checking is safe from any. Failures end the process with a
 * message, so that they may happen on any thread.
 */
#pragma once

#include "base/rng.h"
#include "cache/cache.h"

#include <pthread.h>

/* Where the tests' caches live (cache_fake.c, cache_rocks.c). */
struct test_cache {
    mr_cache *cache;
    void *storage; /* fake: mr_storage */
    char dir[64];  /* rocks */
};
/* @memory bytes of unstored elements a log, about; @disk for all logs. */
void test_cache_open(struct test_cache *t, uint64_t disk, uint64_t memory, uint32_t logs);
void test_cache_close(struct test_cache *t);
bool test_cache_is_fake(void);

struct test_feed {
    mr_cache_log *log;
    uint64_t seed;
    uint32_t scale; /* a row has 64 to 64 * scale bytes */
    uint64_t next;
    struct mr_rng rng;
};
void test_feed_init(struct test_feed *f, mr_cache_log *log, uint64_t seed, uint32_t scale);
/* Append the next @rows rows in one chunk of one to three pieces. */
int test_feed_append(struct test_feed *f, uint32_t rows, mr_error *err);
/* Chunks that the cache has not released. */
long test_feed_outstanding(void);

uint64_t test_rows_bytes(uint64_t seed, uint32_t scale, uint64_t first, uint64_t rows);
/* Every byte of @view is what the feed with @seed and @scale appended. */
void test_check_view(const mr_cache_view *view, uint64_t seed, uint32_t scale);

/* A reader that waits: its `ready` sets a flag under a lock. */
struct test_reader {
    mr_cache_reader *reader;
    uint64_t first;
    unsigned told;
    pthread_mutex_t *lock;
    pthread_cond_t *cond;
};
void test_reader_open(struct test_reader *r, mr_cache_log *log, enum mr_cache_lag lag);
/* As mr_cache_reader_next(), but waits instead of MR_TIMEOUT. */
int test_reader_next(struct test_reader *r, uint64_t rows_max, uint64_t bytes_max,
                     mr_cache_view **ret, mr_error *err);
void test_reader_close(struct test_reader *r);

/* Until @done is true, which the writer of some log makes true. */
void test_wait(bool (*done)(void *ctx), void *ctx);

_Noreturn void test_die(const char *fmt, ...) MR_PRINTF(1, 2);
