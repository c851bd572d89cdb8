#include "engine/ops/apply.h"

/* How slow a function is, nobody knows before its first call. */
#define SOON_FIRST 64u

int mr_apply_init(struct mr_apply *a, const struct mr_op_iter *it, const mr_function *fn,
                  mr_program *program, mr_error *err)
{
    a->program = program;
    a->random = (struct mr_kernel_random){
        .seed = mr_mix64(it->env->seed ^ it->path), .epoch = it->epoch, .split = it->stream};
    a->part = it->part;
    a->places = it->places;
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

    if (mr_block_placed(in)) {
        random.indices = mr_block_places(in, &random.index);
    } else {
        random.split ^= a->part;
        random.index = index;
    }
    int rc = mr_program_run(a->program, in, a->captures, &random, ret, bad_row, err);

    if (a->places && *ret != NULL) {
        mr_block_place_as(*ret, in);
    }
    return rc;
}

/* What is kept comes behind @rows. */
static int put_before(struct mr_apply_input *in, mr_block *rows, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *kept = NULL;
    mr_block *all = NULL;

    MR_TRY(mr_block_slice(in->rest, in->used, mr_block_rows(in->rest) - in->used, &kept, err));
    MR_TRY(mr_block_concat((const mr_block *[]){rows, kept}, 2, &all, err));
    mr_block_unref(in->rest);
    in->rest = all;
    in->used = 0;
    in->given = NULL;
    return MR_OK;
}

int mr_apply_put_back(struct mr_apply_input *in, const mr_block *block, uint32_t first,
                      mr_error *err)
{
    uint32_t behind = mr_block_rows(block) - first;

    if (behind == 0) {
        return MR_OK;
    }
    if (in->rest != NULL && in->given == block) {
        in->used -= behind;
        return MR_OK;
    }
    if (in->rest == NULL) {
        in->rest = mr_block_ref(block);
        in->used = first;
        return MR_OK;
    }
    MR_AUTO(mr_block_unref) mr_block *rows = NULL;
    MR_TRY(mr_block_slice(block, first, behind, &rows, err));
    return put_before(in, rows, err);
}

/* *@block is its first @rows rows; the others are kept. */
static int split(struct mr_apply_input *in, mr_block **block, uint32_t rows, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *first = NULL;

    MR_TRY(mr_block_slice(*block, 0, rows, &first, err));
    MR_TRY(mr_apply_put_back(in, *block, rows, err));
    mr_block_unref(*block);
    in->given = in->used > 0 ? first : NULL;
    *block = MR_TAKE(first);
    return MR_OK;
}

static uint32_t rows_soon(const struct mr_apply_input *in)
{
    return in->soon > 0 ? in->soon : SOON_FIRST;
}

void mr_apply_learn(struct mr_apply_input *in, uint32_t rows, int64_t ns)
{
    uint32_t soon = rows_soon(in);

    if (ns > MR_APPLY_SOON_NS) {
        soon = (uint32_t)MR_MAX(rows * MR_APPLY_SOON_NS / ns, 1);
    } else if (rows > soon / 2 && ns <= MR_APPLY_SOON_NS / 2) {
        soon = MR_MIN(2 * soon, MR_BLOCK_ROWS_MAX);
    }
    in->soon = soon;
}

/* Whole units, if that is possible: then they still begin and end where the consumer's do. */
static struct mr_pull pull_soon(const struct mr_apply_input *in, const struct mr_pull *pull)
{
    uint32_t rows = MR_MIN(pull->rows, rows_soon(in));
    bool whole = pull->unit > 0 && rows >= pull->unit;
    struct mr_pull fewer = mr_pull_rows(pull, whole ? rows - rows % pull->unit : rows);

    fewer.unit = whole ? pull->unit : fewer.unit;
    return fewer;
}

