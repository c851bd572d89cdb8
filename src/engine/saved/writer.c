/*
 * Saving: rows are gathered, shard by shard, until they make a record, and records until they make
 * a chunk. Chunks lie in a directory of their own, one for each time something is saved; the
 * manifest, which names that directory, is renamed over the one before it. So who reads has one or
 * the other. Older directories stay for those who still read them.
 */
#include "base/limits.h"
#include "base/rng.h"
#include "engine/gather.h"
#include "engine/saved/chunk_file.h"
#include "engine/saved/directory.h"
#include "engine/saved/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <millrace/saved.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_BYTES_DEFAULT (256 * MR_KIB)
#define RECORD_ROWS 65536u
#define CHUNK_BYTES_DEFAULT (64 * MR_MIB)
/* Rows of all shards that wait until they make a record, and what a block takes besides its
 * rows. */
#define WAITING_BYTES_MAX (16 * MR_MIB)
#define BLOCK_BYTES 512u

struct shard {
    int64_t number;
    struct mr_gather rows;        /* not written yet */
    uint64_t written;             /* rows */
    struct mr_chunk_writer chunk; /* its fd is -1: none */
    uint32_t chunks;              /* so far */
    char file[MR_SAVED_NAME_BYTES_MAX];
};

struct mr_saved_writer {
    pid_t owner; /* a child that was forked off removes nothing */
    char *path;
    char *directory;    /* of the chunks */
    int directory_lock; /* -1; held while this lives: who clears up knows by it */
    char *lock_file;    /* NULL: none is held */
    int lock;           /* -1 */
    enum mr_saved_codec codec;
    uint64_t chunk_bytes;
    uint64_t record_bytes;
    bool sharded;
    bool committed;
    struct mr_manifest manifest;
    struct shard *shards;
    size_t nshards;
    int failed; /* sticky */
    mr_error failure;
};

/* ---- beginning ---- */

static int begin(mr_saved_writer *w, const struct mr_saved_options *opts, mr_error *err)
{
    MR_TRY(mr_saved_codec_parse(opts->compression, &w->codec, err));
    (void)snprintf(w->manifest.compression, sizeof w->manifest.compression, "%s",
                   mr_saved_codec_name(w->codec));
    MR_TRY(mr_directories_make(w->path, err));
    MR_TRY(mr_directory_lock(w->path, opts->exclusive, &w->lock_file, &w->lock, err));
    mr_directory_clear(w->path, opts->exclusive);
    char id[MR_RUN_BYTES + 1];
    mr_random_id(id);
    (void)snprintf(w->manifest.run, sizeof w->manifest.run, "%s", id);
    w->directory = mr_asprintf("%s/%s", w->path, id);
    MR_CHECK_ALLOC(w->directory, err);
    if (mkdir(w->directory, 0777) != 0) {
        return mr_error_errno(err, errno, "directory '%s'", w->directory);
    }
    return mr_run_begin(w->directory, &w->directory_lock, err);
}

static int check_saveable(const mr_spec *spec, mr_error *err)
{
    for (size_t i = 0; i < mr_spec_leaves(spec); i++) {
        if (mr_spec_leaf(spec, i)->kind == MR_LEAF_DATASET) {
            return mr_error_set(err, MR_EINVAL,
                                "component %zu of the elements is a dataset, which is not saved: "
                                "make tensors of it in flat_map first (window.batch(size))",
                                i);
        }
    }
    return MR_OK;
}

int mr_saved_writer_open(const char *path, const mr_spec *spec, const uint8_t *fingerprint,
                         const struct mr_saved_options *opts, mr_saved_writer **ret, mr_error *err)
{
    struct mr_saved_options o = {0};

    MR_TRY(check_saveable(spec, err));
    if (path[0] == '\0') {
        return mr_error_set(err, MR_EINVAL, "the path is empty");
    }
    if (opts != NULL) {
        memcpy(&o, opts, MR_MIN(opts->struct_size, sizeof o));
    }
    mr_saved_writer *w = mr_calloc(1, sizeof *w);
    MR_CHECK_ALLOC(w, err);
    w->owner = getpid();
    w->lock = -1;
    w->directory_lock = -1;
    w->chunk_bytes = o.chunk_bytes > 0 ? o.chunk_bytes : CHUNK_BYTES_DEFAULT;
    w->record_bytes =
        MR_MIN(o.record_bytes > 0 ? o.record_bytes : RECORD_BYTES_DEFAULT, w->chunk_bytes);
    w->sharded = o.sharded;
    w->manifest.spec = mr_spec_ref(spec);
    if (fingerprint != NULL) {
        memcpy(w->manifest.fingerprint, fingerprint, sizeof w->manifest.fingerprint);
    }
    w->path = mr_strdup(path);
    int rc = w->path != NULL ? begin(w, &o, err) : mr_error_nomem(err);
    if (rc != MR_OK) {
        mr_saved_writer_free(w);
        return rc;
    }
    *ret = w;
    return MR_OK;
}

