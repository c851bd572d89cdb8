#include "cache_fixture.h"

#include <stdlib.h>

struct test_cache t;

int setup(void **state)
{
    test_cache_open(&t, 64 * MIB, MEMORY, 4);
    return 0;
}

int teardown(void **state)
{
    test_cache_close(&t);
    assert_int_equal(test_feed_outstanding(), 0);
    return 0;
}

mr_cache_log *open_log(uint64_t bytes_max)
{
    mr_cache_log *log;
    mr_error err;

    if (mr_cache_log_open(t.cache, "test", bytes_max, &log, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return log;
}

struct mr_cache_log_stats stats_of(mr_cache_log *log)
{
    struct mr_cache_log_stats stats;

    mr_cache_log_stats(log, &stats);
    return stats;
}

uint64_t skipped_by(const struct test_reader *r)
{
    struct mr_cache_reader_stats stats;

    mr_cache_reader_stats(r->reader, &stats);
    return stats.skipped;
}

void append(struct test_feed *f, uint32_t rows)
{
    mr_error err;

    if (test_feed_append(f, rows, &err) < 0) {
        fail_msg("%s", err.message);
    }
}

uint64_t drain(struct test_reader *r, const struct test_feed *f)
{
    uint64_t n = 0;
    mr_cache_view *view;
    mr_error err;
    int rc;

    while ((rc = mr_cache_reader_next(r->reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f->seed, f->scale);
        n += view->rows - view->skip;
        assert_int_equal(mr_cache_reader_returned(r->reader, view->first + view->rows, NULL),
                         MR_OK);
        mr_cache_view_unref(view);
    }
    assert_int_equal(rc, MR_TIMEOUT);
    return n;
}

bool memory_is_written(void *log)
{
    /* Less than a file is left. */
    return stats_of(log).memory_bytes < MEMORY / 4 + 128 * KIB;
}

static void *produce(void *ctx)
{
    struct producer *p = ctx;
    uint64_t demand = UINT64_MAX;

    while (p->rc == MR_OK && p->feed.next < p->rows) {
        uint32_t rows = 1 + (uint32_t)mr_rng_below(&p->feed.rng, 9);

        if (p->on_demand) {
            p->rc = mr_cache_log_wait(p->feed.log, &demand, NULL);
        }
        rows = rows > demand ? (uint32_t)demand : rows;
        rows = rows > p->rows - p->feed.next ? (uint32_t)(p->rows - p->feed.next) : rows;
        if (p->rc == MR_OK) {
            p->rc = test_feed_append(&p->feed, rows, NULL);
            p->produced = p->feed.next;
        }
    }
    if (p->rc == MR_OK) {
        mr_cache_log_finish(p->feed.log);
    }
    return NULL;
}

void start_producer(struct producer *p, mr_cache_log *log, uint64_t seed, uint64_t rows,
                    bool on_demand)
{
    *p = (struct producer){.rows = rows, .on_demand = on_demand};
    test_feed_init(&p->feed, log, seed, SCALE);
    assert_int_equal(pthread_create(&p->thread, NULL, produce, p), 0);
}

void test_cache_abort_on_failure(void)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1);
}
