/*
 * Tensor operators: what functions given to map, filter, ... are made of. One table entry each, one
 * interface: n rows at a time. Kernels are pure: no I/O, no clock, no thread, no global.
 *
 * A value inside a function is a column: n rows, each a tensor. A constant or a captured value has
 * one row that stands for all n (`broadcast`): a kernel must take any mix of both.
 *
 * Threads: tables are constant; eval may run in many threads at once.
 */
#pragma once

#include "element/block.h"

#include <millrace/dataset.h>

enum mr_kernel_flag {
    /* value i of the result depends on value i of the inputs only: may be fused */
    MR_KERNEL_ELEMENTWISE = 1u << 0,
    /* eval is called with n_rows = 1, in a loop the executor provides */
    MR_KERNEL_ROWWISE = 1u << 1,
    MR_KERNEL_MAY_FAIL = 1u << 2, /* for some values */
    MR_KERNEL_RANDOM = 1u << 3,   /* draws from call->random */
    /* its first input is the path, a string, of a file: errors of what is made of it name it */
    MR_KERNEL_READS_FILE = 1u << 4,
    MR_KERNEL_FINDS_RANK =
        1u << 5, /* dims() fills in ranks, too, where infer leaves them unknown */
};

struct mr_kernel_random {
    uint64_t seed; /* of the operator */
    uint64_t epoch;
    uint64_t split;
    uint64_t index; /* of row r within its split: index + (indices != NULL ? indices[r] : r) */
    const uint64_t *indices; /* NULL: the rows follow each other */
};

static inline uint64_t mr_kernel_random_index(const struct mr_kernel_random *random, uint32_t row)
{
    return random->index + (random->indices != NULL ? random->indices[row] : row);
}

/* A function that an operator is given: what it takes and returns, and how to run it. */
struct mr_kernel_function {
    const struct mr_leaf_spec *in; /* infer */
    size_t nin;
    const struct mr_leaf_spec *out; /* infer */
    size_t nout;
    /* eval: as mr_program_run(), of @program */
    int (*run)(const void *program, const mr_block *in, const struct mr_kernel_random *random,
               mr_block **ret, uint32_t *bad_row, mr_error *err);
    void *program;
};

struct mr_kernel;
struct mr_result; /* ops/rows.h */

struct mr_attrs {
    const struct mr_attr *list; /* sorted by name */
    size_t n;
};

/* What infer is asked, and what it says. */
struct mr_kernel_infer {
    struct mr_attrs attrs;
    const struct mr_leaf_spec *in;
    size_t nin;
    struct mr_leaf_spec *out; /* room for cap. To begin with out[0] is as in[0] */
    size_t cap;
    size_t nout; /* 1 to begin with */
    const struct mr_kernel_function *functions;
    size_t nfunctions;
};

/* One row of all inputs. */
struct mr_row {
    struct mr_attrs attrs;
    void *state; /* from prepare(), or NULL */
    const struct mr_tensor *in;
    size_t nin;
    const struct mr_kernel_random *random; /* `index` is of this row; MR_KERNEL_RANDOM */
};

