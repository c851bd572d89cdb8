#include "base/hash.h"
#include "base/limits.h"
#include "engine/saved/chunk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

struct mapping {
    void *at;
    size_t size;
};

static void unmap(void *ctx)
{
    struct mapping *m = ctx;

    (void)munmap(m->at, m->size);
    mr_free(m);
}

static int wrap_mapping(void *at, size_t size, mr_buffer **ret, mr_error *err)
{
    struct mapping *m = mr_malloc(sizeof *m);
    int rc = m != NULL ? MR_OK : mr_error_nomem(err);

    if (rc == MR_OK) {
        *m = (struct mapping){at, size};
        rc = mr_buffer_wrap(at, size, unmap, m, ret, err);
    }
    if (rc != MR_OK) {
        (void)munmap(at, size);
        mr_free(m);
    }
    return rc;
}

static int map_fd(int fd, const char *path, mr_buffer **ret, mr_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return mr_error_errno(err, errno, "file '%s'", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return mr_error_set(err, MR_EINVAL, "file '%s': this is no regular file", path);
    }
    if (st.st_size == 0) {
        return mr_error_set(err, MR_EDATALOSS, "file '%s', offset 0: the file is empty", path);
    }
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        return mr_error_errno(err, errno, "file '%s'", path);
    }
    (void)madvise(at, (size_t)st.st_size, MADV_SEQUENTIAL); /* advice only */
    return wrap_mapping(at, (size_t)st.st_size, ret, err);
}

int mr_chunk_map(const char *path, mr_buffer **ret, mr_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe makes nobody wait */

    if (fd < 0) {
        return mr_error_errno(err, errno, "file '%s'", path);
    }
    int rc = map_fd(fd, path, ret, err);
    (void)close(fd); /* the mapping stays */
    return rc;
}

/* ---- its records ---- */

static const unsigned char *at_offset(const struct mr_chunk_reader *r, uint64_t offset)
{
    return (const unsigned char *)mr_buffer_data(r->bytes) + offset;
}

/* A file that ends as it should, but as another chunk: said before any of its rows is given. */
static int check_identity(const struct mr_chunk_reader *r, uint64_t chain, mr_error *err)
{
    uint64_t size = mr_buffer_size(r->bytes);
    struct mr_chunk_record last;

    if (size % 64 != 0 || size < 2 * MR_CHUNK_HEAD_BYTES ||
        mr_chunk_parse_record(at_offset(r, size - MR_CHUNK_HEAD_BYTES), MR_CHUNK_HEAD_BYTES, &last,
                              NULL) != MR_OK ||
        last.kind != MR_CHUNK_END || last.chain == chain) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EDATALOSS, "offset %" PRIu64 ": it is another chunk than it was",
                        size - MR_CHUNK_HEAD_BYTES);
}

int mr_chunk_reader_init(struct mr_chunk_reader *r, mr_buffer *bytes, const uint64_t *chain,
                         mr_error *err)
{
    struct mr_chunk_reader made = {.bytes = bytes, .offset = MR_CHUNK_HEAD_BYTES};

    MR_TRY_WRAP(mr_chunk_parse_head(mr_buffer_data(bytes), mr_buffer_size(bytes), &made.chain, err),
                err, "offset 0");
    MR_TRY(chain != NULL ? check_identity(&made, *chain, err) : MR_OK);
    (void)mr_buffer_ref(bytes);
    *r = made;
    return MR_OK;
}

int mr_chunk_reader_seek(struct mr_chunk_reader *r, uint64_t offset, uint64_t rows, uint64_t chain,
                         mr_error *err)
{
    if (offset % 64 != 0 || offset < MR_CHUNK_HEAD_BYTES || offset > mr_buffer_size(r->bytes)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "offset %" PRIu64 ": the file is shorter than when its position was "
                            "saved",
                            offset);
    }
    r->offset = offset;
    r->rows = rows;
    r->chain = chain;
    return MR_OK;
}

