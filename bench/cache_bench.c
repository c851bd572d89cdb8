/*
 * The sharing window beside bare RocksDB, in one run; one line of JSON.
 *
 *     cache_bench window DIR RECORD_BYTES TOTAL_MIB WINDOW_MIB
 *     cache_bench memory DIR WINDOW_MIB
 *
 * window: writes TOTAL to a window of WINDOW, then reads it from memory, from files in the page
 * cache, and from files that are not; the same with bare RocksDB: FIFO compaction, no write-ahead
 * log, pinned gets that look at nothing. The cache besides that hashes what it writes and verifies
 * what it reads. memory: a window twenty times as large as the cache's memory, with two readers;
 * the peak of anonymous memory.
 */
#include "cache/cache.h"

#include "base/base.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <malloc.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define MEMORY_MIB 512u /* of either: write buffers, and what the cache has besides */
#define BARE_BUFFERS 6
#define BARE_BUFFER_BYTES (64 * MIB)
#define ANY UINT64_MAX

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int rc, const mr_error *err)
{
    if (rc < 0) {
        fprintf(stderr, "cache_bench: %s\n", err->message);
        exit(1);
    }
}

static void check_rocks(const char *why)
{
    if (why != NULL) {
        fprintf(stderr, "cache_bench: %s\n", why);
        exit(1);
    }
}

/* A number of /proc/self/NAME after "KEY:". */
static double proc_number(const char *name, const char *key)
{
    char path[64], line[256];
    double value = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/%s", name);
    f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':') {
            value = strtod(line + strlen(key) + 1, NULL);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return value;
}

/* The tables in @dir leave the page cache. */
static void drop_page_cache(const char *dir)
{
    struct dirent *entry;
    char path[4096];
    DIR *d = opendir(dir);

    while (d != NULL && (entry = readdir(d)) != NULL) {
        int fd;

        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (strstr(entry->d_name, ".sst") == NULL || (fd = open(path, O_RDONLY)) < 0) {
            continue;
        }
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    if (d != NULL) {
        closedir(d);
    }
}

static unsigned char *random_bytes(size_t n)
{
    unsigned char *data = malloc(n);
    uint64_t x = 88172645463325252ull;

    if (data == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        data[i] = (unsigned char)x;
    }
    return data;
}

struct result {
    double write, write_cpu, longest_ms, memory, cached, cached_cpu, disk; /* GB/s; CPU s/GB; ms */
};

/* ---- bare RocksDB ---- */

struct bare {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    uint64_t next;
};

static void bare_open(struct bare *b, const char *dir, uint64_t window)
{
    rocksdb_fifo_compaction_options_t *fifo = rocksdb_fifo_compaction_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    char *why = NULL;

    b->next = 0;
    b->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(b->options, 1);
    rocksdb_options_set_compression(b->options, rocksdb_no_compression);
    rocksdb_options_set_compaction_style(b->options, rocksdb_fifo_compaction);
    rocksdb_fifo_compaction_options_set_max_table_files_size(fifo, window);
    rocksdb_options_set_fifo_compaction_options(b->options, fifo);
    rocksdb_options_set_write_buffer_size(b->options, BARE_BUFFER_BYTES);
    rocksdb_options_set_max_write_buffer_number(b->options, BARE_BUFFERS);
    rocksdb_options_set_level0_slowdown_writes_trigger(b->options, 1 << 30);
    rocksdb_options_set_level0_stop_writes_trigger(b->options, 1 << 30);
    rocksdb_options_set_max_open_files(b->options, -1);
    rocksdb_options_set_advise_random_on_open(b->options, 0);
    rocksdb_options_set_bytes_per_sync(b->options, MIB);
    rocksdb_block_based_options_set_block_size(table, 16384);
    rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(32 * MIB));
    rocksdb_options_set_block_based_table_factory(b->options, table);
    rocksdb_destroy_db(b->options, dir, &why);
    check_rocks(why);
    b->db = rocksdb_open(b->options, dir, &why);
    check_rocks(why);
    b->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(b->write, 1);
    b->read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(b->read, 0);
}

static double bare_put(struct bare *b, const unsigned char *data, size_t size, uint64_t count)
{
    double longest = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = htobe64(b->next++);
        double start = now(), took;
        char *why = NULL;

        rocksdb_put(b->db, b->write, (const char *)&key, sizeof key, (const char *)data, size,
                    &why);
        check_rocks(why);
        took = now() - start;
        longest = took > longest ? took : longest;
    }
    return longest;
}

