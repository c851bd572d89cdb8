/*
 * Handing out splits. Of each provider (source) of a DYNAMIC iteration one cursor is kept, {repetition, next}, and of
 * each task the last answer it got, so that it can be given again; both are written in the transaction that the answer
 * waits for.
 *
 *  seq = stored       the stored answer, again: it was lost on its way
 *  seq = stored + 1   the receipt for the stored one; decide, write, answer
 *  anything else      OUT_OF_RANGE: two parties believe that they are this task
 *
 * At most once: the cursor only moves on. What a lost worker held is not handed out again, it is counted.
 */
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <stdio.h>

void mr_cursor_key(const struct mr_iteration *it, size_t provider, char *out, size_t size)
{
    snprintf(out, size, "cursors/%s/%zu", it->rec->id, provider);
}

void mr_grant_key(const struct mr_task *task, size_t provider, char *out, size_t size)
{
    snprintf(out, size, "grants/%s/%zu/%s", task->iteration->rec->id, provider, task->worker->ref);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
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
 * Guided self-scheduling: what the worker needs for about two seconds, but never so much that the others run dry, and
 * little at first, since a split may be a whole file.
 */
static uint64_t grant_size(const struct mr_iteration *it, uint64_t left, uint64_t want)
{
    uint64_t sharers = 2 * (uint64_t)it->open_tasks;
    uint64_t fair = left / sharers + (left % sharers != 0 ? 1 : 0);
    uint64_t n = min_u64(want != 0 ? want : MR_GRANT_FIRST_MAX, min_u64(fair, MR_GRANT_SPLITS_MAX));

    return n > 0 ? n : 1;
}

/* Workers ask for MR_GRANT_MS of work; when the store must be spared they get more. */
static uint64_t stretched(const mr_core *core, uint64_t want)
{
    return min_u64(want, MR_GRANT_SPLITS_MAX) * (uint64_t)core->grant_ms / MR_GRANT_MS;
}

/* A worker went on early (the long side of a zip under repeat): what was left of the repetitions in between is dropped.
 */
static void jump_to(struct mr_iteration *it, size_t provider, uint64_t repetition)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    int64_t splits = it->rec->providers[provider]->splits;
    uint64_t dropped = splits < 0 ? 0 : splits_left(it, provider);
    uint64_t whole;

    if (splits > 0 && !__builtin_mul_overflow(repetition - cursor->repetition - 1, (uint64_t)splits, &whole)) {
        dropped += whole;
    }
    cursor->dropped += dropped;
    cursor->repetition = repetition;
    cursor->next = 0;
}

/* Decide the answer to @repetition: *range of splits, or the end (range of none). True if the cursor moved. */
static bool decide(struct mr_iteration *it, size_t provider, uint64_t repetition, uint64_t want,
                   struct mr_split_range *range)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    *range = (struct mr_split_range){0, 0};
    if (repetition < cursor->repetition) {
        return false;
    }
    if (repetition > cursor->repetition) {
        jump_to(it, provider, repetition);
    }
    uint64_t left = splits_left(it, provider);

    if (left == 0) {
        cursor->repetition++;
        cursor->next = 0;
        return true;
    }
    range->first = cursor->next;
    range->count = grant_size(it, left, want);
    MR_ASSERT(range->count <= left);
    cursor->next += range->count;
    return true;
}

static void set_range(mr_core *core, Millrace__GrantRecord *grant, const struct mr_split_range *range)
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
    if (task->grants[provider] == NULL) {
        task->grants[provider] = mr_core_new_record(core, &millrace__grant_record__descriptor);
    }
    return core->failed == 0;
}

