/* map_fn: a function of each part of a tensor along its first axis. */
#include "base/limits.h"
#include "base/rng.h"
#include "ops/attr.h"
#include "ops/functions.h"
#include "ops/scratch.h"

/* What one call of the function may hold of values that are copied for each part. */
#define REPEATED_BYTES_MAX ((size_t)4 << 20)

static size_t mapped_inputs(struct mr_attrs attrs)
{
    int64_t n = mr_attr_int(attrs, "mapped", 1);

    return n > 0 && n <= MR_LEAVES_MAX ? (size_t)n : 0;
}

/* Which of @n results the attribute "joined" names: their parts are put behind one another, and may
 * differ in length. */
static int joined_results(struct mr_attrs attrs, size_t n, bool **ret, mr_error *err)
{
    const struct mr_attr *a = mr_attr_get(attrs, "joined");
    MR_AUTO(mr_free) bool *joined = mr_calloc(n, sizeof *joined);

    MR_CHECK_ALLOC(joined, err);
    for (int32_t i = 0; a != NULL && i < a->count; i++) {
        if (a->ints[i] < 0 || (uint64_t)a->ints[i] >= n) {
            return mr_error_set(err, MR_EINVAL, "attribute 'joined': there is no result %lld",
                                (long long)a->ints[i]);
        }
        joined[a->ints[i]] = true;
    }
    *ret = MR_TAKE(joined);
    return MR_OK;
}

/* The result that parts like @part become, of which there are @parts. */
static int infer_result(const struct mr_leaf_spec *part, int64_t parts, bool joined,
                        struct mr_leaf_spec *ret, mr_error *err)
{
    int from = joined ? 1 : 0;

    if (part->rank < from || part->rank - from >= MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of the function has rank %d", part->rank);
    }
    *ret = (struct mr_leaf_spec){.dtype = part->dtype, .rank = (int8_t)(part->rank - from + 1)};
    ret->dims[0] = joined ? MR_DIM_UNKNOWN : parts;
    memcpy(ret->dims + 1, part->dims + from, (size_t)(part->rank - from) * sizeof *ret->dims);
    return MR_OK;
}

static int infer_map(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_kernel_function *fn = &it->functions[0];
    size_t mapped = mapped_inputs(it->attrs);
    int64_t parts = MR_DIM_UNKNOWN;

    if (mapped == 0 || mapped > it->nin || mapped > fn->nin || fn->nout > it->cap) {
        return mr_error_set(err, MR_EINVAL, "attribute 'mapped' and the function do not agree");
    }
    for (size_t i = 0; i < mapped; i++) {
        const struct mr_leaf_spec *in = &it->in[i];

        if (in->rank < 1 || in->dtype != fn->in[i].dtype || in->rank - 1 != fn->in[i].rank) {
            return mr_error_set(err, MR_EINVAL,
                                "tensor %zu has no first axis, or is not what the function takes",
                                i);
        }
        parts = parts == MR_DIM_UNKNOWN ? in->dims[0] : parts;
    }
    MR_AUTO(mr_free) bool *joined = NULL;
    MR_TRY(mr_infer_captured(it, mapped, mapped, err));
    MR_TRY(joined_results(it->attrs, fn->nout, &joined, err));
    for (size_t i = 0; i < fn->nout; i++) {
        MR_TRY_WRAP(infer_result(&fn->out[i], parts, joined[i], &it->out[i], err), err,
                    "result %zu", i);
    }
    it->nout = fn->nout;
    return MR_OK;
}

struct parts {
    uint32_t rows;
    uint32_t total;
    bool same;        /* all rows have as many */
    uint32_t *counts; /* of each row */
    uint32_t *row_of; /* of each part: its row */
    mr_block *block;  /* row k is part k */
    struct mr_scratch held[2];
};

static void parts_free(struct parts *p)
{
    mr_scratch_free(&p->held[0]);
    mr_scratch_free(&p->held[1]);
    mr_block_unref(p->block);
}
MR_AUTO_DEFINE(struct parts, parts_free)

