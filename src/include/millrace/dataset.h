/*
 * Datasets: graphs of operators, built node by node. A mr_dataset is an immutable node with
 * references to its inputs.
 *
 * Building validates and infers: an error names the operator and the argument. Nothing is read or
 * run here. Operators are named in docs/use/operators.md; a binding passes names and attributes
 * through.
 *
 * Functions given to map, filter, flat_map, ... are graphs of tensor operators, built with a
 * mr_builder. Values inside a builder are numbered from 0: first the inputs (one per leaf of the
 * input spec), then constants, captures and results in the order they were added.
 *
 * Threads: datasets, functions and specs may be shared between threads; a builder belongs to one.
 */
#ifndef MILLRACE_DATASET_H
#define MILLRACE_DATASET_H

#include <millrace/base.h>
#include <millrace/block.h>
#include <millrace/spec.h>

MR_BEGIN_DECLS

typedef struct mr_dataset mr_dataset;
typedef struct mr_function mr_function;
typedef struct mr_builder mr_builder;

#define MR_CARDINALITY_INFINITE (-1)
#define MR_CARDINALITY_UNKNOWN (-2)

enum mr_attr_kind {
    MR_ATTR_INT = 1,
    MR_ATTR_FLOAT = 2,
    MR_ATTR_BOOL = 3,
    MR_ATTR_BYTES = 4,
    MR_ATTR_DTYPE = 5,
    MR_ATTR_SHAPE =
        6, /* dims in ints[0..count), MR_DIM_UNKNOWN allowed; count = -1: rank unknown */
    MR_ATTR_INTS = 7,
    MR_ATTR_BLOCK = 8,   /* constant tensors: kept by content, limit 256 MiB in a definition */
    MR_ATTR_STRINGS = 9, /* block: one MR_STRING column of rank 0, one row a string */
    MR_ATTR_VALUE =
        10, /* a value of the enclosing function; i = its number in the scope's builder */
};

/*
 * One named argument of an operator. Everything is copied or referenced; the caller keeps what it
 * passed. These come in arrays, so the size is fixed for good: new fields take the reserved room,
 * which must be 0.
 */
struct mr_attr {
    const char *name;
    int32_t kind;  /* enum mr_attr_kind */
    int32_t count; /* ints */
    int64_t i;     /* INT, BOOL, DTYPE, VALUE */
    double f;
    const void *bytes; /* BYTES */
    size_t size;
    const int64_t *ints; /* SHAPE, INTS */
    const mr_block *block;
    uint64_t reserved[3];
};

/*
 * Apply operator @op to @inputs. @functions are the operator's functions in its own order. @scope
 * is the builder whose values MR_ATTR_VALUE attributes and whose captures @inputs refer to; NULL
 * outside of functions. MR_EINVAL names operator and argument; MR_EUNIMPL names an operator this
 * library does not have.
 */
MR_API int mr_dataset_apply(const char *op, mr_dataset *const *inputs, size_t ninputs,
                            const struct mr_attr *attrs, size_t nattrs,
                            mr_function *const *functions, size_t nfunctions, mr_builder *scope,
                            mr_dataset **ret, mr_error *err);
/*
 * Where in the user's program the operator was added: "project/train.py:41", say. Errors of
 * elements name it. It is stored with the definition, and neither the fingerprint nor anything else
 * knows it: a dataset that a service has already keeps the locations with which it was registered
 * first. Text of at most MR_LOCATION_BYTES_MAX bytes (UTF-8, no control characters), copied; NULL:
 * not known, as at first. Only who has the only reference may set it: MR_EPRECOND.
 */
#define MR_LOCATION_BYTES_MAX 96
MR_API int mr_dataset_set_location(mr_dataset *ds, const char *location, mr_error *err);
/* The same of what the user wrote there, as "TFRecordDataset" for the operator tfrecord: errors
 * name the operator so. NULL or "": by its own name, as at first. */
MR_API int mr_dataset_set_called(mr_dataset *ds, const char *called, mr_error *err);
MR_API mr_dataset *mr_dataset_ref(mr_dataset *ds);
MR_API void mr_dataset_unref(mr_dataset *ds); /* NULL is fine */

MR_API const mr_spec *mr_dataset_spec(const mr_dataset *ds); /* lent */
/* Number of elements, MR_CARDINALITY_INFINITE or MR_CARDINALITY_UNKNOWN. */
MR_API int64_t mr_dataset_cardinality(const mr_dataset *ds);
/* XXH3-128 of the canonical form: equal pipelines are equal, however they were built. */
MR_API int mr_dataset_fingerprint(const mr_dataset *ds, uint8_t fingerprint[16], mr_error *err);

/* The definition as bytes (a millrace.DatasetDef). *@ret is freed with mr_free(). */
MR_API int mr_dataset_serialize(const mr_dataset *ds, void **ret, size_t *size, mr_error *err);
/* The inverse; validates everything. MR_EINVAL names the node and the fault. */
MR_API int mr_dataset_parse(const void *bytes, size_t size, mr_dataset **ret, mr_error *err);

/*
 * Begin a function whose arguments are the leaves of @inputs. @outer is the builder of the function
 * around it, or NULL; it must outlive this one.
 */
MR_API int mr_builder_new(const mr_spec *inputs, mr_builder *outer, mr_builder **ret,
                          mr_error *err);
/* Add a tensor operator; writes the numbers of its @noutputs results. At most @cap outputs fit. */
MR_API int mr_builder_add(mr_builder *b, const char *op, const uint32_t *inputs, size_t ninputs,
                          const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                          size_t nfunctions, uint32_t *outputs, size_t cap, size_t *noutputs,
                          mr_error *err);
/* The same as mr_dataset_set_location(), of the tensor operators that are added from now on. */
MR_API int mr_builder_set_location(mr_builder *b, const char *location, mr_error *err);
/* The same as mr_dataset_set_called(): "decode_jpeg" for the operator decode_image. */
MR_API int mr_builder_set_called(mr_builder *b, const char *called, mr_error *err);
/* A constant: a block of one row and one column. */
MR_API int mr_builder_constant(mr_builder *b, const mr_block *tensor, uint32_t *ret, mr_error *err);
/* A value of the enclosing function, made visible in this one. */
MR_API int mr_builder_capture(mr_builder *b, uint32_t outer_value, uint32_t *ret, mr_error *err);
MR_API int mr_builder_value_spec(const mr_builder *b, uint32_t value, struct mr_leaf_spec *ret,
                                 mr_error *err);
/* The function that returns these values in this structure (see spec.h; NULL: default). The builder
 * is still to be freed. */
MR_API int mr_builder_finish(mr_builder *b, const uint32_t *outputs, size_t n,
                             const char *structure, mr_function **ret, mr_error *err);
/* The function that returns @ds, built with this builder as its scope. */
MR_API int mr_builder_finish_dataset(mr_builder *b, mr_dataset *ds, mr_function **ret,
                                     mr_error *err);
MR_API void mr_builder_free(mr_builder *b); /* NULL is fine */

MR_API mr_function *mr_function_ref(mr_function *fn);
MR_API void mr_function_unref(mr_function *fn); /* NULL is fine */
/* What the function returns: its leaves, or the element spec of the dataset it returns. Lent. */
MR_API const mr_spec *mr_function_spec(const mr_function *fn);
MR_API bool mr_function_returns_dataset(const mr_function *fn);

MR_END_DECLS

#endif
