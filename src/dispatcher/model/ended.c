/*
 * Which repetitions of a job have ended: all below `ended_below`, and some ranges beyond it. What
 * is in there is never run again, whatever became of the records of the iterations.
 *
 * Readers that go through the repetitions in order make one number of it. Gaps are left by
 * repetitions that nobody opened (a job that was resumed) and by OFF iterations that were forgotten
 * unread; a job that leaves many has the oldest of them closed, so that its record does not grow
 * for ever.
 */
#include "dispatcher/model/apply.h"

static uint64_t end_of(const Millrace__SplitRange *range)
{
    return range->first + range->count;
}

static void remove_range(Millrace__JobRecord *rec, size_t at)
{
    MR_REMOVE_RECORD(rec, ended, at);
}

static void insert_range(mr_core *core, Millrace__JobRecord *rec, size_t at, uint64_t repetition)
{
    Millrace__SplitRange *range = MR_ADD_RECORD(core, rec, ended, split_range);

    if (range == NULL) {
        return;
    }
    memmove(rec->ended + at + 1, rec->ended + at, (rec->n_ended - 1 - at) * sizeof range);
    range->first = repetition;
    range->count = 1;
    rec->ended[at] = range;
}

/* Something between the ranges @at - 1 and @at is still open. */
static bool has_open(const struct mr_job *job, size_t at)
{
    uint64_t first = at > 0 ? end_of(job->rec->ended[at - 1]) : job->rec->ended_below;
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        if (!it->rec->finished && it->rec->repetition >= first &&
            it->rec->repetition < job->rec->ended[at]->first) {
            return true;
        }
    }
    return false;
}

/* What lies in the oldest gap that nobody reads counts as ended. */
static void close_gap(struct mr_job *job)
{
    Millrace__JobRecord *rec = job->rec;

    for (size_t at = 0; at < rec->n_ended; at++) {
        if (has_open(job, at)) {
            continue;
        }
        if (at == 0) {
            rec->ended_below = end_of(rec->ended[0]);
            remove_range(rec, 0);
        } else {
            rec->ended[at - 1]->count = end_of(rec->ended[at]) - rec->ended[at - 1]->first;
            remove_range(rec, at);
        }
        return;
    }
}

void mr_job_note_ended(mr_core *core, struct mr_job *job, uint64_t repetition)
{
    Millrace__JobRecord *rec = job->rec;
    size_t at = 0;

    if (mr_job_has_ended(job, repetition)) {
        return;
    }
    if (repetition == rec->ended_below) {
        rec->ended_below++;
    } else {
        while (at < rec->n_ended && end_of(rec->ended[at]) < repetition) {
            at++;
        }
        if (at < rec->n_ended && end_of(rec->ended[at]) == repetition) {
            rec->ended[at]->count++;
        } else if (at < rec->n_ended && rec->ended[at]->first == repetition + 1) {
            rec->ended[at]->first--;
            rec->ended[at]->count++;
        } else {
            insert_range(core, rec, at, repetition);
        }
        if (at + 1 < rec->n_ended && end_of(rec->ended[at]) == rec->ended[at + 1]->first) {
            rec->ended[at]->count += rec->ended[at + 1]->count;
            remove_range(rec, at + 1);
        }
    }
    if (rec->n_ended > 0 && rec->ended[0]->first == rec->ended_below) {
        rec->ended_below = end_of(rec->ended[0]);
        remove_range(rec, 0);
    }
    if (rec->n_ended > MR_ENDED_RANGES_MAX) {
        close_gap(job);
    }
}
