/*
 * interleave: a cycle of open datasets, `block_length` elements from each in turn. flat_map is a
 * cycle of one.
 *
 * The rule (tf.data's): look at the place in the cycle. If a dataset is open there, take its next
 * element, and go to the next place after block_length of them; if it has ended, close it and go to
 * the next place. If none is open, open the next element of the input there, or, after the last
 * one, go to the next place.
 *
 * With num_parallel_calls threads of its own pull the open datasets ahead, each into a queue; the
 * order stays the same. deterministic=False takes from whichever dataset has something.
 *
 * All work on places (opening, closing) is the consumer's; threads only pull what is open. A place
 * that a thread is busy with is left alone until it is done.
 */
#include "engine/gather.h"
#include "engine/ops/place.h"

#define AUTOMATIC_MIN 16

struct interleave_iter {
    struct mr_op_iter head;
    struct mr_expander expander;
    struct mr_driver driver;
    uint32_t threads; /* 0: none */
    bool ordered;
    struct mr_place *places;
    uint32_t cycle;
    uint64_t block_length;
    uint32_t at;     /* the place in the cycle */
    uint64_t left;   /* elements to take here before going on */
    uint32_t open;   /* places with a dataset */
    uint32_t opened; /* places that were opened a first time */
    uint32_t turn;   /* where a thread looks first; guarded by driver.lock */
    bool input_ended;
    /* what place number `opened` was to be opened with has; told when its turn comes. MR_OK: it
     * has not */
    int failed;
    mr_error failure;
    struct mr_gather gather; /* taken, not given: empty between pulls unless ranks differ */
};

static int interleave_infer(struct mr_infer *in, mr_error *err)
{
    in->spec = mr_spec_ref(in->functions[0]->spec);
    int64_t outer = in->inputs[0]->cardinality;
    int64_t inner = in->functions[0]->dataset->cardinality;
    bool constant;
    int64_t known = mr_infer_int(in, "cardinality", MR_CARDINALITY_UNKNOWN, &constant);
    if (known >= 0) {
        in->cardinality = known;
    } else if (outer == 0) {
        in->cardinality = 0;
    } else if (inner == MR_CARDINALITY_INFINITE || outer == MR_CARDINALITY_INFINITE) {
        in->cardinality = inner == MR_CARDINALITY_INFINITE || inner > 0 ? MR_CARDINALITY_INFINITE
                                                                        : MR_CARDINALITY_UNKNOWN;
    } else if (outer > 0 && inner >= 0) {
        in->cardinality = mr_cardinality_mul(inner, outer);
    }
    return MR_OK;
}

/* ---- the threads ---- */

static void *take_work(void *ctx)
{
    struct interleave_iter *it = ctx;

    for (uint32_t i = 0; i < it->cycle; i++) {
        struct mr_place *p = &it->places[(it->turn + i) % it->cycle];

        MR_CHECK_MAGIC(&it->head, MR_OP_MAGIC);
        if (mr_place_can_pull_locked(p)) {
            p->busy = true;
            it->turn = (uint32_t)(p - it->places) + 1;
            return p;
        }
    }
    return NULL;
}

static void pull_place(void *ctx, void *work)
{
    struct interleave_iter *it = ctx;

    mr_place_pull(work, &it->driver);
}

/* ---- open ---- */

/* As many threads as calls at once are wanted. mr.AUTOTUNE: what reads files waits more than it
 * computes. */
static uint32_t threads_wanted(const struct mr_env *env, uint32_t cycle, int64_t calls)
{
    int64_t automatic = MR_MAX(env->threads, AUTOMATIC_MIN);
    int64_t wanted = calls < 0 ? automatic : calls;

    return wanted < cycle ? (uint32_t)wanted : cycle;
}

