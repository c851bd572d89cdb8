#include "base/limits.h"
#include "engine/crc32c.h"
#include "engine/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <millrace/tfrecord.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define BUFFER_BYTES (256u << 10)

struct mr_tfrecord_writer {
    char *path;
    int fd;
    enum mr_file_compression compression;
    z_stream z;
    bool deflating;
    ZSTD_CStream *zstd; /* NULL: another compression */
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

/* Through Zstandard into the buffer. */
static int put_zstd(struct mr_tfrecord_writer *w, const void *p, size_t n, ZSTD_EndDirective end,
                    mr_error *err)
{
    ZSTD_inBuffer in = {.src = p, .size = n};
    size_t left;

    do {
        if (w->used == BUFFER_BYTES) {
            MR_TRY(drain(w, err));
        }
        ZSTD_outBuffer out = {.dst = w->buffer, .size = BUFFER_BYTES, .pos = w->used};
        left = ZSTD_compressStream2(w->zstd, &out, &in, end);
        if (ZSTD_isError(left)) { /* it refuses no data: there is no memory */
            return mr_error_set(err, MR_EEXHAUSTED, "file '%s': %s", w->path,
                                ZSTD_getErrorName(left));
        }
        w->used = out.pos;
    } while (in.pos < in.size || (end != ZSTD_e_continue && left > 0));
    return MR_OK;
}

/* Through deflate into the buffer. */
static int put_deflated(struct mr_tfrecord_writer *w, const void *p, size_t n, int flush,
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
    if (w->zstd != NULL) {
        return put_zstd(w, p, n, ZSTD_e_continue, err);
    }
    if (w->deflating) {
        return put_deflated(w, p, n, Z_NO_FLUSH, err);
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

static int check_level(enum mr_file_compression compression, int level, mr_error *err)
{
    int most = compression == MR_FILE_ZSTD ? MR_ZSTD_LEVEL_MAX : 9;

    if (level >= -1 && level <= most) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL, "compression level %d: 0 to %d are, and -1", level, most);
}

static int start_packing(struct mr_tfrecord_writer *w, int level, mr_error *err)
{
    if (w->compression == MR_FILE_PLAIN) {
        return MR_OK;
    }
    if (w->compression == MR_FILE_ZSTD) {
        w->zstd = ZSTD_createCStream();
        if (w->zstd == NULL ||
            ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel,
                                                level < 0 ? ZSTD_CLEVEL_DEFAULT : level)) ||
            ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1))) {
            return mr_error_nomem(err);
        }
        return MR_OK;
    }
    int bits = w->compression == MR_FILE_GZIP ? 15 + 16 : 15;
    if (deflateInit2(&w->z, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return mr_error_nomem(err);
    }
    w->deflating = true;
    return MR_OK;
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
    rc = rc == MR_OK ? check_level(w->compression, level, err) : rc;
    if (rc != MR_OK) {
        goto out;
    }
    w->path = mr_strdup(path);
    w->buffer = mr_malloc(BUFFER_BYTES);
    if (w->path == NULL || w->buffer == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    rc = start_packing(w, level, err);
    if (rc != MR_OK) {
        goto out;
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

/* All that was put, into the file; @last: nothing more comes. */
static int push(struct mr_tfrecord_writer *w, bool last, mr_error *err)
{
    if (w->zstd != NULL) {
        MR_TRY(put_zstd(w, NULL, 0, last ? ZSTD_e_end : ZSTD_e_flush, err));
    } else if (w->deflating) {
        MR_TRY(put_deflated(w, NULL, 0, last ? Z_FINISH : Z_SYNC_FLUSH, err));
    }
    return drain(w, err);
}

int mr_tfrecord_writer_flush(mr_tfrecord_writer *w, mr_error *err)
{
    MR_TRY(settle(w, MR_OK, err));
    return settle(w, push(w, false, &w->failure), err);
}

int mr_tfrecord_writer_close(mr_tfrecord_writer *w, mr_error *err)
{
    int rc = MR_OK;

    if (w == NULL) {
        return MR_OK;
    }
    if (w->fd >= 0) {
        rc = w->failed == MR_OK ? push(w, true, &w->failure) : w->failed;
        if (close(w->fd) != 0 && rc == MR_OK) {
            rc = mr_error_errno(&w->failure, errno, "file '%s'", w->path);
        }
        rc = settle(w, rc, err);
    }
    if (w->deflating) {
        (void)deflateEnd(&w->z);
    }
    (void)ZSTD_freeCStream(w->zstd);
    mr_free(w->path);
    mr_free(w->buffer);
    mr_free(w);
    return rc;
}
