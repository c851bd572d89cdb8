#include "engine/record_file.h"

#include "base/cpu.h"
#include "base/doing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int mr_file_compression_parse(const char *s, size_t size, enum mr_file_compression *ret,
                              mr_error *err)
{
    static const char *const names[] = {[MR_FILE_PLAIN] = "",
                                        [MR_FILE_GZIP] = "GZIP",
                                        [MR_FILE_ZLIB] = "ZLIB",
                                        [MR_FILE_ZSTD] = "ZSTD"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], s, size) == 0) {
            *ret = (enum mr_file_compression)i;
            return MR_OK;
        }
    }
    return mr_error_set(err, MR_EINVAL,
                        "'%.*s' is not a compression: \"\", \"GZIP\", \"ZLIB\" and \"ZSTD\" are",
                        (int)MR_MIN(size, 32), s);
}

static int start_unpacking(struct mr_record_file *f, mr_error *err)
{
    if (f->compression == MR_FILE_PLAIN) {
        return MR_OK;
    }
    if (f->compression == MR_FILE_ZSTD) {
        return mr_unzstd_open(&f->zstd, err);
    }
    memset(&f->z, 0, sizeof f->z);
    int bits = f->compression == MR_FILE_GZIP ? 15 + 16 : 15;
    if (inflateInit2(&f->z, bits) != Z_OK) {
        return mr_error_nomem(err);
    }
    f->inflating = true;
    return MR_OK;
}

int mr_record_file_open(const char *path, enum mr_file_compression compression, size_t buffer_bytes,
                        struct mr_record_file **ret, mr_error *err)
{
    struct mr_record_file *f = mr_calloc(1, sizeof *f);
    int rc = MR_OK;

    MR_CHECK_ALLOC(f, err);
    f->fd = -1;
    f->compression = compression;
    f->size = buffer_bytes;
    f->path = mr_strdup(path);
    f->buffer = mr_malloc(buffer_bytes);
    if (f->path == NULL || f->buffer == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    uint32_t before = mr_doing_begin_storage(path);
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    mr_doing_end(before);
    if (f->fd < 0) {
        rc = mr_error_file(err, errno, MR_SHOWN_PATH(path));
        goto out;
    }
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice only */
    rc = start_unpacking(f, err);
    if (rc == MR_OK) {
        *ret = f;
        f = NULL;
    }

out:
    mr_record_file_close(f);
    return rc;
}

void mr_record_file_close(struct mr_record_file *f)
{
    if (f == NULL) {
        return;
    }
    if (f->inflating) {
        (void)inflateEnd(&f->z);
    }
    mr_unzstd_close(&f->zstd);
    if (f->fd >= 0) {
        (void)close(f->fd);
    }
    mr_free(f->path);
    mr_free(f->buffer);
    mr_free(f->plain);
    mr_free(f->fixed.ahead);
    mr_free(f);
}

uint64_t mr_record_file_position(const struct mr_record_file *f)
{
    return f->offset - (f->fixed.ahead != NULL ? f->fixed.footer_bytes : 0);
}

/* More of the file into the buffer, which is empty. MR_END at its end. */
static int refill(struct mr_record_file *f, mr_error *err)
{
    uint32_t before = mr_doing_begin_storage(f->path);
    ssize_t n;

    mr_cpu_rest();
    do {
        n = read(f->fd, f->buffer, f->size);
    } while (n < 0 && errno == EINTR);
    mr_doing_end(before);
    if (n < 0 && errno == EISDIR) {
        return mr_error_file(err, errno, MR_SHOWN_PATH(f->path));
    }
    if (n < 0) {
        return mr_error_errno(err, errno, "file '%s', offset %" PRIu64, MR_SHOWN_PATH_PART(f->path),
                              f->offset);
    }
    f->at = 0;
    f->end = (size_t)n;
    return n > 0 ? MR_OK : MR_END;
}

int mr_record_file_damaged(const struct mr_record_file *f, uint64_t offset, const char *what,
                           mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS,
                        "file '%s', offset %" PRIu64 "%s, record %" PRIu64 ": %s",
                        MR_SHOWN_PATH_PART(f->path), offset,
                        f->compression != MR_FILE_PLAIN ? " (uncompressed)" : "", f->record, what);
}

int mr_record_file_no_room(struct mr_record_file *f, uint64_t offset, const struct mr_buf *to,
                           mr_error *err)
{
    int rc = mr_buf_error(to, err);

    f->too_large = to->refused > 0; /* else it is the machine that has no memory */
    mr_error_wrap(err, "file '%s', offset %" PRIu64 "%s, record %" PRIu64,
                  MR_SHOWN_PATH_PART(f->path), offset,
                  f->compression != MR_FILE_PLAIN ? " (uncompressed)" : "", f->record);
    return rc;
}

