/* prefetch: a thread pulls upstream while the consumer is busy (engine/ahead.h). */
#include "engine/ahead.h"
#include "engine/ops/ops.h"

struct prefetch_iter {
    struct mr_op_iter head;
    struct mr_ahead ahead;
};

static int prefetch_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)head;
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);
    struct mr_op_iter *input = NULL;
    int64_t size = 0;

    below.ahead = true;
    MR_TRY(mr_op_int(head, "buffer_size", -1, &size, err));
    MR_TRY(mr_op_open(&below, head->ds->inputs[0], &input, err));
    mr_ahead_init(&it->ahead, head->env, head->ds, input, size > 0 ? (uint64_t)size : 0);
    return MR_OK;
}

static int prefetch_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    return mr_ahead_pull(&((struct prefetch_iter *)head)->ahead, pull, ret, err);
}

static int prefetch_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    return mr_ahead_state(&((struct prefetch_iter *)head)->ahead, s, err);
}

static void prefetch_close(struct mr_op_iter *head)
{
    mr_ahead_close(&((struct prefetch_iter *)head)->ahead);
}

const struct mr_operator mr_operator_prefetch = {
    .name = "prefetch",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_OPTIONAL_INT("buffer_size", -1, INT64_MAX)),
    .infer = mr_infer_same,
    .run = MR_RUN(struct prefetch_iter, .open = prefetch_open, .pull = prefetch_pull,
                  .state = prefetch_state, .close = prefetch_close),
};