static int64_t first_dim(const struct mr_column *c, uint32_t row)
{
    return c->kind == MR_COLUMN_FIXED ? c->dims[0] : c->row_dims[(size_t)row * c->rank];
}

static int count_parts(struct parts *p, const mr_block *whole, uint32_t *bad_row, mr_error *err)
{
    uint64_t total = 0;

    for (uint32_t r = 0; r < p->rows; r++) {
        int64_t n = first_dim(mr_block_column(whole, 0), r);

        *bad_row = r;
        for (uint32_t i = 1; i < mr_block_column_count(whole); i++) {
            int64_t other = first_dim(mr_block_column(whole, i), r);

            if (other != n) {
                return mr_error_set(err, MR_EINVAL,
                                    "tensor 0 has %lld parts along its first axis, tensor %u has "
                                    "%lld",
                                    (long long)n, i, (long long)other);
            }
        }
        total += (uint64_t)n;
        if (total > UINT32_MAX) {
            return mr_error_set(err, MR_EEXHAUSTED, "more than %u parts", UINT32_MAX);
        }
        p->counts[r] = (uint32_t)n;
        p->same = p->same && p->counts[r] == p->counts[0];
    }
    p->total = (uint32_t)total;
    *bad_row = 0;
    return MR_OK;
}

static int open_parts(const struct mr_kernel_in *in, size_t mapped, uint32_t rows,
                      struct parts *ret, uint32_t *bad_row, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *whole = NULL;
    void *list = NULL;

    ret->rows = rows;
    ret->same = true;
    MR_TRY(mr_scratch_take(&ret->held[0], rows * sizeof *ret->counts, &list, err));
    ret->counts = list;
    MR_TRY(mr_take_rows(in, mapped, rows, NULL, rows, &whole, err));
    MR_TRY(count_parts(ret, whole, bad_row, err));
    MR_TRY(mr_block_unbatch(whole, &ret->block, err));
    MR_TRY(mr_scratch_take(&ret->held[1], ret->total * sizeof *ret->row_of, &list, err));
    ret->row_of = list;
    for (uint32_t r = 0, k = 0; r < rows; r++) {
        for (uint32_t i = 0; i < ret->counts[r]; i++) {
            ret->row_of[k++] = r;
        }
    }
    return MR_OK;
}

/* How many parts go to the function at a time: captured values are copied for each. */
static int parts_at_a_time(const struct mr_kernel_in *captured, size_t n, uint32_t rows,
                           uint32_t *ret, mr_error *err)
{
    size_t bytes = 1;

    for (size_t i = 0; i < n && rows > 0; i++) {
        MR_AUTO(mr_block_unref) mr_block *block = NULL;
        uint32_t have = captured[i].broadcast ? 1 : rows;

        MR_TRY(mr_block_from_columns(have, captured[i].column, 1, &block, err));
        bytes += mr_block_row_bytes(block, 0, have) / have;
    }
    *ret = (uint32_t)MR_MAX(REPEATED_BYTES_MAX / bytes, 1);
    return MR_OK;
}

/* The number of part @k within its row. */
static uint32_t place_in_row(const struct parts *p, uint32_t k)
{
    uint32_t first = k;

    while (first > 0 && p->row_of[first - 1] == p->row_of[k]) {
        first--;
    }
    return k - first;
}

/* Each part draws for itself. */
static int part_indices(const struct mr_kernel_random *random, const struct parts *p,
                        uint32_t first, uint32_t count, mr_buffer **ret, mr_error *err)
{
    uint32_t place = count > 0 ? place_in_row(p, first) : 0;

    MR_TRY(mr_buffer_new(count * sizeof(uint64_t), ret, err));
    uint64_t *indices = mr_buffer_data(*ret);
    for (uint32_t i = 0; i < count; i++, place++) {
        uint32_t row = p->row_of[first + i];

        place = i > 0 && row != p->row_of[first + i - 1] ? 0 : place;
        indices[i] = mr_mix64(mr_kernel_random_index(random, row) + 1) + place;
    }
    return MR_OK;
}