/* GB/s over the newest @count records. */
static double bare_get(struct bare *b, uint64_t count)
{
    double start = now();
    uint64_t bytes = 0;

    for (uint64_t i = b->next - count; i < b->next; i++) {
        uint64_t key = htobe64(i);
        char *why = NULL;
        size_t size = 0;
        rocksdb_pinnableslice_t *slice =
            rocksdb_get_pinned(b->db, b->read, (const char *)&key, sizeof key, &why);

        check_rocks(why);
        if (slice == NULL) {
            check_rocks("a record is missing");
        }
        (void)rocksdb_pinnableslice_value(slice, &size);
        bytes += size;
        rocksdb_pinnableslice_destroy(slice);
    }
    return (double)bytes / 1e9 / (now() - start);
}

static void run_bare(struct result *r, const char *dir, const unsigned char *data, size_t size,
                     uint64_t total, uint64_t window)
{
    const uint64_t half = window / 2;
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    struct bare b;
    char *why = NULL;
    double start, start_cpu;

    bare_open(&b, dir, window);
    bare_put(&b, data, size, 32 * MIB / size);
    r->memory = bare_get(&b, 32 * MIB / size);
    start = now();
    start_cpu = cpu();
    r->longest_ms = 1e3 * bare_put(&b, data, size, total / size);
    r->write = (double)total / 1e9 / (now() - start);
    r->write_cpu = (cpu() - start_cpu) / ((double)total / 1e9);
    rocksdb_flush(b.db, flush, &why);
    check_rocks(why);
    (void)bare_get(&b, half / size); /* open the tables */
    start_cpu = cpu();
    r->cached = bare_get(&b, half / size);
    r->cached_cpu = (cpu() - start_cpu) / ((double)half / 1e9);
    drop_page_cache(dir);
    r->disk = bare_get(&b, half / size);
    rocksdb_close(b.db);
    rocksdb_destroy_db(b.options, dir, &why);
}

/* ---- the cache ---- */

static mr_cache_reader *join(mr_cache_log *log)
{
    struct mr_cache_reader_options opts = {.lag = MR_CACHE_LAG_SKIP};
    mr_cache_reader *r = NULL;
    uint64_t first;
    mr_error err;

    check(mr_cache_reader_open(log, &opts, &r, &first, &err), &err);
    (void)mr_cache_reader_start(r);
    return r;
}

static double append(mr_cache_log *log, const unsigned char *data, size_t size, uint64_t count)
{
    struct iovec iov = {(void *)data, size};
    struct mr_cache_chunk chunk = {.rows = 1, .iov = &iov, .n = 1};
    double longest = 0;
    mr_error err;

    for (uint64_t i = 0; i < count; i++) {
        double start = now(), took;

        check(mr_cache_log_append(log, &chunk, &err), &err);
        took = now() - start;
        longest = took > longest ? took : longest;
    }
    return longest;
}

/* GB/s until @r has read @bytes, or everything. */
static double read_bytes(mr_cache_reader *r, uint64_t want)
{
    double start = now();
    uint64_t bytes = 0;
    mr_error err;

    while (bytes < want) {
        mr_cache_view *view;
        int rc = mr_cache_reader_next(r, ANY, ANY, &view, &err);

        check(rc, &err);
        if (rc != MR_OK) {
            break;
        }
        bytes += view->bytes;
        mr_cache_view_unref(view);
    }
    return (double)bytes / 1e9 / (now() - start);
}

static void run_cache(struct result *r, double *amplification, const char *dir,
                      const unsigned char *data, size_t size, uint64_t total, uint64_t window)
{
    const uint64_t half = window / 2;
    struct mr_cache_options opts = {.dir = dir,
                                    .disk_bytes_max = window + 16 * MIB,
                                    .memory_bytes_max = MEMORY_MIB * MIB,
                                    .logs_max = 1};
    struct mr_cache_log_stats stats;
    mr_cache_reader *reader;
    mr_cache_log *log = NULL;
    mr_cache *cache = NULL;
    double start, start_cpu;
    char db[8192];
    mr_error err;

    snprintf(db, sizeof db, "%s/db", dir);
    check(mr_cache_open(&opts, &cache, &err), &err);
    check(mr_cache_log_open(cache, "bench", window, &log, &err), &err);
    reader = join(log);
    append(log, data, size, 32 * MIB / size);
    r->memory = read_bytes(reader, ANY);
    mr_cache_reader_close(reader);
    start = now();
    start_cpu = cpu();
    r->longest_ms = 1e3 * append(log, data, size, total / size);
    r->write = (double)total / 1e9 / (now() - start);
    r->write_cpu = (cpu() - start_cpu) / ((double)total / 1e9);
    do {
        usleep(1000);
        mr_cache_log_stats(log, &stats);
    } while (stats.memory_bytes > MEMORY_MIB * MIB / 8);
    *amplification = (double)stats.written_bytes / (double)(total + 32 * MIB - stats.memory_bytes);
    reader = join(log);
    (void)read_bytes(reader, half);
    mr_cache_reader_close(reader);
    reader = join(log);
    start_cpu = cpu();
    r->cached = read_bytes(reader, half);
    r->cached_cpu = (cpu() - start_cpu) / ((double)half / 1e9);
    mr_cache_reader_close(reader);
    drop_page_cache(db);
    reader = join(log);
    r->disk = read_bytes(reader, half);
    mr_cache_reader_close(reader);
    mr_cache_log_close(log);
    mr_cache_close(cache);
}

