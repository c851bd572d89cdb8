#include "engine/ops/padding.h"

#include "engine/ops/ops.h"

#define DIM_OF_SIZES (-2) /* in padded_shapes: the next number of sizes */

/* The padded shape of a leaf, from the numbers at @dims; @leaf becomes it. */
static int pad_leaf(struct mr_leaf_spec *leaf, const char *place, int64_t rank, const int64_t *dims,
                    mr_error *err)
{
    struct mr_leaf_spec padded = {.dtype = leaf->dtype, .rank = (int8_t)rank};
    char is[MR_LEAF_TEXT];
    char wants[MR_LEAF_TEXT];
    bool fits = leaf->rank == MR_RANK_UNKNOWN || leaf->rank == rank;

    for (int d = 0; d < rank; d++) {
        if (dims[d] < DIM_OF_SIZES) {
            return mr_error_set(err, MR_EINVAL,
                                "argument 'padded_shapes', %s: %lld is not a dimension", place,
                                (long long)dims[d]);
        }
        fits = fits && (dims[d] < 0 || leaf->rank == MR_RANK_UNKNOWN || leaf->dims[d] <= dims[d]);
        padded.dims[d] = dims[d] < 0 ? MR_DIM_UNKNOWN : dims[d];
    }
    if (!fits) {
        return mr_error_set(err, MR_EINVAL, "%s is %s: it cannot be padded to %s", place,
                            mr_leaf_text(leaf, is), mr_leaf_text(&padded, wants));
    }
    *leaf = padded;
    return MR_OK;
}

/* The shapes of padded_batch, one a leaf of @elements; *@ret is freed with mr_free(). */
static int padded_leaves(const mr_spec *elements, const struct mr_attr *shapes,
                         struct mr_leaf_spec **ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    size_t n = mr_spec_leaves(elements);
    int32_t at = 0;
    int rc = MR_OK;

    MR_TRY(mr_spec_copy_leaves(elements, &leaves, err));
    for (size_t i = 0; rc == MR_OK && i < n; i++) {
        int64_t rank = shapes == NULL       ? leaves[i].rank
                       : at < shapes->count ? shapes->ints[at]
                                            : MR_RANK_UNKNOWN;

        if (shapes == NULL && rank == MR_RANK_UNKNOWN) {
            rc = mr_error_set(err, MR_EINVAL,
                              "argument 'padded_shapes' is missing: %s has an unknown rank",
                              MR_COMPONENT(elements, i));
        } else if (shapes != NULL &&
                   (rank < 0 || rank > MR_RANK_MAX || shapes->count - at - 1 < rank)) {
            rc = mr_error_set(err, MR_EINVAL, "argument 'padded_shapes' has no shape for %s",
                              MR_COMPONENT(elements, i));
        } else if (shapes != NULL) {
            rc = pad_leaf(&leaves[i], MR_COMPONENT(elements, i), rank, shapes->ints + at + 1, err);
            at += 1 + (int32_t)rank;
        }
    }
    if (rc == MR_OK && shapes != NULL && at != shapes->count) {
        rc = mr_error_set(err, MR_EINVAL,
                          "argument 'padded_shapes' has shapes for more than %zu components", n);
    }
    if (rc != MR_OK) {
        return rc;
    }
    *ret = MR_TAKE(leaves);
    return MR_OK;
}

/* What stands for -2 in @shapes: numbers, as many. */
static int check_sizes(const struct mr_attr *shapes, const int64_t *sizes, size_t n, mr_error *err)
{
    size_t wanted = 0;

    for (int32_t at = 0; shapes != NULL && at < shapes->count;
         at += 1 + (int32_t)shapes->ints[at]) {
        for (int64_t d = 1; d <= shapes->ints[at]; d++) {
            wanted += shapes->ints[at + d] == DIM_OF_SIZES;
        }
    }
    if (wanted != n) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'sizes' has %zu numbers, 'padded_shapes' takes %zu", n,
                            wanted);
    }
    for (size_t i = 0; sizes != NULL && i < n; i++) {
        if (sizes[i] < MR_DIM_UNKNOWN) {
            return mr_error_set(err, MR_EINVAL, "argument 'sizes': %lld is not a dimension",
                                (long long)sizes[i]);
        }
    }
    return MR_OK;
}

static int infer_sizes(const struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *sizes = mr_infer_attr(in, "sizes");
    const struct mr_attr *shapes = mr_infer_attr(in, "padded_shapes");

    if (sizes == NULL) {
        return check_sizes(shapes, NULL, 0, err);
    }
    return sizes->kind == MR_ATTR_INTS ? check_sizes(shapes, sizes->ints, (size_t)sizes->count, err)
                                       : MR_OK; /* looked at when they are known */
}

