/*
 * choose and sample: each element comes from one of several inputs, as a dataset of numbers says
 * (choose) or as is drawn (sample). Draw number i is Philox4x32-10 of (seed; i, epoch), as with
 * shuffle, whatever the sizes of the blocks.
 *
 * An input that has ended is passed over when its turn comes, or ends it all (stop_on_empty).
 */
#include "engine/gather.h"
#include "engine/ops/ops.h"

#include <Random123/philox.h>

#define NO_CHOICE UINT32_MAX

struct choose_iter {
    struct mr_op_iter head;
    struct mr_op_iter *choices; /* choose; NULL: sample */
    struct mr_op_iter **inputs; /* NULL: ended */
    uint32_t n;
    uint32_t open;
    uint32_t chosen; /* whose turn it is; NO_CHOICE: not known yet */
    bool stop_on_empty;
    bool ended;
    double *ends; /* sample: of each input's part of [0, 1) */
    uint64_t seed;
    uint64_t epoch;
    uint64_t draws;
    struct mr_gather out;
};

/* ---- infer ---- */

/* What covers the elements of inputs first, first + 1, ... */
static int join_inputs(struct mr_infer *in, size_t first, mr_error *err)
{
    MR_AUTO(mr_spec_unref) mr_spec *all = mr_spec_ref(in->inputs[first]->spec);

    for (size_t i = first + 1; i < in->ninputs; i++) {
        mr_spec *more = NULL;

        MR_TRY_WRAP(mr_spec_join(all, in->inputs[i]->spec, &more, err), err, "input %zu",
                    i - first);
        mr_spec_unref(all);
        all = more;
    }
    in->spec = MR_TAKE(all);
    return MR_OK;
}

static int choose_infer(struct mr_infer *in, mr_error *err)
{
    const mr_spec *choice = in->inputs[0]->spec;
    const struct mr_leaf_spec *leaf = mr_spec_leaves(choice) == 1 ? mr_spec_leaf(choice, 0) : NULL;

    if (leaf == NULL || leaf->dtype != MR_INT64 || leaf->rank != 0) {
        return mr_error_set(err, MR_EINVAL, "the dataset of choices must give int64 scalars");
    }
    return join_inputs(in, 1, err);
}

static int check_weights(const mr_block *weights, size_t n, mr_error *err)
{
    const struct mr_column *c =
        mr_block_column_count(weights) == 1 ? mr_block_column(weights, 0) : NULL;

    if (c == NULL || c->kind != MR_COLUMN_FIXED || c->dtype != MR_FLOAT64 || c->rank != 0 ||
        mr_block_rows(weights) != n) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'weights' has not one float64 for each of %zu inputs", n);
    }
    for (size_t i = 0; i < n; i++) {
        double w = ((const double *)c->data)[i];

        if (!(w > 0 && w < 1e300)) {
            return mr_error_set(err, MR_EINVAL, "weight %zu is %g, it must be above 0", i, w);
        }
    }
    return MR_OK;
}

static int sample_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *weights = mr_infer_attr(in, "weights");
    const struct mr_attr *stop = mr_infer_attr(in, "stop_on_empty");

    MR_TRY(weights != NULL ? check_weights(weights->block, in->ninputs, err) : MR_OK);
    if (stop == NULL || stop->i == 0) {
        in->cardinality = 0;
        for (size_t i = 0; i < in->ninputs; i++) {
            in->cardinality = mr_cardinality_add(in->cardinality, in->inputs[i]->cardinality);
        }
    }
    return join_inputs(in, 0, err);
}

/* ---- open ---- */

static int open_inputs(struct choose_iter *it, const struct mr_op_ctx *ctx, uint32_t first,
                       mr_error *err)
{
    const mr_dataset *ds = it->head.ds;

    it->n = (uint32_t)ds->ninputs - first;
    it->chosen = NO_CHOICE;
    it->head.waiting = &it->out.rows;
    it->inputs = mr_calloc(it->n, sizeof(struct mr_op_iter *));
    MR_CHECK_ALLOC(it->inputs, err);
    for (; it->open < it->n; it->open++) {
        struct mr_op_ctx below = mr_op_input_ctx(ctx, first + it->open);

        MR_TRY(mr_op_open(&below, ds->inputs[first + it->open], &it->inputs[it->open], err));
    }
    return MR_OK;
}

