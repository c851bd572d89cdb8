/* batch, padded_batch and rebatch: groups of consecutive elements become one element with a first
 * dimension more. Their shapes must agree, or are padded until they do. rebatch makes groups of
 * several sizes in turn. */
#include "engine/gather.h"
#include "engine/ops/cycle.h"
#include "engine/ops/ops.h"
#include "engine/ops/padding.h"

/* Elements that come in one block are a batch without being copied. */
#define TOGETHER_BYTES ((size_t)32 << 20)

struct batch_iter {
    struct mr_op_iter head;
    uint32_t size;
    bool drop_remainder;
    bool ended;
    int failed;    /* the batch at hand has; MR_OK: it has not */
    uint32_t lost; /* elements to come that belong to it */
    mr_error failure;
    struct mr_gather rows;
    size_t charged;            /* bytes of the budget that the rows gathered take */
    struct mr_padding padding; /* without shapes: batch */
    bool *joined;              /* components whose rows are put behind one another; or NULL */
    struct mr_cycle cycle;     /* the sizes of rebatch; `size` is the one whose turn it is */
};

/* Which of @n components the attribute "joined" names; NULL: there is none. */
static int joined_components(const struct mr_attr *a, size_t n, bool **ret, mr_error *err)
{
    *ret = NULL;
    if (a == NULL) {
        return MR_OK;
    }
    MR_AUTO(mr_free) bool *joined = mr_calloc(n, sizeof *joined);
    MR_CHECK_ALLOC(joined, err);
    for (int32_t i = 0; i < a->count; i++) {
        if (a->ints[i] < 0 || (uint64_t)a->ints[i] >= n) {
            return mr_error_set(err, MR_EINVAL, "argument 'joined': there is no component %lld",
                                (long long)a->ints[i]);
        }
        joined[a->ints[i]] = true;
    }
    *ret = MR_TAKE(joined);
    return MR_OK;
}

/* The rows of @leaf put behind one another. */
static int infer_joined(struct mr_leaf_spec *leaf, const mr_spec *names, size_t i, mr_error *err)
{
    if (leaf->rank == 0) {
        return mr_error_set(err, MR_EINVAL, "%s is a scalar: nothing to join",
                            MR_COMPONENT(names, i));
    }
    if (leaf->rank > 0) {
        leaf->dims[0] = MR_DIM_UNKNOWN;
    }
    return MR_OK;
}

static bool drops_remainder(const struct mr_infer *in)
{
    const struct mr_attr *drop = mr_infer_attr(in, "drop_remainder");

    return drop != NULL && drop->i != 0;
}

/* The spec of batches of @size (or MR_DIM_UNKNOWN) of elements whose leaves are @leaves, @n of
 * them; they are changed. */
static int infer_spec(struct mr_infer *in, struct mr_leaf_spec *leaves, size_t n, int64_t size,
                      mr_error *err)
{
    MR_AUTO(mr_free) bool *joined = NULL;

    MR_TRY(mr_infer_no_datasets(in->inputs[0]->spec, err));
    MR_TRY(joined_components(mr_infer_attr(in, "joined"), n, &joined, err));
    for (size_t i = 0; i < n; i++) {
        if (joined != NULL && joined[i]) {
            MR_TRY(infer_joined(&leaves[i], in->inputs[0]->spec, i, err));
            continue;
        }
        if (leaves[i].rank == MR_RANK_UNKNOWN) {
            continue;
        }
        if (leaves[i].rank == MR_RANK_MAX) {
            return mr_error_set(err, MR_EINVAL,
                                "%s has %d dimensions already, more are not possible",
                                MR_COMPONENT(in->inputs[0]->spec, i), MR_RANK_MAX);
        }
        memmove(leaves[i].dims + 1, leaves[i].dims,
                (size_t)leaves[i].rank * sizeof leaves[i].dims[0]);
        leaves[i].dims[0] = size;
        leaves[i].rank = (int8_t)(leaves[i].rank + 1);
    }
    return mr_spec_new(leaves, n, mr_spec_structure(in->inputs[0]->spec), &in->spec, err);
}

/* The same, and the number of batches. */
static int infer_batches(struct mr_infer *in, struct mr_leaf_spec *leaves, size_t n, mr_error *err)
{
    bool known;
    int64_t size = mr_infer_int(in, "batch_size", 1, &known);
    bool whole = drops_remainder(in);
    int64_t count = in->inputs[0]->cardinality;

    if (count >= 0 && known) {
        in->cardinality = count / size + (!whole && count % size > 0);
    } else if (count == MR_CARDINALITY_INFINITE) {
        in->cardinality = MR_CARDINALITY_INFINITE;
    }
    return infer_spec(in, leaves, n, known && whole ? size : MR_DIM_UNKNOWN, err);
}

