/*
 * Kernels that look at one row at a time: an eval for all of them. The shapes of the results come
 * from the kernel's infer, called with what the shapes really are (once, if all rows agree), so
 * there is one shape function an operator.
 */
#ifndef MR_OPS_ROWS_H
#define MR_OPS_ROWS_H

#include "ops/tensor.h"

/* One row of a result, to be filled: @count values. */
struct mr_result {
    unsigned char *values;
    uint64_t count;
    const int64_t *dims;
    int rank;
    uint8_t dtype;
    size_t width;
    struct mr_output *column; /* for mr_output_bytes() */
};

struct mr_row_ops {
    /*
     * Optional: dims that depend on the values of a row (infer leaves them unknown). @spec is what
     * infer said; the dims that are unknown in it are to be filled in. The rank must be known.
     */
    int (*dims)(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                struct mr_leaf_spec *spec, mr_error *err);
    /* Write the values of result number @output. */
    int (*fill)(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                size_t output, struct mr_result *out, mr_error *err);
};

int mr_rows_eval(const struct mr_row_ops *ops, const struct mr_kernel_call *call, uint32_t rows,
                 const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                 size_t nout, uint32_t *bad_row, mr_error *err);

/* A kernel whose eval is mr_rows_eval(). */
#define MR_ROWS_KERNEL(symbol, text, more_flags, inputs_min, inputs_max, infer_fn, attrs_of,       \
                       dims_fn, fill_fn)                                                           \
    static int symbol##_eval(                                                                      \
        const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,           \
        size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row, mr_error *err)    \
    {                                                                                              \
        static const struct mr_row_ops ops = {dims_fn, fill_fn};                                   \
                                                                                                   \
        return mr_rows_eval(&ops, call, rows, in, nin, out, nout, bad_row, err);                   \
    }                                                                                              \
    const struct mr_kernel symbol = {                                                              \
        .name = text,                                                                              \
        .version = 1,                                                                              \
        .flags = (more_flags),                                                                     \
        .min_inputs = (inputs_min),                                                                \
        .max_inputs = (inputs_max),                                                                \
        .infer = infer_fn,                                                                         \
        .eval = symbol##_eval,                                                                     \
        .attr_table = attrs_of,                                                                    \
    }

/* The spec of a row as it is. */
void mr_tensor_spec(const struct mr_tensor *t, struct mr_leaf_spec *ret);
/* infer on one row. @out has room for @nout. */
int mr_rows_infer(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                  struct mr_leaf_spec *out, size_t nout, mr_error *err);
/* Value @i of a tensor of int32 or int64. */
int64_t mr_tensor_index(const struct mr_tensor *t, uint64_t i);
/* Strides, in values, of a row-major tensor. */
void mr_strides(int rank, const int64_t *dims, uint64_t strides[MR_RANK_MAX]);

#endif
