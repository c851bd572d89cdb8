#include "ops/attr.h"

const struct mr_attr *mr_attr_find(const struct mr_attr *attrs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0) {
            return &attrs[i];
        }
    }
    return NULL;
}

bool mr_attr_says(const struct mr_attr *attr, const char *text)
{
    return attr->size == strlen(text) && memcmp(attr->bytes, text, attr->size) == 0;
}

const char *mr_attr_kind_name(int32_t kind)
{
    static const char *const names[] = {
        [MR_ATTR_INT] = "an integer",
        [MR_ATTR_FLOAT] = "a float",
        [MR_ATTR_BOOL] = "a bool",
        [MR_ATTR_BYTES] = "bytes",
        [MR_ATTR_DTYPE] = "a dtype",
        [MR_ATTR_SHAPE] = "a shape",
        [MR_ATTR_INTS] = "a list of ints",
        [MR_ATTR_BLOCK] = "tensors",
        [MR_ATTR_STRINGS] = "a list of strings",
        [MR_ATTR_VALUE] = "a value of the enclosing function",
    };

    return kind > 0 && (size_t)kind < sizeof names / sizeof names[0] ? names[kind]
                                                                     : "of no known kind";
}

bool mr_attr_name_matches(const char *pattern, const char *name)
{
    size_t len = strlen(pattern);

    if (len == 0 || pattern[len - 1] != '#') {
        return strcmp(pattern, name) == 0;
    }
    return strncmp(pattern, name, len - 1) == 0 && name[len - 1] != '\0' &&
           strspn(name + len - 1, "0123456789") == strlen(name + len - 1);
}

const struct mr_attr *mr_attr_get(struct mr_attrs attrs, const char *name)
{
    return mr_attr_find(attrs.list, attrs.n, name);
}

int64_t mr_attr_int(struct mr_attrs attrs, const char *name, int64_t fallback)
{
    const struct mr_attr *a = mr_attr_get(attrs, name);

    return a == NULL ? fallback : a->i;
}

bool mr_attr_bool(struct mr_attrs attrs, const char *name, bool fallback)
{
    return mr_attr_int(attrs, name, fallback) != 0;
}

mr_dtype mr_attr_dtype(struct mr_attrs attrs, const char *name, mr_dtype fallback)
{
    return (mr_dtype)mr_attr_int(attrs, name, fallback);
}

int mr_attr_index_dtype(struct mr_attrs attrs, mr_dtype fallback, uint8_t *ret, mr_error *err)
{
    mr_dtype dtype = mr_attr_dtype(attrs, "dtype", fallback);

    if (dtype != MR_INT32 && dtype != MR_INT64) {
        return mr_error_set(err, MR_EINVAL, "dtype %s: wants int32 or int64", mr_dtype_name(dtype));
    }
    *ret = (uint8_t)dtype;
    return MR_OK;
}

int mr_attr_axis(struct mr_attrs attrs, int64_t fallback, int rank, int *ret, mr_error *err)
{
    return mr_axis_resolve(mr_attr_int(attrs, "axis", fallback), rank, ret, err);
}

int mr_axis_resolve(int64_t axis, int rank, int *ret, mr_error *err)
{
    if (axis < -rank || axis >= rank) {
        return mr_error_set(err, MR_EINVAL, "axis %lld is out of range for rank %d",
                            (long long)axis, rank);
    }
    *ret = (int)(axis < 0 ? axis + rank : axis);
    return MR_OK;
}

int mr_axes_resolve(const struct mr_attr *axes, int rank, uint32_t *mask, mr_error *err)
{
    uint32_t set = 0;

    if (axes == NULL) {
        *mask = (1u << rank) - 1;
        return MR_OK;
    }
    for (int32_t i = 0; i < axes->count; i++) {
        int axis = 0;
        MR_TRY(mr_axis_resolve(axes->ints[i], rank, &axis, err));
        if (set & (1u << axis)) {
            return mr_error_set(err, MR_EINVAL, "axis %d is named twice", axis);
        }
        set |= 1u << axis;
    }
    *mask = set;
    return MR_OK;
}

