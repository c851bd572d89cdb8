#include "engine/ahead.h"

#include "base/clock.h"
#include "dataset/graph.h"
#include "engine/state.h"

#define AUTOMATIC_MIN 2u
#define AUTOMATIC_MAX 8u
/* What is made so quickly, and is no larger than a block, costs less than to be handed over. */
#define QUICK_NS MR_NS_PER_MS
/* So many calls in turn that are not quick are no interruptions of the machine. */
#define SLOW_CALLS 2u
#define DISTANCE_BYTES ((size_t)4 << 20)
#define DISTANCE_NS (8 * MR_NS_PER_MS)
/* So many blocks are enough for either: of few bytes each, what stands around them counts. */
#define SMALL_BLOCKS_MAX 256u

struct mr_ahead_entry {
    struct mr_ahead_entry *next;
    mr_block *block; /* NULL: an error */
    int rc;
    mr_error err;
    size_t charged;
    size_t bytes;
    int64_t ns; /* it took to make */
};

/* The queue has what is counted, and `last` is where the next entry goes. */
static bool queue_is_sound_locked(const struct mr_ahead *a)
{
    struct mr_ahead_entry *const *at = &a->first;
    uint64_t rows = 0;
    uint32_t blocks = 0;
    uint32_t errors = 0;

    for (; *at != NULL; at = &(*at)->next) {
        rows += (*at)->block != NULL ? mr_block_rows((*at)->block) : 0;
        errors += (*at)->block == NULL;
        blocks++;
    }
    return at == a->last && rows == a->rows && blocks == a->blocks && errors == a->errors;
}

/* How many elements there is room for, of so many at most. */
static uint32_t rows_left_locked(const struct mr_ahead *a)
{
    bool quick = a->blocks_max > 1 && a->bytes < DISTANCE_BYTES && a->ns < QUICK_NS &&
                 a->blocks < SMALL_BLOCKS_MAX;

    if (a->rows_max == 0 || quick) {
        return a->demand;
    }
    return a->rows < a->rows_max ? (uint32_t)MR_MIN(a->rows_max - a->rows, a->demand) : 0;
}

/* What was written just now lies in the cache of the core that wrote it, and comes from there to
 * another one several times slower than from memory: 0.4 ns a byte with 128 KiB between the two,
 * 0.1 with some MiB. So what is made quickly is handed over with that distance. */
static bool may_go_further_locked(const struct mr_ahead *a)
{
    return a->blocks_max > 1 && a->bytes < DISTANCE_BYTES && a->ns < DISTANCE_NS &&
           a->blocks < SMALL_BLOCKS_MAX;
}

/* An error takes no time and no room, and may be given for ever: it is taken before there is
 * more. */
static bool is_full_locked(const struct mr_ahead *a)
{
    if (a->errors > 0) {
        return true;
    }
    return a->rows_max > 0 ? rows_left_locked(a) == 0
                           : a->blocks >= a->blocks_max && !may_go_further_locked(a);
}

/* All that waits together: if one of some blocks took long, the next one like it may take longer
 * than a half of them lasts. */
static bool was_quickly_made_locked(const struct mr_ahead *a)
{
    return a->ns < (int64_t)a->blocks * QUICK_NS;
}

/* A full queue of what is quickly made gets half empty first: in elements, for all that waits may
 * be one block that the consumer takes bit by bit. */
static bool may_pull_locked(struct mr_ahead *a)
{
    if (a->ended || a->pulling || (a->full && a->rows > a->low)) {
        return false;
    }
    a->full = is_full_locked(a);
    if (a->full) {
        a->low = was_quickly_made_locked(a) ? a->rows / 2 : a->rows;
    }
    return !a->full;
}

static void *take_work(void *ctx)
{
    struct mr_ahead *a = ctx;

    MR_CHECK_MAGIC(a->input, MR_OP_MAGIC);
    if (!may_pull_locked(a)) {
        return NULL;
    }
    a->pulling = true;
    return a;
}

static void push_locked(struct mr_ahead *a, struct mr_ahead_entry *e)
{
    e->next = NULL;
    *a->last = e;
    a->last = &e->next;
    a->blocks++;
    a->errors += e->block == NULL;
    a->bytes += e->bytes;
    a->ns += e->ns;
    a->rows += e->block != NULL ? mr_block_rows(e->block) : 0;
    MR_ASSERT_SLOW(queue_is_sound_locked(a));
}

/* The block of @e is in the queue's account, and in the budget's. */
static void charge_locked(struct mr_ahead *a, struct mr_ahead_entry *e)
{
    e->bytes = mr_block_row_bytes(e->block, 0, mr_block_rows(e->block));
    if (mr_env_charge_ahead(a->driver.env, e->bytes)) {
        e->charged = e->bytes;
    } else {
        a->blocks_max = 1; /* what we size ourselves gives way */
    }
}