int mr_apply_next(struct mr_apply_input *in, struct mr_op_iter *below, const struct mr_pull *pull,
                  mr_block **ret, mr_error *err)
{
    const struct mr_pull fewer = pull_soon(in, pull);
    mr_block *rest = in->rest;

    in->given = NULL;
    in->begun = in->index;
    if (rest == NULL) {
        int rc = mr_op_pull(below, &fewer, ret, err);

        in->index += rc < 0 && mr_op_element_failed(rc, err); /* it has had its number */
        return rc;
    }
    uint32_t most = in->most > 0 && in->most < fewer.rows ? in->most : fewer.rows;
    uint32_t rows = MR_MIN(mr_block_rows(rest) - in->used, most);
    MR_TRY(mr_block_slice(rest, in->used, rows, ret, err));
    in->used += rows;
    in->given = *ret;
    if (in->used == mr_block_rows(rest)) {
        in->rest = NULL;
        in->used = 0;
        mr_block_unref(rest);
    }
    return MR_OK;
}

int mr_apply_fit(const struct mr_apply *a, struct mr_apply_input *in, mr_block **block,
                 mr_block **ret, uint32_t *bad_row, mr_error *err)
{
    for (;;) {
        uint32_t rows = mr_block_rows(*block);
        int64_t begin = mr_now_ns();
        int rc = mr_apply_run(a, *block, in->index, ret, bad_row, err);

        if (rc == MR_OK) {
            mr_apply_learn(in, rows, mr_now_ns() - begin);
        }
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
    MR_TRY(mr_apply_put_back(in, block, bad + 1, err));
    in->index += bad + 1;
    return MR_OK;
}

int mr_apply_done(struct mr_apply_input *in, const mr_block *block, int rc)
{
    mr_error ignored; /* no memory for that either: then it is @rc that it goes with */

    if (rc < 0 && in->index == in->begun) {
        (void)mr_apply_put_back(in, block, 0, &ignored);
    }
    return rc;
}

int mr_apply_failed(struct mr_apply_input *in, struct mr_op_iter *head, const mr_block *block,
                    uint32_t bad, int rc, mr_error *failure, mr_block **before, mr_block **ret,
                    mr_error *err)
{
    (void)mr_op_fail_row(head, in->index + bad, block, bad, rc, failure);
    MR_TRY(mr_apply_keep(in, block, bad, err));
    if (*before == NULL) {
        return mr_error_pass(err, rc, failure);
    }
    *ret = MR_TAKE(*before);
    return mr_op_defer(head, rc, failure);
}

int mr_apply_bools(struct mr_apply_input *in, const struct mr_op_iter *head, const mr_block *block,
                   const mr_block *verdict, const uint8_t **ret, mr_error *err)
{
    const struct mr_column *c = mr_block_column(verdict, 0);

    if (c->rank != 0) {
        int rc = mr_error_set(err, MR_EINVAL,
                              "the predicate gave a tensor of %u dimensions, it must be a scalar",
                              c->rank);
        mr_error failure = *err;

        (void)mr_op_fail_row(head, in->index, block, 0, rc, &failure);
        MR_TRY(mr_apply_keep(in, block, 0, err));
        return mr_error_pass(err, rc, &failure);
    }
    /* Of rank 0: one value a row also where shapes vary. */
    *ret = (const uint8_t *)c->data + (c->kind == MR_COLUMN_VAR ? c->starts[0] : 0);
    return MR_OK;
}

int mr_apply_int64(const mr_block *results, uint32_t row, int64_t *ret, mr_error *err)
{
    const struct mr_column *c = mr_block_column(results, 0);

    if (c->rank != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "the function gave a tensor of %u dimensions, it must be a scalar",
                            c->rank);
    }
    *ret = ((const int64_t *)c->data)[c->kind == MR_COLUMN_VAR ? c->starts[row] : row];
    return MR_OK;
}

int mr_apply_state(struct mr_apply_input *in, const mr_spec *spec, struct mr_state *s,
                   mr_error *err)
{
    MR_TRY(mr_state_u64(s, &in->index, err));
    return mr_state_rest(s, &in->rest, &in->used, spec, err);
}
