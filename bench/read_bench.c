/*
 * Reading from a worker over loopback, in C, and the raw TCP baseline beside it. One measurement a
 * run, one line of JSON; bench/run.py interleaves the runs and takes medians.
 *
 *     read_bench tcp MESSAGE_BYTES COUNT            raw TCP: a second process writes, this one
 *                                                   reads
 *     read_bench bulk SERVICE ELEMENT_BYTES COUNT   elements of one uint8 tensor each,
 *                                                   mr_iterator_next_block()
 *     read_bench small SERVICE COUNT [MODE]         bench_range(COUNT), mr_iterator_next() for
 *                                                   each, sum checked
 *     read_bench latency SERVICE ROUNDS             bench_range(1): open -> first element, element
 *                                                   -> end (medians)
 */
#include "support.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OFF "parallel_epochs"

static double cpu_s(int who)
{
    struct rusage u;

    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- the baseline ---- */

static void write_all(int fd, const unsigned char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, p, n);

        if (done <= 0) {
            bench_die("write", NULL);
        }
        p += done;
        n -= (size_t)done;
    }
}

static _Noreturn void tcp_sender(struct sockaddr_in *to, size_t message_bytes, uint64_t count)
{
    unsigned char *message = malloc(message_bytes);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (message == NULL || fd < 0 || connect(fd, (struct sockaddr *)to, sizeof *to) != 0) {
        bench_die("connect", NULL);
    }
    memset(message, 1, message_bytes);
    for (uint64_t i = 0; i < count; i++) {
        write_all(fd, message, message_bytes);
    }
    close(fd);
    exit(0);
}

static void bench_tcp(size_t message_bytes, uint64_t count)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    unsigned char *message = malloc(message_bytes);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    uint64_t received = 0;

    if (message == NULL || listener < 0 ||
        bind(listener, (struct sockaddr *)&addr, sizeof addr) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&addr, &len) != 0) {
        bench_die("listen", NULL);
    }
    pid_t child = fork();
    if (child == 0) {
        tcp_sender(&addr, message_bytes, count);
    }
    int fd = accept(listener, NULL, NULL);
    double start = bench_now_s();
    for (;;) {
        size_t have =
            0; /* One message at a time into the same memory, as a reader of elements would. */
        ssize_t n = 0;

        while (have < message_bytes && (n = read(fd, message + have, message_bytes - have)) > 0) {
            have += (size_t)n;
        }
        received += have;
        if (n <= 0) {
            break;
        }
    }
    double seconds = bench_now_s() - start;
    int status = 0;
    (void)waitpid(child, &status, 0);
    if (received != message_bytes * count || status != 0) {
        (void)fprintf(stderr, "read_bench: tcp: %llu bytes came\n", (unsigned long long)received);
        exit(1);
    }
    printf("{\"gb_per_s\": %.4f, \"cpu_s_per_gb\": %.4f}\n", (double)received / seconds / 1e9,
           (cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN)) / ((double)received / 1e9));
    free(message);
}

/* ---- datasets ---- */

static mr_dataset *distribute(mr_dataset *ds, const char *service, const char *mode)
{
    struct mr_attr attrs[] = {bench_text("processing_mode", mode), bench_text("service", service)};

    return bench_apply("distribute", ds, attrs, 2);
}

/* ---- measurements: the clock starts at the first element, so that set-up does not count ---- */

static void bench_bulk(const char *service, size_t element_bytes, uint64_t count)
{
    mr_dataset *ds = distribute(bench_tensors(element_bytes, count), service, OFF);
    mr_iterator *it = bench_open(ds);
    mr_block *block = NULL;
    mr_error err = {0};
    uint64_t got = 0;
    uint64_t sum = 0;
    double start = 0;
    double cpu_start = 0;
    uint64_t first = 0;
    int rc;

    while ((rc = mr_iterator_next_block(it, 0, -1, &block, &err)) == MR_OK) {
        const struct mr_column *c = mr_block_column(block, 0);
        uint32_t rows = mr_block_rows(block);

        for (uint32_t r = 0; r < rows; r++) {
            sum += ((const unsigned char *)c->data)[(size_t)r * element_bytes];
        }
        got += rows;
        mr_block_unref(block);
        if (start == 0) {
            start = bench_now_s();
            cpu_start = cpu_s(RUSAGE_SELF);
            first = got;
        }
    }
    double seconds = bench_now_s() - start;
    if (rc != MR_END) {
        bench_die("next_block", &err);
    }
    if (got != count || sum != count) {
        (void)fprintf(stderr, "read_bench: bulk: %llu elements came\n", (unsigned long long)got);
        exit(1);
    }
    double gb = (double)(got - first) * (double)element_bytes / 1e9;
    printf("{\"gb_per_s\": %.4f, \"client_cpu_s_per_gb\": %.4f}\n", gb / seconds,
           (cpu_s(RUSAGE_SELF) - cpu_start) / gb);
    mr_iterator_free(it);
    mr_dataset_unref(ds);
}

