#include "base/limits.h"
#include "dataset/operator.h"

#include <stdlib.h>

int mr_arg_check_int(const struct mr_arg *arg, int64_t v, mr_error *err)
{
    if (v < arg->min) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' is %lld, it must be at least %lld",
                            arg->name, (long long)v, (long long)arg->min);
    }
    if (v > arg->max) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' is %lld, it must be at most %lld",
                            arg->name, (long long)v, (long long)arg->max);
    }
    return MR_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct mr_attr *)a)->name, ((const struct mr_attr *)b)->name);
}

static int check_shape(const struct mr_attr *a, mr_error *err)
{
    if (a->count < -1 || a->count > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "argument '%s': rank %d, at most %d is possible",
                            a->name, a->count, MR_RANK_MAX);
    }
    for (int32_t i = 0; i < a->count; i++) {
        if (a->ints[i] < MR_DIM_UNKNOWN) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': dimension %d is %lld", a->name, i,
                                (long long)a->ints[i]);
        }
    }
    return MR_OK;
}

static int check_strings(const struct mr_attr *a, mr_error *err)
{
    if (mr_block_column_count(a->block) == 1) {
        const struct mr_column *c = mr_block_column(a->block, 0);

        if (c->dtype == MR_STRING && c->kind == MR_COLUMN_FIXED && c->rank == 0) {
            return MR_OK;
        }
    }
    return mr_error_set(err, MR_EINVAL,
                        "argument '%s': a list of strings is one column of string scalars",
                        a->name);
}

static int check_attr(const struct mr_attr *a, mr_error *err)
{
    if (a->name == NULL || a->name[0] == '\0' || strlen(a->name) > MR_NAME_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "an argument has no name, or one of more than %d bytes",
                            MR_NAME_BYTES_MAX);
    }
    if ((a->reserved[0] | a->reserved[1] | a->reserved[2]) != 0) {
        return mr_error_set(err, MR_EINVAL, "argument '%s': what is reserved must be 0", a->name);
    }
    switch (a->kind) {
    case MR_ATTR_INT:
    case MR_ATTR_FLOAT:
    case MR_ATTR_BOOL: return MR_OK;
    case MR_ATTR_VALUE:
        if (a->i < 0 || a->i > UINT32_MAX) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': no value number: %lld", a->name,
                                (long long)a->i);
        }
        return MR_OK;
    case MR_ATTR_DTYPE:
        if (a->i <= 0 || a->i >= MR_DTYPE_COUNT) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': %lld is not a dtype", a->name,
                                (long long)a->i);
        }
        return MR_OK;
    case MR_ATTR_BYTES:
        if (a->size > MR_DEFINITION_BYTES_MAX || (a->size > 0 && a->bytes == NULL)) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': %zu bytes", a->name, a->size);
        }
        return MR_OK;
    case MR_ATTR_SHAPE:
        if (a->count > 0 && a->ints == NULL) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': no dimensions given", a->name);
        }
        return check_shape(a, err);
    case MR_ATTR_INTS:
        if (a->count < 0 || (a->count > 0 && a->ints == NULL)) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': a list of %d integers", a->name,
                                a->count);
        }
        return MR_OK;
    case MR_ATTR_BLOCK:
    case MR_ATTR_STRINGS:
        if (a->block == NULL) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': no tensors given", a->name);
        }
        return a->kind == MR_ATTR_STRINGS ? check_strings(a, err) : MR_OK;
    default:
        return mr_error_set(err, MR_EINVAL, "argument '%s': kind %d is unknown", a->name, a->kind);
    }
}

static bool copy_attr(struct mr_attr *to, const struct mr_attr *from)
{
    size_t ints = from->kind == MR_ATTR_SHAPE || from->kind == MR_ATTR_INTS
                      ? (size_t)MR_MAX(from->count, 0)
                      : 0;

    to->kind = from->kind;
    to->name = mr_strdup(from->name);
    to->count = from->count;
    to->i = from->kind == MR_ATTR_BOOL ? from->i != 0 : from->i;
    to->f = from->f;
    if (from->kind == MR_ATTR_BYTES) {
        to->bytes = mr_memdup(from->size > 0 ? from->bytes : "", from->size);
        to->size = from->size;
    }
    if (ints > 0) {
        to->ints = mr_memdup(from->ints, ints * sizeof *to->ints);
    }
    if (from->kind == MR_ATTR_BLOCK || from->kind == MR_ATTR_STRINGS) {
        to->block = mr_block_ref(from->block);
    }
    return to->name != NULL && (from->kind != MR_ATTR_BYTES || to->bytes != NULL) &&
           (ints == 0 || to->ints != NULL);
}

static int copy_attrs(const struct mr_attr *attrs, size_t n, struct mr_attr *copy, mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        MR_TRY(check_attr(&attrs[i], err));
        if (!copy_attr(&copy[i], &attrs[i])) {
            return mr_error_nomem(err);
        }
    }
    qsort(copy, n, sizeof *copy, compare);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(copy[i - 1].name, copy[i].name) == 0) {
            return mr_error_set(err, MR_EINVAL, "argument '%s' is given twice", copy[i].name);
        }
    }
    return MR_OK;
}

int mr_attrs_copy(const struct mr_attr *attrs, size_t n, struct mr_attr **ret, mr_error *err)
{
    struct mr_attr *copy = mr_calloc(n, sizeof *copy);

    MR_CHECK_ALLOC(copy, err);
    int rc = copy_attrs(attrs, n, copy, err);
    if (rc == MR_OK) {
        *ret = copy;
    } else {
        mr_attrs_free(copy, n);
    }
    return rc;
}

void mr_attr_clear(struct mr_attr *attr)
{
    mr_free((void *)(uintptr_t)attr->name);
    mr_free((void *)(uintptr_t)attr->bytes);
    mr_free((void *)(uintptr_t)attr->ints);
    mr_block_unref(attr->block);
}

void mr_attrs_free(struct mr_attr *attrs, size_t n)
{
    for (size_t i = 0; attrs != NULL && i < n; i++) {
        mr_attr_clear(&attrs[i]);
    }
    mr_free(attrs);
}
