/* The cache over RocksDB when the world is against it: a directory in use, a life that ended by
 * SIGKILL, a full disk, a file size limit, a directory that cannot be written, bytes that are not
 * what was written; and its bounds, measured from outside. */
#include "support/cache.h"

#include "base/base.h"
#include "base/sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * KIB)
#define ANY UINT64_MAX
#define SCALE 1024

static char dir[64];

static int setup(void **state)
{
    strcpy(dir, "/tmp/mr-cache-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static int teardown(void **state)
{
    assert_int_equal(test_feed_outstanding(), 0);
    return nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const struct mr_cache_options small = {
    .dir = dir, .disk_bytes_max = 72 * MIB, .memory_bytes_max = 16 * MIB, .logs_max = 2};

static mr_cache *open_cache(void)
{
    mr_cache *cache = NULL;
    mr_error err;

    if (mr_cache_open(&small, &cache, &err) < 0) {
        test_die("%s", err.message);
    }
    return cache;
}

static mr_cache_log *open_log(mr_cache *cache, const char *name)
{
    mr_cache_log *log = NULL;
    mr_error err;

    if (mr_cache_log_open(cache, name, 32 * MIB, &log, &err) < 0) {
        test_die("%s", err.message);
    }
    return log;
}

static struct mr_cache_log_stats stats_of(mr_cache_log *log)
{
    struct mr_cache_log_stats stats;

    mr_cache_log_stats(log, &stats);
    return stats;
}

/* @bytes of elements, in files but for the last of them; no file is being written when it returns:
 * what is in one is counted in memory until it is done, and this is less than a file. */
static void fill(mr_cache_log *log, struct test_feed *f, uint64_t bytes)
{
    struct mr_cache_log_stats stats;
    mr_error err;

    do {
        stats = stats_of(log);
        /* So much makes a file, and little is left then. */
        if (stats.memory_bytes > 1100 * KIB && stats.failure.code == MR_OK) {
            sched_yield();
        } else if (test_feed_append(f, 2, &err) < 0) {
            test_die("%s", err.message);
        }
    } while (stats.written_bytes < bytes || stats.memory_bytes > 512 * KIB);
}

/* What du says of @dir, if no file came or went meanwhile. */
static bool disk_usage(uint64_t *ret)
{
    char db[128], path[512];
    uint64_t names[2] = {0, 0}, bytes = 0;

    (void)snprintf(db, sizeof db, "%s/db", dir);
    for (size_t pass = 0; pass < 2; pass++) {
        struct dirent *entry;
        DIR *d = opendir(db);

        while (d != NULL && (entry = readdir(d)) != NULL) {
            struct stat st;

            names[pass] += mr_mix64(entry->d_ino);
            (void)snprintf(path, sizeof path, "%s/%s", db, entry->d_name);
            if (pass == 0 && strcmp(entry->d_name, "..") != 0 && stat(path, &st) == 0) {
                bytes += (uint64_t)st.st_blocks * 512;
            }
        }
        if (d != NULL) {
            closedir(d);
        }
    }
    *ret = bytes;
    return names[0] == names[1];
}

static uint64_t disk_usage_at_rest(void)
{
    uint64_t bytes;

    while (!disk_usage(&bytes)) {
    }
    return bytes;
}

/* The tables below @dir, up to @n of them. */
static size_t list_tables(char paths[][512], size_t n)
{
    char db[128];
    struct dirent *entry;
    size_t count = 0;
    DIR *d;

    (void)snprintf(db, sizeof db, "%s/db", dir);
    d = opendir(db);
    while (d != NULL && count < n && (entry = readdir(d)) != NULL) {
        if (strstr(entry->d_name, ".sst") != NULL) {
            (void)snprintf(paths[count++], 512, "%s/%s", db, entry->d_name);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return count;
}

/* ---- the directory ---- */

static void one_cache_a_directory(void **state)
{
    mr_cache *cache = open_cache(), *second;
    char want[64];
    mr_error err;

    assert_int_equal(mr_cache_open(&small, &second, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, dir));
    (void)snprintf(want, sizeof want, "in use by process %ld", (long)getpid());
    assert_non_null(strstr(err.message, want));
    mr_cache_close(cache);
    mr_cache_close(open_cache());
}

static void bad_options_are_named(void **state)
{
    struct mr_cache_options opts = small;
    mr_cache *cache;
    mr_error err;
    char path[128];

    opts.memory_bytes_max = MIB;
    assert_int_equal(mr_cache_open(&opts, &cache, &err), MR_EINVAL);
    opts = small;
    opts.disk_bytes_max = MIB;
    assert_int_equal(mr_cache_open(&opts, &cache, &err), MR_EINVAL);
    opts = small;
    opts.logs_max = 100;
    assert_int_equal(mr_cache_open(&opts, &cache, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "too few for 100 logs"));
    opts = small;
    (void)snprintf(path, sizeof path, "%s/no/such/parent", dir);
    opts.dir = path;
    assert_int_equal(mr_cache_open(&opts, &cache, &err), MR_ENOTFOUND);
    assert_non_null(strstr(err.message, path));
}

/* Run @life in a process of its own; its exit status, or -1 if a signal ended it. */
static int in_child(void (*life)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        life();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void die_while_writing(void)
{
    mr_cache *cache = open_cache();
    mr_cache_log *log = open_log(cache, "lost");
    struct test_feed f;

    test_feed_init(&f, log, 1, SCALE);
    fill(log, &f, 24 * MIB);
    kill(getpid(), SIGKILL);
}

static void what_a_killed_process_left_is_wiped(void **state)
{
    static char paths[64][512];
    mr_cache *cache;
    mr_cache_log *log;
    struct test_reader r;

    assert_int_equal(in_child(die_while_writing), -1);
    assert_true(list_tables(paths, 64) > 2);
    assert_true(disk_usage_at_rest() > 8 * MIB);
    cache = open_cache();
    assert_int_equal(list_tables(paths, 64), 0);
    log = open_log(cache, "new");
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    assert_int_equal(stats_of(log).end, 0);
    test_reader_close(&r);
    mr_cache_log_close(log);
    mr_cache_close(cache);
    assert_true(disk_usage_at_rest() < MIB); /* nothing stays after an orderly end either */
}

/* ---- bounds, seen from outside ---- */

struct watcher {
    pthread_t thread;
    atomic_bool stop;
    uint64_t peak, samples;
};

static void *watch(void *ctx)
{
    struct watcher *w = ctx;

    while (!w->stop) {
        uint64_t now;

        if (disk_usage(&now)) {
            w->samples++;
            w->peak = now > w->peak ? now : w->peak;
        }
    }
    return NULL;
}

static void the_disk_bound_holds_at_all_times(void **state)
{
    mr_cache *cache = open_cache();
    mr_cache_log *a = open_log(cache, "a"), *b = open_log(cache, "b");
    struct watcher w = {0};
    struct test_feed f, g;
    mr_error err;

    assert_int_equal(mr_cache_bytes_free(cache), 0);
    assert_int_equal(pthread_create(&w.thread, NULL, watch, &w), 0);
    test_feed_init(&f, a, 2, SCALE);
    test_feed_init(&g, b, 3, 4);
    while (stats_of(a).written_bytes < 150 * MIB) {
        assert_int_equal(test_feed_append(&f, 4, &err), MR_OK);
        assert_int_equal(test_feed_append(&g, 20, &err), MR_OK);
    }
    w.stop = true;
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_true(w.samples > 10);
    assert_in_range(w.peak, 28 * MIB, small.disk_bytes_max);
    /* Each byte is written once. */
    assert_true(stats_of(a).written_bytes < stats_of(a).appended_bytes * 102 / 100);
    mr_cache_log_close(b);
    mr_cache_log_close(a);
    mr_cache_close(cache);
}

static void a_dropped_log_leaves_nothing(void **state)
{
    static char paths[64][512];
    mr_cache *cache = open_cache();
    mr_cache_log *a = open_log(cache, "a"), *b = open_log(cache, "b");
    mr_cache_view *view;
    struct test_reader r;
    struct test_feed f, g;

    test_feed_init(&f, a, 4, SCALE);
    fill(a, &f, 20 * MIB);
    test_feed_init(&g, b, 5, SCALE);
    fill(b, &g, 20 * MIB);
    test_reader_open(&r, a, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
    assert_int_equal(stats_of(a).read_disk_records, 1);
    mr_cache_log_close(a);
    assert_int_equal(list_tables(paths, 64),
                     stats_of(b).files); /* at once, though a view is held */
    test_check_view(view, 4, SCALE);
    test_reader_close(&r);
    mr_cache_log_close(b);
    mr_cache_close(cache);
    test_check_view(view, 4, SCALE); /* it outlives the cache */
    mr_cache_view_unref(view);
}

/* ---- reading ---- */

/* Bytes that this process has read from files so far. */
static uint64_t bytes_read(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %llu", &n), 1);
    fclose(f);
    return n;
}

/* A view is of the block that RocksDB read, in which values are aligned to nothing; a copy would
 * have the alignment of malloc(). And for a record its own block is read, no other, also when there
 * are few files. */
static void read_all(uint64_t bytes)
{
    mr_cache *cache = open_cache();
    mr_cache_log *log = open_log(cache, "read");
    uint64_t before, got = 0, aligned = 0, views = 0;
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;

    test_feed_init(&f, log, 6, SCALE);
    fill(log, &f, bytes);
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    before = bytes_read();
    while (got < stats_of(log).file_bytes * 9 / 10) {

        assert_int_equal(mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL), MR_OK);
        aligned += (uintptr_t)view->iov[0].iov_base % 16 == 0;
        got += view->bytes;
        views++;
        mr_cache_view_unref(view);
    }
    assert_true(stats_of(log).read_disk_records >= views * 9 / 10);
    assert_true(aligned < views / 4);
    assert_true(bytes_read() - before < got * 5 / 4);
    test_reader_close(&r);
    mr_cache_log_close(log);
    mr_cache_close(cache);
}

static void reading_copies_nothing_and_reads_nothing_in_vain(void **state)
{
    read_all(MIB + MIB / 2); /* two or three files */
    read_all(16 * MIB);
}

/* ---- writing that fails ---- */

/* Append until the log fails; then everything that it still has can be read, and the rest says
 * why. */
static void write_until_it_fails(mr_cache *cache, int code, const char *reason)
{
    mr_cache_log *log = open_log(cache, "doomed"), *other = open_log(cache, "other");
    struct test_reader r;
    struct test_feed f, g;
    mr_cache_view *view;
    uint64_t got = 0;
    mr_error err;
    int rc;

    test_feed_init(&f, log, 6, SCALE);
    test_feed_init(&g, other, 7, SCALE);
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    if (test_feed_append(&g, 10, &err) < 0) {
        test_die("%s", err.message);
    }
    while ((rc = test_feed_append(&f, 2, &err)) == MR_OK) {
        if (f.next > 20000) {
            test_die("the log should have failed");
        }
    }
    fprintf(stderr, "it says: %s\n", err.message);
    if (rc != code || strstr(err.message, "log 'doomed' in ") == NULL ||
        strstr(err.message, reason) == NULL) {
        test_die("code %d, expected %d with '%s'", rc, code, reason);
    }
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        got += view->rows;
        mr_cache_view_unref(view);
    }
    if (rc != code || mr_cache_reader_rewind(r.reader, f.next, NULL) != MR_OK) {
        test_die("the reader got %d at its end", rc);
    }
    test_reader_close(&r);
    if (got > f.next) {
        test_die("more elements than were appended");
    }
    /* The other log may have to give up too; it does not hang, and what it has is right. */
    for (int i = 0; i < 400 && test_feed_append(&g, 10, NULL) == MR_OK; i++) {
    }
    test_reader_open(&r, other, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    while (mr_cache_reader_next(r.reader, ANY, ANY, &view, NULL) == MR_OK) {
        test_check_view(view, g.seed, g.scale);
        mr_cache_view_unref(view);
    }
    test_reader_close(&r);
    mr_cache_log_close(log);
    mr_cache_log_close(other);
}

/* A log that works, in a cache where one has failed and the reason has gone. */
static void write_again(mr_cache *cache)
{
    mr_cache_log *log = open_log(cache, "again");
    struct test_feed f;

    test_feed_init(&f, log, 8, SCALE);
    fill(log, &f, 20 * MIB);
    if (stats_of(log).failure.code != MR_OK || stats_of(log).files == 0) {
        test_die("a log after a failure: %s", stats_of(log).failure.message);
    }
    mr_cache_log_close(log);
    mr_cache_close(cache);
}

static void limit_file_size(void)
{
    mr_cache *cache = open_cache();
    struct rlimit limit = {0, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    limit.rlim_cur = MIB;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    write_until_it_fails(cache, MR_EEXHAUSTED, "fewer bytes");
    limit.rlim_cur = RLIM_INFINITY;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    write_again(cache);
}

static void files_that_may_not_grow(void **state)
{
    assert_int_equal(in_child(limit_file_size), 0);
}

#define NOT_PERMITTED 77

static void fill_small_disk(void)
{
    mr_cache *cache;

    if (mount("none", dir, "tmpfs", 0, "size=12m") != 0) {
        _exit(NOT_PERMITTED);
    }
    cache = open_cache();
    write_until_it_fails(cache, MR_EEXHAUSTED, "No space left on device");
    (void)mount("none", dir, "tmpfs", MS_REMOUNT, "size=100m");
    write_again(cache);
}

static void a_full_disk(void **state)
{
    int status = in_child(fill_small_disk);

    (void)umount2(dir, MNT_DETACH);
    if (status == NOT_PERMITTED) {
        print_message("not allowed to mount a small tmpfs: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void fill_exact_disk(void)
{
    mr_cache *cache;
    mr_cache_log *a, *b;
    struct test_feed f, g;
    char size[32];
    mr_error err;

    (void)snprintf(size, sizeof size, "size=%" PRIu64, small.disk_bytes_max);
    if (mount("none", dir, "tmpfs", 0, size) != 0) {
        _exit(NOT_PERMITTED);
    }
    cache = open_cache();
    a = open_log(cache, "a");
    b = open_log(cache, "b");
    test_feed_init(&f, a, 9, SCALE);
    test_feed_init(&g, b, 10, SCALE / 8);
    while (stats_of(a).written_bytes < 150 * MIB || stats_of(b).written_bytes < 60 * MIB) {
        if (test_feed_append(&f, 2, &err) < 0 || test_feed_append(&g, 8, &err) < 0) {
            test_die("a disk of the size that the cache was given: %s", err.message);
        }
    }
    mr_cache_log_close(a);
    mr_cache_log_close(b);
    mr_cache_close(cache);
}

/* Two logs that slide need no byte more than the cache was given. */
static void a_disk_of_just_that_size(void **state)
{
    int status = in_child(fill_exact_disk);

    (void)umount2(dir, MNT_DETACH);
    if (status == NOT_PERMITTED) {
        print_message("not allowed to mount a small tmpfs: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

#define NOBODY 65534

static void lose_write_permission(void)
{
    char db[128];
    mr_cache *cache;

    if (geteuid() == 0 &&
        (chown(dir, NOBODY, NOBODY) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        _exit(NOT_PERMITTED);
    }
    if (access(dir, W_OK | X_OK) != 0) {
        _exit(NOT_PERMITTED); /* a directory above it is closed to that user */
    }
    cache = open_cache();
    (void)snprintf(db, sizeof db, "%s/db", dir);
    (void)chmod(db, 0500);
    write_until_it_fails(cache, MR_EPERM, "must be writable");
    (void)chmod(db, 0700);
    write_again(cache);
}

static void a_directory_that_cannot_be_written(void **state)
{
    int status = in_child(lose_write_permission);

    if (status == NOT_PERMITTED) {
        print_message(
            "not allowed to become another user who may use the temporary directory: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- reading that fails ---- */

/* Turn one bit in every @stride bytes of every table, and at least one. */
static void damage(uint64_t seed, off_t stride)
{
    static char paths[64][512];
    size_t n = list_tables(paths, 64);

    assert_true(n > 2);
    for (size_t i = 0; i < n; i++) {
        int fd = open(paths[i], O_RDWR);
        struct stat st;

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        for (off_t at = (off_t)(mr_mix64(seed + i) %
                                (uint64_t)(stride < st.st_size ? stride : st.st_size));
             at < st.st_size; at += stride) {
            unsigned char byte;

            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= (unsigned char)(1u << (mr_mix64((uint64_t)at) % 8));
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
    }
}

/* From element @got on, which cannot be read: what can be is handed out, the rest counted. */
static void pass_damage(struct test_reader *r, const struct test_feed *f, uint64_t got)
{
    struct mr_cache_reader_stats stats;
    uint64_t passed = 0, n;
    mr_cache_view *view;

    while ((n = mr_cache_reader_pass(r->reader)) > 0) {
        passed += n;
        got += n;
        while (mr_cache_reader_next(r->reader, ANY, ANY, &view, NULL) == MR_OK) {
            test_check_view(view, f->seed, f->scale);
            assert_int_equal(view->first, got);
            got += view->rows;
            mr_cache_view_unref(view);
        }
    }
    assert_int_equal(got, f->next);
    mr_cache_reader_stats(r->reader, &stats);
    assert_int_equal(stats.skipped, passed);
}

static void damaged(uint64_t seed, off_t stride)
{
    mr_cache *cache = open_cache();
    mr_cache_log *log = open_log(cache, "damaged"), *other = open_log(cache, "other");
    struct test_reader r;
    struct test_feed f, g;
    mr_cache_view *view;
    uint64_t got = 0;
    mr_error err;
    int rc;

    test_feed_init(&f, log, seed, SCALE);
    fill(log, &f, 12 * MIB);
    damage(seed, stride);
    test_reader_open(&r, log, MR_CACHE_LAG_WAIT);
    got = mr_cache_reader_start(r.reader);
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale); /* never a wrong element */
        assert_int_equal(view->first, got);
        got += view->rows;
        mr_cache_view_unref(view);
    }
    assert_true(rc == MR_EDATALOSS || rc == MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "log 'damaged' in /tmp/mr-cache-"));
    assert_int_equal(stats_of(log).failure.code, rc);
    pass_damage(&r, &f, got);
    assert_true(test_feed_append(&f, 1, &err) < 0);
    test_reader_close(&r);
    mr_cache_log_close(log);

    test_feed_init(&g, other, seed + 1, SCALE); /* the other one is not concerned */
    fill(other, &g, 20 * MIB);
    assert_int_equal(stats_of(other).failure.code, MR_OK);
    mr_cache_log_close(other);
    mr_cache_close(cache);
}

static void records_that_are_not_what_was_written(void **state)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        damaged(10 + seed, 3 * MIB + 1);  /* a record here and there */
        damaged(20 + seed, 7 * KIB + 1);  /* all of them */
        damaged(30 + seed, 64 * KIB + 3); /* and what lies between */
    }
}

/* A table that ends early. */
static void a_truncated_table(void **state)
{
    static char paths[64][512];
    mr_cache *cache = open_cache();
    mr_cache_log *log = open_log(cache, "cut");
    struct test_reader r;
    struct test_feed f;
    mr_cache_view *view;
    uint64_t got = 0;
    mr_error err;
    size_t n;
    int rc;

    test_feed_init(&f, log, 40, SCALE);
    fill(log, &f, 12 * MIB);
    n = list_tables(paths, 64);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(truncate(paths[i], 700 * KIB), 0);
    }
    test_reader_open(&r, log, MR_CACHE_LAG_SKIP);
    (void)mr_cache_reader_start(r.reader);
    while ((rc = mr_cache_reader_next(r.reader, ANY, ANY, &view, &err)) == MR_OK) {
        test_check_view(view, f.seed, f.scale);
        got += view->rows;
        mr_cache_view_unref(view);
    }
    assert_true(rc < 0);
    assert_true(got > 0);
    test_reader_close(&r);
    mr_cache_log_close(log);
    mr_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_options_are_named, setup, teardown),
        /* Those that fork come first: a child of a process with a database has none of RocksDB's
         * threads. */
        cmocka_unit_test_setup_teardown(files_that_may_not_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_of_just_that_size, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_killed_process_left_is_wiped, setup, teardown),
        cmocka_unit_test_setup_teardown(one_cache_a_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(the_disk_bound_holds_at_all_times, setup, teardown),
        cmocka_unit_test_setup_teardown(a_dropped_log_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_copies_nothing_and_reads_nothing_in_vain, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(records_that_are_not_what_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(a_truncated_table, setup, teardown),
    };

    setenv("CMOCKA_TEST_ABORT", "1", 1); /* as in cache_test.c */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
