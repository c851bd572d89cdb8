/* group_by_window: elements are put together by a key; a group that has its number of elements, and
 * at the end each group in the order of the keys, becomes a dataset, of which a function makes the
 * one that is read. Which group one that fails belongs to, nobody knows. */
#include "engine/nested.h"
#include "engine/ops/expand.h"
#include "engine/ops/groups.h"

struct group_iter {
    struct mr_op_iter head;
    struct mr_apply key;
    struct mr_apply size;       /* program NULL: there is no such function */
    uint64_t window_size;       /* then this */
    struct mr_expander reduce;  /* (key, dataset) -> dataset */
    struct mr_op_iter *current; /* what it made of the last group; NULL: was read to its end */
    struct mr_groups groups;
    struct mr_group *full; /* to be read next */
    bool ended;
    struct mr_apply_input in;
    /* Elements with their keys, not in a group yet from `at` on. Behind the last key is one that
     * failed, or nothing. */
    mr_block *rows;
    mr_block *keys; /* may be NULL: the first one failed */
    uint32_t at;
    int failed;
    mr_error failure;
};

/* ---- infer ---- */

/* (key, dataset of @elements) */
static int reduce_spec(const mr_spec *elements, mr_spec **ret, mr_error *err)
{
    const struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_STRING}};
    MR_AUTO(mr_free) struct mr_leaf_spec *parts = NULL;
    struct mr_buf structure = MR_BUF_INIT;
    int rc = mr_spec_copy_leaves(elements, &parts, err);

    if (rc == MR_OK) {
        mr_buf_puts(&structure, "[\"*\",{\"!dataset\":");
        mr_spec_put_json(&structure, parts, mr_spec_leaves(elements), mr_spec_structure(elements));
        mr_buf_puts(&structure, "}]");
        mr_buf_append(&structure, "", 1);
        rc = structure.failed ? mr_error_nomem(err)
                              : mr_spec_new(leaves, 2, (const char *)structure.data, ret, err);
    }
    mr_buf_free(&structure);
    return rc;
}

/* The function from keys to sizes. */
static int check_size_function(const struct mr_infer *in, mr_error *err)
{
    const struct mr_leaf_spec key = {.dtype = MR_INT64};
    MR_AUTO(mr_spec_unref) mr_spec *keys = NULL;

    MR_TRY(mr_spec_new(&key, 1, NULL, &keys, err));

    int rc = mr_infer_function(in, 2, MR_FUNCTION_KEY, keys, err);
    if (rc != MR_OK) {
        mr_error_wrap(err, "window_size_func");
    }
    return rc;
}

static int group_infer(struct mr_infer *in, mr_error *err)
{
    bool has_size = mr_infer_attr(in, "window_size") != NULL;
    MR_AUTO(mr_spec_unref) mr_spec *group = NULL;

    if (has_size == (in->nfunctions > 2)) {
        return mr_error_set(err, MR_EINVAL,
                            "takes either argument 'window_size' or a window_size_func");
    }
    MR_TRY(reduce_spec(in->inputs[0]->spec, &group, err));
    MR_TRY_WRAP(mr_infer_function(in, 1, MR_FUNCTION_DATASET, group, err), err, "reduce_func");
    MR_TRY(has_size ? MR_OK : check_size_function(in, err));
    in->spec = mr_spec_ref(in->functions[1]->spec);
    in->cardinality = mr_cardinality_some(in->inputs[0]->cardinality);
    return MR_OK;
}

/* ---- open ---- */

static int group_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct group_iter *it = (struct group_iter *)head;
    mr_function **functions = head->ds->functions;
    int64_t size = 0;

    head->uncounts = true;
    mr_groups_init(&it->groups, head->env, head->ds->inputs[0]->spec);
    MR_TRY(mr_op_int(head, "window_size", 1, &size, err));
    it->window_size = (uint64_t)size;
    MR_TRY(mr_apply_open(&it->key, head, functions[0], err));
    if (head->ds->nfunctions > 2) {
        MR_TRY(mr_apply_open(&it->size, head, functions[2], err));
    }
    MR_TRY(mr_expander_prepare(&it->reduce, head, functions[1], err));
    return mr_op_open_input(head, ctx, err);
}

/* ---- groups ---- */

