/* Running a plan on a block. When row k fails, everything is run again on the rows before it:
 * failures are rare, and each such round ends at an earlier row and a later operator, so there are
 * few. */
#include "base/cancel.h"
#include "dataset/location.h"
#include "element/trace.h"
#include "engine/program/plan.h"
#include "ops/tensor.h"

/* ---- one op ---- */

void mr_plan_name_op(const struct mr_program *p, const struct mr_plan_op *op, mr_error *err)
{
    const mr_function *fn = p->fn;
    uint32_t behind = 0;
    char text[MR_OPERATOR_TEXT];

    if (err == NULL) {
        return;
    }
    while (behind + 1 < fn->nends && op->number < fn->ends[fn->nends - 2 - behind]) {
        behind++;
    }
    mr_error_wrap(err, "%s", mr_fn_node_text(fn->nodes[op->number], text));
    err->traits = (err->traits & ~MR_BEHIND) | MR_MIN(behind, MR_BEHIND_MAX) << MR_BEHIND_SHIFT;
}

/* Row @row of @c as a column of one row; shares the memory and holds nothing. */
static struct mr_owned_column one_row(const struct mr_owned_column *from, uint32_t row)
{
    struct mr_owned_column ret = *from;
    struct mr_column *one = &ret.c;
    const struct mr_column *c = &from->c;

    if (c->kind == MR_COLUMN_VAR) {
        one->row_dims = c->row_dims + (size_t)row * c->rank;
        one->starts = c->starts + row;
        return ret;
    }
    uint64_t first = row;
    for (int i = 0; i < c->rank; i++) {
        first *= (uint64_t)c->dims[i];
    }
    if (c->dtype == MR_STRING) {
        one->offsets = c->offsets + first;
    } else if (c->data != NULL) {
        one->data = (const unsigned char *)c->data + first * mr_dtype_size((mr_dtype)c->dtype);
    }
    return ret;
}

