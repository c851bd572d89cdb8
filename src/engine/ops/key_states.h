/* A state for each key, as group_by_reducer keeps them: found by their keys while elements come,
 * taken in the order of the keys at the end. They are within the memory budget. Threads: none. */
#pragma once

#include "engine/ops/key_table.h"
#include "engine/ops/ops.h"

struct mr_key_state {
    int64_t key;
    mr_block *state; /* one row */
};

struct mr_key_states {
    struct mr_env *env;
    const mr_spec *spec;       /* of the states; lent */
    struct mr_key_table table; /* of struct mr_key_state: in the order in which their keys came */
    bool sorted;               /* until then */
    size_t blocks;             /* charged for the states */
    size_t arrays;             /* charged for the arrays */
};

void mr_key_states_init(struct mr_key_states *s, struct mr_env *env, const mr_spec *spec);
void mr_key_states_free(struct mr_key_states *s); /* zeroed is fine */

/* NULL if there is none. Lent until one is added. */
struct mr_key_state *mr_key_states_find(const struct mr_key_states *s, int64_t key);
/* The first one of @key. Takes its own reference; MR_EEXHAUSTED says what all states hold. */
int mr_key_states_add(struct mr_key_states *s, int64_t key, mr_block *state, mr_error *err);
/* @state is the next one of *@of; the same. On failure all is as it was. */
int mr_key_states_set(struct mr_key_states *s, struct mr_key_state *of, mr_block *state,
                      mr_error *err);

/* No more are added or looked for; the first one is the one of the smallest key. */
void mr_key_states_sort(struct mr_key_states *s);
/* NULL: there are no more. */
struct mr_key_state *mr_key_states_first(const struct mr_key_states *s);
void mr_key_states_drop_first(struct mr_key_states *s);

/* As part of an iterator's state; restored into none. */
int mr_key_states_state(struct mr_key_states *k, struct mr_state *s, mr_error *err);
