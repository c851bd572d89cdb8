/*
 * repeat: the input again and again. Each pass is an iterator of its own, opened with the ordinal
 * of the pass as epoch. Where rows have places, those of each pass are others.
 *
 * An endless repeat of an input that gave nothing ends, or it would turn for ever. Not so when the
 * input is shared with others (splits, or a read from the service): a pass may be empty for us and
 * the next one not.
 */
#include "engine/ops/ops.h"

struct repeat_iter {
    struct mr_op_iter head;
    struct mr_op_ctx ctx; /* of the input; for opening it again */
    uint64_t epoch;       /* of the first pass */
    uint64_t count;       /* UINT64_MAX: for ever */
    uint64_t pass;
    bool shared;
    bool gave; /* anything in this pass */
    bool ended;
};

static int repeat_infer(struct mr_infer *in, mr_error *err)
{
    bool known;
    int64_t count = mr_infer_int(in, "count", -1, &known);
    int64_t n = in->inputs[0]->cardinality;

    in->spec = mr_spec_ref(in->inputs[0]->spec);
    if (n == 0 || (known && count == 0)) {
        in->cardinality = 0;
    } else if (known) {
        in->cardinality = count < 0 ? MR_CARDINALITY_INFINITE : mr_cardinality_mul(n, count);
    }
    return MR_OK;
}

/* Are the elements of @ds shared with other readers? @visits bounds the walk: what is larger cannot
 * be opened anyway. */
static bool is_shared(const mr_dataset *ds, bool splits, uint32_t *visits)
{
    if (++*visits > MR_GRAPH_NODES_MAX) {
        return false;
    }
    if (ds->ninputs == 0) {
        return splits || strcmp(ds->op->name, "from_dataset_id") == 0;
    }
    if (strcmp(ds->op->name, "distribute") == 0) {
        return true;
    }
    for (size_t i = 0; i < ds->ninputs; i++) {
        if (is_shared(ds->inputs[i], splits, visits)) {
            return true;
        }
    }
    return false;
}

static int open_pass(struct repeat_iter *it, mr_error *err)
{
    /* The first pass is the epoch itself; then as many per outer epoch as there are passes. */
    uint64_t passes = it->count != UINT64_MAX ? it->count : UINT64_C(1) << 32;

    it->ctx.epoch = it->epoch * passes + it->pass;
    it->gave = false;
    return mr_op_open(&it->ctx, it->head.ds->inputs[0], &it->head.input, err);
}

static int repeat_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct repeat_iter *it = (struct repeat_iter *)head;
    int64_t count = 0;
    uint32_t visits = 0;

    MR_TRY(mr_op_int(head, "count", -1, &count, err));
    it->ctx = mr_op_input_ctx(ctx, 0);
    it->epoch = ctx->epoch;
    it->count = count < 0 ? UINT64_MAX : (uint64_t)count;
    it->shared = head->ds->inputs[0]->cardinality != 0 &&
                 is_shared(head->ds->inputs[0], ctx->outermost && ctx->env->has_splits, &visits);
    return open_pass(it, err);
}

/* After the end of a pass: MR_OK if there is another. */
static int next_pass(struct repeat_iter *it, mr_error *err)
{
    bool last = it->count != UINT64_MAX && it->pass + 1 >= it->count;

    if (last || (!it->gave && !it->shared && it->count == UINT64_MAX)) {
        it->ended = true;
        return MR_END;
    }
    mr_op_close(it->head.input);
    it->head.input = NULL;
    it->pass++;
    return open_pass(it, err);
}

static int move_places(const struct repeat_iter *it, mr_block **block, mr_error *err)
{
    uint64_t more = it->pass > 0 ? mr_mix64(mr_mix64(it->pass) ^ it->head.path) : 0;
    int rc = mr_block_move_places(block, more, err);

    if (rc != MR_OK) {
        mr_block_unref(*block);
        return mr_op_fail(&it->head, it->head.delivered, rc, err);
    }
    return MR_OK;
}

static int repeat_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                       mr_error *err)
{
    struct repeat_iter *it = (struct repeat_iter *)head;

    if (it->ended || it->count == 0) {
        return MR_END;
    }
    for (;;) {
        if (it->head.input == NULL) { /* opening this pass failed the last time */
            MR_TRY(open_pass(it, err));
        }
        int rc = mr_op_pull(it->head.input, pull, ret, err);
        it->gave = it->gave || rc == MR_OK;
        if (rc != MR_END) {
            return rc == MR_OK ? move_places(it, ret, err) : rc;
        }
        MR_TRY(next_pass(it, err));
        MR_TRY(mr_op_interrupted(head, pull, err));
    }
}

static int repeat_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct repeat_iter *it = (struct repeat_iter *)head;
    bool gave = it->gave;
    bool open = head->input != NULL;

    MR_TRY(mr_state_u64(s, &it->epoch, err));
    MR_TRY(mr_state_u64(s, &it->pass, err));
    MR_TRY(mr_state_bool(s, &gave, err));
    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_bool(s, &open, err));
    if (s->restores) {
        mr_op_close(head->input);
        head->input = NULL;
        MR_TRY(open ? open_pass(it, err) : MR_OK);
        it->gave = open && gave;
    }
    return MR_OK;
}

const struct mr_operator mr_operator_repeat = {
    .name = "repeat",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_OPTIONAL_INT("count", INT64_MIN, INT64_MAX)),
    .infer = repeat_infer,
    .run =
        MR_RUN(struct repeat_iter, .open = repeat_open, .pull = repeat_pull, .state = repeat_state),
};
