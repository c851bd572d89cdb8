/*
 * Inside of src/element: what a block is made of, and the one function that allocates blocks with
 * their payload.
 *
 * A block keeps a list of the buffers that its columns point into (`held`): one reference each,
 * however many columns share it. `owners` names the buffers of each column but counts nothing.
 *
 * A block that brings its own payload is one allocation: mr_block, columns, held list, payload. Its
 * memory belongs to the embedded buffer, of which the block holds one reference like any other; so
 * a slice keeps the memory alive after the block itself is gone.
 */
#pragma once

#include "base/memory.h"
#include "element/block.h"
#include "element/places.h"
#include "element/trace.h"

#include <stdatomic.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "blocks are little-endian in memory and on the wire: this host is not supported"
#endif

#define MR_BLOCK_ALIGN 64u

struct mr_buffer {
    _Atomic uint32_t refs;
    void *data;
    size_t size;
    void (*release)(void *ctx);
    void *ctx;
    _Atomic(mr_memory *) memory; /* what `charged` bytes are charged to; NULL: nobody, or no more */
    size_t charged;
};

void mr_buffer_init(struct mr_buffer *b, void *data, size_t size, void (*release)(void *ctx),
                    void *ctx);
/* @bytes were charged to @memory (NULL: to nobody), for as long as the buffer is there. */
void mr_buffer_set_charged(struct mr_buffer *b, mr_memory *memory, size_t bytes);

/* @size bytes aligned to 64, charged to the thread's budget; *@raw is what mr_spare_free() takes.
 * NULL: there are none, and @err says why. */
void *mr_aligned_memory(size_t size, void **raw, mr_error *err);

/* places.h */
struct mr_block_places {
    bool known;
    uint64_t first;     /* of row r: first + (of != NULL ? of[r] : r) */
    const uint64_t *of; /* NULL: they follow one another */
    mr_buffer *owner;   /* what `of` lies in: one reference, or NULL */
};

struct mr_block {
    _Atomic uint32_t refs;
    uint32_t rows;
    uint32_t ncolumns;
    uint32_t nheld;
    uint32_t held_cap;
    bool embedded;              /* the memory of the block belongs to `own` */
    mr_origin *origin;          /* one reference, or NULL */
    struct mr_trace_view trace; /* one reference */
    struct mr_block_places places;
    mr_buffer **held;
    mr_buffer *(*owners)[3]; /* of each column */
    mr_buffer own;           /* only if embedded */
    struct mr_column columns[];
};

/* What one column of a new block needs. */
struct mr_column_layout {
    uint8_t kind;
    uint8_t dtype;
    uint8_t rank;
    int64_t dims[MR_RANK_MAX]; /* FIXED */
    uint64_t values;           /* of all rows */
    uint64_t heap;             /* MR_STRING: bytes of all values */
};

/* A block with memory for all columns, in one allocation: numbers and heap uninitialised,
 * offsets[0] and starts[0] set to 0. @extra_held: room for so many more buffers in the held list.
 */
int mr_block_layout(uint32_t rows, const struct mr_column_layout *columns, uint32_t n,
                    uint32_t extra_held, mr_block **ret, mr_error *err);

/* A block without payload of its own: columns zeroed, room for @held_cap buffers. */
/* MR_EEXHAUSTED unless a block may be so large. */
int mr_block_check_counts(uint64_t rows, uint64_t columns, mr_error *err);
int mr_block_shell(uint32_t rows, uint32_t n, uint32_t held_cap, mr_block **ret, mr_error *err);
/* Rows [first, first + count) of @block in a block of their own, also if that is all of them. */
int mr_block_share(const mr_block *block, uint32_t first, uint32_t count, mr_block **ret,
                   mr_error *err);
/* Add a reference to @b (NULL is fine) unless the block holds it already. There must be room. */
void mr_block_hold(mr_block *block, mr_buffer *b);
/* Columns @at and so on of @block become those of @from, and it holds all that @from holds. */
void mr_block_copy_columns(mr_block *block, uint32_t at, const mr_block *from);

/* @to was made of the rows of @from (which may carry no origin). */
int mr_block_inherit(mr_block *to, const mr_block *from, mr_error *err);

/* ---- which records rows come from (trace.h) ---- */

mr_trace *mr_trace_ref(mr_trace *trace); /* NULL is fine, here and below */
void mr_trace_unref(mr_trace *trace);
size_t mr_trace_bytes(const mr_trace *trace);
/* Whoever has it now keeps it in memory that is his own business. */
void mr_trace_discharge(mr_trace *trace);
/* The trace of @block's rows as bytes (block.h) at the end of @out; nothing if nothing is known. */
struct mr_buf;
void mr_trace_encode(const mr_block *block, struct mr_buf *out);
/* @to, which has none, was made of what @v says, of rows of @from from @first on, of these rows of
 * @from, of @parts in turn, or of the columns of @blocks. */
