/* Each allocation and each call of the cache's storage fails once, one after the other, while a
 * chain is opened, written, read by one who is there and one who comes late, and closed. The
 * failure says what it was, the next try succeeds, what is missing is counted, and nothing leaks.
 */
#include "cache/fake/fake.h"
#include "cache/internal.h"
#include "tests/support/heap.h"
#include "worker/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * KIB)
#define BLOCKS 64u
#define ROWS_PER_BLOCK 4u
#define ROWS (BLOCKS * ROWS_PER_BLOCK)
#define NUMBERS_PER_ROW KIB
/* More often than this nothing fails in a row. */
#define TRIES_MAX 20

static char dir[] = "/tmp/mr-failpoints-XXXXXX"; /* the windows make it; nothing is written there */

static mr_storage *storage; /* of the cache that was opened last */
static enum mr_storage_fake_fault fault_kind;
static uint64_t fault_nth; /* 0: none */
static unsigned failures;  /* that the chain told */

/* What is behind mr_cache_open(): little memory, so that most of a log is written. */
int mr_cache_open(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err)
{
    struct mr_cache_limits limits = {
        .log_bytes_max = opts->disk_bytes_max,
        .log_bytes_min = 8 * MIB,
        .log_memory_bytes = MIB / 2,
        .logs_max = 8,
    };
    int rc = mr_storage_fake_new(&storage, err);

    if (rc < 0) {
        return rc;
    }
    mr_storage_fake_fail(storage, fault_kind, fault_nth);
    return mr_cache_new(storage, &limits, ret, err);
}

/* @rc is that of a call that may fail once: it says what it was. True: try again. */
static bool again(int rc, const mr_error *err)
{
    static unsigned tries;

    tries = rc < 0 ? tries + 1 : 0;
    if (rc < 0) {
        failures++;
        assert_int_equal(err->code, rc);
        assert_true(strlen(err->message) > strlen("no"));
        assert_true(tries < TRIES_MAX);
    }
    return rc < 0;
}

static void on_ready(void *ctx)
{
}

struct reader {
    mr_chain_reader *reader;
    uint64_t next, seen;
};

static void join(struct reader *r, mr_chain *chain, const char *name)
{
    struct mr_cache_reader_options opts = {.lag = MR_CACHE_LAG_WAIT, .ready = on_ready};
    mr_error err;

    *r = (struct reader){0};
    while (again(mr_chain_join(chain, name, &opts, &r->reader, &r->next, &err), &err)) {
    }
    r->next = mr_chain_start(r->reader);
}

/* MR_TIMEOUT: it has all there is; MR_END. */
static int read_all(struct reader *r)
{
    for (;;) {
        struct mr_chain_rows rows;
        mr_error err;
        int rc = mr_chain_read(r->reader, 16, MIB, &rows, &err);

        if (again(rc, &err)) {
            continue;
        }
        if (rc != MR_OK) {
            return rc;
        }
        assert_true(rows.at >= r->next);
        r->next = rows.at;
        for (size_t i = 0; i < rows.n; i++) {
            r->next += mr_part_count(rows.parts[i]);
            r->seen += mr_part_count(rows.parts[i]);
        }
        mr_chain_rows_free(&rows);
        mr_chain_returned(r->reader, r->next);
    }
}

static void leave(struct reader *r)
{
    assert_int_equal(r->seen + mr_chain_skipped(r->reader), ROWS);
    mr_chain_leave(r->reader);
}

static mr_block *make_block(void)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64, .rank = 1, .dims = {NUMBERS_PER_ROW}};
    mr_block *block;
    mr_error err;

    while (again(mr_block_alloc(ROWS_PER_BLOCK, &leaf, 1, &block, &err), &err)) {
    }
    memset(mr_block_data(block, 0), 7, sizeof(int64_t) * NUMBERS_PER_ROW * ROWS_PER_BLOCK);
    return block;
}

/* Appending takes the block in any case: another reference for the next try. */
static void append(mr_chain *chain)
{
    mr_block *block = make_block();
    uint64_t wanted;
    mr_error err;

    while (again(mr_chain_wait(chain, &wanted, &err), &err)) {
    }
    while (again(mr_chain_append(chain, mr_block_ref(block), &err), &err)) {
    }
    mr_block_unref(block);
}

