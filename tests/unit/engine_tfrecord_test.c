/* TFRecord files: what is written is read; what is damaged is named. */
#include "engine_support.h"

#include "engine/crc32c.h"

#include <millrace/tfrecord.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/mr-tfrecord-XXXXXX";

static void write_file(const char *compression, int records, bool flush)
{
    mr_tfrecord_writer *w = NULL;
    char text[64];

    CHECK_OK(mr_tfrecord_writer_open(path, compression, -1, &w, e));
    for (int i = 0; i < records; i++) {
        int n = snprintf(text, sizeof text, "record-%d", i);

        CHECK_OK(mr_tfrecord_writer_write(w, text, (size_t)n, e));
        if (flush) {
            CHECK_OK(mr_tfrecord_writer_flush(w, e));
        }
    }
    CHECK_OK(mr_tfrecord_writer_close(w, e));
}

static mr_dataset *make_file(const char *compression)
{
    return make("tfrecord", NULL, NULL,
                ATTRS(TEXT_ATTR("filename", path), TEXT_ATTR("compression_type", compression)),
                NULL);
}

static struct lines read_file(const char *compression)
{
    mr_dataset *ds = make_file(compression);
    struct read_options options = {.errors_max = 100};
    struct lines l = read_all(ds, &options);

    mr_dataset_unref(ds);
    return l;
}

static void poke(long offset, int change)
{
    FILE *f = fopen(path, "r+b");

    assert_non_null(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    assert_true(fputc(c ^ change, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The same, bit by bit. */
static uint32_t plain_crc32c(const unsigned char *p, size_t n)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

static void checksums(void **state)
{
    unsigned char bytes[2000];

    assert_int_equal(mr_crc32c("123456789", 9), 0xe3069283u); /* the check value of CRC-32/ISCSI */
    assert_int_equal(mr_crc32c("", 0), 0);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 7);
        assert_int_equal(mr_crc32c(bytes, i), plain_crc32c(bytes, i));
    }
}

static void what_is_written_is_read(void **state)
{
    static const char *const compressions[] = {"", "GZIP", "ZLIB", "ZSTD"};

    for (int i = 0; i < 6; i++) {
        write_file(compressions[i / 2], 2000, i % 2 == 1);
        struct lines l = read_file(compressions[i / 2]);
        assert_int_equal(l.n, 2000);
        assert_string_equal(l.text[0], "'record-0'");
        assert_string_equal(l.text[1999], "'record-1999'");
        lines_free(&l);
    }
}

static void empty_files_and_records(void **state)
{
    mr_tfrecord_writer *w = NULL;

    write_file("", 0, false);
    struct lines l = read_file("");
    assert_int_equal(l.n, 0);
    lines_free(&l);

    CHECK_OK(mr_tfrecord_writer_open(path, NULL, -1, &w, e));
    CHECK_OK(mr_tfrecord_writer_write(w, NULL, 0, e));
    CHECK_OK(mr_tfrecord_writer_write(w, "", 0, e));
    CHECK_OK(mr_tfrecord_writer_close(w, e));
    l = read_file("");
    lines_expect_text(&l, "'' ''");
    lines_free(&l);
}

static void large_records(void **state)
{
    size_t size = 5u << 20;
    char *big = malloc(size);
    mr_tfrecord_writer *w = NULL;
    mr_block *block = NULL;

    memset(big, 'x', size);
    CHECK_OK(mr_tfrecord_writer_open(path, "", -1, &w, e));
    CHECK_OK(mr_tfrecord_writer_write(w, big, size, e));
    CHECK_OK(mr_tfrecord_writer_write(w, "small", 5, e));
    CHECK_OK(mr_tfrecord_writer_close(w, e));
    mr_dataset *ds = make_file("");
    struct read_options options = {.rows = 1};
    mr_engine_iter *it = open_with(ds, &options);
    CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 100}, -1, &block, e));
    const struct mr_column *c = mr_block_column(block, 0);
    assert_int_equal(c->offsets[1] - c->offsets[0], size);
    assert_memory_equal(c->data, big, size);
    mr_block_unref(block);
    mr_engine_close(it);

    options.budget_bytes = 1u << 20;
    options.errors_max = 10;
    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, 2);
    assert_non_null(strstr(l.text[0], "!-8 tfrecord (step 1)"));
    assert_non_null(strstr(l.text[0], "5242880 bytes"));
    assert_string_equal(l.text[1], "'small'");
    lines_free(&l);
    mr_dataset_unref(ds);
    free(big);
}

/* A record: 12 bytes, "record-<i>" of 8, 4 bytes: 24 in all. */
static void damaged_data_costs_one_record(void **state)
{
    write_file("", 5, false);
    poke(2 * 24 + 12 + 3, 0x20);
    struct lines l = read_file("");
    assert_int_equal(l.n, 5);
    assert_string_equal(l.text[1], "'record-1'");
    assert_non_null(strstr(l.text[2], "!-15 tfrecord (step 1), element 2: file '"));
    assert_non_null(strstr(l.text[2], "offset 48, record 2: its data is damaged"));
    assert_string_equal(l.text[3], "'record-3'");
    lines_free(&l);
}

