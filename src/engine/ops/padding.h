/*
 * The arguments of padded_batch: to what shapes its elements are padded, and with what. Shapes are
 * constants but for numbers that may come from the function around ("sizes"), so that as much of
 * them as possible is known when the graph is built.
 *
 * Threads: none.
 */
#pragma once

#include "engine/op.h"

struct mr_padding {
    /* one a leaf of an element; unknown dims are as long as the longest of the batch */
    struct mr_leaf_spec *shapes;
    mr_block *values; /* one row of scalars, one a leaf; NULL: zeros and empty strings */
};

/* Check the arguments. *@ret: the leaves of a padded element, freed with mr_free(). */
int mr_padding_infer(struct mr_infer *in, struct mr_leaf_spec **ret, mr_error *err);
/* Into @ret, which is zeroed; mr_padding_free() also after an error. */
int mr_padding_open(const struct mr_op_iter *head, struct mr_padding *ret, mr_error *err);
void mr_padding_free(struct mr_padding *padding); /* zeroed is fine */
