#include "engine/ops/groups.h"

struct entry {
    int64_t key;
    struct mr_group *group;
};

void mr_groups_init(struct mr_groups *g, struct mr_env *env, const mr_spec *spec)
{
    *g = (struct mr_groups){
        .env = env, .spec = spec, .table = {.size = sizeof(struct entry)}, .log = {.env = env}};
}

static struct mr_group *group_at(const struct mr_groups *g, uint64_t i)
{
    return ((const struct entry *)g->table.all)[i].group;
}

void mr_groups_free(struct mr_groups *g)
{
    for (uint32_t i = 0; i < g->table.n; i++) {
        struct mr_group *group = group_at(g, i);

        mr_rows_free(&group->rows);
        mr_free(group);
    }
    mr_key_table_free(&g->table);
    mr_rows_log_free(&g->log);
    *g = (struct mr_groups){0};
}

struct mr_group *mr_groups_find(const struct mr_groups *g, int64_t key)
{
    const struct entry *entry = mr_key_table_find(&g->table, key);

    return entry != NULL ? entry->group : NULL;
}

int mr_groups_add(struct mr_groups *g, int64_t key, uint64_t size, struct mr_group **ret,
                  mr_error *err)
{
    MR_TRY(mr_key_table_is_full(&g->table) ? mr_key_table_grow(&g->table, err) : MR_OK);
    struct mr_group *group = mr_calloc(1, sizeof *group);
    MR_CHECK_ALLOC(group, err);
    struct entry *entry = mr_key_table_add(&g->table, key);

    group->key = key;
    group->size = size;
    mr_rows_init(&group->rows, g->env, g->spec, &g->log);
    entry->group = group;
    *ret = group;
    return MR_OK;
}

/* A group has left: its elements hold nothing in the log any more. */
static void clean_log(struct mr_groups *g)
{
    MR_AUTO(mr_free) struct mr_rows **bags = NULL;
    uint32_t n = g->table.n;

    if (!mr_trace_log_is_due(&g->log.log, g->rows)) {
        return;
    }
    bags = mr_calloc((size_t)n + 1, sizeof(struct mr_rows *));
    for (uint32_t i = 0; bags != NULL && i < n; i++) {
        bags[i] = &group_at(g, i)->rows;
    }
    if (bags != NULL) {
        mr_rows_log_clean(&g->log, bags, n);
    } else {
        mr_rows_log_free(&g->log);
    }
}

void mr_groups_remove(struct mr_groups *g, struct mr_group *group)
{
    mr_key_table_remove(&g->table, mr_key_table_find(&g->table, group->key));
    g->rows -= group->rows.n;
    mr_rows_free(&group->rows);
    mr_free(group);
    clean_log(g);
}

static int over_budget(const struct mr_groups *g, mr_error *err)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < g->table.n; i++) {
        bytes += mr_rows_bytes(&group_at(g, i)->rows);
    }
    return mr_error_set(err, MR_EEXHAUSTED, "%zu elements in %u groups hold %zu bytes, %s", g->rows,
                        g->table.n, bytes, mr_env_budget_text(g->env).text);
}

int mr_groups_put(struct mr_groups *g, struct mr_group *group, mr_block *block, uint32_t row,
                  mr_error *err)
{
    int rc = mr_rows_add(&group->rows, block, row, err);

    g->rows += rc == MR_OK;
    return rc == MR_EEXHAUSTED ? over_budget(g, err) : rc;
}

struct mr_group *mr_groups_first(struct mr_groups *g)
{
    mr_key_table_sort(&g->table);
    return g->table.n > 0 ? group_at(g, g->table.n - 1) : NULL;
}

struct mr_group *mr_groups_full(const struct mr_groups *g)
{
    for (uint32_t i = 0; i < g->table.n; i++) {
        struct mr_group *group = group_at(g, i);

        if (group->rows.n >= group->size) {
            return group;
        }
    }
    return NULL;
}

/* The @n smallest of what the groups lack, in order; @least is where those are not so many. */
static void smallest_gaps(const struct mr_groups *g, uint64_t *gaps, uint32_t n, uint64_t least)
{
    for (uint32_t k = 0; k < n; k++) {
        gaps[k] = least;
    }
    for (uint32_t i = 0; i < g->table.n; i++) {
        uint64_t gap = group_at(g, i)->size - group_at(g, i)->rows.n;

        for (uint32_t k = 0; k < n && gap < UINT64_MAX; k++) {
            if (gap < gaps[k]) {
                uint64_t larger = gaps[k];

                gaps[k] = gap;
                gap = larger;
            }
        }
    }
}

uint64_t mr_groups_missing(const struct mr_groups *g, uint64_t size, uint32_t wanted)
{
    uint64_t gaps[MR_GROUPS_AHEAD];
    uint32_t n = MR_MIN(wanted, MR_GROUPS_AHEAD);
    uint64_t rows = 0;

    /* A group that is full begins anew. */
    for (uint32_t i = 0; i < g->table.n; i++) {
        size = MR_MIN(size, group_at(g, i)->size);
    }
    smallest_gaps(g, gaps, n, size);
    for (uint32_t k = 0; k < n; k++) {
        if (__builtin_add_overflow(rows, gaps[k], &rows)) {
            return UINT64_MAX;
        }
    }
    return rows;
}

static int restore_group(struct mr_groups *g, struct mr_state *s, mr_error *err)
{
    struct mr_group *group = NULL;
    uint64_t key = 0;
    uint64_t size = 0;

    MR_TRY(mr_state_u64(s, &key, err));
    MR_TRY(mr_state_u64(s, &size, err));
    if (size == 0 || mr_groups_find(g, (int64_t)key) != NULL) {
        return mr_state_damaged(err);
    }
    MR_TRY(mr_groups_add(g, (int64_t)key, size, &group, err));
    MR_TRY(mr_rows_state(&group->rows, s, err));
    g->rows += group->rows.n;
    return group->rows.n > size ? mr_state_damaged(err) : MR_OK;
}

static int save_group(struct mr_group *group, struct mr_state *s, mr_error *err)
{
    uint64_t key = (uint64_t)group->key;

    MR_TRY(mr_state_u64(s, &key, err));
    MR_TRY(mr_state_u64(s, &group->size, err));
    return mr_rows_state(&group->rows, s, err);
}

int mr_groups_state(struct mr_groups *g, struct mr_state *s, mr_error *err)
{
    uint64_t n = g->table.n;

    mr_key_table_sort(&g->table);
    MR_TRY(mr_state_count(s, &n, err));
    for (uint64_t i = 0; i < n; i++) { /* from the smallest key on */
        MR_TRY(s->restores ? restore_group(g, s, err) : save_group(group_at(g, n - 1 - i), s, err));
    }
    return MR_OK;
}
