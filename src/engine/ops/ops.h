/* The table entries of all dataset operators, and what several of them share. */
#ifndef MR_ENGINE_OPS_OPS_H
#define MR_ENGINE_OPS_OPS_H

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "engine/bound.h"
#include "engine/env.h"
#include "engine/op.h"
#include "engine/state.h"
#include "ops/kernel.h"

#include <string.h>

#define MR_OPERATOR(name, file, inputs, attributes, functions)                                     \
    extern const struct mr_operator mr_operator_##name;
#include "engine/ops/operators.def"
#undef MR_OPERATOR

/* An operator without state of its own but one input: the most common beginning of an iterator. */
struct mr_unary_iter {
    struct mr_op_iter head;
    struct mr_op_iter *input;
};

int mr_unary_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err);
void mr_unary_close(struct mr_op_iter *head);

/* The narrowest spec that covers both. MR_EINVAL says how they differ in structure or dtype. */
int mr_spec_join(const mr_spec *a, const mr_spec *b, mr_spec **ret, mr_error *err);

#endif