/* ---- shards ---- */

static int shard_of(mr_saved_writer *w, int64_t number, struct shard **ret, mr_error *err)
{
    for (size_t i = 0; i < w->nshards; i++) {
        if (w->shards[i].number == number) {
            *ret = &w->shards[i];
            return MR_OK;
        }
    }
    if (number < 0) {
        return mr_error_set(err, MR_EINVAL, "shard %" PRId64 ": numbers of shards start at 0",
                            number);
    }
    if (w->nshards == MR_SAVED_SHARDS_MAX) {
        return mr_error_set(err, MR_EINVAL, "more than %d shards: the last one is number %" PRId64,
                            MR_SAVED_SHARDS_MAX, number);
    }
    if (w->shards == NULL) {
        w->shards = mr_calloc(MR_SAVED_SHARDS_MAX, sizeof *w->shards);
        MR_CHECK_ALLOC(w->shards, err);
    }
    *ret = &w->shards[w->nshards++];
    **ret = (struct shard){.number = number, .chunk = {.fd = -1}};
    return MR_OK;
}

static int begin_chunk(mr_saved_writer *w, struct shard *s, mr_error *err)
{
    (void)snprintf(s->file, sizeof s->file, "%05" PRId64 "-%08u" MR_CHUNK_END_OF_NAME, s->number,
                   s->chunks);
    MR_AUTO(mr_free) char *path = mr_asprintf("%s/%s", w->directory, s->file);

    MR_CHECK_ALLOC(path, err);
    MR_TRY(mr_chunk_create(path, &s->chunk, err));
    s->chunks++;
    return MR_OK;
}

static int finish_chunk(mr_saved_writer *w, struct shard *s, mr_error *err)
{
    struct mr_manifest *m = &w->manifest;

    if (!mr_grow(&m->chunks, &m->cap, m->n, 1, sizeof *m->chunks)) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_chunk_finish(&s->chunk, err));
    struct mr_manifest_chunk *c = &m->chunks[m->n++];
    *c = (struct mr_manifest_chunk){.shard = s->number,
                                    .rows = s->chunk.rows,
                                    .bytes = s->chunk.bytes,
                                    .chain = s->chunk.chain};
    (void)snprintf(c->file, sizeof c->file, "%s", s->file);
    m->rows += c->rows;
    m->bytes += c->bytes;
    mr_chunk_writer_free(&s->chunk);
    return MR_OK;
}

/* As few records as it takes, since there is a bound for one. */
static int write_rows(mr_saved_writer *w, struct shard *s, const mr_block *block, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);
    uint64_t bytes = mr_block_row_bytes(block, 0, rows);

    if (rows > 1 && bytes > MR_CHUNK_RECORD_BYTES_MAX / 2) {
        MR_AUTO(mr_block_unref) mr_block *front = NULL;
        MR_AUTO(mr_block_unref) mr_block *back = NULL;

        MR_TRY(mr_block_slice(block, 0, rows / 2, &front, err));
        MR_TRY(mr_block_slice(block, rows / 2, rows - rows / 2, &back, err));
        MR_TRY(write_rows(w, s, front, err));
        return write_rows(w, s, back, err);
    }
    if (bytes > MR_CHUNK_RECORD_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "element %" PRIu64 " of shard %" PRId64 " has %" PRIu64
                            " bytes, one that is saved may have %llu: make several of it (unbatch)",
                            s->written, s->number, bytes, MR_CHUNK_RECORD_BYTES_MAX);
    }
    if (s->chunk.fd < 0) {
        MR_TRY(begin_chunk(w, s, err));
    }
    MR_TRY(mr_chunk_write(&s->chunk, block, w->codec, err));
    s->written += rows;
    return s->chunk.bytes >= w->chunk_bytes ? finish_chunk(w, s, err) : MR_OK;
}

