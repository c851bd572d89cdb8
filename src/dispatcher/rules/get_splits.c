/*
 * Handing out splits. Of each provider (source) of a DYNAMIC iteration one cursor is kept,
 * {repetition, next}, and of each task the last answer it got, so that it can be given again; both
 * are written in the transaction that the answer waits for.
 *
 *  seq = stored       the stored answer, again: it was lost on its way
 *  seq = stored + 1   the receipt for the stored one; decide, write, answer
 *  seq < stored       OUT_OF_RANGE: an old copy
 *  seq > stored + 1   the task is closed: its worker has answers that the records do not know (nor
 *                     is there one without a record, so somebody's hand was in the store), and what
 *                     else it has from there nobody can say
 *
 * What the request reports finished is taken in before its number is looked at: a repeated request
 * may report more than the first one did.
 *
 * What workers that drain gave back unopened (drain.c) goes to whoever asks before the cursor moves
 * on, whatever repetition is asked for: the same element is made of it.
 *
 * At most once: what a lost worker held is not handed out again, it is counted.
 *
 * At least once: what lost workers had not finished is in the pool of the cursor and goes first, to
 * whoever asks, whatever repetition is asked for: the same element is made of it. The end is told
 * as soon as the pool is empty, even if others may still be lost (buffers wait for it); what comes
 * back later is recovery.c's.
 */
#include "dispatcher/rules/rules.h"

