#include "client/losses.h"

#include "base/sync.h"

#include <string.h>

void mr_loss_tally_init(struct mr_loss_tally *t)
{
    mr_mutex_init(&t->lock);
    memset(&t->sum, 0, sizeof t->sum);
    t->skipped = 0;
}

void mr_loss_tally_destroy(struct mr_loss_tally *t)
{
    (void)pthread_mutex_destroy(&t->lock);
}

void mr_loss_tally_add(struct mr_loss_tally *t, const struct mr_read_end *end, bool incomplete)
{
    if (t == NULL) {
        return;
    }
    MR_LOCK(&t->lock);
    bool known = (t->sum.lost_splits == 0 || t->sum.lost_elements > 0) && end->lost_elements > 0;

    if (end->lost_splits > 0) {
        t->sum.lost_splits += end->lost_splits;
        t->sum.lost_elements = known ? t->sum.lost_elements + end->lost_elements : 0;
    }
    t->sum.quarantined_splits += end->quarantined_splits;
    t->sum.repeated_splits += end->repeated_splits;
    t->sum.lost_workers += end->lost_workers;
    t->sum.skipped_elements += end->skipped_elements;
    t->sum.abandoned_elements += end->abandoned_elements;
    t->sum.incomplete_reads += incomplete ? 1 : 0;
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