static int size_of(const struct group_iter *it, int64_t key, uint64_t *ret, mr_error *err)
{
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &key};
    MR_AUTO(mr_block_unref) mr_block *in = NULL;
    MR_AUTO(mr_block_unref) mr_block *out = NULL;
    uint32_t bad;
    int64_t size = 0;

    if (it->size.program == NULL) {
        *ret = it->window_size;
        return MR_OK;
    }
    MR_TRY(mr_block_new(1, &column, 1, &in, err));
    MR_TRY(mr_apply_run(&it->size, in, it->in.index + it->at, &out, &bad, err));
    MR_TRY(mr_apply_int64(out, 0, &size, err));
    if (size < 1) {
        return mr_error_set(
            err, MR_EINVAL,
            "the window size of key %" PRId64 " is %" PRId64 ", it must be at least 1", key, size);
    }
    *ret = (uint64_t)size;
    return MR_OK;
}

/* ---- elements into groups ---- */

/* Elements and their keys. */
static int fetch(struct group_iter *it, const struct mr_pull *pull, mr_error *err)
{
    uint64_t size = it->size.program == NULL ? it->window_size : UINT64_MAX;
    uint64_t missing = mr_groups_missing(&it->groups, size, pull->rows);
    struct mr_pull below = mr_pull_rows(pull, missing < UINT64_MAX ? missing : 1);
    uint32_t bad = 0;
    int rc = mr_apply_next(&it->in, it->head.input, &below, &it->rows, err);

    if (rc == MR_END) {
        it->ended = true;
        return MR_OK;
    }
    MR_TRY(rc);
    it->at = 0;
    it->failed = mr_apply_fit(&it->key, &it->in, &it->rows, &it->keys, &bad, &it->failure);
    if (it->failed == MR_OK && mr_block_rows(it->keys) != mr_block_rows(it->rows)) {
        return mr_error_set(err, MR_EINTERNAL, "%u keys for %u elements", mr_block_rows(it->keys),
                            mr_block_rows(it->rows));
    }
    return MR_OK;
}

static void drop_rows(struct group_iter *it)
{
    mr_rows_log_done(&it->groups.log);
    mr_block_unref(it->rows);
    mr_block_unref(it->keys);
    it->rows = NULL;
    it->keys = NULL;
    it->at = 0;
    it->failed = MR_OK;
}

/* One element is an error and no part of a group: those behind it are looked at again. */
static int give_up(struct group_iter *it, uint32_t row, int rc, mr_error *failure, mr_error *err)
{
    (void)mr_op_fail_row(&it->head, it->in.index + row, it->rows, row, rc, failure);
    MR_TRY(mr_apply_keep(&it->in, it->rows, row, err));
    drop_rows(it);
    return mr_error_pass(err, rc, failure);
}

/* The element at `at`, whose key is known. */
static int absorb_one(struct group_iter *it, mr_error *err)
{
    struct mr_group *group = NULL;
    int64_t key = 0;
    uint64_t size = 0;

    MR_TRY(mr_apply_int64(it->keys, it->at, &key, err));
    group = mr_groups_find(&it->groups, key);
    if (group == NULL) {
        MR_TRY(size_of(it, key, &size, err));
        MR_TRY(mr_groups_add(&it->groups, key, size, &group, err));
    }
    MR_TRY(mr_groups_put(&it->groups, group, it->rows, it->at, err));
    it->at++;
    it->full = group->rows.n >= group->size ? group : NULL;
    return MR_OK;
}

/* Elements into their groups, until one is full or there are no more. */
static int absorb(struct group_iter *it, mr_error *err)
{
    uint32_t good = it->keys != NULL ? mr_block_rows(it->keys) : 0;

    while (it->at < good && it->full == NULL) {
        mr_error failure;
        int rc = absorb_one(it, &failure);

        if (rc == MR_EEXHAUSTED) { /* it stays where it is */
            *err = failure;
            return mr_op_fail(&it->head, it->in.index + it->at, rc, err);
        }
        if (rc != MR_OK) {
            return give_up(it, it->at, rc, &failure, err);
        }
    }
    if (it->at < good) {
        return MR_OK;
    }
    if (it->failed != MR_OK) {
        return it->full == NULL ? give_up(it, good, it->failed, &it->failure, err) : MR_OK;
    }
    it->in.index += good;
    drop_rows(it);
    return MR_OK;
}

/* ---- groups into datasets ---- */

struct writing {
    struct mr_buf bytes;
    mr_origin *origin;
    struct mr_record record;
    bool begun;
    bool placed;
    uint64_t place; /* of the first */
};

static int write_rows(void *ctx, const mr_block *rows, mr_error *err)
{
    struct writing *w = ctx;
    int rc = mr_nested_append(&w->bytes, rows, err);

    if (!w->begun) {
        w->placed = mr_block_placed(rows);
        w->place = w->placed ? mr_block_place(rows, 0) : 0;
        w->begun = true;
    }
    mr_record_add(&w->record, rows);
    return rc == MR_OK ? mr_origin_add(&w->origin, mr_block_origin(rows), err) : rc;
}

