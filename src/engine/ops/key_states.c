#include "engine/ops/key_states.h"

/* What a block of one row takes besides its data, roughly. */
#define BLOCK_OVERHEAD 512u

void mr_key_states_init(struct mr_key_states *s, struct mr_env *env, const mr_spec *spec)
{
    *s = (struct mr_key_states){
        .env = env, .spec = spec, .table = {.size = sizeof(struct mr_key_state)}};
}

static struct mr_key_state *state_at(const struct mr_key_states *s, uint64_t i)
{
    return (struct mr_key_state *)s->table.all + i;
}

void mr_key_states_free(struct mr_key_states *s)
{
    for (uint32_t i = 0; i < s->table.n; i++) {
        mr_block_unref(state_at(s, i)->state);
    }
    if (s->env != NULL) {
        (void)mr_env_recharge(s->env, &s->blocks, 0);
        (void)mr_env_recharge_array(s->env, &s->arrays, 0);
    }
    mr_key_table_free(&s->table);
    *s = (struct mr_key_states){0};
}

static int over_budget(const struct mr_key_states *s, mr_error *err)
{
    return mr_error_set(err, MR_EEXHAUSTED, "the states of %u keys hold %zu bytes, %s", s->table.n,
                        s->blocks + s->arrays, mr_env_budget_text(s->env).text);
}

struct mr_key_state *mr_key_states_find(const struct mr_key_states *s, int64_t key)
{
    return mr_key_table_find(&s->table, key);
}

static int grow(struct mr_key_states *s, mr_error *err)
{
    if (!mr_env_recharge_array(s->env, &s->arrays, mr_key_table_bytes_grown(&s->table))) {
        return over_budget(s, err);
    }
    int rc = mr_key_table_grow(&s->table, err);
    if (rc != MR_OK) {
        (void)mr_env_recharge_array(s->env, &s->arrays, mr_key_table_bytes(&s->table));
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
    MR_TRY(mr_key_table_is_full(&s->table) ? grow(s, err) : MR_OK);
    struct mr_key_state *of = mr_key_table_add(&s->table, key);
    int rc = mr_key_states_set(s, of, state, err);

    if (rc != MR_OK) {
        mr_key_table_remove(&s->table, of);
    }
    return rc;
}

/* ---- in the order of the keys ---- */

void mr_key_states_sort(struct mr_key_states *s)
{
    mr_key_table_sort(&s->table);
    s->sorted = true;
}

struct mr_key_state *mr_key_states_first(const struct mr_key_states *s)
{
    return s->table.n > 0 ? state_at(s, s->table.n - 1) : NULL;
}

void mr_key_states_drop_first(struct mr_key_states *s)
{
    struct mr_key_state *of = mr_key_states_first(s);

    (void)mr_env_recharge(s->env, &s->blocks, s->blocks - bytes_of(of->state));
    mr_block_unref(of->state);
    mr_key_table_remove(&s->table, of);
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
    uint64_t n = k->table.n;
    bool sorted = k->sorted;

    MR_TRY(mr_state_bool(s, &sorted, err));
    MR_TRY(mr_state_count(s, &n, err));
    for (uint64_t i = 0; i < n; i++) {
        MR_TRY(s->restores ? restore_one(k, s, err)
                           : save_one(state_at(k, sorted ? n - 1 - i : i), s, k->spec, err));
    }
    if (sorted && s->restores) {
        mr_key_states_sort(k);
    }
    return MR_OK;
}
