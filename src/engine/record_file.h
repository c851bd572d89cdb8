/*
 * Reading files of records one after the other, compressed or not. Compressed files are compressed
 * as a whole: offsets are of the uncompressed bytes.
 *
 * TFRecord framing: length u64, masked CRC32C of it u32, data, masked CRC32C of the data u32; all
 * little-endian.
 *
 * Threads: a reader belongs to one thread at a time.
 */
#pragma once

#include "base/buf.h"
#include "engine/zstd_file.h"

#include <zlib.h>

enum mr_file_compression { MR_FILE_PLAIN, MR_FILE_GZIP, MR_FILE_ZLIB, MR_FILE_ZSTD };

/* "", "GZIP", "ZLIB", "ZSTD"; MR_EINVAL names what else it is. */
int mr_file_compression_parse(const char *s, size_t size, enum mr_file_compression *ret,
                              mr_error *err);

/* What mr_fixed_record_next() reads: set before the first record. */
struct mr_fixed_format {
    uint64_t header_bytes;
    uint64_t record_bytes;
    uint64_t footer_bytes;
    unsigned char *ahead; /* the last footer_bytes that were read; NULL: nothing was */
};

/* The fields are the business of record_file.c and of the formats built on it. */
struct mr_record_file {
    char *path;
    int fd;
    enum mr_file_compression compression;
    unsigned char *buffer; /* as read */
    size_t size;
    size_t at;
    size_t end;
    unsigned char *plain; /* uncompressed, for formats that look ahead; NULL: not needed so far */
    size_t plain_at;
    size_t plain_end;
    z_stream z;
    bool inflating;
    bool full; /* the last call of inflate() filled its room: it may hold more */
    struct mr_unzstd zstd;
    bool member_ended; /* of a GZIP file, or a frame: there may be another */
    bool damaged;      /* the compressed data is, from here on */
    bool wide;         /* a frame's window is too large */
    uint64_t offset;   /* of the next byte, uncompressed */
    uint64_t record;   /* number of the next, from 0 */
    bool ended;
    /* what the format failed for: the record is above its bound, or what memory there is */
    bool too_large;
    struct mr_fixed_format fixed;
};

int mr_record_file_open(const char *path, enum mr_file_compression compression, size_t buffer_bytes,
                        struct mr_record_file **ret, mr_error *err);
void mr_record_file_close(struct mr_record_file *f); /* NULL is fine */
/* Where the next record begins. */
uint64_t mr_record_file_position(const struct mr_record_file *f);
/* Go to where record @record begins, before anything was read. */
int mr_record_file_seek(struct mr_record_file *f, uint64_t offset, uint64_t record, mr_error *err);

/* A format: append the next record's data to @to, or, where that is NULL, pass it over. MR_END
 * after the last. Errors name file, offset and record. After one behind which the next record
 * cannot be found, and one that is `too_large`, `ended` is set and it is MR_END from then on. */
typedef int mr_record_next(struct mr_record_file *f, size_t record_bytes_max, struct mr_buf *to,
                           mr_error *err);

/* A record whose data is damaged is passed over: reading goes on behind it. A damaged length ends
 * the file. */
mr_record_next mr_tfrecord_next;
/* A line without its end, "\n" or "\r\n". Behind the last end of line there is no line. */
mr_record_next mr_text_line_next;
/* The same, but an end of line between quotes belongs to the record. */
mr_record_next mr_csv_record_next;
/* Records of one length. */
mr_record_next mr_fixed_record_next;

/* ---- for formats ---- */

/* Up to @n uncompressed bytes; fewer only at the end of the file. */
int mr_record_file_read(struct mr_record_file *f, unsigned char *to, size_t n, size_t *got,
                        mr_error *err);
/* What is there of the next bytes, at least one; MR_END at the end. They count as read when
 * mr_record_file_pass() says so. Not together with mr_record_file_read(). */
int mr_record_file_peek(struct mr_record_file *f, const unsigned char **ret, size_t *n,
                        mr_error *err);
void mr_record_file_pass(struct mr_record_file *f, size_t n);
/* So many uncompressed bytes are passed over; what to say if there are fewer. */
int mr_record_file_skip(struct mr_record_file *f, uint64_t bytes, const char *too_short,
                        mr_error *err);
/* MR_EEXHAUSTED: there is no memory for the record at @offset in @to. */
int mr_record_file_no_room(struct mr_record_file *f, uint64_t offset, const struct mr_buf *to,
                           mr_error *err);
/* MR_EDATALOSS about the record at @offset. */
int mr_record_file_damaged(const struct mr_record_file *f, uint64_t offset, const char *what,
                           mr_error *err);
