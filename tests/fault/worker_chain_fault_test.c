/* A production and its readers when the disk lets them down: full, damaged, not there, too small
 * for an element. Nobody stops, nobody gets an element that was not made or gets one twice, and
 * what is missing is counted. */
#include "base/rng.h"
#include "base/sync.h"
#include "worker/chain.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * KIB)
#define ROWS 1000u
#define ROWS_PER_BLOCK 4u
/* Longer than anything takes; then the test fails instead of hanging. */
#define PATIENCE_MS 60000
/* Of the disk, by one production: more than it has logs at a time. */
#define LOSSES 9

static char dir[64];

static int setup(void **state)
{
    strcpy(dir, "/tmp/mr-chain-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static int teardown(void **state)
{
    (void)umount2(dir, MNT_DETACH);
    return nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A window in memory looks for a disk every @retry_ms; 0: not while a test lasts. */
static mr_windows *open_windows_retrying(uint64_t disk, int64_t retry_ms)
{
    struct mr_windows_options opts = {.dir = dir,
                                      .disk_bytes_max = disk,
                                      .memory_bytes_max = 32 * MIB,
                                      .retry_ms = retry_ms == 0 ? INT32_MAX : retry_ms};
    mr_windows *w;
    mr_error err;

    if (mr_windows_new(&opts, &w, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return w;
}

static mr_windows *open_windows(uint64_t disk)
{
    return open_windows_retrying(disk, 0);
}

static mr_chain *open_chain(mr_windows *w, const char *name)
{
    mr_chain *chain;
    mr_error err;

    if (mr_chain_open(w, name, NULL, NULL, &chain, &err) < 0) {
        fail_msg("%s", err.message);
    }
    mr_chain_set_spec_hash(chain, 7);
    return chain;
}

static void close_chain(mr_chain *chain)
{
    mr_chain_close(chain);
    mr_chain_unref(chain);
}

static struct mr_chain_stats stats_of(mr_chain *chain)
{
    struct mr_chain_stats stats;

    mr_chain_stats(chain, &stats);
    return stats;
}

/* ---- elements: row i holds @each numbers that begin with i and go on from there ---- */

static mr_block *make_rows(uint64_t first, uint32_t rows, uint32_t each)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64, .rank = 1, .dims = {each}};
    mr_block *block;

    if (mr_block_alloc(rows, &leaf, 1, &block, NULL) < 0) {
        return NULL;
    }
    int64_t *data = mr_block_data(block, 0);
    for (uint64_t i = 0; i < (uint64_t)rows * each; i++) {
        data[i] = (int64_t)(first + i / each + i % each);
    }
    return block;
}

/* ---- a producer ---- */

struct producer {
    mr_chain *chain;
    pthread_t thread;
    uint64_t rows;
    uint32_t each;
    int rc; /* what made it stop; MR_END: all was made */
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    uint64_t made = 0;

    p->rc = MR_OK;
    while (p->rc == MR_OK && made < p->rows) {
        uint64_t wanted;

        p->rc = mr_chain_wait(p->chain, &wanted, NULL);
        if (p->rc == MR_OK) {
            uint32_t n = wanted > ROWS_PER_BLOCK ? ROWS_PER_BLOCK : (uint32_t)wanted;

            n = n > p->rows - made ? (uint32_t)(p->rows - made) : n;
            mr_block *block = make_rows(made, n, p->each);
            p->rc = block == NULL ? MR_EEXHAUSTED : mr_chain_append(p->chain, block, NULL);
            made += n;
        }
    }
    if (p->rc == MR_OK) {
        p->rc = MR_END;
        mr_chain_finish(p->chain, MR_OK, NULL);
    }
    return NULL;
}

static void start_producer(struct producer *p, mr_chain *chain, uint64_t rows, uint32_t each)
{
    *p = (struct producer){.chain = chain, .rows = rows, .each = each};
    assert_int_equal(mr_thread_start(&p->thread, "producer", produce, p, NULL), MR_OK);
}

static void join_producer(struct producer *p)
{
    assert_int_equal(pthread_join(p->thread, NULL), 0);
    assert_int_equal(p->rc, MR_END);
}

/* ---- a reader ---- */

struct reader {
    mr_chain_reader *reader;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool more;
    uint64_t first; /* that it began with */
    uint64_t next;  /* the lowest that may come */
    uint64_t seen;
};

static void on_ready(void *ctx)
{
    struct reader *r = ctx;

    MR_LOCK(&r->lock);
    r->more = true;
    (void)pthread_cond_broadcast(&r->changed);
}

static void join(struct reader *r, mr_chain *chain, const char *name, enum mr_cache_lag lag)
{
    struct mr_cache_reader_options opts = {.lag = lag, .ready = on_ready, .ctx = r};

    *r = (struct reader){0};
    mr_mutex_init(&r->lock);
    mr_cond_init(&r->changed);
    assert_int_equal(mr_chain_join(chain, name, &opts, &r->reader, &r->first, NULL), MR_OK);
}

static void start(struct reader *r)
{
    r->first = mr_chain_start(r->reader);
    r->next = r->first;
}

static void leave(struct reader *r)
{
    mr_chain_leave(r->reader);
    (void)pthread_cond_destroy(&r->changed);
    (void)pthread_mutex_destroy(&r->lock);
}

static void check_part(struct reader *r, struct mr_part part, uint64_t at, uint32_t each)
{
    mr_error err;

    (void)mr_part_ref(part);
    if (mr_part_unpack(&part, &err) < 0) {
        fail_msg("%s", err.message);
    }
    const int64_t *data = mr_block_column(part.block, 0)->data;
    for (uint32_t row = 0; row < mr_block_rows(part.block); row++) {
        for (uint32_t i = 0; i < each; i++) {
            assert_int_equal(data[(size_t)row * each + i], at + row + i);
        }
    }
    mr_part_unref(part);
}

/* MR_OK, or what else reading says; waits. What comes is checked, and returned. */
static int read_some(struct reader *r, uint32_t each, bool returns)
{
    struct mr_chain_rows rows;
    mr_error err;
    int rc;

    for (;;) {
        mr_mutex_lock(&r->lock);
        r->more = false;
        mr_mutex_unlock(&r->lock);
        rc = mr_chain_read(r->reader, 16, MIB, &rows, &err);
        if (rc != MR_TIMEOUT) {
            break;
        }
        MR_LOCK(&r->lock);
        while (!r->more) {
            if (!mr_cond_wait_ms(&r->changed, &r->lock, PATIENCE_MS)) {
                fail_msg("nothing comes after element %llu", (unsigned long long)r->next);
            }
        }
    }
    if (rc != MR_OK) {
        return rc;
    }
    assert_true(rows.at >= r->next);
    r->next = rows.at;
    for (size_t i = 0; i < rows.n; i++) {
        check_part(r, rows.parts[i], r->next, each);
        r->next += mr_part_count(rows.parts[i]);
        r->seen += mr_part_count(rows.parts[i]);
    }
    mr_chain_rows_free(&rows);
    if (returns) {
        mr_chain_returned(r->reader, r->next);
    }
    return MR_OK;
}

static void read_to_the_end(struct reader *r, uint32_t each)
{
    int rc;

    do {
        rc = read_some(r, each, true);
    } while (rc == MR_OK);
    assert_int_equal(rc, MR_END);
}

/* ---- tests ---- */

static void check_degraded(mr_windows *w, mr_chain *chain, const char *why)
{
    struct mr_windows_progress progress;
    struct mr_chain_stats stats = stats_of(chain);

    mr_windows_progress(w, &progress);
    assert_true(progress.used);
    assert_int_equal(progress.failures, 1);
    assert_non_null(strstr(progress.degraded, why));
    assert_non_null(strstr(stats.degraded, why));
}

static void check_restored(mr_windows *w)
{
    struct mr_windows_progress progress;

    mr_windows_progress(w, &progress);
    assert_string_equal(progress.degraded, "");
    assert_int_equal(progress.failures, 1);
}

/* 64 MB of elements through a disk of 12 MiB that is believed to be larger. */
static void a_full_disk(void **state)
{
    struct producer p;
    struct reader fast, other;

    if (mount("none", dir, "tmpfs", 0, "size=12m") != 0) {
        print_message("not allowed to mount a small tmpfs: skipped\n");
        skip();
    }
    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&fast, chain, "fast", MR_CACHE_LAG_WAIT);
    join(&other, chain, "other", MR_CACHE_LAG_SKIP);
    start(&fast);
    start(&other);
    start_producer(&p, chain, ROWS, 8 * KIB);
    read_to_the_end(&fast, 8 * KIB);
    assert_int_equal(fast.seen, ROWS); /* "wait" misses nothing */
    assert_int_equal(mr_chain_skipped(fast.reader), 0);
    join_producer(&p);
    read_to_the_end(&other, 8 * KIB);
    assert_int_equal(other.seen + mr_chain_skipped(other.reader), ROWS);
    assert_true(other.seen > 0);
    check_degraded(w, chain, "No space left on device");
    leave(&fast);
    leave(&other);
    close_chain(chain);
    check_restored(w);
    mr_windows_free(w);
}

static uint64_t losses_of(mr_windows *w)
{
    struct mr_windows_progress progress;

    mr_windows_progress(w, &progress);
    return progress.failures;
}

/* The production that meets a full disk goes on in memory, and looks for the disk again and again,
 * however often it was lost. When there is room, it finds an empty one, and so do others. */
static void a_disk_that_has_room_again(void **state)
{
    struct mr_windows_progress progress;
    struct producer p;
    struct reader r;

    if (mount("none", dir, "tmpfs", 0, "size=12m") != 0) {
        print_message("not allowed to mount a small tmpfs: skipped\n");
        skip();
    }
    mr_windows *w = open_windows_retrying(64 * MIB, 1);
    mr_chain *chain = open_chain(w, "endless");
    join(&r, chain, "r", MR_CACHE_LAG_WAIT);
    start(&r);
    start_producer(&p, chain, UINT32_MAX, 8 * KIB);
    while (losses_of(w) < LOSSES) {
        assert_int_equal(read_some(&r, 8 * KIB, true), MR_OK);
    }
    assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT, "size=100m"), 0);
    while (stats_of(chain).degraded[0] != '\0' || stats_of(chain).disk_bytes == 0) {
        assert_int_equal(read_some(&r, 8 * KIB, true), MR_OK);
    }
    mr_windows_progress(w, &progress);
    assert_string_equal(progress.degraded, "");
    mr_chain *other = open_chain(w, "other");
    assert_string_equal(stats_of(other).degraded, "");
    close_chain(other);
    assert_int_equal(mr_chain_skipped(r.reader), 0);
    mr_chain_cancel(chain);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    assert_int_equal(p.rc, MR_ECANCELED);
    leave(&r);
    close_chain(chain);
    mr_windows_free(w);
}

