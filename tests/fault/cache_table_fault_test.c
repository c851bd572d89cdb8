/*
 * Tables of RocksDB, with the options that the cache gives it, that are damaged before they are
 * opened: bits turned anywhere, ends missing, pieces from elsewhere. What comes is what was put, or
 * an error, and the process goes on: RocksDB is built with assertions, and believes what it has not
 * verified.
 *
 *     cache_table_fault_test [TRIALS [SEED]]
 */
#include "base/rng.h"
#include "cache/rocks/internal.h"
#include "support/cache.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024u
#define TRIALS 40u
#define FILES 12u
#define RECORDS 3u /* of a file */
#define KEYS (FILES * RECORDS)
#define RECORD_BYTES_MAX (24 * KIB)
#define FILE_BYTES_MAX (128 * KIB)
/* So few that RocksDB opens a table when it is read, and not with the database. */
#define OPEN_FILES 20
/* Index, filter, properties, where the rest is; of the last the footer, which has no checksum. */
#define TAIL_BYTES 1600u
#define FOOTER_BYTES 53u
/* Of one trial. */
#define SECONDS_MAX 60

static char dir[64];

/* ---- the tables as they were written ---- */

static size_t record_bytes(uint64_t key)
{
    return 64 + mr_mix64(key) % (RECORD_BYTES_MAX - 64);
}

static void make_record(uint64_t key, unsigned char *out)
{
    struct mr_rng rng;

    mr_rng_seed(&rng, key);
    for (size_t i = 0; i < record_bytes(key); i++) {
        out[i] = (unsigned char)mr_rng_next(&rng);
    }
}

static struct mr_rocks *open_storage(const char *name)
{
    char path[128];
    mr_storage *s;
    mr_error err;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (mr_rocks_open(path, KIB * KIB, 1, &s, &err) < 0) {
        test_die("%s", err.message);
    }
    return (struct mr_rocks *)s;
}

static void copy_file(const char *from, const char *to)
{
    static unsigned char bytes[KIB * KIB];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n = in < 0 ? -1 : read(in, bytes, sizeof bytes);

    if (n < 0 || (size_t)n == sizeof bytes || out < 0 || write(out, bytes, (size_t)n) != n) {
        test_die("copying %s to %s", from, to);
    }
    (void)close(in);
    (void)close(out);
}

/* What RocksDB needs of a database that has no write-ahead log. */
static bool is_part(const char *name)
{
    return strstr(name, ".sst") != NULL || strncmp(name, "MANIFEST", 8) == 0 ||
           strcmp(name, "CURRENT") == 0;
}