static void pull_block(void *ctx, void *work)
{
    struct mr_ahead *a = ctx;
    struct mr_pull pull = {.bytes = MR_BLOCK_BYTES_HINT,
                           .deadline_ms = MR_NO_DEADLINE,
                           .interrupt = &a->driver.interrupt};
    struct mr_ahead_entry *e = mr_calloc(1, sizeof *e);
    int64_t begin = mr_cpu_now_ns();
    int rc = MR_OK;

    mr_mutex_lock(&a->driver.lock);
    pull.rows = MR_MAX(rows_left_locked(a), 1);
    mr_mutex_unlock(&a->driver.lock);
    if (e != NULL) {
        rc = mr_op_pull(a->input, &pull, &e->block, &e->err);
    }
    int64_t ns = mr_cpu_now_ns() - begin;

    MR_LOCK(&a->driver.lock);
    MR_ASSERT(a->pulling);
    a->pulling = false;
    a->slow = ns < QUICK_NS ? 0 : a->slow + 1;
    if (e == NULL) {
        /* Nothing was pulled and nothing is lost: the consumer finds the queue empty and asks
         * again. */
        a->demand = 1;
    } else if (rc == MR_OK) {
        charge_locked(a, e);
        if (pull.rows == a->demand) {
            a->demand = mr_driver_next_demand(a->demand, mr_block_rows(e->block), e->bytes, ns);
        }
        e->ns = ns;
        push_locked(a, e);
        e = NULL;
    } else if (rc == MR_END) {
        a->ended = true;
    } else if (rc < 0 && !mr_driver_gave_up(&a->driver, rc)) {
        e->rc = rc;
        push_locked(a, e);
        e = NULL;
    }
    mr_free(e);
    mr_driver_changed_locked(&a->driver);
}

/* Datasets are shared and do not change; what is learned of one is no part of it. */
static atomic_uint_least32_t *outcome_of(const mr_dataset *ds)
{
    return &((mr_dataset *)(uintptr_t)ds)->trial_outcome;
}

bool mr_ahead_is_known(const mr_dataset *ds)
{
    return atomic_load_explicit(outcome_of(ds), memory_order_relaxed) != 0;
}

void mr_ahead_init(struct mr_ahead *a, struct mr_env *env, const mr_dataset *ds,
                   struct mr_op_iter *input, uint64_t rows_max)
{
    *a = (struct mr_ahead){.input = input,
                           .outcome = outcome_of(ds),
                           .threads = mr_env_take_threads(env, 1),
                           .rows_max = rows_max,
                           .blocks_max = AUTOMATIC_MIN,
                           .demand = 1};
    a->last = &a->first;
    uint32_t outcome = atomic_load_explicit(a->outcome, memory_order_relaxed);
    if (outcome != 0) {
        mr_trial_resume(&a->trial, outcome);
        atomic_store_explicit(a->outcome, mr_trial_outcome(&a->trial), memory_order_relaxed);
    }
    mr_driver_init(&a->driver, env, ds, take_work, pull_block, a);
}

static void pop_locked(struct mr_ahead *a)
{
    struct mr_ahead_entry *e = a->first;

    a->first = e->next;
    if (a->first == NULL) {
        a->last = &a->first;
    }
    a->blocks--;
    a->errors -= e->block == NULL;
    a->bytes -= e->bytes;
    a->ns -= e->ns;
    mr_env_release(a->driver.env, e->charged);
    mr_block_unref(e->block);
    mr_free(e);
}

/* From the first entry of the queue. */
static int give_locked(struct mr_ahead *a, uint32_t rows_max, mr_block **ret, mr_error *err)
{
    struct mr_ahead_entry *e = a->first;
    MR_AUTO(mr_block_unref) mr_block *rest = NULL;

    if (e->block == NULL) {
        int rc = mr_error_pass(err, e->rc, &e->err);

        pop_locked(a);
        return rc;
    }
    uint32_t rows = mr_block_rows(e->block);
    if (rows <= rows_max) {
        *ret = mr_block_ref(e->block);
        a->rows -= rows;
        pop_locked(a);
        return MR_OK;
    }
    MR_TRY(mr_block_slice(e->block, rows_max, rows - rows_max, &rest, err));
    MR_TRY(mr_block_slice(e->block, 0, rows_max, ret, err));
    mr_block_unref(e->block);
    e->block = MR_TAKE(rest);
    a->rows -= rows_max;
    return MR_OK;
}

