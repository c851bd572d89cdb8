/* Updates of splits: cursors, and what each task was granted of them. */
#include "dispatcher/model/apply.h"

/* The two neighbours that have the least between them become one grant, finished when both are. */
static void join_smallest(mr_core *core, Millrace__GrantRecord *rec)
{
    uint64_t least = UINT64_MAX;
    size_t at = 0;

    for (size_t i = 0; i + 1 < rec->n_open; i++) {
        uint64_t both = mr_split_list_splits(mr_open_ranges(rec->open[i])) +
                        mr_split_list_splits(mr_open_ranges(rec->open[i + 1]));

        if (both < least) {
            least = both;
            at = i;
        }
    }
    Millrace__OpenGrant *grant = rec->open[at];
    const Millrace__OpenGrant *next = rec->open[at + 1];

    for (size_t i = 0; i < next->n_ranges; i++) {
        const Millrace__OwedRange *r = next->ranges[i];

        mr_split_list_add(core, mr_open_ranges(grant), r->first, r->count, r->losses);
    }
    mr_split_list_squeeze(mr_open_ranges(grant), MR_SPLIT_RANGES_MAX / MR_GRANTS_OPEN_MAX);
    grant->last = mr_open_last(next);
    MR_REMOVE_RECORD(rec, open, at + 1);
}

static void open_grant(mr_core *core, struct mr_task *task, size_t provider,
                       const struct mr_split_run *splits)
{
    Millrace__GrantRecord *rec = task->grants[provider].rec;
    Millrace__OpenGrant *grant = MR_ADD_RECORD(core, rec, open, open_grant);

    if (grant == NULL) {
        return;
    }
    grant->seq = rec->seq;
    mr_split_list_add(core, mr_open_ranges(grant), splits->first, splits->count, splits->losses);
    if (rec->n_open > MR_GRANTS_OPEN_MAX && core->failed == 0) {
        join_smallest(core, rec);
    }
}

void mr_grants_void(struct mr_task *task)
{
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        Millrace__GrantRecord *rec = task->grants[i].rec;

        while (rec != NULL && rec->n_open > 0) {
            MR_REMOVE_RECORD(rec, open, rec->n_open - 1);
        }
        task->grants[i].is_behind = false;
    }
}

