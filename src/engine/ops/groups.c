#include "engine/ops/groups.h"

struct entry {
    int64_t key;
    struct mr_group *group;
};

void mr_groups_init(struct mr_groups *g, struct mr_env *env, const mr_spec *spec)
{
    *g = (struct mr_groups){.env = env,
                            .spec = spec,
                            .table = {.size = sizeof(struct entry)},
                            .size_min = UINT64_MAX,
                            .log = {.env = env}};
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
    mr_free(g->gaps);
    if (g->env != NULL) {
        (void)mr_env_recharge_array(g->env, &g->arrays, 0);
    }
    mr_rows_log_free(&g->log);
    *g = (struct mr_groups){0};
}

struct mr_group *mr_groups_find(const struct mr_groups *g, int64_t key)
{
    const struct entry *entry = mr_key_table_find(&g->table, key);

    return entry != NULL ? entry->group : NULL;
}

/* ---- what they lack ---- */

static void place_gap(struct mr_groups *g, uint32_t at, struct mr_group_gap gap)
{
    g->gaps[at] = gap;
    gap.group->gap = at;
}

/* @gap belongs at number @at or before it: what is larger makes room. */
static void rise(struct mr_groups *g, uint32_t at, struct mr_group_gap gap)
{
    while (at > 0 && g->gaps[(at - 1) / 2].rows > gap.rows) {
        place_gap(g, at, g->gaps[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place_gap(g, at, gap);
}

/* @gap belongs at number @at or behind it: what is smaller makes room. */
static void sink(struct mr_groups *g, uint32_t at, struct mr_group_gap gap, uint32_t n)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < n && g->gaps[child + 1].rows < g->gaps[child].rows) {
            child++;
        }
        if (child >= n || g->gaps[child].rows >= gap.rows) {
            break;
        }
        place_gap(g, at, g->gaps[child]);
        at = child;
    }
    place_gap(g, at, gap);
}

/* @group has got more elements. */
static void mend_gap(struct mr_groups *g, struct mr_group *group)
{
    uint64_t rows = group->size - MR_MIN(group->size, group->rows.n);

    rise(g, group->gap, (struct mr_group_gap){.rows = rows, .group = group});
}

/* Of @group, whose entry there is no more: the last gap takes the place of its own. */
static void drop_gap(struct mr_groups *g, const struct mr_group *group)
{
    struct mr_group_gap last = g->gaps[g->table.n];
    uint32_t at = group->gap;

    if (last.group == group) {
        return;
    }
    if (at > 0 && g->gaps[(at - 1) / 2].rows > last.rows) {
        rise(g, at, last);
    } else {
        sink(g, at, last, g->table.n);
    }
}

static void count_size(struct mr_groups *g, uint64_t size)
{
    if (size < g->size_min) {
        g->size_min = size;
        g->size_min_n = 0;
    }
    g->size_min_n += size == g->size_min;
}

/* Looks for the smallest size again if all groups of it have left: once before it is needed, not each
 * time that a group leaves. */
static void find_size_min(struct mr_groups *g)
{
    if (g->size_min_n > 0) {
        return;
    }
    g->size_min = UINT64_MAX;
    for (uint32_t i = 0; i < g->table.n; i++) {
        count_size(g, group_at(g, i)->size);
    }
}

/* ---- groups ---- */

static int over_budget(const struct mr_groups *g, mr_error *err)
{
    size_t bytes = g->arrays;

    for (uint32_t i = 0; i < g->table.n; i++) {
        bytes += mr_rows_bytes(&group_at(g, i)->rows);
    }
    return mr_error_set(err, MR_EEXHAUSTED, "%zu elements in %u groups hold %zu bytes, %s", g->rows,
                        g->table.n, bytes, mr_env_budget_text(g->env).text);
}

/* Of the arrays and the groups themselves, with room for @cap groups. */
static size_t array_bytes(size_t table_bytes, size_t cap)
{
    return table_bytes + cap * (sizeof(struct mr_group_gap) + sizeof(struct mr_group));
}

