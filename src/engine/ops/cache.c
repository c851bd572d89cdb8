/*
 * cache: the elements of the first complete pass, kept in memory for the passes after it.
 *
 * What is kept belongs to the dataset object (struct mr_dataset.kept): all iterators over it share
 * it, and it goes with it. A pass that ends early leaves nothing, nor does one in which an element
 * failed: what is kept would have each element behind that in another place. A pass that has read
 * as many elements as the input is known to have need not see the end. Each iterator that holds the
 * elements has them on its memory budget. Inside of functions nothing is shared: there the dataset
 * is another one for each element. A pass over splits is one reader's part: it is kept for the
 * passes of that engine iterator only.
 *
 * Kept elements descend from nothing: the pass that read them has accounted for that.
 */
#include "base/sync.h"
#include "element/trace.h"
#include "engine/gather.h"
#include "engine/ops/ops.h"

/* A block that holds so many times its own bytes is copied. */
#define PINNED_FACTOR 2u

/* The elements of a complete pass. */
#define MAGIC UINT32_C(0x6d726b70)

struct kept {
    uint32_t magic;
    pthread_mutex_t lock; /* guards all below */
    bool complete;
    uint64_t owner; /* the engine iterator that it is for; 0: for all */
    struct mr_gather rows;
};

struct cache_iter {
    struct mr_op_iter head;
    struct mr_op_iter *input; /* NULL: from what was kept */
    struct mr_gather rows;    /* all so far, or all there are */
    struct mr_gather left;    /* reading: still to give */
    struct kept *kept;        /* the dataset's; NULL: nothing is shared */
    size_t charged;
    size_t names; /* charged for the records that elements come from */
    bool failed;  /* reading: an element has; nothing is kept */
    /* reading: pulled, and not given yet, from row `used` on; or NULL */
    mr_block *block;
    uint32_t used;
    bool has_block; /* `rows` has it */
};

enum { READING = 1, FAILED = 2, WAITING = 4, HAS_BLOCK = 8 }; /* in states */

static int cache_infer(struct mr_infer *in, mr_error *err)
{
    MR_TRY(mr_infer_no_datasets(in->inputs[0]->spec, err));
    return mr_infer_same(in, err);
}

/* ---- what is kept ---- */

static void kept_free(void *p)
{
    struct kept *kept = p;

    if (kept != NULL) {
        MR_CHECK_MAGIC(kept, MAGIC);
        mr_gather_free(&kept->rows);
        (void)pthread_mutex_destroy(&kept->lock);
        mr_free(kept);
    }
}

/* The dataset's; made by the first iterator. */
static int kept_of(const mr_dataset *ds, struct kept **ret, mr_error *err)
{
    _Atomic(void *) *place =
        &((mr_dataset *)(uintptr_t)ds)->kept; /* not part of what is immutable */
    struct kept *kept = atomic_load(place);
    void *nothing = NULL;

    if (kept == NULL) {
        kept = mr_calloc(1, sizeof *kept);
        MR_CHECK_ALLOC(kept, err);
        kept->magic = MAGIC;
        mr_mutex_init(&kept->lock);
        if (!atomic_compare_exchange_strong(place, &nothing, kept)) {
            kept_free(kept);
            kept = nothing;
        }
    }
    *ret = kept;
    return MR_OK;
}

static int add_all(struct mr_gather *to, const struct mr_gather *from, mr_error *err)
{
    return from->rows > 0 ? mr_gather_pick(from, 1, from->rows, to, err) : MR_OK;
}

static uint64_t owner_of(const struct cache_iter *it)
{
    return it->head.env->has_splits ? it->head.env->serial : 0;
}

static bool is_ours_locked(const struct cache_iter *it)
{
    return it->kept->complete && it->kept->owner == owner_of(it);
}

/* A pass is complete: its rows are for those after it, unless another one was faster. */
static int publish(struct cache_iter *it, mr_error *err)
{
    int rc = MR_OK;

    if (it->kept == NULL || it->failed) {
        return MR_OK;
    }
    MR_LOCK(&it->kept->lock);
    if (!is_ours_locked(it)) {
        mr_gather_clear(&it->kept->rows);
        it->kept->owner = owner_of(it);
        rc = add_all(&it->kept->rows, &it->rows, err);
        it->kept->complete = rc == MR_OK;
    }
    return rc;
}

/* ---- running ---- */

/* Elements come before the names of their records. The blocks are those of a pass that nobody else
 * has seen, and @more, which is to come (or NULL). */