static int open_cycle(struct interleave_iter *it, const struct mr_op_ctx *ctx, uint32_t cycle,
                      uint64_t block_length, int64_t calls, mr_error *err)
{
    it->cycle = cycle;
    it->block_length = block_length;
    it->left = block_length;
    it->head.waiting = &it->gather.rows;
    it->threads = mr_env_take_threads(it->head.env, threads_wanted(it->head.env, cycle, calls));
    it->places = mr_calloc(cycle, sizeof *it->places);
    MR_CHECK_ALLOC(it->places, err);
    MR_TRY(mr_expander_init(&it->expander, &it->head, ctx, err));
    if (it->threads > 0) {
        mr_driver_init(&it->driver, it->head.env, it->head.ds, take_work, pull_place, it);
    }
    return MR_OK;
}

static int interleave_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)head;
    int64_t cycle = 0;
    int64_t block_length = 0;
    int64_t calls = 0;

    it->ordered = mr_op_bool(head, "deterministic", true);
    MR_TRY(mr_op_int(head, "cycle_length", 16, &cycle, err));
    MR_TRY(mr_op_int(head, "block_length", 1, &block_length, err));
    MR_TRY(mr_op_int(head, "num_parallel_calls", 0, &calls, err));
    return open_cycle(it, ctx, (uint32_t)cycle, (uint64_t)block_length, calls, err);
}

static int flat_map_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)head;

    it->ordered = true;
    return open_cycle(it, ctx, 1, UINT64_MAX, 0, err);
}

/* ---- pull ---- */

static void advance(struct interleave_iter *it)
{
    it->at = it->at + 1 == it->cycle ? 0 : it->at + 1;
    it->left = it->block_length;
}

/* @rows elements came from the place in the cycle. */
static void take_turn(struct interleave_iter *it, uint32_t rows)
{
    it->left -= it->left != UINT64_MAX ? rows : 0;
    if (it->left == 0) {
        advance(it);
    }
}

static void lock(struct interleave_iter *it)
{
    if (it->threads > 0) {
        mr_mutex_lock(&it->driver.lock);
    }
}

static void unlock(struct interleave_iter *it)
{
    if (it->threads > 0) {
        mr_mutex_unlock(&it->driver.lock);
    }
}

/* The dataset at @p has ended: nobody pulls it any more. */
static void close_place(struct interleave_iter *it, struct mr_place *p)
{
    struct mr_op_iter *inner = p->inner;

    lock(it);
    p->inner = NULL;
    p->ended = false;
    unlock(it);
    mr_op_close(inner);
    it->open--;
}

static int open_place(struct interleave_iter *it, struct mr_place *p, const struct mr_pull *pull,
                      mr_error *err)
{
    struct mr_op_iter *inner = NULL;
    int failed = it->failed;

    if (failed != MR_OK) { /* all places before it have had their first turn */
        it->failed = MR_OK;
        *err = it->failure;
        return failed;
    }
    struct mr_pull one = it->gather.rows > 0 ? mr_pull_more(pull, 1) : *pull;
    int rc = mr_expander_next(&it->expander, &one, &inner, err);

    if (rc == MR_END) {
        it->input_ended = true;
        return MR_OK;
    }
    if (it->expander.expansion->fn->dataset->cardinality != 1) {
        mr_op_mark_uncounted(rc, err);
    }
    if (rc != MR_OK) {
        return rc;
    }
    lock(it);
    p->inner = inner;
    p->ended = false;
    p->demand = 1;
    if (it->threads > 0) {
        mr_driver_changed_locked(&it->driver);
    }
    unlock(it);
    it->open++;
    it->left = it->block_length;
    return MR_OK;
}

/* As mr_place_pop_locked(); a thread may fill what became free. */
static int pop_locked(struct interleave_iter *it, struct mr_place *p, mr_error *err)
{
    bool taken = p->queued > 0;
    int rc = mr_place_pop_locked(p, err);

    if (taken && it->threads > 0) {
        mr_driver_changed_locked(&it->driver);
    }
    return rc;
}

/* deterministic=False: any place that has something, this one first. */
static void go_where_something_is_locked(struct interleave_iter *it)
{
    for (uint32_t i = 0; i < it->cycle; i++) {
        uint32_t at = (it->at + i) % it->cycle;
        const struct mr_place *p = &it->places[at];

        if (p->inner != NULL && (p->queued > 0 || p->ended || p->block != NULL)) {
            if (i > 0) {
                it->at = at;
                it->left = it->block_length;
            }
            return;
        }
    }
}

