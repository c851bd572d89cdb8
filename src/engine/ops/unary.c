/* What operators of one input share. */
#include "engine/ops/ops.h"

int mr_unary_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);

    return mr_op_open(&below, head->ds->inputs[0], &((struct mr_unary_iter *)head)->input, err);
}

void mr_unary_close(struct mr_op_iter *head)
{
    mr_op_close(((struct mr_unary_iter *)head)->input);
}
