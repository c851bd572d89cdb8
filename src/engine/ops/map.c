/*
 * map: a function of each element. Adjacent maps were joined by the plan (engine/plan.c).
 *
 * Where the number of calls at once is automatic it begins in place, and becomes parallel when the
 * function turns out to be slow enough for that (engine/pace.h).
 */
#include "engine/ops/map.h"
#include "base/stream.h"
#include "engine/pace.h"

struct map_iter {
    struct mr_op_iter head;
    struct mr_apply apply;
    struct mr_apply_input in;
    uint32_t calls;   /* at once; 0: found out */
    uint32_t threads; /* of the environment, for `parallel` */
    struct mr_pace pace;
    struct mr_parallel_map *parallel; /* NULL: in place; else it owns the input */
};

static int map_infer(struct mr_infer *in, mr_error *err)
{
    in->spec = mr_spec_ref(in->functions[0]->spec);
    in->cardinality = in->inputs[0]->cardinality;
    return MR_OK;
}

static int go_parallel(struct map_iter *it, mr_error *err)
{
    struct mr_op_iter *head = &it->head;

    MR_TRY(mr_parallel_map_new(head, it->head.input, it->in.index, &it->apply, it->calls,
                               mr_op_bool(head, "deterministic", true), &it->parallel, err));
    it->head.input = NULL;
    return MR_OK;
}

static int map_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct map_iter *it = (struct map_iter *)head;
    const struct mr_map_plan *plan = NULL;
    struct mr_op_ctx below = *ctx;
    int64_t calls = 0;

    MR_TRY(mr_env_map_plan(head->env, head->ds, &plan, err));
    MR_TRY(mr_op_int(head, "num_parallel_calls", 0, &calls, err));
    MR_TRY(mr_apply_init(&it->apply, head, plan->fn, plan->program, err));
    for (uint32_t i = 0; i < plan->joined; i++) {
        below.path = mr_op_child_path(below.path, 0);
    }
    bool seeks = ctx->inside_split; /* a driver reading ahead would run past the split */
    it->calls = calls < 0 ? 0 : (uint32_t)calls;
    if (calls != 0 && !seeks && (calls > 1 || head->env->threads > 1)) {
        it->threads = mr_env_take_threads(head->env, 1);
    }
    below.ahead = ctx->ahead || it->threads > 0;
    MR_TRY(mr_op_open(&below, plan->input, &it->head.input, err));
    return it->threads > 0 && it->calls > 0 ? go_parallel(it, err) : MR_OK;
}

/* @in, which took @beside to come, became @out within @ns. */
static bool is_worthwhile(struct map_iter *it, const mr_block *in, const mr_block *out, int64_t ns,
                          int64_t beside)
{
    size_t taken = mr_block_row_bytes(in, 0, mr_block_rows(in));
    size_t made = mr_block_row_bytes(out, 0, mr_block_rows(out));
    /* What others have, too, such as constants, was not written just now; large results go to
     * memory, from where any core gets them. */
    size_t moved = (mr_block_exclusive(in) ? taken : 0) + (made < MR_STREAM_COPY_BYTES ? made : 0);

    return mr_pace_is_slow(&it->pace, MR_MAX(taken, made), moved, ns, beside);
}

static int map_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                    mr_error *err)
{
    struct map_iter *it = (struct map_iter *)head;
    MR_AUTO(mr_block_unref) mr_block *in = NULL;
    MR_AUTO(mr_block_unref) mr_block *out = NULL;
    mr_error failure;
    uint32_t bad = 0;

    if (it->parallel != NULL) {
        return mr_parallel_map_pull(it->parallel, pull, ret, err);
    }

    int64_t pulled = it->threads > 0 ? mr_cpu_now_ns() : 0;
    MR_TRY(mr_apply_next(&it->in, it->head.input, pull, &in, err));
    int64_t begin = it->threads > 0 ? mr_cpu_now_ns() : 0;
    int rc = mr_apply_fit(&it->apply, &it->in, &in, &out, &bad, &failure);
    if (rc != MR_OK) {
        rc = mr_apply_failed(&it->in, head, in, bad, rc, &failure, &out, ret, err);
        return mr_apply_done(&it->in, in, rc);
    }
    it->in.index += mr_block_rows(in);
    int64_t ns = it->threads > 0 ? mr_cpu_now_ns() - begin : 0;
    if (it->threads > 0 && it->in.rest == NULL && is_worthwhile(it, in, out, ns, begin - pulled) &&
        go_parallel(it, NULL) ==
            MR_OK) { /* without memory it stays in place: @out is to be given */
        mr_parallel_map_learn(it->parallel, out, ns);
    }
    *ret = MR_TAKE(out);
    return MR_OK;
}

static int map_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct map_iter *it = (struct map_iter *)head;
    const struct mr_map_plan *plan = NULL;
    bool parallel = it->parallel != NULL;

    MR_TRY(mr_state_bool(s, &parallel, err));
    /* The state decides: it may come from a machine with more cores, or fewer. */
    if (parallel && it->parallel == NULL) {
        MR_TRY(go_parallel(it, err));
    } else if (!parallel && it->parallel != NULL) {
        it->head.input = mr_parallel_map_take_input(it->parallel);
        mr_parallel_map_free(it->parallel);
        it->parallel = NULL;
    }
    if (it->parallel != NULL) {
        return mr_parallel_map_state(it->parallel, s, err);
    }
    MR_TRY(mr_env_map_plan(head->env, head->ds, &plan, err));
    return mr_apply_state(&it->in, plan->input->spec, s, err);
}

static int map_seek(struct mr_op_iter *head, uint64_t index, mr_error *err)
{
    struct map_iter *it = (struct map_iter *)head;

    mr_block_unref(it->in.rest);
    it->in.rest = NULL;
    it->in.used = 0;
    it->in.index = index;
    return mr_op_seek(it->head.input, index, err);
}

static void map_close(struct mr_op_iter *head)
{
    struct map_iter *it = (struct map_iter *)head;

    mr_parallel_map_free(it->parallel);
    mr_env_give_threads(head->env, it->threads);
    mr_apply_free(&it->apply);
    mr_block_unref(it->in.rest);
}

const struct mr_operator mr_operator_map = {
    .name = "map",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .function = MR_FUNCTION_VALUES,
    .args =
        MR_ARGS(MR_OPTIONAL_INT("num_parallel_calls", -1, 4096), MR_OPTIONAL_BOOL("deterministic")),
    .infer = map_infer,
    .run = MR_RUN(struct map_iter, .open = map_open, .pull = map_pull, .state = map_state,
                  .seek = map_seek, .close = map_close),
};
