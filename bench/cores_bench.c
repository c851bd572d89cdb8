/*
 * What more cores bring to the bytes of two cases of pipelines.py alone. No queues, no allocation, no
 * operators: a pipeline that moves the same bytes cannot gain much more. Every thread has work of its
 * own.
 *
 *     cores_bench images [ROUNDS]          case g: images of bytes become batches of scaled float32,
 *                                          stored past the caches
 *     cores_bench records FILE [ROUNDS]    case b: pieces of the file are read, their checksums
 *                                          computed, and records of 3,200 bytes copied in a random
 *                                          order within a window into batches; windows end for all
 *                                          threads at the same time
 *
 * One line of JSON: images or records a second, medians.
 */
#include "base/clock.h"
#include "base/rng.h"
#include "base/stream.h"
#include "engine/crc32c.h"
#include "engine/env.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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
#define ROUNDS_DEFAULT 5
#define ROUNDS_MAX 100

#define IMAGE_BYTES ((size_t)224 * 224 * 3)
#define IMAGES_PER_BATCH 32u
#define INPUT_BATCHES 8u
#define OUTPUT_BATCHES 4u /* of each thread */
#define IMAGE_BATCHES 256u
#define TILE 2048u /* numbers that are computed before they are stored */

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

/* Seconds that @threads threads need for @work, whose argument is a pointer to their number. */
static double run_threads(void *(*work)(void *), uint32_t threads)
{
    pthread_t ids[THREADS_MAX];
    uint32_t numbers[THREADS_MAX];
    const int64_t begin = mr_now_ns();

    for (uint32_t i = 0; i < threads; i++) {
        numbers[i] = i;
        if (pthread_create(&ids[i], NULL, work, &numbers[i]) != 0) {
            die("thread");
        }
    }
    for (uint32_t i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    return (double)(mr_now_ns() - begin) / 1e9;
}

/* ---- records ---- */

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

static void *move_records(void *arg)
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

static double all_records(uint32_t threads)
{
    double seconds;

    nthreads = threads;
    if (pthread_barrier_init(&window_is_read, NULL, threads) != 0) {
        die("barrier");
    }
    seconds = run_threads(move_records, threads);
    (void)pthread_barrier_destroy(&window_is_read);
    return (double)WINDOWS * WINDOW_RECORDS / seconds;
}

static void prepare_records(const char *path)
{
    struct mr_rng rng;
    off_t size;

    fd = open(path, O_RDONLY | O_CLOEXEC);
    size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size < 0) {
        die(path);
    }
    if (size < (off_t)PIECE_BYTES) {
        (void)fprintf(stderr, "%s: at least %zu bytes are needed\n", path, PIECE_BYTES);
        exit(1);
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
}

/* ---- images ---- */

static unsigned char *images;
static unsigned char *scaled;
static atomic_uint next_batch;

_Static_assert((IMAGES_PER_BATCH * IMAGE_BYTES) % TILE == 0, "a batch is whole tiles");

static void scale_batch(const unsigned char *from, unsigned char *to)
{
    float tile[TILE];

    for (size_t at = 0; at < IMAGES_PER_BATCH * IMAGE_BYTES; at += TILE) {
        for (size_t i = 0; i < TILE; i++) {
            tile[i] = ((float)from[at + i] - 127.5f) / 127.5f;
        }
        mr_stream_copy(to + at * sizeof tile[0], (const unsigned char *)tile, sizeof tile);
    }
    mr_stream_end();
}

static void *scale_images(void *arg)
{
    const uint32_t me = *(const uint32_t *)arg;
    const size_t batch_bytes = IMAGES_PER_BATCH * IMAGE_BYTES;
    uint32_t batch;

    for (uint32_t i = 0; (batch = atomic_fetch_add(&next_batch, 1)) < IMAGE_BATCHES; i++) {
        size_t slot = (size_t)me * OUTPUT_BATCHES + i % OUTPUT_BATCHES;

        scale_batch(images + batch % INPUT_BATCHES * batch_bytes,
                    scaled + slot * batch_bytes * sizeof(float));
    }
    return NULL;
}

static double all_images(uint32_t threads)
{
    atomic_store(&next_batch, 0);
    return (double)IMAGE_BATCHES * IMAGES_PER_BATCH / run_threads(scale_images, threads);
}

static void prepare_images(uint32_t threads)
{
    const size_t batch_bytes = IMAGES_PER_BATCH * IMAGE_BYTES;

    images = memory(INPUT_BATCHES * batch_bytes);
    scaled = memory(threads * OUTPUT_BATCHES * batch_bytes * sizeof(float));
}

/* ---- rounds ---- */

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

static _Noreturn void usage(void)
{
    (void)fprintf(stderr, "usage: cores_bench images [ROUNDS]\n"
                          "       cores_bench records FILE [ROUNDS]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    bool of_images = argc > 1 && strcmp(argv[1], "images") == 0;
    bool of_records = argc > 2 && strcmp(argv[1], "records") == 0;
    int rest = of_images ? 2 : 3;
    long rounds = argc > rest ? strtol(argv[rest], NULL, 10) : ROUNDS_DEFAULT;
    uint32_t threads = MR_MIN(mr_machine_cores(), THREADS_MAX);
    double one[ROUNDS_MAX];
    double all[ROUNDS_MAX];

    if ((!of_images && !of_records) || argc > rest + 1 || rounds <= 0 || rounds > ROUNDS_MAX) {
        usage();
    }
    if (of_images) {
        prepare_images(threads);
    } else {
        prepare_records(argv[2]);
    }
    for (long i = 0; i < rounds; i++) {
        one[i] = of_images ? all_images(1) : all_records(1);
        all[i] = of_images ? all_images(threads) : all_records(threads);
    }
    double alone = median(one, rounds);
    double together = median(all, rounds);
    (void)printf("{\"one_core\": %.0f, \"cores\": %u, \"all_cores\": %.0f, \"ratio\": %.2f}\n",
                 alone, threads, together, together / alone);
    free(windows);
    free(batches);
    free(images);
    free(scaled);
    return 0;
}