/* The thread does not pull, and what it has pulled was given. */
static int pull_in_place(struct mr_ahead *a, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    int64_t begin = mr_cpu_now_ns();
    int rc = mr_op_pull(a->input, pull, ret, err);

    a->ended = rc == MR_END;
    a->slow = mr_cpu_now_ns() - begin < QUICK_NS ? 0 : a->slow + 1;
    a->quick = a->slow < SLOW_CALLS;
    return rc;
}

/* Work in the way that the trial has found, or tries. */
static int follow_trial(struct mr_ahead *a, mr_error *err)
{
    if (a->in_place && !a->quick) { /* work for a thread, as it was not before */
        a->trial = (struct mr_trial){0};
    }
    if (a->trial.second == a->in_place) {
        return MR_OK;
    }
    if (a->in_place) {
        mr_driver_resume(&a->driver);
    } else {
        MR_TRY(mr_driver_pause(&a->driver, err));
    }
    a->in_place = !a->in_place;
    return MR_OK;
}

static int pull_once(struct mr_ahead *a, const struct mr_pull *pull, mr_block **ret, mr_error *err)
{
    bool waited = false;

    if ((a->threads == 0 || a->in_place) && a->first == NULL && !a->ended) {
        return pull_in_place(a, pull, ret, err);
    }
    MR_TRY(a->threads > 0 ? mr_driver_start(&a->driver, a->threads, err) : MR_OK);
    MR_LOCK(&a->driver.lock);
    while (a->first == NULL && !a->ended) {
        MR_TRY(mr_driver_wait_locked(&a->driver, pull, err));
        waited = true;
    }
    if (a->first == NULL) {
        return MR_END;
    }
    if (waited && a->blocks_max < AUTOMATIC_MAX) {
        a->blocks_max++;
    }
    a->quick = a->slow < SLOW_CALLS;
    int rc = give_locked(a, pull->rows, ret, err);
    MR_ASSERT_SLOW(queue_is_sound_locked(a));
    if (may_pull_locked(a)) {
        mr_driver_changed_locked(&a->driver);
    }
    return rc;
}

int mr_ahead_pull(struct mr_ahead *a, const struct mr_pull *pull, mr_block **ret, mr_error *err)
{
    MR_TRY(follow_trial(a, err));
    int rc = pull_once(a, pull, ret, err);

    if (rc == MR_OK && a->threads > 0 && a->quick && !a->unusual) {
        (void)mr_trial_note(&a->trial, mr_now_ns(), mr_block_rows(*ret));
        if (a->trial.phase == MR_TRIAL_RESTING && a->trial.calls == 0) { /* it has chosen */
            atomic_store_explicit(a->outcome, mr_trial_outcome(&a->trial), memory_order_relaxed);
        }
    }
    return rc;
}

static int restore_entry(struct mr_ahead *a, struct mr_state *s, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_ahead_entry *e = mr_calloc(1, sizeof *e);

    MR_CHECK_ALLOC(e, err);
    int rc = mr_state_block_or_error(s, &e->block, a->input->ds->spec, &e->rc, &e->err, err);
    if (rc != MR_OK) {
        mr_block_unref(e->block);
        return rc;
    }
    if (e->block != NULL) {
        charge_locked(a, e);
    }
    push_locked(a, MR_TAKE(e));
    return MR_OK;
}

/* The threads are paused, or have not begun: nobody else looks at the queue. */
static int all_state(struct mr_ahead *a, struct mr_state *s, mr_error *err)
{
    struct mr_ahead_entry *e = a->first;
    uint64_t entries = a->blocks;

    MR_TRY(mr_state_bool(s, &a->ended, err));
    MR_TRY(mr_state_count(s, &entries, err));
    for (uint64_t i = 0; i < entries && s->restores; i++) {
        MR_TRY(restore_entry(a, s, err));
    }
    for (; e != NULL && !s->restores; e = e->next) {
        MR_TRY(mr_state_block_or_error(s, &e->block, NULL, &e->rc, &e->err, err));
    }
    return mr_op_state(a->input, s, err);
}

int mr_ahead_state(struct mr_ahead *a, struct mr_state *s, mr_error *err)
{
    bool pauses = !s->restores && !a->in_place;
    int rc = pauses ? mr_driver_pause(&a->driver, err) : MR_OK;

    rc = rc == MR_OK ? all_state(a, s, err) : rc;
    if (pauses) {
        mr_driver_resume(&a->driver);
    }
    return rc;
}

void mr_ahead_close(struct mr_ahead *a)
{
    if (a->driver.env == NULL) {
        return;
    }
    mr_driver_stop(&a->driver);
    while (a->first != NULL) {
        pop_locked(a); /* no thread is left to lock out */
    }
    mr_env_give_threads(a->driver.env, a->threads);
    mr_driver_destroy(&a->driver);
    mr_op_close(a->input);
}
