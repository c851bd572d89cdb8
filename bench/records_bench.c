/*
 * The bytes of case b of pipelines.py alone, on one core and on all: pieces of a file are read, their
 * checksums computed, and records of 3,200 bytes copied in a random order within a window into
 * batches. Every thread reads pieces of its own and fills batches of its own; windows end for all at
 * the same time. Nothing is parsed or allocated, and there are no queues: what more cores bring here,
 * a pipeline that moves the same bytes cannot exceed by much. One line of JSON.
 *
 *     records_bench ROUNDS FILE
 */
#include "base/clock.h"
#include "base/rng.h"
#include "engine/crc32c.h"
#include "engine/env.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_BYTES 3200u
#define PIECE_RECORDS 64u
#define PIECE_BYTES ((size_t)PIECE_RECORDS * RECORD_BYTES)
#define WINDOW_RECORDS 2560u
#define WINDOW_BYTES ((size_t)WINDOW_RECORDS * RECORD_BYTES)
#define BATCH_RECORDS 128u
#define BATCHES_KEPT 4u /* of each thread */
#define WINDOWS 160u
#define THREADS_MAX 16u
#define ROUNDS_MAX 100

_Static_assert(WINDOW_RECORDS % PIECE_RECORDS == 0 && WINDOW_RECORDS % BATCH_RECORDS == 0,
               "windows are whole pieces and whole batches");

static int fd;
static uint64_t pieces_of_file;
static unsigned char *windows; /* two, by turns: one is read while slower threads empty the other */
static unsigned char *batches;
static uint32_t order[WINDOW_RECORDS];
static uint32_t nthreads;
static pthread_barrier_t window_is_read;

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static void *memory(size_t size)
{
    void *p = aligned_alloc(4096, size);

    if (p == NULL) {
        die("memory");
    }
    memset(p, 0, size);
    return p;
}

static void read_piece(uint64_t number, unsigned char *to)
{
    static _Thread_local uint32_t sum;
    off_t at = (off_t)(number % pieces_of_file * PIECE_BYTES);

    if (pread(fd, to, PIECE_BYTES, at) != (ssize_t)PIECE_BYTES) {
        die("read");
    }
    for (uint32_t i = 0; i < PIECE_RECORDS; i++) {
        sum += mr_crc32c(to + (size_t)i * RECORD_BYTES, RECORD_BYTES);
    }
    __asm__ volatile("" ::"r"(sum)); /* or it would not be computed */
}

static void fill_batch(uint32_t number, const unsigned char *window, uint32_t me)
{
    size_t slot = (size_t)me * BATCHES_KEPT + number % BATCHES_KEPT;
    unsigned char *to = batches + slot * BATCH_RECORDS * RECORD_BYTES;
    const uint32_t *from = order + (size_t)number * BATCH_RECORDS;

    for (uint32_t i = 0; i < BATCH_RECORDS; i++) {
        memcpy(to + (size_t)i * RECORD_BYTES, window + (size_t)from[i] * RECORD_BYTES,
               RECORD_BYTES);
    }
    __asm__ volatile("" ::"r"(to) : "memory");
}

static void *work(void *arg)
{
    const uint32_t me = *(const uint32_t *)arg;
    const uint32_t pieces = WINDOW_RECORDS / PIECE_RECORDS;

    for (uint64_t w = 0; w < WINDOWS; w++) {
        unsigned char *window = windows + w % 2 * WINDOW_BYTES;

        for (uint32_t p = me; p < pieces; p += nthreads) {
            read_piece(w * pieces + p, window + p * PIECE_BYTES);
        }
        (void)pthread_barrier_wait(&window_is_read);
        for (uint32_t b = me; b < WINDOW_RECORDS / BATCH_RECORDS; b += nthreads) {
            fill_batch(b, window, me);
        }
    }
    return NULL;
}

/* Records a second. */
static double measure(uint32_t threads)
{
    pthread_t ids[THREADS_MAX];
    uint32_t numbers[THREADS_MAX];
    const int64_t begin = mr_now_ns();

    nthreads = threads;
    if (pthread_barrier_init(&window_is_read, NULL, threads) != 0) {
        die("barrier");
    }
    for (uint32_t i = 0; i < threads; i++) {
        numbers[i] = i;
        if (pthread_create(&ids[i], NULL, work, &numbers[i]) != 0) {
            die("thread");
        }
    }
    for (uint32_t i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    (void)pthread_barrier_destroy(&window_is_read);
    return (double)WINDOWS * WINDOW_RECORDS * 1e9 / (double)(mr_now_ns() - begin);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values, long n)
{
    qsort(values, (size_t)n, sizeof values[0], compare);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    long rounds = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    uint32_t cores = mr_machine_cores();
    struct mr_rng rng;
    double one[ROUNDS_MAX];
    double all[ROUNDS_MAX];

    if (rounds <= 0 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: records_bench ROUNDS FILE\n");
        return 2;
    }
    fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size < 0) {
        die(argv[2]);
    }
    if (size < (off_t)PIECE_BYTES) {
        (void)fprintf(stderr, "%s: at least %zu bytes are needed\n", argv[2], PIECE_BYTES);
        return 1;
    }
    pieces_of_file = (uint64_t)size / PIECE_BYTES;
    windows = memory(2 * WINDOW_BYTES);
    batches = memory((size_t)THREADS_MAX * BATCHES_KEPT * BATCH_RECORDS * RECORD_BYTES);
    mr_rng_seed(&rng, 1);
    for (uint32_t i = 0; i < WINDOW_RECORDS; i++) {
        uint32_t other = (uint32_t)mr_rng_below(&rng, i + 1u);

        order[i] = order[other];
        order[other] = i;
    }
    uint32_t threads = MR_MIN(cores, THREADS_MAX);
    for (long i = 0; i < rounds; i++) {
        one[i] = measure(1);
        all[i] = measure(threads);
    }
    double alone = median(one, rounds);
    double together = median(all, rounds);
    (void)printf("{\"one_core\": %.0f, \"cores\": %u, \"all_cores\": %.0f, \"ratio\": %.2f}\n",
                 alone, threads, together, together / alone);
    free(windows);
    free(batches);
    return 0;
}
