/* Open addressing with linear probing; removal shifts entries back, so there are no tombstones. */
#include "base/map.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/rng.h"

#define CAP_MIN 16

static uint64_t hash_of(const struct mr_map *map, const void *key)
{
    return map->by_address ? mr_mix64((uintptr_t)key) : mr_hash64(key, strlen(key));
}

static bool is_same(const struct mr_map *map, const void *a, const void *b)
{
    return map->by_address ? a == b : strcmp(a, b) == 0;
}

static size_t home(const struct mr_map *map, uint64_t hash)
{
    return (size_t)hash & (map->cap - 1);
}

/* The slot of @key, or the free one where it would go. The map is never full. */
static size_t find(const struct mr_map *map, const void *key, uint64_t hash)
{
    size_t i = home(map, hash);

    while (map->slots[i].key != NULL) {
        if (map->slots[i].hash == hash && is_same(map, map->slots[i].key, key)) {
            break;
        }
        i = (i + 1) & (map->cap - 1);
    }
    return i;
}

void *mr_map_get(const struct mr_map *map, const void *key)
{
    if (map->count == 0) {
        return NULL;
    }
    size_t i = find(map, key, hash_of(map, key));
    return map->slots[i].key != NULL ? map->slots[i].value : NULL;
}

static int grow(struct mr_map *map, mr_error *err)
{
    struct mr_map bigger = {.by_address = map->by_address,
                            .cap = map->cap == 0 ? CAP_MIN : 2 * map->cap,
                            .count = map->count};

    bigger.slots = mr_calloc(bigger.cap, sizeof *bigger.slots);
    MR_CHECK_ALLOC(bigger.slots, err);
    for (size_t i = 0; i < map->cap; i++) {
        if (map->slots[i].key != NULL) {
            bigger.slots[find(&bigger, map->slots[i].key, map->slots[i].hash)] = map->slots[i];
        }
    }
    mr_free(map->slots);
    *map = bigger;
    return MR_OK;
}

int mr_map_put(struct mr_map *map, const void *key, void *value, mr_error *err)
{
    uint64_t hash = hash_of(map, key);

    MR_ASSERT(value != NULL);
    /* At most three quarters full: probes stay short. */
    if (4 * (map->count + 1) > 3 * map->cap) {
        MR_TRY(grow(map, err));
    }
    struct mr_map_slot *slot = &map->slots[find(map, key, hash)];

    if (slot->key == NULL) {
        map->count++;
    }
    *slot = (struct mr_map_slot){key, value, hash};
    return MR_OK;
}

void *mr_map_remove(struct mr_map *map, const void *key)
{
    if (map->count == 0) {
        return NULL;
    }
    size_t mask = map->cap - 1;
    size_t hole = find(map, key, hash_of(map, key));
    void *value = map->slots[hole].value;

    if (map->slots[hole].key == NULL) {
        return NULL;
    }
    /* An entry behind the hole moves into it unless its home lies between the two (cyclically). */
    for (size_t i = (hole + 1) & mask; map->slots[i].key != NULL; i = (i + 1) & mask) {
        size_t distance = (i - home(map, map->slots[i].hash)) & mask;

        if (distance >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (struct mr_map_slot){NULL, NULL, 0};
    map->count--;
    return value;
}

void mr_map_free(struct mr_map *map)
{
    if (map != NULL) {
        mr_free(map->slots);
        *map = (struct mr_map){.by_address = map->by_address};
    }
}
