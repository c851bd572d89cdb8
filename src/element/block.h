/*
 * Building, slicing, joining, encoding and decoding blocks. See <millrace/block.h> for what a block
 * is.
 *
 * Encoded form (little-endian; a big-endian host is refused at compile time):
 *
 *   header, 64 bytes
 *       magic        "MRB1"
 *       version      u16
 *       flags        u16
 *       rows         u32
 *       columns      u32
 *       total_bytes  u64
 *       spec_hash    u64
 *       checksum     u64  XXH3-64 of everything behind the header; 0: none (flag bit 0 says which)
 *       reserved     0
 *   directory: one 32-byte entry a column
 *       kind         u8
 *       dtype        u8
 *       rank         u8
 *       reserved     u8 x5
 *       offset       u64  of the column, from the start of the header; a multiple of 64
 *       bytes        u64  of the column
 *       values       u64
 *   columns, each at a multiple of 64; their parts also are
 *       FIXED        dims i64[rank]; [STRING: offsets u64[values + 1]]; data
 *       VAR          row_dims i64[rows][rank], starts u64[rows + 1]; then as for FIXED
 *   trace, at a multiple of 64, if it is known where the rows come from (trace.h)
 *       bytes        u64
 *       trace        so many bytes (trace_pack.c); a reader that does not know it skips it
 *
 *   total_bytes is a multiple of 64.
 *
 * Decoding validates everything: FIXED numbers in O(1), MR_BOOL, VAR and STRING in O(values). A
 * trace is read when somebody asks for it; what is wrong in it is not known.
 */
#pragma once

#include "element/buffer.h"
#include "element/origin.h"

#include <millrace/block.h>
#include <sys/uio.h>

/* A block of @rows FIXED columns of numbers with these leaf specs (all dims known): memory
 * allocated, writable through mr_block_data(). The result is already a mr_block with one reference,
 * to be filled before it is shared. */
int mr_block_alloc(uint32_t rows, const struct mr_leaf_spec *leaves, uint32_t n, mr_block **ret,
                   mr_error *err);
/* Writable data of a FIXED numeric column of a block that is not shared yet. */
void *mr_block_data(mr_block *block, uint32_t column);
/* A column and the buffers that its arrays lie in (NULL: fewer than three). Outside of a block,
 * whoever has the column has a reference to each. */
struct mr_owned_column {
    struct mr_column c;
    mr_buffer *owner[3];
};
/* Column @i, lent: the references are the block's. */
struct mr_owned_column mr_block_owned_column(const mr_block *block, uint32_t i);
/* A block over these columns: takes references to their owners; nothing is copied. */
int mr_block_from_columns(uint32_t rows, const struct mr_owned_column *columns, uint32_t n,
                          mr_block **ret, mr_error *err);

/* Rows [first, first + count): shares the buffers. */
int mr_block_slice(const mr_block *block, uint32_t first, uint32_t count, mr_block **ret,
                   mr_error *err);
/* All rows of @blocks (same spec) in one block; copies unless n = 1. FIXED columns of unequal dims
 * become VAR. */
int mr_block_concat(const mr_block *const *blocks, size_t n, mr_block **ret, mr_error *err);
/* The same of some rows of each, of at least one; copies. */
struct mr_block_part {
    mr_block *block;
    uint32_t first;
    uint32_t count;
};
int mr_block_concat_parts(const struct mr_block_part *parts, size_t n, mr_block **ret,
                          mr_error *err);
/* One row copied out, so that it pins no more than itself. */
int mr_block_copy_rows(const mr_block *block, uint32_t first, uint32_t count, mr_block **ret,
                       mr_error *err);
/* Gather rows by index into a new block. */
int mr_block_gather(const mr_block *block, const uint32_t *rows, uint32_t n, mr_block **ret,
                    mr_error *err);
/* Columns of @a, then columns of @b; same number of rows. Shares the buffers. */
int mr_block_zip(const mr_block *const *blocks, size_t n, mr_block **ret, mr_error *err);
/* The columns with these indices, in this order. Shares the buffers. */
int mr_block_select(const mr_block *block, const uint32_t *columns, uint32_t n, mr_block **ret,
                    mr_error *err);

/* Groups of @per rows become one row with a new first dimension: block of rows/@per rows (rows must
 * be a multiple). Nothing is copied. VAR columns: the dims within a group must agree, else
 * MR_EINVAL names both shapes, and the component as in @names (may be NULL). @joined (NULL: none):
 * columns whose rows are put behind one another along their first dimension instead; their other
 * dims must agree. */
int mr_block_batch(const mr_block *block, uint32_t per, const bool *joined, const mr_spec *names,
                   mr_block **ret, mr_error *err);
/* The inverse for one row of the first dimension: every row is cut into its dims[0] rows. */
int mr_block_unbatch(const mr_block *block, mr_block **ret, mr_error *err);
#define MR_COLUMN_NONE UINT32_MAX
/* The same for a block of one row, where column i is cut into as many along its first dimension as
 * column @counts[i] (a vector of int64) says for each row: the inverse of joined columns.
 * MR_COLUMN_NONE: a row each. */
int mr_block_unbatch_by(const mr_block *block, const uint32_t *counts, mr_block **ret,
                        mr_error *err);

