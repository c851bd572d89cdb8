/* Reading a source by splits: what stands in for a provider's node when the iterator has a split
 * source. Threads: as any operator. */
#pragma once

#include "engine/op.h"

/* The operator to open instead of @ds; it opens @ds itself, below. */
extern const struct mr_operator mr_split_operator;

/* Is the node at @ctx a provider that splits drive? */
bool mr_split_applies(const struct mr_op_ctx *ctx);
