/* scan: a function of a state and an element gives the next state and what is delivered. Elements
 * go one after the other: each needs the state that the one before it left. One that fails leaves
 * the state as it was. One that lacks memory comes again: nothing is wrong with it, and all behind
 * it would be without what it adds. */
#include "element/trace.h"
#include "engine/gather.h"
#include "engine/ops/apply.h"

struct scan_iter {
    struct mr_op_iter head;
    struct mr_apply apply;
    struct mr_apply_input in;
    mr_block *state; /* one row */
    uint32_t nstate;
    /* numbers of the function's results: those of the state, then those delivered */
    uint32_t *columns;
    struct mr_gather out;
};

/* ---- infer ---- */

/* The tensors of the initial state, and those of an element behind them. */
static int argument_spec(const struct mr_infer *in, const mr_block *state, mr_spec **ret,
                         mr_error *err)
{
    const mr_spec *elements = in->inputs[0]->spec;
    const mr_spec *takes = in->functions[0]->inputs;
    size_t nstate = mr_block_column_count(state);
    size_t n = nstate + mr_spec_leaves(elements);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;

    if (mr_block_rows(state) != 1 || mr_spec_leaves(takes) != n) {
        return mr_error_set(
            err, MR_EINVAL,
            "the function takes %zu tensors, the state has %zu (in %u rows) and elements %zu",
            mr_spec_leaves(takes), nstate, mr_block_rows(state), mr_spec_leaves(elements));
    }
    leaves = mr_calloc(n, sizeof *leaves);
    MR_CHECK_ALLOC(leaves, err);
    for (size_t i = 0; i < n; i++) {
        leaves[i] = i < nstate ? *mr_spec_leaf(takes, i) : *mr_spec_leaf(elements, i - nstate);
    }
    return mr_spec_new(leaves, n, NULL, ret, err);
}

/* The state fits what the function takes for it, first and ever after. */
static int check_state(const mr_block *state, const mr_function *fn, mr_error *err)
{
    char is[MR_LEAF_TEXT];
    char wants[MR_LEAF_TEXT];

    for (uint32_t i = 0; i < mr_block_column_count(state); i++) {
        const struct mr_column *c = mr_block_column(state, i);
        const struct mr_leaf_spec *takes = mr_spec_leaf(fn->inputs, i);
        const struct mr_leaf_spec *gives = mr_spec_leaf(fn->spec, i);
        struct mr_leaf_spec first = {.dtype = c->dtype, .rank = (int8_t)c->rank};

        memcpy(first.dims, c->kind == MR_COLUMN_FIXED ? c->dims : c->row_dims,
               c->rank * sizeof first.dims[0]);
        if (!mr_leaf_covers(takes, &first) || !mr_leaf_covers(takes, gives)) {
            return mr_error_set(err, MR_EINVAL,
                                "tensor %u of the state is taken as %s, and %s is given for it", i,
                                mr_leaf_text(takes, wants),
                                mr_leaf_text(mr_leaf_covers(takes, &first) ? gives : &first, is));
        }
    }
    return MR_OK;
}

static int result_spec(struct mr_infer *in, size_t nstate, mr_error *err)
{
    const mr_spec *gives = in->functions[0]->spec;
    size_t n = mr_spec_leaves(gives);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    MR_AUTO(mr_free) char *structure = NULL;

    MR_TRY(mr_spec_copy_leaves(gives, &leaves, err));
    MR_TRY(mr_infer_string(in, "structure", &structure, err));
    return mr_spec_new(leaves + nstate, n - nstate, structure, &in->spec, err);
}

static int scan_infer(struct mr_infer *in, mr_error *err)
{
    const mr_block *state = mr_infer_attr(in, "initial_state")->block;
    size_t nstate = mr_block_column_count(state);
    MR_AUTO(mr_spec_unref) mr_spec *arguments = NULL;

    MR_TRY(argument_spec(in, state, &arguments, err));
    MR_TRY(mr_infer_function(in, 0, MR_FUNCTION_VALUES, arguments, err));
    if (mr_spec_leaves(in->functions[0]->spec) <= nstate) {
        return mr_error_set(err, MR_EINVAL,
                            "the function must return a state of %zu tensors and a result", nstate);
    }
    MR_TRY(check_state(state, in->functions[0], err));
    in->cardinality = in->inputs[0]->cardinality;
    return result_spec(in, nstate, err);
}

/* ---- running ---- */

static void set_initial_state(struct scan_iter *it)
{
    const mr_dataset *ds = it->head.ds;

    mr_block_unref(it->state);
    it->state = mr_block_ref(mr_attr_find(ds->attrs, ds->nattrs, "initial_state")->block);
}

static int scan_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct scan_iter *it = (struct scan_iter *)head;
    mr_function *fn = head->ds->functions[0];
    size_t n = mr_spec_leaves(fn->spec);

    head->waiting = &it->out.rows;
    set_initial_state(it);
    it->nstate = mr_block_column_count(it->state);
    it->columns = mr_calloc(n, sizeof *it->columns);
    MR_CHECK_ALLOC(it->columns, err);
    for (uint32_t i = 0; i < n; i++) {
        it->columns[i] = i;
    }
    MR_TRY(mr_apply_open(&it->apply, head, fn, err));
    return mr_op_open_input(head, ctx, err);
}

