/* Elements by key: the groups of group_by_window. Groups hold copies of small elements, and
 * references to large ones (engine/rows.h), within the memory budget. Threads: none. */
#pragma once

#include "engine/ops/key_table.h"
#include "engine/rows.h"

struct mr_group {
    int64_t key;
    uint64_t size; /* when it is full */
    uint32_t gap;  /* number of its own in `gaps` */
    struct mr_rows rows;
};

/* How many elements a group lacks. */
struct mr_group_gap {
    uint64_t rows;
    struct mr_group *group;
};

struct mr_groups {
    struct mr_env *env;
    const mr_spec *spec; /* of the elements; lent */
    struct mr_key_table table;
    struct mr_group_gap *gaps; /* of all of them: a heap, the smallest first */
    size_t arrays;          /* charged for these, the table and the groups without their elements */
    uint64_t size_min;      /* the smallest size of a group, if `size_min_n` is not 0 */
    uint32_t size_min_n;    /* how many groups have it */
    size_t rows;            /* in all of them */
    struct mr_rows_log log; /* what all of them know */
};

void mr_groups_init(struct mr_groups *g, struct mr_env *env, const mr_spec *spec);
void mr_groups_free(struct mr_groups *g); /* zeroed is fine */

/* NULL if there is none. */
struct mr_group *mr_groups_find(const struct mr_groups *g, int64_t key);
/* An empty one of a key that has none. */
int mr_groups_add(struct mr_groups *g, int64_t key, uint64_t size, struct mr_group **ret,
                  mr_error *err);
void mr_groups_remove(struct mr_groups *g, struct mr_group *group);
/* Put element @row of @block into @group. MR_EEXHAUSTED says what all groups hold. */
int mr_groups_put(struct mr_groups *g, struct mr_group *group, mr_block *block, uint32_t row,
                  mr_error *err);
/* The one of the smallest key; NULL: there are none. */
struct mr_group *mr_groups_first(struct mr_groups *g);
/* One that is full; NULL: none is. */
struct mr_group *mr_groups_full(const struct mr_groups *g);
/* The fewest elements with which @wanted groups get full, or MR_GROUPS_AHEAD if that is less; a
 * group that there is not yet takes @size, UINT64_MAX: that is not known. UINT64_MAX: nobody
 * knows. */
#define MR_GROUPS_AHEAD 8u
uint64_t mr_groups_missing(struct mr_groups *g, uint64_t size, uint32_t wanted);

/* As part of an iterator's state; restored into none. */
int mr_groups_state(struct mr_groups *g, struct mr_state *s, mr_error *err);
