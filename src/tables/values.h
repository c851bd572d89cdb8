/*
 * The values of a Parquet page, in any of its encodings, nulls left out.
 *
 * Threads: none of its own.
 */
#pragma once

#include "base/buf.h"
#include "element/buffer.h"
#include "tables/rle.h"
#include "tables/sink.h"

enum mr_physical {
    MR_PHYSICAL_BOOL = 0,
    MR_PHYSICAL_INT32 = 1,
    MR_PHYSICAL_INT64 = 2,
    MR_PHYSICAL_INT96 = 3,
    MR_PHYSICAL_FLOAT = 4,
    MR_PHYSICAL_DOUBLE = 5,
    MR_PHYSICAL_BYTES = 6,
    MR_PHYSICAL_FIXED = 7,
};

enum mr_encoding {
    MR_ENCODING_PLAIN = 0,
    MR_ENCODING_PLAIN_DICTIONARY = 2,
    MR_ENCODING_RLE = 3,
    MR_ENCODING_DELTA = 5,
    MR_ENCODING_DELTA_LENGTH = 6,
    MR_ENCODING_DELTA_BYTES = 7,
    MR_ENCODING_DICTIONARY = 8,
    MR_ENCODING_STREAM_SPLIT = 9,
};

struct mr_physical_type {
    enum mr_physical kind;
    size_t width; /* bytes; 1 for BOOL (0 or 1), 0 for BYTES */
};

struct mr_dictionary {
    size_t n;
    struct mr_sink values;
};

struct mr_values {
    struct mr_physical_type type;
    enum mr_encoding encoding;
    const unsigned char *at;
    const unsigned char *end;
    size_t next; /* number of the next value */
    struct mr_rle rle;
    const struct mr_dictionary *dictionary;
    mr_buffer *numbers; /* DELTA: values; else lengths of strings */
    mr_buffer *prefixes;
    size_t count;       /* of those; STREAM_SPLIT: of values */
    struct mr_buf last; /* DELTA_BYTES: the value before */
};

/* @n values in PLAIN encoding. */
int mr_dictionary_read(struct mr_dictionary *d, struct mr_physical_type type, const void *p,
                       size_t size, size_t n, mr_error *err);
void mr_dictionary_free(struct mr_dictionary *d);

/* At most @most values; the bytes are lent until the next begin. @dictionary may be NULL. */
int mr_values_begin(struct mr_values *v, struct mr_physical_type type, int encoding,
                    const unsigned char *p, size_t size, size_t most,
                    const struct mr_dictionary *dictionary, mr_error *err);
void mr_values_end(struct mr_values *v);
/* The next @n values, of `width` bytes each; not for BYTES. */
int mr_values_fixed(struct mr_values *v, void *to, size_t n, mr_error *err);
/* BYTES: @n more values in @to, which has room for them. */
int mr_values_bytes(struct mr_values *v, struct mr_sink *to, size_t n, mr_error *err);
