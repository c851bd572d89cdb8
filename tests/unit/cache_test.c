/* The cache as its users see it, one call after the other. Compiled twice: over the storage in
 * memory (cache_test) and over RocksDB (cache_rocks_test). */
#include "support/cache_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>

static bool has_files(void *log)
{
    return stats_of(log).files > 0;
}

/* ---- ordinary life ---- */

static void what_is_appended_is_read_at_once(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;

    test_feed_init(&f, log, 1, 2);
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    assert_int_equal(r.first, 0);
    (void)mr_cache_reader_start(r.reader);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_TIMEOUT);
    assert_int_equal(r.told, 0);
    append(&f, 3); /* far from a full record */
    assert_int_equal(r.told, 1);
    append(&f, 2);
    assert_int_equal(r.told, 1); /* once for each time it found nothing */
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    assert_int_equal(view->first, 0);
    assert_int_equal(view->rows, 5);
    test_check_view(view, 1, 2);
    append(&f, 7);
    test_check_view(view, 1, 2); /* it does not change while its record grows */
    mr_cache_view_unref(view);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    assert_int_equal(view->first, 5);
    assert_int_equal(view->rows, 7);
    mr_cache_view_unref(view);
    test_reader_close(&r);
    mr_cache_log_close(log);
}

/* From its memory to a reader's slices without a copy, if it is large; and then it is given
 * back. */
static void large_chunks_are_lent(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;

    test_feed_init(&f, log, 2, 1);
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    append(&f, 1);
    assert_int_equal(test_feed_outstanding(), 0); /* copied */
    append(&f, 100 * KIB / 64);
    assert_int_equal(test_feed_outstanding(), 1);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    assert_int_equal(view->niov, 4); /* the copy, and the three pieces as they came */
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
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    assert_int_equal(r.first, 0);
    (void)mr_cache_reader_start(r.reader);
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
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    while (next < f.next) {
        uint64_t rows_max = 1 + next % 11;

        assert_int_equal(mr_cache_reader_next(r.reader, rows_max, 1 + next % 2000, &view, NULL),
                         MR_OK);
        assert_int_equal(view->first + view->skip, next);
        if (view->rows - view->skip > rows_max || view->bytes > 1 + next % 2000) {
            assert_int_equal(view->nchunks, 1); /* one chunk is the least */
        }
        test_check_view(view, f.seed, f.scale);
        next = view->first + view->rows;
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

    test_feed_init(&f, log, 5, 2);
    test_reader_open(&a, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(a.reader);
    assert_int_equal(mr_cache_log_wait(log, &rows, NULL), MR_OK);
    assert_int_equal(rows, 1);
    append(&f, 10);
    mr_cache_log_finish(log);
    assert_int_equal(mr_cache_log_wait(log, &rows, NULL), MR_END);
    assert_int_equal(mr_cache_reader_next(a.reader, ANY, ANY, &view, NULL), MR_OK);
    mr_cache_view_unref(view);
    assert_int_equal(mr_cache_reader_next(a.reader, ANY, ANY, &view, NULL), MR_END);
    test_reader_open(&b, log, MR_CACHE_LAG_SKIP); /* a finished log can be joined */
    (void)mr_cache_reader_start(b.reader);
    assert_int_equal(mr_cache_reader_next(b.reader, ANY, ANY, &view, NULL), MR_OK);
    mr_cache_view_unref(view);
    test_reader_close(&a);
    test_reader_close(&b);
    mr_cache_log_close(log);
}

static void a_closed_log_says_so(void **state)
{
    mr_cache_log *log = open_log(8 * MIB);
    struct test_reader r;
    mr_cache_view *view;

    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
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
    mr_cache_log_cancel(log);
    assert_int_equal(mr_cache_log_wait(log, &rows, NULL), MR_ECANCELED);
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
    assert_int_equal(test_feed_append(&f, (uint32_t)(stats_of(log).chunk_bytes_max / 64) + 1, &err),
                     MR_EINVAL);
    assert_non_null(strstr(err.message, "more memory"));
    append(&f, (uint32_t)(stats_of(log).chunk_bytes_max / 64)); /* the log is not harmed */
    mr_cache_log_close(log);
}

static void bytes_and_logs_have_an_end(void **state)
{
    mr_cache_log *logs[4], *more;
    mr_error err;

    assert_int_equal(mr_cache_bytes_free(t.cache), 64 * MIB);
    logs[0] = open_log(56 * MIB);
    assert_int_equal(mr_cache_log_open(t.cache, "more", 60 * MIB, &more, &err), MR_EEXHAUSTED);
    logs[1] = open_log(0); /* what is left */
    assert_int_equal(mr_cache_bytes_free(t.cache), 0);
    assert_int_equal(mr_cache_log_open(t.cache, "more", 0, &more, &err), MR_EEXHAUSTED);
    mr_cache_log_close(logs[0]);
    assert_int_equal(mr_cache_bytes_free(t.cache), 56 * MIB);
    assert_int_equal(mr_cache_log_open(t.cache, "more", MIB, &more, &err), MR_EINVAL);
    for (size_t i = 0; i < 4; i++) {
        if (i != 1) {
            logs[i] = open_log(8 * MIB);
        }
    }
    assert_int_equal(mr_cache_log_open(t.cache, "more", 8 * MIB, &more, &err), MR_EEXHAUSTED);
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
    test_reader_open(&slow, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(slow.reader);
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
    test_reader_open(&late, log, MR_CACHE_LAG_SKIP);
    assert_true(late.first > 0);
    late.first = mr_cache_reader_start(late.reader);
    assert_int_equal(drain(&late, &f), f.next - late.first);
    assert_int_equal(skipped_by(&late), 0);
    test_reader_close(&slow);
    test_reader_close(&late);
    mr_cache_log_close(log);
}

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
    };

    test_cache_abort_on_failure();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
