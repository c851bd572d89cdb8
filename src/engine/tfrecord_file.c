/* TFRecord: framed records with checksums. */
#include "engine/crc32c.h"
#include "engine/record_file.h"

#define HEADER_BYTES 12u
#define FOOTER_BYTES 4u

static uint32_t load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load_u64(const unsigned char *p)
{
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

/* The data of a record, in steps: a length that lies about the file must not take its memory at
 * once. */
static int read_data(struct mr_record_file *f, uint64_t begin, uint64_t length, struct mr_buf *to,
                     mr_error *err)
{
    if (to == NULL) {
        return mr_record_file_skip(f, length, "the file ends in the middle of it", err);
    }
    while (length > 0) {
        size_t step = length < (4u << 20) ? (size_t)length : 4u << 20;
        size_t got = 0;
        unsigned char *p = mr_buf_reserve(to, step);

        if (p == NULL) {
            return mr_record_file_no_room(f, begin, to, err);
        }

        MR_TRY(mr_record_file_read(f, p, step, &got, err));
        if (got < step) {
            return mr_record_file_damaged(f, begin, "the file ends in the middle of it", err);
        }
        to->len += step;
        length -= step;
    }
    return MR_OK;
}

/* What is wrong with a length that does not fit its checksum, as well as @header tells. */
static const char *why_no_length(const struct mr_record_file *f, uint64_t begin,
                                 const unsigned char *header)
{
    static const unsigned char gzip[] = {0x1f, 0x8b, 8};
    static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd};

    if (begin == 0 && f->compression == MR_FILE_PLAIN) {
        if (memcmp(header, gzip, sizeof gzip) == 0) {
            return "the file is compressed: compression_type=\"GZIP\"";
        }
        if (memcmp(header, zstd, sizeof zstd) == 0) {
            return "the file is compressed: compression_type=\"ZSTD\"";
        }
    }
    return begin == 0 ? "its length is damaged, or it is no TFRecord file"
                      : "its length is damaged; the rest of the file cannot be read";
}

static int read_header(struct mr_record_file *f, size_t record_bytes_max, uint64_t *length,
                       mr_error *err)
{
    unsigned char header[HEADER_BYTES];
    uint64_t begin = f->offset;
    size_t got = 0;

    MR_TRY(mr_record_file_read(f, header, sizeof header, &got, err));
    if (got == 0) {
        return MR_END;
    }
    if (got < sizeof header) {
        return mr_record_file_damaged(f, begin, "the file ends in the middle of its length", err);
    }
    if (mr_crc32c_masked(header, 8) != load_u32(header + 8)) {
        return mr_record_file_damaged(f, begin, why_no_length(f, begin, header), err);
    }
    *length = load_u64(header);
    if (*length > record_bytes_max) {
        f->too_large = true;
        return mr_error_set(err, MR_EEXHAUSTED,
                            "file '%s', offset %" PRIu64 ", record %" PRIu64 ": %" PRIu64
                            " bytes, the limit is %zu",
                            MR_SHOWN_PATH_PART(f->path), begin, f->record, *length,
                            record_bytes_max);
    }
    return MR_OK;
}

int mr_tfrecord_next(struct mr_record_file *f, size_t record_bytes_max, struct mr_buf *to,
                     mr_error *err)
{
    unsigned char footer[FOOTER_BYTES];
    uint64_t begin = f->offset;
    uint64_t length = 0;
    size_t kept = to != NULL ? to->len : 0;
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
        rc = mr_record_file_read(f, footer, sizeof footer, &got, err);
    }
    if (rc == MR_OK && got < sizeof footer) {
        rc = mr_record_file_damaged(f, begin, "the file ends in the middle of it", err);
    }
    if (rc != MR_OK) {
        f->ended = true;
        if (to != NULL) {
            to->len = kept;
        }
        return rc;
    }
    if (to != NULL && mr_crc32c_masked(length > 0 ? (const void *)(to->data + kept) : "",
                                       (size_t)length) != load_u32(footer)) {
        rc = mr_record_file_damaged(f, begin, "its data is damaged", err);
        to->len = kept;
    }
    f->record++;
    return rc;
}