/* Did anything of it fail? */
static bool live(void)
{
    struct mr_windows_options opts = {.dir = dir, .memory_bytes_max = 32 * MIB};
    struct mr_windows_progress progress;
    struct reader early, late;
    mr_windows *windows;
    mr_chain *chain;
    mr_error err;

    failures = 0;
    while (again(mr_windows_new(&opts, &windows, &err), &err)) {
    }
    while (again(mr_chain_open(windows, "p", NULL, NULL, &chain, &err), &err)) {
    }
    mr_chain_set_spec_hash(chain, 7);
    join(&early, chain, "early");
    join(&late, chain, "late");
    for (unsigned i = 0; i < BLOCKS; i++) {
        append(chain);
        assert_int_equal(read_all(&early), MR_TIMEOUT);
    }
    mr_chain_finish(chain, MR_OK, NULL);
    assert_int_equal(read_all(&early), MR_END);
    assert_int_equal(read_all(&late), MR_END);
    mr_windows_progress(windows, &progress);
    assert_true((progress.failures == 0) == (progress.degraded[0] == '\0'));
    /* Nothing is missed where nothing is degraded. */
    if (progress.failures == 0 && early.seen + late.seen != 2 * ROWS) {
        fail_msg("%llu and %llu of %u elements came", (unsigned long long)early.seen,
                 (unsigned long long)late.seen, ROWS);
    }
    leave(&early);
    leave(&late);
    mr_chain_close(chain);
    mr_chain_unref(chain);
    mr_windows_free(windows);
    return failures > 0 || progress.failures > 0;
}

/* Live with the nth allocation failing (0: none); it is told, or not, and leaves nothing behind. A
 * thread more than ever before keeps something for the next: only what grows each time has leaked.
 */
static bool live_cleanly(uint64_t nth, bool *reached)
{
    for (int tries = 1;; tries++) {
        size_t before = mr_test_heap_in_use();
        uint64_t start = mr_alloc_count();

        mr_alloc_fail_at(nth);
        bool told = live();
        mr_alloc_fail_at(0);
        *reached = mr_alloc_count() - start >= nth;
        if (mr_test_heap_in_use() <= before) {
            return told;
        }
        if (tries == 3) {
            fail_msg("%zu bytes are left after allocation %llu, fault %d %llu",
                     mr_test_heap_in_use() - before, (unsigned long long)nth, fault_kind,
                     (unsigned long long)fault_nth);
        }
    }
}

static void each_allocation_fails_once(void **state)
{
    uint64_t nth = 1, told = 0;

    (void)live(); /* what is made once stays */
    for (bool reached = true; reached; nth++) {
        told += live_cleanly(nth, &reached);
    }
    print_message("%llu allocations, %llu told\n", (unsigned long long)nth - 2,
                  (unsigned long long)told);
    assert_true(told > 100);
}

static void each_call_of_the_storage_fails_once(void **state)
{
    static const unsigned told_min[MR_FAKE_FAULTS] = {
        [MR_FAKE_PUT] = 8,  [MR_FAKE_FLUSH] = 4, [MR_FAKE_READ] = 8,
        [MR_FAKE_FLIP] = 8, [MR_FAKE_LOSE] = 8,  [MR_FAKE_CREATE] = 1};

    (void)live();
    for (int kind = 0; kind < MR_FAKE_FAULTS; kind++) {
        unsigned told = 0;
        bool reached;

        fault_kind = (enum mr_storage_fake_fault)kind;
        for (fault_nth = 1; fault_nth <= 24; fault_nth++) {
            told += live_cleanly(0, &reached);
        }
        assert_true(told >= told_min[kind]);
    }
    fault_nth = 0;
}

int main(int argc, char **argv)
{
    /* What a thread keeps of freed memory would count as in use. */
    if (getenv("GLIBC_TUNABLES") == NULL) {
        (void)setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1", 1);
        (void)execv("/proc/self/exe", argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_fails_once),
        cmocka_unit_test(each_call_of_the_storage_fails_once),
    };

    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    (void)rmdir(dir);
    return failed;
}
