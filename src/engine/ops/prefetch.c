/* prefetch: a thread pulls upstream while the consumer is busy. What is ready waits in a queue: at
 * most `buffer_size` elements, or, if that is automatic, as many blocks as it takes for the
 * consumer not to find the queue empty. */
#include "base/clock.h"
#include "engine/driver.h"
#include "engine/ops/ops.h"

#define AUTOMATIC_MIN 2u
#define AUTOMATIC_MAX 32u

struct entry {
    struct entry *next;
    mr_block *block; /* NULL: an error */
    int rc;
    mr_error err;
    size_t charged;
};

struct prefetch_iter {
    struct mr_op_iter head;
    struct mr_op_iter *input;
    struct mr_driver driver;
    uint32_t threads;  /* 1; 0: none was left, and nothing is pulled ahead */
    uint64_t rows_max; /* 0: automatic */
    /* all below guarded by driver.lock */
    struct entry *first;
    struct entry **last;
    uint64_t rows;
    uint32_t blocks;
    uint32_t blocks_max;
    uint32_t demand;
    bool pulling;
    bool ended;
};

/* The queue has what is counted, and `last` is where the next entry goes. */
static bool queue_is_sound_locked(const struct prefetch_iter *it)
{
    struct entry *const *at = &it->first;
    uint64_t rows = 0;
    uint32_t blocks = 0;

    for (; *at != NULL; at = &(*at)->next) {
        rows += (*at)->block != NULL ? mr_block_rows((*at)->block) : 0;
        blocks++;
    }
    return at == it->last && rows == it->rows && blocks == it->blocks;
}

static void *take_work(void *ctx)
{
    struct prefetch_iter *it = ctx;
    bool full = it->rows_max > 0 ? it->rows >= it->rows_max : it->blocks >= it->blocks_max;

    MR_CHECK_MAGIC(&it->head, MR_OP_MAGIC);
    if (it->ended || it->pulling || full) {
        return NULL;
    }
    it->pulling = true;
    return it;
}

static void push_locked(struct prefetch_iter *it, struct entry *e)
{
    e->next = NULL;
    *it->last = e;
    it->last = &e->next;
    it->blocks++;
    it->rows += e->block != NULL ? mr_block_rows(e->block) : 0;
    MR_ASSERT_SLOW(queue_is_sound_locked(it));
}

static void pull_block(void *ctx, void *work)
{
    struct prefetch_iter *it = ctx;
    struct mr_pull pull = {.bytes = MR_BLOCK_BYTES_HINT,
                           .deadline_ms = MR_NO_DEADLINE,
                           .interrupt = &it->driver.interrupt};
    struct entry *e = mr_calloc(1, sizeof *e);
    int64_t begin = mr_now_ns();
    int rc = MR_OK;

    mr_mutex_lock(&it->driver.lock);
    pull.rows = it->demand;
    if (it->rows_max > 0 && it->rows_max - it->rows < pull.rows) {
        pull.rows = (uint32_t)(it->rows_max - it->rows);
    }
    mr_mutex_unlock(&it->driver.lock);
    if (e != NULL) {
        rc = mr_op_pull(it->input, &pull, &e->block, &e->err);
    }
    int64_t ns = mr_now_ns() - begin;

    MR_LOCK(&it->driver.lock);
    MR_ASSERT(it->pulling);
    it->pulling = false;
    if (e == NULL) {
        /* Nothing was pulled and nothing is lost: the consumer finds the queue empty and asks
         * again. */
        it->demand = 1;
    } else if (rc == MR_OK) {
        uint32_t rows = mr_block_rows(e->block);
        size_t bytes = mr_block_row_bytes(e->block, 0, rows);

        if (mr_env_charge_ahead(it->head.env, bytes)) {
            e->charged = bytes;
        } else {
            it->blocks_max = 1; /* what we size ourselves gives way */
        }
        if (pull.rows == it->demand) {
            it->demand = mr_driver_next_demand(it->demand, rows, bytes, ns);
        }
        push_locked(it, e);
        e = NULL;
    } else if (rc == MR_END) {
        it->ended = true;
    } else if (rc < 0 && rc != MR_ECANCELED) {
        e->rc = rc;
        push_locked(it, e);
        e = NULL;
    }
    mr_free(e);
    mr_driver_changed_locked(&it->driver);
}

static int prefetch_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)head;
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);
    int64_t size = 0;

    MR_TRY(mr_op_int(head, "buffer_size", -1, &size, err));
    mr_driver_init(&it->driver, head->env, take_work, pull_block, it);
    it->threads = mr_env_take_threads(head->env, 1);
    it->rows_max = size > 0 ? (uint64_t)size : 0;
    it->blocks_max = AUTOMATIC_MIN;
    it->demand = 1;
    it->last = &it->first;
    return mr_op_open(&below, head->ds->inputs[0], &it->input, err);
}

