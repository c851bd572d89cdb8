/* Elementwise kernels: one eval for all of them. It finds the loop of the dtypes, broadcasts, and
 * runs it over as much at a time as the shapes allow; in the common case (FIXED columns of one
 * shape, scalars) that is everything. */
#pragma once

#include "ops/tensor.h"

/* At most three inputs. Strings are values of type struct mr_string. */
#define MR_ELEMENTWISE_INPUTS_MAX 3

int mr_elementwise_eval(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                        size_t nout, uint32_t *bad_row, mr_error *err);

/* @set: the dtypes that the inputs may have, all the same one; 0: infer looks at them. */
#define MR_ELEMENTWISE(id, inputs, more_flags, set, ...)                                           \
    MR_DEFINE_KERNEL(id, inputs, inputs, set, .flags = MR_KERNEL_ELEMENTWISE | (more_flags),       \
                     .eval = mr_elementwise_eval, __VA_ARGS__)
