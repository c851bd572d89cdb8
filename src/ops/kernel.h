/*
 * Tensor operators: what functions given to map, filter, ... are made of. One table entry each, one
 * interface: n rows at a time. Kernels are pure: no I/O, no clock, no thread, no global.
 *
 * A value inside a function is a column: n rows, each a tensor. A constant or a captured value has
 * one row that stands for all n (`broadcast`): a kernel must take any mix of both.
 *
 * Threads: tables are constant; eval may run in many threads at once.
 */
#ifndef MR_OPS_KERNEL_H
#define MR_OPS_KERNEL_H

#include "element/block.h"

#include <millrace/dataset.h>

enum mr_kernel_flag {
    /* value i of the result depends on value i of the inputs only: may be fused */
    MR_KERNEL_ELEMENTWISE = 1u << 0,
    /* eval is called with n_rows = 1, in a loop the executor provides */
    MR_KERNEL_ROWWISE = 1u << 1,
    MR_KERNEL_MAY_FAIL = 1u << 2, /* for some values */
    MR_KERNEL_RANDOM = 1u << 3,   /* draws from call->random */
};

struct mr_kernel_random {
    uint64_t seed; /* of the operator */
    uint64_t epoch;
    uint64_t split;
    uint64_t index; /* of the first row within its split */
};

struct mr_kernel;

struct mr_kernel_call {
    const struct mr_kernel *kernel;
    const struct mr_attr *attrs; /* sorted by name; validated by infer */
    size_t nattrs;
    const struct mr_leaf_spec *out_specs; /* what infer said */
    const struct mr_kernel_random *random;
    void *state; /* from prepare(), or NULL */
};

struct mr_kernel_in {
    const struct mr_owned_column *column;
    bool broadcast; /* one row for all */
};

/* An attribute that a kernel takes. A name that ends in '#' stands for that name with a number for
 * the '#'. */
struct mr_kernel_attr {
    const char *name;
    int32_t kind; /* enum mr_attr_kind */
    bool optional;
};

/*
 * The inner loop of an elementwise kernel over numbers: out[i] = f(in[0][i * step[0]], ...), step 0
 * or 1. Nothing overlaps. Returns @n, or the index of the first value that failed, with @err set;
 * what it wrote is then undefined.
 */
typedef size_t (*mr_kernel_loop)(size_t n, void *out, const void *const *in, const uint8_t *step,
                                 mr_error *err);

struct mr_kernel {
    const char *name;
    uint32_t version; /* enters the fingerprint when it is not 1 */
    uint32_t flags;
    int32_t min_inputs; /* inputs: min..max, max = -1: any number */
    int32_t max_inputs;
    /* Check attributes and inputs; the result specs. MR_EINVAL says which argument and why; TF's
     * dtype rules (no promotion). */
    int (*infer)(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                 size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err);
    /*
     * Fill @out[0..nout) with columns of @rows rows, in new or shared buffers (owner[] set, one
     * reference each). On failure *@bad_row is a row that failed, out[] is untouched and err says
     * why. Rows before it may have failed too: the executor calls again for those, until they pass.
     */
    int (*eval)(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                mr_error *err);
    /* Optional: work that depends on attributes only (tables, parsed configuration). */
    int (*prepare)(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err);
    void (*release)(void *state);
    /* Elementwise kernels: the loop for these input dtypes, or NULL if there is none (strings). */
    mr_kernel_loop (*loop)(const struct mr_attr *attrs, size_t nattrs, const uint8_t *dtypes,
                           size_t nin);
    const struct mr_kernel_attr *attr_table; /* ends with a NULL name; NULL: takes none */
};

/* NULL if there is none. */
const struct mr_kernel *mr_kernel_find(const char *name);
/* All of them, sorted by name. */
const struct mr_kernel *const *mr_kernel_list(size_t *n);

/*
 * What builders call instead of kernel->infer: also checks the number of inputs and the names and
 * kinds of the attributes. The error does not name the operator: its caller does.
 */
int mr_kernel_infer(const struct mr_kernel *kernel, const struct mr_attr *attrs, size_t nattrs,
                    const struct mr_leaf_spec *in, size_t nin, struct mr_leaf_spec *out, size_t cap,
                    size_t *nout, mr_error *err);

/* Attribute look-up for infer and eval. NULL if absent. */
const struct mr_attr *mr_attr_find(const struct mr_attr *attrs, size_t n, const char *name);

#endif
