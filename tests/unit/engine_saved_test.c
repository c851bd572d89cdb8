/* Saved datasets: what is written is read; what is damaged is named, wherever it is; what is not
 * complete is not there. */
#include "engine_support.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <millrace/saved.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];
static char saved_dir[96];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return remove(path);
}

static int set_up(void **state)
{
    (void)snprintf(dir, sizeof dir, "/tmp/mr-saved-XXXXXX");
    (void)snprintf(saved_dir, sizeof saved_dir, "%s/saved",
                   mkdtemp(dir) != NULL ? dir : "no directory");
    return 0;
}

static int tear_down(void **state)
{
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Entries of a directory; 0: it is not there. */
static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    while (d != NULL && readdir(d) != NULL) {
        n++;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n > 2 ? n - 2 : 0;
}

static mr_dataset *make_numbers(void)
{
    return make_ints((const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10);
}

/* Ten numbers, two in a record, in one chunk; the path of which is @file. */
static void save_numbers(const char *compression, char file[256])
{
    mr_dataset *ds = make_numbers();
    mr_engine_iter *it = open_with(ds, &(struct read_options){0});
    mr_saved_writer *w = NULL;
    mr_saved *saved = NULL;
    mr_block *block = NULL;
    struct mr_saved_chunk chunk;
    mr_error err;
    struct mr_saved_options options = {
        .struct_size = sizeof options, .compression = compression, .record_bytes = 16};

    CHECK_OK(mr_saved_writer_open(saved_dir, mr_dataset_spec(ds), NULL, &options, &w, e));
    while (mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, &err) == MR_OK) {
        CHECK_OK(mr_saved_writer_write(w, block, e));
        mr_block_unref(block);
    }
    CHECK_OK(mr_saved_writer_commit(w, e));
    mr_saved_writer_free(w);
    CHECK_OK(mr_saved_open(saved_dir, &saved, e));
    assert_int_equal(mr_saved_chunks(saved), 1);
    assert_int_equal(mr_saved_rows(saved), 10);
    mr_saved_chunk_get(saved, 0, &chunk);
    (void)snprintf(file, 256, "%s", chunk.file);
    mr_saved_free(saved);
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

static mr_dataset *open_chunk(const char *file, int64_t chain)
{
    return make("saved", NULL, NULL,
                ATTRS(TEXT_ATTR("filename", file), TEXT_ATTR("spec", "[[[\"int64\"]],\"*\"]"),
                      INT_ATTR("chain", chain)),
                NULL);
}

static struct lines read_chunk(const char *file, int64_t chain)
{
    mr_dataset *ds = open_chunk(file, chain);
    struct read_options options = {.errors_max = 100};
    struct lines l = read_all(ds, &options);

    mr_dataset_unref(ds);
    return l;
}

static int64_t chain_of(void)
{
    mr_saved *saved = NULL;
    struct mr_saved_chunk chunk;

    CHECK_OK(mr_saved_open(saved_dir, &saved, e));
    mr_saved_chunk_get(saved, 0, &chunk);
    mr_saved_free(saved);
    return chunk.chain;
}

static void read_file(const char *file, unsigned char *bytes, size_t cap, size_t *n)
{
    FILE *f = fopen(file, "rb");

    assert_non_null(f);
    *n = fread(bytes, 1, cap, f);
    assert_true(*n > 0 && *n < cap);
    assert_int_equal(fclose(f), 0);
}

/* A new file, since the old one may be mapped. */
static void write_file(const char *file, const unsigned char *bytes, size_t n)
{
    assert_int_equal(unlink(file), 0);
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* There is an error, it names the file, and the rows are some of the ten, in order. */
static void expect_damage(const struct lines *l, const char *file, const char *what)
{
    int last = -1;
    size_t errors = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (l->text[i][0] == '!') {
            assert_non_null(strstr(l->text[i], file));
            assert_non_null(strstr(l->text[i], "offset"));
            errors++;
        } else {
            assert_in_range(atoi(l->text[i]), last + 1, 9);
            last = atoi(l->text[i]);
        }
    }
    if (errors == 0) {
        fail_msg("%s: not noticed", what);
    }
}

static void any_bit_of_a_chunk(void **state)
{
    static const char *const compressions[] = {"", "LZ4"};
    static unsigned char bytes[4096];
    char file[256];
    size_t n = 0;

    for (int c = 0; c < 2; c++) {
        save_numbers(compressions[c], file);
        int64_t chain = chain_of();
        read_file(file, bytes, sizeof bytes, &n);
        struct lines whole = read_chunk(file, chain);
        lines_expect_text(&whole, "0 1 2 3 4 5 6 7 8 9");
        lines_free(&whole);
        for (size_t at = 0; at < n; at++) {
            bytes[at] ^= (unsigned char)(1u << at % 8);
            write_file(file, bytes, n);
            struct lines l = read_chunk(file, chain);
            char what[64];

            (void)snprintf(what, sizeof what, "byte %zu of %zu, '%s'", at, n, compressions[c]);
            if (c == 0 || l.n != 10) { /* what fills compressed bytes up means nothing */
                expect_damage(&l, file, what);
            }
            lines_free(&l);
            bytes[at] ^= (unsigned char)(1u << at % 8);
        }
    }
}

static void any_length_of_a_chunk(void **state)
{
    static unsigned char bytes[4096];
    char file[256];
    size_t n = 0;

    save_numbers("", file);
    int64_t chain = chain_of();
    read_file(file, bytes, sizeof bytes - 1, &n);
    for (size_t length = 0; length <= n + 1; length++) {
        if (length == n) {
            continue;
        }
        write_file(file, bytes, length);
        struct lines l = read_chunk(file, chain);
        char what[64];

        (void)snprintf(what, sizeof what, "%zu bytes of %zu", length, n);
        expect_damage(&l, file, what);
        lines_free(&l);
    }
}

static void another_chunk_in_its_place(void **state)
{
    char file[256];
    char other[256];

    save_numbers("", file);
    int64_t chain = chain_of();
    save_numbers("", other);
    struct lines l = read_chunk(other, chain);
    assert_int_equal(l.n, 1);
    assert_non_null(strstr(l.text[0], "another chunk"));
    lines_free(&l);
}

/* A record of another chunk that fits in every way but that it belongs elsewhere. */
static void a_record_of_another_chunk(void **state)
{
    static unsigned char bytes[2][4096];
    size_t n[2] = {0};
    char file[2][256];

    save_numbers("", file[0]);
    int64_t chain = chain_of();
    save_numbers("", file[1]);
    for (int i = 0; i < 2; i++) {
        read_file(file[i], bytes[i], sizeof bytes[i], &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    size_t record = (n[0] - 2 * 64) / 5; /* between the head and the end */
    memcpy(bytes[0] + 64 + 2 * record, bytes[1] + 64 + 2 * record, record);
    write_file(file[0], bytes[0], n[0]);
    struct lines l = read_chunk(file[0], chain);
    assert_int_equal(l.n, 5);
    assert_string_equal(l.text[3], "3");
    assert_non_null(strstr(l.text[4], "does not belong behind those before it"));
    lines_free(&l);
}

static void a_damaged_record_is_passed_over(void **state)
{
    static unsigned char bytes[4096];
    char file[256];
    size_t n = 0;

    save_numbers("", file);
    read_file(file, bytes, sizeof bytes, &n);
    bytes[64 + 64 + 64] ^= 1; /* the first block's directory, or what follows it */
    write_file(file, bytes, n);
    struct lines l = read_chunk(file, chain_of());
    assert_int_equal(l.n, 9);
    assert_true(l.text[0][0] == '!');
    assert_string_equal(l.text[1], "2");
    lines_free(&l);
}

/* Somebody cuts the file off, who should not, while it is read and its rows are held. */
static void cut_off_while_it_is_read(void **state)
{
    for (off_t length = 0; length < 1100; length += 100) {
        char file[256];

        save_numbers("", file);
        mr_dataset *ds = open_chunk(file, chain_of());
        mr_engine_iter *it = open_with(ds, &(struct read_options){0});
        struct read_options options = {.errors_max = 100};
        struct lines got = {0};
        mr_block *first = NULL;

        CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &first, e));
        assert_int_equal(truncate(file, length), 0);
        assert_int_equal(read_on(it, &options, &got), MR_END);
        assert_int_equal(*(const int64_t *)mr_block_column(first, 0)->data, 0);
        assert_string_equal(got.text[0], "1"); /* of the same record */
        assert_true(got.n > 1 && got.text[got.n - 1][0] == '!');
        assert_non_null(strstr(got.text[got.n - 1], "it was cut off while it was read"));
        assert_non_null(strstr(got.text[got.n - 1], file));
        mr_block_unref(first);
        lines_free(&got);
        mr_engine_close(it);
        mr_dataset_unref(ds);
    }
}

static void any_bit_of_a_manifest(void **state)
{
    static unsigned char bytes[4096];
    char file[256];
    char manifest[128];
    size_t n = 0;
    mr_saved *saved = NULL;
    mr_error err;

    save_numbers("ZSTD", file);
    (void)snprintf(manifest, sizeof manifest, "%s/manifest.json", saved_dir);
    read_file(manifest, bytes, sizeof bytes, &n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        write_file(manifest, bytes, n);
        assert_int_equal(mr_saved_open(saved_dir, &saved, &err), MR_EDATALOSS);
        assert_non_null(strstr(err.message, manifest));
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t length = 0; length < n; length++) {
        write_file(manifest, bytes, length);
        assert_int_equal(mr_saved_open(saved_dir, &saved, &err), MR_EDATALOSS);
    }
}

static mr_saved_writer *open_writer(mr_dataset *ds, bool sharded, bool exclusive)
{
    mr_saved_writer *w = NULL;
    struct mr_saved_options options = {.struct_size = sizeof options,
                                       .compression = "AUTO",
                                       .chunk_bytes = 1,
                                       .sharded = sharded,
                                       .exclusive = exclusive};

    CHECK_OK(mr_saved_writer_open(saved_dir, mr_dataset_spec(ds), NULL, &options, &w, e));
    return w;
}

static void not_committed_is_not_there(void **state)
{
    mr_dataset *ds = make_numbers();
    mr_engine_iter *it = open_with(ds, &(struct read_options){0});
    mr_saved_writer *w = open_writer(ds, false, false);
    mr_saved *saved = NULL;
    mr_block *block = NULL;

    for (int i = 0; i < 10; i++) {
        CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, e));
        CHECK_OK(mr_saved_writer_write(w, block, e));
        mr_block_unref(block);
        assert_int_equal(mr_saved_open(saved_dir, &saved, NULL), MR_ENOTFOUND);
    }
    assert_int_equal(count_entries(saved_dir), 2); /* the lock, too */
    mr_saved_writer_free(w);
    assert_int_equal(count_entries(saved_dir), 0);
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

static void expect_locked(mr_dataset *ds, bool exclusive)
{
    mr_saved_writer *w = NULL;
    struct mr_saved_options options = {.struct_size = sizeof options, .exclusive = exclusive};
    mr_error err;

    assert_int_equal(mr_saved_writer_open(saved_dir, mr_dataset_spec(ds), NULL, &options, &w, &err),
                     MR_EEXISTS);
    assert_non_null(strstr(err.message, "/saved/lock'"));
}

static void one_writer_has_the_lock(void **state)
{
    mr_dataset *ds = make_numbers();
    mr_saved_writer *first = open_writer(ds, false, true);

    expect_locked(ds, true);
    expect_locked(ds, false);
    mr_saved_writer_free(first);
    first = open_writer(ds, false, false);
    mr_saved_writer *second = open_writer(ds, false, false);
    expect_locked(ds, true);
    mr_saved_writer_free(first);
    expect_locked(ds, true);
    mr_saved_writer_free(second);
    mr_saved_writer_free(open_writer(ds, false, true));
    assert_int_equal(count_entries(saved_dir), 0);
    mr_dataset_unref(ds);
}

/* Whose directory is unfinished and who is alive is left alone. */
static void nobody_clears_up_behind_the_living(void **state)
{
    mr_dataset *ds = make_numbers();
    mr_saved_writer *first = open_writer(ds, false, false);
    mr_saved_writer *second = open_writer(ds, false, false);
    mr_saved *saved = NULL;

    mr_saved_writer_free(open_writer(ds, false, false));
    assert_int_equal(count_entries(saved_dir), 3); /* the lock, too */
    CHECK_OK(mr_saved_writer_commit(first, e));
    mr_saved_writer_free(first);
    CHECK_OK(mr_saved_writer_commit(second, e));
    mr_saved_writer_free(second);
    CHECK_OK(mr_saved_open(saved_dir, &saved, e));
    mr_saved_free(saved);
    mr_dataset_unref(ds);
}

/* A file in a directory of chunks is there before the commit. */
static bool has_written(void)
{
    DIR *d = opendir(saved_dir);
    bool found = false;

    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char run[512];

        (void)snprintf(run, sizeof run, "%s/%s", saved_dir, e->d_name);
        found = found || (e->d_name[0] != '.' && count_entries(run) > 1); /* what is no manifest */
    }
    assert_int_equal(closedir(d), 0);
    return found;
}

