/*
 * A hash map from strings, or from addresses, to pointers. Keys are lent: they must live as long as
 * their entry, usually inside the value.
 *
 * Iteration is not offered on purpose: what walks over objects keeps them in a list, whose order
 * does not depend on hashes. Threads: an object has one owner at a time.
 */
#pragma once

#include <millrace/base.h>

struct mr_map_slot {
    const void *key; /* NULL: free */
    void *value;
    uint64_t hash;
};

/* Zero-initialise it, but for `by_address`. */
struct mr_map {
    bool by_address; /* keys are objects, each equal to itself alone; else they are strings */
    struct mr_map_slot *slots;
    size_t cap; /* a power of two, or 0 */
    size_t count;
};

/* The value under @key, or NULL. */
void *mr_map_get(const struct mr_map *map, const void *key);
/* Add or replace (the entry then borrows the new @key). MR_EEXHAUSTED: out of memory, nothing
 * changed. @value is not NULL. */
int mr_map_put(struct mr_map *map, const void *key, void *value, mr_error *err);
/* Remove @key; returns its value, or NULL if there was none. */
void *mr_map_remove(struct mr_map *map, const void *key);
void mr_map_free(struct mr_map *map); /* not the values */
