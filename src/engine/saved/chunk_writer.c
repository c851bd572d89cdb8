#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "engine/saved/chunk_file.h"
#include "engine/saved/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int write_all(struct mr_chunk_writer *w, const void *bytes, size_t n, mr_error *err)
{
    const unsigned char *p = bytes;

    w->bytes += n;
    while (n > 0) {
        ssize_t some = write(w->fd, p, n);

        if (some < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "file '%s'", w->unfinished);
        }
        if (some > 0) {
            p += some;
            n -= (size_t)some;
        }
    }
    return MR_OK;
}

int mr_chunk_create(const char *path, struct mr_chunk_writer *ret, mr_error *err)
{
    struct mr_chunk_writer w = {
        .fd = -1, .path = mr_strdup(path), .unfinished = mr_asprintf("%s" MR_UNFINISHED, path)};
    unsigned char head[MR_CHUNK_HEAD_BYTES];
    int rc = w.path != NULL && w.unfinished != NULL ? MR_OK : mr_error_nomem(err);

    if (rc == MR_OK) {
        w.fd = open(w.unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        rc = w.fd >= 0 ? MR_OK : mr_error_errno(err, errno, "file '%s'", w.unfinished);
    }
    if (rc == MR_OK) {
        mr_chunk_put_head(mr_random_u64(), head);
        rc = mr_chunk_parse_head(head, sizeof head, &w.chain, err);
    }
    rc = rc == MR_OK ? write_all(&w, head, sizeof head, err) : rc;
    if (rc != MR_OK) {
        mr_chunk_writer_free(&w);
        return rc;
    }
    *ret = w;
    return MR_OK;
}

static int put_record(struct mr_chunk_writer *w, const struct mr_chunk_record *record,
                      mr_error *err)
{
    unsigned char head[MR_CHUNK_HEAD_BYTES];

    mr_chunk_put_record(record, head);
    MR_TRY(write_all(w, head, sizeof head, err));
    w->rows += record->rows;
    return MR_OK;
}

int mr_chunk_write(struct mr_chunk_writer *w, const mr_block *block, enum mr_saved_codec codec,
                   mr_error *err)
{
    static const unsigned char zeros[64];
    MR_AUTO(mr_buffer_unref) mr_buffer *plain = NULL;
    MR_AUTO(mr_buffer_unref) mr_buffer *packed = NULL;
    size_t n = 0;

    MR_TRY(mr_block_encode_buffer(block, 0 /* spec_hash */, false /* checksum */, &plain, err));
    if (mr_buffer_size(plain) > MR_CHUNK_RECORD_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a record of %zu bytes, there may be %llu",
                            mr_buffer_size(plain), MR_CHUNK_RECORD_BYTES_MAX);
    }
    MR_TRY(mr_saved_codec_compress(codec, mr_buffer_data(plain), mr_buffer_size(plain), &packed, &n,
                                   err));
    struct mr_chunk_record record = {
        .kind = MR_CHUNK_ROWS,
        .compression = (uint8_t)(n > 0 ? codec : MR_SAVED_PLAIN),
        .rows = mr_block_rows(block),
        .first = w->rows,
        .stored = n > 0 ? n : mr_buffer_size(plain),
        .plain = mr_buffer_size(plain),
        .chain = w->chain,
    };
    const void *bytes = mr_buffer_data(n > 0 ? packed : plain);
    record.sum = mr_hash64(bytes, record.stored);
    MR_TRY(put_record(w, &record, err));
    w->chain = mr_chunk_chain(&record);
    MR_TRY(write_all(w, bytes, record.stored, err));
    return write_all(w, zeros, mr_chunk_padded(record.stored) - record.stored, err);
}

int mr_chunk_finish(struct mr_chunk_writer *w, mr_error *err)
{
    struct mr_chunk_record end = {.kind = MR_CHUNK_END, .first = w->rows, .chain = w->chain};

    MR_TRY(put_record(w, &end, err));
    if (fsync(w->fd) != 0) {
        return mr_error_errno(err, errno, "file '%s'", w->unfinished);
    }
    int failed = close(w->fd);
    w->fd = -1;
    if (failed != 0 || rename(w->unfinished, w->path) != 0) {
        int why = errno;

        (void)unlink(w->unfinished); /* what is said of it is why it is not whole */
        return mr_error_errno(err, why, "file '%s'", w->path);
    }
    return MR_OK;
}

void mr_chunk_writer_free(struct mr_chunk_writer *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd);
        (void)unlink(w->unfinished);
    }
    mr_free(w->path);
    mr_free(w->unfinished);
    *w = (struct mr_chunk_writer){.fd = -1};
}
