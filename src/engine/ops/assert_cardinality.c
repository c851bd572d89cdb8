/*
 * assert_cardinality: the input's elements, of which there are as many as was said. Where there are
 * more or fewer, the iterator ends with an error. One that fails is an element.
 *
 * Whether there is one more is asked after the last was given: who takes no more never finds out.
 */
#include "engine/ops/ops.h"

struct assert_iter {
    struct mr_op_iter head;
    int64_t expected; /* MR_CARDINALITY_INFINITE: there is no end */
    uint64_t seen;
};

static int assert_infer(struct mr_infer *in, mr_error *err)
{
    bool known;

    (void)err;
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    in->cardinality = mr_infer_int(in, "cardinality", 0, &known);
    if (!known) {
        in->cardinality = MR_CARDINALITY_UNKNOWN;
    }
    return MR_OK;
}

static int assert_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct assert_iter *it = (struct assert_iter *)head;

    MR_TRY(mr_op_int(head, "cardinality", 0, &it->expected, err));
    return mr_op_open_input(head, ctx, err);
}

static bool is_full(const struct assert_iter *it)
{
    return it->expected >= 0 && it->seen == (uint64_t)it->expected;
}

/* What was said does not hold: this is the answer from now on. */
static int wrong(struct assert_iter *it, bool more, mr_error *err)
{
    int rc = it->expected < 0
                 ? mr_error_set(err, MR_EPRECOND,
                                "the dataset was said to have no end, and ends after %" PRIu64
                                " elements",
                                it->seen)
                 : mr_error_set(err, MR_EPRECOND,
                                "the dataset was said to have %lld elements, and has %s%" PRIu64,
                                (long long)it->expected, more ? "more than " : "only ", it->seen);

    rc = mr_op_fail_at_open(&it->head, rc, err);
    err->traits |= MR_PERMANENT;
    (void)mr_op_defer(&it->head, rc, err);
    return rc;
}

static int assert_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                       mr_error *err)
{
    struct assert_iter *it = (struct assert_iter *)head;
    MR_AUTO(mr_block_unref) mr_block *block = NULL;
    bool full = is_full(it);
    uint64_t left = full || it->expected < 0 ? 1 : (uint64_t)it->expected - it->seen;
    struct mr_pull below =
        mr_pull_rows(pull, it->expected < 0 ? pull->rows : MR_MIN(left, pull->rows));
    int rc = mr_op_pull(head->input, &below, &block, err);

    if (rc == MR_END) {
        return full ? MR_END : wrong(it, false, err);
    }
    if (full && (rc == MR_OK || mr_op_has_place(rc, err))) {
        return wrong(it, true, err);
    }
    it->seen += rc == MR_OK ? mr_block_rows(block) : mr_op_has_place(rc, err) ? 1 : 0;
    if (rc == MR_OK) {
        *ret = MR_TAKE(block);
    }
    return rc;
}

static int assert_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct assert_iter *it = (struct assert_iter *)head;

    return mr_state_bounded(s, &it->seen, it->expected < 0 ? UINT64_MAX : (uint64_t)it->expected,
                            err);
}

const struct mr_operator mr_operator_assert_cardinality = {
    .name = "assert_cardinality",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_INT("cardinality", MR_CARDINALITY_INFINITE, INT64_MAX)),
    .infer = assert_infer,
    .run =
        MR_RUN(struct assert_iter, .open = assert_open, .pull = assert_pull, .state = assert_state),
};