bool mr_dtype_is_int(unsigned dtype)
{
    return dtype < MR_DTYPE_COUNT && (MR_SET(dtype) & MR_SET_INTS) != 0;
}

static const char *set_name(uint32_t set)
{
    switch (set) {
    case MR_SET_SIGNED | MR_SET_FLOATS: return "a signed number";
    case MR_SET_INTS: return "an int";
    case MR_SET_FLOATS: return "a float";
    case MR_SET_NUMBERS: return "a number";
    case MR_SET_NUMBERS | MR_SET(MR_BOOL): return "a number or bool";
    case MR_SET_INDEX: return "int32 or int64";
    case MR_SET(MR_BOOL): return "bool";
    case MR_SET(MR_STRING): return "a string";
    default: return "another dtype";
    }
}

int mr_infer_dtype(const struct mr_leaf_spec *in, size_t i, uint32_t set, mr_error *err)
{
    const char *name = mr_dtype_name((mr_dtype)in[i].dtype);

    if (name != NULL && (MR_SET(in[i].dtype) & set) != 0) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL, "input %zu is %s; wants %s", i,
                        name == NULL ? "no dtype" : name, set_name(set));
}

int mr_infer_same_dtype(const struct mr_leaf_spec *in, size_t first, size_t nin, mr_error *err)
{
    for (size_t i = first + 1; i < nin; i++) {
        if (in[i].dtype != in[first].dtype) {
            return mr_error_set(err, MR_EINVAL, "dtypes %s and %s: cast one of them",
                                mr_dtype_name((mr_dtype)in[first].dtype),
                                mr_dtype_name((mr_dtype)in[i].dtype));
        }
    }
    return MR_OK;
}

int mr_infer_rank(const struct mr_leaf_spec *in, size_t i, int rank, mr_error *err)
{
    if (in[i].rank == MR_RANK_UNKNOWN || in[i].rank == rank) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL, "input %zu has rank %d; wants %d%s", i, in[i].rank, rank,
                        rank == 0 ? ", a scalar: before batch, or in map_fn" : "");
}

int mr_infer_attr_or_input(bool is_attr, const struct mr_kernel_infer *it, const char *what,
                           mr_error *err)
{
    if (is_attr == (it->nin == 2)) {
        return mr_error_set(err, MR_EINVAL, "wants %s as an attribute or as an input", what);
    }
    if (!is_attr) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 1, err));
    }
    return MR_OK;
}

int mr_infer_known_rank(const struct mr_leaf_spec *in, mr_error *err)
{
    return in->rank >= 0 ? MR_OK : mr_error_set(err, MR_EINVAL, "the rank of the input is unknown");
}

int mr_infer_call(const struct mr_kernel *kernel, struct mr_kernel_infer *it, mr_error *err)
{
    it->nout = 1;
    it->out[0] = it->in[0];
    for (size_t i = 1; (kernel->flags & MR_KERNEL_ELEMENTWISE) != 0 && i < it->nin; i++) {
        MR_TRY(mr_shape_broadcast(&it->in[i], it->out, err));
    }
    if (kernel->infer != NULL) {
        MR_TRY(kernel->infer(it, err));
    }
    it->out[0].dtype = kernel->result != 0 ? kernel->result : it->out[0].dtype;
    return MR_OK;
}

void mr_shape_unknown(struct mr_leaf_spec *s)
{
    s->rank = MR_RANK_UNKNOWN;
    memset(s->dims, 0, sizeof s->dims);
}

void mr_shape_set(struct mr_leaf_spec *s, int rank, const int64_t *dims)
{
    s->rank = (int8_t)rank;
    for (int i = 0; i < MR_RANK_MAX; i++) {
        s->dims[i] = i < rank ? dims[i] : 0;
    }
}

