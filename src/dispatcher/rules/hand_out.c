/*
 * What a task is given of a source when it asks.
 *
 * What workers that drain gave back unopened goes to whoever asks before the cursor moves on,
 * whatever repetition is asked for: the same element is made of it. At most once: what a lost
 * worker held is not handed out again, it is counted. At least once: what lost workers had not
 * finished is in the pool of the cursor and goes first. The end is told as soon as the pool is
 * empty, even if others may still be lost (buffers wait for it); what comes back later is
 * recovery.c's.
 */
#include "dispatcher/rules/rules.h"

/* Was it handed out, of this source, to anybody? */
static bool was_handed_out(const struct mr_iteration *it, size_t provider,
                           const Millrace__GivenBackRange *range)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    int64_t splits = it->rec->providers[provider]->splits;
    uint64_t end = range->repetition == cursor->repetition ? cursor->next
                   : splits < 0                            ? UINT64_MAX
                                                           : (uint64_t)splits;

    return range->repetition <= cursor->repetition && range->count > 0 && range->first < end &&
           range->count <= end - range->first;
}

static int check_range(const struct mr_task *task, const Millrace__GetSplitsRequest *in,
                       const Millrace__GivenBackRange *range, mr_error *err)
{
    const struct mr_iteration *it = task->iteration;
    uint64_t first;

    if (!was_handed_out(it, in->provider, range)) {
        return mr_error_set(err, MR_EINVAL,
                            "task %s gives back %" PRIu64 " splits from %" PRIu64
                            " on of repetition %" PRIu64 ", which were not handed out",
                            task->id, range->count, range->first, range->repetition);
    }
    if (mr_given_back_is_left_behind(it, in->provider, range->repetition)) {
        return MR_OK;
    }
    first = mr_position(it, in->provider, range->repetition, range->first);
    if (!mr_guarantee_of(it)->holds(task, in->provider, first, range->count)) {
        return mr_error_set(err, MR_EINVAL,
                            "task %s gives back %" PRIu64 " splits from %" PRIu64
                            " on, which it does not have",
                            task->id, range->count, range->first);
    }
    return MR_OK;
}

static bool is_before(const Millrace__GivenBackRange *a, const Millrace__GivenBackRange *b)
{
    return a->repetition < b->repetition ||
           (a->repetition == b->repetition && a->first + a->count <= b->first);
}

int mr_give_back_check(const struct mr_task *task, const Millrace__GetSplitsRequest *in,
                       mr_error *err)
{
    const struct mr_iteration *it = task->iteration;
    const Millrace__GrantRecord *grant = task->grants[in->provider].rec;
    uint64_t sum = 0;

    if (grant == NULL ||
        !mr_position_fits(it, in->provider, it->cursors[in->provider].rec->repetition)) {
        return mr_error_set(err, MR_EINVAL,
                            "task %s gives splits of provider %u back that it cannot have",
                            task->id, in->provider);
    }
    for (size_t i = 0; i < in->n_given_back; i++) {

        MR_TRY(check_range(task, in, in->given_back[i], err));
        if (i > 0 && !is_before(in->given_back[i - 1], in->given_back[i])) {
            return mr_error_set(err, MR_EINVAL, "task %s gives splits back out of order", task->id);
        }
        if (in->given_back[i]->count > grant->granted - sum) {
            return mr_error_set(err, MR_EINVAL,
                                "task %s gives back more splits than the %" PRIu64
                                " that it was given",
                                task->id, grant->granted);
        }
        sum += in->given_back[i]->count;
    }
    return MR_OK;
}

/* Not of a production: it has no recovery tasks, and that somebody will ask is no more than likely.
 * And not more than can be kept apart: neighbours cannot be joined across what lies between, which
 * was read. */
static bool is_taken_back(const struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    const struct mr_iteration *it = task->iteration;

    return it->rules->recovers &&
           in->n_given_back + it->cursors[in->provider].rec->n_given_back <= MR_SPLIT_RANGES_MAX;
}

/* @task gives back what it says; false: they are not taken, it has to read them. That is an answer
 * like any other, stored under its number: a copy of the request could have another one later. */
static bool give_back(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    uint64_t sum = 0;

    mr_core_worker_note_draining(core, task->worker);
    if (!is_taken_back(task, in)) {
        mr_core_trace(core, "task %s: keeps what it was to give back of provider %u", task->id,
                      in->provider);
        return false;
    }
    for (size_t i = 0; i < in->n_given_back; i++) {
        sum += in->given_back[i]->count;
    }
    MR_APPLY(core, splits_given_back, task, in);
    core->out->tally.given_back += sum;
    mr_core_trace(core, "task %s: gives %" PRIu64 " splits of provider %u back", task->id, sum,
                  in->provider);
    return true;
}

