#include "cache.h"

#include "base/base.h"
#include "base/sync.h"

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic long outstanding;

_Noreturn void test_die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}

/* ---- elements ---- */

static uint64_t row_bytes(uint64_t seed, uint32_t scale, uint64_t index)
{
    return 64 * (1 + mr_mix64(seed ^ index) % scale);
}

uint64_t test_rows_bytes(uint64_t seed, uint32_t scale, uint64_t first, uint64_t rows)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rows; i++) {
        sum += row_bytes(seed, scale, first + i);
    }
    return sum;
}

/* The bytes of rows [first, first + rows), malloc'ed. */
static unsigned char *make_rows(uint64_t seed, uint32_t scale, uint64_t first, uint64_t rows,
                                uint64_t *bytes)
{
    uint64_t sum = test_rows_bytes(seed, scale, first, rows), word;
    unsigned char *data = malloc(sum > 0 ? sum : 1), *at = data;

    if (data == NULL) {
        test_die("out of memory");
    }
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t size = row_bytes(seed, scale, first + i);

        word = mr_mix64(seed + first + i);
        for (uint64_t n = 0; n < size; n += sizeof word, word += 0x9e3779b97f4a7c15u) {
            memcpy(at + n, &word, sizeof word);
        }
        at += size;
    }
    *bytes = sum;
    return data;
}

static void release(void *ctx)
{
    free(ctx);
    if (atomic_fetch_sub(&outstanding, 1) <= 0) {
        test_die("a chunk was released twice");
    }
}

long test_feed_outstanding(void)
{
    return atomic_load(&outstanding);
}

void test_feed_init(struct test_feed *f, mr_cache_log *log, uint64_t seed, uint32_t scale)
{
    *f = (struct test_feed){.log = log, .seed = seed, .scale = scale};
    mr_rng_seed(&f->rng, seed);
}

int test_feed_append(struct test_feed *f, uint32_t rows, mr_error *err)
{
    uint64_t bytes;
    unsigned char *data = make_rows(f->seed, f->scale, f->next, rows, &bytes);
    size_t a = mr_rng_below(&f->rng, bytes + 1), b = mr_rng_below(&f->rng, bytes - a + 1);
    struct iovec iov[3] = {{data, a}, {data + a, b}, {data + a + b, bytes - a - b}};
    struct mr_cache_chunk chunk = {
        .rows = rows, .iov = iov, .n = 3, .release = release, .ctx = data};
    int rc;

    atomic_fetch_add(&outstanding, 1);
    rc = mr_cache_log_append(f->log, &chunk, err);
    if (rc == MR_OK) {
        f->next += rows;
    }
    return rc;
}

void test_check_view(const mr_cache_view *view, uint64_t seed, uint32_t scale)
{
    const struct mr_cache_view_chunk *chunks = view->chunks;
    uint64_t index = view->first, rows = 0, sum = 0;

    for (size_t i = 0; i < view->nchunks; i++) {
        uint64_t bytes, at = 0;
        unsigned char *want = make_rows(seed, scale, index, chunks[i].rows, &bytes);

        if (bytes != chunks[i].bytes || chunks[i].iov_first + chunks[i].iov_count > view->niov) {
            test_die("element %" PRIu64 ": a chunk of %" PRIu64 " bytes, expected %" PRIu64, index,
                     chunks[i].bytes, bytes);
        }
        for (size_t p = 0; p < chunks[i].iov_count; p++) {
            const struct iovec *piece = &view->iov[chunks[i].iov_first + p];

            if (at + piece->iov_len > bytes ||
                memcmp(want + at, piece->iov_base, piece->iov_len) != 0) {
                test_die("element %" PRIu64 " and %u after it: other bytes than were appended",
                         index, chunks[i].rows - 1);
            }
            at += piece->iov_len;
        }
        if (at != bytes) {
            test_die("element %" PRIu64 ": pieces of %" PRIu64 " bytes, expected %" PRIu64, index,
                     at, bytes);
        }
        free(want);
        index += chunks[i].rows;
        rows += chunks[i].rows;
        sum += bytes;
    }
    if (rows != view->rows || sum != view->bytes) {
        test_die("a view of %" PRIu64 " rows has %" PRIu64, view->rows, rows);
    }
}

/* ---- readers ---- */

static void ready(void *ctx)
{
    struct test_reader *r = ctx;

    MR_LOCK(r->lock);
    r->told++;
    pthread_cond_broadcast(r->cond);
}

void test_reader_open(struct test_reader *r, mr_cache_log *log, enum mr_cache_lag lag)
{
    struct mr_cache_reader_options opts = {.lag = lag, .ready = ready, .ctx = r};
    mr_error err;

    *r = (struct test_reader){.lock = malloc(sizeof(pthread_mutex_t)),
                              .cond = malloc(sizeof(pthread_cond_t))};
    if (r->lock == NULL || r->cond == NULL) {
        test_die("out of memory");
    }
    mr_mutex_init(r->lock);
    mr_cond_init(r->cond);
    if (mr_cache_reader_open(log, &opts, &r->reader, &r->first, &err) < 0) {
        test_die("opening a reader: %s", err.message);
    }
}

int test_reader_next(struct test_reader *r, uint64_t rows_max, uint64_t bytes_max,
                     mr_cache_view **ret, mr_error *err)
{
    int rc;

    for (;;) {
        mr_mutex_lock(r->lock);
        r->told = 0;
        mr_mutex_unlock(r->lock);
        rc = mr_cache_reader_next(r->reader, rows_max, bytes_max, ret, err);
        if (rc != MR_TIMEOUT) {
            return rc;
        }
        mr_mutex_lock(r->lock);
        while (r->told == 0) {
            mr_cond_wait(r->cond, r->lock);
        }
        mr_mutex_unlock(r->lock);
    }
}

void test_reader_close(struct test_reader *r)
{
    mr_cache_reader_close(r->reader);
    pthread_mutex_destroy(r->lock);
    pthread_cond_destroy(r->cond);
    free(r->lock);
    free(r->cond);
}

void test_wait(bool (*done)(void *ctx), void *ctx)
{
    while (!done(ctx)) {
        sched_yield();
    }
}
