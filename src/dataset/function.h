/* Inside src/dataset: nodes of functions are shared between a builder and what is finished from
 * it. */
#pragma once

#include "dataset/graph.h"

/* How definitions write mr_fn_node.salt down. */
#define MR_FN_SALT "!salt"

struct mr_fn_node *mr_fn_node_ref(struct mr_fn_node *node);
void mr_fn_node_unref(struct mr_fn_node *node); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_fn_node, mr_fn_node_unref)

/* @fn, whose captures are values of @b, without captures: it takes them as inputs behind its own.
 * @values: their numbers in @b, appended to from @*n on (there is room for all). Constants become
 * the function's own. */
int mr_function_close(const mr_function *fn, mr_builder *b, uint32_t *values, size_t *n,
                      mr_function **ret, mr_error *err);

/* Which values of @fn its results need: live[v] for each value, true or false (an array of
 * fn->nvalues, the caller's, freed with mr_free()). */
int mr_function_live(const mr_function *fn, bool **ret, mr_error *err);