/* Splits that came back and may go to anybody. */
static uint64_t splits_back(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    uint64_t n = mr_given_back_splits(it, provider);

    for (size_t i = 0; i < cursor->n_pool; i++) {
        n += mr_range_is_suspect(cursor->pool[i]) ? 0 : cursor->pool[i]->count;
    }
    return n;
}

/* Splits of the current repetition that nobody was given. */
static uint64_t splits_left(const struct mr_iteration *it, size_t provider)
{
    int64_t splits = it->rec->providers[provider]->splits;
    uint64_t next = it->cursors[provider].rec->next;

    if (splits < 0) {
        return UINT64_MAX - next;
    }
    return (uint64_t)splits > next ? (uint64_t)splits - next : 0;
}

/* Guided self-scheduling: what the worker needs for about two seconds, but never so much that the
 * others run dry, and little at first, since a split may be a whole file. One that has much open,
 * behind a large buffer, gets a little more each time, so that the number of its open grants grows
 * with the logarithm of what they hold. What lasts a worker for a few milliseconds is not cut
 * further at the end: asking for it would take longer. */
static uint64_t grant_size(const struct mr_iteration *it, uint64_t left, uint64_t want,
                           uint64_t open)
{
    uint64_t asking = it->open_tasks - it->draining_tasks;
    uint64_t sharers = 2 * MR_MAX(asking, 1);
    uint64_t fair = left / sharers + (left % sharers != 0 ? 1 : 0);
    uint64_t n = MR_MAX(want != 0 ? want : MR_GRANT_FIRST_MAX, open / MR_GRANTS_OPEN_MAX);

    fair = MR_MAX(fair, want / MR_GRANT_PARTS_MAX);
    n = MR_MIN(n, MR_MIN(fair, MR_GRANT_SPLITS_MAX));
    return n > 0 ? n : 1;
}

/* Workers ask for MR_GRANT_MS of work; when the store must be spared they get more. */
static uint64_t stretched(const mr_core *core, uint64_t want)
{
    return MR_MIN(want, MR_GRANT_SPLITS_MAX) * (uint64_t)core->grant_ms / MR_GRANT_MS;
}

/* A worker went on early (the long side of a zip under repeat): what was left of the repetitions in
 * between is dropped. */
static void jump_to(mr_core *core, struct mr_iteration *it, size_t provider, uint64_t repetition)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    int64_t splits = it->rec->providers[provider]->splits;
    uint64_t dropped = splits < 0 ? 0 : splits_left(it, provider);
    uint64_t whole;

    if (splits > 0 &&
        !__builtin_mul_overflow(repetition - cursor->repetition - 1, (uint64_t)splits, &whole)) {
        dropped += whole;
    }
    MR_APPLY(core, cursor_jumped, it, provider, repetition, dropped);
}

/* From the cursor, whose repetition this is. */
static void choose_next(uint64_t most, struct mr_splits_granted *ret)
{
    const struct mr_iteration *it = ret->task->iteration;
    const Millrace__CursorRecord *cursor = it->cursors[ret->provider].rec;

    ret->from = MR_FROM_CURSOR;
    ret->range.first = cursor->next;
    ret->range.count = MR_MIN(splits_left(it, ret->provider), most);
    ret->owed.first = mr_position(it, ret->provider, cursor->repetition, ret->range.first);
    ret->owed.count = ret->range.count;
}

/* Range @at of a list of splits that came back, or its first part. */
static void choose_back(enum mr_splits_from from, size_t at, uint64_t most,
                        struct mr_splits_granted *ret)
{
    const struct mr_iteration *it = ret->task->iteration;
    const Millrace__CursorRecord *cursor = it->cursors[ret->provider].rec;
    const Millrace__OwedRange *range =
        from == MR_FROM_POOL ? cursor->pool[at] : cursor->given_back[at];
    int64_t splits = it->rec->providers[ret->provider]->splits;
    uint64_t index = splits > 0 ? range->first % (uint64_t)splits : range->first;
    uint64_t repetition = splits > 0 ? range->first / (uint64_t)splits : cursor->repetition;
    uint64_t n = MR_MIN(range->count, most);

