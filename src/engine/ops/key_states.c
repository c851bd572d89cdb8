#include "engine/ops/key_states.h"

#include <stdlib.h>

#define NOTHING UINT32_MAX
#define CAP_MIN 16u
/* What a block of one row takes besides its data, roughly. */
#define BLOCK_OVERHEAD 512u

void mr_key_states_init(struct mr_key_states *s, struct mr_env *env, const mr_spec *spec)
{
    *s = (struct mr_key_states){.env = env, .spec = spec};
}

void mr_key_states_free(struct mr_key_states *s)
{
    for (uint32_t i = s->first; i < s->n; i++) {
        mr_block_unref(s->all[i].state);
    }
    if (s->env != NULL) {
        (void)mr_env_recharge(s->env, &s->blocks, 0);
        (void)mr_env_recharge_array(s->env, &s->arrays, 0);
    }
    mr_free(s->all);
    mr_free(s->slots);
    *s = (struct mr_key_states){0};
}

static int over_budget(const struct mr_key_states *s, mr_error *err)
{
    return mr_error_set(err, MR_EEXHAUSTED, "the states of %u keys hold %zu bytes, %s",
                        s->n - s->first, s->blocks + s->arrays, mr_env_budget_text(s->env).text);
}

/* ---- the hash table ---- */

static uint32_t *slot_of(const struct mr_key_states *s, int64_t key)
{
    size_t mask = 2 * (size_t)s->cap - 1;
    size_t at = (size_t)mr_mix64((uint64_t)key) & mask;

    while (s->slots[at] != NOTHING && s->all[s->slots[at]].key != key) {
        at = (at + 1) & mask;
    }
    return &s->slots[at];
}

struct mr_key_state *mr_key_states_find(const struct mr_key_states *s, int64_t key)
{
    uint32_t slot = s->cap > 0 ? *slot_of(s, key) : NOTHING;

    return slot != NOTHING ? &s->all[slot] : NULL;
}

static size_t array_bytes(size_t cap)
{
    return cap * (sizeof(struct mr_key_state) + 2 * sizeof(uint32_t));
}

static int grow_arrays(struct mr_key_states *s, uint32_t cap, mr_error *err)
{
    uint32_t *slots = mr_reallocarray(NULL, 2 * (size_t)cap, sizeof *slots);
    struct mr_key_state *all = slots != NULL ? mr_reallocarray(s->all, cap, sizeof *all) : NULL;

    if (all == NULL) {
        mr_free(slots);
        return mr_error_nomem(err);
    }
    mr_free(s->slots);
    s->slots = slots;
    s->all = all;
    s->cap = cap;
    memset(slots, 0xff, 2 * (size_t)cap * sizeof *slots); /* NOTHING */
    for (uint32_t i = 0; i < s->n; i++) {
        *slot_of(s, all[i].key) = i;
    }
    return MR_OK;
}

static int grow(struct mr_key_states *s, mr_error *err)
{
    uint32_t cap = s->cap > 0 ? 2 * s->cap : CAP_MIN;

    if (s->cap > NOTHING / 4) {
        return mr_error_set(err, MR_EEXHAUSTED, "%u keys are too many", s->n);
    }
    if (!mr_env_recharge_array(s->env, &s->arrays, array_bytes(cap))) {
        return over_budget(s, err);
    }
    int rc = grow_arrays(s, cap, err);
    if (rc != MR_OK) {
        (void)mr_env_recharge_array(s->env, &s->arrays, array_bytes(s->cap));
    }
    return rc;
}

/* ---- states ---- */

static size_t bytes_of(const mr_block *state)
{
    return state != NULL ? mr_block_row_bytes(state, 0, 1) + BLOCK_OVERHEAD : 0;
}

int mr_key_states_set(struct mr_key_states *s, struct mr_key_state *of, mr_block *state,
                      mr_error *err)
{
    size_t bytes = s->blocks - bytes_of(of->state) + bytes_of(state);

    if (!mr_env_recharge(s->env, &s->blocks, bytes)) {
        return over_budget(s, err);
    }
    mr_block_unref(of->state);
    of->state = mr_block_ref(state);
    return MR_OK;
}

int mr_key_states_add(struct mr_key_states *s, int64_t key, mr_block *state, mr_error *err)
{
    MR_TRY(s->n == s->cap ? grow(s, err) : MR_OK);
    s->all[s->n] = (struct mr_key_state){.key = key};
    MR_TRY(mr_key_states_set(s, &s->all[s->n], state, err));
    *slot_of(s, key) = s->n;
    s->n++;
    return MR_OK;
}

/* ---- in the order of the keys ---- */

static int by_key(const void *a, const void *b)
{
    const struct mr_key_state *x = a;
    const struct mr_key_state *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

void mr_key_states_sort(struct mr_key_states *s)
{
    if (s->n > 0) {
        qsort(s->all, s->n, sizeof *s->all, by_key);
    }
    s->sorted = true;
}

struct mr_key_state *mr_key_states_first(const struct mr_key_states *s)
{
    return s->first < s->n ? &s->all[s->first] : NULL;
}

void mr_key_states_drop_first(struct mr_key_states *s)
{
    mr_block **state = &s->all[s->first++].state;

    (void)mr_env_recharge(s->env, &s->blocks, s->blocks - bytes_of(*state));
    mr_block_unref(*state);
    *state = NULL;
}

/* ---- saved ---- */

static int restore_one(struct mr_key_states *k, struct mr_state *s, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *state = NULL;
    uint64_t key = 0;

    MR_TRY(mr_state_u64(s, &key, err));
    MR_TRY(mr_state_block(s, &state, k->spec, err));
    if (state == NULL || mr_block_rows(state) != 1 || mr_key_states_find(k, (int64_t)key) != NULL) {
        return mr_state_damaged(err);
    }
    return mr_key_states_add(k, (int64_t)key, state, err);
}

static int save_one(struct mr_key_state *one, struct mr_state *s, const mr_spec *spec,
                    mr_error *err)
{
    uint64_t key = (uint64_t)one->key;

    MR_TRY(mr_state_u64(s, &key, err));
    return mr_state_block(s, &one->state, spec, err);
}

int mr_key_states_state(struct mr_key_states *k, struct mr_state *s, mr_error *err)
{
    uint64_t n = k->n - k->first;
    bool sorted = k->sorted;

    MR_TRY(mr_state_bool(s, &sorted, err));
    MR_TRY(mr_state_count(s, &n, err));
    for (uint64_t i = 0; i < n; i++) {
        MR_TRY(s->restores ? restore_one(k, s, err)
                           : save_one(&k->all[k->first + i], s, k->spec, err));
    }
    if (sorted && s->restores) {
        mr_key_states_sort(k);
    }
    return MR_OK;
}
