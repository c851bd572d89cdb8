/*
 * Writing TFRecord files: records with their lengths and CRC32C checksums, plain or compressed as a
 * whole.
 *
 * Reading them is dataset operator "tfrecord". Threads: a writer belongs to one thread at a time.
 */
#ifndef MILLRACE_TFRECORD_H
#define MILLRACE_TFRECORD_H

#include <millrace/base.h>

MR_BEGIN_DECLS

typedef struct mr_tfrecord_writer mr_tfrecord_writer;

/*
 * Create @path, or truncate it. @compression is "" (or NULL), "GZIP", "ZLIB" or "ZSTD"; @level is
 * zlib's, 0 (none) to 9 (most), or zstd's, 0 (its default) to 19, or -1 for the default. *@ret
 * belongs to the caller (mr_tfrecord_writer_close()).
 */
MR_API int mr_tfrecord_writer_open(const char *path, const char *compression, int level,
                                   mr_tfrecord_writer **ret, mr_error *err);
/* Append one record. After an error the file is cut short there: all later calls fail the same
 * way. */
MR_API int mr_tfrecord_writer_write(mr_tfrecord_writer *w, const void *bytes, size_t size,
                                    mr_error *err);
/* What was written so far is handed to the system and can be read. */
MR_API int mr_tfrecord_writer_flush(mr_tfrecord_writer *w, mr_error *err);
/* Finish the file and release @w, also on failure. NULL is fine. */
MR_API int mr_tfrecord_writer_close(mr_tfrecord_writer *w, mr_error *err);

MR_END_DECLS

#endif