static int choose_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct choose_iter *it = (struct choose_iter *)head;
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);

    MR_TRY(mr_op_open(&below, head->ds->inputs[0], &it->choices, err));
    it->stop_on_empty = mr_op_bool(head, "stop_on_empty", true);
    return open_inputs(it, ctx, 1, err);
}

static int read_weights(struct choose_iter *it, mr_error *err)
{
    const struct mr_attr *weights =
        mr_attr_find(it->head.ds->attrs, it->head.ds->nattrs, "weights");
    const double *w = weights != NULL ? mr_block_column(weights->block, 0)->data : NULL;
    double total = 0;
    double so_far = 0;

    it->ends = mr_calloc(it->n, sizeof *it->ends);
    MR_CHECK_ALLOC(it->ends, err);
    for (uint32_t i = 0; i < it->n; i++) {
        total += w != NULL ? w[i] : 1;
    }
    for (uint32_t i = 0; i < it->n; i++) {
        so_far += w != NULL ? w[i] : 1;
        it->ends[i] = so_far / total;
    }
    return MR_OK;
}

static int sample_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct choose_iter *it = (struct choose_iter *)head;
    bool seeded = mr_attr_find(head->ds->attrs, head->ds->nattrs, "seed") != NULL;
    int64_t seed = 0;

    MR_TRY(mr_op_int(head, "seed", 0, &seed, err));
    it->stop_on_empty = mr_op_bool(head, "stop_on_empty", false);
    bool again = mr_op_bool(head, "rerandomize_each_iteration", !seeded);
    it->seed = seeded ? (uint64_t)seed : again ? mr_op_seed(head) : mr_op_fixed_seed(head);
    it->epoch = again ? head->epoch : 0;
    MR_TRY(open_inputs(it, ctx, 0, err));
    return read_weights(it, err);
}

/* ---- running ---- */

static uint32_t draw(struct choose_iter *it)
{
    philox4x32_ctr_t counter = {{(uint32_t)it->draws, (uint32_t)(it->draws >> 32),
                                 (uint32_t)it->epoch, (uint32_t)(it->epoch >> 32)}};
    philox4x32_key_t key = {{(uint32_t)it->seed, (uint32_t)(it->seed >> 32)}};
    philox4x32_ctr_t r = philox4x32(counter, key);
    double at = (double)(((uint64_t)r.v[1] << 32 | r.v[0]) >> 11) * 0x1p-53;
    uint32_t i = 0;

    it->draws++;
    while (i + 1 < it->n && at >= it->ends[i]) {
        i++;
    }
    return i;
}

/* Whose turn it is. MR_END: nobody's any more. */
static int next_choice(struct choose_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_pull one = mr_pull_rows(pull, 1);
    MR_AUTO(mr_block_unref) mr_block *block = NULL;
    int rc;

    if (it->choices == NULL) {
        it->chosen = draw(it);
        return MR_OK;
    }
    rc = mr_op_pull(it->choices, &one, &block, err);
    if (rc != MR_OK) {
        mr_op_mark_uncounted(
            rc, err); /* of whom the turn was, nobody knows: that element will come later */
        return rc;
    }
    const struct mr_column *c = mr_block_column(block, 0);
    int64_t k = ((const int64_t *)c->data)[c->kind == MR_COLUMN_VAR ? c->starts[0] : 0];
    if (k < 0 || k >= it->n) {
        rc =
            mr_error_set(err, MR_EINVAL, "choice %lld, there are %u datasets", (long long)k, it->n);
        return mr_op_fail(&it->head, it->head.delivered + it->out.rows, rc, err);
    }
    it->chosen = (uint32_t)k;
    return MR_OK;
}

/* One element from the input whose turn it is. */
static int take_chosen(struct choose_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_pull one = mr_pull_rows(pull, 1);
    struct mr_op_iter **input = &it->inputs[it->chosen];
    mr_block *block = NULL;
    MR_TRY(mr_gather_reserve(&it->out, err));
    int rc = *input != NULL ? mr_op_pull(*input, &one, &block, err) : MR_END;

    if (rc == MR_OK) {
        rc = mr_gather_add(&it->out, block, 0, 1, err);
        mr_block_unref(block);
    }
    if (rc == MR_END) {
        it->open -= *input != NULL;
        mr_op_close(*input);
        *input = NULL;
        it->ended = it->stop_on_empty || it->open == 0;
        rc = MR_OK;
    }
    if (rc == MR_OK || (rc < 0 && mr_op_element_failed(rc, err))) {
        it->chosen = NO_CHOICE; /* an element that failed was its turn */
    }
    return rc;
}