static int run_parts(const struct mr_kernel_call *call, const struct parts *p, uint32_t first,
                     uint32_t count, const struct mr_kernel_in *captured, mr_block **ret,
                     uint32_t *bad_row, mr_error *err)
{
    const struct mr_kernel_function *fn = &call->functions[0];
    size_t ncaptured = fn->nin - mr_block_column_count(p->block);
    MR_AUTO(mr_block_unref) mr_block *some = NULL;
    MR_AUTO(mr_block_unref) mr_block *repeated = NULL;
    MR_AUTO(mr_block_unref) mr_block *given = NULL;
    MR_AUTO(mr_buffer_unref) mr_buffer *indices = NULL;
    struct mr_kernel_random random = {0};
    uint32_t bad = 0;

    MR_TRY(mr_block_slice(p->block, first, count, &some, err));
    MR_TRY(mr_take_rows(captured, ncaptured, p->rows, p->row_of + first, count, &repeated, err));
    MR_TRY(mr_block_zip((const mr_block *[]){some, repeated}, 2, &given, err));
    if (call->random != NULL) {
        MR_TRY(part_indices(call->random, p, first, count, &indices, err));
        random = *call->random;
        random.seed = mr_mix64(random.seed + 1);
        random.index = 0;
        random.indices = mr_buffer_data(indices);
    }
    int rc = fn->run(fn->program, given, call->random != NULL ? &random : NULL, ret, &bad, err);
    if (rc < 0) {
        mr_block_unref(*ret); /* the parts before */
        *ret = NULL;
        if (bad < count) {
            *bad_row = p->row_of[first + bad];
            mr_error_wrap(err, "part %u", place_in_row(p, first + bad));
        }
    }
    return rc;
}

/* Room for @n blocks, none of which is there yet. */
static int take_blocks(struct mr_scratch *held, size_t n, mr_block ***ret, mr_error *err)
{
    void *list = NULL;

    MR_TRY(mr_scratch_take(held, n * sizeof(mr_block *), &list, err));
    memset(list, 0, n * sizeof(mr_block *));
    *ret = list;
    return MR_OK;
}

/* The results of all parts. */
static int run_all(const struct mr_kernel_call *call, const struct parts *p,
                   const struct mr_kernel_in *captured, mr_block **ret, uint32_t *bad_row,
                   mr_error *err)
{
    size_t ncaptured = call->functions[0].nin - mr_block_column_count(p->block);
    struct mr_scratch held;
    mr_block **made = NULL;
    uint32_t step = 0;
    size_t n = 0;

    MR_TRY(parts_at_a_time(captured, ncaptured, p->rows, &step, err));
    int rc = take_blocks(&held, p->total / step + 1, &made, err);
    for (uint32_t at = 0; rc == MR_OK && (at < p->total || n == 0); n++) {
        uint32_t count = MR_MIN(step, p->total - at);

        rc = run_parts(call, p, at, count, captured, &made[n], bad_row, err);
        at += count;
    }
    rc = rc == MR_OK ? mr_block_concat((const mr_block *const *)made, n, ret, err) : rc;
    mr_unref_blocks(made, n);
    mr_scratch_free(&held);
    return rc;
}

/* One row whose tensors have no parts. */
static int no_parts(const struct mr_kernel_call *call, size_t nout, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc(nout, sizeof *columns);
    size_t n = 0;
    int rc = columns != NULL ? MR_OK : mr_error_nomem(err);

    for (; rc == MR_OK && n < nout; n += rc == MR_OK) {
        const struct mr_leaf_spec *spec = &call->out_specs[n];
        struct mr_output output = {0};
        int64_t dims[MR_RANK_MAX] = {0};

        for (int8_t d = 1; d < spec->rank; d++) {
            dims[d] = MR_MAX(spec->dims[d], 0);
        }
        rc = mr_output_fixed(&output, spec->dtype, 1, spec->rank, dims, err);
        rc = rc == MR_OK ? mr_output_finish(&output, &columns[n], err) : rc;
        mr_output_drop(&output);
    }
    rc = rc == MR_OK ? mr_block_from_columns(1, columns, (uint32_t)nout, ret, err) : rc;
    for (size_t i = 0; i < n; i++) {
        mr_column_release(&columns[i]);
    }
    return rc;
}