#include <inttypes.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Splits that came back and may go to anybody. */
static uint64_t splits_back(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    uint64_t n = mr_given_back_splits(it, provider);

    for (size_t i = 0; i < cursor->n_pool; i++) {
        n += mr_owed_is_suspect(cursor->pool[i]) ? 0 : cursor->pool[i]->count;
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

/*
 * Guided self-scheduling: what the worker needs for about two seconds, but never so much that the
 * others run dry, and little at first, since a split may be a whole file. One that has much open,
 * behind a large buffer, gets a little more each time, so that the number of its open grants grows
 * with the logarithm of what they hold. What lasts a worker for a few milliseconds is not cut
 * further at the end: asking for it would take longer.
 */
static uint64_t grant_size(const struct mr_iteration *it, uint64_t left, uint64_t want,
                           uint64_t open)
{
    uint64_t asking = it->open_tasks - it->draining_tasks;
    uint64_t sharers = 2 * max_u64(asking, 1);
    uint64_t fair = left / sharers + (left % sharers != 0 ? 1 : 0);
    uint64_t n = max_u64(want != 0 ? want : MR_GRANT_FIRST_MAX, open / MR_GRANTS_OPEN_MAX);

    fair = max_u64(fair, want / MR_GRANT_PARTS_MAX);
    n = min_u64(n, min_u64(fair, MR_GRANT_SPLITS_MAX));
    return n > 0 ? n : 1;
}

/* Workers ask for MR_GRANT_MS of work; when the store must be spared they get more. */
static uint64_t stretched(const mr_core *core, uint64_t want)
{
    return min_u64(want, MR_GRANT_SPLITS_MAX) * (uint64_t)core->grant_ms / MR_GRANT_MS;
}

/* A worker went on early (the long side of a zip under repeat): what was left of the repetitions in
 * between is dropped. */
static void jump_to(mr_core *core, struct mr_iteration *it, size_t provider, uint64_t repetition)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    int64_t splits = it->rec->providers[provider]->splits;
    uint64_t dropped = splits < 0 ? 0 : splits_left(it, provider);
    uint64_t whole;

    if (splits > 0 &&
        !__builtin_mul_overflow(repetition - cursor->repetition - 1, (uint64_t)splits, &whole)) {
        dropped += whole;
    }
    mr_given_back_leave_behind(it, provider);
    cursor->dropped += dropped;
    cursor->repetition = repetition;
    cursor->next = 0;
    mr_touch(core, MR_STORED_CURSOR, it, provider);
}

/* What a request is to be given: splits, or the end (none). */
struct decision {
    struct mr_split_range range;
    int64_t ahead;              /* of the repetition that was asked for */
    bool keep;                  /* what the request gives back was not taken */
    struct mr_owed_splits owed; /* the same, by position */
};

/* From the cursor, whose repetition this is. */
static void decide_next(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in,
                        uint64_t most, struct decision *ret)
{
    struct mr_iteration *it = task->iteration;
    struct mr_cursor *cursor = &it->cursors[in->provider];

    mr_touch(core, MR_STORED_CURSOR, it, in->provider);
    if (splits_left(it, in->provider) == 0) {
        cursor->rec->repetition++;
        cursor->rec->next = 0;
        return;
    }
    ret->range.first = cursor->rec->next;
    ret->range.count = min_u64(splits_left(it, in->provider), most);
    ret->owed.first = mr_position(it, in->provider, cursor->rec->repetition, ret->range.first);
    ret->owed.count = ret->range.count;
    cursor->rec->next += ret->range.count;
}

/* Range @i of @list, which came back, or its first part. */
static void decide_back(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in,
                        struct mr_owed list, size_t i, uint64_t most, struct decision *ret)
{
    struct mr_iteration *it = task->iteration;
    struct mr_cursor *cursor = &it->cursors[in->provider];
    const Millrace__OwedRange *range = (*list.ranges)[i];
    int64_t splits = it->rec->providers[in->provider]->splits;
    uint64_t index = splits > 0 ? range->first % (uint64_t)splits : range->first;
    uint64_t repetition = splits > 0 ? range->first / (uint64_t)splits : cursor->rec->repetition;
    uint64_t n = min_u64(range->count, most);

    if (splits > 0) {
        n = min_u64(n,
                    (uint64_t)splits - index); /* the next repetition's splits are another range */
    }
    ret->range = (struct mr_split_range){index, n};
    ret->ahead = (int64_t)(repetition - in->repetition); /* none of both is above INT64_MAX */
    ret->owed = (struct mr_owed_splits){range->first, n, range->losses};
    mr_touch(core, MR_STORED_CURSOR, it, in->provider);
    mr_owed_take(list, i, n);
}

/* Range @i of the pool: it may have been read before. */
static void decide_returned(mr_core *core, struct mr_task *task,
                            const Millrace__GetSplitsRequest *in, size_t i, uint64_t most,
                            struct decision *ret)
{
    struct mr_iteration *it = task->iteration;

    decide_back(core, task, in, mr_pool(it, in->provider), i, most, ret);
    it->cursors[in->provider].rec->repeated_splits += ret->range.count;
}

/* The first range of the pool that is (or is not) under suspicion; the pool's size if there is
 * none. */
static size_t find_returned(const Millrace__CursorRecord *cursor, bool suspect)
{
    size_t i = 0;

    while (i < cursor->n_pool && mr_owed_is_suspect(cursor->pool[i]) != suspect) {
        i++;
    }
    return i;
}

/* A task for suspects: some of one kind, and nothing else before it was told the end. True if it is
 * settled. */
static bool decide_isolated(mr_core *core, struct mr_task *task,
                            const Millrace__GetSplitsRequest *in, struct decision *ret)
{
    const Millrace__CursorRecord *cursor = task->iteration->cursors[in->provider].rec;
    const Millrace__GrantRecord *grant = task->grants[in->provider].rec;

    if (grant->seq > 0) {
        return grant->seq == 1 && !grant->end && grant->repetition == in->repetition;
    }
    size_t i = find_returned(cursor, true /* suspect */);

    if (i < cursor->n_pool) {
        decide_returned(core, task, in, i, mr_owed_grant_max(cursor->pool[i]), ret);
        return true;
    }
    mr_task_join_in(
        core,
        task); /* Somebody's loss was counted as no crash: it is a recovery task like others. */
    return false;
}

static void decide(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in,
                   struct decision *ret)
{
    struct mr_iteration *it = task->iteration;
    const Millrace__CursorRecord *cursor = it->cursors[in->provider].rec;
    uint64_t want = stretched(core, in->want);
    uint64_t left, back, most;
    size_t i;

    if (mr_task_is_recovery(task) && task->rec->isolated && decide_isolated(core, task, in, ret)) {
        return;
    }
    if (in->repetition > cursor->repetition) {
        jump_to(core, it, in->provider, in->repetition);
    }
    left = in->repetition == cursor->repetition ? splits_left(it, in->provider) : 0;
    back = splits_back(it, in->provider);
    left = left > UINT64_MAX - back ? UINT64_MAX : left + back;
    most = grant_size(it, left, want, mr_grants_splits(task, in->provider));
    i = find_returned(cursor, false /* suspect */);
    if (i < cursor->n_pool) {
        decide_returned(core, task, in, i,
                        cursor->pool[i]->losses > 0 ? min_u64(most, MR_GRANT_RETRY_MAX) : most,
                        ret);
    } else if (cursor->n_given_back > 0) {
        decide_back(core, task, in, mr_given_back(it, in->provider), 0, most, ret);
    } else if (in->repetition == cursor->repetition) {
        decide_next(core, task, in, most, ret);
    }
}

static void set_range(mr_core *core, Millrace__GrantRecord *grant,
                      const struct mr_split_range *range)
{
    if (range->count == 0) {
        if (grant->n_ranges > 0) {
            mr_record_free(grant->ranges[0]);
            mr_free(grant->ranges);
            grant->ranges = NULL;
            grant->n_ranges = 0;
        }
        return;
    }
    if (grant->n_ranges == 0) {
        grant->ranges = mr_calloc(1, sizeof *grant->ranges);
        if (grant->ranges == NULL) {
            mr_core_nomem(core);
            return;
        }
        grant->ranges[0] = mr_core_new_record(core, &millrace__split_range__descriptor);
        if (grant->ranges[0] == NULL) {
            return;
        }
        grant->n_ranges = 1;
    }
    grant->ranges[0]->first = range->first;
    grant->ranges[0]->count = range->count;
}

static bool give_records(mr_core *core, struct mr_task *task, size_t provider)
{
    struct mr_cursor *cursor = &task->iteration->cursors[provider];

    if (cursor->rec == NULL) {
        cursor->rec = mr_core_new_record(core, &millrace__cursor_record__descriptor);
    }
    if (task->grants[provider].rec == NULL) {
        task->grants[provider].rec = mr_core_new_record(core, &millrace__grant_record__descriptor);
    }
    return core->failed == 0;
}

static void trace_answer(mr_core *core, const struct mr_task *task,
                         const Millrace__GetSplitsRequest *in, const struct decision *d)
{
    if (d->range.count == 0) {
        mr_core_trace(core, "task %s: end of provider %u, repetition %" PRIu64, task->id,
                      in->provider, in->repetition);
        return;
    }
    mr_core_trace(core,
                  "task %s: provider %u, repetition %" PRIu64 ", splits %" PRIu64 "..%" PRIu64 "%s",
                  task->id, in->provider, in->repetition, d->range.first,
                  d->range.first + d->range.count - 1, d->owed.losses > 0 ? " again" : "");
}

static void hand_out(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    struct mr_iteration *it = task->iteration;
    struct decision d = {0};

    if (!give_records(core, task, in->provider)) {
        return;
    }
    Millrace__GrantRecord *grant = task->grants[in->provider].rec;

    if (in->n_given_back > 0) {
        d.keep = !mr_give_back(core, task, in);
    } else {
        decide(core, task, in, &d);
    }
    grant->seq = in->seq;
    grant->repetition = in->repetition;
    grant->ahead = d.ahead;
    grant->keep = d.keep;
    grant->end = d.range.count == 0;
    grant->granted += d.range.count;
    core->out->tally.assigned += d.range.count;
    set_range(core, grant, &d.range);
    if (core->failed == 0 && !grant->end && mr_iteration_repeats(it)) {
        mr_grants_open(core, task, in->provider, &d.owed);
    }
    if (core->failed != 0) {
        return;
    }
    task->grants[in->provider].unwritten = false;
    mr_touch(core, MR_STORED_GRANT, task, in->provider);
    trace_answer(core, task, in, &d);
    if (grant->end && mr_iteration_repeats(it) && it->cursors[in->provider].rec->n_pool > 0) {
        mr_iteration_unsettle(core, it); /* suspects' turn */
    }
}

static void answer(mr_core *core, const Millrace__GrantRecord *grant)
{
    struct mr_split_range range = {0, 0};
    Millrace__GrantRecord copy = MILLRACE__GRANT_RECORD__INIT;

    if (grant->n_ranges > 0) {
        range = (struct mr_split_range){grant->ranges[0]->first, grant->ranges[0]->count};
    }
    Millrace__GetSplitsReply *reply =
        mr_core_reply(core, &millrace__get_splits_reply__descriptor, true /* fenced */);

    if (reply == NULL) {
        return;
    }
    reply->end = grant->end;
    reply->ahead = grant->ahead;
    reply->keep = grant->keep;
    set_range(core, &copy, &range);
    reply->ranges = copy.ranges;
    reply->n_ranges = copy.n_ranges;
}

/* Everything that can refuse the request, but its number. */
static int judge(const mr_core *core, const Millrace__GetSplitsRequest *in, struct mr_task **ret,
                 mr_error *err)
{
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);
    struct mr_task *task = mr_task_find(core, in->task_id);

    if (worker == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "worker %.8s is not registered", in->incarnation);
    }
    if (task == NULL) {
        int rc = mr_task_refuse_held(core, in->task_id, err);

        return rc < 0 ? rc : mr_error_set(err, MR_ENOTFOUND, "task '%.100s' is gone", in->task_id);
    }
    if (task->worker != worker) {
        return mr_error_set(err, MR_EPRECOND, "task %s is not of worker %.8s", task->id,
                            in->incarnation);
    }
    if (task->state != MR_TASK_OPEN) {
        return mr_error_set(err, MR_EPRECOND, "task %s is closed: %s", task->id,
                            mr_task_state_name(task->state));
    }
    if (in->provider >= task->iteration->rec->n_providers) {
        return mr_error_set(
            err, MR_EINVAL, "iteration %s has %zu sources to split; %u was asked for",
            task->iteration->rec->id, task->iteration->rec->n_providers, in->provider);
    }
    /* Nobody repeats that often, and counting on would start over at 0. */
    if (!mr_position_fits(task->iteration, in->provider, in->repetition)) {
        return mr_error_set(err, MR_EINVAL, "repetition %" PRIu64 " of a source", in->repetition);
    }
    if (in->report != NULL && in->report->provider != in->provider) {
        return mr_error_set(err, MR_EINVAL, "a report on provider %u with a request to provider %u",
                            in->report->provider, in->provider);
    }
    *ret = task;
    return MR_OK;
}

