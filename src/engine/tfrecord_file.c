#include "engine/tfrecord_file.h"

#include "base/alloc.h"
#include "base/error.h"
#include "engine/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <millrace/dataset.h> /* mr_free */
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define HEADER_BYTES 12u
#define FOOTER_BYTES 4u

struct mr_tfrecord_file {
    char *path;
    int fd;
    enum mr_tfrecord_compression compression;
    unsigned char *buffer; /* as read */
    size_t size;
    size_t at;
    size_t end;
    z_stream z;
    bool inflating;
    bool member_ended; /* of a GZIP file: there may be another */
    uint64_t offset;   /* of the next byte, uncompressed */
    uint64_t record;
    bool ended;
};

int mr_tfrecord_compression_parse(const char *s, size_t size, enum mr_tfrecord_compression *ret, mr_error *err)
{
    static const char *const names[] = {
        [MR_TFRECORD_PLAIN] = "", [MR_TFRECORD_GZIP] = "GZIP", [MR_TFRECORD_ZLIB] = "ZLIB"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], s, size) == 0) {
            *ret = (enum mr_tfrecord_compression)i;
            return MR_OK;
        }
    }
    return mr_error_set(err, MR_EINVAL, "'%.*s' is no compression: \"\", \"GZIP\" and \"ZLIB\" are",
                        (int)(size < 32 ? size : 32), s);
}

static int start_inflate(struct mr_tfrecord_file *f, mr_error *err)
{
    if (f->compression == MR_TFRECORD_PLAIN) {
        return MR_OK;
    }
    memset(&f->z, 0, sizeof f->z);
    int bits = f->compression == MR_TFRECORD_GZIP ? 15 + 16 : 15;
    if (inflateInit2(&f->z, bits) != Z_OK) {
        return mr_error_nomem(err);
    }
    f->inflating = true;
    return MR_OK;
}

int mr_tfrecord_file_open(const char *path, enum mr_tfrecord_compression compression, size_t buffer_bytes,
                          struct mr_tfrecord_file **ret, mr_error *err)
{
    struct mr_tfrecord_file *f = mr_calloc(1, sizeof *f);
    int rc = MR_OK;

    if (f == NULL) {
        return mr_error_nomem(err);
    }
    f->fd = -1;
    f->compression = compression;
    f->size = buffer_bytes;
    f->path = mr_strdup(path);
    f->buffer = mr_malloc(buffer_bytes);
    if (f->path == NULL || f->buffer == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0) {
        rc = mr_error_errno(err, errno, "file '%s'", path);
        goto out;
    }
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice only */
    rc = start_inflate(f, err);
    if (rc == MR_OK) {
        *ret = f;
        f = NULL;
    }

out:
    mr_tfrecord_file_close(f);
    return rc;
}

void mr_tfrecord_file_close(struct mr_tfrecord_file *f)
{
    if (f == NULL) {
        return;
    }
    if (f->inflating) {
        (void)inflateEnd(&f->z);
    }
    if (f->fd >= 0) {
        (void)close(f->fd);
    }
    mr_free(f->path);
    mr_free(f->buffer);
    mr_free(f);
}

uint64_t mr_tfrecord_file_offset(const struct mr_tfrecord_file *f)
{
    return f->offset;
}

uint64_t mr_tfrecord_file_record(const struct mr_tfrecord_file *f)
{
    return f->record;
}

bool mr_tfrecord_file_ended(const struct mr_tfrecord_file *f)
{
    return f->ended;
}

/* More of the file into the buffer, which is empty. MR_END at its end. */
static int refill(struct mr_tfrecord_file *f, mr_error *err)
{
    ssize_t n;

    do {
        n = read(f->fd, f->buffer, f->size);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return mr_error_errno(err, errno, "file '%s', offset %" PRIu64, f->path, f->offset);
    }
    f->at = 0;
    f->end = (size_t)n;
    return n > 0 ? MR_OK : MR_END;
}

static int damaged(struct mr_tfrecord_file *f, uint64_t offset, const char *what, mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "file '%s', offset %" PRIu64 "%s, record %" PRIu64 ": %s", f->path, offset,
                        f->compression != MR_TFRECORD_PLAIN ? " (uncompressed)" : "", f->record, what);
}

/* One call of inflate(). MR_END when the compressed data is over. */
static int inflate_some(struct mr_tfrecord_file *f, unsigned char *to, size_t n, size_t *got, mr_error *err)
{
    if (f->at == f->end) {
        int rc = refill(f, err);

        if (rc == MR_END && !f->member_ended) {
            return damaged(f, f->offset, "the compressed data is cut short", err);
        }
        if (rc != MR_OK) {
            return rc;
        }
    }
    if (f->member_ended) {
        if (f->compression == MR_TFRECORD_ZLIB || inflateReset(&f->z) != Z_OK) {
            return damaged(f, f->offset, "data behind the end of the compressed stream", err);
        }
        f->member_ended = false;
    }
    f->z.next_in = f->buffer + f->at;
    f->z.avail_in = (unsigned)(f->end - f->at);
    f->z.next_out = to;
    f->z.avail_out = (unsigned)n;
    int zrc = inflate(&f->z, Z_NO_FLUSH);
    f->at = f->end - f->z.avail_in;
    *got = n - f->z.avail_out;
    if (zrc == Z_STREAM_END) {
        f->member_ended = true;
    } else if (zrc == Z_MEM_ERROR) {
        return mr_error_nomem(err);
    } else if (zrc != Z_OK && zrc != Z_BUF_ERROR) {
        return damaged(f, f->offset, "the compressed data is damaged", err);
    }
    return MR_OK;
}

