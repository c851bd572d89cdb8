/* concatenate: the elements of one input, then those of the other. */
#include "engine/ops/ops.h"

struct concatenate_iter {
    struct mr_op_iter head;
    struct mr_op_ctx ctx;
    struct mr_op_iter *input; /* NULL: opening the second failed; tried again by the next pull */
    uint32_t which;
};

/* The narrowest spec that covers both. */
static int join_leaf(size_t i, const struct mr_leaf_spec *a, const struct mr_leaf_spec *b,
                     struct mr_leaf_spec *ret, mr_error *err)
{
    char first[MR_LEAF_TEXT];
    char second[MR_LEAF_TEXT];

    if (a->dtype != b->dtype) {
        return mr_error_set(err, MR_EINVAL,
                            "tensor %zu is %s in the first input and %s in the second", i,
                            mr_leaf_text(a, first), mr_leaf_text(b, second));
    }
    *ret = *a;
    if (a->rank != b->rank) {
        *ret = (struct mr_leaf_spec){.dtype = a->dtype, .rank = MR_RANK_UNKNOWN};
        return MR_OK;
    }
    for (int d = 0; d < a->rank; d++) {
        ret->dims[d] = a->dims[d] == b->dims[d] ? a->dims[d] : MR_DIM_UNKNOWN;
    }
    return MR_OK;
}

int mr_spec_join(const mr_spec *a, const mr_spec *b, mr_spec **ret, mr_error *err)
{
    size_t n = mr_spec_leaves(a);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;

    if (n != mr_spec_leaves(b) || strcmp(mr_spec_sorted(a), mr_spec_sorted(b)) != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "the elements of the inputs differ in structure: %.80s and %.80s",
                            mr_spec_structure(a), mr_spec_structure(b));
    }
    leaves = mr_calloc(n, sizeof *leaves);
    MR_CHECK_ALLOC(leaves, err);
    for (size_t i = 0; i < n; i++) {
        MR_TRY(join_leaf(i, mr_spec_leaf(a, i), mr_spec_leaf(b, i), &leaves[i], err));
    }
    return mr_spec_new(leaves, n, mr_spec_structure(a), ret, err);
}

static int concatenate_infer(struct mr_infer *in, mr_error *err)
{
    in->cardinality = mr_cardinality_add(in->inputs[0]->cardinality, in->inputs[1]->cardinality);
    return mr_spec_join(in->inputs[0]->spec, in->inputs[1]->spec, &in->spec, err);
}

static int open_input(struct concatenate_iter *it, mr_error *err)
{
    struct mr_op_ctx below = mr_op_input_ctx(&it->ctx, it->which);

    return mr_op_open(&below, it->head.ds->inputs[it->which], &it->input, err);
}

static int concatenate_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)head;

    it->ctx = *ctx;
    return open_input(it, err);
}

static int switch_to(struct concatenate_iter *it, uint32_t which, mr_error *err)
{
    if (it->which != which || it->input == NULL) {
        mr_op_close(it->input);
        it->input = NULL;
        it->which = which;
        return open_input(it, err);
    }
    return MR_OK;
}

static int concatenate_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                            mr_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)head;

    MR_TRY(switch_to(it, it->which, err));
    int rc = mr_op_pull(it->input, pull, ret, err);
    if (rc != MR_END || it->which != 0) {
        return rc;
    }
    MR_TRY(switch_to(it, 1, err));
    return mr_op_pull(it->input, pull, ret, err);
}

static int concatenate_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)head;
    uint32_t which = it->which;

    MR_TRY(mr_state_u32(s, &which, 1, err));
    MR_TRY(switch_to(it, which, err));
    return mr_op_state(it->input, s, err);
}

static int concatenate_seek(struct mr_op_iter *head, uint64_t index, mr_error *err)
{
    struct concatenate_iter *it = (struct concatenate_iter *)head;
    int64_t first = head->ds->inputs[0]->cardinality;
    bool in_first = first < 0 || index < (uint64_t)first;

    MR_TRY(switch_to(it, in_first ? 0 : 1, err));
    return mr_op_seek(it->input, in_first ? index : index - (uint64_t)first, err);
}

static void concatenate_close(struct mr_op_iter *head)
{
    mr_op_close(((struct concatenate_iter *)head)->input);
}

const struct mr_operator mr_operator_concatenate = {
    .name = "concatenate",
    .inputs = 2,
    .rate = MR_RATE_ONE,
    .infer = concatenate_infer,
    .run = MR_RUN(struct concatenate_iter, .open = concatenate_open, .pull = concatenate_pull,
                  .state = concatenate_state, .seek = concatenate_seek, .close = concatenate_close),
};
