#include "engine/ops/apply.h"

int mr_apply_init(struct mr_apply *a, const struct mr_op_iter *it, const mr_function *fn,
                  mr_program *program, mr_error *err)
{
    a->program = program;
    a->random = (struct mr_kernel_random){
        .seed = mr_mix64(it->env->seed ^ it->path), .epoch = it->epoch, .split = it->stream};
    return mr_op_captures(it, fn, &a->captures, err);
}

int mr_apply_open(struct mr_apply *a, const struct mr_op_iter *it, mr_function *fn, mr_error *err)
{
    mr_program *program = NULL;

    MR_TRY(mr_env_program(it->env, fn, &program, err));
    return mr_apply_init(a, it, fn, program, err);
}

void mr_apply_free(struct mr_apply *a)
{
    mr_block_unref(a->captures);
    a->captures = NULL;
}

int mr_apply_run(const struct mr_apply *a, const mr_block *in, uint64_t index, mr_block **ret,
                 uint32_t *bad_row, mr_error *err)
{
    struct mr_kernel_random random = a->random;

    random.index = index;
    return mr_program_run(a->program, in, a->captures, &random, ret, bad_row, err);
}

/* The rows of @block from @first on come next, before those that are kept already. */
static int keep_behind(struct mr_apply_input *in, const mr_block *block, uint32_t first,
                       mr_error *err)
{
    uint32_t behind = mr_block_rows(block) - first;
    mr_block *rest = NULL;
    mr_block *all = NULL;

    if (behind == 0) {
        return MR_OK;
    }
    int rc = mr_block_slice(block, first, behind, &rest, err);
    if (rc == MR_OK && in->rest != NULL) {
        const mr_block *both[2] = {rest, in->rest};

        rc = mr_block_concat(both, 2, &all, err);
        mr_block_unref(rest);
        rest = all;
    }
    if (rc != MR_OK) {
        return rc;
    }
    mr_block_unref(in->rest);
    in->rest = rest;
    return MR_OK;
}

/* *@block is its first @rows rows; the others are kept. */
static int split(struct mr_apply_input *in, mr_block **block, uint32_t rows, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *first = NULL;

    MR_TRY(mr_block_slice(*block, 0, rows, &first, err));
    MR_TRY(keep_behind(in, *block, rows, err));
    mr_block_unref(*block);
    *block = MR_TAKE(first);
    return MR_OK;
}

int mr_apply_next(struct mr_apply_input *in, struct mr_op_iter *below, const struct mr_pull *pull,
                  mr_block **ret, mr_error *err)
{
    mr_block *rest = in->rest;

    if (rest == NULL) {
        mr_error failure;
        int rc = mr_op_pull(below, pull, ret, &failure);

        in->index += rc < 0 && mr_op_element_failed(rc, &failure); /* it has had its number */
        return mr_error_pass(err, rc, &failure);
    }
    uint32_t rows = mr_block_rows(rest);
    uint32_t most = in->most > 0 && in->most < pull->rows ? in->most : pull->rows;
    if (rows <= most) {
        *ret = rest;
        in->rest = NULL;
        return MR_OK;
    }
    in->rest = NULL;
    int rc = split(in, &rest, most, err);
    if (rc != MR_OK) {
        in->rest = rest;
        return rc;
    }
    *ret = rest;
    return MR_OK;
}

int mr_apply_fit(const struct mr_apply *a, struct mr_apply_input *in, mr_block **block,
                 mr_block **ret, uint32_t *bad_row, mr_error *err)
{
    for (;;) {
        uint32_t rows = mr_block_rows(*block);
        int rc = mr_apply_run(a, *block, in->index, ret, bad_row, err);

        if (rc != MR_EEXHAUSTED || rows == 1) {
            bool easy = rc == MR_OK && rows == in->most &&
                        !mr_memory_is_short(mr_memory_current(), MR_MEMORY_AHEAD, 0);

            in->most = easy && rows < MR_BLOCK_ROWS_MAX ? 2 * rows : in->most;
            return rc;
        }
        mr_block_unref(*ret);
        *ret = NULL;
        in->most = rows / 2;
        rc = split(in, block, rows / 2, err);
        if (rc != MR_OK) {
            *bad_row = 0;
            return rc;
        }
    }
}

int mr_apply_keep(struct mr_apply_input *in, const mr_block *block, uint32_t bad, mr_error *err)
{
    in->index += bad + 1;
    return keep_behind(in, block, bad + 1, err);
}

int mr_apply_state(struct mr_apply_input *in, const mr_spec *spec, struct mr_state *s,
                   mr_error *err)
{
    MR_TRY(mr_state_u64(s, &in->index, err));
    return mr_state_block(s, &in->rest, spec, err);
}
