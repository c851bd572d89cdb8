/*
 * How one read ended: what of its iteration is missing. Pure.
 *
 * Threads: plain data; one owner.
 */
#ifndef MR_CLIENT_READ_END_H
#define MR_CLIENT_READ_END_H

#include "millrace/service.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

/* All zero is an end with nothing missing. */
struct mr_read_end {
    uint64_t lost_splits;
    uint64_t lost_elements; /* of them; 0: nobody knows */
    uint64_t quarantined_splits;
    uint64_t repeated_splits;
    uint64_t lost_workers;
    uint64_t skipped_elements;
    uint64_t abandoned_elements;
};

/* What the dispatcher knows of it; what was skipped is the workers' to say. */
void mr_read_end_take(struct mr_read_end *end, const Millrace__IterationEnd *msg);
/* Elements are missing. With DYNAMIC sharding splits are what is lost; a worker whose splits others
 * took over, or that had none, is no loss. Without it nobody can produce the rest of a lost
 * worker's copy. What was skipped, or went with a reader, is missing either way. */
bool mr_read_end_is_incomplete(const struct mr_read_end *end, Millrace__ProcessingMode mode);
/* "3 splits lost (at most 3000 elements), 1 of them quarantined, 2 workers lost, 5 splits handed
 * out again, ...", into @text. */
void mr_read_end_describe(const struct mr_read_end *end, char *text, size_t size);

#endif