/* 100,000 bytes for each of 256 shards: less than a record, but more than may wait. */
static void rows_that_wait_are_bounded(void **state)
{
    enum { ROWS = 256, BYTES = 100000, MOST = 16 << 20 };
    static int64_t shards[ROWS];
    static unsigned char values[ROWS][BYTES];
    const struct mr_leaf_spec leaf = {.dtype = MR_UINT8, .rank = 1, .dims = {BYTES}};
    struct mr_saved_options options = {.struct_size = sizeof options, .sharded = true};
    mr_spec *spec = NULL;
    mr_saved_writer *w = NULL;
    mr_saved *saved = NULL;

    CHECK_OK(mr_spec_new(&leaf, 1, NULL, &spec, e));
    CHECK_OK(mr_saved_writer_open(saved_dir, spec, NULL, &options, &w, e));
    for (int i = 0; i < ROWS; i++) {
        struct mr_column c[2] = {
            {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &shards[i]},
            {.kind = MR_COLUMN_FIXED,
             .dtype = MR_UINT8,
             .rank = 1,
             .dims = {BYTES},
             .data = values[i]},
        };
        mr_block *block = NULL;

        shards[i] = i;
        CHECK_OK(mr_block_new(1, c, 2, &block, e));
        CHECK_OK(mr_saved_writer_write(w, block, e));
        mr_block_unref(block);
        assert_int_equal(has_written(), (i + 1) * BYTES + (i + 1) * 512 > MOST);
    }
    CHECK_OK(mr_saved_writer_commit(w, e));
    mr_saved_writer_free(w);
    CHECK_OK(mr_saved_open(saved_dir, &saved, e));
    assert_int_equal(mr_saved_rows(saved), ROWS);
    assert_int_equal(mr_saved_chunks(saved), ROWS);
    mr_saved_free(saved);
    mr_spec_unref(spec);
}