static int check_number(const struct mr_task *task, const Millrace__GetSplitsRequest *in,
                        mr_error *err)
{
    const Millrace__GrantRecord *grant = task->grants[in->provider].rec;
    uint64_t stored = grant != NULL ? grant->seq : 0;
    bool again = grant != NULL && in->seq == stored;

    if (!again && in->seq != stored + 1) {
        return mr_error_set(err, MR_ERANGE,
                            "task %s asks for grant %" PRIu64
                            " of provider %u; the last one was %" PRIu64,
                            task->id, in->seq, in->provider, stored);
    }
    return MR_OK;
}

/* It takes answers for given that were not. */
static bool is_ahead(const struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    const Millrace__GrantRecord *grant = task->grants[in->provider].rec;

    return in->seq > (grant != NULL ? grant->seq : 0);
}

/* It is not the last request again. */
static bool is_new(const struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    const Millrace__GrantRecord *grant = task->grants[in->provider].rec;

    return grant == NULL || grant->seq != in->seq;
}

/* Losses that wait to be counted come first: what they put back is handed out before an end is
 * told. */
static void absorb_losses(mr_core *core, const Millrace__GetSplitsRequest *in)
{
    struct mr_task *task = mr_task_find(core, in->task_id);

    if (task != NULL && task->iteration->is_unsettled && mr_iteration_repeats(task->iteration)) {
        struct mr_iteration *it = task->iteration;

        mr_iteration_absorb(core, it);
    }
}