/* Turn a byte each @stride of all tables. */
static unsigned damage(off_t stride)
{
    char db[128], path[512];
    const struct dirent *entry;
    unsigned n = 0;

    (void)snprintf(db, sizeof db, "%s/worker-0/db", dir);
    DIR *d = opendir(db);
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (strstr(entry->d_name, ".sst") == NULL) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", db, entry->d_name);
        int fd = open(path, O_RDWR);
        unsigned char byte;
        for (off_t at = stride / 2; fd >= 0 && pread(fd, &byte, 1, at) == 1; at += stride) {
            byte = (unsigned char)~byte;
            n += pwrite(fd, &byte, 1, at) == 1;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return n;
}

/* A slow reader comes to a record that is not what was written, while the production goes on. */
static void damaged_files(void **state)
{
    struct producer p;
    struct reader fast, slow;

    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&fast, chain, "fast", MR_CACHE_LAG_SKIP);
    join(&slow, chain, "slow", MR_CACHE_LAG_SKIP);
    start(&fast);
    start(&slow);
    start_producer(&p, chain, ROWS, 8 * KIB);
    while (stats_of(chain).disk_bytes < 4 * MIB) {
        assert_int_equal(read_some(&fast, 8 * KIB, true), MR_OK);
    }
    assert_true(damage(MIB) > 0);
    /* It meets the damage, and goes on behind it. */
    while (mr_chain_skipped(slow.reader) == 0) {
        assert_int_equal(read_some(&slow, 8 * KIB, true), MR_OK);
    }
    assert_true(mr_chain_skipped(slow.reader) <= ROWS_PER_BLOCK);
    read_to_the_end(&fast, 8 * KIB);
    assert_int_equal(fast.seen + mr_chain_skipped(fast.reader), ROWS);
    join_producer(&p);
    read_to_the_end(&slow, 8 * KIB);
    assert_int_equal(slow.seen + mr_chain_skipped(slow.reader), ROWS);
    check_degraded(w, chain, "is not what was written");
    leave(&fast);
    leave(&slow);
    close_chain(chain);
    check_restored(w);
    mr_windows_free(w);
}

