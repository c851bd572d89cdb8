/*
 * What the reads of one iterator ended without, summed up: an iterator may hold several (zip), and
 * read each of them several times (repeat).
 *
 * Threads: all functions are safe from any thread; init and destroy belong to the owner.
 */
#ifndef MR_CLIENT_LOSSES_H
#define MR_CLIENT_LOSSES_H

#include "millrace/service.pb-c.h"

#include <millrace/iterator.h>
#include <pthread.h>

struct mr_loss_tally {
    pthread_mutex_t lock;
    struct mr_losses sum; /* lock */
    uint64_t skipped;     /* lock; elements that reads under way have missed, too */
};

/* How one read ended; all zero is an end with nothing missing. */
struct mr_read_end {
    uint64_t lost_splits;
    uint64_t lost_elements; /* of them; 0: nobody knows */
    uint64_t quarantined_splits;
    uint64_t repeated_splits;
    uint64_t lost_workers;
    uint64_t skipped_elements;
    uint64_t abandoned_elements;
};

void mr_loss_tally_init(struct mr_loss_tally *t);
void mr_loss_tally_destroy(struct mr_loss_tally *t);
void mr_loss_tally_add(struct mr_loss_tally *t, const struct mr_read_end *end, bool incomplete);
void mr_loss_tally_get(struct mr_loss_tally *t, struct mr_losses *ret);
/* @n more elements fell out of the window of a shared production before the job had them. */
void mr_loss_tally_skip(struct mr_loss_tally *t, uint64_t n);
uint64_t mr_loss_tally_skipped(struct mr_loss_tally *t);

/* What the dispatcher knows of it; what was skipped is the workers' to say. */
void mr_read_end_take(struct mr_read_end *end, const Millrace__IterationEnd *msg);
/*
 * Elements are missing. With DYNAMIC sharding splits are what is lost; a worker whose splits others
 * took over, or that had none, is no loss. Without it nobody can produce the rest of a lost
 * worker's copy. What was skipped, or went with a reader, is missing either way.
 */
bool mr_read_end_is_incomplete(const struct mr_read_end *end, Millrace__ProcessingMode mode);
/* "3 splits lost (at most 3000 elements), 1 of them quarantined, 2 workers lost, 5 splits handed
 * out again, ...", into @text. */
void mr_read_end_describe(const struct mr_read_end *end, char *text, size_t size);

#endif
