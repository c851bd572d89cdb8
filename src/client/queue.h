/* What came of a task and waits for the application: blocks, in a ring. Pure; one owner at a time.
 */
#pragma once

#include "element/block.h"

struct mr_queued {
    mr_block *block; /* a reference */
    uint32_t row;    /* the next to take */
    size_t bytes;    /* from there on */
    uint64_t number; /* of the session that it came in; coordinated: of its round */
};

/* All zero is empty. */
struct mr_queue {
    struct mr_queued *ring;
    size_t cap;
    size_t head;
    size_t count;
    uint64_t bytes;
};

/* Room for @n more. */
int mr_queue_reserve(struct mr_queue *q, size_t n, mr_error *err);
/* Rows of @block from @row on, where there is room; takes the reference. */
void mr_queue_push(struct mr_queue *q, mr_block *block, uint32_t row, uint64_t number);
/* The @i-th, below `count`; lent until the next push. */
static inline struct mr_queued *mr_queue_at(const struct mr_queue *q, size_t i)
{
    return &q->ring[(q->head + i) % q->cap];
}
/* The first one leaves; its block is the caller's. */
mr_block *mr_queue_pop(struct mr_queue *q);
/* The first one goes without its first @rows rows, of @bytes bytes; some are left. */
void mr_queue_shorten(struct mr_queue *q, uint32_t rows, size_t bytes);
void mr_queue_clear(struct mr_queue *q);
