/* Attributes and shapes, as infer functions of tensor operators look at them. Pure. */
#pragma once

#include "ops/kernel.h"

/* NULL if absent. */
const struct mr_attr *mr_attr_get(struct mr_attrs attrs, const char *name);
/* It is the bytes @text. */
bool mr_attr_says(const struct mr_attr *attr, const char *text);
/* Optional attributes: the default when absent. mr_kernel_infer() has checked the kinds. */
int64_t mr_attr_int(struct mr_attrs attrs, const char *name, int64_t fallback);
bool mr_attr_bool(struct mr_attrs attrs, const char *name, bool fallback);
mr_dtype mr_attr_dtype(struct mr_attrs attrs, const char *name, mr_dtype fallback);
/* The same, which must be int32 or int64. */
int mr_attr_index_dtype(struct mr_attrs attrs, mr_dtype fallback, uint8_t *ret, mr_error *err);

/* An axis that may be negative, made 0..rank-1; MR_EINVAL names it. */
int mr_axis_resolve(int64_t axis, int rank, int *ret, mr_error *err);
/* The attribute "axis", so resolved. */
int mr_attr_axis(struct mr_attrs attrs, int64_t fallback, int rank, int *ret, mr_error *err);
/* The set of axes in @ints as a bit mask; duplicates are MR_EINVAL. NULL: all. */
int mr_axes_resolve(const struct mr_attr *axes, int rank, uint32_t *mask, mr_error *err);

bool mr_dtype_is_int(unsigned dtype);

/* Sets of dtypes, for the checks below. */
#define MR_SET(dtype) (1u << (dtype))
#define MR_SET_SIGNED (MR_SET(MR_INT8) | MR_SET(MR_INT16) | MR_SET(MR_INT32) | MR_SET(MR_INT64))
#define MR_SET_UNSIGNED                                                                            \
    (MR_SET(MR_UINT8) | MR_SET(MR_UINT16) | MR_SET(MR_UINT32) | MR_SET(MR_UINT64))
#define MR_SET_INTS (MR_SET_SIGNED | MR_SET_UNSIGNED)
#define MR_SET_FLOATS                                                                              \
    (MR_SET(MR_FLOAT16) | MR_SET(MR_BFLOAT16) | MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64))
#define MR_SET_NUMBERS (MR_SET_INTS | MR_SET_FLOATS)
#define MR_SET_COMPLEX (MR_SET(MR_COMPLEX64) | MR_SET(MR_COMPLEX128))
#define MR_SET_INDEX (MR_SET(MR_INT32) | MR_SET(MR_INT64))
/* Without complex numbers: kernels that only move values take those, too. */
#define MR_SET_ANY (MR_SET_NUMBERS | MR_SET(MR_BOOL) | MR_SET(MR_STRING))

/* MR_EINVAL "x is string; wants a number" unless the dtype of input @i is in @set. */
int mr_infer_dtype(const struct mr_leaf_spec *in, size_t i, uint32_t set, mr_error *err);
/* MR_EINVAL names both dtypes unless inputs first..nin-1 all have one. */
int mr_infer_same_dtype(const struct mr_leaf_spec *in, size_t first, size_t nin, mr_error *err);
/* The shapes and dtypes of the results; the inputs' number and dtypes and the attributes are
 * right. */
int mr_infer_call(const struct mr_kernel *kernel, struct mr_kernel_infer *it, mr_error *err);
/* MR_EINVAL unless input @i can have this rank. */
int mr_infer_rank(const struct mr_leaf_spec *in, size_t i, int rank, mr_error *err);

/* What is an attribute or the second and last input, a vector of indices: MR_EINVAL unless it is
 * one of both. */
int mr_infer_attr_or_input(bool is_attr, const struct mr_kernel_infer *it, const char *what,
                           mr_error *err);

int mr_infer_known_rank(const struct mr_leaf_spec *in, mr_error *err);

void mr_shape_unknown(struct mr_leaf_spec *s);
void mr_shape_set(struct mr_leaf_spec *s, int rank, const int64_t *dims);
/* Of rank @rank with unknown dims; MR_EINVAL unless @rank is known: @what names it. */
int mr_shape_open(struct mr_leaf_spec *s, const struct mr_leaf_spec *lengths, const char *what,
                  mr_error *err);
/* One axis more, in place @axis, which may be negative. */
int mr_shape_insert(struct mr_leaf_spec *s, int64_t axis, int64_t dim, mr_error *err);
/* The axis @axis goes. */
void mr_shape_remove(struct mr_leaf_spec *s, int axis);
/* Values before and behind an axis: a tensor is @outer pieces of dims[axis] * @inner values. */
void mr_shape_split(int rank, const int64_t *dims, int axis, uint64_t *outer, uint64_t *inner);
/* NumPy's broadcasting of what is known; MR_EINVAL names both shapes. */
int mr_shape_broadcast(const struct mr_leaf_spec *a, struct mr_leaf_spec *acc, mr_error *err);
/* "[2,?,3]" or "<unknown>" into @buf, which is returned. */
#define MR_SHAPE_TEXT 192
const char *mr_shape_text(int rank, const int64_t *dims, char buf[MR_SHAPE_TEXT]);
/* The product of known dims; false on overflow. */
bool mr_shape_count(int rank, const int64_t *dims, uint64_t *ret);