static int write_record(mr_saved_writer *w, struct shard *s, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *block = NULL;

    MR_TRY(mr_gather_take(&s->rows, (uint32_t)MR_MIN(s->rows.rows, RECORD_ROWS), &block, err));
    return write_rows(w, s, block, err);
}

static uint64_t waiting(const struct shard *s)
{
    return s->rows.bytes + (s->rows.n - s->rows.head) * (uint64_t)BLOCK_BYTES;
}

/* Where too much waits, the largest records are not waited for. */
static int relieve(mr_saved_writer *w, mr_error *err)
{
    uint64_t most = MR_MAX(WAITING_BYTES_MAX, w->record_bytes);
    uint64_t all = 0;

    for (size_t i = 0; i < w->nshards; i++) {
        all += waiting(&w->shards[i]);
    }
    while (all > most) {
        struct shard *largest = &w->shards[0];

        for (size_t i = 1; i < w->nshards; i++) {
            largest = waiting(&w->shards[i]) > waiting(largest) ? &w->shards[i] : largest;
        }
        all -= waiting(largest);
        MR_TRY(write_record(w, largest, err));
        all += waiting(largest);
    }
    return MR_OK;
}

/* All of @block: many rows in pieces that are not larger than they need to be, since a piece is
 * what is read at once. */
static int add_rows(mr_saved_writer *w, struct shard *s, mr_block *block, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);
    uint64_t row_bytes = mr_block_row_bytes(block, 0, rows) / rows + 1;
    uint64_t fit = w->record_bytes / row_bytes + 1;
    uint32_t piece = (uint32_t)MR_MIN(fit, (uint64_t)RECORD_ROWS);

    for (uint32_t at = 0; at < rows; at += piece) {
        MR_TRY(mr_gather_add(&s->rows, block, at, MR_MIN(piece, rows - at), err));
        while (s->rows.bytes >= w->record_bytes || s->rows.rows >= RECORD_ROWS) {
            MR_TRY(write_record(w, s, err));
        }
    }
    return MR_OK;
}

/* The rows of @block whose shard is that of row @first, copied: in each of many shards a few rows
 * would hold the whole block. @taken says which have been there. */
static int add_shard(mr_saved_writer *w, const mr_block *block, const int64_t *numbers,
                     uint32_t first, bool *taken, uint32_t *rows, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *part = NULL;
    struct shard *s = NULL;
    uint32_t n = 0;

    for (uint32_t i = first; i < mr_block_rows(block); i++) {
        if (numbers[i] == numbers[first]) {
            taken[i] = true;
            rows[n++] = i;
        }
    }
    MR_TRY(shard_of(w, numbers[first], &s, err));
    MR_TRY(mr_block_gather(block, rows, n, &part, err));
    return add_rows(w, s, part, err);
}

static int add_by_shard(mr_saved_writer *w, const mr_block *block, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);
    uint32_t columns = mr_block_column_count(block);
    const struct mr_column *c = mr_block_column(block, 0);
    MR_AUTO(mr_free) uint32_t *which = mr_calloc(MR_MAX(rows, columns), sizeof *which);
    MR_AUTO(mr_free) bool *taken = mr_calloc(rows, sizeof *taken);
    MR_AUTO(mr_block_unref) mr_block *elements = NULL;

    MR_CHECK_ALLOC(which, err);
    MR_CHECK_ALLOC(taken, err);
    if (c->dtype != MR_INT64 || c->kind != MR_COLUMN_FIXED || c->rank != 0) {
        return mr_error_set(err, MR_EINVAL, "the number of the shard is no int64 scalar");
    }
    for (uint32_t i = 1; i < columns; i++) {
        which[i - 1] = i;
    }
    MR_TRY(mr_block_select(block, which, columns - 1, &elements, err));
    MR_TRY(mr_block_check_spec(elements, w->manifest.spec, err));
    for (uint32_t i = 0; i < rows; i++) {
        MR_TRY(taken[i] ? MR_OK : add_shard(w, elements, c->data, i, taken, which, err));
    }
    return relieve(w, err);
}

static int add(mr_saved_writer *w, const mr_block *block, mr_error *err)
{
    struct shard *s = NULL;

    if (mr_block_rows(block) == 0) {
        return MR_OK;
    }
    if (w->sharded) {
        return add_by_shard(w, block, err);
    }
    MR_TRY(mr_block_check_spec(block, w->manifest.spec, err));
    MR_TRY(shard_of(w, 0, &s, err));
    MR_AUTO(mr_block_unref) mr_block *held = mr_block_ref(block);
    return add_rows(w, s, held, err);
}

