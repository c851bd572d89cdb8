/*
 * Dataset operators: what a graph's nodes are. One table entry each (src/engine/ops/), which says
 * how to check and infer a node and how to run it. This header is the half that building graphs
 * needs; src/engine/op.h is the other.
 *
 * Threads: tables are constant; infer functions are pure.
 */
#pragma once

#include "dataset/graph.h"

enum mr_arg_flag {
    MR_ARG_OPTIONAL = 1u << 0,
    /* INT, INTS or BYTES that may not be a value of the enclosing function */
    MR_ARG_CONSTANT = 1u << 1,
    /* instead of it, "value0", "value1", ... may be given: values of the enclosing function */
    MR_ARG_TENSORS = 1u << 2,
    /* BYTES that stand for a dataset: a value of the enclosing function must be one */
    MR_ARG_DATASET = 1u << 3,
};

/* An attribute of an operator. INT constants are checked against [min, max]; so are values, when
 * they are known. */
struct mr_arg {
    const char *name;
    int32_t kind; /* enum mr_attr_kind */
    uint32_t flags;
    int64_t min;
    int64_t max;
};

struct mr_infer {
    const struct mr_operator *op;
    mr_dataset *const *inputs;
    size_t ninputs;
    const struct mr_attr *attrs; /* sorted, names and kinds checked */
    size_t nattrs;
    mr_function *const *functions;
    size_t nfunctions;
    const mr_builder *scope; /* NULL outside of functions */
    /* results */
    mr_spec *spec; /* one reference, the caller's */
    int64_t cardinality;
};

/* What a function of an operator must return. */
enum mr_function_role {
    MR_FUNCTION_NONE = 0,
    MR_FUNCTION_VALUES = 1,    /* element -> tensors */
    MR_FUNCTION_PREDICATE = 2, /* element -> scalar bool */
    MR_FUNCTION_DATASET = 3,   /* element -> dataset */
    MR_FUNCTION_KEY = 4,       /* element -> scalar int64 */
};

/* How many elements of an input go into each that an operator makes. */
enum mr_rate {
    MR_RATE_UNKNOWN = 0, /* it may make more than it takes: a cache does when it is repeated */
    MR_RATE_ONE = 1,     /* at least one */
    MR_RATE_BATCH = 2,   /* as many as its attribute "batch_size" says */
};

struct mr_op_run; /* engine/op.h */

struct mr_operator {
    const char *name;
    uint32_t revision; /* of what it computes; enters the fingerprint */
    uint32_t inputs;
    bool or_more_inputs;
    enum mr_function_role function; /* takes a function of its input's elements, or none */
    uint8_t min_more_functions;     /* behind that one; infer checks them: mr_infer_function() */
    uint8_t max_more_functions;
    enum mr_rate rate;
    bool draws;                /* random numbers, besides those in functions */
    bool external;             /* its elements come from elsewhere (struct mr_external_opener) */
    const struct mr_arg *args; /* ends with a NULL name; NULL: takes none */
    /* Fill in spec and cardinality. Errors name the argument; the caller puts the operator in
     * front. */
    int (*infer)(struct mr_infer *in, mr_error *err);
    /* Free mr_dataset.kept of a dataset that goes. NULL: nothing is kept. */
    void (*release)(void *kept);
    const struct mr_op_run *run;
};

/* NULL if there is none. */
const struct mr_operator *mr_operator_find(const char *name);
/* All of them, sorted by name. */
const struct mr_operator *const *mr_operator_list(size_t *n);

/* ---- for infer functions ---- */

/* NULL if absent */
const struct mr_attr *mr_infer_attr(const struct mr_infer *in, const char *name);
/* *@known = false if the attribute is a value of the enclosing function. Absent: the fallback. */
int64_t mr_infer_int(const struct mr_infer *in, const char *name, int64_t fallback, bool *known);
/* A BYTES constant as a NUL-terminated string (freed with mr_free()); NULL if absent. Zeros inside
 * are MR_EINVAL. */
int mr_infer_string(const struct mr_infer *in, const char *name, char **ret, mr_error *err);
/* MR_EINVAL unless function @i takes elements of @elements and returns what @role says. */
int mr_infer_function(const struct mr_infer *in, size_t i, enum mr_function_role role,
                      const mr_spec *elements, mr_error *err);
/* The leaves of attributes value0, value1, ... *@ret is freed with mr_free(); *@n = 0: there are
 * none. MR_EINVAL for a gap. */
int mr_infer_values(const struct mr_infer *in, struct mr_leaf_spec **ret, size_t *n, mr_error *err);
/* MR_EINVAL names the first component of @spec that is a dataset: for operators that take tensors
 * only. */
int mr_infer_no_datasets(const mr_spec *spec, mr_error *err);
/* The input's spec and cardinality as they are. */
int mr_infer_same(struct mr_infer *in, mr_error *err);
/* The input's spec, and nobody knows how many of its elements. */
int mr_infer_subset(struct mr_infer *in, mr_error *err);

/* a * b and a + b of cardinalities, unknown and infinite included; saturates to unknown when it
 * does not fit. */
int64_t mr_cardinality_mul(int64_t a, int64_t count);
int64_t mr_cardinality_add(int64_t a, int64_t b);
/* Of some of @a elements, none only if there are none, and without an end if those have none. */
int64_t mr_cardinality_some(int64_t a);

/* "float32[2,?]", for messages. */
#define MR_LEAF_TEXT 224
const char *mr_leaf_text(const struct mr_leaf_spec *leaf, char buf[MR_LEAF_TEXT]);
/* true when every tensor that @narrow describes is one that @wide describes. */
bool mr_leaf_covers(const struct mr_leaf_spec *wide, const struct mr_leaf_spec *narrow);

/* ---- attributes (src/dataset/attrs.c) ---- */

/* MR_EINVAL if @v is out of the range of @arg. */
int mr_arg_check_int(const struct mr_arg *arg, int64_t v, mr_error *err);

/* A sorted deep copy (blocks by reference). MR_EINVAL for duplicates and malformed ones. */
int mr_attrs_copy(const struct mr_attr *attrs, size_t n, struct mr_attr **ret, mr_error *err);
void mr_attrs_free(struct mr_attr *attrs, size_t n);
/* Frees what one of them owns. */
void mr_attr_clear(struct mr_attr *attr);