/* Parts [first, first + count) as one row. */
static int row_of_parts(const struct mr_kernel_call *call, const mr_block *results,
                        const bool *joined, uint32_t first, uint32_t count, mr_block **ret,
                        mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *some = NULL;

    if (count == 0) {
        return no_parts(call, mr_block_column_count(results), ret, err);
    }
    MR_TRY(mr_block_slice(results, first, count, &some, err));
    return mr_block_batch(some, count, joined, NULL, ret, err);
}

static int rows_of_parts(const struct mr_kernel_call *call, const struct parts *p,
                         const mr_block *results, mr_block **ret, uint32_t *bad_row, mr_error *err)
{
    MR_AUTO(mr_free) bool *joined = NULL;
    mr_error ignored; /* the rows one by one say which it is */

    MR_TRY(joined_results((struct mr_attrs){call->attrs, call->nattrs},
                          mr_block_column_count(results), &joined, err));
    if (p->same && p->rows > 0 && p->counts[0] > 0 &&
        mr_block_batch(results, p->counts[0], joined, NULL, ret, &ignored) == MR_OK) {
        return MR_OK;
    }
    struct mr_scratch held;
    mr_block **made = NULL;
    uint32_t n = 0;
    uint32_t at = 0;
    int rc = take_blocks(&held, p->rows, &made, err);
    for (; rc == MR_OK && n < p->rows; n += rc == MR_OK) {
        *bad_row = n;
        rc = row_of_parts(call, results, joined, at, p->counts[n], &made[n], err);
        at += p->counts[n];
    }
    rc = rc == MR_OK ? mr_block_concat((const mr_block *const *)made, n, ret, err) : rc;
    mr_unref_blocks(made, n);
    mr_scratch_free(&held);
    return rc;
}

/* Columns of no rows at all. */
static int no_rows(const struct mr_kernel_call *call, struct mr_owned_column *out, size_t nout,
                   mr_error *err)
{
    size_t n = 0;
    int rc = MR_OK;

    for (; rc == MR_OK && n < nout; n += rc == MR_OK) {
        struct mr_output output = {0};

        rc = mr_output_empty(&output, &call->out_specs[n], err);
        rc = rc == MR_OK ? mr_output_finish(&output, &out[n], err) : rc;
        mr_output_drop(&output);
    }
    for (size_t i = 0; rc != MR_OK && i < n; i++) {
        mr_column_release(&out[i]);
    }
    return rc;
}

static int eval_map(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                    size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                    mr_error *err)
{
    size_t mapped = mapped_inputs((struct mr_attrs){call->attrs, call->nattrs});
    struct parts made = {0};
    MR_AUTO(parts_free) struct parts *parts = &made;
    MR_AUTO(mr_block_unref) mr_block *results = NULL;
    MR_AUTO(mr_block_unref) mr_block *whole = NULL;

    (void)nin;
    *bad_row = 0;
    if (rows == 0) {
        return no_rows(call, out, nout, err);
    }
    MR_TRY(open_parts(in, mapped, rows, parts, bad_row, err));
    MR_TRY(run_all(call, parts, in + mapped, &results, bad_row, err));
    MR_TRY(rows_of_parts(call, parts, results, &whole, bad_row, err));
    *bad_row = 0;
    mr_give_columns(whole, out, nout);
    return MR_OK;
}

MR_DEFINE_KERNEL(map_fn, 1, -1, 0, .flags = MR_KERNEL_MAY_FAIL, .max_functions = 1,
                 .infer = infer_map, .eval = eval_map,
                 .attr_table = {{"mapped", MR_ATTR_INT, true}, {"joined", MR_ATTR_INTS, true}});