int mr_shape_open(struct mr_leaf_spec *s, const struct mr_leaf_spec *lengths, const char *what,
                  mr_error *err)
{
    if (lengths->rank != 1 || lengths->dims[0] < 0 || lengths->dims[0] > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "the length of %s must be known and at most %d", what,
                            MR_RANK_MAX);
    }
    s->rank = (int8_t)lengths->dims[0];
    for (int d = 0; d < MR_RANK_MAX; d++) {
        s->dims[d] = d < s->rank ? MR_DIM_UNKNOWN : 0;
    }
    return MR_OK;
}

int mr_shape_insert(struct mr_leaf_spec *s, int64_t axis, int64_t dim, mr_error *err)
{
    int at = 0;

    if (s->rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", MR_RANK_MAX + 1,
                            MR_RANK_MAX);
    }
    MR_TRY(mr_axis_resolve(axis, s->rank + 1, &at, err));
    memmove(s->dims + at + 1, s->dims + at, (size_t)(s->rank - at) * sizeof s->dims[0]);
    s->dims[at] = dim;
    s->rank++;
    return MR_OK;
}

void mr_shape_remove(struct mr_leaf_spec *s, int axis)
{
    s->rank--;
    memmove(s->dims + axis, s->dims + axis + 1, (size_t)(s->rank - axis) * sizeof s->dims[0]);
    s->dims[s->rank] = 0;
}

void mr_shape_split(int rank, const int64_t *dims, int axis, uint64_t *outer, uint64_t *inner)
{
    *outer = 1;
    *inner = 1;
    for (int d = 0; d < rank; d++) {
        *outer *= d < axis ? (uint64_t)dims[d] : 1;
        *inner *= d > axis ? (uint64_t)dims[d] : 1;
    }
}

const char *mr_shape_text(int rank, const int64_t *dims, char buf[MR_SHAPE_TEXT])
{
    return mr_dims_format(dims, rank, buf, MR_SHAPE_TEXT);
}

static bool join_dim(int64_t a, int64_t b, int64_t *ret)
{
    if (a == b || b == 1) {
        *ret = a;
    } else if (a == 1) {
        *ret = b;
    } else if (a == MR_DIM_UNKNOWN) {
        *ret = b;
    } else if (b == MR_DIM_UNKNOWN) {
        *ret = a;
    } else {
        return false;
    }
    return true;
}

int mr_shape_broadcast(const struct mr_leaf_spec *a, struct mr_leaf_spec *acc, mr_error *err)
{
    int64_t dims[MR_RANK_MAX];

    if (a->rank < 0 || acc->rank < 0) {
        mr_shape_unknown(acc);
        return MR_OK;
    }
    int rank = a->rank > acc->rank ? a->rank : acc->rank;
    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank);
        int ib = i - (rank - acc->rank);

        if (!join_dim(ia < 0 ? 1 : a->dims[ia], ib < 0 ? 1 : acc->dims[ib], &dims[i])) {
            char ta[MR_SHAPE_TEXT];
            char tb[MR_SHAPE_TEXT];

            return mr_error_set(err, MR_EINVAL, "shapes %s and %s do not broadcast",
                                mr_shape_text(acc->rank, acc->dims, tb),
                                mr_shape_text(a->rank, a->dims, ta));
        }
    }
    mr_shape_set(acc, rank, dims);
    return MR_OK;
}

bool mr_shape_count(int rank, const int64_t *dims, uint64_t *ret)
{
    uint64_t n = 1;
    bool zero = false;

    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return false;
        }
        zero = zero || dims[i] == 0;
        if (dims[i] > 0 && __builtin_mul_overflow(n, (uint64_t)dims[i], &n)) {
            return false;
        }
    }
    *ret = zero ? 0 : n;
    return true;
}
