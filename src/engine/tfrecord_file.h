/*
 * Reading TFRecord files. Framing: length u64, masked CRC32C of it u32, data, masked CRC32C of the data u32; all
 * little-endian. Compressed files are compressed as a whole: offsets are of the uncompressed bytes.
 *
 * Threads: a reader belongs to one thread at a time.
 */
#ifndef MR_ENGINE_TFRECORD_FILE_H
#define MR_ENGINE_TFRECORD_FILE_H

#include "base/buf.h"

enum mr_tfrecord_compression { MR_TFRECORD_PLAIN, MR_TFRECORD_GZIP, MR_TFRECORD_ZLIB };

/* "", "GZIP", "ZLIB"; MR_EINVAL names what else it is. */
int mr_tfrecord_compression_parse(const char *s, size_t size, enum mr_tfrecord_compression *ret, mr_error *err);

struct mr_tfrecord_file;

int mr_tfrecord_file_open(const char *path, enum mr_tfrecord_compression compression, size_t buffer_bytes,
                          struct mr_tfrecord_file **ret, mr_error *err);
void mr_tfrecord_file_close(struct mr_tfrecord_file *f); /* NULL is fine */

/*
 * Append the next record's data to @to. MR_END after the last. MR_EDATALOSS names file, offset and record number. A
 * record whose data is damaged is passed over: reading goes on behind it. After a damaged length, or the end of the
 * file in the middle of a record, there is no way to find the next one: MR_END from then on.
 */
int mr_tfrecord_file_next(struct mr_tfrecord_file *f, size_t record_bytes_max, struct mr_buf *to, mr_error *err);

/* Where the next record begins, and its number; and going there. */
uint64_t mr_tfrecord_file_offset(const struct mr_tfrecord_file *f);
uint64_t mr_tfrecord_file_record(const struct mr_tfrecord_file *f);
/* Nothing more can be read. */
bool mr_tfrecord_file_ended(const struct mr_tfrecord_file *f);
int mr_tfrecord_file_seek(struct mr_tfrecord_file *f, uint64_t offset, uint64_t record, mr_error *err);

#endif
