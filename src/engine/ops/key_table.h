/* An array of entries that begin with their keys, int64s, and a hash table of their numbers: for
 * what operators keep by key. Who has one charges its memory. Threads: none. */
#pragma once

#include "base/base.h"

/* Zero-initialise it, but for `size`. */
struct mr_key_table {
    size_t size; /* of an entry: its first field is its key, an int64_t */
    void *all;
    uint32_t *slots; /* twice as many as there is room for entries */
    uint32_t n;
    uint32_t cap;
    bool sorted; /* as mr_key_table_sort() leaves them */
};

void mr_key_table_free(struct mr_key_table *t); /* zeroed is fine */

/* NULL if there is none. Lent until the table grows or is sorted, or one is removed. */
void *mr_key_table_find(const struct mr_key_table *t, int64_t key);
/* It is to grow before one is added. */
static inline bool mr_key_table_is_full(const struct mr_key_table *t)
{
    return t->n == t->cap;
}
/* What there is room for when it has grown. */
uint32_t mr_key_table_cap_grown(const struct mr_key_table *t);
/* What it takes, and what it will when it has grown. */
size_t mr_key_table_bytes(const struct mr_key_table *t);
size_t mr_key_table_bytes_grown(const struct mr_key_table *t);
/* MR_EEXHAUSTED: nothing has changed. */
int mr_key_table_grow(struct mr_key_table *t, mr_error *err);
/* The entry of @key, which has none yet: zeros behind its key. */
void *mr_key_table_add(struct mr_key_table *t, int64_t key);
/* The last one takes its place. */
void mr_key_table_remove(struct mr_key_table *t, void *entry);
/* From the largest key down to the smallest. Who removes the last one, and again the last one, has
 * them in the order of their keys. */
void mr_key_table_sort(struct mr_key_table *t);
