/*
 * Lists of splits that are owed to an iteration: they were handed out and are not known to be
 * finished, or were given back. A list belongs to a record (pool and given_back of a cursor, an
 * open grant of a task), is ascending and its ranges are apart.
 *
 * A split is named by its position, repetition x splits of the provider + index, so that the same
 * index of two repetitions is two splits and a range may run over from one repetition into the
 * next. Sources without an end have no such product: there a position is the index.
 *
 * Threads: none, as everything in the core.
 */
#ifndef MR_DISPATCHER_CORE_OWED_H
#define MR_DISPATCHER_CORE_OWED_H

#include "millrace/state.pb-c.h"

#include <millrace/base.h>

struct mr_core;

/* Ranges of a pool and of the open grants of one task, beyond which neighbours are joined across
 * what lies between: that is repeated too. */
#define MR_OWED_RANGES_MAX 512

/* A list inside a record. */
struct mr_owed {
    Millrace__OwedRange ***ranges;
    size_t *n;
};

/* Add @count splits from @first on. What is there already is joined, with the larger counts. */
void mr_owed_add(struct mr_core *core, struct mr_owed list, uint64_t first, uint64_t count,
                 uint32_t losses);
/* Cut @count splits, at most all of them, off the front of range @i. */
void mr_owed_take(struct mr_owed list, size_t i, uint64_t count);
/* Is any of @count splits from @first on in it? */
bool mr_owed_touches(struct mr_owed list, uint64_t first, uint64_t count);
/* Cut those out. @fn hears of each piece that was there. */
typedef void mr_owed_piece_fn(void *ctx, uint64_t first, uint64_t count, uint32_t losses);
void mr_owed_cut(struct mr_core *core, struct mr_owed list, uint64_t first, uint64_t count,
                 mr_owed_piece_fn *fn, void *ctx);
/* Join neighbours until there are at most @max ranges. */
void mr_owed_squeeze(struct mr_owed list, size_t max);
void mr_owed_clear(struct mr_owed list);
uint64_t mr_owed_splits(struct mr_owed list);
/* Ascending, apart, not empty, and all below @end. */
bool mr_owed_is_sound(struct mr_owed list, uint64_t end);

#endif
