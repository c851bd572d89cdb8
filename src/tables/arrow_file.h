/*
 * Arrow's IPC format, as a file and as a stream, inside. A record batch is read in pieces: of what
 * is not compressed only the rows that are asked for.
 *
 * Threads: a table belongs to one thread at a time.
 */
#pragma once

#include "element/buffer.h"
#include "tables/codec.h"
#include "tables/flatbuffer.h"
#include "tables/table.h"

#define MR_ARROW_FORMAT_BYTES 24

enum mr_arrow_layout {
    MR_LAYOUT_FIXED,
    MR_LAYOUT_BITS,
    MR_LAYOUT_BYTES32,
    MR_LAYOUT_BYTES64,
    MR_LAYOUT_LIST32,
    MR_LAYOUT_LIST64,
    MR_LAYOUT_LIST_FIXED,
    MR_LAYOUT_OTHER, /* is not read */
};

struct mr_arrow_type {
    enum mr_arrow_layout layout;
    int64_t size;  /* FIXED: bytes of a value; LIST_FIXED: values of a list */
    int buffers;   /* that a batch has of it, children left out */
    bool variadic; /* and so many more as the batch says */
    char format[MR_ARROW_FORMAT_BYTES];
    const char *other; /* what it is that is not read */
};

/* A field, its children behind it. */
struct mr_arrow_node {
    struct mr_arrow_type type; /* as it lies in a batch: of a dictionary's indices */
    bool has_dictionary;
    int64_t dictionary;
    struct mr_arrow_type values; /* of the dictionary */
    uint32_t children;
};

struct mr_arrow_message {
    uint64_t offset; /* in the file */
    uint32_t head;   /* bytes before the body */
    int64_t body;    /* bytes of it */
    int64_t dictionary;
};

/* A batch that was begun: its head, and where its parts are in it. */
struct mr_arrow_batch {
    mr_buffer *head;
    struct mr_flat flat;
    struct mr_flat_vector nodes;
    struct mr_flat_vector buffers;
    struct mr_flat_vector variadic;
    uint64_t body_at;
    uint64_t body_size;
    enum mr_codec codec;
    mr_buffer **plain; /* of each buffer that was decompressed */
    uint64_t fetched;  /* bytes that no array has yet, which are charged */
};

struct mr_arrow_dictionary {
    uint32_t node;
    struct ArrowArray values; /* shared with the arrays that have it */
};

struct mr_arrow {
    struct mr_table t;
    struct mr_arrow_node *nodes;
    uint32_t nnodes;
    size_t nodes_cap;
    uint32_t *tops; /* node of each column */
    struct mr_arrow_message *batches;
    uint32_t nbatches;
    size_t batches_cap;
    struct mr_arrow_message *dictionaries;
    uint32_t ndictionaries;
    size_t dictionaries_cap;
    struct mr_arrow_batch batch; /* at hand */
    uint32_t *buffer_at;         /* of each node: number of its first buffer in the batch at hand */
    struct mr_arrow_dictionary *read; /* dictionaries that were wanted so far */
    uint32_t nread;
    size_t read_cap;
};

/* arrow_schema.c */
int mr_arrow_read_schema(struct mr_arrow *a, struct mr_flat *f, mr_flat_table schema,
                         mr_error *err);

/* arrow_batch.c */
int mr_arrow_batch_begin(struct mr_arrow *a, const struct mr_arrow_message *m,
                         struct mr_arrow_batch *b, mr_error *err);
void mr_arrow_batch_end(struct mr_arrow_batch *b);
/* Which buffers are whose in @b, into `buffer_at`. */
int mr_arrow_number_buffers(struct mr_arrow *a, struct mr_arrow_batch *b, mr_error *err);
/* Rows [@first, @first + @n) of column @column of the batch at hand. */
int mr_arrow_read_column(struct mr_arrow *a, uint32_t column, int64_t first, int64_t n,
                         struct ArrowArray *ret, mr_error *err);

/* arrow_file.c: the head of the message at @offset; *@ret is the caller's. MR_END: the stream ends
 * there. */
int mr_arrow_read_head(struct mr_arrow *a, uint64_t offset, mr_buffer **ret, struct mr_flat *flat,
                       struct mr_arrow_message *m, mr_error *err);