static int batch_infer(struct mr_infer *in, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;

    MR_TRY(mr_spec_copy_leaves(in->inputs[0]->spec, &leaves, err));
    return infer_batches(in, leaves, mr_spec_leaves(in->inputs[0]->spec), err);
}

static int padded_batch_infer(struct mr_infer *in, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;

    MR_TRY(mr_padding_infer(in, &leaves, err));
    return infer_batches(in, leaves, mr_spec_leaves(in->inputs[0]->spec), err);
}

static int rebatch_infer(struct mr_infer *in, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    int64_t count = in->inputs[0]->cardinality;

    MR_TRY(mr_cycle_infer(in, drops_remainder(in), &count, err));
    in->cardinality = count;
    MR_TRY(mr_spec_copy_leaves(in->inputs[0]->spec, &leaves, err));
    return infer_spec(in, leaves, mr_spec_leaves(in->inputs[0]->spec), MR_DIM_UNKNOWN, err);
}

static int rebatch_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct batch_iter *it = (struct batch_iter *)head;

    MR_TRY(mr_cycle_open(head, &it->cycle, err));
    it->size = mr_cycle_size(&it->cycle);
    it->drop_remainder = mr_op_bool(head, "drop_remainder", false);
    return mr_op_open_input(head, ctx, err);
}

static int batch_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct batch_iter *it = (struct batch_iter *)head;
    int64_t size = 0;

    MR_TRY(mr_op_int(head, "batch_size", 1, &size, err));
    it->size = (uint32_t)size;
    it->drop_remainder = mr_op_bool(head, "drop_remainder", false);
    MR_TRY(joined_components(mr_attr_find(head->ds->attrs, head->ds->nattrs, "joined"),
                             mr_spec_leaves(head->ds->inputs[0]->spec), &it->joined, err));
    return mr_op_open_input(head, ctx, err);
}

static int padded_batch_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    MR_TRY(mr_padding_open(head, &((struct batch_iter *)head)->padding, err));
    return batch_open(head, ctx, err);
}

static int too_large(struct batch_iter *it, mr_error *err)
{
    int rc = mr_error_set(err, MR_EEXHAUSTED, "%llu elements of a batch of %u hold %zu bytes, %s",
                          (unsigned long long)it->rows.rows, it->size, it->rows.bytes,
                          mr_env_budget_text(it->head.env).text);

    return mr_op_fail(&it->head, it->head.delivered, rc, err);
}

/* Keep the budget informed of what is gathered. */
static int recharge(struct batch_iter *it, mr_error *err)
{
    return mr_env_recharge(it->head.env, &it->charged, it->rows.bytes) ? MR_OK : too_large(it, err);
}

/* A batch is done with; it was not a remainder, behind which nothing comes. */
static void next_batch(struct batch_iter *it)
{
    if (it->cycle.n > 0) {
        mr_cycle_next(&it->cycle);
        it->size = mr_cycle_size(&it->cycle);
    }
}

/* The element behind those gathered has failed, and with it the batch. */
static void element_failed(struct batch_iter *it, int rc, const mr_error *err)
{
    it->failed = rc;
    it->failure = *err;
    it->lost = mr_op_is_uncounted(rc, err) ? 0 : it->size - (uint32_t)it->rows.rows - 1;
    mr_gather_clear(&it->rows);
    (void)mr_env_recharge(it->head.env, &it->charged, 0);
}

/* As mr_op_pull(), of elements for the batches at hand; those that fail are done with: MR_OK and no
 * block. */
static int pull_input(struct batch_iter *it, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    int rc = mr_op_pull(it->head.input, pull, ret, err);

    if (rc == MR_END) {
        it->ended = true;
        return MR_OK;
    }
    if (rc >= MR_OK || !mr_op_element_failed(rc, err)) {
        return rc;
    }
    if (it->failed == MR_OK || mr_op_is_uncounted(rc, err)) {
        element_failed(it, rc, err);
    } else {
        it->lost--; /* the batch has failed already */
    }
    return MR_OK;
}

/* A batch has failed: what is left of it goes with it, so that the batches after it have the
 * elements that they would have; then its error is given. Is it the remainder that is dropped, it
 * is nobody's. */
static int give_failure(struct batch_iter *it, const struct mr_pull *pull, mr_error *err)
{
    while (it->lost > 0 && !it->ended) {
        struct mr_pull below = mr_pull_rows(pull, it->lost);
        MR_AUTO(mr_block_unref) mr_block *block = NULL;

        MR_TRY(mr_op_interrupted(&it->head, pull, err));
        MR_TRY(pull_input(it, &below, &block, err));
        it->lost -= block != NULL ? mr_block_rows(block) : 0;
    }
    int failed = it->lost > 0 && it->drop_remainder ? MR_END : it->failed;
    *err = it->failure;
    if (it->lost == 0) {
        next_batch(it);
    }
    it->failed = MR_OK;
    it->lost = 0;
    return failed;
}