/* A block for the place in the cycle (which may move, unless the order counts). As mr_op_pull(). */
static int fetch_parallel(struct interleave_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_pull wait = it->gather.rows > 0 ? mr_pull_more(pull, 1) : *pull;

    MR_TRY(mr_driver_start(&it->driver, it->threads, err));
    MR_LOCK(&it->driver.lock);
    for (;;) {
        if (!it->ordered) {
            go_where_something_is_locked(it);
        }
        struct mr_place *p = &it->places[it->at];
        if (p->block != NULL) {
            return MR_OK;
        }
        int rc = pop_locked(it, p, err);
        if (rc != MR_TIMEOUT) {
            return rc;
        }
        MR_TRY(mr_driver_wait_locked(&it->driver, &wait, err));
    }
}

static int fetch_in_place(struct interleave_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_place *p = &it->places[it->at];
    uint32_t left = pull->rows - (uint32_t)it->gather.rows;
    int rc = pop_locked(it, p, err); /* a restored state may have come from threads */

    if (rc != MR_TIMEOUT) {
        return rc;
    }
    /* What this turn takes, or, where turns are short, this place's share of what is asked for. */
    uint32_t among = it->input_ended ? it->open : it->cycle;
    uint64_t share = (left + among - 1) / among;
    uint64_t turn = MR_MIN(it->left, left);
    uint64_t rows = MR_MAX(share, turn);
    struct mr_pull below =
        it->gather.rows > 0 ? mr_pull_more(pull, rows) : mr_pull_rows(pull, rows);
    rc = mr_op_pull(p->inner, &below, &p->block, err);
    p->used = 0;
    return rc;
}

/* Move on by one step: take rows, or close, open, go on. MR_END: it is over. */
static int step(struct interleave_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_place *p = &it->places[it->at];
    int rc = MR_OK;

    if (p->inner == NULL) {
        if (!it->input_ended) {
            rc = open_place(it, p, pull, err);
            it->opened += rc == MR_OK && !it->input_ended && it->opened == it->at;
            return rc;
        }
        if (it->open == 0) {
            return MR_END;
        }
        advance(it);
        return MR_OK;
    }
    if (p->block == NULL) {
        rc = it->threads > 0 ? fetch_parallel(it, pull, err) : fetch_in_place(it, pull, err);
        p = &it->places[it->at];
        if (rc == MR_END) {
            close_place(it, p);
            advance(it);
            return MR_OK;
        }
        if (rc < 0 && mr_op_element_failed(rc, err)) {
            take_turn(it, 1); /* with an error */
        }
        if (rc != MR_OK) {
            return rc;
        }
    }
    uint32_t rows = mr_block_rows(p->block) - p->used;
    uint32_t room = pull->rows - (uint32_t)it->gather.rows;
    rows = MR_MIN(rows, room);
    rows = rows < it->left ? rows : (uint32_t)it->left;
    MR_TRY(mr_gather_add(&it->gather, p->block, p->used, rows, err));
    p->used += rows;
    if (p->used == mr_block_rows(p->block)) {
        mr_block_unref(p->block);
        p->block = NULL;
    }
    take_turn(it, rows);
    return MR_OK;
}

/* Threads have something to do only where a dataset is open. In its first round the cycle takes the
 * elements of the input in order, one a place, whatever they hold: so they can be opened at once.
 */
static int open_first_round(struct interleave_iter *it, const struct mr_pull *pull, mr_error *err)
{
    int rc = MR_OK;

    while (rc == MR_OK && it->opened < it->cycle && !it->input_ended) {
        struct mr_pull one = it->opened > 0 ? mr_pull_more(pull, 1) : *pull;
        uint64_t left = it->left;

        rc = open_place(it, &it->places[it->opened], &one, err);
        it->left = left;
        it->opened += rc == MR_OK && !it->input_ended;
    }
    if (rc < 0 && !mr_driver_gave_up(&it->driver, rc) && it->opened > 0) {
        it->failed = rc;
        it->failure = *err;
        rc = MR_OK;
    }
    return rc == MR_TIMEOUT && it->opened > 0 ? MR_OK : rc;
}

