/* take_while: the elements before the first for which a predicate does not hold. Whether one that
 * fails would have been the first, nobody knows. */
#include "engine/ops/apply.h"

struct take_while_iter {
    struct mr_op_iter head;
    struct mr_apply apply;
    struct mr_apply_input in;
    bool ended;
};

static int take_while_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct take_while_iter *it = (struct take_while_iter *)head;

    head->uncounts = true;
    MR_TRY(mr_apply_open(&it->apply, head, head->ds->functions[0], err));
    return mr_op_open_input(head, ctx, err);
}

static int look_at(struct take_while_iter *it, mr_block **block, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *verdict = NULL;
    MR_AUTO(mr_block_unref) mr_block *before = NULL;
    mr_error failure;
    uint32_t bad = 0;
    uint32_t good = 0;
    int failed = mr_apply_fit(&it->apply, &it->in, block, &verdict, &bad, &failure);
    mr_block *in = *block;

    if (verdict != NULL) {
        const uint8_t *holds = NULL;

        MR_TRY(mr_apply_bools(&it->in, &it->head, in, verdict, &holds, err));
        while (good < mr_block_rows(verdict) && holds[good] != 0) {
            good++;
        }
        if (good < mr_block_rows(verdict)) {
            MR_TRY(good > 0 ? mr_block_slice(in, 0, good, ret, err) : MR_OK);
            it->ended = true;
            mr_block_unref(it->in.rest);
            it->in.rest = NULL;
            return good > 0 ? MR_OK : MR_END;
        }
    }
    if (failed != MR_OK) {
        MR_TRY(good > 0 ? mr_block_slice(in, 0, good, &before, err) : MR_OK);
        return mr_apply_failed(&it->in, &it->head, in, good, failed, &failure, &before, ret, err);
    }
    it->in.index += good;
    *ret = mr_block_ref(in);
    return MR_OK;
}

static int take_while_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                           mr_error *err)
{
    struct take_while_iter *it = (struct take_while_iter *)head;
    MR_AUTO(mr_block_unref) mr_block *in = NULL;

    if (it->ended) {
        return MR_END;
    }

    MR_TRY(mr_apply_next(&it->in, it->head.input, pull, &in, err));
    int rc = look_at(it, &in, ret, err);
    return mr_apply_done(&it->in, in, rc);
}

static int take_while_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct take_while_iter *it = (struct take_while_iter *)head;

    MR_TRY(mr_state_bool(s, &it->ended, err));
    return mr_apply_state(&it->in, head->ds->spec, s, err);
}

static void take_while_close(struct mr_op_iter *head)
{
    struct take_while_iter *it = (struct take_while_iter *)head;

    mr_apply_free(&it->apply);
    mr_block_unref(it->in.rest);
}

const struct mr_operator mr_operator_take_while = {
    .name = "take_while",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .function = MR_FUNCTION_PREDICATE,
    .infer = mr_infer_subset,
    .run = MR_RUN(struct take_while_iter, .open = take_while_open, .pull = take_while_pull,
                  .state = take_while_state, .close = take_while_close),
};
