/*
 * The graph behind <millrace/dataset.h>: datasets, functions and builders as structs, for the code
 * that walks them (serialising, compiling programs, opening iterators). Pure: no I/O, no thread, no
 * clock.
 *
 * Nodes are immutable once they are published, reference-counted, and point downwards only (to
 * inputs, functions and constants), so there are no cycles.
 *
 * Value numbers. A function's values are one table, indexed by the numbers that its builder gave
 * out: inputs first, then captures, constants and results in the order in which they were added.
 * Captures of an inner function and MR_ATTR_VALUE attributes of the dataset nodes inside a function
 * are numbers in the table of the *enclosing* function.
 *
 * Threads: finished objects may be read from any thread; `opened` and `reads` are atomic; a
 * mr_builder belongs to one thread.
 */
#pragma once

#include "element/block.h"

#include <millrace/dataset.h>
#include <stdatomic.h>

struct mr_operator; /* dataset/operator.h */
struct mr_kernel;   /* ops/kernel.h */

struct mr_dataset {
    atomic_uint refs;
    const struct mr_operator *op;
    mr_dataset **inputs; /* one reference each */
    size_t ninputs;
    struct mr_attr *attrs; /* sorted by name; names, bytes, ints and blocks are owned */
    size_t nattrs;
    mr_function **functions; /* one reference each */
    size_t nfunctions;
    mr_spec *spec;
    int64_t cardinality;
    uint64_t scope; /* the builder whose values it (or an input) uses; 0: none */
    bool external;  /* its elements, or an input's, come from elsewhere: a service */
    bool draws;     /* it, or an input, draws random numbers: those of an order, or in a function */
    /* 1 for a source, else 1 + the largest step of an input: how error messages count */
    uint32_t step;
    /* the same, datasets inside functions included; <= MR_GRAPH_HEIGHT_MAX, so recursion is
     * bounded */
    uint32_t height;
    uint32_t depth; /* of functions within functions below this node; <= MR_FUNCTION_DEPTH_MAX */
    uint8_t fingerprint[16];
    char *location;  /* in the user's program; NULL: not known */
    char *called;    /* what the user wrote; NULL: the operator's name */
    uint64_t places; /* hash of both and of all below */
    /* Engine iterators whose root this node was: the next one's epoch. */
    atomic_uint_least64_t opened;
    /* Reads of the service opened over this node, as a root or below one: the next one's repetition
     * of its job. */
    atomic_uint_least64_t reads;
    /* What iterators over this object leave to those after them (cache); freed by op->release(). */
    _Atomic(void *) kept;
    /* Whether a thread that pulls its input ahead has paid (engine/trial.h); 0: nobody knows. */
    atomic_uint_least32_t trial_outcome;
};

enum mr_fn_value_kind {
    MR_FN_INPUT = 1,   /* index: leaf of the input spec */
    MR_FN_CAPTURE = 2, /* index: into captures[] */
    MR_FN_NODE = 3,    /* index: into nodes[], output: which of its results */
};

struct mr_fn_value {
    uint8_t kind; /* enum mr_fn_value_kind */
    uint32_t index;
    uint32_t output;
    struct mr_leaf_spec spec;
    uint8_t hash[16]; /* of the computation that it stands for */
};

/* A tensor operator, or a constant (kernel == NULL). Shared between a builder and the functions
 * finished from it. */
struct mr_fn_node {
    atomic_uint refs;
    const struct mr_kernel *kernel; /* NULL: a constant */
    mr_block *constant;             /* one row, one column; if kernel == NULL */
    uint32_t *inputs;               /* value numbers */
    size_t ninputs;
    struct mr_attr *attrs; /* sorted by name, owned */
    size_t nattrs;
    mr_function **functions; /* one reference each; they capture nothing */
    size_t nfunctions;
    uint32_t first_value;           /* value number of the first result; the others follow */
    struct mr_leaf_spec *out_specs; /* what infer said */
    size_t nout;
    uint32_t salt;   /* tells equal random operators of one function apart */
    bool random;     /* it draws random numbers, or a function of it does */
    char *location;  /* in the user's program; NULL: not known */
    char *called;    /* what the user wrote; NULL: the kernel's name */
    uint64_t places; /* hash of both and of those in its functions */
};

struct mr_function {
    atomic_uint refs;
    mr_spec *inputs; /* the leaves are values 0 .. mr_spec_leaves(inputs) - 1 */
    struct mr_fn_value *values;
    size_t nvalues;
    /* inputs come before their users; may hold nodes that no output needs */
    struct mr_fn_node **nodes;
    size_t nnodes;
    uint32_t *captures; /* value numbers in the enclosing function, one a capture */
    size_t ncaptures;
    uint64_t scope;  /* the builder that `captures` belong to; 0 if there are none */
    uint64_t self;   /* the builder that this function was finished from */
    uint32_t depth;  /* 1 + that of the deepest function inside */
    uint32_t height; /* of the highest dataset inside; 0: none */
    /* Nodes, those of functions of tensor operators counted wherever they are used: each is
     * compiled. At most MR_GRAPH_NODES_MAX. */
    uint64_t weight;
    uint8_t fingerprint[16];
    uint64_t places; /* hash of all locations inside: the same function stands at other ones, too */
    /* Of functions that were put behind one another: where the nodes of each end. None: it is one
     * function. */
    uint32_t *ends;
    uint32_t nends;
    uint32_t *outputs; /* value numbers; none if it returns a dataset */
    size_t noutputs;
    mr_spec *spec;       /* of the outputs, or of the dataset's elements */
    mr_dataset *dataset; /* NULL unless it returns one; its scope is this function */
};

struct mr_builder {
    uint64_t id; /* never 0, unique in the process */
    mr_builder *outer;
    mr_spec *inputs;
    struct mr_fn_value *values;
    size_t nvalues;
    size_t values_cap;
    struct mr_fn_node **nodes;
    size_t nnodes;
    size_t nodes_cap;
    uint32_t *captures;
    size_t ncaptures;
    size_t captures_cap;
    uint32_t depth; /* builders around this one */
    uint32_t randoms;
    char *location; /* of what is added next; NULL: not known */
    char *called;   /* the same */
};

/* A function over the same values as @fn that returns the values @outputs (deduplicated by the
 * caller) as a flat tuple: how the engine computes the values that the dataset inside a function
 * needs. */
int mr_function_project(const mr_function *fn, const uint32_t *outputs, size_t n, mr_function **ret,
                        mr_error *err);

/* The function x -> g(f(x)) of two functions over elements. Neither may return a dataset. */
int mr_function_compose(const mr_function *f, const mr_function *g, mr_function **ret,
                        mr_error *err);

/* Whether @fn draws random numbers, or the dataset does that it returns. */
bool mr_function_draws(const mr_function *fn);

/* The value numbers of the enclosing function that @ds needs (attributes and captures of its
 * functions, inputs included), ascending, without repeats. *@ret is freed with mr_free(). */
int mr_dataset_scope_values(const mr_dataset *ds, uint32_t **ret, size_t *n, mr_error *err);

MR_AUTO_DEFINE(mr_dataset, mr_dataset_unref)
MR_AUTO_DEFINE(mr_function, mr_function_unref)
MR_AUTO_DEFINE(mr_builder, mr_builder_free)
