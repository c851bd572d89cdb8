/*
 * The cache as its users see it. Compiled twice: over the storage in memory (cache_test, for all sanitizers, with
 * injected faults) and over RocksDB (cache_rocks_test).
 */
#include "support/cache.h"

#include "base/alloc.h"
#include "base/sync.h"
#include "cache/fake/fake.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * KIB)
#define ANY UINT64_MAX
#define MEMORY (2 * MIB) /* of a log: files of 512 KiB or more */

static struct test_cache t;

static int setup(void **state)
{
    test_cache_open(&t, 64 * MIB, MEMORY, 4);
    return 0;
}

static int teardown(void **state)
{
    test_cache_close(&t);
    assert_int_equal(test_feed_outstanding(), 0);
    return 0;
}

static mr_cache_log *open_log(uint64_t bytes_max)
{
    struct mr_cache_log_options opts = {.bytes_max = bytes_max};
    mr_cache_log *log;
    mr_error err;

    if (mr_cache_log_open(t.cache, "test", &opts, &log, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return log;
}

static struct mr_cache_log_stats stats_of(mr_cache_log *log)
{
    struct mr_cache_log_stats stats;

    mr_cache_log_stats(log, &stats);
    return stats;
}

static uint64_t skipped_by(const struct test_reader *r)
{
    struct mr_cache_reader_stats stats;

    mr_cache_reader_stats(r->reader, &stats);
    return stats.skipped;
}

/* Rows of 64 bytes to 64 KiB, about 32. */
#define SCALE 1024

static void append(struct test_feed *f, uint32_t rows)
{
    mr_error err;

    if (test_feed_append(f, rows, &err) < 0) {
        fail_msg("%s", err.message);
    }
}

/* Read what there is, and return it; how many elements. */
static uint64_t drain(struct test_reader *r, const struct test_feed *f)
{
    uint64_t n = 0;
    mr_cache_view *view;
    mr_error err;
    int rc;

    while ((rc = mr_cache_reader_next(r->reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f->seed, f->scale);
        n += mr_cache_view_rows(view) - mr_cache_view_skip(view);
        assert_int_equal(
            mr_cache_reader_returned(r->reader, mr_cache_view_first(view) + mr_cache_view_rows(view), NULL), MR_OK);
        mr_cache_view_unref(view);
    }
    assert_int_equal(rc, MR_TIMEOUT);
    return n;
}

static bool has_files(void *log)
{
    return stats_of(log).files > 0;
}

static bool memory_is_written(void *log)
{
    /* Less than a file is left. */
    return stats_of(log).memory_bytes < MEMORY / 4 + 128 * KIB;
}

/* ---- ordinary life ---- */

static void what_is_appended_is_read_at_once(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;

    test_feed_init(&f, log, 1, 2);
    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    assert_int_equal(r.first, 0);
    mr_cache_reader_start(r.reader, NULL);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_TIMEOUT);
    assert_int_equal(r.told, 0);
    append(&f, 3); /* far from a full record */
    assert_int_equal(r.told, 1);
    append(&f, 2);
    assert_int_equal(r.told, 1); /* once for each time it found nothing */
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    assert_int_equal(mr_cache_view_first(view), 0);
    assert_int_equal(mr_cache_view_rows(view), 5);
    test_check_view(view, 1, 2);
    append(&f, 7);
    test_check_view(view, 1, 2); /* it does not change while its record grows */
    mr_cache_view_unref(view);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    assert_int_equal(mr_cache_view_first(view), 5);
    assert_int_equal(mr_cache_view_rows(view), 7);
    mr_cache_view_unref(view);
    test_reader_close(&r);
    mr_cache_log_close(log);
}

/* From its memory to a reader's slices without a copy, if it is large; and then it is given back. */
static void large_chunks_are_lent(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;
    size_t n;

    test_feed_init(&f, log, 2, 1);
    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    append(&f, 1);
    assert_int_equal(test_feed_outstanding(), 0); /* copied */
    append(&f, 100 * KIB / 64);
    assert_int_equal(test_feed_outstanding(), 1);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    (void)mr_cache_view_iov(view, &n);
    assert_int_equal(n, 4); /* the copy, and the three pieces as they came */
    test_reader_close(&r);
    mr_cache_log_close(log);
    assert_int_equal(test_feed_outstanding(), 1); /* the view holds it */
    test_check_view(view, 2, 1);
    assert_ptr_equal(mr_cache_view_ref(view), view);
    mr_cache_view_unref(view);
    mr_cache_view_unref(view);
    assert_int_equal(test_feed_outstanding(), 0);
}

static void files_give_back_what_was_written(void **state)
{
    mr_cache_log *log = open_log(32 * MIB);
    struct test_reader r;
    struct test_feed f;

    test_feed_init(&f, log, 3, SCALE);
    while (stats_of(log).memory_bytes + stats_of(log).file_bytes < 16 * MIB) {
        append(&f, 1 + (uint32_t)(f.next % 7));
    }
    test_wait(memory_is_written, log);
    assert_true(stats_of(log).files > 4);
    assert_true(test_feed_outstanding() < 40); /* only what is not written */
    test_reader_open(&r, log, "late", MR_CACHE_LAG_SKIP);
    assert_int_equal(r.first, 0);
    mr_cache_reader_start(r.reader, NULL);
    assert_int_equal(drain(&r, &f), f.next);
    assert_int_equal(skipped_by(&r), 0);
    assert_true(stats_of(log).read_disk_records > 50);
    assert_true(stats_of(log).written_bytes < stats_of(log).appended_bytes * 21 / 20);
    test_reader_close(&r);
    mr_cache_log_close(log);
}

static void limits_of_a_read_are_kept(void **state)
{
    mr_cache_log *log = open_log(32 * MIB);
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;
    uint64_t next = 0, back = 0;

    test_feed_init(&f, log, 4, 4);
    for (int i = 0; i < 20000; i++) {
        append(&f, 1 + (uint32_t)i % 3);
    }
    test_wait(has_files, log);
    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    while (next < f.next) {
        uint64_t rows_max = 1 + next % 11;

        assert_int_equal(mr_cache_reader_next(r.reader, rows_max, 1 + next % 2000, &view, NULL), MR_OK);
        assert_int_equal(mr_cache_view_first(view) + mr_cache_view_skip(view), next);
        if (mr_cache_view_rows(view) - mr_cache_view_skip(view) > rows_max ||
            mr_cache_view_bytes(view) > 1 + next % 2000) {
            size_t n;

            (void)mr_cache_view_chunks(view, &n); /* one chunk is the least */
            assert_int_equal(n, 1);
        }
        test_check_view(view, f.seed, f.scale);
        next = mr_cache_view_first(view) + mr_cache_view_rows(view);
        mr_cache_view_unref(view);
        if (next > back + 500) {
            back = --next; /* into a chunk, perhaps */
            assert_int_equal(mr_cache_reader_rewind(r.reader, next, NULL), MR_OK);
        }
    }
    /* Small reads of one record do not read it again. */
    assert_true(stats_of(log).read_disk_records < 600);
    test_reader_close(&r);
    mr_cache_log_close(log);
}

static void the_end_comes_after_everything(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader a, b;
    struct test_feed f;
    mr_cache_view *view;
    uint64_t rows;
    mr_error err;

    test_feed_init(&f, log, 5, 2);
    test_reader_open(&a, log, "a", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(a.reader, NULL);
    assert_int_equal(mr_cache_log_wait(log, -1, &rows, NULL), MR_OK);
    assert_int_equal(rows, 1);
    append(&f, 10);
    mr_cache_log_finish(log, MR_OK, NULL);
    mr_cache_log_finish(log, MR_EINTERNAL, "too late"); /* only the first counts */
    assert_int_equal(mr_cache_log_wait(log, -1, &rows, NULL), MR_END);
    assert_int_equal(mr_cache_reader_next(a.reader, ANY, ANY, &view, NULL), MR_OK);
    mr_cache_view_unref(view);
    assert_int_equal(mr_cache_reader_next(a.reader, ANY, ANY, &view, NULL), MR_END);
    test_reader_open(&b, log, "b", MR_CACHE_LAG_SKIP); /* a finished log can be joined */
    mr_cache_reader_start(b.reader, NULL);
    assert_int_equal(mr_cache_reader_next(b.reader, ANY, ANY, &view, NULL), MR_OK);
    mr_cache_view_unref(view);
    test_reader_close(&a);
    test_reader_close(&b);
    mr_cache_log_close(log);

    log = open_log(8 * MIB);
    test_reader_open(&a, log, "a", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(a.reader, NULL);
    mr_cache_log_finish(log, MR_EDATALOSS, "shard 7 ends early");
    assert_int_equal(mr_cache_reader_next(a.reader, ANY, ANY, &view, &err), MR_EDATALOSS);
    assert_string_equal(err.message, "shard 7 ends early");
    test_reader_close(&a);
    mr_cache_log_close(log);
}

static void a_closed_log_says_so(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    mr_cache_view *view;

    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_TIMEOUT);
    mr_cache_log_close(log);
    assert_int_equal(r.told, 1);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_ECANCELED);
    assert_int_equal(mr_cache_reader_returned(r.reader, 0, NULL), MR_OK);
    test_reader_close(&r);
}

static void a_cancelled_producer_goes_on_nowhere(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_feed f;
    uint64_t rows;

    test_feed_init(&f, log, 6, 2);
    assert_int_equal(mr_cache_log_wait(log, 1, &rows, NULL), MR_TIMEOUT);
    mr_cache_log_cancel(log);
    assert_int_equal(mr_cache_log_wait(log, -1, &rows, NULL), MR_ECANCELED);
    assert_int_equal(test_feed_append(&f, 1, NULL), MR_ECANCELED);
    mr_cache_log_close(log);
}

static void what_is_no_chunk_is_refused(void **state)
{
    static char bytes[128];
    struct iovec iov = {bytes, 100};
    struct mr_cache_chunk chunk = {.rows = 1, .iov = &iov, .n = 1};
    mr_cache_log *log = open_log(8 * MIB);
    struct test_feed f;
    mr_error err;

    assert_int_equal(mr_cache_log_append(log, &chunk, &err), MR_EINVAL);
    iov.iov_len = 64;
    chunk.rows = 0;
    assert_int_equal(mr_cache_log_append(log, &chunk, &err), MR_EINVAL);
    test_feed_init(&f, log, 7, 1);
    assert_int_equal(test_feed_append(&f, (uint32_t)(mr_cache_log_chunk_bytes_max(log) / 64) + 1, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "more memory"));
    append(&f, (uint32_t)(mr_cache_log_chunk_bytes_max(log) / 64)); /* the log is not harmed */
    mr_cache_log_close(log);
}

static void bytes_and_logs_have_an_end(void **state)
{
    struct mr_cache_log_options opts = {.bytes_max = 60 * MIB};
    mr_cache_log *logs[4], *more;
    mr_error err;

    assert_int_equal(mr_cache_bytes_free(t.cache), 64 * MIB);
    logs[0] = open_log(56 * MIB);
    assert_int_equal(mr_cache_log_open(t.cache, "more", &opts, &more, &err), MR_EEXHAUSTED);
    logs[1] = open_log(0); /* what is left */
    assert_int_equal(mr_cache_bytes_free(t.cache), 0);
    assert_int_equal(mr_cache_log_open(t.cache, "more", NULL, &more, &err), MR_EEXHAUSTED);
    mr_cache_log_close(logs[0]);
    assert_int_equal(mr_cache_bytes_free(t.cache), 56 * MIB);
    opts.bytes_max = MIB;
    assert_int_equal(mr_cache_log_open(t.cache, "more", &opts, &more, &err), MR_EINVAL);
    for (size_t i = 0; i < 4; i++) {
        if (i != 1) {
            logs[i] = open_log(8 * MIB);
        }
    }
    opts.bytes_max = 8 * MIB;
    assert_int_equal(mr_cache_log_open(t.cache, "more", &opts, &more, &err), MR_EEXHAUSTED);
    for (size_t i = 0; i < 4; i++) {
        mr_cache_log_close(logs[i]);
    }
}

/* ---- the window, over files ---- */

static void the_window_slides_and_skips_are_counted(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader slow, late;
    struct test_feed f;
    uint64_t got;

    test_feed_init(&f, log, 8, SCALE);
    test_reader_open(&slow, log, "slow", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(slow.reader, NULL);
    append(&f, 10);
    got = drain(&slow, &f);
    assert_int_equal(got, 10);
    while (stats_of(log).written_bytes < 30 * MIB) {
        append(&f, 4);
        assert_true(stats_of(log).file_bytes <= 8 * MIB);
    }
    got += drain(&slow, &f);
    assert_true(skipped_by(&slow) > 0);
    assert_int_equal(got + skipped_by(&slow), f.next);
    test_reader_open(&late, log, "late", MR_CACHE_LAG_SKIP);
    assert_true(late.first > 0);
    mr_cache_reader_start(late.reader, &late.first);
    assert_int_equal(drain(&late, &f), f.next - late.first);
    assert_int_equal(skipped_by(&late), 0);
    test_reader_close(&slow);
    test_reader_close(&late);
    mr_cache_log_close(log);
}

struct producer {
    pthread_t thread;
    struct test_feed feed;
    uint64_t rows; /* to produce; then the log is finished */
    bool on_demand;
    _Atomic uint64_t produced;
    int rc;
};

static void *produce(void *ctx)
{
    struct producer *p = ctx;
    uint64_t demand = UINT64_MAX;

    while (p->rc == MR_OK && p->feed.next < p->rows) {
        uint32_t rows = 1 + (uint32_t)mr_rng_below(&p->feed.rng, 9);

        if (p->on_demand) {
            p->rc = mr_cache_log_wait(p->feed.log, -1, &demand, NULL);
        }
        rows = rows > demand ? (uint32_t)demand : rows;
        rows = rows > p->rows - p->feed.next ? (uint32_t)(p->rows - p->feed.next) : rows;
        if (p->rc == MR_OK) {
            p->rc = test_feed_append(&p->feed, rows, NULL);
            p->produced = p->feed.next;
        }
    }
    if (p->rc == MR_OK) {
        mr_cache_log_finish(p->feed.log, MR_OK, NULL);
    }
    return NULL;
}

static void start_producer(struct producer *p, mr_cache_log *log, uint64_t seed, uint64_t rows, bool on_demand)
{
    *p = (struct producer){.rows = rows, .on_demand = on_demand};
    test_feed_init(&p->feed, log, seed, SCALE);
    assert_int_equal(pthread_create(&p->thread, NULL, produce, p), 0);
}

static bool producer_waits(void *ctx)
{
    struct producer *p = ctx;
    struct mr_cache_log_stats stats = stats_of(p->feed.log);

    return stats.memory_bytes + 512 * KIB > MEMORY && stats.file_bytes + MEMORY > stats.bytes_max;
}

static void who_waits_misses_nothing(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader slow, fast;
    struct producer p;
    uint64_t seen = 0;
    mr_cache_view *view;

    test_reader_open(&slow, log, "slow", MR_CACHE_LAG_WAIT);
    mr_cache_reader_start(slow.reader, NULL);
    test_reader_open(&fast, log, "fast", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(fast.reader, NULL);
    start_producer(&p, log, 9, 2000, false);
    test_wait(producer_waits, &p);
    /* Prefetch is not consumption: it still waits. */
    while (mr_cache_reader_next(slow.reader, ANY, ANY, &view, NULL) == MR_OK) {
        seen = mr_cache_view_first(view) + mr_cache_view_rows(view);
        mr_cache_view_unref(view);
    }
    assert_true(seen < 2000);
    assert_int_equal(stats_of(log).head, 0);
    (void)drain(&fast, &p.feed);
    assert_int_equal(mr_cache_reader_rewind(slow.reader, 0, NULL), MR_OK);
    for (seen = 0; test_reader_next(&slow, ANY, ANY, &view, NULL) == MR_OK;) {
        assert_int_equal(mr_cache_view_first(view), seen);
        test_check_view(view, 9, SCALE);
        seen += mr_cache_view_rows(view);
        assert_int_equal(mr_cache_reader_returned(slow.reader, seen, NULL), MR_OK);
        mr_cache_view_unref(view);
    }
    assert_int_equal(seen, 2000);
    assert_int_equal(skipped_by(&slow), 0);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    assert_int_equal(p.rc, MR_OK);
    assert_true(stats_of(log).head > 0);
    test_reader_close(&slow);
    test_reader_close(&fast);
    mr_cache_log_close(log);
}

static void element_0_is_held_until_it_is_decided(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader pinned;
    struct producer p;
    uint64_t first;

    test_reader_open(&pinned, log, "pinned", MR_CACHE_LAG_SKIP);
    start_producer(&p, log, 10, 2000, false);
    test_wait(producer_waits, &p);
    mr_cache_reader_start(pinned.reader, &first);
    assert_int_equal(first, 0);
    assert_int_equal(pthread_join(p.thread, NULL), 0); /* now it skips, and holds nobody up */
    test_reader_close(&pinned);
    mr_cache_log_close(log);

    log = open_log(8 * MIB);
    test_reader_open(&pinned, log, "pinned", MR_CACHE_LAG_WAIT);
    start_producer(&p, log, 10, 2000, false);
    test_wait(producer_waits, &p);
    test_reader_close(&pinned); /* it goes without having begun */
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    mr_cache_log_close(log);
}

static void readers_drive_production(void **state)
{
    mr_cache_log *log = open_log(16 * MIB);
    struct test_reader r;
    struct producer p;
    mr_cache_view *view;
    uint64_t next = 0;
    mr_error err;
    int rc;

    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    start_producer(&p, log, 11, 3000, true);
    while ((rc = test_reader_next(&r, ANY, ANY, &view, &err)) == MR_OK) {
        next = mr_cache_view_first(view) + mr_cache_view_rows(view);
        mr_cache_view_unref(view);
        /* 1 MiB ahead is some 32 elements on the average of those so far. */
        assert_true(p.produced <= next + 400);
    }
    if (rc != MR_END) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(next, 3000);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    test_reader_close(&r);
    mr_cache_log_close(log);
}

/* ---- several logs, many threads ---- */

struct consumer {
    pthread_t thread;
    mr_cache_log *log;
    uint64_t seed;
    enum mr_cache_lag lag;
    uint64_t handed, skipped, first;
    int rc;
};

static void *consume(void *ctx)
{
    struct consumer *c = ctx;
    struct mr_rng rng;
    struct test_reader r;
    mr_cache_view *view, *kept = NULL;
    uint64_t next;

    mr_rng_seed(&rng, c->seed ^ (uint64_t)(uintptr_t)c);
    test_reader_open(&r, c->log, "c", c->lag);
    mr_cache_reader_start(r.reader, &c->first);
    next = c->first;
    while ((c->rc = test_reader_next(&r, 1 + mr_rng_below(&rng, 100), ANY, &view, NULL)) == MR_OK) {
        uint64_t at = mr_cache_view_first(view) + mr_cache_view_skip(view);

        test_check_view(view, c->seed, SCALE);
        if (at < next || (c->lag == MR_CACHE_LAG_WAIT && at != next)) {
            test_die("element %" PRIu64 " came, expected %" PRIu64, at, next);
        }
        next = mr_cache_view_first(view) + mr_cache_view_rows(view);
        c->handed += next - at;
        if (mr_cache_reader_returned(r.reader, next, NULL) < 0) {
            test_die("what was read cannot be returned");
        }
        if (mr_rng_below(&rng, 10) == 0) { /* a view outlives its place in the window */
            if (kept != NULL) {
                test_check_view(kept, c->seed, SCALE);
            }
            mr_cache_view_unref(kept);
            kept = mr_cache_view_ref(view);
        }
        mr_cache_view_unref(view);
    }
    c->skipped = skipped_by(&r);
    test_reader_close(&r);
    mr_cache_view_unref(kept);
    return NULL;
}

#define STRESS_LOGS 3
#define STRESS_READERS 4

static void everybody_at_once(void **state)
{
    struct producer producers[STRESS_LOGS];
    struct consumer consumers[STRESS_LOGS][STRESS_READERS];
    mr_cache_log *logs[STRESS_LOGS];
    const uint64_t rows = 1500;

    for (size_t i = 0; i < STRESS_LOGS; i++) {
        logs[i] = open_log(8 * MIB);
        for (size_t j = 0; j < STRESS_READERS; j++) {
            consumers[i][j] = (struct consumer){
                .log = logs[i], .seed = 20 + i, .lag = j % 2 == 0 ? MR_CACHE_LAG_WAIT : MR_CACHE_LAG_SKIP};
            assert_int_equal(pthread_create(&consumers[i][j].thread, NULL, consume, &consumers[i][j]), 0);
        }
        start_producer(&producers[i], logs[i], 20 + i, rows, i == 0);
    }
    for (size_t i = 0; i < STRESS_LOGS; i++) {
        assert_int_equal(pthread_join(producers[i].thread, NULL), 0);
        if (producers[i].rc < 0) {
            fail_msg("%s", stats_of(logs[i]).message);
        }
        for (size_t j = 0; j < STRESS_READERS; j++) {
            struct consumer *c = &consumers[i][j];

            assert_int_equal(pthread_join(c->thread, NULL), 0);
            assert_int_equal(c->rc, MR_END);
            assert_int_equal(c->first + c->handed + c->skipped, rows);
            assert_true(c->lag == MR_CACHE_LAG_SKIP || c->skipped == 0);
        }
        mr_cache_log_close(logs[i]);
    }
}

static void a_log_closes_under_its_readers(void **state)
{
    for (uint64_t round = 0; round < 10; round++) {
        mr_cache_log *log = open_log(8 * MIB);
        struct consumer consumers[STRESS_READERS];
        struct test_feed f;

        test_feed_init(&f, log, 30, SCALE);
        append(&f, 1);
        for (size_t j = 0; j < STRESS_READERS; j++) {
            consumers[j] = (struct consumer){.log = log, .seed = 30, .lag = MR_CACHE_LAG_SKIP};
        }
        /* They are in the log before it is closed: opening a reader of a closed log is a mistake. */
        for (size_t j = 0; j < STRESS_READERS; j++) {
            assert_int_equal(pthread_create(&consumers[j].thread, NULL, consume, &consumers[j]), 0);
        }
        while (stats_of(log).readers < STRESS_READERS || f.next < 40 * round) {
            append(&f, 5);
        }
        mr_cache_log_close(log);
        for (size_t j = 0; j < STRESS_READERS; j++) {
            assert_int_equal(pthread_join(consumers[j].thread, NULL), 0);
            assert_int_equal(consumers[j].rc, MR_ECANCELED);
        }
    }
}

/* Random operations of one reader at a time against what is known of every element. MR_SEED replays the choices. */
static void a_model_agrees(void **state)
{
    const char *text = getenv("MR_SEED");
    uint64_t seed = text == NULL ? 42 : strtoull(text, NULL, 10);
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader readers[3];
    struct {
        bool open;
        enum mr_cache_lag lag;
        uint64_t next, returned, skipped;
    } model[3] = {{0}};
    struct producer p;
    struct mr_rng rng;

    print_message("MR_SEED=%" PRIu64 "\n", seed);
    mr_rng_seed(&rng, seed);
    start_producer(&p, log, seed, 4000, false);
    for (int i = 0; i < 6000; i++) {
        size_t k = mr_rng_below(&rng, 3);
        uint64_t what = mr_rng_below(&rng, 100);
        mr_cache_view *view;
        int rc;

        if (!model[k].open) {
            model[k].lag = mr_rng_below(&rng, 2) == 0 ? MR_CACHE_LAG_SKIP : MR_CACHE_LAG_WAIT;
            test_reader_open(&readers[k], log, "m", model[k].lag);
            mr_cache_reader_start(readers[k].reader, &model[k].next);
            model[k].open = true;
            model[k].returned = model[k].next;
            model[k].skipped = 0;
        } else if (what < 60) {
            rc = mr_cache_reader_next(readers[k].reader, 1 + mr_rng_below(&rng, 30), ANY, &view, NULL);
            if (rc == MR_OK) {
                uint64_t at = mr_cache_view_first(view) + mr_cache_view_skip(view);
                uint64_t skipped = skipped_by(&readers[k]);

                test_check_view(view, seed, SCALE);
                assert_true(at >= model[k].next);
                assert_true(model[k].lag == MR_CACHE_LAG_SKIP || at == model[k].next);
                assert_true(skipped >= model[k].skipped + at - model[k].next); /* perhaps more since */
                model[k].next = mr_cache_view_first(view) + mr_cache_view_rows(view);
                model[k].skipped += at - (model[k].next - mr_cache_view_rows(view) + mr_cache_view_skip(view));
                model[k].skipped = skipped_by(&readers[k]);
                mr_cache_view_unref(view);
                if (model[k].lag == MR_CACHE_LAG_SKIP) {
                    struct mr_cache_reader_stats stats;

                    mr_cache_reader_stats(readers[k].reader, &stats);
                    model[k].next = stats.next;
                    model[k].skipped = stats.skipped;
                }
            } else {
                assert_true(rc == MR_TIMEOUT || rc == MR_END);
            }
        } else if (what < 90) {
            model[k].returned += mr_rng_below(&rng, model[k].next - model[k].returned + 1);
            assert_int_equal(mr_cache_reader_returned(readers[k].reader, model[k].returned, NULL), MR_OK);
        } else if (what < 97) {
            uint64_t to = model[k].returned + mr_rng_below(&rng, model[k].next - model[k].returned + 1);
            struct mr_cache_reader_stats stats;

            assert_int_equal(mr_cache_reader_rewind(readers[k].reader, to, NULL), MR_OK);
            mr_cache_reader_stats(readers[k].reader, &stats);
            assert_true(model[k].lag == MR_CACHE_LAG_WAIT ? stats.next == to && stats.skipped == 0 : stats.next >= to);
            model[k].next = stats.next;
            model[k].skipped = stats.skipped;
        } else {
            test_reader_close(&readers[k]);
            model[k].open = false;
        }
        assert_true(stats_of(log).file_bytes <= 8 * MIB);
    }
    for (size_t k = 0; k < 3; k++) {
        if (model[k].open) {
            test_reader_close(&readers[k]);
        }
    }
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    assert_int_equal(p.rc, MR_OK);
    mr_cache_log_close(log);
}

#ifdef TEST_FAKE
/* ---- faults (over the storage in memory) ---- */

static bool has_failed(void *log)
{
    return stats_of(log).code != MR_OK;
}

/* The log fails at the nth @fault; another one does not notice. */
static void fail_writing(enum mr_storage_fake_fault fault, uint64_t nth)
{
    mr_cache_log *log = open_log(8 * MIB), *other = open_log(8 * MIB);
    struct test_reader r;
    struct test_feed f, g;
    mr_cache_view *view;
    uint64_t got = 0, rows;
    mr_error err;
    int rc;

    test_feed_init(&f, log, 50, SCALE);
    test_feed_init(&g, other, 51, SCALE);
    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    append(&g, 10);
    mr_storage_fake_fail(t.storage, fault, nth);
    while ((rc = test_feed_append(&f, 3, &err)) == MR_OK) {
    }
    assert_int_equal(rc, fault == MR_FAKE_REMOVE ? MR_EUNAVAIL : MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "log 'test' in memory: an injected fault"));
    assert_int_equal(mr_cache_log_wait(log, -1, &rows, NULL), rc);
    assert_int_equal(stats_of(log).code, rc);
    assert_string_equal(stats_of(log).message, err.message);
    /* Everything that was accepted and is in the window can be read; then the reason. */
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        got += mr_cache_view_rows(view);
        mr_cache_view_unref(view);
    }
    assert_int_equal(rc, stats_of(log).code);
    assert_int_equal(got + skipped_by(&r), f.next);
    test_reader_close(&r);

    while (g.next < 1000) {
        append(&g, 10);
    }
    assert_int_equal(stats_of(other).code, MR_OK);
    mr_cache_log_close(log);
    mr_cache_log_close(other);
}

static void writing_fails(void **state)
{
    unsigned resets = mr_storage_fake_resets(t.storage);

    fail_writing(MR_FAKE_PUT, 20);
    fail_writing(MR_FAKE_FLUSH, 3);
    assert_int_equal(mr_storage_fake_resets(t.storage), resets + 1); /* between the two */
    fail_writing(MR_FAKE_REMOVE, 2);
    assert_int_equal(mr_storage_fake_resets(t.storage), resets + 2);
}

/* A reader gets everything before the damaged record, and never a wrong element. */
static void fail_reading(enum mr_storage_fake_fault fault, int code)
{
    mr_cache_log *log = open_log(32 * MIB);
    struct test_reader r, tail;
    struct test_feed f;
    mr_cache_view *view;
    uint64_t got = 0;
    mr_error err;
    int rc;

    test_feed_init(&f, log, 52, SCALE);
    while (f.next < 500) {
        append(&f, 2);
    }
    test_wait(memory_is_written, log);
    test_reader_open(&tail, log, "tail", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(tail.reader, NULL);
    (void)drain(&tail, &f);
    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    mr_storage_fake_fail(t.storage, fault, 10);
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        got += mr_cache_view_rows(view);
        mr_cache_view_unref(view);
    }
    assert_int_equal(rc, code);
    assert_true(got > 5);
    assert_true(got < 100);
    assert_non_null(strstr(err.message, "log 'test' in memory: element "));
    assert_true(has_failed(log));
    assert_int_equal(test_feed_append(&f, 1, &err), code);
    assert_int_equal(tail.told, 1); /* who waits is told */
    assert_int_equal(mr_cache_reader_next(tail.reader, ANY, ANY, &view, &err), code);
    test_reader_close(&r);
    test_reader_close(&tail);
    mr_cache_log_close(log);
}

static void reading_fails(void **state)
{
    fail_reading(MR_FAKE_READ, MR_EUNAVAIL);
    fail_reading(MR_FAKE_FLIP, MR_EDATALOSS);
    fail_reading(MR_FAKE_LOSE, MR_EDATALOSS);
}

static void a_slow_disk_holds_up_its_own_log_only(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    struct producer p;
    mr_cache_view *view;
    uint64_t next = 0;

    mr_storage_fake_hold_flush(t.storage, true);
    test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
    mr_cache_reader_start(r.reader, NULL);
    start_producer(&p, log, 53, 1000, false);
    /* What fits memory can be read; then the producer waits. */
    while (next < 25) {
        assert_int_equal(test_reader_next(&r, ANY, ANY, &view, NULL), MR_OK);
        next += mr_cache_view_rows(view);
        mr_cache_view_unref(view);
    }
    assert_true(stats_of(log).memory_bytes <= MEMORY);
    assert_int_equal(stats_of(log).files, 0);
    mr_cache_log_cancel(log);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    assert_int_equal(p.rc, MR_ECANCELED);
    mr_storage_fake_hold_flush(t.storage, false);
    test_reader_close(&r);
    mr_cache_log_close(log);
}

static void creating_fails(void **state)
{
    mr_cache_log *log;
    mr_error err;

    mr_storage_fake_fail(t.storage, MR_FAKE_CREATE, 1);
    assert_int_equal(mr_cache_log_open(t.cache, "test", NULL, &log, &err), MR_EUNAVAIL);
    assert_string_equal(err.message, "opening log 'test' in memory: an injected fault of create");
    assert_int_equal(mr_cache_bytes_free(t.cache), 64 * MIB);
    mr_cache_log_close(open_log(0));
}

/* Every allocation fails in turn: an error, nothing lost, nothing twice, and the next call works. */
static void allocations_fail(void **state)
{
    for (uint64_t nth = 1;; nth++) {
        mr_cache_log *log;
        struct test_reader r;
        struct test_feed f;
        mr_cache_view *view;
        uint64_t start = mr_alloc_count();
        bool reached;
        mr_error err;
        int rc;

        mr_alloc_fail_at(nth);
        rc = mr_cache_log_open(t.cache, "test", NULL, &log, &err);
        if (rc < 0) {
            assert_int_equal(rc, MR_EEXHAUSTED);
            continue;
        }
        test_feed_init(&f, log, 54, 1);
        for (int i = 0; i < 30; i++) {
            rc = test_feed_append(&f, i % 3 == 0 ? 20 * KIB / 64 : 2, &err);
            if (rc < 0) {
                assert_int_equal(rc, MR_EEXHAUSTED);
                break;
            }
        }
        reached = mr_alloc_count() - start < nth;
        mr_alloc_fail_at(0);
        test_reader_open(&r, log, "r", MR_CACHE_LAG_SKIP);
        mr_cache_reader_start(r.reader, NULL);
        for (uint64_t next = 0; next < f.next;) {
            assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, &err), MR_OK);
            test_check_view(view, f.seed, f.scale);
            next += mr_cache_view_rows(view);
            mr_cache_view_unref(view);
        }
        test_reader_close(&r);
        mr_cache_log_close(log);
        if (reached) {
            break;
        }
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_appended_is_read_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(large_chunks_are_lent, setup, teardown),
        cmocka_unit_test_setup_teardown(files_give_back_what_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_of_a_read_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_comes_after_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(a_closed_log_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_producer_goes_on_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_chunk_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_and_logs_have_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_window_slides_and_skips_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_misses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(element_0_is_held_until_it_is_decided, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_drive_production, setup, teardown),
        cmocka_unit_test_setup_teardown(everybody_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_closes_under_its_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_model_agrees, setup, teardown),
    };
    int failed;

    /* A failed test leaves logs open, which the teardown would stumble over before the failure is printed. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);

#ifdef TEST_FAKE
    const struct CMUnitTest faults[] = {
        cmocka_unit_test_setup_teardown(writing_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_disk_holds_up_its_own_log_only, setup, teardown),
        cmocka_unit_test_setup_teardown(creating_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(allocations_fail, setup, teardown),
    };

    failed += cmocka_run_group_tests(faults, NULL, NULL);
#endif
    return failed;
}