/* Three components of a GiB each, which nobody has to look at to know that they are too much. */
static void an_element_that_no_record_holds(void **state)
{
    const int64_t size = INT64_C(1) << 30;
    const struct mr_leaf_spec leaf = {.dtype = MR_UINT8, .rank = 1, .dims = {size}};
    const struct mr_leaf_spec leaves[3] = {leaf, leaf, leaf};
    struct mr_owned_column c[3];
    mr_spec *spec = NULL;
    mr_buffer *bytes = NULL;
    mr_block *block = NULL;
    mr_saved_writer *w = NULL;
    mr_error err = {0};
    void *zeros = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(c, 0, sizeof c);
    assert_true(zeros != MAP_FAILED);
    CHECK_OK(mr_buffer_wrap(zeros, (size_t)size, NULL, NULL, &bytes, e));
    for (int i = 0; i < 3; i++) {
        c[i].c = (struct mr_column){
            .kind = MR_COLUMN_FIXED, .dtype = MR_UINT8, .rank = 1, .dims = {size}, .data = zeros};
        c[i].owner[0] = bytes;
    }
    CHECK_OK(mr_spec_new(leaves, 3, NULL, &spec, e));
    CHECK_OK(mr_block_from_columns(1, c, 3, &block, e));
    CHECK_OK(mr_saved_writer_open(saved_dir, spec, NULL, NULL, &w, e));
    assert_int_equal(mr_saved_writer_write(w, block, &err), MR_EINVAL);
    assert_string_equal(err.message,
                        "element 0 of shard 0 has 3221225472 bytes, one that is saved may have "
                        "2147483648: make several of it (unbatch)");
    mr_saved_writer_free(w);
    assert_int_equal(count_entries(saved_dir), 0);
    mr_block_unref(block);
    mr_buffer_unref(bytes);
    mr_spec_unref(spec);
    assert_int_equal(munmap(zeros, (size_t)size), 0);
}