void mr_core_do_get_splits(mr_core *core, const Millrace__GetSplitsRequest *in)
{
    struct mr_task *task = NULL;
    bool contradicts = false;
    mr_error err;
    int rc;

    absorb_losses(core, in);
    rc = judge(core, in, &task, &err);
    if (rc == MR_OK && in->report != NULL) {
        rc = mr_grants_report(core, task, in->report, &err);
        contradicts = rc == MR_ERANGE;
    }
    if (rc == MR_OK) {
        rc = check_number(task, in, &err);
        contradicts = rc == MR_ERANGE && is_ahead(task, in);
    }
    if (contradicts) {
        mr_core_worker_seen(core, task->worker);
        if (mr_task_disown(core, task, &err)) {
            err.code = MR_EPRECOND; /* nothing is wrong with the pipeline */
        } else {
            mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                "the task is to be closed: try again");
        }
    }
    if (rc == MR_OK && in->n_given_back > 0 && is_new(task, in)) {
        rc = mr_give_back_check(task, in, &err);
    }
    if (rc < 0) {
        mr_core_refuse(core, &millrace__get_splits_reply__descriptor, &err);
        return;
    }
    mr_core_worker_seen(core, task->worker);
    if (is_new(task, in)) {
        hand_out(core, task, in);
    }
    mr_grants_write(core, task);
    if (core->failed == 0) {
        answer(core, task->grants[in->provider].rec);
    }
}