static void pop_locked(struct prefetch_iter *it)
{
    struct entry *e = it->first;

    it->first = e->next;
    if (it->first == NULL) {
        it->last = &it->first;
    }
    it->blocks--;
    mr_env_release(it->head.env, e->charged);
    mr_block_unref(e->block);
    mr_free(e);
}

/* From the first entry of the queue. */
static int give_locked(struct prefetch_iter *it, uint32_t rows_max, mr_block **ret, mr_error *err)
{
    struct entry *e = it->first;
    MR_AUTO(mr_block_unref) mr_block *rest = NULL;

    if (e->block == NULL) {
        int rc = mr_error_pass(err, e->rc, &e->err);

        pop_locked(it);
        return rc;
    }
    uint32_t rows = mr_block_rows(e->block);
    if (rows <= rows_max) {
        *ret = mr_block_ref(e->block);
        it->rows -= rows;
        pop_locked(it);
        return MR_OK;
    }
    MR_TRY(mr_block_slice(e->block, rows_max, rows - rows_max, &rest, err));
    MR_TRY(mr_block_slice(e->block, 0, rows_max, ret, err));
    mr_block_unref(e->block);
    e->block = MR_TAKE(rest);
    it->rows -= rows_max;
    return MR_OK;
}

static int prefetch_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)head;
    bool waited = false;

    if (it->threads == 0 && it->first == NULL && !it->ended) {
        int rc = mr_op_pull(it->input, pull, ret, err);

        it->ended = rc == MR_END;
        return rc;
    }
    MR_TRY(it->threads > 0 ? mr_driver_start(&it->driver, it->threads, err) : MR_OK);
    MR_LOCK(&it->driver.lock);
    while (it->first == NULL && !it->ended) {
        MR_TRY(mr_driver_wait_locked(&it->driver, pull, err));
        waited = true;
    }
    if (it->first == NULL) {
        return MR_END;
    }
    if (waited && it->blocks_max < AUTOMATIC_MAX) {
        it->blocks_max++;
    }
    int rc = give_locked(it, pull->rows, ret, err);
    MR_ASSERT_SLOW(queue_is_sound_locked(it));
    mr_driver_changed_locked(&it->driver);
    return rc;
}

static int restore_entry(struct prefetch_iter *it, struct mr_state *s, mr_error *err)
{
    MR_AUTO(mr_free) struct entry *e = mr_calloc(1, sizeof *e);

    MR_CHECK_ALLOC(e, err);
    int rc = mr_state_block_or_error(s, &e->block, it->head.ds->spec, &e->rc, &e->err, err);
    if (rc != MR_OK) {
        mr_block_unref(e->block);
        return rc;
    }
    push_locked(it, MR_TAKE(e));
    return MR_OK;
}

/* The threads are paused, or have not begun: nobody else looks at the queue. */
static int all_state(struct prefetch_iter *it, struct mr_state *s, mr_error *err)
{
    struct entry *e = it->first;
    uint64_t entries = it->blocks;

    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_count(s, &entries, err));
    for (uint64_t i = 0; i < entries && s->restores; i++) {
        MR_TRY(restore_entry(it, s, err));
    }
    for (; e != NULL && !s->restores; e = e->next) {
        MR_TRY(mr_state_block_or_error(s, &e->block, NULL, &e->rc, &e->err, err));
    }
    return mr_op_state(it->input, s, err);
}

static int prefetch_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct prefetch_iter *it = (struct prefetch_iter *)head;
    int rc = s->restores ? MR_OK : mr_driver_pause(&it->driver, err);

    rc = rc == MR_OK ? all_state(it, s, err) : rc;
    if (!s->restores) {
        mr_driver_resume(&it->driver);
    }
    return rc;
}

static void prefetch_close(struct mr_op_iter *head)
{
    struct prefetch_iter *it = (struct prefetch_iter *)head;

    if (it->driver.env != NULL) {
        mr_driver_stop(&it->driver);
        while (it->first != NULL) {
            pop_locked(it); /* no thread is left to lock out */
        }
        mr_driver_destroy(&it->driver);
    }
    mr_env_give_threads(head->env, it->threads);
    mr_op_close(it->input);
}

const struct mr_operator mr_operator_prefetch = {
    .name = "prefetch",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_OPTIONAL_INT("buffer_size", -1, INT64_MAX)),
    .infer = mr_infer_same,
    .run = MR_RUN(struct prefetch_iter, .open = prefetch_open, .pull = prefetch_pull,
                  .state = prefetch_state, .close = prefetch_close),
};
