/* The cache over a storage that fails at a chosen call, and with allocations that fail. */
#include "support/cache_fixture.h"

#include "cache/fake/fake.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- faults (over the storage in memory) ---- */

static bool has_failed(void *log)
{
    return stats_of(log).failure.code != MR_OK;
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
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    append(&g, 10);
    mr_storage_fake_fail(t.storage, fault, nth);
    while ((rc = test_feed_append(&f, 3, &err)) == MR_OK) {
    }
    assert_int_equal(rc, fault == MR_FAKE_REMOVE ? MR_EUNAVAIL : MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "log 'test' in memory: an injected fault"));
    assert_int_equal(mr_cache_log_wait(log, &rows, NULL), rc);
    assert_int_equal(stats_of(log).failure.code, rc);
    assert_string_equal(stats_of(log).failure.message, err.message);
    /* Everything that was accepted and is in the window can be read; then the reason. */
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        got += view->rows;
        mr_cache_view_unref(view);
    }
    assert_int_equal(rc, stats_of(log).failure.code);
    assert_int_equal(got + skipped_by(&r), f.next);
    test_reader_close(&r);

    while (g.next < 1000) {
        append(&g, 10);
    }
    assert_int_equal(stats_of(other).failure.code, MR_OK);
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
    test_reader_open(&tail, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(tail.reader);
    (void)drain(&tail, &f);
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    mr_storage_fake_fail(t.storage, fault, 10);
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        got += view->rows;
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
    /* That record, and no other, is passed. */
    uint64_t passed = mr_cache_reader_pass(r.reader);
    assert_true(passed > 0);
    assert_true(passed < 40);
    got += passed;
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        assert_int_equal(view->first, got);
        got += view->rows;
        mr_cache_view_unref(view);
    }
    assert_int_equal(rc, code);
    assert_int_equal(got, f.next);
    assert_int_equal(mr_cache_reader_pass(r.reader), 0);
    struct mr_cache_reader_stats stats;
    mr_cache_reader_stats(r.reader, &stats);
    assert_int_equal(stats.skipped, passed);
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
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    start_producer(&p, log, 53, 1000, false);
    /* What fits memory can be read; then the producer waits. */
    while (next < 25) {
        assert_int_equal(test_reader_next(&r, ANY, ANY, &view, NULL), MR_OK);
        next += view->rows;
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
    assert_int_equal(mr_cache_log_open(t.cache, "test", 0, &log, &err), MR_EUNAVAIL);
    assert_string_equal(err.message, "opening log 'test' in memory: an injected fault of create");
    assert_int_equal(mr_cache_bytes_free(t.cache), 64 * MIB);
    mr_cache_log_close(open_log(0));
}

/* Every allocation fails in turn: an error, nothing lost, nothing twice, and the next call
 * works. */
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
        rc = mr_cache_log_open(t.cache, "test", 0, &log, &err);
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
        test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
        (void)mr_cache_reader_start(r.reader);
        for (uint64_t next = 0; next < f.next;) {
            assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, &err), MR_OK);
            test_check_view(view, f.seed, f.scale);
            next += view->rows;
            mr_cache_view_unref(view);
        }
        test_reader_close(&r);
        mr_cache_log_close(log);
        if (reached) {
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writing_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_disk_holds_up_its_own_log_only, setup, teardown),
        cmocka_unit_test_setup_teardown(creating_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(allocations_fail, setup, teardown),
    };

    test_cache_abort_on_failure();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