/* The pipeline is over when somebody comes to the damage: it is missing, that is all. */
static void damaged_files_after_the_end(void **state)
{
    struct producer p;
    struct reader fast, slow;

    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&fast, chain, "fast", MR_CACHE_LAG_SKIP);
    join(&slow, chain, "slow", MR_CACHE_LAG_WAIT);
    start(&fast);
    start(&slow);
    start_producer(&p, chain, 300, 8 * KIB);
    read_to_the_end(&fast, 8 * KIB);
    join_producer(&p);
    assert_int_equal(fast.seen, 300);
    unsigned damaged = damage(MIB);
    assert_true(damaged > 0);
    read_to_the_end(&slow, 8 * KIB);
    assert_true(slow.seen < 300);
    assert_int_equal(slow.seen + mr_chain_skipped(slow.reader), 300);
    assert_true(mr_chain_skipped(slow.reader) <=
                damaged * ROWS_PER_BLOCK); /* of a record no more than itself */
    check_degraded(w, chain, "is not what was written");
    leave(&fast);
    leave(&slow);
    close_chain(chain);
    mr_windows_free(w);
}

static void no_directory(void **state)
{
    struct producer p;
    struct reader r;
    char path[128];

    (void)snprintf(path, sizeof path, "%s/file", dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    struct mr_windows_options opts = {
        .dir = path, .disk_bytes_max = 64 * MIB, .memory_bytes_max = 32 * MIB};
    mr_windows *w;
    assert_int_equal(mr_windows_new(&opts, &w, NULL), MR_OK);
    mr_chain *chain = open_chain(w, "p");
    check_degraded(w, chain, path);
    join(&r, chain, "r", MR_CACHE_LAG_WAIT);
    start(&r);
    start_producer(&p, chain, ROWS, 8 * KIB);
    read_to_the_end(&r, 8 * KIB);
    join_producer(&p);
    assert_int_equal(r.seen, ROWS);
    assert_true(stats_of(chain).bytes <= 8 * MIB); /* bounded: an eighth of the memory */
    leave(&r);
    close_chain(chain);
    check_restored(w);
    mr_windows_free(w);
}

/* Two elements of a size, then two that are 16 times as large. */
static uint32_t size_of(uint64_t index)
{
    return (8 * KIB) << (4 * (index / 2));
}

/* Elements get larger than the window takes, twice. */
static void large_elements(void **state)
{
    struct reader r, late;
    uint64_t made = 0;
    mr_error err;

    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&r, chain, "r", MR_CACHE_LAG_WAIT);
    start(&r);
    while (made < 6) {
        /* Two rows a block: a block is cut before an element is too large. */
        mr_block *block = make_rows(made, 2, size_of(made));

        assert_non_null(block);
        if (mr_chain_append(chain, block, &err) < 0) {
            fail_msg("%s", err.message);
        }
        made += 2;
    }
    check_degraded(w, chain, "give the cache more memory");
    /* Who joins now begins behind what the earlier logs hold. */
    join(&late, chain, "late", MR_CACHE_LAG_SKIP);
    assert_true(late.first > 0);
    start(&late);
    mr_chain_finish(chain, MR_OK, NULL);
    while (r.next < made) {
        assert_int_equal(read_some(&r, size_of(r.next), false), MR_OK);
    }
    assert_int_equal(read_some(&r, 1, false), MR_END);
    assert_int_equal(r.seen, made);
    /* All of it was handed out, and element 1 is the first that was not returned: back through all
     * logs. */
    mr_chain_returned(r.reader, 1);
    mr_chain_rewind(r.reader, 1);
    r.next = 1;
    r.seen = 0;
    while (r.next < made) {
        assert_int_equal(read_some(&r, size_of(r.next), true), MR_OK);
    }
    assert_int_equal(read_some(&r, 1, true), MR_END);
    assert_int_equal(r.seen, made - 1);
    assert_int_equal(mr_chain_skipped(r.reader), 0);
    leave(&late);
    leave(&r);
    close_chain(chain);
    mr_windows_free(w);
}

