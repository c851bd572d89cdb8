/* unbatch: each element is cut along its first dimension into elements. How many one that fails
 * would have been, nobody knows. */
#include "element/trace.h"
#include "engine/gather.h"
#include "engine/ops/ops.h"

struct unbatch_iter {
    struct mr_op_iter head;
    struct mr_gather rows; /* cut, not given */
    uint64_t index;        /* of the next element of the input */
    uint32_t *counts;      /* mr_block_unbatch_by(); NULL: a row each */
};

/* What the attribute "counts" says, pairs of a component and the one that has its lengths, for each
 * of @n components; NULL: there is none. */
static int counts_of(const struct mr_attr *a, size_t n, uint32_t **ret, mr_error *err)
{
    *ret = NULL;
    if (a == NULL) {
        return MR_OK;
    }
    MR_AUTO(mr_free) uint32_t *counts = mr_calloc(n, sizeof *counts);
    MR_CHECK_ALLOC(counts, err);
    for (size_t i = 0; i < n; i++) {
        counts[i] = MR_COLUMN_NONE;
    }
    for (int32_t i = 0; i < a->count; i++) {
        if (a->count % 2 != 0 || a->ints[i] < 0 || (uint64_t)a->ints[i] >= n) {
            return mr_error_set(err, MR_EINVAL,
                                "argument 'counts': pairs of components, of which "
                                "there are %zu",
                                n);
        }
        if (i % 2 != 0) {
            counts[a->ints[i - 1]] = (uint32_t)a->ints[i];
        }
    }
    *ret = MR_TAKE(counts);
    return MR_OK;
}

static int unbatch_infer(struct mr_infer *in, mr_error *err)
{
    MR_AUTO(mr_free) uint32_t *counts = NULL;
    const mr_spec *from = in->inputs[0]->spec;
    size_t n = mr_spec_leaves(from);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    int64_t per = MR_DIM_UNKNOWN;

    MR_TRY(mr_spec_copy_leaves(from, &leaves, err));
    MR_TRY(mr_infer_no_datasets(from, err));
    MR_TRY(counts_of(mr_infer_attr(in, "counts"), n, &counts, err));
    for (size_t i = 0; i < n; i++) {
        struct mr_leaf_spec *leaf = &leaves[i];

        if (leaf->rank == MR_RANK_UNKNOWN) {
            continue;
        }
        if (leaf->rank == 0) {
            return mr_error_set(err, MR_EINVAL, "%s is a scalar: there is nothing to cut",
                                MR_COMPONENT(from, i));
        }
        if (counts != NULL && counts[i] != MR_COLUMN_NONE) {
            leaf->dims[0] = MR_DIM_UNKNOWN;
            continue;
        }
        if (leaf->dims[0] != MR_DIM_UNKNOWN && per != MR_DIM_UNKNOWN && leaf->dims[0] != per) {
            return mr_error_set(err, MR_EINVAL, "the components have %lld and %lld rows",
                                (long long)per, (long long)leaf->dims[0]);
        }
        per = leaf->dims[0] != MR_DIM_UNKNOWN ? leaf->dims[0] : per;
        leaf->rank = (int8_t)(leaf->rank - 1);
        memmove(leaf->dims, leaf->dims + 1, (size_t)leaf->rank * sizeof leaf->dims[0]);
    }
    int64_t count = in->inputs[0]->cardinality;
    if (per != MR_DIM_UNKNOWN && count >= 0) {
        in->cardinality = mr_cardinality_mul(per, count);
    } else if (count == 0 || (per > 0 && count == MR_CARDINALITY_INFINITE)) {
        in->cardinality = count;
    }
    return mr_spec_new(leaves, n, mr_spec_structure(from), &in->spec, err);
}

/* The rows of the one of @in, which come from what it comes from, and have places made of its
 * place. */
static int cut(const mr_block *in, const uint32_t *counts, struct mr_gather *to, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *out = NULL;

    MR_TRY(counts == NULL ? mr_block_unbatch(in, &out, err)
                          : mr_block_unbatch_by(in, counts, &out, err));
    mr_block_trace_row(out, in, 0);
    if (mr_block_placed(in)) {
        MR_TRY(mr_block_set_place(&out, mr_mix64(mr_block_place(in, 0)), err));
    }
    return mr_block_rows(out) > 0 ? mr_gather_add(to, out, 0, mr_block_rows(out), err) : MR_OK;
}

/* One element more, cut. Elements come one by one: so only the one that cannot be cut is an
 * error. */
static int cut_one(struct unbatch_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_pull below = it->rows.rows > 0 ? mr_pull_more(pull, 1) : mr_pull_rows(pull, 1);
    MR_AUTO(mr_block_unref) mr_block *in = NULL;

    MR_TRY(mr_gather_reserve(&it->rows, err));
    MR_TRY(mr_op_pull(it->head.input, &below, &in, err));
    int rc = cut(in, it->counts, &it->rows, err);
    if (rc != MR_OK) {
        (void)mr_op_fail_row(&it->head, it->index, in, 0, rc, err);
    }
    it->index++;
    return rc;
}

static int unbatch_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    head->waiting = &((struct unbatch_iter *)head)->rows.rows;
    head->uncounts = true;
    MR_TRY(counts_of(mr_attr_find(head->ds->attrs, head->ds->nattrs, "counts"),
                     mr_spec_leaves(head->ds->inputs[0]->spec),
                     &((struct unbatch_iter *)head)->counts, err));
    return mr_op_open_input(head, ctx, err);
}

static int unbatch_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                        mr_error *err)
{
    struct unbatch_iter *it = (struct unbatch_iter *)head;
    mr_error failure;
    int rc = MR_OK;

    while (rc == MR_OK && head->deferred == MR_OK && it->rows.rows < pull->rows &&
           it->rows.bytes < pull->bytes) {
        rc = mr_op_interrupted(head, pull, &failure);
        if (rc == MR_OK) {
            rc = cut_one(it, pull, &failure);
        }
    }
    return mr_op_give(head, pull, &it->rows, rc, &failure, ret, err);
}

static int unbatch_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct unbatch_iter *it = (struct unbatch_iter *)head;

    MR_TRY(mr_state_u64(s, &it->index, err));
    return mr_gather_state(&it->rows, head->ds->spec, s, err);
}

static void unbatch_close(struct mr_op_iter *head)
{
    struct unbatch_iter *it = (struct unbatch_iter *)head;

    mr_gather_free(&it->rows);
    mr_free(it->counts);
}

const struct mr_operator mr_operator_unbatch = {
    .name = "unbatch",
    .inputs = 1,
    .args = MR_ARGS(MR_ARG("counts", MR_ATTR_INTS, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)),
    .infer = unbatch_infer,
    .run = MR_RUN(struct unbatch_iter, .open = unbatch_open, .pull = unbatch_pull,
                  .state = unbatch_state, .close = unbatch_close),
};