/* One call of inflate(). */
static int inflate_some(struct mr_record_file *f, unsigned char *to, size_t n, size_t *got,
                        mr_error *err)
{
    if (f->member_ended) {
        if (f->compression == MR_FILE_ZLIB || inflateReset(&f->z) != Z_OK) {
            return mr_record_file_damaged(f, f->offset,
                                          "data behind the end of the compressed stream", err);
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
    f->full = f->z.avail_out == 0 && zrc == Z_OK;
    if (zrc == Z_STREAM_END) {
        f->member_ended = true;
    } else if (zrc == Z_MEM_ERROR) {
        return mr_error_nomem(err);
    } else if (zrc != Z_OK && zrc != Z_BUF_ERROR) {
        f->damaged = true;
    }
    return MR_OK;
}

/* One step of Zstandard. */
static void unzstd_some(struct mr_record_file *f, unsigned char *to, size_t n, size_t *got)
{
    size_t used = 0;
    enum mr_unzstd_result result =
        mr_unzstd_some(&f->zstd, f->buffer + f->at, f->end - f->at, &used, to, n, got);

    f->at += used;
    f->member_ended = result == MR_UNZSTD_END;
    f->wide = result == MR_UNZSTD_TOO_LARGE;
    f->damaged = f->wide || result == MR_UNZSTD_DAMAGED;
}

/* Some of the uncompressed data, perhaps none yet. MR_END when it is over. What comes before
 * damaged data is given first: which records can be read must not depend on the size of a
 * buffer. */
static int unpack_some(struct mr_record_file *f, unsigned char *to, size_t n, size_t *got,
                       mr_error *err)
{
    if (f->damaged) {
        return mr_record_file_damaged(
            f, f->offset,
            f->wide          ? "a window of more than 8 MiB (zstd --long, or a level above 19)"
            : f->offset == 0 ? "the compressed data is damaged, or of another compression_type"
                             : "the compressed data is damaged",
            err);
    }
    if (f->at == f->end && !f->zstd.pending && !f->full) {
        int rc = refill(f, err);

        rc = rc == MR_END && f->zstd.have > 0 ? MR_OK : rc; /* that comes first */
        if (rc == MR_END && !f->member_ended) {
            return mr_record_file_damaged(f, f->offset, "the compressed data is cut short", err);
        }
        if (rc != MR_OK) {
            return rc;
        }
    }
    if (f->compression != MR_FILE_ZSTD) {
        return inflate_some(f, to, n, got, err);
    }
    unzstd_some(f, to, n, got);
    return MR_OK;
}

int mr_record_file_read(struct mr_record_file *f, unsigned char *to, size_t n, size_t *got,
                        mr_error *err)
{
    int rc = MR_OK;

    *got = 0;
    while (*got < n && rc == MR_OK) {
        size_t some = n - *got < (1u << 30) ? n - *got : 1u << 30;

        if (f->compression != MR_FILE_PLAIN) {
            rc = unpack_some(f, to + *got, some, &some, err);
        } else {
            rc = f->at == f->end ? refill(f, err) : MR_OK;
            if (rc == MR_OK) {
                some = MR_MIN(some, f->end - f->at);
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

int mr_record_file_peek(struct mr_record_file *f, const unsigned char **ret, size_t *n,
                        mr_error *err)
{
    int rc = MR_OK;

    if (f->compression == MR_FILE_PLAIN) {
        rc = f->at == f->end ? refill(f, err) : MR_OK;
        *ret = f->buffer + f->at;
        *n = f->end - f->at;
        return rc;
    }
    if (f->plain == NULL) {
        f->plain = mr_malloc(f->size);
        MR_CHECK_ALLOC(f->plain, err);
    }
    while (rc == MR_OK && f->plain_at == f->plain_end) {
        f->plain_at = 0;
        f->plain_end = 0;
        rc = unpack_some(f, f->plain, f->size, &f->plain_end, err);
    }
    *ret = f->plain + f->plain_at;
    *n = f->plain_end - f->plain_at;
    return rc;
}

void mr_record_file_pass(struct mr_record_file *f, size_t n)
{
    if (f->compression == MR_FILE_PLAIN) {
        f->at += n;
    } else {
        f->plain_at += n;
    }
    f->offset += n;
}

int mr_record_file_skip(struct mr_record_file *f, uint64_t bytes, const char *too_short,
                        mr_error *err)
{
    unsigned char scratch[16 << 10];

    while (bytes > 0) {
        size_t step = bytes < sizeof scratch ? (size_t)bytes : sizeof scratch;
        size_t got = 0;

        MR_TRY(mr_record_file_read(f, scratch, step, &got, err));
        if (got < step) {
            return mr_record_file_damaged(f, f->offset, too_short, err);
        }
        bytes -= step;
    }
    return MR_OK;
}

#define NOW_SHORTER "the file is shorter than when its position was saved"

/* Whether a plain file ends before @offset, as far as it has a size. */
static bool ends_before(const struct mr_record_file *f, uint64_t offset)
{
    struct stat st;

    return fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size < offset;
}

int mr_record_file_seek(struct mr_record_file *f, uint64_t offset, uint64_t record, mr_error *err)
{
    f->record = record; /* for errors, too */
    if (f->compression == MR_FILE_PLAIN) {
        if (ends_before(f, offset)) {
            return mr_record_file_damaged(f, offset, NOW_SHORTER, err);
        }
        if (offset > INT64_MAX || lseek(f->fd, (off_t)offset, SEEK_SET) < 0) {
            return mr_error_errno(err, errno, "file '%s', offset %" PRIu64,
                                  MR_SHOWN_PATH_PART(f->path), offset);
        }
        f->at = 0;
        f->end = 0;
        f->offset = offset;
    } else {
        /* Compressed data has no other way than reading through it. */
        MR_TRY(mr_record_file_skip(f, offset - f->offset, NOW_SHORTER, err));
    }
    return MR_OK;
}