/* Each element is a little larger than all before it: that is no log each. */
static void growing_elements(void **state)
{
    struct reader r;
    mr_error err;

    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&r, chain, "r", MR_CACHE_LAG_WAIT);
    start(&r);
    for (uint64_t i = 0; i < 60; i++) {
        uint32_t each = (uint32_t)(100 + i) * KIB;
        mr_block *block = make_rows(i, 1, each);

        assert_non_null(block);
        if (mr_chain_append(chain, block, &err) < 0) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(read_some(&r, each, true), MR_OK);
    }
    mr_chain_finish(chain, MR_OK, NULL);
    assert_int_equal(read_some(&r, 1, true), MR_END);
    assert_int_equal(r.seen, 60);
    assert_int_equal(mr_chain_skipped(r.reader), 0);
    leave(&r);
    close_chain(chain);
    mr_windows_free(w);
}

/* ---- directories ---- */

static unsigned tables_in(const char *slot)
{
    char db[128];
    const struct dirent *entry;
    unsigned n = 0;

    (void)snprintf(db, sizeof db, "%s/%s/db", dir, slot);
    DIR *d = opendir(db);
    while (d != NULL && (entry = readdir(d)) != NULL) {
        n += strstr(entry->d_name, ".sst") != NULL;
    }
    if (d != NULL) {
        closedir(d);
    }
    return n;
}

