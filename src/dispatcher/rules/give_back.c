/* What a task of a worker that drains gives back: may it, and what follows. */
#include "base/scope.h"
#include "dispatcher/rules/rules.h"

#include <inttypes.h>

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

/*
 * Not of a production: it has no recovery tasks, and that somebody will ask is no more than likely.
 * And not more than can be kept apart: neighbours cannot be joined across what lies between, which
 * was read.
 */
static bool is_taken_back(const struct mr_task *task, const Millrace__GetSplitsRequest *in)
{
    const struct mr_iteration *it = task->iteration;

    return it->rules->recovers &&
           in->n_given_back + it->cursors[in->provider].rec->n_given_back <= MR_SPLIT_RANGES_MAX;
}

bool mr_give_back(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in)
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
