/* Producers and readers on threads of their own: who waits for whom, several logs at once, closing
 * under readers, and a model of what every reader got. Over the storage in memory
 * (cache_threads_test, for the thread sanitizer) and over RocksDB (cache_rocks_threads_test). */
#include "support/cache_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>

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

    test_reader_open(&slow, log, MR_CACHE_LAG_WAIT);
    (void)mr_cache_reader_start(slow.reader);
    test_reader_open(&fast, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(fast.reader);
    start_producer(&p, log, 9, 2000, false);
    test_wait(producer_waits, &p);
    /* Prefetch is not consumption: it still waits. */
    while (mr_cache_reader_next(slow.reader, ANY, ANY, &view, NULL) == MR_OK) {
        seen = view->first + view->rows;
        mr_cache_view_unref(view);
    }
    assert_true(seen < 2000);
    assert_int_equal(stats_of(log).head, 0);
    (void)drain(&fast, &p.feed);
    assert_int_equal(mr_cache_reader_rewind(slow.reader, 0, NULL), MR_OK);
    for (seen = 0; test_reader_next(&slow, ANY, ANY, &view, NULL) == MR_OK;) {
        assert_int_equal(view->first, seen);
        test_check_view(view, 9, SCALE);
        seen += view->rows;
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

    test_reader_open(&pinned, log, MR_CACHE_LAG_SKIP);
    start_producer(&p, log, 10, 2000, false);
    test_wait(producer_waits, &p);
    first = mr_cache_reader_start(pinned.reader);
    assert_int_equal(first, 0);
    assert_int_equal(pthread_join(p.thread, NULL), 0); /* now it skips, and holds nobody up */
    test_reader_close(&pinned);
    mr_cache_log_close(log);

    log = open_log(8 * MIB);
    test_reader_open(&pinned, log, MR_CACHE_LAG_WAIT);
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

    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    start_producer(&p, log, 11, 3000, true);
    while ((rc = test_reader_next(&r, ANY, ANY, &view, &err)) == MR_OK) {
        next = view->first + view->rows;
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
    test_reader_open(&r, c->log, c->lag);
    c->first = mr_cache_reader_start(r.reader);
    next = c->first;
    while ((c->rc = test_reader_next(&r, 1 + mr_rng_below(&rng, 100), ANY, &view, NULL)) == MR_OK) {
        uint64_t at = view->first + view->skip;

        test_check_view(view, c->seed, SCALE);
        if (at < next || (c->lag == MR_CACHE_LAG_WAIT && at != next)) {
            test_die("element %" PRIu64 " came, expected %" PRIu64, at, next);
        }
        next = view->first + view->rows;
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
            consumers[i][j] =
                (struct consumer){.log = logs[i],
                                  .seed = 20 + i,
                                  .lag = j % 2 == 0 ? MR_CACHE_LAG_WAIT : MR_CACHE_LAG_SKIP};
            assert_int_equal(
                pthread_create(&consumers[i][j].thread, NULL, consume, &consumers[i][j]), 0);
        }
        start_producer(&producers[i], logs[i], 20 + i, rows, i == 0);
    }
    for (size_t i = 0; i < STRESS_LOGS; i++) {
        assert_int_equal(pthread_join(producers[i].thread, NULL), 0);
        if (producers[i].rc < 0) {
            fail_msg("%s", stats_of(logs[i]).failure.message);
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
        /* They are in the log before it is closed: opening a reader of a closed log is a
         * mistake. */
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

/* Random operations of one reader at a time against what is known of every element. MR_SEED replays
 * the choices. */
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
            test_reader_open(&readers[k], log, model[k].lag);
            model[k].next = mr_cache_reader_start(readers[k].reader);
            model[k].open = true;
            model[k].returned = model[k].next;
            model[k].skipped = 0;
        } else if (what < 60) {
            rc = mr_cache_reader_next(readers[k].reader, 1 + mr_rng_below(&rng, 30), ANY, &view,
                                      NULL);
            if (rc == MR_OK) {
                uint64_t at = view->first + view->skip;
                struct mr_cache_reader_stats stats;

                mr_cache_reader_stats(readers[k].reader, &stats);
                test_check_view(view, seed, SCALE);
                assert_true(model[k].lag == MR_CACHE_LAG_SKIP ? at >= model[k].next
                                                              : at == model[k].next);
                /* Every element that was passed over is counted; by now perhaps some that come
                 * next. */
                assert_true(stats.skipped - model[k].skipped >= at - model[k].next);
                assert_true(stats.next >= view->first + view->rows);
                model[k].next = stats.next;
                model[k].skipped = stats.skipped;
                mr_cache_view_unref(view);
            } else {
                assert_true(rc == MR_TIMEOUT || rc == MR_END);
            }
        } else if (what < 90) {
            model[k].returned += mr_rng_below(&rng, model[k].next - model[k].returned + 1);
            assert_int_equal(mr_cache_reader_returned(readers[k].reader, model[k].returned, NULL),
                             MR_OK);
        } else if (what < 97) {
            uint64_t to =
                model[k].returned + mr_rng_below(&rng, model[k].next - model[k].returned + 1);
            struct mr_cache_reader_stats stats;

            assert_int_equal(mr_cache_reader_rewind(readers[k].reader, to, NULL), MR_OK);
            mr_cache_reader_stats(readers[k].reader, &stats);
            assert_true(model[k].lag == MR_CACHE_LAG_WAIT ? stats.next == to && stats.skipped == 0
                                                          : stats.next >= to);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_waits_misses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(element_0_is_held_until_it_is_decided, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_drive_production, setup, teardown),
        cmocka_unit_test_setup_teardown(everybody_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_closes_under_its_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_model_agrees, setup, teardown),
    };

    test_cache_abort_on_failure();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