/* Blocks whose first column is the shard. */
static void shards_are_apart(void **state)
{
    static const int64_t shards[6] = {5, 0, 5, 2, 0, 5};
    static const int64_t values[6] = {1, 2, 3, 4, 5, 6};
    struct mr_column c[2] = {
        {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = shards},
        {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = values},
    };
    mr_dataset *ds = make_numbers();
    mr_saved_writer *w = open_writer(ds, true, false);
    mr_saved *saved = NULL;
    mr_block *block = NULL;
    static const int64_t want[3] = {0, 2, 5};
    static const char *const rows[3] = {"2 5", "4", "1 3 6"};

    CHECK_OK(mr_block_new(6, c, 2, &block, e));
    CHECK_OK(mr_saved_writer_write(w, block, e));
    mr_block_unref(block);
    CHECK_OK(mr_saved_writer_commit(w, e));
    mr_saved_writer_free(w);
    CHECK_OK(mr_saved_open(saved_dir, &saved, e));
    assert_int_equal(mr_saved_rows(saved), 6);
    struct lines all[3] = {{0}};
    size_t shard = 0;
    for (size_t i = 0; i < mr_saved_chunks(saved); i++) {
        struct mr_saved_chunk chunk;

        mr_saved_chunk_get(saved, i, &chunk);
        shard += chunk.shard != want[shard];
        assert_in_range(shard, 0, 2);
        assert_int_equal(chunk.shard, want[shard]);
        struct lines l = read_chunk(chunk.file, chunk.chain);
        for (size_t k = 0; k < l.n; k++) {
            lines_append_text(&all[shard], l.text[k]);
        }
        lines_free(&l);
    }
    for (size_t i = 0; i < 3; i++) {
        lines_expect_text(&all[i], rows[i]);
        lines_free(&all[i]);
    }
    mr_saved_free(saved);
    mr_dataset_unref(ds);
}