static void bench_small(const char *service, uint64_t count, const char *mode)
{
    mr_dataset *ds = distribute(bench_range(count), service, mode);
    mr_iterator *it = bench_open(ds);
    struct mr_element element;
    mr_error err = {0};
    uint64_t got = 0;
    uint64_t sum = 0;
    double start = 0;
    int rc;

    while ((rc = mr_iterator_next(it, &element, &err)) == MR_OK) {
        sum += (uint64_t)((const int64_t *)mr_block_column(element.block, 0)->data)[element.row];
        if (got++ == 0) {
            start = bench_now_s();
        }
    }
    double seconds = bench_now_s() - start;
    if (rc != MR_END) {
        bench_die("next", &err);
    }
    if (got != count || sum != count * (count - 1) / 2) {
        (void)fprintf(stderr, "read_bench: small: %llu elements, sum %llu\n",
                      (unsigned long long)got, (unsigned long long)sum);
        exit(1);
    }
    printf("{\"m_elements_per_s\": %.4f}\n", (double)count / seconds / 1e6);
    mr_iterator_free(it);
    mr_dataset_unref(ds);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void bench_latency(const char *service, size_t rounds)
{
    double *first = calloc(rounds, sizeof *first);
    double *end = calloc(rounds, sizeof *end);
    struct mr_element element;
    mr_error err = {0};

    if (first == NULL || end == NULL) {
        bench_die("calloc", NULL);
    }
    /* Something stays open for the whole time, as in a training process that has read before. */
    mr_iterator *warm = bench_open(distribute(bench_range(2), service, OFF));
    if (mr_iterator_next(warm, &element, &err) != MR_OK) {
        bench_die("warming up", &err);
    }
    for (size_t i = 0; i < rounds; i++) {
        mr_dataset *ds = distribute(bench_range(1), service, OFF);
        double t0 = bench_now_s();
        mr_iterator *it = bench_open(ds);

        if (mr_iterator_next(it, &element, &err) != MR_OK) {
            bench_die("first element", &err);
        }
        double t1 = bench_now_s();
        if (mr_iterator_next(it, &element, &err) != MR_END) {
            bench_die("end", &err);
        }
        first[i] = 1e3 * (t1 - t0);
        end[i] = 1e3 * (bench_now_s() - t1);
        mr_iterator_free(it);
        mr_dataset_unref(ds);
    }
    mr_iterator_free(warm);
    qsort(first, rounds, sizeof *first, by_value);
    qsort(end, rounds, sizeof *end, by_value);
    printf("{\"first_p50_ms\": %.3f, \"first_p99_ms\": %.3f, \"end_p50_ms\": %.3f, \"end_p99_ms\": "
           "%.3f}\n",
           first[rounds / 2], first[rounds * 99 / 100], end[rounds / 2], end[rounds * 99 / 100]);
    free(first);
    free(end);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "tcp") == 0) {
        bench_tcp(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    } else if (argc == 5 && strcmp(argv[1], "bulk") == 0) {
        bench_bulk(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    } else if ((argc == 4 || argc == 5) && strcmp(argv[1], "small") == 0) {
        bench_small(argv[2], strtoull(argv[3], NULL, 10), argc == 5 ? argv[4] : OFF);
    } else if (argc == 4 && strcmp(argv[1], "latency") == 0) {
        bench_latency(argv[2], strtoull(argv[3], NULL, 10));
    } else {
        (void)fprintf(
            stderr,
            "usage: read_bench tcp MESSAGE_BYTES COUNT | bulk SERVICE ELEMENT_BYTES COUNT | small "
            "SERVICE COUNT [MODE] | latency SERVICE ROUNDS\n");
        return 2;
    }
    return 0;
}
