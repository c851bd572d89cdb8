/* What infer functions of dataset operators have in common. */
#include "dataset/operator.h"
#include "ops/kernel.h"

const struct mr_attr *mr_infer_attr(const struct mr_infer *in, const char *name)
{
    return mr_attr_find(in->attrs, in->nattrs, name);
}

int64_t mr_infer_int(const struct mr_infer *in, const char *name, int64_t fallback, bool *known)
{
    const struct mr_attr *a = mr_infer_attr(in, name);

    *known = a == NULL || a->kind != MR_ATTR_VALUE;
    return a != NULL && *known ? a->i : fallback;
}

int mr_infer_string(const struct mr_infer *in, const char *name, char **ret, mr_error *err)
{
    const struct mr_attr *a = mr_infer_attr(in, name);

    *ret = NULL;
    if (a == NULL || a->kind != MR_ATTR_BYTES) {
        return MR_OK;
    }
    if (memchr(a->bytes, 0, a->size) != NULL) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' has a zero byte in it", name);
    }
    *ret = mr_strndup(a->bytes, a->size);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

int mr_infer_values(const struct mr_infer *in, struct mr_leaf_spec **ret, size_t *n, mr_error *err)
{
    size_t count = 0;
    size_t numbered = 0;
    char name[32];

    *ret = NULL;
    *n = 0;
    for (size_t i = 0; i < in->nattrs; i++) {
        numbered += strncmp(in->attrs[i].name, "value", 5) == 0;
    }
    if (numbered == 0) {
        return MR_OK;
    }
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(numbered, sizeof *leaves);
    MR_CHECK_ALLOC(leaves, err);
    for (; count < numbered; count++) {
        (void)snprintf(name, sizeof name, "value%zu", count);
        const struct mr_attr *a = mr_infer_attr(in, name);
        if (a == NULL) {
            return mr_error_set(err, MR_EINVAL, "argument '%s' is missing: there are %zu values",
                                name, numbered);
        }
        leaves[count] = in->scope->values[a->i].spec;
    }
    *ret = MR_TAKE(leaves);
    *n = count;
    return MR_OK;
}

int mr_infer_no_datasets(const mr_spec *spec, mr_error *err)
{
    for (size_t i = 0; i < mr_spec_leaves(spec); i++) {
        if (mr_spec_leaf(spec, i)->kind == MR_LEAF_DATASET) {
            return mr_error_set(err, MR_EINVAL,
                                "component %zu of the elements is a dataset, it must be a tensor: "
                                "make tensors of it in flat_map first (window.batch(size))",
                                i);
        }
    }
    return MR_OK;
}

int mr_infer_same(struct mr_infer *in, mr_error *err)
{
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    in->cardinality = in->inputs[0]->cardinality;
    return MR_OK;
}

int mr_infer_subset(struct mr_infer *in, mr_error *err)
{
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    in->cardinality = in->inputs[0]->cardinality == 0 ? 0 : MR_CARDINALITY_UNKNOWN;
    return MR_OK;
}

int64_t mr_cardinality_mul(int64_t a, int64_t count)
{
    int64_t r;

    if (a == 0 || count == 0) {
        return 0;
    }
    if (a == MR_CARDINALITY_UNKNOWN) {
        return MR_CARDINALITY_UNKNOWN;
    }
    if (a == MR_CARDINALITY_INFINITE || count < 0) {
        return MR_CARDINALITY_INFINITE;
    }
    return __builtin_mul_overflow(a, count, &r) ? MR_CARDINALITY_UNKNOWN : r;
}

int64_t mr_cardinality_add(int64_t a, int64_t b)
{
    int64_t r;

    if (a == MR_CARDINALITY_INFINITE || b == MR_CARDINALITY_INFINITE) {
        return MR_CARDINALITY_INFINITE;
    }
    if (a == MR_CARDINALITY_UNKNOWN || b == MR_CARDINALITY_UNKNOWN) {
        return MR_CARDINALITY_UNKNOWN;
    }
    return __builtin_add_overflow(a, b, &r) ? MR_CARDINALITY_UNKNOWN : r;
}

int64_t mr_cardinality_some(int64_t a)
{
    return a == 0 || a == MR_CARDINALITY_INFINITE ? a : MR_CARDINALITY_UNKNOWN;
}

const char *mr_leaf_text(const struct mr_leaf_spec *leaf, char buf[MR_LEAF_TEXT])
{
    const char *name =
        leaf->kind == MR_LEAF_DATASET ? "dataset" : mr_dtype_name((mr_dtype)leaf->dtype);
    char dims[MR_LEAF_TEXT];

    (void)snprintf(buf, MR_LEAF_TEXT, "%s%s", name != NULL ? name : "?",
                   leaf->rank == MR_RANK_UNKNOWN
                       ? "[...]"
                       : mr_dims_format(leaf->dims, leaf->rank, dims, sizeof dims));
    return buf;
}

bool mr_leaf_covers(const struct mr_leaf_spec *wide, const struct mr_leaf_spec *narrow)
{
    if (wide->dtype != narrow->dtype || wide->kind != narrow->kind) {
        return false;
    }
    if (wide->kind == MR_LEAF_DATASET) {
        return wide->dims[0] == narrow->dims[0]; /* of one spec */
    }
    if (wide->rank == MR_RANK_UNKNOWN) {
        return true;
    }
    if (wide->rank != narrow->rank) {
        return false;
    }
    for (int i = 0; i < wide->rank; i++) {
        if (wide->dims[i] != MR_DIM_UNKNOWN && wide->dims[i] != narrow->dims[i]) {
            return false;
        }
    }
    return true;
}
