/* from_tensors (one element) and from_tensor_slices (one element a row): elements that are in the
 * definition itself. */
#include "engine/ops/ops.h"

struct tensors_iter {
    struct mr_op_iter head;
    mr_block *rows;
    uint32_t next;
};

static int copy_structure(struct mr_infer *in, const struct mr_leaf_spec *leaves, size_t n,
                          mr_error *err)
{
    MR_AUTO(mr_free) char *structure = NULL;

    MR_TRY(mr_infer_string(in, "structure", &structure, err));
    return mr_spec_new(leaves, n, structure, &in->spec, err);
}

/* The spec that the rows of a block have in common. */
static void leaf_of_column(const struct mr_column *c, uint32_t rows, struct mr_leaf_spec *ret)
{
    *ret = (struct mr_leaf_spec){.dtype = c->dtype, .rank = (int8_t)c->rank};
    for (uint32_t d = 0; d < c->rank; d++) {
        ret->dims[d] = c->kind == MR_COLUMN_FIXED ? c->dims[d]
                       : rows > 0                 ? c->row_dims[d]
                                                  : MR_DIM_UNKNOWN;
    }
    for (uint32_t r = 1; c->kind == MR_COLUMN_VAR && r < rows; r++) {
        for (uint32_t d = 0; d < c->rank; d++) {
            if (c->row_dims[(size_t)r * c->rank + d] != ret->dims[d]) {
                ret->dims[d] = MR_DIM_UNKNOWN;
            }
        }
    }
}

static int infer_block(struct mr_infer *in, const mr_block *block, mr_error *err)
{
    uint32_t n = mr_block_column_count(block);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(n, sizeof *leaves);

    MR_CHECK_ALLOC(leaves, err);
    for (uint32_t i = 0; i < n; i++) {
        leaf_of_column(mr_block_column(block, i), mr_block_rows(block), &leaves[i]);
    }
    int rc = copy_structure(in, leaves, n, err);
    in->cardinality = mr_block_rows(block);
    return rc;
}

static int exactly_one(bool block, bool values, mr_error *err)
{
    if (block == values) {
        return mr_error_set(err, MR_EINVAL,
                            "give either argument 'tensors' or 'value0', 'value1', ...");
    }
    return MR_OK;
}

static int tensors_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *block = mr_infer_attr(in, "tensors");
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    size_t n = 0;

    MR_TRY(mr_infer_values(in, &leaves, &n, err));
    MR_TRY(exactly_one(block != NULL, n > 0, err));
    if (block == NULL) {
        in->cardinality = 1;
        return copy_structure(in, leaves, n, err);
    }
    return mr_block_rows(block->block) == 1
               ? infer_block(in, block->block, err)
               : mr_error_set(err, MR_EINVAL, "argument 'tensors' has %u rows, it must have one",
                              mr_block_rows(block->block));
}

/* Cut the first dimension off. */
static int slice_leaf(struct mr_leaf_spec *leaf, size_t i, int64_t *count, mr_error *err)
{
    if (leaf->rank == MR_RANK_UNKNOWN) {
        return MR_OK;
    }
    if (leaf->rank == 0) {
        return mr_error_set(err, MR_EINVAL, "argument 'value%zu' is a scalar: it has no slices", i);
    }
    int64_t rows = leaf->dims[0];
    if (rows != MR_DIM_UNKNOWN && *count != MR_CARDINALITY_UNKNOWN && rows != *count) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'value%zu' has %lld slices, those before it %lld", i,
                            (long long)rows, (long long)*count);
    }
    *count = rows != MR_DIM_UNKNOWN ? rows : *count;
    leaf->rank = (int8_t)(leaf->rank - 1);
    memmove(leaf->dims, leaf->dims + 1, sizeof leaf->dims[0] * (MR_RANK_MAX - 1));
    leaf->dims[MR_RANK_MAX - 1] = 0;
    return MR_OK;
}

