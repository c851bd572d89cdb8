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
/*
 * What becomes of splits that came back: at least once, those that a lost worker had not finished;
 * and whatever the guarantee, those that a worker that drains gave back unopened (drain.c), which
 * wait beside the pool.
 *
 *   lost task ──(its loss is counted, one transaction an iteration)──► pool of the cursor
 *                                                                         ├──► the next task to ask
 *                                 nobody will ask: all tasks were told the end, or have ended
 *                                                                         ▼
 *                                           recovery tasks: fresh pipelines on live workers
 *
 * Each split carries how many crashes it was in. After the first it is granted with at most
 * MR_GRANT_RETRY_MAX others. After the second it is a suspect: it waits until a repetition was
 * handed out and then goes to an isolated recovery task, which has at most as many of its kind and
 * nothing else, so that a crash there says something about them. After the third it is the only
 * split of such a task, and after the fourth it is given up. A worker has one isolated task of an
 * iteration at a time: the split that kills it would take the others' with it, as often as it takes
 * to give them up. A worker that leaves on purpose, or that no client reaches, has not crashed.
 *
 * Recovery tasks go on with what nobody was given yet, too, when all tasks were closed or lost
 * before one of them saw the end: a worker whose task was closed, since no client reached it, gets
 * no other one, and it may be the only one that is left. Without sharding it reads its copy anew,
 * as a worker would that comes. Who reads a production goes on in the same window, where the worker
 * knows that nothing comes twice (docs/adr/0010): so there is one reader of an iteration on a
 * worker, and only where the production is still made.
 */
/*
 * Workers that go on purpose, and what they give back.
 *
 *     alive ──(it says so)──► draining ──(it leaves, or falls silent)──► lost
 *
 * One that drains keeps the tasks it has and gets no others: iterations that are created later have
 * none on it, which is a comparison of stamps as for the lost; no recovery task is opened there,
 * and it is no sharer of what is left. Of each of its tasks it gives back the splits that it has
 * not opened. They were never begun, so they are neither lost nor repeated, whatever the guarantee:
 * they wait in a list of the cursor and go to whoever asks next, or to a recovery task if nobody
 * will.
 *
 * What comes back with a crash behind it (at least once, recovery.c) goes back to the pool it was
 * taken from instead: that it was not opened this time does not make it less of a suspect.
 *
 * The end of a task that drained says nothing about the pipeline: an iteration does not finish by
 * it.
 */
#include "dispatcher/model/model.h"

uint64_t mr_position(const struct mr_iteration *it, size_t provider, uint64_t repetition,
                     uint64_t index)
{
    int64_t splits = it->rec->providers[provider]->splits;

    return splits < 0 ? index : repetition * (uint64_t)splits + index;
}

bool mr_position_fits(const struct mr_iteration *it, size_t provider, uint64_t repetition)
{
    int64_t splits = it->rec->providers[provider]->splits;

    /* The next repetition has to fit, too. A single one does, of whatever size. */
    return repetition <= MR_COUNT_SAID_MAX &&
           (splits <= 0 || repetition == 0 || repetition + 2 <= MR_COUNT_MAX / (uint64_t)splits);
}

uint64_t mr_position_end(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    if (it->rec->providers[provider]->splits < 0 && cursor->repetition > 0) {
        return UINT64_MAX; /* Where the earlier ones got to is not known any more. */
    }
    return mr_position(it, provider, cursor->repetition, cursor->next);
}

bool mr_iteration_repeats(const struct mr_iteration *it)
{
    return it->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
}

struct mr_owed mr_pool(const struct mr_iteration *it, size_t provider)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    MR_ASSERT(cursor != NULL);
    return (struct mr_owed){&cursor->pool, &cursor->n_pool};
}

bool mr_owed_is_suspect(const Millrace__OwedRange *range)
{
    return range->losses >= MR_SUSPECT_LOSSES;
}

uint64_t mr_owed_grant_max(const Millrace__OwedRange *range)
{
    return range->losses == 0                ? UINT64_MAX
           : range->losses < MR_ALONE_LOSSES ? MR_GRANT_RETRY_MAX
                                             : 1;
}

void mr_pool_count(const struct mr_iteration *it, struct mr_pool_count *ret)
{
    *ret = (struct mr_pool_count){0};
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        const Millrace__CursorRecord *cursor = it->cursors[i].rec;

        ret->ordinary += mr_given_back_splits(it, i);
        for (size_t j = 0; cursor != NULL && j < cursor->n_pool; j++) {
            const Millrace__OwedRange *range = cursor->pool[j];

            if (mr_owed_is_suspect(range)) {
                ret->suspects += range->count;
                ret->suspect_grants += (range->count - 1) / mr_owed_grant_max(range) + 1;
            } else {
                ret->ordinary += range->count;
            }
        }
    }
}

struct mr_owed mr_given_back(const struct mr_iteration *it, size_t provider)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    MR_ASSERT(cursor != NULL);
    return (struct mr_owed){&cursor->given_back, &cursor->n_given_back};
}

uint64_t mr_given_back_splits(const struct mr_iteration *it, size_t provider)
{
    return it->cursors[provider].rec != NULL ? mr_owed_splits(mr_given_back(it, provider)) : 0;
}

bool mr_given_back_is_sound(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    if (cursor->n_given_back == 0) {
        return true;
    }
    for (size_t i = 0; i < cursor->n_given_back; i++) {
        if (cursor->given_back[i]->losses != 0) {
            return false;
        }
    }
    return cursor->n_given_back <= MR_OWED_RANGES_MAX &&
           mr_position_fits(it, provider, cursor->repetition) &&
           mr_owed_is_sound(mr_given_back(it, provider), mr_position_end(it, provider));
}

/* An endless source has one row of positions for all repetitions: at most once it belongs to the
 * current one. */
bool mr_given_back_is_left_behind(const struct mr_iteration *it, size_t provider,
                                  uint64_t repetition)
{
    return it->rec->providers[provider]->splits < 0 && !mr_iteration_repeats(it) &&
           repetition != it->cursors[provider].rec->repetition;
}
