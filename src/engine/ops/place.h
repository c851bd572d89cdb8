/*
 * A place in the cycle of an interleave: a dataset that is open there, and what threads have pulled
 * of it ahead of the consumer.
 *
 * Threads: opening, closing, saving and taking from `block` are the consumer's. What is marked is
 * guarded by the lock of the driver, as long as its threads run; one of them at a time pulls
 * (`busy`).
 */
#pragma once

#include "engine/driver.h"
#include "engine/ops/expand.h"

#define MR_PLACE_QUEUE_MAX 2u

struct mr_place_entry {
    mr_block *block; /* NULL: an error */
    int rc;
    mr_error err;
};

struct mr_place {
    struct mr_op_iter *inner; /* NULL: none is open */
    mr_block *block;          /* being taken from, from row `used` on */
    uint32_t used;
    /* guarded by the driver's lock */
    struct mr_place_entry queue[MR_PLACE_QUEUE_MAX];
    uint32_t queued;
    uint32_t demand;
    bool busy;  /* a thread pulls */
    bool ended; /* nothing follows what is queued */
};

/* Is there something for a thread to do? Under the lock. */
bool mr_place_can_pull_locked(const struct mr_place *p);
/* A thread, which has set `busy`: pull once into the queue. */
void mr_place_pull(struct mr_place *p, struct mr_driver *driver);
/* From the queue into `block`. MR_OK: done. MR_END: nothing will come. MR_TIMEOUT: nothing there
 * yet. Else the error that was queued. Under the lock. */
int mr_place_pop_locked(struct mr_place *p, mr_error *err);

/* While no thread pulls; restored into a place with nothing in it. On failure it is what
 * mr_place_free() expects. */
int mr_place_state(struct mr_place *p, const mr_spec *spec, struct mr_expander *expander,
                   struct mr_state *s, mr_error *err);
/* All that it holds. */
void mr_place_free(struct mr_place *p);