/* With the nth allocation failing: MR_OK, or why not. */
static int save_without_memory(mr_dataset *ds, const mr_block *block, uint64_t nth, mr_error *err)
{
    mr_saved_writer *w = NULL;
    struct mr_saved_options options = {
        .struct_size = sizeof options, .compression = "ZSTD", .record_bytes = 8, .exclusive = true};

    mr_alloc_fail_at(nth);
    int rc = mr_saved_writer_open(saved_dir, mr_dataset_spec(ds), NULL, &options, &w, err);
    rc = rc == MR_OK ? mr_saved_writer_write(w, block, err) : rc;
    rc = rc == MR_OK ? mr_saved_writer_commit(w, err) : rc;
    mr_saved_writer_free(w);
    mr_alloc_fail_at(0);
    return rc;
}

static void no_memory_for_saving(void **state)
{
    mr_dataset *ds = make_numbers();
    mr_engine_iter *it = open_with(ds, &(struct read_options){0});
    mr_block *block = NULL;
    mr_saved *saved = NULL;
    mr_error err = {0};
    uint64_t nth = 1;
    int failures = 0;

    CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 10}, -1, &block, e));
    for (; save_without_memory(ds, block, nth, &err) != MR_OK; nth++, failures++) {
        assert_int_equal(err.code, MR_EEXHAUSTED);
        assert_in_range(count_entries(saved_dir), 0, 1);
        assert_int_equal(mr_saved_open(saved_dir, &saved, NULL), MR_ENOTFOUND);
        assert_in_range(nth, 1, 1000);
    }
    assert_true(failures > 10);
    CHECK_OK(mr_saved_open(saved_dir, &saved, e));
    mr_saved_free(saved);
    mr_block_unref(block);
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