static int interleave_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                           mr_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)head;
    mr_error failure;
    int rc = MR_OK;

    if (it->threads > 0 && it->opened < it->cycle && !it->input_ended && it->failed == MR_OK &&
        it->gather.rows == 0) {
        MR_TRY(open_first_round(it, pull, err));
    }
    while (rc == MR_OK && head->deferred == MR_OK && it->gather.rows < pull->rows &&
           it->gather.bytes < pull->bytes) {
        rc = mr_op_interrupted(head, pull, &failure);
        if (rc == MR_OK) {
            rc = step(it, pull, &failure);
        }
    }
    return mr_op_give(head, pull, &it->gather, rc, &failure, ret, err);
}

/* ---- state ---- */

static int all_state(struct interleave_iter *it, struct mr_state *s, mr_error *err)
{
    const mr_spec *spec = it->head.ds->spec;

    MR_TRY(mr_state_u32(s, &it->at, it->cycle - 1, err));
    MR_TRY(mr_state_u64(s, &it->left, err));
    MR_TRY(mr_state_ending(s, &it->input_ended, NULL, 0, &it->failed, &it->failure, err));
    MR_TRY(mr_state_u32(s, &it->opened, it->cycle, err));
    if (it->left == 0 || it->left > it->block_length) {
        return mr_state_damaged(err);
    }
    MR_TRY(mr_gather_state(&it->gather, spec, s, err));
    for (uint32_t i = 0; i < it->cycle; i++) {
        MR_TRY(mr_place_state(&it->places[i], spec, &it->expander, s, err));
        it->open += s->restores && it->places[i].inner != NULL;
    }
    return mr_expander_state(&it->expander, s, err);
}

static int interleave_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct interleave_iter *it = (struct interleave_iter *)head;
    bool pauses = it->threads > 0 && !s->restores;
    int rc = pauses ? mr_driver_pause(&it->driver, err) : MR_OK;

    rc = rc == MR_OK ? all_state(it, s, err) : rc;
    if (pauses) {
        mr_driver_resume(&it->driver);
    }
    return rc;
}

static void interleave_close(struct mr_op_iter *head)
{
    struct interleave_iter *it = (struct interleave_iter *)head;

    if (it->threads > 0 && it->driver.env != NULL) {
        mr_driver_stop(&it->driver);
        mr_driver_destroy(&it->driver);
    }
    for (uint32_t i = 0; it->places != NULL && i < it->cycle; i++) {
        mr_place_free(&it->places[i]);
    }
    mr_env_give_threads(it->head.env, it->threads);
    mr_gather_free(&it->gather);
    mr_free(it->places);
    mr_expander_free(&it->expander);
}

const struct mr_operator mr_operator_interleave = {
    .name = "interleave",
    .inputs = 1,
    .function = MR_FUNCTION_DATASET,
    .args = MR_ARGS(
        MR_OPTIONAL_INT("cycle_length", 1, 4096), MR_OPTIONAL_INT("block_length", 1, INT64_MAX),
        MR_OPTIONAL_INT("num_parallel_calls", -1, 4096), MR_OPTIONAL_BOOL("deterministic"),
        MR_INT_FLAGS("cardinality", 0, INT64_MAX, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)),
    .infer = interleave_infer,
    .run = MR_RUN(struct interleave_iter, .open = interleave_open, .pull = interleave_pull,
                  .state = interleave_state, .close = interleave_close),
};

const struct mr_operator mr_operator_flat_map = {
    .name = "flat_map",
    .inputs = 1,
    .function = MR_FUNCTION_DATASET,
    .infer = interleave_infer,
    .run = MR_RUN(struct interleave_iter, .open = flat_map_open, .pull = interleave_pull,
                  .state = interleave_state, .close = interleave_close),
};