static void hand_out(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    struct mr_iteration *it = task->iteration;
    struct mr_split_range range;
    char key[MR_KEY_SIZE];

    if (!give_records(core, task, in->provider)) {
        return;
    }
    Millrace__GrantRecord *grant = task->grants[in->provider];

    if (decide(it, in->provider, in->repetition, stretched(core, in->want), &range)) {
        mr_cursor_key(it, in->provider, key, sizeof key);
        mr_core_put(core, key, &it->cursors[in->provider].rec->base);
    }
    grant->seq = in->seq;
    grant->repetition = in->repetition;
    grant->end = range.count == 0;
    grant->granted += range.count;
    set_range(core, grant, &range);
    if (core->failed != 0) {
        return;
    }
    mr_grant_key(task, in->provider, key, sizeof key);
    mr_core_put(core, key, &grant->base);
    if (range.count == 0) {
        mr_core_trace(core, "task %s: end of provider %u, repetition %" PRIu64, task->id, in->provider, in->repetition);
    } else {
        mr_core_trace(core, "task %s: provider %u, repetition %" PRIu64 ", splits %" PRIu64 "..%" PRIu64, task->id,
                      in->provider, in->repetition, range.first, range.first + range.count - 1);
    }
}

static void answer(mr_core *core, const Millrace__GrantRecord *grant)
{
    struct mr_split_range range = {0, 0};
    Millrace__GrantRecord copy = MILLRACE__GRANT_RECORD__INIT;

    if (grant->n_ranges > 0) {
        range = (struct mr_split_range){grant->ranges[0]->first, grant->ranges[0]->count};
    }
    Millrace__GetSplitsReply *reply = mr_core_reply(core, &millrace__get_splits_reply__descriptor, true /* fenced */);

    if (reply == NULL) {
        return;
    }
    reply->end = grant->end;
    set_range(core, &copy, &range);
    reply->ranges = copy.ranges;
    reply->n_ranges = copy.n_ranges;
}

/* Everything that can refuse the request. */
static int judge(const mr_core *core, const Millrace__GetSplitsRequest *in, struct mr_task **ret, mr_error *err)
{
    struct mr_worker *worker = mr_worker_live(core, in->incarnation);
    struct mr_task *task = mr_task_find(core, in->task_id);

    if (worker == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "worker %.8s is not registered", in->incarnation);
    }
    if (task == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "task '%.100s' is gone", in->task_id);
    }
    if (task->worker != worker) {
        return mr_error_set(err, MR_EPRECOND, "task %s is not of worker %.8s", task->id, in->incarnation);
    }
    if (task->state != MR_TASK_OPEN) {
        return mr_error_set(err, MR_EPRECOND, "task %s is closed: %s", task->id, mr_task_state_name(task->state));
    }
    if (in->provider >= task->iteration->rec->n_providers) {
        return mr_error_set(err, MR_EINVAL, "iteration %s has %zu sources to split; %u was asked for",
                            task->iteration->rec->id, task->iteration->rec->n_providers, in->provider);
    }
    if (in->repetition > INT64_MAX) { /* nobody repeats that often, and counting on would start over at 0 */
        return mr_error_set(err, MR_EINVAL, "repetition %" PRIu64 " of a source", in->repetition);
    }
    const Millrace__GrantRecord *grant = task->grants[in->provider];
    uint64_t stored = grant != NULL ? grant->seq : 0;
    bool again = grant != NULL && in->seq == stored;

    if (!again && in->seq != stored + 1) {
        return mr_error_set(err, MR_ERANGE,
                            "task %s asks for grant %" PRIu64 " of provider %u; the last one was %" PRIu64, task->id,
                            in->seq, in->provider, stored);
    }
    *ret = task;
    return MR_OK;
}

void mr_core_do_get_splits(mr_core *core, const Millrace__GetSplitsRequest *in)
{
    struct mr_task *task = NULL;
    mr_error err;
    int rc = judge(core, in, &task, &err);

    if (rc < 0) {
        mr_core_refuse(core, &millrace__get_splits_reply__descriptor, &err);
        return;
    }
    mr_worker_seen(core, task->worker);
    if (task->grants[in->provider] == NULL || task->grants[in->provider]->seq != in->seq) {
        hand_out(core, task, in);
    }
    if (core->failed == 0) {
        answer(core, task->grants[in->provider]);
    }
}