static int bench_window(char **argv)
{
    size_t size = strtoul(argv[1], NULL, 10);
    uint64_t total = strtoull(argv[2], NULL, 10) * MIB, window = strtoull(argv[3], NULL, 10) * MIB;
    unsigned char *data = random_bytes(size);
    struct result bare, own;
    char dir[4096];
    double amplification;

    snprintf(dir, sizeof dir, "%s/bare", argv[0]);
    run_bare(&bare, dir, data, size, total, window);
    snprintf(dir, sizeof dir, "%s/cache", argv[0]);
    run_cache(&own, &amplification, dir, data, size, total, window);
    printf(
        "{\"write_gb_per_s\": %.3f, \"bare_write_gb_per_s\": %.3f, \"write_cpu_s_per_gb\": %.3f, "
        "\"bare_write_cpu_s_per_gb\": %.3f, \"longest_append_ms\": %.1f, \"bare_longest_put_ms\": "
        "%.1f, \"read_memory_gb_per_s\": %.3f, \"bare_read_memory_gb_per_s\": %.3f, "
        "\"read_cached_gb_per_s\": %.3f, "
        "\"bare_read_cached_gb_per_s\": %.3f, \"read_cached_cpu_s_per_gb\": %.3f, "
        "\"bare_read_cached_cpu_s_per_gb\": %.3f, \"read_disk_gb_per_s\": %.3f, "
        "\"bare_read_disk_gb_per_s\": %.3f, \"write_amplification\": %.4f}\n",
        own.write, bare.write, own.write_cpu, bare.write_cpu, own.longest_ms, bare.longest_ms,
        own.memory, bare.memory, own.cached, bare.cached, own.cached_cpu, bare.cached_cpu, own.disk,
        bare.disk, amplification);
    free(data);
    return 0;
}

/* ---- memory ---- */

static int bench_memory(char **argv)
{
    uint64_t window = strtoull(argv[1], NULL, 10) * MIB, memory = window / 20;
    struct mr_cache_options opts = {.dir = argv[0],
                                    .disk_bytes_max = window + 16 * MIB,
                                    .memory_bytes_max = memory,
                                    .logs_max = 1};
    unsigned char *data = random_bytes(MIB);
    double before = proc_number("status", "RssAnon"), peak = 0;
    mr_cache_reader *near, *far;
    mr_cache_log *log = NULL;
    mr_cache *cache = NULL;
    mr_error err;

    check(mr_cache_open(&opts, &cache, &err), &err);
    check(mr_cache_log_open(cache, "bench", 0, &log, &err), &err);
    near = join(log);
    far = join(log);
    for (uint64_t written = 0; written < 2 * window; written += 4 * MIB) {
        double rss;

        append(log, data, 64 << 10, 4 * MIB / (64 << 10));
        (void)read_bytes(near, ANY);
        if (written > window) {
            (void)read_bytes(far, 4 * MIB); /* stays a window behind */
        }
        rss = proc_number("status", "RssAnon") - before;
        peak = rss > peak ? rss : peak;
    }
    printf("{\"window_mib\": %llu, \"budget_mib\": %llu, \"peak_anonymous_mib\": %.1f}\n",
           (unsigned long long)(window / MIB), (unsigned long long)(memory / MIB), peak / 1024);
    mr_cache_reader_close(near);
    mr_cache_reader_close(far);
    mr_cache_log_close(log);
    mr_cache_close(cache);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    /* As the program has it: without it every large block is a mapping of its own, and faulted in
     * anew. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    if (argc == 6 && strcmp(argv[1], "window") == 0) {
        return bench_window(argv + 2);
    }
    if (argc == 4 && strcmp(argv[1], "memory") == 0) {
        return bench_memory(argv + 2);
    }
    fprintf(stderr, "usage: cache_bench window DIR RECORD_BYTES TOTAL_MIB WINDOW_MIB | memory DIR "
                    "WINDOW_MIB\n");
    return 2;
}