static void unref_bytes(void *ctx)
{
    mr_buffer_unref(ctx);
}

/* The block's bytes: where they lie, or expanded. Each record has a buffer of its own, so that a
 * row pins one record and not the file. */
static int block_bytes(const struct mr_chunk_reader *r, const struct mr_chunk_record *record,
                       mr_buffer **ret, mr_error *err)
{
    const unsigned char *p = at_offset(r, r->offset + MR_CHUNK_HEAD_BYTES);

    if (mr_hash64(p, record->stored) != record->sum) {
        return mr_error_set(err, MR_EDATALOSS, "the bytes of the record are damaged");
    }
    if (record->compression != MR_SAVED_PLAIN) {
        return mr_saved_codec_expand((enum mr_saved_codec)record->compression, p, record->stored,
                                     record->plain, ret, err);
    }
    mr_buffer *bytes = mr_buffer_ref(r->bytes);
    int rc = mr_buffer_wrap((void *)(uintptr_t)p, record->stored, unref_bytes, bytes, ret, err);
    if (rc != MR_OK) {
        mr_buffer_unref(bytes);
    }
    return rc;
}

static int read_block(const struct mr_chunk_reader *r, const struct mr_chunk_record *record,
                      const mr_spec *spec, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *bytes = NULL;
    MR_AUTO(mr_block_unref) mr_block *block = NULL;
    size_t used = 0;

    MR_TRY(block_bytes(r, record, &bytes, err));
    MR_TRY(mr_block_decode(bytes, 0, 0 /* spec_hash */, &block, &used, err));
    if (used != record->plain || mr_block_rows(block) != record->rows) {
        return mr_error_set(err, MR_EDATALOSS, "a block of %u rows where %u should be",
                            mr_block_rows(block), record->rows);
    }
    MR_TRY(mr_block_check_spec(block, spec, err));
    *ret = MR_TAKE(block);
    return MR_OK;
}

/* The head of the next record, which follows those before it. */
static int next_record(const struct mr_chunk_reader *r, struct mr_chunk_record *ret, mr_error *err)
{
    uint64_t left = mr_buffer_size(r->bytes) - r->offset;

    MR_TRY(mr_chunk_parse_record(at_offset(r, r->offset), left, ret, err));
    if (ret->first != r->rows || ret->chain != r->chain) {
        return mr_error_set(err, MR_EDATALOSS, "the record does not belong behind those before it");
    }
    if (ret->kind == MR_CHUNK_END && left != MR_CHUNK_HEAD_BYTES) {
        return mr_error_set(err, MR_EDATALOSS, "there is something behind the last record");
    }
    return MR_OK;
}

int mr_chunk_next(struct mr_chunk_reader *r, const mr_spec *spec, mr_block **ret, uint64_t *lost,
                  mr_error *err)
{
    struct mr_chunk_record record;
    uint64_t offset = r->offset;

    if (r->ended) {
        return MR_END;
    }
    *lost = 0;
    int rc = next_record(r, &record, err);
    if (rc != MR_OK || record.kind == MR_CHUNK_END) {
        r->ended = true;
        if (rc != MR_OK) {
            mr_error_wrap(err, "offset %" PRIu64, offset);
        }
        return rc != MR_OK ? rc : MR_END;
    }
    rc = read_block(r, &record, spec, ret, err);
    if (rc == MR_EEXHAUSTED) {
        mr_error_wrap(err, "offset %" PRIu64, offset);
        return rc;
    }
    r->offset += MR_CHUNK_HEAD_BYTES + mr_chunk_padded(record.stored);
    r->rows += record.rows;
    r->chain = mr_chunk_chain(&record);
    if (rc != MR_OK) {
        *lost = record.rows;
        mr_error_wrap(err, "offset %" PRIu64, offset);
    }
    return rc;
}

void mr_chunk_reader_free(struct mr_chunk_reader *r)
{
    mr_buffer_unref(r->bytes);
    *r = (struct mr_chunk_reader){0};
}
