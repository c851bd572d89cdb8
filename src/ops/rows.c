#include "ops/rows.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"

#include <string.h>

void mr_tensor_spec(const struct mr_tensor *t, struct mr_leaf_spec *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->dtype = t->dtype;
    mr_shape_set(ret, t->rank, t->dims);
}

int64_t mr_tensor_index(const struct mr_tensor *t, uint64_t i)
{
    int32_t narrow;
    int64_t wide;

    if (t->dtype == MR_INT32) {
        memcpy(&narrow, t->values + i * sizeof narrow, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, t->values + i * sizeof wide, sizeof wide);
    return wide;
}

void mr_strides(int rank, const int64_t *dims, uint64_t strides[MR_RANK_MAX])
{
    uint64_t stride = 1;

    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= (uint64_t)dims[d];
    }
}

#define SMALL_INPUTS 8

int mr_rows_infer(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                  struct mr_leaf_spec *out, size_t nout, mr_error *err)
{
    struct mr_leaf_spec small[SMALL_INPUTS];
    struct mr_leaf_spec *specs = nin <= SMALL_INPUTS ? small : mr_calloc(nin, sizeof *specs);
    size_t n = 0;

    MR_CHECK_ALLOC(specs, err);
    for (size_t i = 0; i < nin; i++) {
        mr_tensor_spec(&in[i], &specs[i]);
    }
    int rc = call->kernel->infer(call->attrs, call->nattrs, specs, nin, out, nout, &n, err);
    if (rc == MR_OK && n != nout) {
        rc = mr_error_set(err, MR_EINVAL, "%zu results instead of %zu", n, nout);
    }
    if (specs != small) {
        mr_free(specs);
    }
    return rc;
}

struct rows_work {
    const struct mr_row_ops *ops;
    const struct mr_kernel_call *call;
    uint32_t rows;
    size_t nin;
    size_t nout;
    struct mr_input *inputs;
    struct mr_tensor *row;      /* nin */
    struct mr_leaf_spec *specs; /* nout: of one row */
    struct mr_output *outputs;  /* nout */
    int64_t **dims;             /* nout: [rows][rank], where rows differ */
};

static void load_row(struct rows_work *w, uint32_t r)
{
    for (size_t i = 0; i < w->nin; i++) {
        w->row[i] = mr_input_row(&w->inputs[i], r);
    }
}

static int infer_row(struct rows_work *w, mr_error *err)
{
    int rc = mr_rows_infer(w->call, w->row, w->nin, w->specs, w->nout, err);

    return rc == MR_OK && w->ops->dims != NULL
               ? w->ops->dims(w->call, w->row, w->nin, w->specs, err)
               : rc;
}

/* No row says what the shape is: what is unknown is 0. */
static int alloc_empty(struct rows_work *w, mr_error *err)
{
    for (size_t o = 0; o < w->nout; o++) {
        struct mr_leaf_spec s = w->call->out_specs[o];

        for (int d = 0; d < s.rank; d++) {
            s.dims[d] = s.dims[d] < 0 ? 0 : s.dims[d];
        }
        MR_TRY(mr_output_fixed(&w->outputs[o], s.dtype, 0, s.rank < 0 ? 0 : s.rank, s.dims, err));
    }
    return MR_OK;
}

static int alloc_same(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    *bad_row = 0;
    load_row(w, 0);
    MR_TRY(infer_row(w, err));
    for (size_t o = 0; o < w->nout; o++) {
        MR_TRY(mr_output_fixed(&w->outputs[o], w->specs[o].dtype, w->rows, w->specs[o].rank,
                               w->specs[o].dims, err));
    }
    return MR_OK;
}

static int collect_dims(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < w->rows; r++) {
        *bad_row = r;
        load_row(w, r);
        MR_TRY(infer_row(w, err));
        for (size_t o = 0; o < w->nout; o++) {
            size_t rank = (size_t)w->specs[o].rank;

            if (r == 0) {
                w->dims[o] = mr_reallocarray(NULL, (size_t)w->rows * rank + 1, sizeof(int64_t));
                MR_CHECK_ALLOC(w->dims[o], err);
            }
            memcpy(w->dims[o] + r * rank, w->specs[o].dims, rank * sizeof(int64_t));
        }
    }
    return MR_OK;
}

static int alloc_each(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    MR_TRY(collect_dims(w, bad_row, err));

    for (size_t o = 0; o < w->nout; o++) {
        MR_TRY(mr_output_var(&w->outputs[o], w->specs[o].dtype, w->rows, w->specs[o].rank,
                             w->dims[o], bad_row, err));
    }
    return MR_OK;
}

static int fill_rows(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < w->rows; r++) {
        load_row(w, r);
        for (size_t o = 0; o < w->nout; o++) {
            struct mr_output *output = &w->outputs[o];
            struct mr_result result = {.dims = mr_output_dims(output, r),
                                       .rank = output->rank,
                                       .dtype = output->dtype,
                                       .width = output->width,
                                       .column = output};

            result.values = mr_output_row(output, r, &result.count);
            int rc = w->ops->fill(w->call, w->row, w->nin, o, &result, err);
            if (rc < 0) {
                *bad_row = r;
                return rc;
            }
        }
    }
    return MR_OK;
}

static int run(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    bool same = w->ops->dims == NULL;

    *bad_row = 0;
    if (w->rows == 0) {
        return alloc_empty(w, err);
    }
    for (size_t i = 0; i < w->nin; i++) {
        same = same && w->inputs[i].fixed;
    }
    MR_TRY(same ? alloc_same(w, bad_row, err) : alloc_each(w, bad_row, err));
    return fill_rows(w, bad_row, err);
}

/* All columns or none. */
static int finish(struct rows_work *w, struct mr_owned_column *out, mr_error *err)
{
    struct mr_owned_column *made = mr_calloc(w->nout, sizeof *made);
    int rc = MR_OK;
    size_t o = 0;

    MR_CHECK_ALLOC(made, err);
    for (; rc == MR_OK && o < w->nout; o++) {
        rc = mr_output_finish(&w->outputs[o], &made[o], err);
    }
    for (size_t i = 0; i < w->nout; i++) {
        if (rc == MR_OK) {
            out[i] = made[i];
        } else {
            mr_column_release(&made[i]);
        }
    }
    mr_free(made);
    return rc;
}

int mr_rows_eval(const struct mr_row_ops *ops, const struct mr_kernel_call *call, uint32_t rows,
                 const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                 size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct rows_work w = {.ops = ops, .call = call, .rows = rows, .nin = nin, .nout = nout};
    int rc;

    *bad_row = 0;
    rc = mr_inputs_open(in, nin, rows, &w.inputs, err);
    if (rc < 0) {
        return rc;
    }
    w.row = mr_calloc(nin, sizeof *w.row);
    w.specs = mr_calloc(nout, sizeof *w.specs);
    w.outputs = mr_calloc(nout, sizeof *w.outputs);
    w.dims = mr_calloc(nout, sizeof *w.dims);
    if (w.row == NULL || w.specs == NULL || w.outputs == NULL || w.dims == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    rc = run(&w, bad_row, err);
    if (rc == MR_OK) {
        rc = finish(&w, out, err);
    }

out:
    for (size_t o = 0; o < nout; o++) {
        if (w.outputs != NULL) {
            mr_output_drop(&w.outputs[o]);
        }
        if (w.dims != NULL) {
            mr_free(w.dims[o]);
        }
    }
    mr_inputs_close(w.inputs, nin);
    mr_free(w.row);
    mr_free(w.specs);
    mr_free(w.outputs);
    mr_free(w.dims);
    return rc;
}