static void two_workers_have_one_each(void **state)
{
    char path[128];

    mr_windows *a = open_windows(64 * MIB), *b = open_windows(64 * MIB);
    mr_chain *in_a = open_chain(a, "a"), *in_b = open_chain(b, "b");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/worker-%d/db", dir, i);
        assert_int_equal(access(path, F_OK), 0);
    }
    assert_string_equal(stats_of(in_a).degraded, "");
    assert_string_equal(stats_of(in_b).degraded, "");
    close_chain(in_a);
    close_chain(in_b);
    mr_windows_free(a);
    mr_windows_free(b);
}

/* What a reader leaves behind is where it stood: nothing, if it never began. */
static void places_are_kept_of_those_who_have_read(void **state)
{
    struct mr_reading_stand put = {.at = 0, .skipped = 1, .told = 2, .missing = 3}, stand;
    struct reader a, b;

    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&a, chain, "a", MR_CACHE_LAG_SKIP);
    join(&b, chain, "b", MR_CACHE_LAG_SKIP);
    assert_int_equal(stats_of(chain).places, 2);
    leave(&b);
    assert_int_equal(stats_of(chain).places, 1);
    start(&a);
    mr_chain_put_down(a.reader, &put);
    leave(&a);
    assert_int_equal(stats_of(chain).places, 1);
    join(&a, chain, "a", MR_CACHE_LAG_SKIP);
    assert_int_equal(stats_of(chain).places, 1);
    start(&a);
    assert_true(mr_chain_stand(a.reader, &stand));
    assert_memory_equal(&stand, &put, sizeof put);
    leave(&a);
    assert_int_equal(stats_of(chain).places, 1);
    close_chain(chain);
    mr_windows_free(w);
}

static void die_while_writing(void)
{
    struct producer p;
    struct reader r;

    mr_windows *w = open_windows(64 * MIB);
    mr_chain *chain = open_chain(w, "p");
    join(&r, chain, "r", MR_CACHE_LAG_SKIP);
    start(&r);
    start_producer(&p, chain, UINT32_MAX, 8 * KIB);
    while (tables_in("worker-0") < 3) {
        (void)read_some(&r, 8 * KIB, true);
    }
    (void)kill(getpid(), SIGKILL);
}

static void what_a_killed_worker_left_is_wiped(void **state)
{
    char from[128], to[128];
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        die_while_writing();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(tables_in("worker-0") > 0);
    /* Also in a place that this worker will not take. */
    (void)snprintf(from, sizeof from, "%s/worker-0", dir);
    (void)snprintf(to, sizeof to, "%s/worker-3", dir);
    assert_int_equal(rename(from, to), 0);
    mr_windows *w = open_windows(64 * MIB);
    assert_int_equal(tables_in("worker-3"), 0);
    mr_windows_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(what_a_killed_worker_left_is_wiped), /* first: it forks */
        TEST(a_full_disk),
        TEST(a_disk_that_has_room_again),
        TEST(damaged_files),
        TEST(damaged_files_after_the_end),
        TEST(no_directory),
        TEST(large_elements),
        TEST(growing_elements),
        TEST(two_workers_have_one_each),
        TEST(places_are_kept_of_those_who_have_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
