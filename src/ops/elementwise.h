/*
 * Elementwise kernels: one eval for all of them. It finds the loop of the dtypes, broadcasts, and
 * runs it over as much at a time as the shapes allow; in the common case (FIXED columns of one
 * shape, scalars) that is everything.
 */
#ifndef MR_OPS_ELEMENTWISE_H
#define MR_OPS_ELEMENTWISE_H

#include "ops/tensor.h"

/* At most three inputs. Strings are values of type struct mr_string. */
#define MR_ELEMENTWISE_INPUTS_MAX 3

int mr_elementwise_eval(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                        size_t nout, uint32_t *bad_row, mr_error *err);

/* infer: one dtype for inputs first.., which must be in @set; shapes of all inputs broadcast. */
int mr_infer_elementwise(const struct mr_leaf_spec *in, size_t nin, size_t first, uint32_t set,
                         struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err);
/* infer that allows the dtypes of @set, result of the same dtype. */
#define MR_INFER_ELEMENTWISE(name, set)                                                            \
    static int name(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,     \
                    size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err) \
    {                                                                                              \
        return mr_infer_elementwise(in, nin, 0, (set), out, cap, nout, err);                       \
    }
/* The same with a result of dtype @result. */
#define MR_INFER_ELEMENTWISE_TO(name, set, result)                                                 \
    static int name(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,     \
                    size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err) \
    {                                                                                              \
        int rc = mr_infer_elementwise(in, nin, 0, (set), out, cap, nout, err);                     \
                                                                                                   \
        if (rc == MR_OK) {                                                                         \
            out[0].dtype = (result);                                                               \
        }                                                                                          \
        return rc;                                                                                 \
    }

#define MR_ELEMENTWISE_KERNEL(symbol, text, inputs, more_flags, infer_fn, loop_fn)                 \
    MR_ELEMENTWISE_KERNEL_OF(symbol, text, inputs, more_flags, infer_fn, loop_fn, NULL)

/* The same with attributes. */
#define MR_ELEMENTWISE_KERNEL_OF(symbol, text, inputs, more_flags, infer_fn, loop_fn, attrs_of)    \
    const struct mr_kernel symbol = {                                                              \
        .name = text,                                                                              \
        .version = 1,                                                                              \
        .flags = MR_KERNEL_ELEMENTWISE | (more_flags),                                             \
        .min_inputs = (inputs),                                                                    \
        .max_inputs = (inputs),                                                                    \
        .infer = infer_fn,                                                                         \
        .eval = mr_elementwise_eval,                                                               \
        .loop = loop_fn,                                                                           \
        .attr_table = attrs_of,                                                                    \
    }

#endif
