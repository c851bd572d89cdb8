/* Positions of splits, and those that came back and wait for somebody to ask. */
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

struct mr_split_list mr_pool(const struct mr_iteration *it, size_t provider)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    MR_ASSERT(cursor != NULL);
    return (struct mr_split_list){&cursor->pool, &cursor->n_pool};
}

bool mr_range_is_suspect(const Millrace__OwedRange *range)
{
    return range->losses >= MR_SUSPECT_LOSSES;
}

uint64_t mr_range_grant_max(const Millrace__OwedRange *range)
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

            if (mr_range_is_suspect(range)) {
                ret->suspects += range->count;
                ret->suspect_grants += (range->count - 1) / mr_range_grant_max(range) + 1;
            } else {
                ret->ordinary += range->count;
            }
        }
    }
}

struct mr_split_list mr_given_back(const struct mr_iteration *it, size_t provider)
{
    Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    MR_ASSERT(cursor != NULL);
    return (struct mr_split_list){&cursor->given_back, &cursor->n_given_back};
}

uint64_t mr_given_back_splits(const struct mr_iteration *it, size_t provider)
{
    return it->cursors[provider].rec != NULL ? mr_split_list_splits(mr_given_back(it, provider))
                                             : 0;
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
    return cursor->n_given_back <= MR_SPLIT_RANGES_MAX &&
           mr_position_fits(it, provider, cursor->repetition) &&
           mr_split_list_is_sound(mr_given_back(it, provider), mr_position_end(it, provider));
}

/* An endless source has one row of positions for all repetitions: at most once it belongs to the
 * current one. */
bool mr_given_back_is_left_behind(const struct mr_iteration *it, size_t provider,
                                  uint64_t repetition)
{
    return it->rec->providers[provider]->splits < 0 && !mr_iteration_repeats(it) &&
           repetition != it->cursors[provider].rec->repetition;
}
