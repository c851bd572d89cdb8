/*
 * filter: the elements for which a predicate holds.
 *
 * A block that lost rows is filled up again from the input, so that blocks behind a filter do not
 * stay small; but not for long, as nobody knows when the next row that passes will come. Whether
 * one that fails would have passed, nobody knows.
 */
#include "base/clock.h"
#include "engine/gather.h"
#include "engine/ops/apply.h"

#define FILL_NS (MR_NS_PER_MS / 4)

struct filter_iter {
    struct mr_op_iter head;
    struct mr_apply apply;
    struct mr_apply_input in;
    struct mr_gather gather; /* passed, not given: only if their ranks differ */
};

static int filter_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct filter_iter *it = (struct filter_iter *)head;

    head->waiting = &it->gather.rows;
    head->uncounts = true;
    MR_TRY(mr_apply_open(&it->apply, head, head->ds->functions[0], err));
    return mr_op_open_input(head, ctx, err);
}

/* The rows of @in that pass, of its first @rows ones; *@ret = NULL if there are none. */
static int keep_rows(const mr_block *in, const uint8_t *pass, uint32_t rows, mr_block **ret,
                     mr_error *err)
{
    MR_AUTO(mr_free) uint32_t *kept = mr_reallocarray(NULL, rows, sizeof *kept);
    uint32_t n = 0;

    MR_CHECK_ALLOC(kept, err);
    for (uint32_t i = 0; i < rows; i++) {
        kept[n] = i;
        n += pass[i] != 0;
    }
    if (n == mr_block_rows(in)) {
        *ret = mr_block_ref(in);
        return MR_OK;
    }
    return n > 0 ? mr_block_gather(in, kept, n, ret, err) : MR_OK;
}

/* *@block (or the part of it that memory allows) through the predicate, into the queue. */
static int filter_block(struct filter_iter *it, mr_block **block, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *verdict = NULL;
    MR_AUTO(mr_block_unref) mr_block *passed = NULL;
    mr_error failure;
    uint32_t bad = 0;
    int failed = mr_apply_fit(&it->apply, &it->in, block, &verdict, &bad, &failure);

    if (verdict != NULL) {
        const uint8_t *pass = NULL;

        MR_TRY(mr_apply_bools(&it->in, &it->head, *block, verdict, &pass, err));
        MR_TRY(keep_rows(*block, pass, mr_block_rows(verdict), &passed, err));
    }
    if (failed != MR_OK) {
        (void)mr_op_fail_row(&it->head, it->in.index + bad, *block, bad, failed, &failure);
        MR_TRY(mr_apply_keep(&it->in, *block, bad, err));
    } else {
        it->in.index += mr_block_rows(*block);
    }
    if (passed != NULL) {
        MR_TRY(mr_gather_add(&it->gather, passed, 0, mr_block_rows(passed), err));
    }
    return failed == MR_OK ? MR_OK : mr_error_pass(err, failed, &failure);
}

/* One block more through the predicate. */
static int filter_more(struct filter_iter *it, const struct mr_pull *pull, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *in = NULL;

    MR_TRY(mr_gather_reserve(&it->gather, err));
    MR_TRY(mr_apply_next(&it->in, it->head.input, pull, &in, err));
    int rc = filter_block(it, &in, err);
    return mr_apply_done(&it->in, in, rc);
}

static int filter_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                       mr_error *err)
{
    struct filter_iter *it = (struct filter_iter *)head;
    mr_error failure;
    int rc = MR_OK;

    while (rc == MR_OK && it->gather.rows == 0) {
        rc = mr_op_interrupted(head, pull, &failure);
        rc = rc == MR_OK ? filter_more(it, pull, &failure) : rc;
    }
    int64_t until = 2 * it->gather.rows < pull->rows ? mr_now_ns() + FILL_NS : 0;
    while (rc == MR_OK && head->deferred == MR_OK && 2 * it->gather.rows < pull->rows &&
           mr_now_ns() < until) {
        struct mr_pull more = mr_pull_more(pull, pull->rows - it->gather.rows);

        rc = filter_more(it, &more, &failure);
    }
    return mr_op_give(head, pull, &it->gather, rc, &failure, ret, err);
}

static int filter_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct filter_iter *it = (struct filter_iter *)head;

    MR_TRY(mr_apply_state(&it->in, head->ds->inputs[0]->spec, s, err));
    return mr_gather_state(&it->gather, head->ds->spec, s, err);
}

static void filter_close(struct mr_op_iter *head)
{
    struct filter_iter *it = (struct filter_iter *)head;

    mr_apply_free(&it->apply);
    mr_gather_free(&it->gather);
    mr_block_unref(it->in.rest);
}

const struct mr_operator mr_operator_filter = {
    .name = "filter",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .function = MR_FUNCTION_PREDICATE,
    .infer = mr_infer_subset,
    .run = MR_RUN(struct filter_iter, .open = filter_open, .pull = filter_pull,
                  .state = filter_state, .close = filter_close),
};
