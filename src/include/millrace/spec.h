/*
 * Element specs: what the elements of a dataset look like. An element is a nested structure whose
 * leaves are tensors.
 *
 * A spec is an immutable, reference-counted pair of (leaf table, structure). The structure is one
 * line of compact JSON in which "*" stands for the next leaf:
 *     "*"                      one tensor
 *     ["*",["*","*"]]          a tuple (nested)
 *     {"b":"*","a":["*"]}      a dict. Its leaves are in the order of the bytes of the keys: those
 * of
 *                              "a" come first. Bindings show the keys in the order of the text
 *     {"!namedtuple":["Point",["x","y"],["*","*"]]}     a named tuple: type name, field names,
 *                                                       values
 *     {"!dataset":[[["int64",2,-1]],"*"]}    one leaf that is a dataset: the leaf table and
 *                                            structure of its elements.
 * An entry is a dtype and dims, [dtype, null] for an unknown rank, null for a dataset in turn. Keys
 * that begin with "!" are reserved. A named tuple whose name begins with "millrace." is one value
 * of several tensors (ragged and sparse tensors): window makes one dataset of it. Otherwise C code
 * looks at leaves only; language bindings look at the structure.
 *
 * Threads: a spec may be shared; mr_spec_ref/unref are safe from any thread.
 */
#ifndef MILLRACE_SPEC_H
#define MILLRACE_SPEC_H

#include <millrace/base.h>

MR_BEGIN_DECLS

#define MR_RANK_MAX 8
#define MR_RANK_UNKNOWN (-1)
#define MR_DIM_UNKNOWN (-1)

/* The numbers are stored and sent: never reuse one. */
typedef enum mr_dtype {
    MR_DTYPE_NONE = 0,
    MR_BOOL = 1,
    MR_INT8 = 2,
    MR_INT16 = 3,
    MR_INT32 = 4,
    MR_INT64 = 5,
    MR_UINT8 = 6,
    MR_UINT16 = 7,
    MR_UINT32 = 8,
    MR_UINT64 = 9,
    MR_FLOAT16 = 10,
    MR_BFLOAT16 = 11,
    MR_FLOAT32 = 12,
    MR_FLOAT64 = 13,
    MR_STRING = 14,     /* bytes of any length */
    MR_COMPLEX64 = 15,  /* two float32: real and imaginary part */
    MR_COMPLEX128 = 16, /* two float64 */
    MR_DTYPE_COUNT
} mr_dtype;

/* Bytes of one value; 0 for MR_STRING and for numbers that are not a dtype. */
MR_API size_t mr_dtype_size(mr_dtype dtype);
/* "int64", "float32", "string"; NULL for numbers that are not a dtype. */
MR_API const char *mr_dtype_name(mr_dtype dtype);

/*
 * A dataset as (part of) an element: what window gives. It exists inside of one engine only, as a
 * scalar string that holds its elements; only the structure says what these are, so a spec with
 * such a leaf wants its structure.
 */
enum mr_leaf_kind {
    MR_LEAF_TENSOR = 0,
    MR_LEAF_DATASET = 1, /* MR_STRING of rank 0; dims[0] is a hash of the spec of its elements */
};

/* The size is fixed for good: what is to be added takes the reserved bytes. */
struct mr_leaf_spec {
    uint8_t dtype; /* enum mr_dtype */
    int8_t rank;   /* 0..MR_RANK_MAX, or MR_RANK_UNKNOWN */
    uint8_t kind;  /* enum mr_leaf_kind */
    uint8_t reserved[5];
    int64_t dims[MR_RANK_MAX]; /* dims[0..rank), each >= 0 or MR_DIM_UNKNOWN; the rest is 0 */
};

typedef struct mr_spec mr_spec;

/*
 * A spec of @n leaves (copied) and @structure (copied; NULL: "*" for one leaf, else a flat tuple).
 * MR_EINVAL names the leaf or the place in the structure. The caller owns *@ret.
 */
MR_API int mr_spec_new(const struct mr_leaf_spec *leaves, size_t n, const char *structure,
                       mr_spec **ret, mr_error *err);
MR_API mr_spec *mr_spec_ref(const mr_spec *spec);
MR_API void mr_spec_unref(mr_spec *spec); /* NULL is fine */

MR_API size_t mr_spec_leaves(const mr_spec *spec);
MR_API const struct mr_leaf_spec *mr_spec_leaf(const mr_spec *spec,
                                               size_t i);  /* lent; i < mr_spec_leaves() */
MR_API const char *mr_spec_structure(const mr_spec *spec); /* lent */
/* Whatever the order of the keys of dicts. */
MR_API bool mr_spec_equal(const mr_spec *a, const mr_spec *b);

MR_END_DECLS

#endif
