/* Inside src/dataset: nodes of functions are shared between a builder and what is finished from
 * it. */
#pragma once

#include "dataset/graph.h"

/* How definitions write mr_fn_node.salt down. */
#define MR_FN_SALT "!salt"

struct mr_fn_node *mr_fn_node_ref(struct mr_fn_node *node);
void mr_fn_node_unref(struct mr_fn_node *node); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_fn_node, mr_fn_node_unref)

/* mr_builder_add() of functions that capture nothing. */
int mr_builder_add_closed(mr_builder *b, const char *op, const uint32_t *inputs, size_t ninputs,
                          const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                          size_t nfunctions, uint32_t *outputs, size_t cap, size_t *noutputs,
                          mr_error *err);

/* Which values of @fn its results need: live[v] for each value, true or false (an array of
 * fn->nvalues, the caller's, freed with mr_free()). */
int mr_function_live(const mr_function *fn, bool **ret, mr_error *err);
