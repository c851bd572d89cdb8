/*
 * A bag of single rows, as shuffle keeps them: rows that are small are copied out of their blocks,
 * so that one of them does not hold a whole block in memory; large ones are kept by reference. Rows
 * of one fixed size lie packed in one array, other small ones are images (element/row_image.h).
 * Beside what is copied stands where it comes from, if somebody wants to know (element/origin.h) or
 * there are records that it was read from (element/trace.h), and its place, if it has one
 * (element/places.h).
 *
 * What is held is charged to the environment's budget. Threads: none.
 *
 * What is known of the records is for words only: where there is no memory for it, rows have none.
 */
#pragma once

#include "element/trace.h"
#include "engine/env.h"
#include "engine/gather.h"

/* From here on a row is kept by reference. */
#define MR_ROW_COPY_BYTES_MAX 4096u

/* One of the two is set. */
struct mr_single_row {
    mr_block *block; /* of one row */
    void *image;
};

/* Which records rows come from, of one bag or of several. */
struct mr_rows_log {
    struct mr_env *env;
    struct mr_trace_log log;
    size_t charged;        /* for what it holds */
    const mr_block *block; /* that rows were last added of, which is there; or NULL */
    uint32_t base;         /* number of its row 0 */
};

struct mr_rows {
    struct mr_env *env;
    struct mr_rows_log *log; /* lent */
    const mr_spec *spec;
    size_t fixed;          /* bytes of every row, if that is known and small; else 0 */
    bool images;           /* else: small rows are images */
    unsigned char *packed; /* if fixed: `cap` slots */
    uint32_t *slots;       /* of row i, and behind the last row those that are free */
    size_t slots_cap;
    mr_origin **origins; /* of what is copied: a reference for each row, or NULL: it has none */
    size_t origins_cap;  /* 0: no row had an origin so far */
    uint64_t *places;    /* element/places.h, of what is copied, if `placed` */
    size_t places_cap;
    bool placed;       /* all rows have places */
    uint32_t *numbers; /* of what is copied, in the log, if some row has one */
    size_t numbers_cap;
    struct mr_single_row *single; /* if not fixed */
    size_t n;
    size_t cap;
    size_t charged; /* for single rows */
    size_t arrays;  /* charged for the arrays */
};

/* Rows on their way out, in one block. */
struct mr_rows_out {
    mr_block *block; /* if fixed: allocated for `cap` rows */
    void **images;   /* those behind the rows of `gather` */
    uint32_t nimages;
    uint32_t images_cap;
    bool owns_images;
    size_t image_bytes;
    mr_origin *origin; /* of the copied rows that were put */
    uint32_t *numbers; /* of the same, in the log; NULL: none has one */
    uint64_t *places;  /* of the same: of the first `nplaces` */
    uint32_t nplaces;
    struct mr_gather gather;
    uint64_t n;
    uint32_t cap;
};

/* @log: zeroed but for `env`, with room for what several bags know. It outlives them. */
void mr_rows_init(struct mr_rows *s, struct mr_env *env, const mr_spec *spec,
                  struct mr_rows_log *log);
/* Lets go of what the log holds for rows that have left, if it is time: when nothing is on its way
 * out. @bags are all that there are. */
void mr_rows_log_clean(struct mr_rows_log *log, struct mr_rows *const *bags, size_t n);
/* No more rows of the block that rows were last added of come, and it may go: another one at its
 * address would be taken for it. */
void mr_rows_log_done(struct mr_rows_log *log);
void mr_rows_log_free(struct mr_rows_log *log); /* zeroed is fine */
void mr_rows_free(struct mr_rows *s);           /* zeroed is fine */

/* Add row @row of @block; behind the last of these, mr_rows_log_done(). MR_EEXHAUSTED with traits 0 and nothing changed if the budget does not
 * allow it. */
int mr_rows_add(struct mr_rows *s, mr_block *block, uint32_t row, mr_error *err);
/* Bytes held. */
size_t mr_rows_bytes(const struct mr_rows *s);

/* At most @cap rows will leave. */
int mr_rows_out_begin(const struct mr_rows *s, uint32_t cap, struct mr_rows_out *out,
                      mr_error *err);
/* Row @i is likely to be asked for next: it comes into the core's cache meanwhile. */
void mr_rows_prefetch(const struct mr_rows *s, size_t i);
/* Row @i leaves for @out; the last one takes its place. On failure it stays. */
int mr_rows_move(struct mr_rows *s, size_t i, struct mr_rows_out *out, mr_error *err);
/* true when the block is as large as @bytes, or full. */
bool mr_rows_out_full(const struct mr_rows *s, const struct mr_rows_out *out, size_t bytes);
/* 1..@rows of the rows that left @s (fewer if their tensors differ in rank); at least one has. What
 * is left over, also after a failure, is to be taken before another row leaves. */
int mr_rows_out_take(const struct mr_rows *s, struct mr_rows_out *out, uint32_t rows,
                     mr_block **ret, mr_error *err);
/* All that is to be taken lies in `gather`: so it can be saved. On failure it can be tried
 * again. */
int mr_rows_out_settle(const struct mr_rows *s, struct mr_rows_out *out, mr_error *err);
void mr_rows_out_free(struct mr_rows_out *out);

/* All rows in their order, in blocks; an error of @take ends it. The blocks are lent. */
int mr_rows_each_block(const struct mr_rows *s,
                       int (*take)(void *ctx, const mr_block *rows, mr_error *err), void *ctx,
                       mr_error *err);
/* As part of an iterator's state; restored into an empty bag. */
int mr_rows_state(struct mr_rows *rows, struct mr_state *s, mr_error *err);