static void forget_names(struct cache_iter *it, mr_block *more)
{
    if (more != NULL) {
        mr_block_trace_forget(more);
    }
    for (size_t i = it->rows.head; i < it->rows.n; i++) {
        mr_block_trace_forget(it->rows.parts[i].block);
    }
    (void)mr_env_recharge(it->head.env, &it->names, 0);
}

/* For the rows that are there, and @more (or NULL). */
static int recharge(struct cache_iter *it, mr_block *more, mr_error *err)
{
    struct mr_op_iter *head = &it->head;
    uint32_t n = more != NULL ? mr_block_rows(more) : 0;
    size_t bytes = it->rows.bytes + (more != NULL ? mr_block_row_bytes(more, 0, n) : 0);
    bool fits = bytes <= it->charged || mr_env_recharge(head->env, &it->charged, bytes);

    if (!fits && it->names > 0) {
        forget_names(it, more);
        fits = mr_env_recharge(head->env, &it->charged, bytes);
    }
    if (!fits) {
        int rc =
            mr_error_set(err, MR_EEXHAUSTED, "%" PRIu64 " elements hold %zu bytes, %s",
                         (uint64_t)it->rows.rows + n, bytes, mr_env_budget_text(head->env).text);

        return mr_op_fail(head, head->delivered, rc, err);
    }
    return MR_OK;
}

/* From what was kept, if a pass was complete; *@found says so. */
static int open_kept(struct cache_iter *it, bool *found, mr_error *err)
{
    *found = false;
    if (it->kept == NULL) {
        return MR_OK;
    }
    mr_mutex_lock(&it->kept->lock);
    *found = is_ours_locked(it);
    int rc = *found ? add_all(&it->rows, &it->kept->rows, err) : MR_OK;
    mr_mutex_unlock(&it->kept->lock);
    MR_TRY(rc);
    MR_TRY(add_all(&it->left, &it->rows, err));
    return recharge(it, NULL, err);
}

static int cache_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct cache_iter *it = (struct cache_iter *)head;
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);
    bool found = false;

    MR_TRY(ctx->outermost ? kept_of(head->ds, &it->kept, err) : MR_OK);
    MR_TRY(open_kept(it, &found, err));
    return found ? MR_OK : mr_op_open(&below, head->ds->inputs[0], &it->input, err);
}

/* @block as it is kept: without what it descends from, and without memory of others that it would
 * hold. */
static int as_kept(struct cache_iter *it, const mr_block *block, mr_block **ret, mr_error *err)
{
    uint32_t n = mr_block_column_count(block);
    uint32_t rows = mr_block_rows(block);
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc(n, sizeof *columns);
    MR_AUTO(mr_block_unref) mr_block *copy = NULL;

    MR_CHECK_ALLOC(columns, err);
    if (mr_block_pinned_bytes(block) > PINNED_FACTOR * mr_block_row_bytes(block, 0, rows)) {
        MR_TRY(mr_block_copy_rows(block, 0, rows, &copy, err));
        block = copy;
    }
    for (uint32_t i = 0; i < n; i++) {
        columns[i] = mr_block_owned_column(block, i);
    }
    MR_TRY(mr_block_from_columns(rows, columns, n, ret, err));
    mr_block_place_as(*ret, block);
    size_t names = mr_block_trace_keep(*ret, block, mr_block_row_bytes(block, 0, rows));

    if (names > 0 && !mr_env_recharge(it->head.env, &it->names, it->names + names)) {
        mr_block_trace_forget(*ret);
    }
    return MR_OK;
}

/* The block at hand is the next of the pass. */
static int keep(struct cache_iter *it, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *kept = NULL;
    size_t names = it->names;
    int rc = as_kept(it, it->block, &kept, err);

    rc = rc == MR_OK ? recharge(it, kept, err) : rc;
    rc = rc == MR_OK ? mr_gather_add(&it->rows, kept, 0, mr_block_rows(kept), err) : rc;
    if (rc != MR_OK && it->names > names) {
        (void)mr_env_recharge(it->head.env, &it->names, names); /* those of `kept` go with it */
    }
    it->has_block = rc == MR_OK;
    return rc;
}

static int pull_input(struct cache_iter *it, const struct mr_pull *pull, mr_error *err)
{
    int rc = mr_op_pull(it->input, pull, &it->block, err);

    if (rc == MR_END) {
        MR_TRY(publish(it, err));
        return MR_END;
    }
    if (rc < 0 && mr_op_element_failed(rc, err)) {
        it->failed = true;
        mr_gather_clear(&it->rows);
        (void)mr_env_recharge(it->head.env, &it->charged, 0);
        (void)mr_env_recharge(it->head.env, &it->names, 0);
    }
    return rc;
}

