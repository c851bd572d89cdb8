#include "engine/ops/groups.h"

void mr_groups_init(struct mr_groups *g, struct mr_env *env, const mr_spec *spec)
{
    *g = (struct mr_groups){.env = env, .spec = spec, .log = {.env = env}};
}

void mr_groups_free(struct mr_groups *g)
{
    for (size_t i = 0; i < g->n; i++) {
        mr_rows_free(&g->all[i]->rows);
        mr_free(g->all[i]);
    }
    mr_free(g->all);
    mr_rows_log_free(&g->log);
    *g = (struct mr_groups){0};
}

/* Where the group of @key is, or would be. */
static size_t place_of(const struct mr_groups *g, int64_t key)
{
    size_t low = 0;
    size_t high = g->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (g->all[mid]->key < key) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

struct mr_group *mr_groups_find(const struct mr_groups *g, int64_t key)
{
    size_t place = place_of(g, key);

    return place < g->n && g->all[place]->key == key ? g->all[place] : NULL;
}

static int make_room(struct mr_groups *g, mr_error *err)
{
    if (g->n < g->cap) {
        return MR_OK;
    }
    size_t cap = g->cap * 2 + 16;
    struct mr_group **bigger = mr_reallocarray(g->all, cap, sizeof(struct mr_group *));
    MR_CHECK_ALLOC(bigger, err);
    g->all = bigger;
    g->cap = cap;
    return MR_OK;
}

int mr_groups_add(struct mr_groups *g, int64_t key, uint64_t size, struct mr_group **ret,
                  mr_error *err)
{
    size_t place = place_of(g, key);
    struct mr_group *group;

    MR_TRY(make_room(g, err));
    group = mr_calloc(1, sizeof *group);
    MR_CHECK_ALLOC(group, err);
    group->key = key;
    group->size = size;
    mr_rows_init(&group->rows, g->env, g->spec, &g->log);
    memmove(g->all + place + 1, g->all + place, (g->n - place) * sizeof(struct mr_group *));
    g->all[place] = group;
    g->n++;
    *ret = group;
    return MR_OK;
}

/* A group has left: its elements hold nothing in the log any more. */
static void clean_log(struct mr_groups *g)
{
    MR_AUTO(mr_free) struct mr_rows **bags = NULL;
    size_t rows = 0;

    for (size_t i = 0; i < g->n; i++) {
        rows += g->all[i]->rows.n;
    }
    if (!mr_trace_log_is_due(&g->log.log, rows)) {
        return;
    }
    bags = mr_calloc(g->n + 1, sizeof(struct mr_rows *));
    for (size_t i = 0; bags != NULL && i < g->n; i++) {
        bags[i] = &g->all[i]->rows;
    }
    if (bags != NULL) {
        mr_rows_log_clean(&g->log, bags, g->n);
    } else {
        mr_rows_log_free(&g->log);
    }
}

void mr_groups_remove(struct mr_groups *g, struct mr_group *group)
{
    size_t place = place_of(g, group->key);

    g->n--;
    memmove(g->all + place, g->all + place + 1, (g->n - place) * sizeof(struct mr_group *));
    mr_rows_free(&group->rows);
    mr_free(group);
    clean_log(g);
}

static int over_budget(const struct mr_groups *g, mr_error *err)
{
    size_t rows = 0;
    size_t bytes = 0;

    for (size_t i = 0; i < g->n; i++) {
        rows += g->all[i]->rows.n;
        bytes += mr_rows_bytes(&g->all[i]->rows);
    }
    return mr_error_set(err, MR_EEXHAUSTED, "%zu elements in %zu groups hold %zu bytes, %s", rows,
                        g->n, bytes, mr_env_budget_text(g->env).text);
}

int mr_groups_put(const struct mr_groups *g, struct mr_group *group, mr_block *block, uint32_t row,
                  mr_error *err)
{
    int rc = mr_rows_add(&group->rows, block, row, err);

    return rc == MR_EEXHAUSTED ? over_budget(g, err) : rc;
}

/* The @n smallest of what the groups lack, in order; @least is where those are not so many. */
static void smallest_gaps(const struct mr_groups *g, uint64_t *gaps, uint32_t n, uint64_t least)
{
    for (uint32_t k = 0; k < n; k++) {
        gaps[k] = least;
    }
    for (size_t i = 0; i < g->n; i++) {
        uint64_t gap = g->all[i]->size - g->all[i]->rows.n;

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
    for (size_t i = 0; i < g->n; i++) {
        size = MR_MIN(size, g->all[i]->size);
    }
    smallest_gaps(g, gaps, n, size);
    for (uint32_t k = 0; k < n; k++) {
        if (__builtin_add_overflow(rows, gaps[k], &rows)) {
            return UINT64_MAX;
        }
    }
    return rows;
}

static int group_state(struct mr_groups *g, size_t i, struct mr_state *s, mr_error *err)
{
    struct mr_group *group = s->restores ? NULL : g->all[i];
    uint64_t key = group != NULL ? (uint64_t)group->key : 0;
    uint64_t size = group != NULL ? group->size : 0;

    MR_TRY(mr_state_u64(s, &key, err));
    MR_TRY(mr_state_u64(s, &size, err));
    if (s->restores) {
        if (size == 0 || mr_groups_find(g, (int64_t)key) != NULL) {
            return mr_state_damaged(err);
        }
        MR_TRY(mr_groups_add(g, (int64_t)key, size, &group, err));
    }
    MR_TRY(mr_rows_state(&group->rows, s, err));
    return group->rows.n > size ? mr_state_damaged(err) : MR_OK;
}

int mr_groups_state(struct mr_groups *g, struct mr_state *s, mr_error *err)
{
    uint64_t n = g->n;

    MR_TRY(mr_state_count(s, &n, err));
    for (size_t i = 0; i < n; i++) {
        MR_TRY(group_state(g, i, s, err));
    }
    return MR_OK;
}