/* A block of one row: a scalar of each leaf's dtype. */
static int check_values(const mr_spec *elements, const mr_block *padding, mr_error *err)
{
    size_t n = mr_spec_leaves(elements);

    if (mr_block_rows(padding) != 1 || mr_block_column_count(padding) != n) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'padding_values' has %u rows of %u values, not one of %zu",
                            mr_block_rows(padding), mr_block_column_count(padding), n);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct mr_column *c = mr_block_column(padding, i);
        uint8_t dtype = mr_spec_leaf(elements, i)->dtype;

        if (c->kind != MR_COLUMN_FIXED || c->rank != 0 || c->dtype != dtype) {
            return mr_error_set(err, MR_EINVAL,
                                "argument 'padding_values': component %u needs a scalar %s, not a "
                                "%s of %u dimensions",
                                i, mr_dtype_name((mr_dtype)dtype),
                                mr_dtype_name((mr_dtype)c->dtype), c->rank);
        }
    }
    return MR_OK;
}

/* The padding as tensors of the enclosing function, as far as they are known. */
static int infer_values(struct mr_infer *in, mr_error *err)
{
    const mr_spec *elements = in->inputs[0]->spec;
    const struct mr_attr *padding = mr_infer_attr(in, "padding_values");
    MR_AUTO(mr_free) struct mr_leaf_spec *values = NULL;
    size_t n = 0;

    MR_TRY(mr_infer_values(in, &values, &n, err));
    if (padding != NULL) {
        return n == 0 ? check_values(elements, padding->block, err)
                      : mr_error_set(
                            err, MR_EINVAL,
                            "give either argument 'padding_values' or 'value0', 'value1', ...");
    }
    if (n > 0 && n != mr_spec_leaves(elements)) {
        return mr_error_set(err, MR_EINVAL, "%zu values to pad %zu components with", n,
                            mr_spec_leaves(elements));
    }
    for (size_t i = 0; i < n; i++) {
        const struct mr_leaf_spec *leaf = mr_spec_leaf(elements, i);
        char text[MR_LEAF_TEXT];

        if (values[i].dtype != leaf->dtype ||
            (values[i].rank != 0 && values[i].rank != MR_RANK_UNKNOWN)) {
            return mr_error_set(
                err, MR_EINVAL, "argument 'value%zu' must be a scalar %s, the value given is %s", i,
                mr_dtype_name((mr_dtype)leaf->dtype), mr_leaf_text(&values[i], text));
        }
    }
    return MR_OK;
}

int mr_padding_infer(struct mr_infer *in, struct mr_leaf_spec **ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;

    MR_TRY(padded_leaves(in->inputs[0]->spec, mr_infer_attr(in, "padded_shapes"), &leaves, err));
    MR_TRY(infer_sizes(in, err));
    MR_TRY(infer_values(in, err));
    *ret = MR_TAKE(leaves);
    return MR_OK;
}

/* The shapes to pad to, with the sizes that are known now. */
static int open_shapes(const struct mr_op_iter *head, struct mr_leaf_spec **ret, mr_error *err)
{
    const struct mr_dataset *ds = head->ds;
    const struct mr_attr *shapes = mr_attr_find(ds->attrs, ds->nattrs, "padded_shapes");
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    MR_AUTO(mr_free) int64_t *sizes = NULL;
    size_t n = 0;
    size_t next = 0;

    MR_TRY(padded_leaves(ds->inputs[0]->spec, shapes, &leaves, err));
    MR_TRY(mr_op_ints(head, "sizes", &sizes, &n, err));
    if (check_sizes(shapes, sizes, n, err) != MR_OK) {
        return mr_op_fail_at_open(head, MR_EINVAL, err);
    }
    const int64_t *given = shapes != NULL ? shapes->ints : NULL;
    for (size_t i = 0; next < n; i++) {
        for (int64_t d = 0; d < given[0]; d++) {
            leaves[i].dims[d] = given[1 + d] == DIM_OF_SIZES ? sizes[next++] : leaves[i].dims[d];
        }
        given += 1 + given[0];
    }
    *ret = MR_TAKE(leaves);
    return MR_OK;
}

static int open_values(const struct mr_op_iter *head, mr_block **ret, mr_error *err)
{
    const struct mr_dataset *ds = head->ds;
    const struct mr_attr *padding = mr_attr_find(ds->attrs, ds->nattrs, "padding_values");
    MR_AUTO(mr_block_unref) mr_block *values = NULL;

    if (padding != NULL) {
        *ret = mr_block_ref(padding->block);
        return MR_OK;
    }
    int rc = mr_op_values(head, mr_spec_leaves(ds->spec), &values, err);
    if (rc == MR_OK && values != NULL && check_values(ds->inputs[0]->spec, values, err) != MR_OK) {
        return mr_op_fail_at_open(head, MR_EINVAL, err);
    }
    *ret = MR_TAKE(values);
    return rc;
}

int mr_padding_open(const struct mr_op_iter *head, struct mr_padding *ret, mr_error *err)
{
    MR_TRY(open_shapes(head, &ret->shapes, err));
    return open_values(head, &ret->values, err);
}

void mr_padding_free(struct mr_padding *padding)
{
    mr_free(padding->shapes);
    mr_block_unref(padding->values);
}