/* An allocation of a pull fails, the pull is tried again: nothing is passed over. */
static void no_memory_for_reading(void **state)
{
    char file[256];
    bool reached = true;

    save_numbers("", file);
    for (uint64_t nth = 1; reached; nth++) {
        mr_dataset *ds = open_chunk(file, chain_of());
        mr_engine_iter *it = open_with(ds, &(struct read_options){0});
        struct read_options options = {.errors_max = 100};
        struct lines got = {0};
        size_t rows = 0;
        uint64_t before = mr_alloc_count();

        mr_alloc_fail_at(nth);
        assert_int_equal(read_on(it, &options, &got), MR_END);
        reached = mr_alloc_count() - before >= nth;
        mr_alloc_fail_at(0);
        for (size_t i = 0; i < got.n; i++) {
            if (got.text[i][0] != '!') {
                assert_int_equal(atoi(got.text[i]), (int)rows);
                rows++;
            }
        }
        assert_int_equal(rows, 10);
        lines_free(&got);
        mr_engine_close(it);
        mr_dataset_unref(ds);
    }
}

/* Reads of files fail as they do where the kernel has no memory: this one of those to come. */
static int reads_until_failure;

ssize_t __real_pread(int fd, void *to, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset);

ssize_t __wrap_pread(int fd, void *to, size_t n, off_t offset)
{
    if (reads_until_failure > 0 && --reads_until_failure == 0) {
        errno = ENOMEM;
        return -1;
    }
    return __real_pread(fd, to, n, offset);
}

/* The head of the file, of a record, its bytes: whichever is not read, nothing is lost. */
static void a_read_without_memory_is_tried_again(void **state)
{
    char file[256];
    bool reached = true;
    int failures = 0;

    save_numbers("", file);
    for (int nth = 1; reached; nth++) {
        reads_until_failure = nth;
        struct lines l = read_chunk(file, chain_of());
        reached = reads_until_failure == 0;
        reads_until_failure = 0;
        size_t first = l.n - 10;

        assert_in_range(l.n, 10, 11);
        for (size_t i = 0, rows = 0; i < l.n; i++) {
            if (l.text[i][0] == '!') {
                assert_non_null(strstr(l.text[i], "Cannot allocate memory"));
                assert_non_null(strstr(l.text[i], file));
                failures++;
            } else {
                assert_int_equal(atoi(l.text[i]), (int)rows++);
            }
        }
        assert_int_equal(first, reached ? 1 : 0);
        lines_free(&l);
    }
    assert_int_equal(failures, 2 + 5 * 2 + 1); /* beginning and end; records; the last head */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_bit_of_a_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_length_of_a_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_chunk_in_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_of_another_chunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_record_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_off_while_it_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_bit_of_a_manifest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_committed_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_writer_has_the_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_clears_up_behind_the_living, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_that_wait_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_element_that_no_record_holds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shards_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory_for_saving, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory_for_reading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_without_memory_is_tried_again, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