static void cut_grants(mr_core *core, struct mr_task *task, size_t provider, uint64_t first,
                       uint64_t count, mr_split_piece_fn *fn, void *ctx)
{
    Millrace__GrantRecord *rec = task->grants[provider].rec;

    for (size_t i = rec->n_open; i-- > 0;) {
        mr_split_list_cut(core, mr_open_ranges(rec->open[i]), first, count, fn, ctx);
        if (rec->open[i]->n_ranges == 0) {
            MR_REMOVE_RECORD(rec, open, i);
        }
    }
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

void mr_apply_grants_reported(mr_core *core, const struct mr_grants_reported *u)
{
    struct mr_grant *grant = &u->task->grants[u->report->provider];
    size_t at = 0, kept = 0;

    for (size_t i = 0; i < grant->rec->n_open; i++) {
        Millrace__OpenGrant *open = grant->rec->open[i];

        if (covers(u->report, open->seq, mr_open_last(open), &at)) {
            mr_core_trace(core,
                          "task %s: grants %" PRIu64 "..%" PRIu64 " of provider %u are finished",
                          u->task->id, open->seq, mr_open_last(open), u->report->provider);
            mr_record_free(open);
        } else {
            grant->rec->open[kept++] = open;
        }
    }
    grant->is_behind = grant->is_behind || kept != grant->rec->n_open;
    grant->rec->n_open = kept;
}

void mr_apply_grants_stored(mr_core *core, const struct mr_grants_stored *u)
{
    u->task->grants[u->provider].is_behind = false;
    mr_touch(core, MR_STORED_GRANT, u->task, u->provider);
}

void mr_apply_splits_asked(mr_core *core, const struct mr_splits_asked *u)
{
    struct mr_cursor *cursor = &u->task->iteration->cursors[u->provider];
    struct mr_grant *grant = &u->task->grants[u->provider];

    if (cursor->rec == NULL) {
        cursor->rec = MR_NEW_RECORD(core, cursor_record);
    }
    if (grant->rec == NULL) {
        grant->rec = MR_NEW_RECORD(core, grant_record);
    }
}

static void set_range(mr_core *core, Millrace__GrantRecord *grant,
                      const struct mr_split_range *range)
{
    Millrace__SplitRange *one = grant->n_ranges > 0 ? grant->ranges[0] : NULL;

    if (range->count == 0) {
        mr_record_free(one);
        grant->n_ranges = 0;
        return;
    }
    if (one == NULL) {
        one = MR_ADD_RECORD(core, grant, ranges, split_range);
    }
    if (one != NULL) {
        one->first = range->first;
        one->count = range->count;
    }
}

/* What is granted is not there to be had any more. */
static void take_splits(mr_core *core, const struct mr_splits_granted *u)
{
    struct mr_iteration *it = u->task->iteration;
    Millrace__CursorRecord *cursor = it->cursors[u->provider].rec;

    if (u->from == MR_FROM_POOL) { /* they may have been read before */
        mr_split_list_take(mr_pool(it, u->provider), u->at, u->range.count);
        cursor->repeated_splits += u->range.count;
    } else if (u->from == MR_FROM_GIVEN_BACK) {
        mr_split_list_take(mr_given_back(it, u->provider), u->at, u->range.count);
    } else if (u->from == MR_FROM_CURSOR && u->range.count > 0) {
        cursor->next += u->range.count;
    } else if (u->from == MR_FROM_CURSOR) {
        cursor->repetition++;
        cursor->next = 0;
    }
    if (u->from != MR_FROM_NOWHERE) {
        mr_touch(core, MR_STORED_CURSOR, it, u->provider);
    }
}

void mr_apply_splits_granted(mr_core *core, const struct mr_splits_granted *u)
{
    struct mr_grant *grant = &u->task->grants[u->provider];

    take_splits(core, u);
    grant->rec->seq = u->seq;
    grant->rec->repetition = u->repetition;
    grant->rec->ahead = u->ahead;
    grant->rec->keep = u->is_kept;
    grant->rec->end = u->range.count == 0;
    grant->rec->granted += u->range.count;
    grant->is_behind = false;
    set_range(core, grant->rec, &u->range);
    if (core->failed == 0 && u->range.count > 0 && mr_iteration_repeats(u->task->iteration)) {
        open_grant(core, u->task, u->provider, &u->owed);
    }
    mr_touch(core, MR_STORED_GRANT, u->task, u->provider);
}

void mr_apply_cursor_jumped(mr_core *core, const struct mr_cursor_jumped *u)
{
    Millrace__CursorRecord *cursor = u->iteration->cursors[u->provider].rec;

    if (mr_given_back_is_left_behind(u->iteration, u->provider, u->repetition)) {
        mr_split_list_clear(mr_given_back(u->iteration, u->provider));
    }
    cursor->dropped += u->dropped;
    cursor->repetition = u->repetition;
    cursor->next = 0;
    mr_touch(core, MR_STORED_CURSOR, u->iteration, u->provider);
}

struct giving {
    mr_core *core;
    struct mr_iteration *it;
    size_t provider;
};

/* At least once: one of the pieces that a range consists of, with its history. */
static void give_back_piece(void *ctx, uint64_t first, uint64_t count, uint32_t losses)
{
    const struct giving *g = ctx;
    Millrace__CursorRecord *cursor = g->it->cursors[g->provider].rec;

    if (losses == 0) {
        mr_split_list_add(g->core, mr_given_back(g->it, g->provider), first, count, 0);
        return;
    }
    mr_split_list_add(g->core, mr_pool(g->it, g->provider), first, count, losses);
    /* It will be counted when it is handed out again. */
    cursor->repeated_splits -= MR_MIN(count, cursor->repeated_splits);
}

void mr_apply_splits_given_back(mr_core *core, const struct mr_splits_given_back *u)
{
    const Millrace__GetSplitsRequest *in = u->request;
    struct mr_iteration *it = u->task->iteration;
    struct giving g = {core, it, in->provider};

    for (size_t i = 0; i < in->n_given_back; i++) {
        const Millrace__GivenBackRange *range = in->given_back[i];
        uint64_t first = mr_position(it, in->provider, range->repetition, range->first);

        u->task->grants[in->provider].rec->granted -= range->count;
        if (mr_iteration_repeats(it)) {
            cut_grants(core, u->task, in->provider, first, range->count, give_back_piece, &g);
        } else if (!mr_given_back_is_left_behind(it, in->provider, range->repetition)) {
            mr_split_list_add(core, mr_given_back(it, in->provider), first, range->count, 0);
        }
    }
    if (mr_iteration_repeats(it) && core->failed == 0) {
        mr_split_list_squeeze(mr_pool(it, in->provider), MR_SPLIT_RANGES_MAX);
    }
    mr_touch(core, MR_STORED_CURSOR, it, in->provider);
    mr_iteration_mark(core, it); /* Is there somebody who will ask for them? */
}

void mr_apply_given_back_dropped(mr_core *core, const struct mr_given_back_dropped *u)
{
    struct mr_split_list list = mr_given_back(u->iteration, u->provider);

    u->iteration->cursors[u->provider].rec->dropped += mr_split_list_splits(list);
    mr_split_list_clear(list);
    mr_touch(core, MR_STORED_CURSOR, u->iteration, u->provider);
}

void mr_apply_splits_returned(mr_core *core, const struct mr_splits_returned *u)
{
    struct mr_iteration *it = u->task->iteration;

    mr_split_list_add(core, mr_pool(it, u->provider), u->first, u->count, u->losses);
    mr_touch(core, MR_STORED_CURSOR, it, u->provider);
}

void mr_apply_split_given_up(mr_core *core, const struct mr_split_given_up *u)
{
    u->iteration->rec->quarantined_splits++;
    mr_iteration_note_lost(u->iteration, 1,
                           u->iteration->rec->providers[u->provider]->split_elements);
    mr_touch(core, MR_STORED_ITERATION, u->iteration, 0);
    mr_touch(core, MR_STORED_CURSOR, u->iteration, u->provider);
}
