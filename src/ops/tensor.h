/*
 * Columns as kernels see them: an input opened for reading row by row, an output that is filled and
 * becomes a column.
 *
 * Whatever the dtype, values have a width: strings are seen as struct mr_string, so that operators
 * which only move values need one version. One thread.
 */
#pragma once

#include "base/copy.h"
#include "ops/kernel.h"

struct mr_string {
    const unsigned char *data;
    size_t size;
};

/* As isspace() has it in the C locale. */
static inline bool mr_is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bool mr_string_equal(struct mr_string a, struct mr_string b)
{
    return a.size == b.size && mr_equal_bytes(a.data, b.data, a.size);
}

/* One row of a column. */
struct mr_tensor {
    const unsigned char *values;
    uint64_t count;
    const int64_t *dims;
    int rank;
    uint8_t dtype;
    size_t width; /* bytes of one value */
};

static inline const struct mr_string *mr_tensor_strings(const struct mr_tensor *t)
{
    return (const struct mr_string *)(const void *)t->values;
}

struct mr_input {
    uint8_t dtype;
    uint8_t rank;
    bool broadcast;
    bool fixed; /* one shape for all rows: also a broadcast, or VAR with rows that agree */
    size_t width;
    const int64_t *dims;     /* fixed */
    const int64_t *row_dims; /* otherwise */
    const uint64_t *starts;  /* otherwise; [0] is subtracted from what it says */
    uint64_t per_row;        /* values of a row, fixed */
    uint64_t count;          /* of all rows; of the one row of a broadcast */
    const unsigned char *values;
    struct mr_string *views; /* strings: in scratch */
    mr_buffer *scratch;
};

size_t mr_value_width(unsigned dtype);

int mr_input_open(const struct mr_kernel_in *in, uint32_t rows, struct mr_input *ret,
                  mr_error *err);
/* There are rows, and all have the same shape. @row_dims: [rows][rank]. */
bool mr_rows_agree(const int64_t *row_dims, uint32_t rows, int rank);
/* All inputs at once; on failure none is open. */
int mr_inputs_open(const struct mr_kernel_in *in, size_t nin, uint32_t rows, struct mr_input **ret,
                   mr_error *err);
void mr_inputs_close(struct mr_input *inputs, size_t nin);
void mr_input_close(struct mr_input *in);

static inline struct mr_tensor mr_input_row(const struct mr_input *in, uint32_t row)
{
    struct mr_tensor t = {in->values, in->per_row, in->dims, in->rank, in->dtype, in->width};

    MR_ASSERT_SLOW(in->fixed || !in->broadcast || row == 0);
    if (in->fixed) {
        if (!in->broadcast) {
            t.values += row * in->per_row * in->width;
        }
        return t;
    }
    t.values += (in->starts[row] - in->starts[0]) * in->width;
    t.count = in->starts[row + 1] - in->starts[row];
    t.dims = in->row_dims + (size_t)row * in->rank;
    return t;
}

struct mr_output {
    uint8_t dtype;
    uint8_t rank;
    bool fixed;
    size_t width;
    uint32_t rows;
    int64_t dims[MR_RANK_MAX];
    uint64_t per_row;
    uint64_t count;
    int64_t *row_dims; /* in meta */
    uint64_t *starts;  /* in meta */
    unsigned char *values;
    mr_buffer *meta;
    mr_buffer *data;
    /* strings: written by the kernel, gathered by mr_output_finish(); in scratch */
    struct mr_string *views;
    mr_buffer *scratch;
    struct mr_arena *arena; /* bytes that views may point to; owned */
};

/* @size bytes that live until @out is finished or dropped; NULL: there is no memory, @err says
 * so. */
unsigned char *mr_output_bytes(struct mr_output *out, size_t size, mr_error *err);

/* Memory for @rows rows of one shape. MR_EEXHAUSTED when a row is above the limit for elements. On
 * failure, here and below, @out is to be dropped. */
int mr_output_fixed(struct mr_output *out, unsigned dtype, uint32_t rows, int rank,
                    const int64_t *dims, mr_error *err);
/* Memory for rows of the shapes in row_dims[rows][rank] (copied); fixed when they all agree. */
int mr_output_var(struct mr_output *out, unsigned dtype, uint32_t rows, int rank,
                  const int64_t *row_dims, uint32_t *bad_row, mr_error *err);
/* No rows: no row says what the shape is, and what is unknown in @spec is 0. */
int mr_output_empty(struct mr_output *out, const struct mr_leaf_spec *spec, mr_error *err);
static inline unsigned char *mr_output_row(const struct mr_output *out, uint32_t row,
                                           uint64_t *count)
{
    MR_ASSERT_SLOW(row < out->rows);
    if (out->fixed) {
        *count = out->per_row;
        return out->values + row * out->per_row * out->width;
    }
    *count = out->starts[row + 1] - out->starts[row];
    return out->values + out->starts[row] * out->width;
}
static inline const int64_t *mr_output_dims(const struct mr_output *out, uint32_t row)
{
    return out->fixed ? out->dims : out->row_dims + (size_t)row * out->rank;
}
/* The column; takes the buffers. Strings are copied from the views. @out is empty afterwards, also
 * on failure. */
int mr_output_finish(struct mr_output *out, struct mr_owned_column *column, mr_error *err);
void mr_output_drop(struct mr_output *out);

/* A column that shares @in's buffers (references are taken); all its rows. @in must not be a
 * broadcast of many rows. */
void mr_column_share(const struct mr_owned_column *in, struct mr_owned_column *out);
void mr_column_release(struct mr_owned_column *column);
/* @in as it is, with @rows rows of its own: shared, or a broadcast expanded. */
int mr_column_pass(const struct mr_kernel_in *in, uint32_t rows, struct mr_owned_column *out,
                   mr_error *err);
/* A broadcast column as @rows rows of its own. */
int mr_column_expand(const struct mr_owned_column *in, uint32_t rows, struct mr_owned_column *out,
                     mr_error *err);