static int collect(struct batch_iter *it, const struct mr_pull *pull, mr_error *err)
{
    uint64_t batches = MR_MIN(pull->rows, MR_MAX(MR_BLOCK_ROWS_MAX / it->size, 1U));
    struct mr_pull below = mr_pull_rows(pull, batches * it->size - it->rows.rows);
    MR_AUTO(mr_block_unref) mr_block *block = NULL;

    below.unit = it->size;
    below.bytes = MR_MAX(pull->bytes, MR_MIN(TOGETHER_BYTES, it->head.env->budget_bytes / 16));
    MR_TRY(mr_gather_reserve(&it->rows, err));
    MR_TRY(pull_input(it, &below, &block, err));
    if (block == NULL) {
        return MR_OK;
    }
    MR_TRY(mr_gather_add(&it->rows, block, 0, mr_block_rows(block), err));
    return recharge(it, err);
}

/* The batch of the next @size elements. */
static int take(struct batch_iter *it, uint32_t size, mr_block **ret, mr_error *err)
{
    struct mr_op_iter *head = &it->head;
    MR_AUTO(mr_block_unref) mr_block *rows = NULL;
    int rc = mr_gather_take(&it->rows, size, &rows, err);

    if (rc != MR_OK) {
        return mr_op_fail(head, head->delivered, rc, err);
    }
    uint32_t got = mr_block_rows(rows);
    while (got < size) { /* the rest of the group goes with it */
        mr_block *more = NULL;

        if (mr_gather_take(&it->rows, size - got, &more, err) != MR_OK) {
            break;
        }
        got += mr_block_rows(more);
        mr_block_unref(more);
        rc = MR_EINVAL;
    }
    if (rc == MR_EINVAL) {
        rc = mr_error_set(
            err, MR_EINVAL,
            "elements with tensors of different numbers of dimensions cannot be one batch");
    }
    if (rc == MR_OK && it->padding.shapes != NULL) {
        size_t budget = it->head.env->budget_bytes;

        rc =
            mr_block_pad(rows, it->padding.shapes, it->padding.values,
                         MR_MIN(budget, MR_ELEMENT_BYTES_MAX), head->ds->inputs[0]->spec, ret, err);
    } else if (rc == MR_OK) {
        rc = mr_block_batch(rows, size, it->joined, head->ds->inputs[0]->spec, ret, err);
    }
    return rc == MR_OK ? MR_OK : mr_op_fail_rows(head, head->delivered, rows, rc, err);
}

/* The first rows gathered are those of @all, in one block: so they are copied once. */
static int replace_front(struct batch_iter *it, mr_block *all, mr_error *err)
{
    uint64_t skip = mr_block_rows(all);
    struct mr_gather rows = {0};
    int rc = mr_gather_add(&rows, all, 0, mr_block_rows(all), err);

    for (size_t i = it->rows.head; i < it->rows.n && rc == MR_OK; i++) {
        const struct mr_block_part *p = &it->rows.parts[i];
        uint32_t over = skip < p->count ? (uint32_t)skip : p->count;

        skip -= over;
        if (over < p->count) {
            rc = mr_gather_add(&rows, p->block, p->first + over, p->count - over, err);
        }
    }
    if (rc != MR_OK) {
        mr_gather_free(&rows);
        return rc;
    }
    mr_gather_free(&it->rows);
    it->rows = rows;
    return MR_OK;
}

/* All that is there in one go is the rule. Where that fails (shapes that differ), one by one: what
 * is right before the bad batch is given first; the bad one is dropped with its error. */
static int take_batches(struct batch_iter *it, uint32_t batches, uint32_t size, mr_block **ret,
                        mr_error *err)
{
    if (batches > 1) {
        MR_AUTO(mr_block_unref) mr_block *all = NULL;
        mr_error ignored;

        MR_TRY(mr_gather_look(&it->rows, batches * size, &all, err));
        if (mr_block_rows(all) == batches * size &&
            mr_block_batch(all, size, it->joined, NULL, ret, &ignored) == MR_OK) {
            mr_gather_drop(&it->rows, (uint64_t)batches * size);
            return MR_OK;
        }
        MR_TRY(replace_front(it, all, err));
    }
    return take(it, size, ret, err);
}

