#include "base/limits.h"
#include "engine/crc32c.h"
#include "engine/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <millrace/tfrecord.h>
#include <unistd.h>
#include <zlib.h>

#define BUFFER_BYTES (256u << 10)

struct mr_tfrecord_writer {
    char *path;
    int fd;
    enum mr_file_compression compression;
    z_stream z;
    bool deflating;
    unsigned char *buffer;
    size_t used;
    int failed; /* sticky */
    mr_error failure;
};

static int write_all(struct mr_tfrecord_writer *w, const unsigned char *p, size_t n, mr_error *err)
{
    while (n > 0) {
        ssize_t some = write(w->fd, p, n);

        if (some < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "file '%s'", w->path);
        }
        if (some > 0) {
            p += some;
            n -= (size_t)some;
        }
    }
    return MR_OK;
}

static int drain(struct mr_tfrecord_writer *w, mr_error *err)
{
    int rc = write_all(w, w->buffer, w->used, err);

    w->used = 0;
    return rc;
}

/* Through deflate into the buffer. */
static int put_compressed(struct mr_tfrecord_writer *w, const void *p, size_t n, int flush,
                          mr_error *err)
{
    int zrc;

    w->z.next_in = (Bytef *)(uintptr_t)p;
    w->z.avail_in = (unsigned)n;
    do {
        if (w->used == BUFFER_BYTES) {
            MR_TRY(drain(w, err));
        }
        unsigned room = (unsigned)(BUFFER_BYTES - w->used);
        w->z.next_out = w->buffer + w->used;
        w->z.avail_out = room;
        zrc = deflate(&w->z, flush);
        w->used += room - w->z.avail_out;
        /* With nothing more to read, room that is left says that all came out. */
    } while (w->z.avail_in > 0 || (flush == Z_FINISH ? zrc != Z_STREAM_END : w->z.avail_out == 0));
    return MR_OK;
}

static int put(struct mr_tfrecord_writer *w, const void *p, size_t n, mr_error *err)
{
    if (w->deflating) {
        return put_compressed(w, p, n, Z_NO_FLUSH, err);
    }
    if (n > BUFFER_BYTES - w->used) {
        int rc = drain(w, err);

        if (rc != MR_OK || n > BUFFER_BYTES) {
            return rc != MR_OK ? rc : write_all(w, p, n, err);
        }
    }
    memcpy(w->buffer + w->used, p, n);
    w->used += n;
    return MR_OK;
}

/* Remember the first failure: what follows it in the file would be read as garbage. */
static int settle(struct mr_tfrecord_writer *w, int rc, mr_error *err)
{
    if (rc != MR_OK && w->failed == MR_OK) {
        w->failed = rc;
    }
    return mr_error_pass(err, w->failed, &w->failure);
}

static void store_u64(unsigned char *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(v >> (8 * i));
    }
}

int mr_tfrecord_writer_open(const char *path, const char *compression, int level,
                            mr_tfrecord_writer **ret, mr_error *err)
{
    struct mr_tfrecord_writer *w = mr_calloc(1, sizeof *w);
    const char *name = compression != NULL ? compression : "";
    int rc;

    MR_CHECK_ALLOC(w, err);
    w->fd = -1;
    rc = mr_file_compression_parse(name, strlen(name), &w->compression, err);
    if (rc == MR_OK && (level < -1 || level > 9)) {
        rc = mr_error_set(err, MR_EINVAL, "compression level %d: 0 to 9 are, and -1", level);
    }
    if (rc != MR_OK) {
        goto out;
    }
    w->path = mr_strdup(path);
    w->buffer = mr_malloc(BUFFER_BYTES);
    if (w->path == NULL || w->buffer == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    if (w->compression != MR_FILE_PLAIN) {
        int bits = w->compression == MR_FILE_GZIP ? 15 + 16 : 15;

        if (deflateInit2(&w->z, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
            rc = mr_error_nomem(err);
            goto out;
        }
        w->deflating = true;
    }
    w->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        rc = mr_error_errno(err, errno, "file '%s'", path);
        goto out;
    }
    *ret = w;
    w = NULL;

out:
    if (w != NULL) {
        (void)mr_tfrecord_writer_close(w, NULL);
    }
    return rc;
}

int mr_tfrecord_writer_write(mr_tfrecord_writer *w, const void *bytes, size_t size, mr_error *err)
{
    unsigned char header[12];
    unsigned char footer[4];

    MR_TRY(settle(w, MR_OK, err));
    if (size > MR_ELEMENT_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "file '%s': a record of %zu bytes, the limit is %llu",
                            w->path, size, MR_ELEMENT_BYTES_MAX);
    }
    store_u64(header, size, 8);
    store_u64(header + 8, mr_crc32c_masked(header, 8), 4);
    store_u64(footer, mr_crc32c_masked(size > 0 ? bytes : "", size), 4);
    int rc = put(w, header, sizeof header, &w->failure);
    rc = rc == MR_OK && size > 0 ? put(w, bytes, size, &w->failure) : rc;
    rc = rc == MR_OK ? put(w, footer, sizeof footer, &w->failure) : rc;
    return settle(w, rc, err);
}

/* All that was put, into the file. */
static int push(struct mr_tfrecord_writer *w, int flush, mr_error *err)
{
    MR_TRY(w->deflating ? put_compressed(w, NULL, 0, flush, err) : MR_OK);
    return drain(w, err);
}

int mr_tfrecord_writer_flush(mr_tfrecord_writer *w, mr_error *err)
{
    MR_TRY(settle(w, MR_OK, err));
    return settle(w, push(w, Z_SYNC_FLUSH, &w->failure), err);
}

int mr_tfrecord_writer_close(mr_tfrecord_writer *w, mr_error *err)
{
    int rc = MR_OK;

    if (w == NULL) {
        return MR_OK;
    }
    if (w->fd >= 0) {
        rc = w->failed == MR_OK ? push(w, Z_FINISH, &w->failure) : w->failed;
        if (close(w->fd) != 0 && rc == MR_OK) {
            rc = mr_error_errno(&w->failure, errno, "file '%s'", w->path);
        }
        rc = settle(w, rc, err);
    }
    if (w->deflating) {
        (void)deflateEnd(&w->z);
    }
    mr_free(w->path);
    mr_free(w->buffer);
    mr_free(w);
    return rc;
}