void mr_trace_share(mr_block *to, struct mr_trace_view v);
void mr_trace_slice(mr_block *to, const mr_block *from, uint32_t first);
void mr_trace_gather(mr_block *to, const mr_block *from, const uint32_t *rows);
void mr_trace_concat(mr_block *to, const struct mr_block_part *parts, size_t n);
void mr_trace_zip(mr_block *to, const mr_block *const *blocks, size_t n);

/* ---- their places (places.h) ---- */

/* @to has the rows of @from from @first on, or what was made of each of them. */
void mr_places_slice(mr_block *to, const mr_block *from, uint32_t first);
/* @to, which has none, was made of these rows of @from, of @per rows of @from each, of @parts in
 * turn, or of the columns of @blocks. */
int mr_places_gather(mr_block *to, const mr_block *from, const uint32_t *rows, mr_error *err);
int mr_places_group(mr_block *to, const mr_block *from, uint32_t per, mr_error *err);
int mr_places_concat(mr_block *to, const struct mr_block_part *parts, size_t n, mr_error *err);
void mr_places_zip(mr_block *to, const mr_block *const *blocks, size_t n);

/* Product of dims, or false if it does not fit or a dim is negative. */
bool mr_dims_product(const int64_t *dims, uint32_t rank, uint64_t *ret);

/* The writable arrays of a column of a block under construction. */
static inline int64_t *mr_column_row_dims(struct mr_column *c)
{
    return (int64_t *)(uintptr_t)c->row_dims;
}
static inline uint64_t *mr_column_starts(struct mr_column *c)
{
    return (uint64_t *)(uintptr_t)c->starts;
}
static inline uint64_t *mr_column_offsets(struct mr_column *c)
{
    return (uint64_t *)(uintptr_t)c->offsets;
}
static inline unsigned char *mr_column_bytes(struct mr_column *c)
{
    return (unsigned char *)(uintptr_t)c->data;
}

/* Values of one row of a FIXED column. The product was checked when the column was made. */
static inline uint64_t mr_column_fixed_values(const struct mr_column *c)
{
    uint64_t v = 1;

    for (uint32_t i = 0; i < c->rank; i++) {
        v *= (uint64_t)c->dims[i];
    }
    return v;
}

/* Values [*first, *first + *count) are those of rows [row, row + rows). */
static inline void mr_column_values(const struct mr_column *c, uint32_t row, uint32_t rows,
                                    uint64_t *first, uint64_t *count)
{
    if (c->kind == MR_COLUMN_FIXED) {
        uint64_t v = mr_column_fixed_values(c);

        *first = v * row;
        *count = v * rows;
    } else {
        *first = c->starts[row];
        *count = c->starts[row + rows] - c->starts[row];
    }
}

/* Dims of row @row. */
static inline const int64_t *mr_column_dims(const struct mr_column *c, uint32_t row)
{
    return c->kind == MR_COLUMN_FIXED ? c->dims : c->row_dims + (size_t)row * c->rank;
}

/* The one of @owner that @array lies in; NULL for NULL. */
mr_buffer *mr_owner_of(mr_buffer *const owner[3], const void *array);
/* @owner of column @c, which has got new dims and starts in @arrays. */
static inline void mr_owner_of_arrays(mr_buffer *owner[3], const struct mr_column *c,
                                      mr_buffer *arrays)
{
    mr_buffer *data = mr_owner_of(owner, c->data);
    mr_buffer *offsets = mr_owner_of(owner, c->offsets);

    owner[0] = data;
    owner[1] = arrays;
    owner[2] = offsets != data ? offsets : NULL;
}

/* Check a column of @rows rows from outside, and say what memory a copy of it needs. */
int mr_column_check(const struct mr_column *c, uint32_t rows, struct mr_column_layout *ret,
                    mr_error *err);
/* Whether all columns say what they should and lie in buffers that @block holds. For assertions. */
bool mr_block_is_sound(const mr_block *block);
/* @block, which is complete. */
static inline mr_block *mr_block_sealed(mr_block *block)
{
    MR_ASSERT_SLOW(mr_block_is_sound(block));
    return block;
}
/* MR_EINVAL unless each of the @n bytes is 0 or 1. */
int mr_bools_check(const void *data, uint64_t n, mr_error *err);

static inline size_t mr_align64(size_t n)
{
    return (n + (MR_BLOCK_ALIGN - 1)) & ~(size_t)(MR_BLOCK_ALIGN - 1);
}

/* How far a column under construction is filled. */
struct mr_column_fill {
    uint32_t rows;
    uint64_t values;
    uint64_t heap; /* MR_STRING */
};
/* Copy rows [row, row + rows) of @src to the end of @dst, which has room for them and the same
 * dtype and rank. @dst VAR takes rows of either kind. */
void mr_column_append(struct mr_column *dst, struct mr_column_fill *at, const struct mr_column *src,
                      uint32_t row, uint32_t rows);
/* All @rows rows of @src into @dst, which was laid out for them. */
void mr_column_copy_all(struct mr_column *dst, const struct mr_column *src, uint32_t rows);
/* Bytes of payload of values [first, first + count), without offsets. */
uint64_t mr_column_payload(const struct mr_column *c, uint64_t first, uint64_t count);