static int slices_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *block = mr_infer_attr(in, "tensors");
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    int64_t count = MR_CARDINALITY_UNKNOWN;
    size_t n = 0;

    MR_TRY(mr_infer_values(in, &leaves, &n, err));
    MR_TRY(exactly_one(block != NULL, n > 0, err));
    if (block != NULL) {
        return infer_block(in, block->block, err);
    }
    for (size_t i = 0; i < n; i++) {
        MR_TRY(slice_leaf(&leaves[i], i, &count, err));
    }
    in->cardinality = count;
    return copy_structure(in, leaves, n, err);
}

static int tensors_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct tensors_iter *it = (struct tensors_iter *)head;
    const struct mr_attr *block = mr_attr_find(head->ds->attrs, head->ds->nattrs, "tensors");

    if (block != NULL) {
        it->rows = mr_block_ref(block->block);
        return MR_OK;
    }
    return mr_op_values(head, mr_spec_leaves(head->ds->spec), &it->rows, err);
}

static int slices_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct tensors_iter *it = (struct tensors_iter *)head;

    MR_TRY(tensors_open(head, ctx, err));
    if (mr_attr_find(head->ds->attrs, head->ds->nattrs, "tensors") != NULL) {
        return MR_OK;
    }
    MR_AUTO(mr_block_unref) mr_block *row = MR_TAKE(it->rows);
    int rc = mr_block_unbatch(row, &it->rows, err);
    return rc == MR_OK ? MR_OK : mr_op_fail_at_open(head, rc, err);
}

/* As many rows as fill a block of the wanted size. */
static uint32_t rows_for(const struct tensors_iter *it, const struct mr_pull *pull)
{
    uint32_t left = mr_block_rows(it->rows) - it->next;
    uint32_t n = MR_MIN(left, pull->rows);

    while (n > 1 && mr_block_row_bytes(it->rows, it->next, n) > pull->bytes) {
        n = n / 2;
    }
    return n;
}

static int tensors_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                        mr_error *err)
{
    struct tensors_iter *it = (struct tensors_iter *)head;

    if (it->rows == NULL || it->next == mr_block_rows(it->rows)) {
        return MR_END;
    }
    uint32_t n = rows_for(it, pull);

    MR_TRY(mr_block_slice(it->rows, it->next, n, ret, err));
    it->next += n;
    return MR_OK;
}

static int tensors_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct tensors_iter *it = (struct tensors_iter *)head;

    return mr_state_u32(s, &it->next, it->rows != NULL ? mr_block_rows(it->rows) : 0, err);
}

static int tensors_seek(struct mr_op_iter *head, uint64_t index, mr_error *err)
{
    struct tensors_iter *it = (struct tensors_iter *)head;
    uint32_t rows = it->rows != NULL ? mr_block_rows(it->rows) : 0;

    it->next = index < rows ? (uint32_t)index : rows;
    return MR_OK;
}

static void tensors_close(struct mr_op_iter *head)
{
    mr_block_unref(((struct tensors_iter *)head)->rows);
}

static const struct mr_arg tensors_args[] = {
    MR_ARG("tensors", MR_ATTR_BLOCK, MR_ARG_TENSORS),
    MR_ARG("structure", MR_ATTR_BYTES, MR_ARG_OPTIONAL | MR_ARG_CONSTANT),
    {0},
};

const struct mr_operator mr_operator_from_tensors = {
    .name = "from_tensors",
    .args = tensors_args,
    .infer = tensors_infer,
    .run = MR_RUN(struct tensors_iter, .open = tensors_open, .pull = tensors_pull,
                  .state = tensors_state, .seek = tensors_seek, .close = tensors_close),
};

const struct mr_operator mr_operator_from_tensor_slices = {
    .name = "from_tensor_slices",
    .args = tensors_args,
    .infer = slices_infer,
    .run = MR_RUN(struct tensors_iter, .open = slices_open, .pull = tensors_pull,
                  .state = tensors_state, .seek = tensors_seek, .close = tensors_close),
};
