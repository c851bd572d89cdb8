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

#include <inttypes.h>
#include <string.h>

static struct mr_owed owed_by(Millrace__OpenGrant *grant)
{
    return (struct mr_owed){&grant->ranges, &grant->n_ranges};
}

static uint64_t last_of(const Millrace__OpenGrant *grant)
{
    return grant->last != 0 ? grant->last : grant->seq;
}

static void remove_open(Millrace__GrantRecord *rec, size_t i)
{
    mr_record_free(rec->open[i]);
    rec->n_open--;
    memmove(rec->open + i, rec->open + i + 1, (rec->n_open - i) * sizeof *rec->open);
}

/* The two neighbours that have the least between them become one grant, finished when both are. */
static void join_smallest(mr_core *core, Millrace__GrantRecord *rec)
{
    uint64_t least = UINT64_MAX;
    size_t at = 0;

    for (size_t i = 0; i + 1 < rec->n_open; i++) {
        uint64_t both =
            mr_owed_splits(owed_by(rec->open[i])) + mr_owed_splits(owed_by(rec->open[i + 1]));

        if (both < least) {
            least = both;
            at = i;
        }
    }
    Millrace__OpenGrant *grant = rec->open[at];
    const Millrace__OpenGrant *next = rec->open[at + 1];

    for (size_t i = 0; i < next->n_ranges; i++) {
        const Millrace__OwedRange *r = next->ranges[i];

        mr_owed_add(core, owed_by(grant), r->first, r->count, r->losses);
    }
    mr_owed_squeeze(owed_by(grant), MR_OWED_RANGES_MAX / MR_GRANTS_OPEN_MAX);
    grant->last = last_of(next);
    remove_open(rec, at + 1);
}

void mr_grants_open(mr_core *core, struct mr_task *task, size_t provider,
                    const struct mr_owed_splits *splits)
{
    Millrace__GrantRecord *rec = task->grants[provider].rec;
    Millrace__OpenGrant *grant = mr_core_new_record(core, &millrace__open_grant__descriptor);

    if (!mr_core_append(core, &rec->open, rec->n_open, grant)) {
        return;
    }
    rec->n_open++;
    grant->seq = rec->seq;
    mr_owed_add(core, owed_by(grant), splits->first, splits->count, splits->losses);
    if (rec->n_open > MR_GRANTS_OPEN_MAX && core->failed == 0) {
        join_smallest(core, rec);
    }
}

void mr_grants_void(struct mr_task *task)
{
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        Millrace__GrantRecord *rec = task->grants[i].rec;

        while (rec != NULL && rec->n_open > 0) {
            remove_open(rec, rec->n_open - 1);
        }
        task->grants[i].unwritten = false;
    }
}

uint64_t mr_grants_splits(const struct mr_task *task, size_t provider)
{
    const Millrace__GrantRecord *rec = task->grants[provider].rec;
    uint64_t sum = 0;

    for (size_t i = 0; rec != NULL && i < rec->n_open; i++) {
        sum += mr_owed_splits(owed_by(rec->open[i]));
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

void mr_grants_cut(mr_core *core, struct mr_task *task, size_t provider, uint64_t first,
                   uint64_t count, mr_owed_piece_fn *fn, void *ctx)
{
    Millrace__GrantRecord *rec = task->grants[provider].rec;

    for (size_t i = rec->n_open; i-- > 0;) {
        mr_owed_cut(core, owed_by(rec->open[i]), first, count, fn, ctx);
        if (rec->open[i]->n_ranges == 0) {
            remove_open(rec, i);
        }
    }
}

bool mr_grants_are_sound(const struct mr_iteration *it, size_t provider,
                         const Millrace__GrantRecord *rec)
{
    uint64_t end = mr_position_end(it, provider);
    uint64_t before = 0;

    for (size_t i = 0; i < rec->n_open; i++) {
        Millrace__OpenGrant *grant = rec->open[i];

        if (grant->seq <= before || last_of(grant) < grant->seq || grant->n_ranges == 0 ||
            !mr_owed_is_sound(owed_by(grant), end)) {
            return false;
        }
        before = last_of(grant);
    }
    return before <= rec->seq && rec->n_open <= MR_GRANTS_OPEN_MAX;
}

static int check_report(const struct mr_task *task, const Millrace__GrantReport *report,
                        uint64_t seq, mr_error *err)
{
    uint64_t at = 0; /* numbers begin at 1 */

    for (size_t i = 0; i < report->n_finished; i++) {
        const Millrace__SplitRange *range = report->finished[i];

        if (range->count == 0 || range->first <= at || range->count > UINT64_MAX - range->first) {
            return mr_error_set(err, MR_EINVAL,
                                "task %s reports grants of provider %u out of order", task->id,
                                report->provider);
        }
        at = range->first + range->count - 1;
    }
    if (at > seq) {
        return mr_error_set(err, MR_ERANGE,
                            "task %s reports grant %" PRIu64
                            " of provider %u; the last that it was given is %" PRIu64,
                            task->id, at, report->provider, seq);
    }
    return MR_OK;
}

/* Are all numbers from @first to @last in it? @i: where to begin looking, for a caller that goes on
 * upwards. */
static bool covers(const Millrace__GrantReport *report, uint64_t first, uint64_t last, size_t *i)
{
    while (*i < report->n_finished &&
           report->finished[*i]->first + report->finished[*i]->count <= first) {
        ++*i;
    }
    for (size_t j = *i; j < report->n_finished && report->finished[j]->first <= first; j++) {
        first = report->finished[j]->first + report->finished[j]->count;
        if (first > last) {
            return true;
        }
    }
    return false;
}

int mr_grants_report(mr_core *core, struct mr_task *task, const Millrace__GrantReport *report,
                     mr_error *err)
{
    struct mr_grant *grant;
    size_t at = 0, kept = 0;

    if (report->provider >= task->iteration->rec->n_providers) {
        return mr_error_set(err, MR_EINVAL, "task %s reports grants of provider %u of %zu",
                            task->id, report->provider, task->iteration->rec->n_providers);
    }
    grant = &task->grants[report->provider];
    int rc = check_report(task, report, grant->rec != NULL ? grant->rec->seq : 0, err);

    if (rc < 0) {
        return rc;
    }
    if (grant->rec == NULL || !mr_iteration_repeats(task->iteration)) {
        return MR_OK;
    }
    for (size_t i = 0; i < grant->rec->n_open; i++) {
        Millrace__OpenGrant *open = grant->rec->open[i];

        if (covers(report, open->seq, last_of(open), &at)) {
            mr_core_trace(core,
                          "task %s: grants %" PRIu64 "..%" PRIu64 " of provider %u are finished",
                          task->id, open->seq, last_of(open), report->provider);
            mr_record_free(open);
        } else {
            grant->rec->open[kept++] = open;
        }
    }
    grant->unwritten = grant->unwritten || kept != grant->rec->n_open;
    grant->rec->n_open = kept;
    return MR_OK;
}

/* Nothing is left to grant, so that no grant may come to carry what was reported. */
static bool is_handed_out(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    int64_t splits = it->rec->providers[provider]->splits;
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    return pool.ordinary == 0 &&
           (cursor->next == 0 ? cursor->repetition > 0
                              : splits >= 0 && cursor->next == (uint64_t)splits);
}

void mr_grants_write(mr_core *core, struct mr_task *task)
{
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        if (task->grants[i].unwritten && !core->full && is_handed_out(task->iteration, i) &&
            mr_core_has_room(core, 1)) {
            task->grants[i].unwritten = false;
            mr_touch(core, MR_STORED_GRANT, task, i);
        }
    }
}
