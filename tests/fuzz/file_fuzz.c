/*
 * Input files: TFRecord, lines of text and records of one length, compressed or not. Whatever a
 * file holds, how it is read in pieces makes no difference, and a position that was saved leads to
 * the records that followed.
 *
 * The first three bytes say format, compression, what is to be done to the rest, and sizes: the
 * rest is the file, or what is in it, framed (with checksums) and compressed by the target, so that
 * something gets past those.
 */
#include "engine/crc32c.h"
#include "engine/record_file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORD_BYTES_MAX 4096
#define RECORDS_MAX 64
#define FILE_BYTES_MAX (1u << 16)

struct shape {
    mr_record_next *next;
    struct mr_fixed_format fixed;
    enum mr_file_compression compression;
    bool framed;     /* the rest is records: a length byte and so many bytes each */
    bool compressed; /* the rest is what is in the compressed file */
    bool twice;      /* as two GZIP members, or frames */
    bool damaged;    /* a byte of the outcome is changed */
};

/* What reading came to: all records, the position after each, and how it ended. */
struct outcome {
    struct mr_buf records;
    size_t ends[RECORDS_MAX];
    int codes[RECORDS_MAX];
    uint64_t positions[RECORDS_MAX];
    uint64_t numbers[RECORDS_MAX];
    size_t n;
};

static struct shape shape_of(const uint8_t *said)
{
    static mr_record_next *const formats[] = {mr_tfrecord_next, mr_text_line_next,
                                              mr_csv_record_next, mr_fixed_record_next,
                                              mr_tfrecord_next};

    return (struct shape){.next = formats[said[0] & 3],
                          .compression = (enum mr_file_compression)((said[0] >> 2) & 3),
                          .framed = (said[1] & 1) != 0,
                          .compressed = (said[1] & 2) != 0,
                          .twice = (said[1] & 4) != 0,
                          .damaged = (said[1] & 8) != 0,
                          .fixed = {.header_bytes = said[2] & 7,
                                    .record_bytes = 1 + (said[2] >> 3 & 7),
                                    .footer_bytes = said[2] >> 6}};
}

/* ---- the file ---- */

static void put(struct mr_buf *to, const void *bytes, size_t n)
{
    mr_buf_append(to, bytes, n);
    if (to->failed) {
        abort();
    }
}

static void put_u32(struct mr_buf *to, uint32_t v)
{
    const unsigned char bytes[] = {(unsigned char)v, (unsigned char)(v >> 8),
                                   (unsigned char)(v >> 16), (unsigned char)(v >> 24)};

    put(to, bytes, sizeof bytes);
}

static void frame(struct mr_buf *to, const uint8_t *data, size_t size)
{
    while (size > 0) {
        size_t n = data[0] < size - 1 ? data[0] : size - 1;
        size_t begin = to->len;

        put_u32(to, (uint32_t)n);
        put_u32(to, 0);
        put_u32(to, mr_crc32c_masked(to->data + begin, 8));
        put(to, data + 1, n);
        put_u32(to, mr_crc32c_masked(n > 0 ? (const void *)(data + 1) : "", n));
        data += 1 + n;
        size -= 1 + n;
    }
}

static void compress_part(struct mr_buf *to, const struct shape *s, const void *data, size_t size)
{
    z_stream z = {0};

    if (s->compression == MR_FILE_ZSTD) {
        size_t most = ZSTD_compressBound(size);
        unsigned char *packed = mr_buf_reserve(to, most);
        size_t n = packed == NULL ? 0 : ZSTD_compress(packed, most, data, size, 1);

        if (packed == NULL || ZSTD_isError(n)) {
            abort();
        }
        to->len += n;
        return;
    }
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, s->compression == MR_FILE_GZIP ? 15 + 16 : 15, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        abort();
    }
    size_t bound = deflateBound(&z, (uLong)size);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (unsigned)size;
    z.next_out = mr_buf_reserve(to, bound);
    z.avail_out = (unsigned)bound;
    if (z.next_out == NULL || deflate(&z, Z_FINISH) != Z_STREAM_END) {
        abort();
    }
    to->len += bound - z.avail_out;
    (void)deflateEnd(&z);
}

static struct mr_buf make_file(const struct shape *s, const uint8_t *data, size_t size)
{
    struct mr_buf plain = MR_BUF_INIT, file = MR_BUF_INIT;

