/*
 * Parquet, inside: what the footer says, and reading one column of a row group.
 *
 * What is read: columns of values, and of lists of values (one level). What is not, is `unread` in
 * the table's columns.
 *
 * Threads: a table belongs to one thread at a time, and so does each reader of a column.
 */
#pragma once

#include "element/buffer.h"
#include "tables/codec.h"
#include "tables/table.h"
#include "tables/values.h"

/* What becomes of a value. */
enum mr_parquet_convert {
    MR_CONVERT_NONE,
    MR_CONVERT_TO_8_BITS,
    MR_CONVERT_TO_16_BITS,
    MR_CONVERT_TO_NANOSECONDS, /* of INT96 */
};

/* A column of the file, as far as it is read. Levels say which value is null, and where a list
 * begins: those of a value that is there are `max_def`. */
struct mr_parquet_leaf {
    struct mr_physical_type type;
    enum mr_parquet_convert convert;
    size_t width; /* of what it is converted to */
    uint32_t max_def;
    bool list;
    uint32_t list_def;  /* from here on the list is not null */
    uint32_t value_def; /* from here on the list has an element */
    uint32_t index;     /* among the row group's column chunks */
};

struct mr_parquet_chunk {
    int32_t physical;
    int32_t codec;
    int64_t values;
    int64_t bytes;
    int64_t data_at;
    int64_t dictionary_at; /* 0: not said */
    bool elsewhere;        /* in another file */
    bool encrypted;
};

struct mr_parquet_reader;

struct mr_parquet {
    struct mr_table t;
    mr_buffer *footer;
    struct mr_parquet_leaf *leaves; /* of each of the table's columns */
    uint32_t nchunks;               /* of a row group */
    const unsigned char **chunks;   /* of each row group: where the footer lists them */
    struct mr_parquet_reader **readers;
    uint32_t nreaders;
};

/* Footer and schema. */
int mr_parquet_open(struct mr_table *t, mr_error *err);
/* Where the chunk of @leaf in row group @group is. */
int mr_parquet_find_chunk(const struct mr_parquet *f, uint32_t group,
                          const struct mr_parquet_leaf *leaf, struct mr_parquet_chunk *ret,
                          mr_error *err);

/* parquet_schema.c: the columns of the schema at @t. */
struct mr_thrift;
struct mr_thrift_field;
int mr_parquet_schema(struct mr_parquet *f, struct mr_thrift *t,
                      const struct mr_thrift_field *field, mr_error *err);

/* parquet_page.c: the pages of a chunk, one by one. */
struct mr_parquet_pages {
    const struct mr_table_input *in;
    enum mr_codec codec;
    uint64_t offset; /* in the file, of what is behind the window */
    uint64_t end;
    mr_buffer *window; /* bytes of the file; what is in [at, filled) comes next */
    size_t at;
    size_t filled;
    mr_buffer *plain; /* the page, decompressed */
};
struct mr_parquet_page {
    bool dictionary;
    int encoding;
    uint32_t values; /* nulls and empty lists included */
    /* levels, and the values behind them; lent until the next page */
    const unsigned char *rep;
    size_t rep_size;
    const unsigned char *def;
    size_t def_size;
    const unsigned char *data;
    size_t data_size;
};
int mr_parquet_pages_begin(struct mr_parquet_pages *p, const struct mr_table_input *in,
                           const struct mr_parquet_chunk *chunk, mr_error *err);
void mr_parquet_pages_end(struct mr_parquet_pages *p);
/* The next that has values; MR_END behind the last. @rep, @def: whether there are such levels. */
int mr_parquet_next_page(struct mr_parquet_pages *p, bool rep, bool def,
                         struct mr_parquet_page *ret, mr_error *err);

/* parquet_column.c */
int mr_parquet_reader_new(const struct mr_table_input *in, const struct mr_parquet_leaf *leaf,
                          const struct mr_parquet_chunk *chunk, struct mr_parquet_reader **ret,
                          mr_error *err);
void mr_parquet_reader_free(struct mr_parquet_reader *r); /* NULL is fine */
/* The next @rows rows: an array of the column's format. */
int mr_parquet_read(struct mr_parquet_reader *r, uint32_t rows, struct ArrowArray *ret,
                    mr_error *err);