static int choose_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                       mr_error *err)
{
    struct choose_iter *it = (struct choose_iter *)head;
    mr_error failure;
    int rc = MR_OK;

    while (rc == MR_OK && head->deferred == MR_OK && !it->ended && it->out.rows < pull->rows &&
           it->out.bytes < pull->bytes) {
        struct mr_pull below = it->out.rows > 0 ? mr_pull_more(pull, 1) : *pull;

        rc = mr_op_interrupted(head, pull, &failure);
        if (rc == MR_OK && it->chosen == NO_CHOICE) {
            rc = next_choice(it, &below, &failure);
            it->ended = rc == MR_END;
        }
        if (rc == MR_OK) {
            rc = take_chosen(it, &below, &failure);
        }
    }
    rc = it->ended && rc >= MR_OK ? MR_END : rc;
    return mr_op_give(head, pull, &it->out, rc, &failure, ret, err);
}

/* ---- state ---- */

static int input_state(struct choose_iter *it, uint32_t i, struct mr_state *s, mr_error *err)
{
    bool open = it->inputs[i] != NULL;

    MR_TRY(mr_state_bool(s, &open, err));
    if (open) {
        return mr_op_state(it->inputs[i], s, err);
    }
    it->open -= it->inputs[i] != NULL;
    mr_op_close(it->inputs[i]);
    it->inputs[i] = NULL;
    return MR_OK;
}

static int choose_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct choose_iter *it = (struct choose_iter *)head;

    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_u32(s, &it->chosen, NO_CHOICE, err));
    if (it->chosen != NO_CHOICE && it->chosen >= it->n) {
        return mr_state_damaged(err);
    }
    MR_TRY(mr_state_u64(s, &it->seed, err));
    MR_TRY(mr_state_u64(s, &it->epoch, err));
    MR_TRY(mr_state_u64(s, &it->draws, err));
    MR_TRY(mr_gather_state(&it->out, head->ds->spec, s, err));
    MR_TRY(it->choices != NULL ? mr_op_state(it->choices, s, err) : MR_OK);
    for (uint32_t i = 0; i < it->n; i++) {
        MR_TRY(input_state(it, i, s, err));
    }
    return MR_OK;
}

static void choose_close(struct mr_op_iter *head)
{
    struct choose_iter *it = (struct choose_iter *)head;

    mr_op_close(it->choices);
    for (uint32_t i = 0; it->inputs != NULL && i < it->n; i++) {
        mr_op_close(it->inputs[i]);
    }
    mr_free(it->inputs);
    mr_free(it->ends);
    mr_gather_free(&it->out);
}

#define CHOOSE_RUN(open_fn)                                                                        \
    {                                                                                              \
        .size = sizeof(struct choose_iter), .open = open_fn, .pull = choose_pull,                  \
        .state = choose_state, .close = choose_close,                                              \
    }

static const struct mr_op_run choose_run = CHOOSE_RUN(choose_open);
static const struct mr_op_run sample_run = CHOOSE_RUN(sample_open);

const struct mr_operator mr_operator_choose = {
    .name = "choose",
    .inputs = 2,
    .or_more_inputs = true,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_OPTIONAL_BOOL("stop_on_empty")),
    .infer = choose_infer,
    .run = &choose_run,
};

const struct mr_operator mr_operator_sample = {
    .name = "sample",
    .inputs = 1,
    .or_more_inputs = true,
    .rate = MR_RATE_ONE,
    .draws = true,
    .args =
        MR_ARGS(MR_ARG("weights", MR_ATTR_BLOCK, MR_ARG_OPTIONAL),
                MR_OPTIONAL_INT("seed", INT64_MIN, INT64_MAX),
                MR_OPTIONAL_BOOL("rerandomize_each_iteration"), MR_OPTIONAL_BOOL("stop_on_empty")),
    .infer = sample_infer,
    .run = &sample_run,
};