    if (splits > 0) { /* the next repetition's splits are another range */
        n = MR_MIN(n, (uint64_t)splits - index);
    }
    ret->from = from;
    ret->at = at;
    ret->range = (struct mr_split_range){index, n};
    ret->ahead = (int64_t)(repetition - ret->repetition); /* none of both is above INT64_MAX */
    ret->owed = (struct mr_split_run){range->first, n, range->losses};
}

/* The first range of the pool that is (or is not) under suspicion; the pool's size if there is
 * none. */
static size_t find_returned(const Millrace__CursorRecord *cursor, bool suspect)
{
    size_t i = 0;

    while (i < cursor->n_pool && mr_range_is_suspect(cursor->pool[i]) != suspect) {
        i++;
    }
    return i;
}

/* A task for suspects: some of one kind, and nothing else before it was told the end. True if that
 * is what it is given. */
static bool choose_isolated(mr_core *core, struct mr_splits_granted *ret)
{
    const Millrace__CursorRecord *cursor = ret->task->iteration->cursors[ret->provider].rec;
    const Millrace__GrantRecord *grant = ret->task->grants[ret->provider].rec;

    if (grant->seq > 0) {
        return grant->seq == 1 && !grant->end && grant->repetition == ret->repetition;
    }
    size_t i = find_returned(cursor, true /* suspect */);

    if (i < cursor->n_pool) {
        choose_back(MR_FROM_POOL, i, mr_range_grant_max(cursor->pool[i]), ret);
        return true;
    }
    /* Somebody's loss was counted as no crash: it is a recovery task like others. */
    MR_APPLY(core, task_joined_in, ret->task);
    return false;
}

static void choose(mr_core *core, uint64_t want, struct mr_splits_granted *ret)
{
    const struct mr_task *task = ret->task;
    struct mr_iteration *it = task->iteration;
    const Millrace__CursorRecord *cursor = it->cursors[ret->provider].rec;
    uint64_t left, back, most;
    size_t i;

    if (mr_task_is_recovery(task) && task->rec->isolated && choose_isolated(core, ret)) {
        return;
    }
    if (ret->repetition > cursor->repetition) {
        jump_to(core, it, ret->provider, ret->repetition);
    }
    left = ret->repetition == cursor->repetition ? splits_left(it, ret->provider) : 0;
    back = splits_back(it, ret->provider);
    left = left > UINT64_MAX - back ? UINT64_MAX : left + back;
    most = grant_size(it, left, stretched(core, want), mr_grants_splits(task, ret->provider));
    i = find_returned(cursor, false /* suspect */);
    if (i < cursor->n_pool) {
        choose_back(MR_FROM_POOL, i,
                    cursor->pool[i]->losses > 0 ? MR_MIN(most, MR_GRANT_RETRY_MAX) : most, ret);
    } else if (cursor->n_given_back > 0) {
        choose_back(MR_FROM_GIVEN_BACK, 0, most, ret);
    } else if (ret->repetition == cursor->repetition) {
        choose_next(most, ret);
    }
}

static void trace_answer(mr_core *core, const struct mr_splits_granted *g)
{
    if (g->range.count == 0) {
        mr_core_trace(core, "task %s: end of provider %zu, repetition %" PRIu64, g->task->id,
                      g->provider, g->repetition);
        return;
    }
    mr_core_trace(
        core, "task %s: provider %zu, repetition %" PRIu64 ", splits %" PRIu64 "..%" PRIu64 "%s",
        g->task->id, g->provider, g->repetition, g->range.first,
        g->range.first + g->range.count - 1, g->owed.losses > 0 ? " again" : "");
}

void mr_splits_hand_out(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    struct mr_splits_granted grant = {
        .task = task, .provider = in->provider, .seq = in->seq, .repetition = in->repetition};
    struct mr_iteration *it = task->iteration;

    MR_APPLY(core, splits_asked, task, in->provider);
    if (core->failed != 0) {
        return;
    }
    if (in->n_given_back > 0) {
        grant.is_kept = !give_back(core, task, in);
    } else {
        choose(core, in->want, &grant);
    }
    mr_apply(core, &(struct mr_update){MR_UPDATE_splits_granted, .splits_granted = grant});
    core->out->tally.assigned += grant.range.count;
    trace_answer(core, &grant);
    if (core->failed == 0 && grant.range.count == 0 && mr_iteration_repeats(it) &&
        it->cursors[in->provider].rec->n_pool > 0) {
        mr_iteration_mark(core, it); /* suspects' turn */
    }
}
