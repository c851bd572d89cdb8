/*
 * Split i is the i-th run of elements of the node below, of as many as the provider says (mostly
 * one). A pass ends when the split source says so; the number of passes so far is the repetition
 * that it is asked for. A split handed out is ours: after an error the rest of its range is read
 * on.
 *
 * Blocks leave with the origin of the range at hand, which is held until the range was read to its
 * end; and with the places of their rows, where somebody draws random numbers for them: their
 * numbers in the whole dataset.
 */
#include "engine/split.h"

#include "base/doing.h"
#include "engine/env.h"
#include "engine/state.h"

struct split_iter {
    struct mr_op_iter head;
    struct mr_op_iter *input;
    uint32_t provider;
    uint64_t repetition;
    uint64_t rows;     /* elements in a split */
    uint64_t left;     /* elements of the current range; UINT64_MAX: as many as there are */
    uint64_t at;       /* number of the next one */
    mr_origin *origin; /* of the current range; NULL: there is none, or nobody wants to know */
    bool whole;
    bool ended;
};

bool mr_split_applies(const struct mr_op_ctx *ctx)
{
    return ctx->outermost && !ctx->inside_split && ctx->env->has_splits &&
           mr_env_provider(ctx->env, ctx->path) != NULL;
}

static int split_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct split_iter *it = (struct split_iter *)head;
    struct mr_op_ctx below = *ctx;
    struct mr_provider *provider = mr_env_provider(ctx->env, ctx->path);

    it->provider = (uint32_t)(provider - ctx->env->providers);
    it->rows = provider->rows;
    it->whole = head->ds->op->run->whole_split;
    mr_mutex_lock(&ctx->env->lock);
    it->repetition = provider->opened++;
    mr_mutex_unlock(&ctx->env->lock);
    below.inside_split = true;
    below.part = 0; /* elements have the numbers that they have in the whole dataset */
    below.places = false;
    return mr_op_open(&below, head->ds, &it->input, err);
}

/* The current range was read to its end. */
static void end_range(struct split_iter *it)
{
    it->left = 0;
    mr_origin_unref(it->origin);
    it->origin = NULL;
}

/* Another range, and the input at its start. */
static int next_range(struct split_iter *it, mr_error *err)
{
    struct mr_env *env = it->head.env;
    struct mr_range range = {0};
    mr_origin *origin = NULL;
    uint32_t before = mr_doing_begin_wait(MR_DOING_SPLITS);
    int rc = env->splits.next(env->splits.ctx, it->provider, it->repetition, &range, &origin, err);

    mr_doing_end(before);
    if (rc == MR_END) {
        it->ended = true;
        return MR_END;
    }
    if (rc != MR_OK) {
        return rc == MR_ECANCELED ? rc : mr_op_fail(&it->head, it->head.delivered, rc, err);
    }
    uint64_t first;
    uint64_t count;

    if (__builtin_mul_overflow(range.first, it->rows, &first) ||
        __builtin_mul_overflow(range.count, it->rows, &count)) {
        mr_origin_unref(origin);
        rc = mr_error_set(err, MR_EINTERNAL,
                          "splits %" PRIu64 " and on, %" PRIu64 " of them: there are not so many",
                          range.first, range.count);
        return mr_op_fail(&it->head, it->head.delivered, rc, err);
    }
    rc = it->whole ? MR_OK : mr_op_seek(it->input, first, err);
    if (rc != MR_OK) {
        mr_origin_unref(origin);
        return rc;
    }
    it->origin = origin;
    it->at = it->whole ? 0 : first;
    it->left = it->whole && range.count > 0 ? UINT64_MAX : count;
    if (it->left == 0) {
        end_range(it);
    }
    return MR_OK;
}

/* @rows elements of the current range are done with. */
static void passed(struct split_iter *it, uint32_t rows)
{
    it->at += rows;
    it->left -= it->whole ? 0 : rows;
    if (it->left == 0) {
        end_range(it);
    }
}

/* *@ret was read from the current range. */
static int give(struct split_iter *it, mr_block **ret, mr_error *err)
{
    int rc = mr_block_add_origin(ret, it->origin, err);

    if (rc == MR_OK && it->head.places) {
        rc = mr_block_set_place(ret, mr_mix64(it->head.path) + it->at, err);
    }
    if (rc != MR_OK) {
        mr_block_unref(*ret); /* no memory: the pipeline fails, and with it the range */
        return mr_op_fail(&it->head, it->head.delivered, rc, err);
    }
    passed(it, mr_block_rows(*ret));
    return MR_OK;
}

static int split_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct split_iter *it = (struct split_iter *)head;

    for (;;) {
        int rc = mr_op_interrupted(head, pull, err);

        if (rc == MR_ECANCELED) {
            return rc;
        }
        while (it->left == 0) {
            if (it->ended) {
                return MR_END;
            }
            if (pull->held || pull->deadline_ms == 0 || rc == MR_TIMEOUT) {
                return MR_TIMEOUT;
            }
            MR_TRY(next_range(it, err));
        }
        struct mr_pull below = mr_pull_rows(pull, MR_MIN(it->left, pull->rows));
        rc = mr_op_pull(it->input, &below, ret, err);
        if (rc == MR_OK) {
            return give(it, ret, err);
        }
        if (rc != MR_END) {
            /* It was one of the range: without it the range would reach into the next one. */
            if (rc < 0 && mr_op_element_failed(rc, err)) {
                passed(it, 1);
            }
            return rc;
        }
        end_range(
            it); /* also of a range that reaches beyond the source: what there is of it was read */
    }
}

static int split_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct split_iter *it = (struct split_iter *)head;
    struct mr_provider *provider = &head->env->providers[it->provider];

    MR_TRY(mr_state_u64(s, &it->repetition, err));
    MR_TRY(mr_state_u64(s, &it->left, err));
    MR_TRY(mr_state_u64(s, &it->at, err));
    MR_TRY(mr_state_bool(s, &it->ended, err));
    if (s->restores) {
        mr_mutex_lock(&head->env->lock);
        provider->opened = it->repetition + 1;
        mr_mutex_unlock(&head->env->lock);
    }
    return mr_op_state(it->input, s, err);
}

static void split_close(struct mr_op_iter *head)
{
    struct split_iter *it = (struct split_iter *)head;

    end_range(it);
    mr_op_close(it->input);
}

const struct mr_operator mr_split_operator = {
    .name = "splits",
    .run = MR_RUN(struct split_iter, .open = split_open, .pull = split_pull, .state = split_state,
                  .close = split_close)};
