/* Functions that return datasets, run: each element of the input opens an iterator. Shared by
 * flat_map and interleave. */
#pragma once

#include "engine/ops/apply.h"

struct mr_expander {
    struct mr_op_iter *head;
    struct mr_op_iter *input; /* NULL: rows are handed in */
    const struct mr_expansion *expansion;
    struct mr_apply apply; /* of the expansion's program, if it has one */
    uint64_t index;        /* of the next element of the input */
};

/* For function @fn of @head, and rows that are handed in. */
int mr_expander_prepare(struct mr_expander *e, struct mr_op_iter *head, mr_function *fn,
                        mr_error *err);
/* The iterator over what the one row of @row expands to; it counts as an element also when it
 * fails. */
int mr_expander_expand(struct mr_expander *e, const mr_block *row, struct mr_op_iter **ret,
                       mr_error *err);

/* For the first function, and the elements of the input, which it opens. */
int mr_expander_init(struct mr_expander *e, struct mr_op_iter *head, const struct mr_op_ctx *ctx,
                     mr_error *err);
void mr_expander_free(struct mr_expander *e); /* one that was never initialised is fine */

/* The iterator over what the next element of the input expands to. MR_END, MR_TIMEOUT as pulls
 * do. */
int mr_expander_next(struct mr_expander *e, const struct mr_pull *pull, struct mr_op_iter **ret,
                     mr_error *err);

/* An iterator that mr_expander_next() gave: what it was bound to, and where it stands. Restored, it
 * is the caller's, also where that fails half-way. */
int mr_expander_inner_state(struct mr_expander *e, struct mr_op_iter **inner, struct mr_state *s,
                            mr_error *err);
int mr_expander_state(struct mr_expander *e, struct mr_state *s, mr_error *err);