/* Remember the first failure: nothing comes of what follows it. */
static int settle(mr_saved_writer *w, int rc, mr_error *err)
{
    w->failed = w->failed == MR_OK ? rc : w->failed;
    return mr_error_pass(err, w->failed, &w->failure);
}

int mr_saved_writer_write(mr_saved_writer *w, const mr_block *block, mr_error *err)
{
    return settle(w, w->failed == MR_OK ? add(w, block, &w->failure) : w->failed, err);
}

/* ---- the end ---- */

static int by_shard_and_place(const void *a, const void *b)
{
    const struct mr_manifest_chunk *x = a;
    const struct mr_manifest_chunk *y = b;

    return x->shard != y->shard ? (x->shard < y->shard ? -1 : 1) : strcmp(x->file, y->file);
}

static int write_file(const char *file, const struct mr_buf *text, mr_error *err)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    size_t done = 0;
    int failed = fd < 0 ? errno : 0;

    while (failed == 0 && done < text->len) {
        ssize_t some = write(fd, text->data + done, text->len - done);

        failed = some < 0 && errno != EINTR ? errno : 0;
        done += some > 0 ? (size_t)some : 0;
    }
    failed = failed == 0 && fsync(fd) != 0 ? errno : failed;
    if (fd >= 0 && close(fd) != 0 && failed == 0) {
        failed = errno;
    }
    return failed == 0 ? MR_OK : mr_error_errno(err, failed, "file '%s'", file);
}

/* The manifest takes the place of the one before it. */
static int publish(mr_saved_writer *w, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *manifest = &text;
    MR_AUTO(mr_free) char *file = mr_asprintf("%s/" MR_MANIFEST_FILE, w->path);
    MR_AUTO(mr_free) char *unfinished = mr_asprintf("%s/" MR_RUN_UNFINISHED, w->directory);

    MR_CHECK_ALLOC(file, err);
    MR_CHECK_ALLOC(unfinished, err);
    MR_TRY(mr_manifest_write(&w->manifest, manifest, err));
    int rc = write_file(unfinished, manifest, err);
    rc = rc == MR_OK ? mr_directory_sync(w->directory, err) : rc;
    if (rc == MR_OK && rename(unfinished, file) != 0) {
        rc = mr_error_errno(err, errno, "file '%s'", file);
    }
    if (rc != MR_OK) {
        (void)unlink(unfinished); /* what failed is said */
        return rc;
    }
    w->committed = true; /* who reads finds it from here on, whatever comes */
    return mr_directory_sync(w->path, err);
}

static int commit(mr_saved_writer *w, mr_error *err)
{
    for (size_t i = 0; i < w->nshards; i++) {
        struct shard *s = &w->shards[i];

        while (s->rows.rows > 0) {
            MR_TRY(write_record(w, s, err));
        }
        MR_TRY(s->chunk.fd >= 0 ? finish_chunk(w, s, err) : MR_OK);
    }
    if (w->manifest.n > 0) {
        qsort(w->manifest.chunks, w->manifest.n, sizeof *w->manifest.chunks, by_shard_and_place);
    }
    return publish(w, err);
}

int mr_saved_writer_commit(mr_saved_writer *w, mr_error *err)
{
    MR_ASSERT(!w->committed);
    return settle(w, w->failed == MR_OK ? commit(w, &w->failure) : w->failed, err);
}

/* What was written and is not to stay. */
static void remove_all(mr_saved_writer *w)
{
    for (size_t i = 0; i < w->manifest.n; i++) {
        MR_AUTO(mr_free)
        char *file = mr_asprintf("%s/%s", w->directory, w->manifest.chunks[i].file);

        if (file != NULL) {
            (void)unlink(file); /* as far as it goes: nobody looks for it */
        }
    }
    mr_run_abandon(w->directory);
}

void mr_saved_writer_free(mr_saved_writer *w)
{
    if (w == NULL || w->owner != getpid()) {
        return;
    }
    for (size_t i = 0; i < w->nshards; i++) {
        mr_chunk_writer_free(&w->shards[i].chunk);
        mr_gather_free(&w->shards[i].rows);
    }
    if (w->directory != NULL && !w->committed) {
        remove_all(w);
    }
    mr_run_end(w->directory_lock);
    mr_directory_unlock(w->lock_file, w->lock);
    mr_manifest_free(&w->manifest);
    mr_free(w->shards);
    mr_free(w->directory);
    mr_free(w->path);
    mr_free(w);
}