static int make_room(struct mr_groups *g, mr_error *err)
{
    struct mr_key_table *t = &g->table;

    if (!mr_key_table_is_full(t)) {
        return MR_OK;
    }
    const uint32_t cap = mr_key_table_cap_grown(t);
    if (!mr_env_recharge_array(g->env, &g->arrays, array_bytes(mr_key_table_bytes_grown(t), cap))) {
        return over_budget(g, err);
    }
    struct mr_group_gap *gaps = mr_reallocarray(g->gaps, cap, sizeof *gaps);
    g->gaps = gaps != NULL ? gaps : g->gaps;
    int rc = gaps != NULL ? mr_key_table_grow(t, err) : mr_error_nomem(err);
    if (rc != MR_OK) {
        (void)mr_env_recharge_array(g->env, &g->arrays, array_bytes(mr_key_table_bytes(t), t->cap));
    }
    return rc;
}

int mr_groups_add(struct mr_groups *g, int64_t key, uint64_t size, struct mr_group **ret,
                  mr_error *err)
{
    MR_TRY(make_room(g, err));
    struct mr_group *group = mr_calloc(1, sizeof *group);
    MR_CHECK_ALLOC(group, err);
    struct entry *entry = mr_key_table_add(&g->table, key);

    group->key = key;
    group->size = size;
    mr_rows_init(&group->rows, g->env, g->spec, &g->log);
    entry->group = group;
    rise(g, g->table.n - 1, (struct mr_group_gap){.rows = size, .group = group});
    count_size(g, size);
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
    drop_gap(g, group);
    g->size_min_n -= group->size == g->size_min;
    g->rows -= group->rows.n;
    mr_rows_free(&group->rows);
    mr_free(group);
    clean_log(g);
}

int mr_groups_put(struct mr_groups *g, struct mr_group *group, mr_block *block, uint32_t row,
                  mr_error *err)
{
    int rc = mr_rows_add(&group->rows, block, row, err);

    if (rc != MR_OK) {
        return rc == MR_EEXHAUSTED ? over_budget(g, err) : rc;
    }
    g->rows++;
    mend_gap(g, group);
    return MR_OK;
}

struct mr_group *mr_groups_first(struct mr_groups *g)
{
    mr_key_table_sort(&g->table);
    return g->table.n > 0 ? group_at(g, g->table.n - 1) : NULL;
}

/* The smallest of the gaps whose numbers are in @front, or @least if that is no larger. A gap that is
 * taken makes way for those below it. */
static uint64_t next_gap(const struct mr_groups *g, uint32_t *front, uint32_t *n, uint64_t least)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < *n; i++) {
        if (g->gaps[front[i]].rows < least) {
            least = g->gaps[front[i]].rows;
            first = i;
        }
    }
    if (first == UINT32_MAX) {
        return least;
    }
    uint32_t child = 2 * front[first] + 1;
    front[first] = front[--*n];
    for (uint32_t i = child; i < g->table.n && i <= child + 1; i++) {
        front[(*n)++] = i;
    }
    return least;
}

uint64_t mr_groups_missing(struct mr_groups *g, uint64_t size, uint32_t wanted)
{
    /* The smallest that was not taken yet is among these. */
    uint32_t front[MR_GROUPS_AHEAD + 1] = {0};
    uint32_t nfront = g->table.n > 0;
    uint32_t n = MR_MIN(wanted, MR_GROUPS_AHEAD);
    uint64_t rows = 0;

    find_size_min(g);
    size = MR_MIN(size, g->size_min);
    for (uint32_t k = 0; k < n; k++) {
        /* A group that is full begins anew. */
        if (__builtin_add_overflow(rows, next_gap(g, front, &nfront, size), &rows)) {
            return UINT64_MAX;
        }
    }
    return rows;
}

struct mr_group *mr_groups_full(const struct mr_groups *g)
{
    return g->table.n > 0 && g->gaps[0].rows == 0 ? g->gaps[0].group : NULL;
}

/* ---- saved ---- */

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
    mend_gap(g, group);
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
