/* take and skip: the first elements only, or all but them. Any number below 0 is all. One that
 * fails is an element; what is skipped is nobody's element, and so is its error. */
#include "engine/ops/ops.h"

#define ALL UINT64_MAX

struct take_iter {
    struct mr_op_iter head;
    uint64_t left; /* take: still to give; skip: still to drop. ALL: no end to it */
};

static int take_infer(struct mr_infer *in, mr_error *err)
{
    bool known;
    int64_t count = mr_infer_int(in, "count", -1, &known);
    int64_t n = in->inputs[0]->cardinality;

    in->spec = mr_spec_ref(in->inputs[0]->spec);
    if (known && count < 0) {
        in->cardinality = n;
    } else if (known && n != MR_CARDINALITY_UNKNOWN) {
        in->cardinality = n == MR_CARDINALITY_INFINITE || count < n ? count : n;
    } else if (known && count == 0) {
        in->cardinality = 0;
    }
    return MR_OK;
}

static int skip_infer(struct mr_infer *in, mr_error *err)
{
    bool known;
    int64_t count = mr_infer_int(in, "count", -1, &known);
    int64_t n = in->inputs[0]->cardinality;

    in->spec = mr_spec_ref(in->inputs[0]->spec);
    if (known && count < 0) {
        in->cardinality = 0;
    } else if (known && n >= 0) {
        in->cardinality = n > count ? n - count : 0;
    } else if (known) {
        in->cardinality = n;
    }
    return MR_OK;
}

static int take_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct take_iter *it = (struct take_iter *)head;
    int64_t count = 0;

    MR_TRY(mr_op_int(head, "count", -1, &count, err));
    it->left = count < 0 ? ALL : (uint64_t)count;
    return mr_op_open_input(head, ctx, err);
}

static int take_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                     mr_error *err)
{
    struct take_iter *it = (struct take_iter *)head;

    if (it->left == 0) {
        return MR_END;
    }
    struct mr_pull below = mr_pull_rows(pull, MR_MIN(it->left, pull->rows));
    int rc = mr_op_pull(it->head.input, &below, ret, err);
    if (it->left != ALL) {
        it->left -= rc == MR_OK ? mr_block_rows(*ret) : mr_op_has_place(rc, err) ? 1 : 0;
    }
    return rc;
}

static int skip_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                     mr_error *err)
{
    struct take_iter *it = (struct take_iter *)head;

    if (it->left == ALL) {
        return MR_END; /* without looking for the end of what may have none */
    }
    while (it->left > 0) {
        struct mr_pull below = mr_pull_rows(pull, it->left);
        MR_AUTO(mr_block_unref) mr_block *dropped = NULL;

        MR_TRY(mr_op_interrupted(head, pull, err));
        int rc = mr_op_pull(it->head.input, &below, &dropped, err);
        bool failed = mr_op_has_place(rc, err);
        MR_TRY(failed ? MR_OK : rc);
        it->left -= failed ? 1 : mr_block_rows(dropped);
    }
    return mr_op_pull(it->head.input, pull, ret, err);
}

static int take_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct take_iter *it = (struct take_iter *)head;

    return mr_state_bounded(s, &it->left, it->left, err);
}

const struct mr_operator mr_operator_take = {
    .name = "take",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_INT("count", INT64_MIN, INT64_MAX)),
    .infer = take_infer,
    .run = MR_RUN(struct take_iter, .open = take_open, .pull = take_pull, .state = take_state),
};

const struct mr_operator mr_operator_skip = {
    .name = "skip",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_INT("count", INT64_MIN, INT64_MAX)),
    .infer = skip_infer,
    .run = MR_RUN(struct take_iter, .open = take_open, .pull = skip_pull, .state = take_state),
};
