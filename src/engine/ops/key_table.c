#include "engine/ops/key_table.h"

#include "base/rng.h"

#include <stdlib.h>

#define NOTHING UINT32_MAX
#define CAP_MIN 16u

void mr_key_table_free(struct mr_key_table *t)
{
    mr_free(t->all);
    mr_free(t->slots);
    *t = (struct mr_key_table){.size = t->size};
}

static void *entry_at(const struct mr_key_table *t, uint32_t i)
{
    return (unsigned char *)t->all + i * t->size;
}

static int64_t key_of(const void *entry)
{
    int64_t key;

    memcpy(&key, entry, sizeof key);
    return key;
}

/* ---- the hash table ---- */

static size_t mask_of(const struct mr_key_table *t)
{
    return 2 * (size_t)t->cap - 1;
}

/* Where the search for @key begins. */
static size_t home_of(const struct mr_key_table *t, int64_t key)
{
    return (size_t)mr_mix64((uint64_t)key) & mask_of(t);
}

/* The slot of @key, or the free one that would be it. */
static uint32_t *slot_of(const struct mr_key_table *t, int64_t key)
{
    size_t at = home_of(t, key);

    while (t->slots[at] != NOTHING && key_of(entry_at(t, t->slots[at])) != key) {
        at = (at + 1) & mask_of(t);
    }
    return &t->slots[at];
}

void *mr_key_table_find(const struct mr_key_table *t, int64_t key)
{
    uint32_t i = t->n > 0 ? *slot_of(t, key) : NOTHING;

    return i != NOTHING ? entry_at(t, i) : NULL;
}

static void fill_slots(struct mr_key_table *t)
{
    memset(t->slots, 0xff, 2 * (size_t)t->cap * sizeof *t->slots); /* NOTHING */
    for (uint32_t i = 0; i < t->n; i++) {
        *slot_of(t, key_of(entry_at(t, i))) = i;
    }
}

/* The slot gets free. What stands behind it, up to the next free one, moves up where it is not past
 * its home then: a search ends at a free slot. */
static void clear_slot(struct mr_key_table *t, uint32_t *slot)
{
    size_t mask = mask_of(t);
    size_t hole = (size_t)(slot - t->slots);

    for (size_t at = (hole + 1) & mask; t->slots[at] != NOTHING; at = (at + 1) & mask) {
        size_t home = home_of(t, key_of(entry_at(t, t->slots[at])));

        if (((at - home) & mask) >= ((at - hole) & mask)) {
            t->slots[hole] = t->slots[at];
            hole = at;
        }
    }
    t->slots[hole] = NOTHING;
}

/* ---- growing ---- */

static size_t bytes_of(const struct mr_key_table *t, size_t cap)
{
    return cap * (t->size + 2 * sizeof *t->slots);
}

size_t mr_key_table_bytes(const struct mr_key_table *t)
{
    return bytes_of(t, t->cap);
}

uint32_t mr_key_table_cap_grown(const struct mr_key_table *t)
{
    return t->cap > 0 ? 2 * t->cap : CAP_MIN;
}

size_t mr_key_table_bytes_grown(const struct mr_key_table *t)
{
    return bytes_of(t, mr_key_table_cap_grown(t));
}

int mr_key_table_grow(struct mr_key_table *t, mr_error *err)
{
    uint32_t cap = mr_key_table_cap_grown(t);

    if (t->cap > NOTHING / 4) {
        return mr_error_set(err, MR_EEXHAUSTED, "%u keys are too many", t->n);
    }
    uint32_t *slots = mr_reallocarray(NULL, 2 * (size_t)cap, sizeof *slots);
    void *all = slots != NULL ? mr_reallocarray(t->all, cap, t->size) : NULL;
    if (all == NULL) {
        mr_free(slots);
        return mr_error_nomem(err);
    }
    mr_free(t->slots);
    t->slots = slots;
    t->all = all;
    t->cap = cap;
    fill_slots(t);
    return MR_OK;
}

/* ---- entries ---- */

void *mr_key_table_add(struct mr_key_table *t, int64_t key)
{
    void *entry = entry_at(t, t->n);

    MR_ASSERT(t->n < t->cap);
    *slot_of(t, key) = t->n;
    memset(entry, 0, t->size);
    memcpy(entry, &key, sizeof key);
    t->n++;
    t->sorted = false;
    return entry;
}

void mr_key_table_remove(struct mr_key_table *t, void *entry)
{
    void *last = entry_at(t, t->n - 1);

    clear_slot(t, slot_of(t, key_of(entry)));
    if (entry != last) {
        uint32_t *slot = slot_of(t, key_of(last));

        *slot = (uint32_t)((size_t)((unsigned char *)entry - (unsigned char *)t->all) / t->size);
        memcpy(entry, last, t->size);
        t->sorted = false;
    }
    t->n--;
}

static int larger_key_first(const void *a, const void *b)
{
    int64_t x = key_of(a);
    int64_t y = key_of(b);

    return (x < y) - (x > y);
}

void mr_key_table_sort(struct mr_key_table *t)
{
    if (t->sorted || t->n == 0) {
        return;
    }
    qsort(t->all, t->n, t->size, larger_key_first);
    fill_slots(t);
    t->sorted = true;
}
