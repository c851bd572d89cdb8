/*
 * Tensor operators: what functions given to map, filter, ... are made of. One table entry each, one interface: n rows at
 * a time. Kernels are pure: no I/O, no clock, no thread, no global.
 *
 * A value inside a function is a column: n rows, each a tensor. A constant or a captured value has one row that stands
 * for all n (`broadcast`): a kernel must take any mix of both.
 */
#ifndef MR_OPS_KERNEL_H
#define MR_OPS_KERNEL_H

#include "element/block.h"

#include <millrace/dataset.h>

enum mr_kernel_flag {
    MR_KERNEL_ELEMENTWISE = 1u << 0, /* value i of the result depends on value i of the inputs only: fused tile by tile */
    MR_KERNEL_ROWWISE = 1u << 1,     /* eval is called with n_rows = 1, in a loop the executor provides */
    MR_KERNEL_MAY_FAIL = 1u << 2,    /* for some values */
    MR_KERNEL_RANDOM = 1u << 3,      /* draws from call->random */
};

struct mr_kernel_random {
    uint64_t seed;    /* of the operator */
    uint64_t epoch;
    uint64_t split;
    uint64_t index;   /* of the first row within its split */
};

struct mr_kernel_call {
    const struct mr_attr *attrs; /* sorted by name; validated by infer */
    size_t nattrs;
    const struct mr_leaf_spec *out_specs; /* what infer said */
    const struct mr_kernel_random *random;
    void *state;                 /* from prepare(), or NULL */
};

struct mr_kernel_in {
    const struct mr_column *column;
    bool broadcast; /* one row for all */
};

struct mr_kernel {
    const char *name;
    uint32_t version;   /* enters the fingerprint when it is not 1 */
    uint32_t flags;
    int32_t min_inputs; /* inputs: min..max, max = -1: any number */
    int32_t max_inputs;
    /* Check attributes and inputs; the result specs. MR_EINVAL says which argument and why; TF's dtype rules (no promotion). */
    int (*infer)(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in, size_t nin,
                 struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err);
    /*
     * Fill @out[0..nout) with columns of @rows rows, in new buffers (owner[] set, one reference each). On failure *@bad_row
     * is the first row that failed, out[] is untouched and err says why; the rows before it can be had by calling again.
     */
    int (*eval)(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in, size_t nin,
                struct mr_column *out, size_t nout, uint32_t *bad_row, mr_error *err);
    /* Optional: work that depends on attributes only (tables, parsed configuration). */
    int (*prepare)(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err);
    void (*release)(void *state);
};

/* NULL if there is none. */
const struct mr_kernel *mr_kernel_find(const char *name);
/* All of them, sorted by name. */
const struct mr_kernel *const *mr_kernel_list(size_t *n);

/* Attribute look-up for infer and eval. NULL if absent. */
const struct mr_attr *mr_attr_find(const struct mr_attr *attrs, size_t n, const char *name);

#endif
