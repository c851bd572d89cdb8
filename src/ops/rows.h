/* Kernels that look at one row at a time: an eval for all of them. The shapes of the results come
 * from the kernel's infer, called with what the shapes really are (once, if all rows agree), so
 * there is one shape function an operator. */
#pragma once

#include "ops/tensor.h"

/* One row of a result, to be filled: @count values. */
struct mr_result {
    unsigned char *values;
    uint64_t count;
    const int64_t *dims;
    int rank;
    uint8_t dtype;
    size_t width;
    size_t index;             /* of the result, if there are several */
    struct mr_output *column; /* for mr_output_bytes() */
};

static inline struct mr_string *mr_result_strings(const struct mr_result *out)
{
    return (struct mr_string *)(void *)out->values;
}

/* A copy of @size bytes as a string of @out. */
int mr_result_put_bytes(struct mr_result *out, const void *bytes, size_t size,
                        struct mr_string *ret, mr_error *err);
/* Value @i of @out, which has int32 or int64. */
void mr_result_put_index(struct mr_result *out, uint64_t i, uint64_t value);

int mr_rows_eval(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                 size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                 mr_error *err);

/* A kernel whose eval is mr_rows_eval(). @set: the dtypes of its inputs, 0: infer looks at them. */
#define MR_ROWS_KERNEL(id, inputs_min, inputs_max, set, ...)                                       \
    MR_DEFINE_KERNEL(id, inputs_min, inputs_max, set, .eval = mr_rows_eval, __VA_ARGS__)

/* The spec of a row as it is. */
void mr_tensor_spec(const struct mr_tensor *t, struct mr_leaf_spec *ret);
/* infer on one row. @out has room for @nout. */
int mr_rows_infer(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                  struct mr_leaf_spec *out, size_t nout, mr_error *err);
/* Of what is broadcast: which part of @t, of its @inner last axes, goes into part @i of @out. */
uint64_t mr_broadcast_index(const struct mr_tensor *t, const struct mr_result *out, int inner,
                            uint64_t i);
/* Value @i of a tensor of int32 or int64. */
int64_t mr_tensor_index(const struct mr_tensor *t, uint64_t i);
/* Strides, in values, of a row-major tensor. */
void mr_strides(int rank, const int64_t *dims, uint64_t strides[MR_RANK_MAX]);
