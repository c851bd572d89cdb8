/* A queue of rows that lie in different blocks, from which blocks are made: by slicing where one
 * block has them all, by copying otherwise. Zero-initialise it. Threads: none. */
#pragma once

#include "element/block.h"
#include "engine/state.h"

struct mr_gather {
    struct mr_block_part *parts;
    size_t head; /* first part in use */
    size_t n;    /* end of the parts in use */
    size_t cap;
    uint64_t rows;
    size_t bytes; /* of payload */
};

/* The next mr_gather_add() does not fail: asked before what is to be added is taken from its
 * input. */
int mr_gather_reserve(struct mr_gather *g, mr_error *err);
/* Takes its own reference. */
int mr_gather_add(struct mr_gather *g, mr_block *block, uint32_t first, uint32_t count,
                  mr_error *err);
/* The first 1..@rows rows, removed: fewer if the tensors after them have another number of
 * dimensions. */
int mr_gather_take(struct mr_gather *g, uint32_t rows, mr_block **ret, mr_error *err);
/* The same rows, which stay: mr_gather_drop(). */
int mr_gather_look(const struct mr_gather *g, uint32_t rows, mr_block **ret, mr_error *err);
/* Rows 0, @step, 2 * @step, ... of @g, @n of them, which there must be, to the end of @to. */
int mr_gather_pick(const struct mr_gather *g, uint64_t step, uint64_t n, struct mr_gather *to,
                   mr_error *err);
/* The first @rows rows, which there must be, are removed. */
void mr_gather_drop(struct mr_gather *g, uint64_t rows);
/* As part of an iterator's state. @spec: of the rows. */
int mr_gather_state(struct mr_gather *g, const mr_spec *spec, struct mr_state *s, mr_error *err);
void mr_gather_clear(struct mr_gather *g);
void mr_gather_free(struct mr_gather *g);
