/* Sizes of batches that take turns, 0 among them. Threads: none. */
#pragma once

#include "engine/ops/ops.h"

struct mr_cycle {
    uint32_t *sizes; /* NULL: there are none */
    size_t n;
    uint64_t turn; /* of the batch to come */
};

/* MR_EINVAL unless the attribute "sizes" of a node has sizes that make batches, and the number of
 * batches of @count elements. */
int mr_cycle_infer(const struct mr_infer *in, bool drop_remainder, int64_t *count, mr_error *err);
int mr_cycle_open(const struct mr_op_iter *head, struct mr_cycle *ret, mr_error *err);
static inline uint32_t mr_cycle_size(const struct mr_cycle *c)
{
    return c->sizes[c->turn];
}
static inline void mr_cycle_next(struct mr_cycle *c)
{
    c->turn = (c->turn + 1) % c->n;
}
/* A row of @spec whose tensors have no values: their first dim, and dims that are not known, are
 * 0. */
int mr_cycle_empty(const mr_spec *spec, mr_block **ret, mr_error *err);
