#include "client/queue.h"

#define ROOM_FIRST 16

int mr_queue_reserve(struct mr_queue *q, size_t n, mr_error *err)
{
    size_t cap = q->cap == 0 ? ROOM_FIRST : q->cap;

    if (q->count + n <= q->cap) {
        return MR_OK;
    }
    while (cap < q->count + n) {
        cap *= 2;
    }
    struct mr_queued *ring = mr_reallocarray(NULL, cap, sizeof *ring);
    MR_CHECK_ALLOC(ring, err);
    for (size_t i = 0; i < q->count; i++) {
        ring[i] = *mr_queue_at(q, i);
    }
    mr_free(q->ring);
    q->ring = ring;
    q->cap = cap;
    q->head = 0;
    return MR_OK;
}

void mr_queue_push(struct mr_queue *q, mr_block *block, uint32_t row, uint64_t number)
{
    struct mr_queued *last = mr_queue_at(q, q->count++);

    last->block = block;
    last->row = row;
    last->bytes = mr_block_row_bytes(block, row, mr_block_rows(block) - row);
    last->number = number;
    q->bytes += last->bytes;
}

mr_block *mr_queue_pop(struct mr_queue *q)
{
    struct mr_queued *first = mr_queue_at(q, 0);

    q->head = (q->head + 1) % q->cap;
    q->count--;
    q->bytes -= first->bytes;
    return first->block;
}

void mr_queue_shorten(struct mr_queue *q, uint32_t rows, size_t bytes)
{
    struct mr_queued *first = mr_queue_at(q, 0);

    bytes = MR_MIN(bytes, first->bytes);
    first->row += rows;
    first->bytes -= bytes;
    q->bytes -= bytes;
}

void mr_queue_clear(struct mr_queue *q)
{
    while (q->count > 0) {
        mr_block_unref(mr_queue_pop(q));
    }
    mr_free(q->ring);
    memset(q, 0, sizeof *q);
}