/* The block at hand, or as much of it as is asked for. None is given before it is kept: what fails
 * for want of memory is tried again. */
static int pull_and_keep(struct cache_iter *it, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    const int64_t all = it->head.ds->cardinality;

    MR_TRY(it->block != NULL ? MR_OK : pull_input(it, pull, err));
    MR_TRY(it->failed || it->has_block ? MR_OK : keep(it, err));
    MR_TRY(all >= 0 && it->rows.rows == (uint64_t)all ? publish(it, err) : MR_OK);
    uint32_t rows = MR_MIN(pull->rows, mr_block_rows(it->block) - it->used);
    MR_TRY(mr_block_slice(it->block, it->used, rows, ret, err));
    it->used += rows;
    if (it->used == mr_block_rows(it->block)) {
        mr_block_unref(MR_TAKE(it->block));
        it->used = 0;
        it->has_block = false;
    }
    return MR_OK;
}

static int cache_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct cache_iter *it = (struct cache_iter *)head;

    if (it->input != NULL) {
        return pull_and_keep(it, pull, ret, err);
    }
    if (it->left.rows == 0) {
        return MR_END;
    }
    return mr_gather_take(
        &it->left, pull->rows < it->left.rows ? pull->rows : (uint32_t)it->left.rows, ret, err);
}

/* ---- state: with the elements, as another process has none of them ---- */

/* The pass was reading: all elements, of which some were delivered. */
static int go_on_reading(struct cache_iter *it, mr_error *err)
{
    MR_TRY(publish(it, err));
    if (it->head.delivered > it->rows.rows) {
        return mr_state_damaged(err);
    }
    MR_TRY(add_all(&it->left, &it->rows, err));
    mr_gather_drop(&it->left, it->head.delivered);
    mr_op_close(it->input);
    it->input = NULL;
    return MR_OK;
}

static int open_again(struct cache_iter *it, mr_error *err)
{
    struct mr_op_iter *head = &it->head;
    struct mr_op_ctx ctx = {.env = head->env,
                            .bound = head->bound,
                            .path = mr_op_child_path(head->path, 0),
                            .epoch = head->epoch,
                            .stream = head->stream,
                            .part = head->part,
                            .outermost = it->kept != NULL,
                            .places = head->places};

    return mr_op_open(&ctx, head->ds->inputs[0], &it->input, err);
}

static int cache_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct cache_iter *it = (struct cache_iter *)head;
    uint64_t flags = (it->input != NULL ? READING : 0) | (it->failed ? FAILED : 0) |
                     (it->block != NULL ? WAITING : 0) | (it->has_block ? HAS_BLOCK : 0);

    MR_TRY(mr_state_bounded(s, &flags, READING | FAILED | WAITING | HAS_BLOCK, err));
    if (s->restores) {
        it->failed = (flags & FAILED) != 0;
        it->has_block = (flags & (WAITING | HAS_BLOCK)) == (WAITING | HAS_BLOCK);
        mr_gather_clear(&it->rows);
        mr_gather_clear(&it->left);
        if ((flags & READING) != 0 && it->input == NULL) {
            MR_TRY(open_again(it, err)); /* there is a complete pass here, but not there */
        }
    }
    MR_TRY(mr_gather_state(&it->rows, head->ds->spec, s, err));
    MR_TRY(s->restores ? recharge(it, NULL, err) : MR_OK);
    if ((flags & WAITING) != 0) {
        MR_TRY(mr_state_rest(s, &it->block, &it->used, head->ds->spec, err));
        MR_TRY(it->block != NULL ? MR_OK : mr_state_damaged(err));
    }
    if ((flags & READING) != 0) {
        return mr_op_state(it->input, s, err);
    }
    return s->restores ? go_on_reading(it, err) : MR_OK;
}

static void cache_close(struct mr_op_iter *head)
{
    struct cache_iter *it = (struct cache_iter *)head;

    mr_op_close(it->input);
    mr_block_unref(it->block);
    mr_env_release(head->env, it->charged);
    mr_env_release(head->env, it->names);
    mr_gather_free(&it->rows);
    mr_gather_free(&it->left);
}

const struct mr_operator mr_operator_cache = {
    .name = "cache",
    .inputs = 1,
    .infer = cache_infer,
    .release = kept_free,
    .run = MR_RUN(struct cache_iter, .open = cache_open, .pull = cache_pull, .state = cache_state,
                  .close = cache_close),
};