/* The element in row @row: into `out`, and the next state. */
static int step(struct scan_iter *it, const mr_block *rows, uint32_t row, mr_error *err)
{
    uint32_t n = (uint32_t)mr_spec_leaves(it->head.ds->functions[0]->spec);
    const mr_block *both[2] = {it->state, NULL};
    MR_AUTO(mr_block_unref) mr_block *element = NULL;
    MR_AUTO(mr_block_unref) mr_block *arguments = NULL;
    MR_AUTO(mr_block_unref) mr_block *results = NULL;
    MR_AUTO(mr_block_unref) mr_block *state = NULL;
    MR_AUTO(mr_block_unref) mr_block *out = NULL;
    uint32_t bad;

    MR_TRY(mr_block_slice(rows, row, 1, &element, err));
    both[1] = element;
    MR_TRY(mr_block_zip(both, 2, &arguments, err));
    MR_TRY(mr_apply_run(&it->apply, arguments, it->in.index + row, &results, &bad, err));
    MR_TRY(mr_block_select(results, it->columns, it->nstate, &state, err));
    mr_block_trace_as(state, it->state); /* nothing: a state comes from all elements so far */
    mr_block_displace(state);
    MR_TRY(mr_block_select(results, it->columns + it->nstate, n - it->nstate, &out, err));
    MR_TRY(mr_gather_add(&it->out, out, 0, 1, err));
    mr_block_unref(it->state);
    it->state = MR_TAKE(state);
    return MR_OK;
}

/* The first @row elements of @in are done with; @rc, *@failure: what came of the one behind them. */
static int settle(struct scan_iter *it, const mr_block *in, uint32_t row, int rc, mr_error *failure)
{
    if (rc != MR_OK && rc != MR_EEXHAUSTED) {
        (void)mr_op_fail_row(&it->head, it->in.index + row, in, row, rc, failure);
        int kept = mr_apply_keep(&it->in, in, row, failure);
        return kept == MR_OK ? rc : kept;
    }
    MR_TRY(mr_apply_put_back(&it->in, in, row, failure));
    it->in.index += row;
    if (row > 0) { /* what has been made goes first: it may be all that is in the way */
        return MR_OK;
    }
    return rc == MR_OK ? MR_OK : mr_op_fail(&it->head, it->in.index, rc, failure);
}

/* Some more elements of the input. */
static int absorb(struct scan_iter *it, const struct mr_pull *pull, mr_error *failure)
{
    MR_AUTO(mr_block_unref) mr_block *in = NULL;
    uint32_t row = 0;
    int rc;

    MR_TRY(mr_gather_reserve(&it->out, failure));
    rc = mr_apply_next(&it->in, it->head.input, pull, &in, failure);
    if (rc == MR_END) { /* the state descends from everything, and nobody needs it any more */
        set_initial_state(it);
    }
    MR_TRY(rc);
    int64_t begin = mr_now_ns();
    int64_t ns = 0;
    while (rc == MR_OK && row < mr_block_rows(in) &&
           (row == 0 || (it->out.bytes < pull->bytes && ns < MR_APPLY_SOON_NS))) {
        rc = step(it, in, row, failure);
        row += rc == MR_OK;
        ns = mr_now_ns() - begin;
    }
    if (row > 0) {
        mr_apply_learn(&it->in, row, ns);
    }
    return settle(it, in, row, rc, failure);
}

static int scan_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                     mr_error *err)
{
    struct scan_iter *it = (struct scan_iter *)head;
    mr_error failure;
    int rc = it->out.rows == 0 ? absorb(it, pull, &failure) : MR_OK;

    return mr_op_give(head, pull, &it->out, rc, &failure, ret, err);
}

/* ---- state ---- */

/* What was restored comes from outside. */
static int check_restored(const struct scan_iter *it, mr_error *err)
{
    if (it->state == NULL || mr_block_rows(it->state) != 1 ||
        mr_block_column_count(it->state) != it->nstate) {
        return mr_state_damaged(err);
    }
    for (uint32_t i = 0; i < it->nstate; i++) {
        const struct mr_leaf_spec *takes = mr_spec_leaf(it->head.ds->functions[0]->inputs, i);
        const struct mr_column *c = mr_block_column(it->state, i);

        if (c->dtype != takes->dtype || (takes->rank >= 0 && c->rank != (uint8_t)takes->rank)) {
            return mr_state_damaged(err);
        }
    }
    return MR_OK;
}

static int scan_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct scan_iter *it = (struct scan_iter *)head;

    MR_TRY(mr_state_block(s, &it->state, NULL, err));
    MR_TRY(check_restored(it, err));
    MR_TRY(mr_gather_state(&it->out, head->ds->spec, s, err));
    return mr_apply_state(&it->in, head->ds->inputs[0]->spec, s, err);
}

static void scan_close(struct mr_op_iter *head)
{
    struct scan_iter *it = (struct scan_iter *)head;

    mr_gather_free(&it->out);
    mr_block_unref(it->state);
    mr_block_unref(it->in.rest);
    mr_free(it->columns);
    mr_apply_free(&it->apply);
}

const struct mr_operator mr_operator_scan = {
    .name = "scan",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .min_more_functions = 1,
    .max_more_functions = 1,
    .args = MR_ARGS(MR_ARG("initial_state", MR_ATTR_BLOCK, 0),
                    MR_ARG("structure", MR_ATTR_BYTES, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)),
    .infer = scan_infer,
    .run = MR_RUN(struct scan_iter, .open = scan_open, .pull = scan_pull, .state = scan_state,
                  .close = scan_close),
};
