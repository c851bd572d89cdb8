#include "base/cpu.h"
#include "base/doing.h"
#include "base/hash.h"
#include "engine/saved/chunk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

/* All of @n bytes at @offset. The file may have become shorter since it was opened. */
static int read_at(const struct mr_chunk_reader *r, uint64_t offset, void *to, size_t n,
                   mr_error *err)
{
    size_t done = 0;

    mr_cpu_rest();
    while (done < n) {
        uint32_t before = mr_doing_begin_wait(MR_DOING_STORAGE);
        ssize_t some = pread(r->fd, (char *)to + done, n - done, (off_t)(offset + done));

        mr_doing_end(before);
        if (some < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "byte %" PRIu64, offset + done);
        }
        if (some == 0) {
            return mr_error_set(err, MR_EDATALOSS,
                                "the file ends at byte %" PRIu64
                                ": it was cut off while it was read",
                                offset + done);
        }
        done += some > 0 ? (size_t)some : 0;
    }
    return MR_OK;
}

static int measure(struct mr_chunk_reader *r, mr_error *err)
{
    struct stat st;

    if (fstat(r->fd, &st) != 0) {
        return mr_error_errno(err, errno, "its size");
    }
    if (!S_ISREG(st.st_mode)) {
        return mr_error_set(err, MR_EINVAL, "this is no regular file");
    }
    if (st.st_size == 0) {
        return mr_error_set(err, MR_EDATALOSS, "offset 0: the file is empty");
    }
    r->size = (uint64_t)st.st_size;
    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice only */
    return MR_OK;
}

static int read_head(struct mr_chunk_reader *r, mr_error *err)
{
    unsigned char head[MR_CHUNK_HEAD_BYTES];
    uint64_t n = MR_MIN(r->size, sizeof head);

    MR_TRY_WRAP(read_at(r, 0, head, (size_t)n, err), err, "offset 0");
    MR_TRY_WRAP(mr_chunk_parse_head(head, n, &r->chain, err), err, "offset 0");
    return MR_OK;
}

/* A file that ends as it should, but as another chunk: said before any of its rows is given. */
static int check_identity(const struct mr_chunk_reader *r, uint64_t chain, mr_error *err)
{
    unsigned char head[MR_CHUNK_HEAD_BYTES];
    uint64_t offset = r->size - sizeof head;
    struct mr_chunk_record last;

    if (r->size % 64 != 0 || r->size < 2 * sizeof head) {
        return MR_OK;
    }
    int rc = read_at(r, offset, head, sizeof head, err);
    if (rc == MR_EEXHAUSTED) {
        return rc; /* it may be another chunk */
    }
    if (rc != MR_OK || mr_chunk_parse_record(head, sizeof head, &last, NULL) != MR_OK ||
        last.kind != MR_CHUNK_END || last.chain == chain) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EDATALOSS, "offset %" PRIu64 ": it is another chunk than it was",
                        offset);
}

int mr_chunk_reader_init(struct mr_chunk_reader *r, int fd, const uint64_t *chain, mr_error *err)
{
    *r = (struct mr_chunk_reader){.fd = fd, .open = true, .offset = MR_CHUNK_HEAD_BYTES};
    int rc = measure(r, err);

    rc = rc == MR_OK ? read_head(r, err) : rc;
    rc = rc == MR_OK && chain != NULL ? check_identity(r, *chain, err) : rc;
    if (rc != MR_OK) {
        mr_chunk_reader_free(r);
    }
    return rc;
}

int mr_chunk_reader_open(struct mr_chunk_reader *r, const char *path, const uint64_t *chain,
                         mr_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe makes nobody wait */

    if (fd < 0) {
        return mr_error_errno(err, errno, "file '%s'", path);
    }
    MR_TRY_WRAP(mr_chunk_reader_init(r, fd, chain, err), err, "file '%s'", path);
    return MR_OK;
}

void mr_chunk_reader_free(struct mr_chunk_reader *r)
{
    if (r->open) {
        (void)close(r->fd); /* it was read only */
    }
    *r = (struct mr_chunk_reader){0};
}

/* ---- its records ---- */

int mr_chunk_reader_seek(struct mr_chunk_reader *r, uint64_t offset, uint64_t rows, uint64_t chain,
                         mr_error *err)
{
    if (offset % 64 != 0 || offset < MR_CHUNK_HEAD_BYTES || offset > r->size) {
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

/* The block's bytes: as they were read, or expanded. Each record has a buffer of its own, so that a
 * row pins one record. */
static int block_bytes(const struct mr_chunk_reader *r, const struct mr_chunk_record *record,
                       mr_buffer **ret, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *stored = NULL;

    MR_TRY(mr_buffer_new((size_t)record->stored, &stored, err));
    void *p = mr_buffer_data(stored);
    MR_TRY(read_at(r, r->offset + MR_CHUNK_HEAD_BYTES, p, (size_t)record->stored, err));
    if (mr_hash64(p, record->stored) != record->sum) {
        return mr_error_set(err, MR_EDATALOSS, "the bytes of the record are damaged");
    }
    if (record->compression != MR_SAVED_PLAIN) {
        return mr_saved_codec_expand((enum mr_saved_codec)record->compression, p, record->stored,
                                     record->plain, ret, err);
    }
    *ret = MR_TAKE(stored);
    return MR_OK;
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
    unsigned char head[MR_CHUNK_HEAD_BYTES];
    uint64_t left = r->size - r->offset;

    MR_TRY(read_at(r, r->offset, head, (size_t)MR_MIN(left, sizeof head), err));
    MR_TRY(mr_chunk_parse_record(head, left, ret, err));
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
        r->ended = rc != MR_EEXHAUSTED; /* that is the machine's fault, not the file's */
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
