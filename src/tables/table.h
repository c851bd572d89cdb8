/*
 * Files of tables: the port. A file has columns, and row groups (record batches) that are read one
 * by one; what is read comes as Arrow's C structs (arrow_abi.h), so that a format, or the library
 * that reads it, is one adapter: struct mr_table_format.
 *
 * No adapter trusts its file: all lengths are checked, and memory is bounded by what the budget of
 * the thread (base/memory.h) and MR_ELEMENT_BYTES_MAX allow.
 *
 * Threads: a table belongs to one thread at a time, except that several may read parts of the same
 * rows.
 */
#pragma once

#include "base/base.h"
#include "tables/arrow_abi.h"

#define MR_TABLE_COLUMNS_MAX 65536u

/* Where the bytes come from. */
struct mr_table_input {
    void *ctx;
    uint64_t size;
    /* All of @n bytes at @offset, which the file has; an error names the file. */
    int (*read)(void *ctx, uint64_t offset, void *to, size_t n, mr_error *err);
};

struct mr_table;

struct mr_table_format {
    const char *name;  /* "Parquet" */
    const char *group; /* "row group" */
    /* *@ret starts with struct mr_table, zeroed but for `format` and `in`. On failure close() is
     * called: it takes half-open tables. */
    size_t size;
    int (*open)(struct mr_table *t, mr_error *err);
    int (*begin)(struct mr_table *t, mr_error *err);
    /* The next @rows rows of column chosen[@i]; the columns take turns. */
    int (*column)(struct mr_table *t, uint32_t i, uint32_t rows, struct ArrowArray *ret,
                  mr_error *err);
    void (*close)(struct mr_table *t);
    bool seeks; /* column() reads from any `row`; else they are read one behind the other */
    bool apart; /* column() may be called for several columns at once */
};

struct mr_table_group {
    int64_t rows;
    int64_t bytes; /* as the file says; a hint */
};

struct mr_table_column {
    struct ArrowSchema schema;
    /* "a struct": what it is that nobody reads, and `schema` is empty then; NULL: it is read */
    const char *unread;
    char *name;
};

struct mr_table {
    const struct mr_table_format *format;
    struct mr_table_input in;
    struct mr_table_column *columns;
    uint32_t ncolumns;
    struct mr_table_group *groups;
    uint32_t ngroups;
    /* what begin() was asked for */
    uint32_t group;
    uint32_t *chosen; /* indices of columns */
    uint32_t nchosen;
    int64_t row; /* of the group: the next */
};

extern const struct mr_table_format mr_table_parquet;
extern const struct mr_table_format mr_table_arrow;

/* Reads what the file says of itself. MR_EDATALOSS says what is damaged. */
int mr_table_open(const struct mr_table_format *format, const struct mr_table_input *in,
                  struct mr_table **ret, mr_error *err);
void mr_table_close(struct mr_table *t); /* NULL is fine */

/* The index of the column @name; UINT32_MAX: there is none. The last of several is not found:
 * MR_EINVAL where a name stands twice. */
int mr_table_find(const struct mr_table *t, const char *name, size_t size, uint32_t *ret,
                  mr_error *err);
/* The next rows are those of group @group from row @row on, columns @chosen. After an error a
 * group is begun again or left. */
int mr_table_begin(struct mr_table *t, uint32_t group, int64_t row, const uint32_t *chosen,
                   uint32_t n, mr_error *err);
/* Up to @rows rows (at least one) as one struct array with a child for each chosen column. MR_END
 * behind the group's last row. */
int mr_table_next(struct mr_table *t, uint32_t rows, struct ArrowArray *ret, mr_error *err);

/* The same in parts, which any threads may read, several at once. Until the rows are taken or
 * dropped nothing else is done with the table. */
struct mr_table_rows {
    struct mr_table *t;
    uint32_t parts; /* of one or more columns, in their order */
    struct ArrowArray array;
};
int mr_table_rows_begin(struct mr_table *t, uint32_t rows, struct mr_table_rows *ret,
                        mr_error *err);
/* Each once. After an error the rows are dropped. */
int mr_table_rows_part(const struct mr_table_rows *r, uint32_t part, mr_error *err);
/* All parts were read. */
void mr_table_rows_take(struct mr_table_rows *r, struct ArrowArray *ret);
void mr_table_rows_drop(struct mr_table_rows *r); /* zeros are fine */

/* ---- for adapters ---- */

/* MR_EDATALOSS, with what is wrong. */
int mr_table_damaged(mr_error *err, const char *fmt, ...) MR_PRINTF(2, 3);
/* Whether so many bytes may be had at once: MR_EEXHAUSTED, with MR_MEMORY_UNNAMED, as buffers that
 * are refused have it. */
int mr_table_room(uint64_t bytes, mr_error *err);