static void a_damaged_length_ends_the_file(void **state)
{
    write_file("", 5, false);
    poke(3 * 24 + 1, 0x01);
    struct lines l = read_file("");
    assert_int_equal(l.n, 4);
    assert_string_equal(l.text[2], "'record-2'");
    assert_non_null(strstr(l.text[3], "offset 72, record 3: its length is damaged"));
    lines_free(&l);
}

static void short_files(void **state)
{
    for (long cut = 1; cut < 24; cut++) {
        write_file("", 3, false);
        assert_int_equal(truncate(path, 2 * 24 + cut), 0);
        struct lines l = read_file("");
        assert_int_equal(l.n, 3);
        assert_string_equal(l.text[1], "'record-1'");
        assert_non_null(strstr(l.text[2], "offset 48, record 2: the file ends"));
        lines_free(&l);
    }
    write_file("GZIP", 300, false);
    assert_int_equal(truncate(path, 200), 0);
    struct lines l = read_file("GZIP");
    assert_true(l.n >= 1);
    assert_non_null(strstr(l.text[l.n - 1], "cut short"));
    lines_free(&l);
}

static void wrong_kinds_of_file(void **state)
{
    mr_dataset *ds;

    write_file("", 3, false);
    struct lines l = read_file("GZIP");
    assert_int_equal(l.n, 1);
    assert_non_null(strstr(l.text[0], "!-15 "));
    assert_non_null(strstr(l.text[0], "the compressed data is damaged"));
    lines_free(&l);

    ds = make("tfrecord", NULL, NULL, ATTRS(TEXT_ATTR("filename", "/nowhere/at/all")), NULL);
    struct read_options options = {.errors_max = 100};
    l = read_all(ds, &options);
    assert_int_equal(l.n, 1);
    assert_non_null(strstr(
        l.text[0], "!-5 tfrecord (step 1), element 0: file '/nowhere/at/all': No such file"));
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void bad_arguments(void **state)
{
    mr_dataset *ds = NULL;
    mr_tfrecord_writer *w = NULL;
    mr_error err;
    struct mr_attr attrs[] = {TEXT_ATTR("filename", "x"), TEXT_ATTR("compression_type", "ZIP")};

    assert_int_equal(mr_dataset_apply("tfrecord", NULL, 0, attrs, 2, NULL, 0, NULL, &ds, &err),
                     MR_EINVAL);
    assert_non_null(strstr(err.message, "tfrecord: argument 'compression_type': 'ZIP'"));
    assert_int_equal(mr_tfrecord_writer_open(path, "ZIP", -1, &w, &err), MR_EINVAL);
    assert_int_equal(mr_tfrecord_writer_open(path, "GZIP", 10, &w, &err), MR_EINVAL);
    assert_int_equal(mr_tfrecord_writer_open("/nowhere/x", "", -1, &w, &err), MR_ENOTFOUND);
    assert_int_equal(mr_tfrecord_writer_close(NULL, &err), MR_OK);
}

static void full_disks_are_told(void **state)
{
    mr_tfrecord_writer *w = NULL;
    mr_error err = {0};
    char text[1024] = {0};

    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    CHECK_OK(mr_tfrecord_writer_open("/dev/full", "", -1, &w, e));
    CHECK_OK(mr_tfrecord_writer_write(w, text, sizeof text, e));
    assert_int_equal(mr_tfrecord_writer_flush(w, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "/dev/full"));
    assert_int_equal(mr_tfrecord_writer_write(w, text, sizeof text, &err), MR_EEXHAUSTED);
    assert_int_equal(mr_tfrecord_writer_close(w, &err), MR_EEXHAUSTED);
}

/* A position behind the end: the records up to it are gone, and nobody knows what else. */
static void a_file_that_became_shorter_is_no_end(void **state)
{
    static const char *const compressions[] = {"", "GZIP"};

    for (size_t i = 0; i < 2; i++) {
        struct read_options options = {.most = 5};
        struct lines l = {0};
        void *saved = NULL;
        size_t size = 0;
        mr_error err;

        write_file(compressions[i], 8, false);
        mr_dataset *ds = make_file(compressions[i]);
        mr_engine_iter *it = open_with(ds, &options);
        (void)read_on(it, &options, &l);
        assert_int_equal(l.n, 5);
        CHECK_OK(mr_engine_save(it, &saved, &size, e));
        mr_engine_close(it);
        lines_free(&l);

        write_file(compressions[i], 2, false);
        it = open_with(ds, &options);
        assert_int_equal(mr_engine_restore(it, saved, size, &err), MR_EDATALOSS);
        assert_non_null(strstr(err.message, "shorter than when its position was saved"));
        mr_engine_close(it);
        mr_free(saved);
        mr_dataset_unref(ds);
    }
}

static int set_up(void **state)
{
    int fd = mkstemp(path);

    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(empty_files_and_records),
        cmocka_unit_test(large_records),
        cmocka_unit_test(damaged_data_costs_one_record),
        cmocka_unit_test(a_damaged_length_ends_the_file),
        cmocka_unit_test(short_files),
        cmocka_unit_test(wrong_kinds_of_file),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(full_disks_are_told),
        cmocka_unit_test(a_file_that_became_shorter_is_no_end),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