/*
 * All rows become one row, whose columns have a first dimension more: the values of each row are
 * padded behind to @shapes[i] (of known rank; MR_DIM_UNKNOWN: as long as the longest row) with the
 * scalar in column @i of @padding, a block of one row (NULL: 0, false, ""). The block has at least
 * one row.
 *
 * MR_EDATALOSS names component (as in @names, which may be NULL) and shapes when a row is larger
 * than its shape; MR_EEXHAUSTED if the result would have more than @bytes_max bytes.
 */
int mr_block_pad(const mr_block *block, const struct mr_leaf_spec *shapes, const mr_block *padding,
                 size_t bytes_max, const mr_spec *names, mr_block **ret, mr_error *err);

/* Where the rows come from (element/origin.h), lent; NULL: nobody wants to know. All functions here
 * that make blocks of blocks hand origins on; whoever fills a block by hand adds what the rows
 * descend from. An encoded block has none. */
const mr_origin *mr_block_origin(const mr_block *block);
/* *@block (the caller's reference) descends from @more too (NULL: nothing happens). If it is
 * shared, *@block becomes another one over the same buffers. On failure (no memory) it stays as it
 * was. */
int mr_block_add_origin(mr_block **block, const mr_origin *more, mr_error *err);

/* Bytes of payload that rows [first, first + count) hold. */
size_t mr_block_row_bytes(const mr_block *block, uint32_t first, uint32_t count);
/* Bytes of the buffers that the block pins. */
size_t mr_block_pinned_bytes(const mr_block *block);
/* The block is somebody else's from now on: its buffers count in no memory budget any more. */
void mr_block_discharge(const mr_block *block);

/* MR_EINVAL names the leaf when a row of @block is not what @spec says. */
int mr_block_check_spec(const mr_block *block, const mr_spec *spec, mr_error *err);

/* ---- encoding ---- */

struct mr_encoded {
    /* in order; total is a multiple of 64; every base is 64-aligned or padding */
    struct iovec *iov;
    size_t count;
    size_t total;
    mr_block *block; /* holds what iov points into */
    void *scratch;   /* header, directory, dims, padding, rebased offsets */
};
/* Payload slices point into @block (a reference is taken). @checksum: also hash the payload. */
int mr_block_encode(const mr_block *block, uint64_t spec_hash, bool checksum,
                    struct mr_encoded *ret, mr_error *err);
void mr_encoded_free(struct mr_encoded *e);
/* The same, gathered into one buffer. */
int mr_block_encode_buffer(const mr_block *block, uint64_t spec_hash, bool checksum,
                           mr_buffer **ret, mr_error *err);

/* The block at @offset (multiple of 64) of @buffer; holds a reference to the buffer, copies
 * nothing. *@used is the encoded length. MR_EDATALOSS names the fault. @spec_hash 0: not compared.
 */
int mr_block_decode(mr_buffer *buffer, size_t offset, uint64_t spec_hash, mr_block **ret,
                    size_t *used, mr_error *err);

/* The structure of @spec, lent, with the keys of dicts in the order of their bytes: equal specs
 * have the same. */
const char *mr_spec_sorted(const mr_spec *spec);
/* XXH3-64 of the leaf table and the sorted structure; never 0. */
uint64_t mr_spec_hash(const mr_spec *spec);
/* The leaves of @spec in one array that is freed with mr_free(). */
int mr_spec_copy_leaves(const mr_spec *spec, struct mr_leaf_spec **ret, mr_error *err);
/* Bytes of a row of @spec where that is known, else 0. */
size_t mr_spec_row_bytes(const mr_spec *spec);

/* What stands behind "!dataset" in a structure (<millrace/spec.h>): a leaf table and a structure,
 * as JSON. */
struct mr_buf;
void mr_spec_put_json(struct mr_buf *b, const struct mr_leaf_spec *leaves, size_t n,
                      const char *structure);
int mr_spec_from_json(const void *text, size_t size, mr_spec **ret, mr_error *err);
/* The structure @outer with those of @inner in the places of its leaves, @n of them, in *@ret,
 * which is freed with mr_free(). */
int mr_structure_fill(const char *outer, const char *const *inner, size_t n, char **ret,
                      mr_error *err);
/* The spec of elements whose components are datasets, each of one component of @spec (a leaf, or a
 * named tuple that is one value: <millrace/spec.h>), in the same structure. @counts (room for as
 * many numbers as @spec has leaves; or NULL): how many leaves the elements of each dataset have. */
int mr_spec_of_datasets(const mr_spec *spec, mr_spec **ret, uint32_t *counts, mr_error *err);

/* What a message calls leaf @i of @spec, in @out: "component ['image']"; "the element" if it has no
 * other; "component 3" if @spec is NULL. Returns @out. */
#define MR_COMPONENT_BYTES 64
const char *mr_spec_component(const mr_spec *spec, size_t i, char *out);
#define MR_COMPONENT(spec, i) mr_spec_component((spec), (i), (char[MR_COMPONENT_BYTES]){0})

/* "[2,?,3]" for messages. */
const char *mr_dims_format(const int64_t *dims, int rank, char *out, size_t size);

MR_AUTO_DEFINE(mr_block, mr_block_unref)
MR_AUTO_DEFINE(mr_spec, mr_spec_unref)