static void copy_database(const char *from, const char *to)
{
    char a[512], b[512];
    struct dirent *entry;
    DIR *d = opendir(from);

    (void)mkdir(to, 0700);
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (is_part(entry->d_name)) {
            (void)snprintf(a, sizeof a, "%s/%s", from, entry->d_name);
            (void)snprintf(b, sizeof b, "%s/%s", to, entry->d_name);
            copy_file(a, b);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

static void make_tables(void)
{
    mr_storage *s = &open_storage("first")->base;
    unsigned char value[RECORD_BYTES_MAX];
    struct mr_storage_file file;
    mr_storage_log *log;
    char made[128];
    mr_error err;
    int rc = s->ops->create(s, 0, &log, &err);

    for (uint64_t key = 0; rc == MR_OK && key < KEYS; key++) {
        struct iovec iov = {value, record_bytes(key)};

        make_record(key, value);
        rc = s->ops->put(log, key, &iov, 1, &err);
        if (rc == MR_OK && key % RECORDS == RECORDS - 1) {
            rc = s->ops->flush(log, &file, &err);
        }
    }
    if (rc < 0) {
        test_die("%s", err.message);
    }
    (void)snprintf(made, sizeof made, "%s/made", dir);
    copy_database(((struct mr_rocks *)s)->dir.db_path, made);
    (void)s->ops->drop(log, NULL);
    s->ops->close(s);
}

/* ---- damage ---- */

static void turn_bit(unsigned char *bytes, size_t from, size_t n, struct mr_rng *rng)
{
    bytes[from + mr_rng_below(rng, n)] ^= (unsigned char)(1u << mr_rng_below(rng, 8));
}

/* Returns what is left of the table's size. */
static size_t damage_bytes(unsigned char *bytes, size_t size, const unsigned char *other,
                           struct mr_rng *rng)
{
    size_t tail = size < TAIL_BYTES ? size : TAIL_BYTES, at = mr_rng_below(rng, size), n;

    switch (mr_rng_below(rng, 7)) {
    case 0: /* in a record, or around it */ turn_bit(bytes, 0, size, rng); return size;
    case 1: turn_bit(bytes, size - tail, tail, rng); return size;
    case 2: turn_bit(bytes, size - FOOTER_BYTES, FOOTER_BYTES, rng); return size;
    case 3:
        for (int i = 0; i < 100; i++) {
            turn_bit(bytes, 0, size, rng);
        }
        return size;
    case 4: /* never written */
        n = mr_rng_below(rng, size - at) + 1;
        memset(bytes + at, 0, n < 4 * KIB ? n : 4 * KIB);
        return size;
    case 5: /* of another table: a write that went astray */
        n = mr_rng_below(rng, size - at) + 1;
        memmove(bytes + at, other + at, n);
        return size;
    default: return at;
    }
}

static void damage(const char *path, const char *other, struct mr_rng *rng)
{
    static unsigned char bytes[FILE_BYTES_MAX], others[FILE_BYTES_MAX];
    int fd = open(path, O_RDWR), fd2 = open(other, O_RDONLY);
    ssize_t size = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);

    if (size <= 0 || (size_t)size == sizeof bytes || fd2 < 0 ||
        read(fd2, others, sizeof others) <= 0) {
        test_die("reading %s and %s", path, other);
    }
    size_t left = damage_bytes(bytes, (size_t)size, others, rng);
    if (pwrite(fd, bytes, (size_t)size, 0) != size || ftruncate(fd, (off_t)left) != 0) {
        test_die("writing %s", path);
    }
    (void)close(fd);
    (void)close(fd2);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void damage_all(const char *path, struct mr_rng *rng)
{
    static char tables[FILES][512];
    struct dirent *entry;
    DIR *d = opendir(path);
    size_t n = 0;

    while (d != NULL && n < FILES && (entry = readdir(d)) != NULL) {
        if (strstr(entry->d_name, ".sst") != NULL) {
            (void)snprintf(tables[n++], sizeof tables[0], "%s/%s", path, entry->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    if (n != FILES) {
        test_die("%zu tables in %s", n, path);
    }
    qsort(tables, n, sizeof tables[0],
          compare_names); /* so that a seed means the same everywhere */
    for (size_t i = 0; i < n; i++) {
        damage(tables[i], tables[(i + 1) % n], rng);
    }
}

/* ---- reading ---- */

struct outcome {
    uint64_t trial; /* the one that is on */
    uint64_t right;
    uint64_t refused;
    uint64_t missing;
};

static void read_record(struct mr_rocks *s, rocksdb_column_family_handle_t *cf, uint64_t key,
                        struct outcome *out)
{
    static unsigned char want[RECORD_BYTES_MAX];
    uint64_t big = htobe64(key);
    char *why = NULL;
    rocksdb_pinnableslice_t *value =
        rocksdb_get_pinned_cf(s->db, s->read, cf, (const char *)&big, sizeof big, &why);
    size_t size = 0;

    if (why != NULL) {
        out->refused++;
        rocksdb_free(why);
        return;
    }
    if (value == NULL) {
        out->missing++;
        return;
    }
    const char *data = rocksdb_pinnableslice_value(value, &size);
    make_record(key, want);
    if (size != record_bytes(key) || memcmp(data, want, size) != 0) {
        test_die("record %" PRIu64 " is not what was put, and nobody says so", key);
    }
    out->right++;
    rocksdb_pinnableslice_destroy(value);
}

/* As floor and ceiling do; only that it returns matters. */
static void seek(struct mr_rocks *s, rocksdb_column_family_handle_t *cf, uint64_t key)
{
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(s->db, s->read, cf);
    uint64_t big = htobe64(key);

    (key % 2 == 0 ? rocksdb_iter_seek : rocksdb_iter_seek_for_prev)(it, (const char *)&big,
                                                                    sizeof big);
    rocksdb_iter_destroy(it);
}

/* The tables, damaged, in a database with the options of @s, which has none. */
static void run_trial(struct mr_rocks *s, uint64_t seed, struct outcome *out)
{
    const char *names[2] = {"default", "log-0"};
    rocksdb_options_t *o = rocksdb_options_create_copy(s->options);
    const rocksdb_options_t *options[2] = {o, o};
    rocksdb_column_family_handle_t *cfs[2];
    char made[128], path[128], *why = NULL;
    struct mr_rng rng;

    (void)snprintf(made, sizeof made, "%s/made", dir);
    (void)snprintf(path, sizeof path, "%s/trial", dir);
    copy_database(made, path);
    rocksdb_options_set_error_if_exists(o, 0);
    rocksdb_options_set_max_open_files(o, OPEN_FILES);
    s->db = rocksdb_open_column_families(o, path, 2, names, options, cfs, &why);
    if (why != NULL) {
        test_die("%s", why);
    }
    mr_rng_seed(&rng, seed);
    damage_all(path, &rng);
    for (uint64_t key = 0; key < KEYS; key++) {
        read_record(s, cfs[1], key, out);
    }
    for (uint64_t key = 0; key < KEYS; key += 5) {
        seek(s, cfs[1], key);
    }
    rocksdb_column_family_handle_destroy(cfs[0]);
    rocksdb_column_family_handle_destroy(cfs[1]);
    rocksdb_close(s->db);
    rocksdb_destroy_db(o, path, &why);
    rocksdb_free(why);
    rocksdb_options_destroy(o);
}

static void run_trials(uint64_t trials, uint64_t seed, struct outcome *out)
{
    struct mr_rocks *s = open_storage("options");

    rocksdb_close(s->db);
    for (; out->trial < trials; out->trial++) {
        (void)alarm(SECONDS_MAX); /* one that hangs ends like one that crashes */
        run_trial(s, seed + out->trial, out);
    }
    s->db = NULL;
    mr_rocks_close(&s->base);
}

/* ---- in processes of their own ---- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

int main(int argc, char **argv)
{
    uint64_t trials = argc > 1 ? strtoull(argv[1], NULL, 10) : TRIALS;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct outcome *out =
        mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;

    (void)snprintf(dir, sizeof dir, "/tmp/mr-cache-tables-XXXXXX");
    if (out == MAP_FAILED || mkdtemp(dir) == NULL) {
        test_die("a directory and a page to work with");
    }
    for (int part = 0; part < 2; part++) {
        pid_t pid = fork();

        if (pid == 0) {
            if (part == 0) {
                make_tables();
            } else {
                run_trials(trials, seed, out);
            }
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            break;
        }
    }
    (void)nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    printf("%" PRIu64 " records were right, %" PRIu64 " refused, %" PRIu64 " missing\n", out->right,
           out->refused, out->missing);
    if (status != 0) {
        printf("the trial with seed %" PRIu64 " ended the process: status 0x%x\n",
               seed + out->trial, (unsigned)status);
        return 1;
    }
    /* Otherwise nothing was read, or nothing damaged. */
    return out->right > trials && out->refused > trials ? 0 : 1;
}
