/*
 * Lists of splits that were handed out and are not known to be finished, or were given back. A list
 * belongs to a record (pool and given_back of a cursor, an open grant of a task), is ascending and
 * its ranges are apart.
 *
 * A split is named by its position, repetition x splits of the provider + index, so that the same
 * index of two repetitions is two splits and a range may run over from one repetition into the
 * next. Sources without an end have no such product: there a position is the index.
 */
#include "dispatcher/model/model.h"

static uint64_t end_of(const Millrace__OwedRange *range)
{
    return range->first + range->count;
}

/* Extend @a over @b, which does not begin before it. */
static void swallow(Millrace__OwedRange *a, const Millrace__OwedRange *b)
{
    uint64_t end = MR_MAX(end_of(a), end_of(b));

    a->count = end - a->first;
    a->losses = MR_MAX(a->losses, b->losses);
}

static void remove_at(struct mr_split_list list, size_t i)
{
    mr_record_remove(list.ranges, list.n, i);
}

/* Do @a and @b, its successor, become one without adding a split that neither has, or losing a
 * count? */
static bool is_one(const Millrace__OwedRange *a, const Millrace__OwedRange *b)
{
    if (b->first < end_of(a)) {
        return true;
    }
    return b->first == end_of(a) && a->losses == b->losses;
}

static size_t place_of(struct mr_split_list list, uint64_t first)
{
    size_t low = 0, high = *list.n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if ((*list.ranges)[mid]->first <= first) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

void mr_split_list_add(struct mr_core *core, struct mr_split_list list, uint64_t first,
                       uint64_t count, uint32_t losses)
{
    size_t i = place_of(list, first);
    Millrace__OwedRange *range =
        mr_core_add(core, list.ranges, list.n, &millrace__owed_range__descriptor);
    Millrace__OwedRange **ranges = *list.ranges;

    MR_ASSERT(count > 0);
    if (range == NULL) {
        return;
    }
    range->first = first;
    range->count = count;
    range->losses = losses;
    memmove(ranges + i + 1, ranges + i, (*list.n - 1 - i) * sizeof *ranges);
    ranges[i] = range;
    if (i > 0 && is_one(ranges[i - 1], ranges[i])) {
        swallow(ranges[i - 1], ranges[i]);
        remove_at(list, i--);
    }
    while (i + 1 < *list.n && is_one(ranges[i], ranges[i + 1])) {
        swallow(ranges[i], ranges[i + 1]);
        remove_at(list, i + 1);
    }
}

void mr_split_list_take(struct mr_split_list list, size_t i, uint64_t count)
{
    Millrace__OwedRange *range = (*list.ranges)[i];

    MR_ASSERT(count <= range->count);
    range->first += count;
    range->count -= count;
    if (range->count == 0) {
        remove_at(list, i);
    }
}

/* The first range that ends beyond @first. */
static size_t reaching(struct mr_split_list list, uint64_t first)
{
    size_t i = 0;

    while (i < *list.n && end_of((*list.ranges)[i]) <= first) {
        i++;
    }
    return i;
}

bool mr_split_list_touches(struct mr_split_list list, uint64_t first, uint64_t count)
{
    size_t i = reaching(list, first);

    return i < *list.n && (*list.ranges)[i]->first < first + count;
}

void mr_split_list_cut(struct mr_core *core, struct mr_split_list list, uint64_t first,
                       uint64_t count, mr_split_piece_fn *fn, void *ctx)
{
    uint64_t end = first + count;
    size_t i = reaching(list, first);

    while (i < *list.n && (*list.ranges)[i]->first < end) {
        Millrace__OwedRange *range = (*list.ranges)[i];
        uint64_t from = MR_MAX(range->first, first);
        uint64_t to = MR_MIN(end_of(range), end);
        uint64_t behind = end_of(range) - to;
        uint32_t losses = range->losses;

        range->count = from - range->first;
        if (range->count == 0) {
            remove_at(list, i);
        }
        if (behind > 0) {
            mr_split_list_add(core, list, to, behind,
                              losses); /* a gap lies before it: it stays by itself */
        }
        fn(ctx, from, to - from, losses);
        i = reaching(list, to);
    }
}

/* One pass: what lies at most @gap apart becomes one, until there are @max. */
static void join_within(struct mr_split_list list, uint64_t gap, size_t max)
{
    Millrace__OwedRange **ranges = *list.ranges;
    size_t kept = 0, n = *list.n;

    for (size_t i = 1; i < n; i++) {
        if (kept + 1 + (n - i) > max && ranges[i]->first - end_of(ranges[kept]) <= gap) {
            swallow(ranges[kept], ranges[i]);
            mr_record_free(ranges[i]);
        } else {
            ranges[++kept] = ranges[i];
        }
    }
    *list.n = kept + 1;
}

void mr_split_list_squeeze(struct mr_split_list list, size_t max)
{
    uint64_t gap = 0;

    MR_ASSERT(max > 0);
    while (*list.n > max) {
        join_within(list, gap, max);
        gap = gap > UINT64_MAX / 2 ? UINT64_MAX : 2 * gap + 1;
    }
}

void mr_split_list_clear(struct mr_split_list list)
{
    for (size_t i = 0; i < *list.n; i++) {
        mr_record_free((*list.ranges)[i]);
    }
    mr_free(*list.ranges);
    *list.ranges = NULL;
    *list.n = 0;
}

uint64_t mr_split_list_splits(struct mr_split_list list)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < *list.n; i++) {
        sum += (*list.ranges)[i]->count;
    }
    return sum;
}

bool mr_split_list_is_sound(struct mr_split_list list, uint64_t end)
{
    uint64_t at = 0;

    for (size_t i = 0; i < *list.n; i++) {
        const Millrace__OwedRange *range = (*list.ranges)[i];

        if (range->count == 0 || range->first < at || range->first > end ||
            range->count > end - range->first) {
            return false;
        }
        at = end_of(range);
    }
    return true;
}
