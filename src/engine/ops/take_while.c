/*
 * take_while: the elements before the first for which a predicate does not hold. Whether one that
 * fails would have been the first, nobody knows.
 */
#include "engine/ops/apply.h"

#include "base/base.h"

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

/* How many rows from the first on have a verdict of true. */
static int count_true(const mr_block *verdict, uint32_t *ret, mr_error *err)
{
    const struct mr_column *c = mr_block_column(verdict, 0);
    uint32_t rows = mr_block_rows(verdict);

    if (c->rank != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "the predicate gave a tensor of %u dimensions, it must be a scalar",
                            c->rank);
    }
    const uint8_t *holds = (const uint8_t *)c->data + (c->kind == MR_COLUMN_VAR ? c->starts[0] : 0);
    for (*ret = 0; *ret < rows && holds[*ret] != 0; ++*ret) {
    }
    return MR_OK;
}

/* The first @good rows of @in are given, row @good is an error: @failure. */
static int give_before(struct take_while_iter *it, const mr_block *in, uint32_t good, int rc,
                       mr_error *failure, mr_block **ret, mr_error *err)
{
    struct mr_op_iter *head = &it->head;
    MR_AUTO(mr_block_unref) mr_block *out = NULL;
    int kept = good > 0 ? mr_block_slice(in, 0, good, &out, err) : MR_OK;

    (void)mr_op_fail_row(head, it->in.index + good, in, good, rc, failure);
    if (kept == MR_OK) {
        kept = mr_apply_keep(&it->in, in, good, err);
    }
    if (kept != MR_OK) {
        return kept;
    }
    if (out != NULL) {
        *ret = MR_TAKE(out);
        return mr_op_defer(head, rc, failure);
    }
    return mr_error_pass(err, rc, failure);
}

static int look_at(struct take_while_iter *it, mr_block **block, mr_block **ret, mr_error *err)
{
    mr_block *verdict = NULL;
    mr_error failure;
    uint32_t bad = 0;
    uint32_t good = 0;
    int failed = mr_apply_fit(&it->apply, &it->in, block, &verdict, &bad, &failure);
    mr_block *in = *block;
    int rc = MR_OK;

    if (verdict != NULL) {
        rc = count_true(verdict, &good, err);
        bool stops = rc == MR_OK && good < mr_block_rows(verdict);
        mr_block_unref(verdict);
        if (rc != MR_OK) {
            return mr_op_fail(&it->head, it->in.index, rc, err);
        }
        if (stops) {
            it->ended = true;
            mr_block_unref(it->in.rest);
            it->in.rest = NULL;
            return good > 0 ? mr_block_slice(in, 0, good, ret, err) : MR_END;
        }
    }
    if (failed != MR_OK) {
        return give_before(it, in, good, failed, &failure, ret, err);
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
    return look_at(it, &in, ret, err);
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

static const struct mr_op_run take_while_run = {
    .size = sizeof(struct take_while_iter),
    .open = take_while_open,
    .pull = take_while_pull,
    .state = take_while_state,
    .close = take_while_close,
};

const struct mr_operator mr_operator_take_while = {
    .name = "take_while",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .function = MR_FUNCTION_PREDICATE,
    .infer = mr_infer_subset,
    .run = &take_while_run,
};
