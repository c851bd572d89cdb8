/* Hand-out: cursors, what each task was granted, and lists of splits that came back. */
#pragma once

#include "dispatcher/model/base.h"

/* Grants: an unmeasured worker starts small, since a split may be a whole file. */
#define MR_GRANT_FIRST_MAX 8
/* the least share at the end is worth a grant's time divided by this: 10 ms */
#define MR_GRANT_PARTS_MAX 200
/* At least once: splits that were in one crash are granted so many at a time, ... */
#define MR_GRANT_RETRY_MAX 16
/* ... those that were in two are suspects: as many, but in a task that has nothing else, ... */
#define MR_SUSPECT_LOSSES 2
/* ... those that were in three one by one, ... */
#define MR_ALONE_LOSSES 3
/* ... and one that was in four, the last of them alone, is given up. */
#define MR_QUARANTINE_LOSSES 4
#define MR_GRANTS_OPEN_MAX 32 /* of a task: more are joined */

struct mr_split_range {
    uint64_t first;
    uint64_t count;
};

struct mr_cursor {
    MR_RO Millrace__CursorRecord *MR_RO rec; /* NULL: nothing was handed out */
};

struct mr_grant {
    MR_RO Millrace__GrantRecord *MR_RO rec; /* NULL: nothing was asked for */
    MR_RO bool is_behind;                   /* finished grants are still in the store */
};

/* Splits with one history. */
struct mr_split_run {
    uint64_t first; /* position */
    uint64_t count;
    uint32_t losses;
};

/* Ranges of a pool and of the open grants of one task, beyond which neighbours are joined across
 * what lies between: that is repeated too. */
#define MR_SPLIT_RANGES_MAX 512

struct mr_split_list {
    Millrace__OwedRange ***ranges;
    size_t *n;
};

/* Cut those out. @fn hears of each piece that was there. */
typedef void mr_split_piece_fn(void *ctx, uint64_t first, uint64_t count, uint32_t losses);

struct mr_pool_count {
    uint64_t ordinary;
    uint64_t suspects;
    uint64_t suspect_grants; /* so many are needed for them */
};

uint64_t mr_position(const struct mr_iteration *it, size_t provider, uint64_t repetition,
                     uint64_t index);
/* Has @repetition positions at all? */
bool mr_position_fits(const struct mr_iteration *it, size_t provider, uint64_t repetition);
/* Positions of splits that were handed out are below. */
uint64_t mr_position_end(const struct mr_iteration *it, size_t provider);
/* What workers that drained gave back, of a provider that has a cursor. */
struct mr_split_list mr_given_back(const struct mr_iteration *it, size_t provider);
uint64_t mr_given_back_splits(const struct mr_iteration *it, size_t provider);
bool mr_given_back_is_sound(const struct mr_iteration *it, size_t provider);
/* The pool of a provider that has a cursor. */
struct mr_split_list mr_pool(const struct mr_iteration *it, size_t provider);
bool mr_range_is_suspect(const Millrace__OwedRange *range);
/* At most so many splits of @range may be in one grant. */
uint64_t mr_range_grant_max(const Millrace__OwedRange *range);
/* Of all providers: what came back, for whatever reason, and waits for somebody to ask. */
void mr_pool_count(const struct mr_iteration *it, struct mr_pool_count *ret);
bool mr_given_back_is_left_behind(const struct mr_iteration *it, size_t provider,
                                  uint64_t repetition);

static inline struct mr_split_list mr_open_ranges(Millrace__OpenGrant *grant)
{
    return (struct mr_split_list){&grant->ranges, &grant->n_ranges};
}

/* The last of the grants that were joined in it. */
static inline uint64_t mr_open_last(const Millrace__OpenGrant *grant)
{
    return grant->last != 0 ? grant->last : grant->seq;
}

/* MR_EINVAL: such a report cannot be. MR_ERANGE: it is about grants that were not given. */
int mr_grants_check_report(const struct mr_task *task, const Millrace__GrantReport *report,
                           mr_error *err);
/* Nothing is left to grant, so that no grant may come to carry what was reported. */
bool mr_splits_are_handed_out(const struct mr_iteration *it, size_t provider);
uint64_t mr_grants_splits(const struct mr_task *task, size_t provider);
void mr_grants_each(const struct mr_task *task, size_t provider,
                    void (*fn)(void *ctx, const Millrace__OwedRange *range), void *ctx);
/* Are @count splits from position @first on open? */
bool mr_grants_hold(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count);
bool mr_grants_are_sound(const struct mr_iteration *it, size_t provider,
                         const Millrace__GrantRecord *rec);
/* Add @count splits from @first on. What is there already is joined, with the larger counts. */
void mr_split_list_add(struct mr_core *core, struct mr_split_list list, uint64_t first,
                       uint64_t count, uint32_t losses);
/* Cut @count splits, at most all of them, off the front of range @i. */
void mr_split_list_take(struct mr_split_list list, size_t i, uint64_t count);
/* Is any of @count splits from @first on in it? */
bool mr_split_list_touches(struct mr_split_list list, uint64_t first, uint64_t count);
void mr_split_list_cut(struct mr_core *core, struct mr_split_list list, uint64_t first,
                       uint64_t count, mr_split_piece_fn *fn, void *ctx);
/* Join neighbours until there are at most @max ranges. */
void mr_split_list_squeeze(struct mr_split_list list, size_t max);
void mr_split_list_clear(struct mr_split_list list);
uint64_t mr_split_list_splits(struct mr_split_list list);
/* Ascending, apart, not empty, and all below @end. */
bool mr_split_list_is_sound(struct mr_split_list list, uint64_t end);
