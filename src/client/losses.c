#include "client/losses.h"

#include "base/sync.h"

#include <string.h>

void mr_loss_tally_init(struct mr_loss_tally *t)
{
    mr_mutex_init(&t->lock);
    memset(&t->sum, 0, sizeof t->sum);
    t->skipped = 0;
    t->ignored = 0;
}

void mr_loss_tally_destroy(struct mr_loss_tally *t)
{
    (void)pthread_mutex_destroy(&t->lock);
}

void mr_loss_tally_add(struct mr_loss_tally *t, const struct mr_losses *more)
{
    if (t == NULL) {
        return;
    }
    MR_LOCK(&t->lock);
    bool known = (t->sum.lost_splits == 0 || t->sum.lost_elements > 0) && more->lost_elements > 0;

    if (more->lost_splits > 0) {
        t->sum.lost_splits += more->lost_splits;
        t->sum.lost_elements = known ? t->sum.lost_elements + more->lost_elements : 0;
    }
    t->sum.quarantined_splits += more->quarantined_splits;
    t->sum.repeated_splits += more->repeated_splits;
    t->sum.lost_workers += more->lost_workers;
    t->sum.skipped_elements += more->skipped_elements;
    t->sum.abandoned_elements += more->abandoned_elements;
    t->sum.incomplete_reads += more->incomplete_reads;
}

void mr_loss_tally_get(struct mr_loss_tally *t, struct mr_losses *ret)
{
    MR_LOCK(&t->lock);
    *ret = t->sum;
}

void mr_loss_tally_skip(struct mr_loss_tally *t, uint64_t n)
{
    if (t != NULL) {
        MR_LOCK(&t->lock);
        t->skipped += n;
    }
}

uint64_t mr_loss_tally_skipped(struct mr_loss_tally *t)
{
    MR_LOCK(&t->lock);
    return t->skipped;
}

void mr_loss_tally_ignore(struct mr_loss_tally *t, uint64_t n)
{
    if (t != NULL) {
        MR_LOCK(&t->lock);
        t->ignored += n;
    }
}

uint64_t mr_loss_tally_ignored(struct mr_loss_tally *t)
{
    MR_LOCK(&t->lock);
    return t->ignored;
}
