/* Functions that return datasets, run: each element of the input opens an iterator. Shared by flat_map and interleave.
 */
#ifndef MR_ENGINE_OPS_EXPAND_H
#define MR_ENGINE_OPS_EXPAND_H

#include "engine/ops/apply.h"

struct mr_expander {
    struct mr_op_iter *head;
    struct mr_op_iter *input;
    const struct mr_expansion *expansion;
    struct mr_apply apply; /* of the expansion's program, if it has one */
    uint64_t index;        /* of the next element of the input */
};

/* Opens the input too. */
int mr_expander_init(struct mr_expander *e, struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err);
void mr_expander_free(struct mr_expander *e); /* one that was never initialised is fine */

/* The iterator over what the next element of the input expands to. MR_END, MR_TIMEOUT as pulls do. */
int mr_expander_next(struct mr_expander *e, const struct mr_pull *pull, struct mr_op_iter **ret, mr_error *err);

/* An iterator that mr_expander_next() gave: what it was bound to, and where it stands. */
int mr_expander_save_inner(struct mr_op_iter *inner, struct mr_state_out *out, mr_error *err);
int mr_expander_restore_inner(struct mr_expander *e, struct mr_state_in *in, struct mr_op_iter **ret, mr_error *err);

int mr_expander_save(struct mr_expander *e, struct mr_state_out *out, mr_error *err);
int mr_expander_restore(struct mr_expander *e, struct mr_state_in *in, mr_error *err);

#endif
