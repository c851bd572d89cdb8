/*
 * GetSplits. Of each provider (source) of a DYNAMIC iteration one cursor is kept, {repetition,
 * next}, and of each task the last answer it got, so that it can be given again; both are written
 * in the transaction that the answer waits for.
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
 */
#include "dispatcher/rules/rules.h"

/* What workers report finished of what they were granted (at least once). */
int mr_grants_report(mr_core *core, struct mr_task *task, const Millrace__GrantReport *report,
                     mr_error *err)
{
    int rc = mr_grants_check_report(task, report, err);

    if (rc == MR_OK && task->grants[report->provider].rec != NULL &&
        mr_iteration_repeats(task->iteration)) {
        MR_APPLY(core, grants_reported, task, report);
    }
    return rc;
}

void mr_grants_write(mr_core *core, struct mr_task *task)
{
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        if (task->grants[i].is_behind && !core->full &&
            mr_splits_are_handed_out(task->iteration, i) && mr_core_has_room(core, 1)) {
            MR_APPLY(core, grants_stored, task, i);
        }
    }
}

static void answer(mr_core *core, const Millrace__GrantRecord *grant)
{
    Millrace__GetSplitsReply *reply = mr_core_reply(core, true /* fenced */);
    Millrace__SplitRange *range;

    if (reply == NULL) {
        return;
    }
    reply->end = grant->end;
    reply->ahead = grant->ahead;
    reply->keep = grant->keep;
    if (grant->n_ranges > 0) {
        range = MR_ADD_RECORD(core, reply, ranges, split_range);
        if (range != NULL) {
            range->first = grant->ranges[0]->first;
            range->count = grant->ranges[0]->count;
        }
    }
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
static void account_losses(mr_core *core, const Millrace__GetSplitsRequest *in)
{
    struct mr_task *task = mr_task_find(core, in->task_id);

    if (task != NULL && task->iteration->is_marked && mr_iteration_repeats(task->iteration)) {
        mr_iteration_account_losses(core, task->iteration);
    }
}

int mr_core_do_get_splits(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__GetSplitsRequest *in = command->get_splits;
    struct mr_task *task = NULL;
    bool contradicts = false;
    int rc;

    account_losses(core, in);
    rc = judge(core, in, &task, err);
    if (rc == MR_OK && in->report != NULL) {
        rc = mr_grants_report(core, task, in->report, err);
        contradicts = rc == MR_ERANGE;
    }
    if (rc == MR_OK) {
        rc = check_number(task, in, err);
        contradicts = rc == MR_ERANGE && is_ahead(task, in);
    }
    if (contradicts) {
        MR_APPLY(core, worker_seen, task->worker);
        if (mr_task_disown(core, task, err)) {
            err->code = MR_EPRECOND; /* nothing is wrong with the pipeline */
        } else {
            mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                "the task is to be closed: try again");
        }
    }
    if (rc == MR_OK && in->n_given_back > 0 && is_new(task, in)) {
        rc = mr_give_back_check(task, in, err);
    }
    MR_TRY(rc);
    MR_APPLY(core, worker_seen, task->worker);
    if (is_new(task, in)) {
        mr_splits_hand_out(core, task, in);
    }
    mr_grants_write(core, task);
    if (core->failed == 0) {
        answer(core, task->grants[in->provider].rec);
    }
    return MR_OK;
}
