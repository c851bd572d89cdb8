/*
 * At least once: which grants of a task are open, that is, handed out and not known to be finished.
 * They are kept in the task's grant record by number, and are void as soon as the task has ended by
 * itself or its loss is counted.
 *
 * What is reported finished is taken out at once and written lazily: an open grant that is finished
 * already costs a repeat after a loss and a failover, never an element. There is no limit to how
 * many may be open (a shuffle buffer needs input before it gives anything): neighbours are joined
 * instead, and later grants are larger (splits.c).
 */
#include "dispatcher/model/model.h"

uint64_t mr_grants_splits(const struct mr_task *task, size_t provider)
{
    const Millrace__GrantRecord *rec = task->grants[provider].rec;
    uint64_t sum = 0;

    for (size_t i = 0; rec != NULL && i < rec->n_open; i++) {
        sum += mr_split_list_splits(mr_open_ranges(rec->open[i]));
    }
    return sum;
}

void mr_grants_each(const struct mr_task *task, size_t provider,
                    void (*fn)(void *ctx, const Millrace__OwedRange *range), void *ctx)
{
    const Millrace__GrantRecord *rec = task->grants[provider].rec;

    for (size_t i = 0; rec != NULL && i < rec->n_open; i++) {
        for (size_t j = 0; j < rec->open[i]->n_ranges; j++) {
            fn(ctx, rec->open[i]->ranges[j]);
        }
    }
}

bool mr_grants_hold(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count)
{
    const Millrace__GrantRecord *rec = task->grants[provider].rec;
    uint64_t at = first, before;

    do { /* Each round goes on to the end of a range; they may overlap. */
        before = at;
        for (size_t i = 0; rec != NULL && i < rec->n_open; i++) {
            for (size_t j = 0; j < rec->open[i]->n_ranges; j++) {
                const Millrace__OwedRange *r = rec->open[i]->ranges[j];

                at = r->first <= at && at - r->first < r->count ? r->first + r->count : at;
            }
        }
    } while (at != before && at - first < count);
    return at - first >= count;
}

bool mr_grants_are_sound(const struct mr_iteration *it, size_t provider,
                         const Millrace__GrantRecord *rec)
{
    uint64_t end = mr_position_end(it, provider);
    uint64_t before = 0;

    for (size_t i = 0; i < rec->n_open; i++) {
        Millrace__OpenGrant *grant = rec->open[i];

        if (grant->seq <= before || mr_open_last(grant) < grant->seq || grant->n_ranges == 0 ||
            !mr_split_list_is_sound(mr_open_ranges(grant), end)) {
            return false;
        }
        before = mr_open_last(grant);
    }
    return before <= rec->seq && rec->n_open <= MR_GRANTS_OPEN_MAX;
}

int mr_grants_check_report(const struct mr_task *task, const Millrace__GrantReport *report,
                           mr_error *err)
{
    const Millrace__GrantRecord *grant;
    uint64_t at = 0; /* numbers begin at 1 */

    if (report->provider >= task->iteration->rec->n_providers) {
        return mr_error_set(err, MR_EINVAL, "task %s reports grants of provider %u of %zu",
                            task->id, report->provider, task->iteration->rec->n_providers);
    }
    for (size_t i = 0; i < report->n_finished; i++) {
        const Millrace__SplitRange *range = report->finished[i];

        if (range->count == 0 || range->first <= at || range->count > UINT64_MAX - range->first) {
            return mr_error_set(err, MR_EINVAL,
                                "task %s reports grants of provider %u out of order", task->id,
                                report->provider);
        }
        at = range->first + range->count - 1;
    }
    grant = task->grants[report->provider].rec;
    if (at > (grant != NULL ? grant->seq : 0)) {
        return mr_error_set(err, MR_ERANGE,
                            "task %s reports grant %" PRIu64
                            " of provider %u; the last that it was given is %" PRIu64,
                            task->id, at, report->provider, grant != NULL ? grant->seq : 0);
    }
    return MR_OK;
}

/* Nothing is left to grant, so that no grant may come to carry what was reported. */
bool mr_splits_are_handed_out(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    int64_t splits = it->rec->providers[provider]->splits;
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    return pool.ordinary == 0 &&
           (cursor->next == 0 ? cursor->repetition > 0
                              : splits >= 0 && cursor->next == (uint64_t)splits);
}