/* Results of single rows, kept as blocks until they are joined. */
static int run_rowwise(const struct mr_plan_op *op, const struct mr_kernel_call *call,
                       uint32_t rows, const struct mr_kernel_in *in, struct mr_owned_column *out,
                       uint32_t *bad_row, mr_error *err)
{
    mr_block **done = mr_calloc(rows, sizeof *done);
    struct mr_owned_column *columns = mr_calloc(op->nin + op->nout, sizeof *columns);
    struct mr_kernel_in *one = mr_calloc(op->nin, sizeof *one);
    mr_block *joined = NULL;
    int rc = MR_OK;

    *bad_row = 0;
    if (done == NULL || columns == NULL || one == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    for (uint32_t r = 0; rc == MR_OK && r < rows; r++) {
        struct mr_owned_column *results = columns + op->nin;
        struct mr_kernel_random drawn;
        struct mr_kernel_call one_call = *call;
        uint32_t bad_one;

        if (call->random != NULL) {
            drawn = *call->random;
            drawn.index = mr_kernel_random_index(call->random, r);
            drawn.indices = NULL;
            one_call.random = &drawn;
        }
        for (size_t i = 0; i < op->nin; i++) {
            columns[i] = in[i].broadcast ? *in[i].column : one_row(in[i].column, r);
            one[i] = (struct mr_kernel_in){&columns[i], false};
        }
        *bad_row = r;
        rc = mr_cancel_check(err);
        rc = rc != MR_OK
                 ? rc
                 : call->kernel->eval(&one_call, 1, one, op->nin, results, op->nout, &bad_one, err);
        if (rc == MR_OK) {
            rc = mr_block_from_columns(1, results, (uint32_t)op->nout, &done[r], err);
            for (size_t i = 0; i < op->nout; i++) {
                mr_column_release(&results[i]);
            }
        }
    }
    if (rc == MR_OK) {
        rc = mr_block_concat((const mr_block *const *)done, rows, &joined, err);
    }
    for (size_t i = 0; rc == MR_OK && i < op->nout; i++) {
        struct mr_owned_column column = mr_block_owned_column(joined, (uint32_t)i);

        mr_column_share(&column, &out[i]);
    }

out:
    for (uint32_t r = 0; done != NULL && r < rows; r++) {
        mr_block_unref(done[r]);
    }
    mr_block_unref(joined);
    mr_free(done);
    mr_free(columns);
    mr_free(one);
    return rc;
}

int mr_op_run(const struct mr_program *p, const struct mr_plan_op *op, uint32_t rows,
              struct mr_owned_column *columns, const struct mr_kernel_random *random,
              uint32_t *bad_row, mr_error *err)
{
    const struct mr_kernel *kernel = op->kernel;
    struct mr_kernel_random drawn;
    struct mr_kernel_call call = {
        .kernel = kernel,
        .attrs = op->attrs,
        .nattrs = op->nattrs,
        .out_specs = op->node->out_specs,
        .state = op->state,
        .functions = op->functions,
        .nfunctions = op->nfunctions,
    };
    struct mr_kernel_in small_in[8];
    struct mr_owned_column small_out[4];
    struct mr_kernel_in *in = op->nin <= 8 ? small_in : mr_calloc(op->nin, sizeof *in);
    struct mr_owned_column *out = op->nout <= 4 ? small_out : mr_calloc(op->nout, sizeof *out);
    bool uniform = op->nout > 0 && p->slots[op->out[0]].uniform;
    uint32_t n = uniform ? 1 : rows;
    int rc;

    *bad_row = 0;
    if (in == NULL || out == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    if (random != NULL) {
        /* Operators of one function draw from streams of their own. */
        drawn = *random;
        drawn.seed ^= op->salt * UINT64_C(0x9e3779b97f4a7c15);
        call.random = &drawn;
    }
    for (size_t i = 0; i < op->nin; i++) {
        in[i] = (struct mr_kernel_in){&columns[op->in[i]], !uniform && p->slots[op->in[i]].uniform};
    }
    rc = (kernel->flags & MR_KERNEL_ROWWISE) != 0 && n > 0
             ? run_rowwise(op, &call, n, in, out, bad_row, err)
             : kernel->eval(&call, n, in, op->nin, out, op->nout, bad_row, err);
    if (rc < 0) {
        MR_ASSERT(*bad_row < n || *bad_row == 0);
        if (n > 0) {
            mr_plan_name_file(p, op, *bad_row, columns, err);
        }
        mr_plan_name_op(p, op, err);
        goto out;
    }
    for (size_t i = 0; i < op->nout; i++) {
        const struct mr_leaf_spec *spec = &call.out_specs[i];

        MR_ASSERT(out[i].c.dtype == spec->dtype);
        MR_ASSERT(spec->rank < 0 || (int)out[i].c.rank == (int)spec->rank);
        columns[op->out[i]] = out[i];
    }

out:
    if (in != small_in) {
        mr_free(in);
    }
    if (out != small_out) {
        mr_free(out);
    }
    return rc;
}

/* ---- all of them ---- */

void mr_plan_bind(const struct mr_program *p, const mr_block *in, const mr_block *captures,
                  struct mr_owned_column *columns)
{
    for (uint32_t s = 0; s < p->nslots; s++) {
        const struct mr_slot *slot = &p->slots[s];

        switch ((enum mr_slot_kind)slot->kind) {
        case MR_SLOT_INPUT: columns[s] = mr_block_owned_column(in, slot->index); break;
        case MR_SLOT_CAPTURE: columns[s] = mr_block_owned_column(captures, slot->index); break;
        case MR_SLOT_CONSTANT: columns[s] = slot->column; break;
        case MR_SLOT_RESULT: break;
        }
    }
}

static int run_step(const struct mr_program *p, const struct mr_step *step, uint32_t rows,
                    struct mr_owned_column *columns, const struct mr_kernel_random *random,
                    uint32_t *bad_row, mr_error *err)
{
    int rc = MR_OK;

    if (step->fused == NULL) {
        return mr_op_run(p, &p->ops[step->op], rows, columns, random, bad_row, err);
    }
    if (mr_fused_run(p, step->fused, rows, columns, &rc, bad_row, err)) {
        return rc;
    }
    for (uint32_t i = 0; rc == MR_OK && i < step->fused->nops; i++) {
        rc = mr_op_run(p, &p->ops[step->fused->ops[i].op], rows, columns, random, bad_row, err);
    }
    return rc;
}

static int finish(const struct mr_program *p, uint32_t rows, struct mr_owned_column *columns,
                  mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_owned_column *out = mr_calloc(p->noutputs, sizeof *out);
    MR_AUTO(mr_free) bool *made = mr_calloc(p->noutputs, sizeof *made);
    int rc = out != NULL && made != NULL ? MR_OK : mr_error_nomem(err);

    for (uint32_t i = 0; rc == MR_OK && i < p->noutputs; i++) {
        out[i] = columns[p->outputs[i]];
        if (p->slots[p->outputs[i]].uniform) {
            rc = mr_column_expand(&columns[p->outputs[i]], rows, &out[i], err);
            made[i] = rc == MR_OK;
        }
    }
    if (rc == MR_OK) {
        rc = mr_block_from_columns(rows, out, p->noutputs, ret, err);
    }
    for (uint32_t i = 0; made != NULL && i < p->noutputs; i++) {
        if (made[i]) {
            mr_column_release(&out[i]);
        }
    }
    return rc;
}

int mr_plan_run_steps(const struct mr_program *p, enum mr_steps which, uint32_t rows,
                      struct mr_owned_column *columns, const struct mr_kernel_random *random,
                      uint64_t *inner, uint32_t *bad_row, mr_error *err)
{
    int rc = MR_OK;

    for (uint32_t i = 0; rc == MR_OK && i < p->nsteps; i++) {
        const struct mr_step *step = &p->steps[i];

        if (which != MR_STEPS_ALL && step->uniform != (which == MR_STEPS_UNIFORM)) {
            continue;
        }
        rc = mr_cancel_check(err);
        rc = rc == MR_OK ? run_step(p, step, rows, columns, random, bad_row, err) : rc;
        for (uint32_t k = 0; k < step->ndead; k++) {
            uint32_t slot = step->dead[k];

            if (p->slots[slot].uniform && which != MR_STEPS_ALL) {
                continue; /* other steps read it, and other strips */
            }
            if (rc == MR_OK && !p->slots[slot].uniform) {
                *inner += mr_strips_bytes(&columns[slot].c, rows);
            }
            mr_column_release(&columns[slot]);
        }
    }
    return rc;
}

void mr_plan_release_results(const struct mr_program *p, struct mr_owned_column *columns)
{
    for (uint32_t s = 0; s < p->nslots; s++) {
        if (p->slots[s].kind == MR_SLOT_RESULT) {
            mr_column_release(&columns[s]);
        }
    }
}

/* The block of what was computed. */
static int conclude(const struct mr_program *p, const mr_block *in, uint32_t rows,
                    struct mr_owned_column *columns, mr_block **ret, mr_error *err)
{
    MR_TRY(finish(p, rows, columns, ret, err));
    if (!mr_plan_trace_files(p, columns, *ret)) {
        mr_block_trace_as(*ret, in);
    }
    int rc = mr_block_add_origin(ret, mr_block_origin(in), err);
    if (rc != MR_OK) {
        mr_block_unref(*ret);
        *ret = NULL;
    }
    return rc;
}

static int run_rows(const struct mr_program *p, const mr_block *in, const mr_block *captures,
                    uint32_t rows, const struct mr_kernel_random *random, mr_block **ret,
                    uint32_t *bad_row, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc(p->nslots, sizeof *columns);
    uint64_t inner = 0;
    int rc = MR_OK;

    *bad_row = 0;
    MR_CHECK_ALLOC(columns, err);
    mr_plan_bind(p, in, captures, columns);
    if (!mr_strips_run(p, in, captures, rows, random, columns)) {
        rc = mr_plan_run_steps(p, MR_STEPS_ALL, rows, columns, random, &inner, bad_row, err);
        if (rc == MR_OK) {
            mr_strips_note(p, rows, inner, columns);
        }
    }
    if (rc == MR_OK) {
        *bad_row = 0;
        rc = conclude(p, in, rows, columns, ret, err);
    }
    mr_plan_release_results(p, columns);
    return rc;
}

/* Loops were chosen for the dtypes of the specs: a column of another one must not reach them. */
static int check_column(const char *what, uint32_t i, const struct mr_column *c,
                        const struct mr_leaf_spec *spec, mr_error *err)
{
    if (c->dtype == spec->dtype && (spec->rank < 0 || (int)c->rank == (int)spec->rank)) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL, "%s %u is %s of rank %d; the function wants %s of rank %d",
                        what, i, mr_dtype_name((mr_dtype)c->dtype), c->rank,
                        mr_dtype_name((mr_dtype)spec->dtype), spec->rank);
}

static int check_arguments(const struct mr_program *p, const mr_block *in, const mr_block *captures,
                           mr_error *err)
{
    if (mr_block_column_count(in) != p->ninputs) {
        return mr_error_set(err, MR_EINVAL, "a function of %u tensors was given %u", p->ninputs,
                            mr_block_column_count(in));
    }
    if (p->ncaptures > 0 && (captures == NULL || mr_block_rows(captures) != 1 ||
                             mr_block_column_count(captures) != p->ncaptures)) {
        return mr_error_set(err, MR_EINTERNAL,
                            "a function with %u captured values was given others", p->ncaptures);
    }
    for (uint32_t s = 0; s < p->nslots; s++) {
        const struct mr_slot *slot = &p->slots[s];

        if (slot->kind == MR_SLOT_INPUT) {
            MR_TRY(check_column("component", slot->index, mr_block_column(in, slot->index),
                                &slot->spec, err));
        } else if (slot->kind == MR_SLOT_CAPTURE) {
            MR_TRY(check_column("captured value", slot->index,
                                mr_block_column(captures, slot->index), &slot->spec, err));
        }
    }
    return MR_OK;
}

int mr_program_run(const mr_program *p, const mr_block *in, const mr_block *captures,
                   const struct mr_kernel_random *random, mr_block **ret, uint32_t *bad_row,
                   mr_error *err)
{
    uint32_t rows = mr_block_rows(in);
    uint32_t bad = 0;
    mr_block *out = NULL;
    int rc = check_arguments(p, in, captures, err);

    rc = rc == MR_OK ? run_rows(p, in, captures, rows, random, &out, &bad, err) : rc;
    if (rc == MR_OK) {
        *ret = out;
        return MR_OK;
    }
    for (bool failed = true; failed && bad > 0;) {
        mr_error earlier;
        uint32_t earlier_bad;
        int again = run_rows(p, in, captures, bad, random, &out, &earlier_bad, &earlier);

        failed = again < 0;
        if (failed) {
            rc = again;
            bad = earlier_bad;
            (void)mr_error_pass(err, rc, &earlier);
        }
    }
    *ret = out;
    *bad_row = bad;
    return rc;
}
