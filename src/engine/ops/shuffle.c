/*
 * shuffle: elements in the order of random draws from a buffer that is kept full.
 *
 * The order is a function of (seed, epoch) alone: draw number i is Philox4x32-10 of (seed; i,
 * epoch), whatever the sizes of the blocks. An epoch is a pass over the data; with
 * reshuffle_each_iteration=False all epochs are 0, and what has no seed takes it from its
 * fingerprint: what is skipped in one pipeline is what another one takes.
 *
 * Where each element becomes a dataset further on (file names) and splits are shared among workers,
 * the buffer holds no more than the range at hand: filling it to the brim would take all files away
 * from the others.
 *
 * A block leaves when it is full or when the input has no more ready; what was drawn for it and
 * cannot go along (a tensor of another rank) waits for the next one.
 */
#include "engine/ahead.h"
#include "engine/ops/ops.h"
#include "engine/pace.h"
#include "engine/rows.h"

#include <Random123/philox.h>

struct shuffle_iter {
    struct mr_op_iter head;
    struct mr_rows rows;
    struct mr_rows_log log; /* what it knows */
    uint64_t size;
    uint64_t seed;
    uint64_t epoch;
    uint64_t draws;
    mr_block *pending; /* rows from `used` on come next */
    uint32_t used;
    struct mr_rows_out out; /* drawn, not given */
    struct mr_ahead ahead;  /* pulls the input while rows are drawn, if `overlaps` */
    bool overlaps;
    bool may_overlap; /* if its elements take long to make */
    struct mr_pace pace;
    bool frugal; /* hold no more than the range at hand */
    bool ended;
};

static int check_size(int64_t size, mr_error *err)
{
    if (size > 0 || size == MR_CARDINALITY_UNKNOWN) {
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EINVAL,
        "argument 'buffer_size' is %lld, it must be at least 1, or %d (unknown) for all elements",
        (long long)size, MR_CARDINALITY_UNKNOWN);
}

static int shuffle_infer(struct mr_infer *in, mr_error *err)
{
    bool known;

    MR_TRY(check_size(mr_infer_int(in, "buffer_size", 1, &known), err));
    return mr_infer_same(in, err);
}

/* From here on a thread of its own pulls the input. */
static void overlap(struct shuffle_iter *it)
{
    mr_ahead_init(&it->ahead, it->head.env, it->head.ds, it->head.input, 0 /* automatic */);
    it->head.input = NULL;
    it->overlaps = true;
}

static int pull_input(struct shuffle_iter *it, const struct mr_pull *pull, mr_error *err)
{
    if (it->overlaps) {
        it->ahead.unusual = it->draws == 0; /* the buffer is filled for the first time */
        return mr_ahead_pull(&it->ahead, pull, &it->pending, err);
    }
    int64_t begin = it->may_overlap ? mr_cpu_now_ns() : 0;
    MR_TRY(mr_op_pull(it->head.input, pull, &it->pending, err));
    if (it->may_overlap) {
        size_t bytes = mr_block_row_bytes(it->pending, 0, mr_block_rows(it->pending));

        /* mr_ahead keeps some distance, with which it costs a quarter, and finds out whether it
         * pays. */
        if (mr_pace_is_slow(&it->pace, bytes, bytes / 4, mr_cpu_now_ns() - begin, 0)) {
            overlap(it);
        }
    }
    return MR_OK;
}

