/*
 * Blocks: n rows (elements) of one spec, stored by column. The unit inside the engine, on the wire
 * and in NumPy views.
 *
 * A sealed block is immutable and reference-counted; its columns may share buffers with other
 * blocks (slices, batches). Threads: ref, unref and reading are safe from any thread. Building a
 * block is one thread's business.
 */
#ifndef MILLRACE_BLOCK_H
#define MILLRACE_BLOCK_H

#include <millrace/base.h>
#include <millrace/spec.h>

MR_BEGIN_DECLS

enum mr_column_kind {
    MR_COLUMN_FIXED = 1, /* one shape for all rows */
    MR_COLUMN_VAR = 2,   /* every row has dims of its own (of one rank) */
};

/*
 * One leaf of all rows. Values are stored in row-major order, row after row.
 *   FIXED: row r holds values [r * v, (r + 1) * v), v = product of dims[0..rank) (1 for rank 0).
 *   VAR:   row r has dims row_dims[r * rank ..+ rank) and holds values [starts[r], starts[r + 1]).
 *   numbers: value i is data[i]; MR_BOOL is one byte, 0 or 1.
 *   MR_STRING: value i is the bytes data[offsets[i] .. offsets[i + 1]).
 * starts[0] and offsets[0] need not be 0: a slice points into its parent's arrays. `data` of an
 * unsliced column of numbers is aligned to 64 bytes; a slice's is aligned to the dtype only.
 *
 * The size is fixed for good: what is to be added takes the reserved bytes, which must be 0.
 */
struct mr_column {
    uint8_t kind;  /* enum mr_column_kind */
    uint8_t dtype; /* enum mr_dtype */
    uint8_t rank;
    uint8_t reserved[5];
    int64_t dims[MR_RANK_MAX]; /* FIXED */
    const int64_t *row_dims;   /* VAR, else NULL */
    const uint64_t *starts;    /* VAR, else NULL */
    const uint64_t *offsets;   /* MR_STRING, else NULL */
    const void *data;          /* may be NULL where there is no byte of data */
};

typedef struct mr_block mr_block;

MR_API mr_block *mr_block_ref(const mr_block *block);
MR_API void mr_block_unref(const mr_block *block); /* NULL is fine */

MR_API uint32_t mr_block_rows(const mr_block *block);
MR_API uint32_t mr_block_column_count(const mr_block *block);
/* Lent: valid as long as the caller holds its reference. i < mr_block_column_count(). */
MR_API const struct mr_column *mr_block_column(const mr_block *block, uint32_t i);
/*
 * true when nobody else holds the block or one of its buffers, and no two of its columns of numbers
 * lie in the same memory: writing to a value disturbs nobody, and changes no other value.
 */
MR_API bool mr_block_exclusive(const mr_block *block);

/*
 * Values [first, first + count) of a column of strings, as marshal.loads() of Python makes a list
 * of bytes objects of: that is many times as fast as to cut each value out of a buffer there. What
 * it returns is how many bytes that are; @to has room for them, or is NULL. count <= INT32_MAX.
 */
MR_API size_t mr_block_marshal(const mr_block *block, uint32_t column, uint64_t first,
                               uint64_t count, void *to);

/*
 * A block of @rows rows from @ncolumns descriptions; what they point at is copied once (64-byte
 * aligned). Offsets, dims and sizes are checked: MR_EINVAL names column and fault.
 */
MR_API int mr_block_new(uint32_t rows, const struct mr_column *columns, uint32_t ncolumns,
                        mr_block **ret, mr_error *err);

MR_END_DECLS

#endif
