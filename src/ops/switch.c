/* switch_case: one of several functions for each row. */
#include "base/rng.h"
#include "ops/attr.h"
#include "ops/functions.h"

#define BRANCHES_MAX 256

/* What is known of a result whichever branch it comes from. */
static int merge(struct mr_leaf_spec *to, const struct mr_leaf_spec *from, size_t result,
                 size_t branch, mr_error *err)
{
    if (to->dtype != from->dtype || to->rank != from->rank) {
        return mr_error_set(
            err, MR_EINVAL,
            "result %zu is %s of rank %d in branch 0 and %s of rank %d in branch %zu", result,
            mr_dtype_name((mr_dtype)to->dtype), to->rank, mr_dtype_name((mr_dtype)from->dtype),
            from->rank, branch);
    }
    for (int d = 0; d < to->rank; d++) {
        if (to->dims[d] != from->dims[d]) {
            to->dims[d] = MR_DIM_UNKNOWN;
        }
    }
    return MR_OK;
}

static int infer_switch(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_kernel_function *first = &it->functions[0];

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_INT32), err));
    MR_TRY(mr_infer_rank(it->in, 0, 0, err));
    MR_TRY(mr_infer_captured(it, 1, 0, err));
    if (first->nout > it->cap) {
        return mr_error_set(err, MR_EINVAL, "%zu results are too many", first->nout);
    }
    it->nout = first->nout;
    memcpy(it->out, first->out, first->nout * sizeof *it->out);
    for (size_t b = 1; b < it->nfunctions; b++) {
        if (it->functions[b].nout != first->nout) {
            return mr_error_set(err, MR_EINVAL, "branch 0 has %zu results, branch %zu has %zu",
                                first->nout, b, it->functions[b].nout);
        }
        for (size_t i = 0; i < first->nout; i++) {
            MR_TRY(merge(&it->out[i], &it->functions[b].out[i], i, b, err));
        }
    }
    return MR_OK;
}

/* The rows by branch: those of branch b are list[first[b]] to list[first[b + 1] - 1], ascending. */
struct sorted_rows {
    mr_buffer *held; /* what follows */
    uint32_t *list;
    uint32_t *place; /* of each row in the list */
    uint32_t first[BRANCHES_MAX + 1];
};

static void sorted_rows_free(struct sorted_rows *s)
{
    mr_buffer_unref(s->held);
}
MR_AUTO_DEFINE(struct sorted_rows, sorted_rows_free)

/* As tf.switch_case has it: what is out of range goes to the last one. */
static uint32_t branch_of(const struct mr_input *index, uint32_t row, size_t branches)
{
    struct mr_tensor t = mr_input_row(index, row);
    int32_t i;

    memcpy(&i, t.values, sizeof i);
    return i < 0 || (size_t)i >= branches ? (uint32_t)branches - 1 : (uint32_t)i;
}

static int sort_rows(const struct mr_kernel_in *in, uint32_t rows, size_t branches,
                     struct sorted_rows *ret, mr_error *err)
{
    uint32_t next[BRANCHES_MAX] = {0};
    struct mr_input index;

    MR_TRY(mr_buffer_new((size_t)rows * 2 * sizeof *ret->list, &ret->held, err));
    ret->list = mr_buffer_data(ret->held);
    ret->place = ret->list + rows;
    MR_TRY(mr_input_open(in, rows, &index, err));
    for (uint32_t r = 0; r < rows; r++) {
        ret->first[branch_of(&index, r, branches) + 1]++;
    }
    for (size_t b = 0; b < branches; b++) {
        ret->first[b + 1] += ret->first[b];
        next[b] = ret->first[b];
    }
    for (uint32_t r = 0; r < rows; r++) {
        ret->place[r] = next[branch_of(&index, r, branches)]++;
        ret->list[ret->place[r]] = r;
    }
    mr_input_close(&index);
    return MR_OK;
}

/* Rows @list of a branch draw what they would draw if they stood in a block of their own. */
static int run_branch(const struct mr_kernel_call *call, size_t branch, const mr_block *in,
                      const uint32_t *list, mr_block **ret, uint32_t *bad_row, mr_error *err)
{
    const struct mr_kernel_function *fn = &call->functions[branch];
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    struct mr_kernel_random random = {0};

    if (call->random != NULL) {
        MR_TRY(mr_buffer_new(mr_block_rows(in) * sizeof(uint64_t), &held, err));
        uint64_t *indices = mr_buffer_data(held);
        random = *call->random;
        random.seed = mr_mix64(random.seed + branch + 1);
        random.index = 0;
        random.indices = indices;
        for (uint32_t r = 0; r < mr_block_rows(in); r++) {
            indices[r] = mr_kernel_random_index(call->random, list[r]);
        }
    }
    return fn->run(fn->program, in, call->random != NULL ? &random : NULL, ret, bad_row, err);
}

static int run_branches(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, const struct sorted_rows *sorted,
                        mr_block **parts, size_t *nparts, uint32_t *bad_row, mr_error *err)
{
    const struct mr_kernel_in *captured = in + 1;

    for (size_t b = 0; b < call->nfunctions; captured += call->functions[b].nin, b++) {
        const uint32_t *list = sorted->list + sorted->first[b];
        uint32_t count = sorted->first[b + 1] - sorted->first[b];
        MR_AUTO(mr_block_unref) mr_block *given = NULL;
        uint32_t bad = 0;

        /* Without any row the first one says what the columns look like. */
        if (count == 0 && (rows > 0 || b > 0)) {
            continue;
        }
        MR_TRY(mr_take_rows(captured, call->functions[b].nin, rows, count == rows ? NULL : list,
                            count, &given, err));
        int rc = run_branch(call, b, given, list, &parts[*nparts], &bad, err);
        if (rc < 0) {
            mr_block_unref(parts[*nparts]); /* the rows before */
            parts[*nparts] = NULL;
            *bad_row = bad < count ? list[bad] : 0;
            return rc;
        }
        ++*nparts;
    }
    return MR_OK;
}

static int eval_switch(const struct mr_kernel_call *call, uint32_t rows,
                       const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                       size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct sorted_rows made = {0};
    MR_AUTO(sorted_rows_free) struct sorted_rows *sorted = &made;
    MR_AUTO(mr_block_unref) mr_block *joined = NULL;
    MR_AUTO(mr_block_unref) mr_block *ordered = NULL;
    mr_block **parts = mr_calloc(call->nfunctions, sizeof(mr_block *));
    size_t n = 0;

    (void)nin;
    *bad_row = 0;
    int rc = parts != NULL ? sort_rows(&in[0], rows, call->nfunctions, sorted, err)
                           : mr_error_nomem(err);
    rc = rc == MR_OK ? run_branches(call, rows, in, sorted, parts, &n, bad_row, err) : rc;
    rc = rc == MR_OK ? mr_block_concat((const mr_block *const *)parts, n, &joined, err) : rc;
    if (rc == MR_OK && n > 1) {
        rc = mr_block_gather(joined, sorted->place, rows, &ordered, err);
    }
    if (rc == MR_OK) {
        mr_give_columns(ordered != NULL ? ordered : joined, out, nout);
    }
    mr_unref_blocks(parts, n);
    mr_free(parts);
    return rc;
}

MR_DEFINE_KERNEL(switch_case, 1, -1, 0, .flags = MR_KERNEL_MAY_FAIL, .max_functions = BRANCHES_MAX,
                 .infer = infer_switch, .eval = eval_switch);