static int batch_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct batch_iter *it = (struct batch_iter *)head;
    uint64_t full;
    int rc;

    while (it->failed == MR_OK && it->rows.rows < it->size && !it->ended) {
        MR_TRY(mr_op_interrupted(head, pull, err));
        MR_TRY(collect(it, pull, err));
    }
    if (it->failed != MR_OK) {
        return give_failure(it, pull, err);
    }
    if (it->size == 0) {
        rc = mr_cycle_empty(head->ds->spec, ret, err);
        if (rc == MR_OK || mr_op_element_failed(rc, err)) {
            next_batch(it);
        }
        return rc == MR_OK ? MR_OK : mr_op_fail(head, head->delivered, rc, err);
    }
    full = it->rows.rows / it->size;
    if (full > 0) {
        uint64_t most = MR_BLOCK_ROWS_MAX / it->size > 0 ? MR_BLOCK_ROWS_MAX / it->size : 1;

        full = MR_MIN(full, pull->rows);
        full = MR_MIN(full, most);
        /* each is padded to a shape of its own, or has a size of its own */
        full = it->padding.shapes == NULL && it->cycle.n == 0 ? full : 1;
        rc = take_batches(it, (uint32_t)full, it->size, ret, err);
        if (rc == MR_OK || mr_op_element_failed(rc, err)) { /* else it is tried again */
            next_batch(it);
        }
    } else if (it->rows.rows > 0 && !it->drop_remainder) {
        rc = take_batches(it, 1, (uint32_t)it->rows.rows, ret, err);
    } else {
        mr_gather_clear(&it->rows);
        rc = MR_END;
    }
    (void)mr_env_recharge(head->env, &it->charged,
                          it->rows.bytes); /* less: what does not fit was told when it came */
    return rc;
}

static int batch_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct batch_iter *it = (struct batch_iter *)head;
    uint64_t lost = it->lost;

    if (it->cycle.n > 0) {
        MR_TRY(mr_state_bounded(s, &it->cycle.turn, it->cycle.n - 1, err));
        it->size = mr_cycle_size(&it->cycle);
    }
    MR_TRY(mr_state_ending(s, &it->ended, &lost, it->size > 0 ? it->size - 1 : 0, &it->failed,
                           &it->failure, err));
    it->lost = (uint32_t)lost;
    MR_TRY(mr_gather_state(&it->rows, head->ds->inputs[0]->spec, s, err));
    return s->restores ? recharge(it, err) : MR_OK;
}

static void batch_close(struct mr_op_iter *head)
{
    struct batch_iter *it = (struct batch_iter *)head;

    mr_env_release(head->env, it->charged);
    mr_gather_free(&it->rows);
    mr_padding_free(&it->padding);
    mr_free(it->joined);
    mr_free(it->cycle.sizes);
}

const struct mr_operator mr_operator_batch = {
    .name = "batch",
    .inputs = 1,
    .rate = MR_RATE_BATCH,
    .args = MR_ARGS(MR_INT("batch_size", 1, MR_BLOCK_ROWS_MAX), MR_OPTIONAL_BOOL("drop_remainder"),
                    MR_ARG("joined", MR_ATTR_INTS, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)),
    .infer = batch_infer,
    .run = MR_RUN(struct batch_iter, .open = batch_open, .pull = batch_pull, .state = batch_state,
                  .close = batch_close),
};

const struct mr_operator mr_operator_padded_batch = {
    .name = "padded_batch",
    .inputs = 1,
    .rate = MR_RATE_BATCH,
    .args = MR_ARGS(MR_INT("batch_size", 1, MR_BLOCK_ROWS_MAX),
                    MR_ARG("padded_shapes", MR_ATTR_INTS, MR_ARG_OPTIONAL | MR_ARG_CONSTANT),
                    MR_ARG("sizes", MR_ATTR_INTS, MR_ARG_OPTIONAL),
                    MR_ARG("padding_values", MR_ATTR_BLOCK, MR_ARG_OPTIONAL | MR_ARG_TENSORS),
                    MR_OPTIONAL_BOOL("drop_remainder")),
    .infer = padded_batch_infer,
    .run = MR_RUN(struct batch_iter, .open = padded_batch_open, .pull = batch_pull,
                  .state = batch_state, .close = batch_close),
};

const struct mr_operator mr_operator_rebatch = {
    .name = "rebatch",
    .inputs = 1,
    .args =
        MR_ARGS(MR_ARG("sizes", MR_ATTR_INTS, MR_ARG_CONSTANT), MR_OPTIONAL_BOOL("drop_remainder")),
    .infer = rebatch_infer,
    .run = MR_RUN(struct batch_iter, .open = rebatch_open, .pull = batch_pull, .state = batch_state,
                  .close = batch_close),
};