/* (key, dataset) of a group. */
static int group_row(const struct mr_group *g, mr_block **ret, mr_error *err)
{
    struct writing w = {.bytes = {.memory = g->rows.env->memory}};
    uint64_t offsets[2] = {0, 0};
    int rc = mr_rows_each_block(&g->rows, write_rows, &w, err);

    if (rc == MR_OK) {
        struct mr_column columns[2] = {
            {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &g->key},
            {.kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = w.bytes.data},
        };

        offsets[1] = w.bytes.len;
        rc = mr_block_new(1, columns, 2, ret, err);
    }
    if (rc == MR_OK) {
        mr_block_trace_rows(*ret, &w.record);
        rc = w.placed ? mr_block_set_place(ret, w.place, err) : MR_OK;
        rc = rc == MR_OK ? mr_block_add_origin(ret, w.origin, err) : rc;
        if (rc != MR_OK) {
            mr_block_unref(*ret);
        }
    }
    mr_origin_unref(w.origin);
    mr_record_clear(&w.record);
    mr_buf_free(&w.bytes);
    return rc;
}

/* Begin to read the group that is full. */
static int flush(struct group_iter *it, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *row = NULL;

    MR_TRY(group_row(it->full, &row, err));
    mr_groups_remove(&it->groups, it->full);
    it->full = NULL;
    return mr_expander_expand(&it->reduce, row, &it->current, err);
}

/* One step on the way to the next group. MR_END: there is none. */
static int step(struct group_iter *it, const struct mr_pull *pull, mr_error *err)
{
    if (it->full != NULL) {
        return flush(it, err);
    }
    if (it->rows != NULL) {
        return absorb(it, err);
    }
    if (!it->ended) {
        return fetch(it, pull, err);
    }
    it->full = mr_groups_first(&it->groups);
    return it->full != NULL ? MR_OK : MR_END;
}

static int group_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct group_iter *it = (struct group_iter *)head;

    for (;;) {
        if (it->current != NULL) {
            int rc = mr_op_pull(it->current, pull, ret, err);
            if (rc != MR_END) {
                return rc;
            }
            mr_op_close(it->current);
            it->current = NULL;
        }
        MR_TRY(mr_op_interrupted(head, pull, err));
        MR_TRY(step(it, pull, err));
    }
}

/* ---- state ---- */

/* The elements that are in no group yet. Their keys are found again. */
static int rows_state(struct group_iter *it, struct mr_state *s, mr_error *err)
{
    const mr_spec *spec = it->head.ds->inputs[0]->spec;
    struct mr_apply_input in = it->in;

    in.index += it->at;

    if (!s->restores) {
        MR_TRY(mr_state_rest(s, &it->rows, &it->at, spec, err));
        return mr_apply_state(&in, spec, s, err);
    }
    MR_AUTO(mr_block_unref) mr_block *rows = NULL;
    MR_TRY(mr_state_block(s, &rows, spec, err));
    MR_TRY(mr_apply_state(&it->in, spec, s, err));
    return rows != NULL ? mr_apply_put_back(&it->in, rows, 0, err) : MR_OK;
}

static int group_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct group_iter *it = (struct group_iter *)head;
    bool reading = it->current != NULL;

    MR_TRY(rows_state(it, s, err));
    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_u64(s, &it->reduce.index, err));
    MR_TRY(mr_groups_state(&it->groups, s, err));
    it->full = it->full == NULL ? mr_groups_full(&it->groups) : it->full;
    MR_TRY(mr_state_bool(s, &reading, err));
    return reading ? mr_expander_inner_state(&it->reduce, &it->current, s, err) : MR_OK;
}

static void group_close(struct mr_op_iter *head)
{
    struct group_iter *it = (struct group_iter *)head;

    mr_op_close(it->current);
    mr_groups_free(&it->groups);
    drop_rows(it);
    mr_block_unref(it->in.rest);
    mr_apply_free(&it->key);
    mr_apply_free(&it->size);
    mr_expander_free(&it->reduce);
}

const struct mr_operator mr_operator_group_by_window = {
    .name = "group_by_window",
    .inputs = 1,
    .function = MR_FUNCTION_KEY,
    .min_more_functions = 1,
    .max_more_functions = 2,
    .args = MR_ARGS(MR_OPTIONAL_INT("window_size", 1, INT64_MAX)),
    .infer = group_infer,
    .run = MR_RUN(struct group_iter, .open = group_open, .pull = group_pull, .state = group_state,
                  .close = group_close),
};