static int shuffle_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)head;
    bool seeded = mr_attr_find(head->ds->attrs, head->ds->nattrs, "seed") != NULL;
    int64_t size = 0;
    int64_t seed = 0;

    MR_TRY(mr_op_int(head, "buffer_size", 1, &size, err));
    if (check_size(size, err) != MR_OK) {
        return mr_op_fail_at_open(head, MR_EINVAL, err);
    }
    MR_TRY(mr_op_int(head, "seed", 0, &seed, err));
    it->size = size < 0 ? INT64_MAX : (uint64_t)size;
    bool again = mr_op_bool(head, "reshuffle_each_iteration", true);
    it->seed = seeded ? (uint64_t)seed : again ? mr_op_seed(head) : mr_op_fixed_seed(head);
    it->epoch = again ? head->epoch : 0;
    it->frugal = ctx->outermost && ctx->env->has_splits && ctx->feeds_expansion;
    head->waiting = &it->out.n;
    head->uncounts = it->size > 1; /* one that fails is in no draw: others come in its turn */
    it->log.env = head->env;
    mr_rows_init(&it->rows, head->env, head->ds->spec, &it->log);
    MR_TRY(mr_op_open_input(head, ctx, err));
    /* A thread that reads ahead would run past a split, and takes no splits for others to lack. */
    it->may_overlap = ctx->ahead && ctx->outermost && !ctx->inside_split && !ctx->feeds_expansion &&
                      head->env->threads > 1;
    if (it->may_overlap && mr_ahead_is_known(head->ds)) {
        overlap(it);
    }
    return MR_OK;
}

/* Draw number @number, uniform in [0, n): the bias of the multiplication is below n / 2^64. */
static size_t draw(const struct shuffle_iter *it, uint64_t number, uint64_t n)
{
    philox4x32_ctr_t counter = {{(uint32_t)number, (uint32_t)(number >> 32), (uint32_t)it->epoch,
                                 (uint32_t)(it->epoch >> 32)}};
    philox4x32_key_t key = {{(uint32_t)it->seed, (uint32_t)(it->seed >> 32)}};
    philox4x32_ctr_t r = philox4x32(counter, key);
    uint64_t bits = (uint64_t)r.v[1] << 32 | r.v[0];

    return (size_t)(((unsigned __int128)bits * n) >> 64);
}

/* Rows of the pending block into the buffer, until that is full or this is empty. */
static int absorb(struct shuffle_iter *it, mr_error *err)
{
    while (it->pending != NULL && it->rows.n < it->size) {
        int rc = mr_rows_add(&it->rows, it->pending, it->used, err);

        if (rc == MR_EEXHAUSTED && it->rows.n > 0) {
            it->size = it->rows.n; /* whoever reads on gets what fits */
        }
        if (rc != MR_OK) {
            return mr_op_fail(&it->head, it->head.delivered, rc, err);
        }
        it->used++;
        if (it->used == mr_block_rows(it->pending)) {
            mr_rows_log_done(&it->log);
            mr_block_unref(it->pending);
            it->pending = NULL;
            it->used = 0;
        }
    }
    return MR_OK;
}

/* Fill the buffer. @more: how many rows will be taken from it in this turn. MR_OK also when the
 * input has ended. */
static int fill(struct shuffle_iter *it, const struct mr_pull *pull, uint32_t more, mr_error *err)
{
    MR_TRY(absorb(it, err));
    while (it->rows.n < it->size && !it->ended) {
        bool first = it->rows.n == 0 && it->out.n == 0;
        uint64_t wanted = it->size - it->rows.n + (more > 0 ? more - 1 : 0);
        struct mr_pull below =
            it->out.n == 0 ? mr_pull_rows(pull, wanted) : mr_pull_more(pull, wanted);

        below.held = pull->held || (it->frugal && !first);
        below.bytes = MR_MIN(below.bytes, MR_BLOCK_BYTES_HINT); /* rows are copied out of it */
        int rc = mr_op_interrupted(&it->head, pull, err);
        if (rc == MR_OK) {
            rc = pull_input(it, &below, err);
        }
        if (rc == MR_END) {
            it->ended = true;
            return MR_OK;
        }
        if (rc == MR_TIMEOUT && it->frugal && it->rows.n > 0) {
            return MR_OK;
        }
        MR_TRY(rc);
        MR_TRY(absorb(it, err));
    }
    return MR_OK;
}