struct mr_kernel_call {
    const struct mr_kernel *kernel;
    const struct mr_attr *attrs; /* sorted by name; validated by infer */
    size_t nattrs;
    const struct mr_leaf_spec *out_specs; /* what infer said */
    const struct mr_kernel_random *random;
    void *state; /* from prepare(), or NULL */
    const struct mr_kernel_function *functions;
    size_t nfunctions;
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

#define MR_KERNEL_ATTRS_MAX 12

/* The inner loop of an elementwise kernel over numbers: out[i] = f(in[0][i * step[0]], ...), step 0
 * or 1. Nothing overlaps. Returns @n, or the index of the first value that failed, with @err set;
 * what it wrote is then undefined. */
typedef size_t (*mr_kernel_loop)(size_t n, void *out, const void *const *in, const uint8_t *step,
                                 mr_error *err);

struct mr_kernel {
    const char *name;
    uint32_t version; /* enters the fingerprint when it is not 1 */
    uint32_t flags;
    int32_t min_inputs; /* inputs: min..max, max = -1: any number */
    int32_t max_inputs;
    uint32_t dtypes; /* not 0: the inputs have one dtype, which is in this set (MR_SET()) */
    uint8_t result;  /* not 0: the dtype of the result, whatever infer makes of it */
    /* It takes 1 to so many functions, which capture nothing: what they need of the function around
     * are inputs of the operator, behind its own, in the order of the functions. */
    uint32_t max_functions;
    /* Optional: what the fields above do not say. Checks attributes and inputs; the result specs.
     * MR_EINVAL says which argument and why; TF's dtype rules (no promotion). For an elementwise
     * kernel the shapes of the inputs have been broadcast to out[0]. */
    int (*infer)(struct mr_kernel_infer *it, mr_error *err);
    /* Fill @out[0..nout) with columns of @rows rows, in new or shared buffers (owner[] set, one
     * reference each). On failure *@bad_row is a row that failed, out[] is untouched and err says
     * why. Rows before it may have failed too: the executor calls again for those, until they pass.
     */
    int (*eval)(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                mr_error *err);
    /* For mr_rows_eval(): write the values of one result of one row. */
    int (*fill)(const struct mr_row *row, struct mr_result *out, mr_error *err);
    /* Optional, for mr_rows_eval(): dims that depend on the values of a row (infer leaves them
     * unknown). @spec is what infer said; fill in the dims that are unknown in it. The rank must be
     * known, but for MR_KERNEL_FINDS_RANK. Not called for rows of which infer knows all dims. */
    int (*dims)(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err);
    /* Optional: work that depends on attributes only (tables, parsed configuration). */
    int (*prepare)(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err);
    void (*release)(void *state);
    /* Elementwise kernels: the loops by the dtype of the first input, or what chooses one. */
    const mr_kernel_loop *loops;
    mr_kernel_loop (*loop)(struct mr_attrs attrs, const uint8_t *dtypes);
    struct mr_kernel_attr attr_table[MR_KERNEL_ATTRS_MAX + 1]; /* ends with a NULL name */
};

/* Of an elementwise kernel, for these dtypes of its inputs. NULL: there is none. */
static inline mr_kernel_loop mr_kernel_loop_of(const struct mr_kernel *kernel,
                                               struct mr_attrs attrs, const uint8_t *dtypes)
{
    if (kernel->loop != NULL) {
        return kernel->loop(attrs, dtypes);
    }
    return kernel->loops != NULL && dtypes[0] < MR_DTYPE_COUNT ? kernel->loops[dtypes[0]] : NULL;
}

/* The entry mr_kernel_<id>. @set: its dtypes; the other members follow. */
#define MR_DEFINE_KERNEL(id, inputs_min, inputs_max, set, ...)                                     \
    const struct mr_kernel mr_kernel_##id = {                                                      \
        .name = #id,                                                                               \
        .version = 1,                                                                              \
        .min_inputs = (inputs_min),                                                                \
        .max_inputs = (inputs_max),                                                                \
        .dtypes = (set),                                                                           \
        __VA_ARGS__,                                                                               \
    }

/* NULL if there is none. */
const struct mr_kernel *mr_kernel_find(const char *name);
/* All of them, sorted by name. */
const struct mr_kernel *const *mr_kernel_list(size_t *n);

/* Check the number of inputs, the names and kinds of the attributes (each is sound by itself, as
 * mr_attrs_copy() has seen to) and the dtypes; then infer. The
 * error does not name the operator: its caller does. On failure @out is undefined. */
int mr_kernel_infer(const struct mr_kernel *kernel, const struct mr_attr *attrs, size_t nattrs,
                    const struct mr_leaf_spec *in, size_t nin,
                    const struct mr_kernel_function *functions, size_t nfunctions,
                    struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err);

/* Attribute look-up for infer and eval. NULL if absent. */
const struct mr_attr *mr_attr_find(const struct mr_attr *attrs, size_t n, const char *name);
/* "shape#" stands for shape0, shape12, ... */
bool mr_attr_name_matches(const char *pattern, const char *name);
const char *mr_attr_kind_name(int32_t kind);