/* Up to @n uncompressed bytes; fewer only at the end of the file. */
static int read_bytes(struct mr_tfrecord_file *f, unsigned char *to, size_t n, size_t *got, mr_error *err)
{
    int rc = MR_OK;

    *got = 0;
    while (*got < n && rc == MR_OK) {
        size_t some = n - *got < (1u << 30) ? n - *got : 1u << 30;

        if (f->compression != MR_TFRECORD_PLAIN) {
            rc = inflate_some(f, to + *got, some, &some, err);
        } else {
            rc = f->at == f->end ? refill(f, err) : MR_OK;
            if (rc == MR_OK) {
                some = some < f->end - f->at ? some : f->end - f->at;
                memcpy(to + *got, f->buffer + f->at, some);
                f->at += some;
            }
        }
        if (rc == MR_OK) {
            *got += some;
            f->offset += some;
        }
    }
    return rc == MR_END ? MR_OK : rc;
}

static uint32_t load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load_u64(const unsigned char *p)
{
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

/* The data of a record, in steps: a length that lies about the file must not take its memory at once. */
static int read_data(struct mr_tfrecord_file *f, uint64_t begin, uint64_t length, struct mr_buf *to, mr_error *err)
{
    while (length > 0) {
        size_t step = length < (4u << 20) ? (size_t)length : 4u << 20;
        size_t got = 0;
        unsigned char *p = mr_buf_reserve(to, step);

        if (p == NULL) {
            return mr_error_nomem(err);
        }
        int rc = read_bytes(f, p, step, &got, err);
        if (rc != MR_OK) {
            return rc;
        }
        if (got < step) {
            return damaged(f, begin, "the file ends in the middle of it", err);
        }
        to->len += step;
        length -= step;
    }
    return MR_OK;
}

static int read_header(struct mr_tfrecord_file *f, size_t record_bytes_max, uint64_t *length, mr_error *err)
{
    unsigned char header[HEADER_BYTES];
    uint64_t begin = f->offset;
    size_t got = 0;
    int rc = read_bytes(f, header, sizeof header, &got, err);

    if (rc != MR_OK) {
        return rc;
    }
    if (got == 0) {
        return MR_END;
    }
    if (got < sizeof header) {
        return damaged(f, begin, "the file ends in the middle of its length", err);
    }
    if (mr_crc32c_masked(header, 8) != load_u32(header + 8)) {
        return damaged(f, begin, "its length is damaged; the rest of the file cannot be read", err);
    }
    *length = load_u64(header);
    if (*length > record_bytes_max) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "file '%s', offset %" PRIu64 ", record %" PRIu64 ": %" PRIu64 " bytes, the limit is %zu",
                            f->path, begin, f->record, *length, record_bytes_max);
    }
    return MR_OK;
}

int mr_tfrecord_file_next(struct mr_tfrecord_file *f, size_t record_bytes_max, struct mr_buf *to, mr_error *err)
{
    unsigned char footer[FOOTER_BYTES];
    uint64_t begin = f->offset;
    uint64_t length = 0;
    size_t kept = to->len;
    size_t got = 0;
    int rc;

    if (f->ended) {
        return MR_END;
    }
    rc = read_header(f, record_bytes_max, &length, err);
    if (rc == MR_OK) {
        rc = read_data(f, begin, length, to, err);
    }
    if (rc == MR_OK) {
        rc = read_bytes(f, footer, sizeof footer, &got, err);
    }
    if (rc == MR_OK && got < sizeof footer) {
        rc = damaged(f, begin, "the file ends in the middle of it", err);
    }
    if (rc != MR_OK) {
        f->ended = true;
        to->len = kept;
        return rc;
    }
    if (mr_crc32c_masked(length > 0 ? (const void *)(to->data + kept) : "", (size_t)length) != load_u32(footer)) {
        rc = damaged(f, begin, "its data is damaged", err);
        to->len = kept;
    }
    f->record++;
    return rc;
}

/* Compressed data has no other way than reading through it. */
static int skip_to(struct mr_tfrecord_file *f, uint64_t offset, mr_error *err)
{
    unsigned char scratch[16 << 10];
    int rc = MR_OK;

    while (f->offset < offset && rc == MR_OK) {
        size_t left = offset - f->offset < sizeof scratch ? (size_t)(offset - f->offset) : sizeof scratch;
        size_t got = 0;

        rc = read_bytes(f, scratch, left, &got, err);
        if (rc == MR_OK && got < left) {
            rc = damaged(f, f->offset, "the file is shorter than when its position was saved", err);
        }
    }
    return rc;
}

int mr_tfrecord_file_seek(struct mr_tfrecord_file *f, uint64_t offset, uint64_t record, mr_error *err)
{
    if (f->compression == MR_TFRECORD_PLAIN) {
        if (offset > INT64_MAX || lseek(f->fd, (off_t)offset, SEEK_SET) < 0) {
            return mr_error_errno(err, errno, "file '%s', offset %" PRIu64, f->path, offset);
        }
        f->at = 0;
        f->end = 0;
        f->offset = offset;
    } else {
        int rc = skip_to(f, offset, err);

        if (rc != MR_OK) {
            return rc;
        }
    }
    f->record = record;
    return MR_OK;
}