    put(&plain, "", 0); /* so that there is memory */
    if (s->framed && s->next == mr_tfrecord_next) {
        frame(&plain, data, size);
    } else {
        put(&plain, data, size);
    }
    if (s->compression == MR_FILE_PLAIN || !s->compressed) {
        file = plain;
        plain = (struct mr_buf)MR_BUF_INIT;
    } else {
        size_t half = s->twice ? plain.len / 2 : plain.len;

        compress_part(&file, s, plain.data, half);
        if (s->twice) {
            compress_part(&file, s, plain.data + half, plain.len - half);
        }
    }
    if (s->damaged && file.len > 0) {
        file.data[size % file.len] ^= 1;
    }
    mr_buf_free(&plain);
    return file;
}

/* ---- reading ---- */

static struct mr_record_file *open_file(const char *path, const struct shape *s,
                                        size_t buffer_bytes)
{
    struct mr_record_file *f;

    if (mr_record_file_open(path, s->compression, buffer_bytes, &f, NULL) < 0) {
        abort();
    }
    f->fixed = s->fixed;
    return f;
}

/* Until the end, or an error after which nothing comes. */
static void read_all(struct mr_record_file *f, const struct shape *s, struct outcome *o)
{
    memset(o, 0, sizeof *o);
    for (;;) {
        mr_error err = {0};
        size_t before = o->records.len;
        int rc = s->next(f, RECORD_BYTES_MAX, &o->records, &err);

        if (o->records.len < before || (rc != MR_OK && o->records.len != before) ||
            (rc < 0 && (err.code != rc || err.message[0] == '\0'))) {
            fprintf(stderr, "fuzz: an error leaves something behind, or says nothing: %d\n", rc);
            abort();
        }
        if (rc == MR_END || o->n == RECORDS_MAX) {
            return;
        }
        o->codes[o->n] = rc;
        o->ends[o->n] = o->records.len;
        o->positions[o->n] = mr_record_file_position(f);
        o->numbers[o->n++] = f->record;
    }
}

static size_t begin_of(const struct outcome *o, size_t record)
{
    return record == 0 ? 0 : o->ends[record - 1];
}

/* @b is what @a has from record @from on. */
static void compare(const struct outcome *a, size_t from, const struct outcome *b)
{
    size_t skipped = begin_of(a, from);

    for (size_t i = from; i < a->n; i++) {
        size_t k = i - from;

        if (k >= b->n || a->codes[i] != b->codes[k] || a->ends[i] - skipped != b->ends[k] ||
            (a->codes[i] == MR_OK &&
             (a->positions[i] != b->positions[k] || a->numbers[i] != b->numbers[k]))) {
            fprintf(stderr, "fuzz: record %zu is another one when it is read again from %zu on\n",
                    i, from);
            abort();
        }
    }
    if (a->n < RECORDS_MAX && (b->n != a->n - from || b->records.len != a->records.len - skipped)) {
        fprintf(stderr, "fuzz: there are %zu records, and %zu from %zu on\n", a->n, b->n, from);
        abort();
    }
    size_t n = a->records.len - skipped;
    if (n > 0 && memcmp(a->records.data + skipped, b->records.data, n) != 0) {
        fprintf(stderr, "fuzz: other bytes when it is read again from record %zu on\n", from);
        abort();
    }
}

static void look_at(const char *path, const struct shape *s)
{
    static const size_t buffers[] = {1, 7, 64};
    struct outcome whole, again;
    struct mr_record_file *f = open_file(path, s, FILE_BYTES_MAX);

    read_all(f, s, &whole);
    mr_record_file_close(f);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        f = open_file(path, s, buffers[i]);
        read_all(f, s, &again);
        compare(&whole, 0, &again);
        mr_record_file_close(f);
        mr_buf_free(&again.records);
    }
    for (size_t i = 1; i < whole.n && whole.codes[i - 1] == MR_OK; i += 1 + i / 4) {
        f = open_file(path, s, 64);
        if (mr_record_file_seek(f, whole.positions[i - 1], whole.numbers[i - 1], NULL) != MR_OK) {
            fprintf(stderr, "fuzz: there is no way to record %zu\n", i);
            abort();
        }
        read_all(f, s, &again);
        compare(&whole, i, &again);
        mr_record_file_close(f);
        mr_buf_free(&again.records);
    }
    mr_buf_free(&whole.records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];

    if (size < 3 || size > FILE_BYTES_MAX) {
        return 0;
    }
    struct shape s = shape_of(data);
    struct mr_buf file = make_file(&s, data + 3, size - 3);
    int fd = memfd_create("file", MFD_CLOEXEC);
    if (fd < 0 || write(fd, file.data != NULL ? (const void *)file.data : "", file.len) !=
                      (ssize_t)file.len) {
        abort();
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    look_at(path, &s);
    (void)close(fd);
    mr_buf_free(&file);
    return 0;
}
