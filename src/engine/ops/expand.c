#include "engine/ops/expand.h"

int mr_expander_prepare(struct mr_expander *e, struct mr_op_iter *head, mr_function *fn,
                        mr_error *err)
{
    MR_TRY(mr_env_expansion(head->env, fn, &e->expansion, err));
    e->head = head;
    if (e->expansion->program != NULL) {
        /* The projection has the captures of the function itself. */
        MR_TRY(mr_apply_init(&e->apply, head, fn, e->expansion->program, err));
    }
    return MR_OK;
}

int mr_expander_init(struct mr_expander *e, struct mr_op_iter *head, const struct mr_op_ctx *ctx,
                     mr_error *err)
{
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);

    MR_TRY(mr_expander_prepare(e, head, head->ds->functions[0], err));
    below.feeds_expansion = true;
    return mr_op_open(&below, head->ds->inputs[0], &e->input, err);
}

void mr_expander_free(struct mr_expander *e)
{
    mr_apply_free(&e->apply);
    mr_op_close(e->input);
}

static int open_inner(struct mr_expander *e, struct mr_bound *bound, uint64_t stream,
                      struct mr_op_iter **ret, mr_error *err)
{
    struct mr_op_ctx ctx = {
        .env = e->head->env,
        .bound = bound,
        .path = mr_mix64(e->head->path ^
                         UINT64_C(0x66756e6374696f6e)), /* "function": apart from all inputs */
        .epoch = e->head->epoch,
        .stream = stream,
    };

    MR_TRY(mr_op_open(&ctx, e->expansion->fn->dataset, ret, err));
    (*ret)->numbers = e->head->places;
    (*ret)->first_place = mr_mix64(stream);
    return MR_OK;
}

/* The values that the dataset of this element needs. */
static int bind_row(struct mr_expander *e, const mr_block *row, struct mr_bound **ret,
                    mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *values = NULL;
    uint32_t bad;

    if (e->expansion->program != NULL) {
        MR_TRY(mr_apply_run(&e->apply, row, e->index, &values, &bad, err));
    }
    return mr_bound_new(e->expansion, values, 0, ret, err);
}

/* Of the element alone, not of the dataset or of what stands above it: so its orders are the same
 * in every pipeline (mr_op_fixed_seed()), and do not depend on how many calls are made at once. */
static uint64_t stream_of(const struct mr_expander *e, const mr_block *row)
{
    uint64_t place = mr_block_placed(row) ? mr_block_place(row, 0) : e->index ^ e->head->part;

    return mr_mix64(mr_mix64(e->head->stream) + 1 + place);
}

int mr_expander_expand(struct mr_expander *e, const mr_block *row, struct mr_op_iter **ret,
                       mr_error *err)
{
    struct mr_bound *bound = NULL;
    int rc = bind_row(e, row, &bound, err);

    if (rc == MR_OK) {
        rc = open_inner(e, bound, stream_of(e, row), ret, err);
    }
    if (rc == MR_OK) {
        /* Until it is closed, there may be more that descends from the row. */
        (*ret)->origin = mr_origin_ref(mr_block_origin(row));
        (*ret)->made_of = mr_trace_view_row(row, 0);
    } else {
        (void)mr_op_fail_row(e->head, e->index, row, 0, rc, err);
    }
    e->index++; /* an element that fails is done with */
    mr_bound_unref(bound);
    return rc;
}

int mr_expander_next(struct mr_expander *e, const struct mr_pull *pull, struct mr_op_iter **ret,
                     mr_error *err)
{
    struct mr_pull one = mr_pull_rows(pull, 1);
    MR_AUTO(mr_block_unref) mr_block *row = NULL;

    MR_TRY(mr_op_pull(e->input, &one, &row, err));
    return mr_expander_expand(e, row, ret, err);
}

/* The bound values come from outside: they must be what the function says, or what uses them would
 * be misled. */
static int check_bound(const struct mr_expansion *x, const mr_block *row, mr_error *err)
{
    if (row == NULL) {
        return x->n == 0 ? MR_OK : mr_state_damaged(err);
    }
    if (mr_block_rows(row) != 1 || mr_block_column_count(row) != x->n) {
        return mr_state_damaged(err);
    }
    for (size_t i = 0; i < x->n; i++) {
        const struct mr_leaf_spec *spec = &x->fn->values[x->numbers[i]].spec;
        const struct mr_column *c = mr_block_column(row, (uint32_t)i);

        if (c->dtype != spec->dtype || (spec->rank >= 0 && c->rank != (uint8_t)spec->rank)) {
            return mr_state_damaged(err);
        }
    }
    return MR_OK;
}

int mr_expander_inner_state(struct mr_expander *e, struct mr_op_iter **inner, struct mr_state *s,
                            mr_error *err)
{
    const mr_block *bound_row = s->restores ? NULL : mr_bound_row((*inner)->bound);
    uint64_t stream = s->restores ? 0 : (*inner)->stream;
    MR_AUTO(mr_block_unref) mr_block *row = bound_row != NULL ? mr_block_ref(bound_row) : NULL;

    MR_TRY(mr_state_u64(s, &stream, err));
    MR_TRY(mr_state_block(s, &row, NULL, err));
    if (s->restores) {
        MR_AUTO(mr_bound_unref) struct mr_bound *bound = NULL;

        MR_TRY(check_bound(e->expansion, row, err));
        MR_TRY(mr_bound_new(e->expansion, row, 0, &bound, err));
        MR_TRY(open_inner(e, bound, stream, inner, err));
    }
    return mr_op_state(*inner, s, err);
}

int mr_expander_state(struct mr_expander *e, struct mr_state *s, mr_error *err)
{
    MR_TRY(mr_state_u64(s, &e->index, err));
    return mr_op_state(e->input, s, err);
}