static int shuffle_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                        mr_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)head;
    uint64_t fit = it->rows.fixed > 0 ? pull->bytes / it->rows.fixed + 1 : pull->rows;
    uint32_t cap = fit < pull->rows ? (uint32_t)fit : pull->rows;
    mr_error failure;
    int rc = MR_OK;
    bool left = it->out.n > 0; /* it goes first */

    if (!left) {
        mr_rows_out_free(&it->out);
        MR_TRY(fill(it, pull, cap, err));
        if (it->rows.n == 0) {
            return MR_END;
        }
        struct mr_rows *const bag = &it->rows;
        mr_rows_log_clean(&it->log, &bag, 1);
        rc = mr_rows_out_begin(&it->rows, cap, &it->out, err);
        if (rc != MR_OK) {
            mr_rows_out_free(&it->out);
            return rc;
        }
    }
    while (!left && rc == MR_OK && head->deferred == MR_OK &&
           !mr_rows_out_full(&it->rows, &it->out, pull->bytes) && it->out.n < pull->rows) {
        rc = it->out.n > 0 ? fill(it, pull, cap - (uint32_t)it->out.n, &failure) : MR_OK;
        if (rc == MR_OK && it->rows.n == 0) {
            break;
        }
        if (rc == MR_OK) {
            size_t i = draw(it, it->draws, it->rows.n);

            mr_rows_prefetch(&it->rows, draw(it, it->draws + 1, it->rows.n));
            rc = mr_rows_move(&it->rows, i, &it->out, &failure);
            it->draws += rc == MR_OK;
        }
    }
    if (it->out.n == 0) {
        return mr_error_pass(err, rc, &failure);
    }
    if (rc != MR_OK) {
        (void)mr_op_defer(head, rc, &failure);
    }
    return mr_rows_out_take(&it->rows, &it->out, pull->rows, ret, err);
}

static int shuffle_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct shuffle_iter *it = (struct shuffle_iter *)head;
    const mr_spec *spec = head->ds->spec;

    MR_TRY(mr_state_u64(s, &it->seed, err));
    MR_TRY(mr_state_u64(s, &it->epoch, err));
    MR_TRY(mr_state_u64(s, &it->draws, err));
    MR_TRY(mr_state_u64(s, &it->size, err));
    MR_TRY(mr_state_bool(s, &it->ended, err));
    if (it->size == 0) {
        return mr_state_damaged(err);
    }
    MR_TRY(mr_state_rest(s, &it->pending, &it->used, spec, err));
    MR_TRY(mr_rows_state(&it->rows, s, err));
    /* What was drawn and not given: rows behind those of another rank, or all, where there was no
     * memory to give them. */
    MR_TRY(s->restores ? MR_OK : mr_rows_out_settle(&it->rows, &it->out, err));
    MR_TRY(mr_gather_state(&it->out.gather, spec, s, err));
    if (s->restores) {
        it->out.n = it->out.gather.rows;
        if (it->out.n > MR_BLOCK_ROWS_MAX) {
            return mr_state_damaged(err);
        }
    }
    /* The state decides: it may come from a machine with more cores, or fewer. */
    bool overlaps = it->overlaps;
    MR_TRY(mr_state_bool(s, &overlaps, err));
    if (overlaps && !it->overlaps) {
        overlap(it);
    }
    if (overlaps) {
        return mr_ahead_state(&it->ahead, s, err);
    }
    return it->overlaps ? mr_op_state(it->ahead.input, s, err) : MR_OK;
}

static void shuffle_close(struct mr_op_iter *head)
{
    struct shuffle_iter *it = (struct shuffle_iter *)head;

    mr_ahead_close(&it->ahead);
    mr_rows_out_free(&it->out);
    mr_rows_free(&it->rows);
    mr_rows_log_free(&it->log);
    mr_block_unref(it->pending);
}

const struct mr_operator mr_operator_shuffle = {
    .name = "shuffle",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .draws = true,
    .args = MR_ARGS(MR_INT("buffer_size", INT64_MIN, INT64_MAX),
                    MR_OPTIONAL_INT("seed", INT64_MIN, INT64_MAX),
                    MR_OPTIONAL_BOOL("reshuffle_each_iteration")),
    .infer = shuffle_infer,
    .run = MR_RUN(struct shuffle_iter, .open = shuffle_open, .pull = shuffle_pull,
                  .state = shuffle_state, .close = shuffle_close),
};
