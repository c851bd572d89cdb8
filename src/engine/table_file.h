/*
 * Files of tables (src/tables) on disk, and their rows as blocks.
 *
 * Threads: a file belongs to one thread at a time.
 */
#pragma once

#include "tables/arrow_block.h"
#include "tables/table.h"

struct mr_table_file {
    char *path;
    int fd;
    struct mr_table *table;
    struct mr_table_column_want *wants; /* of each component */
    uint32_t *columns;                  /* the table's, of each component */
    uint32_t n;
};

/* What is wanted as component i. */
struct mr_table_column_want {
    const char *name; /* lent */
    size_t name_size;
    struct mr_leaf_spec leaf;
    const struct mr_column *instead; /* lent; what null is; NULL: an error */
};

/* Errors name the file and the column. */
int mr_table_file_open(const char *path, const struct mr_table_format *format,
                       const struct mr_table_column_want *wants, uint32_t n,
                       struct mr_table_file **ret, mr_error *err);
void mr_table_file_close(struct mr_table_file *f); /* NULL is fine */
/* The next rows come from row @row of @group. */
int mr_table_file_begin(struct mr_table_file *f, uint32_t group, int64_t row, mr_error *err);
/* Up to @rows rows. MR_END: the group has no more. *@bad (freed with mr_free(), NULL: none): of
 * each row the number of the first component, from 1, that is null and has nothing instead; 0:
 * none. */
int mr_table_file_read(struct mr_table_file *f, uint32_t rows, mr_block **ret, uint32_t **bad,
                       mr_error *err);
/* The same of rows of its table, all parts of which were read. */
int mr_table_file_take(struct mr_table_file *f, struct mr_table_rows *rows, mr_block **ret,
                       uint32_t **bad, mr_error *err);
/* MR_EINVAL: row @row of @group is null in component @i. */
int mr_table_file_null(const struct mr_table_file *f, uint32_t group, int64_t row, uint32_t i,
                       mr_error *err);
