/* Random elements for tests, as a naive model: a table of cells that own their values one by one.
 * What blocks do by sharing and pointing, the model does by copying; both must agree. */
#pragma once

#include "base/buf.h"
#include "base/rng.h"
#include "element/block.h"

struct cell {
    uint8_t dtype;
    uint8_t rank;
    int64_t dims[MR_RANK_MAX];
    uint64_t values;
    struct mr_buf payload; /* numbers as they are; strings as u32 length and bytes each */
};

struct table {
    uint32_t rows;
    uint32_t columns;
    struct cell *cells; /* row after row */
};

struct cell *table_cell(const struct table *t, uint32_t row, uint32_t column);
void table_new(struct table *t, uint32_t rows, uint32_t columns);
void table_free(struct table *t);

/* What a table looks like, so that several can be made that fit together. */
struct table_shape {
    uint32_t columns;
    uint8_t dtype[8];
    uint8_t rank[8];
    int64_t dims[8][MR_RANK_MAX]; /* -1: differs between rows */
};
void shape_random(struct mr_rng *rng, struct table_shape *shape);
void table_random(struct mr_rng *rng, const struct table_shape *shape, uint32_t rows,
                  struct table *t);

/* The same as a block, made with mr_block_new(); columns whose rows differ are VAR, others either
 * kind. */
mr_block *table_to_block(struct mr_rng *rng, const struct table *t);
/* Fails the test unless @block holds exactly @t. */
void assert_block_is(const mr_block *block, const struct table *t);

/* Append rows [first, first + count) of @from to @to (made by table_new() with 0 rows). */
void table_append(struct table *to, const struct table *from, uint32_t first, uint32_t count);
bool table_batch(const struct table *from, uint32_t per, struct table *to);
bool table_unbatch(const struct table *from, struct table *to);
