#include "ops/elementwise.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"

#include <string.h>

int mr_infer_elementwise(const struct mr_leaf_spec *in, size_t nin, size_t first, uint32_t set,
                         struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    struct mr_leaf_spec result = in[first];
    int rc = mr_infer_same_dtype(in, first, nin, err);

    for (size_t i = first; rc == MR_OK && i < nin; i++) {
        rc = mr_infer_dtype(in, i, set, err);
    }
    if (nin > 0) {
        mr_shape_set(&result, in[0].rank, in[0].dims);
    }
    for (size_t i = 1; rc == MR_OK && i < nin; i++) {
        rc = mr_shape_broadcast(&in[i], &result, err);
    }
    if (rc < 0) {
        return rc;
    }
    out[0] = result;
    *nout = 1;
    return MR_OK;
}

struct work {
    mr_kernel_loop loop;
    size_t nin;
    struct mr_input inputs[MR_ELEMENTWISE_INPUTS_MAX];
    struct mr_output out;
};

/* The shape that the rows of @row broadcast to. */
static int join_shapes(const struct mr_tensor *row, size_t nin, struct mr_leaf_spec *ret,
                       mr_error *err)
{
    mr_shape_set(ret, row[0].rank, row[0].dims);
    for (size_t i = 1; i < nin; i++) {
        struct mr_leaf_spec s;

        mr_shape_set(&s, row[i].rank, row[i].dims);
        MR_TRY(mr_shape_broadcast(&s, ret, err));
    }
    return MR_OK;
}

/*
 * One row whose inputs have other shapes than the result: runs along the innermost axes, as long as
 * every input either goes on or stands still there, and an odometer for the axes outside.
 */
static size_t run_strided(const struct work *w, const struct mr_tensor *row, int rank,
                          const int64_t *dims, unsigned char *out, mr_error *err)
{
    uint64_t strides[MR_ELEMENTWISE_INPUTS_MAX][MR_RANK_MAX];
    uint64_t at[MR_ELEMENTWISE_INPUTS_MAX] = {0};
    int64_t counter[MR_RANK_MAX] = {0};
    uint8_t step[MR_ELEMENTWISE_INPUTS_MAX];
    uint64_t run = 1;
    int outer = rank;

    for (size_t k = 0; k < w->nin; k++) {
        uint64_t stride = 1;

        for (int d = rank - 1, e = row[k].rank - 1; d >= 0; d--, e--) {
            bool moves = e >= 0 && row[k].dims[e] != 1;

            strides[k][d] = moves ? stride : 0;
            stride *= e >= 0 ? (uint64_t)row[k].dims[e] : 1;
        }
        step[k] = rank > 0 && strides[k][rank - 1] != 0;
    }
    for (; outer > 0; outer--) {
        bool goes_on = true;

        for (size_t k = 0; k < w->nin; k++) {
            goes_on =
                goes_on && (dims[outer - 1] == 1 || strides[k][outer - 1] == (step[k] ? run : 0));
        }
        if (!goes_on) {
            break;
        }
        run *= (uint64_t)dims[outer - 1];
    }
    for (uint64_t done = 0;; done += run) {
        const void *in[MR_ELEMENTWISE_INPUTS_MAX];

        for (size_t k = 0; k < w->nin; k++) {
            in[k] = row[k].values + at[k] * row[k].width;
        }
        size_t n = w->loop(run, out + done * w->out.width, in, step, err);
        if (n != run) {
            return done + n;
        }
        int d = outer - 1;
        for (; d >= 0; d--) {
            for (size_t k = 0; k < w->nin; k++) {
                at[k] += strides[k][d];
            }
            if (++counter[d] < dims[d]) {
                break;
            }
            for (size_t k = 0; k < w->nin; k++) {
                at[k] -= strides[k][d] * (uint64_t)dims[d];
            }
            counter[d] = 0;
        }
        if (d < 0) {
            return done + run;
        }
    }
}

static int run_row(struct work *w, uint32_t r, mr_error *err)
{
    struct mr_tensor row[MR_ELEMENTWISE_INPUTS_MAX];
    const void *in[MR_ELEMENTWISE_INPUTS_MAX];
    uint8_t step[MR_ELEMENTWISE_INPUTS_MAX];
    const int64_t *dims = mr_output_dims(&w->out, r);
    bool simple = true;
    uint64_t count;
    unsigned char *out = mr_output_row(&w->out, r, &count);

    if (count == 0) {
        return MR_OK;
    }
    for (size_t k = 0; k < w->nin; k++) {
        row[k] = mr_input_row(&w->inputs[k], r);
        in[k] = row[k].values;
        step[k] = row[k].count == count;
        simple = simple && (row[k].count == 1 || row[k].count == count);
    }
    if (count == 1) {
        memset(step, 0, sizeof step);
    }
    size_t n = simple ? w->loop(count, out, in, step, err)
                      : run_strided(w, row, w->out.rank, dims, out, err);
    return n == count ? MR_OK : MR_EINVAL;
}

/* All rows have the same shapes: true when one call of the loop does them all. */
static bool is_flat(const struct work *w, uint8_t *step)
{
    for (size_t k = 0; k < w->nin; k++) {
        const struct mr_input *in = &w->inputs[k];

        if (in->broadcast && in->per_row == 1) {
            step[k] = 0;
        } else if (in->broadcast || in->per_row != w->out.per_row) {
            return false;
        } else {
            step[k] = 1;
        }
    }
    return true;
}

static int alloc_fixed(struct work *w, unsigned dtype, uint32_t rows, mr_error *err)
{
    struct mr_tensor row[MR_ELEMENTWISE_INPUTS_MAX] = {0};
    struct mr_leaf_spec shape;

    for (size_t k = 0; k < w->nin; k++) {
        row[k] = mr_input_row(&w->inputs[k], 0);
    }
    MR_TRY(join_shapes(row, w->nin, &shape, err));
    return mr_output_fixed(&w->out, dtype, rows, shape.rank, shape.dims, err);
}

static int alloc_var(struct work *w, unsigned dtype, uint32_t rows, uint32_t *bad_row,
                     mr_error *err)
{
    struct mr_tensor row[MR_ELEMENTWISE_INPUTS_MAX] = {0};
    struct mr_leaf_spec shape;
    int64_t *dims = NULL;
    int rank = 0;
    int rc = MR_OK;

    for (size_t k = 0; k < w->nin; k++) {
        rank = w->inputs[k].rank > rank ? w->inputs[k].rank : rank;
    }
    dims = mr_reallocarray(NULL, (size_t)rows * (size_t)rank + 1, sizeof *dims);
    if (dims == NULL) {
        *bad_row = 0;
        return mr_error_nomem(err);
    }
    for (uint32_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < w->nin; k++) {
            row[k] = mr_input_row(&w->inputs[k], r);
        }
        rc = join_shapes(row, w->nin, &shape, err);
        if (rc < 0) {
            *bad_row = r;
            goto out;
        }
        memcpy(dims + (size_t)r * (size_t)rank, shape.dims, (size_t)rank * sizeof *dims);
    }
    rc = mr_output_var(&w->out, dtype, rows, rank, dims, bad_row, err);

out:
    mr_free(dims);
    return rc;
}

static int run(struct work *w, unsigned dtype, uint32_t rows, uint32_t *bad_row, mr_error *err)
{
    uint8_t step[MR_ELEMENTWISE_INPUTS_MAX];
    const void *in[MR_ELEMENTWISE_INPUTS_MAX];
    bool fixed = true;
    int rc;

    for (size_t k = 0; k < w->nin; k++) {
        fixed = fixed && w->inputs[k].fixed;
        in[k] = w->inputs[k].values;
    }
    rc = fixed ? alloc_fixed(w, dtype, rows, err) : alloc_var(w, dtype, rows, bad_row, err);
    if (rc < 0) {
        *bad_row = fixed ? 0 : *bad_row;
        return rc;
    }
    if (w->out.count == 0) {
        return MR_OK;
    }
    if (fixed && is_flat(w, step)) {
        size_t n = w->loop(w->out.count, w->out.values, in, step, err);

        if (n != w->out.count) {
            *bad_row = (uint32_t)(n / w->out.per_row);
            return MR_EINVAL;
        }
        return MR_OK;
    }
    for (uint32_t r = 0; rc == MR_OK && r < rows; r++) {
        rc = run_row(w, r, err);
        if (rc < 0) {
            *bad_row = r;
        }
    }
    return rc;
}

int mr_elementwise_eval(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                        size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct work w = {.nin = nin};
    uint8_t dtypes[MR_ELEMENTWISE_INPUTS_MAX];
    size_t open = 0;
    int rc = MR_OK;

    if (nin > MR_ELEMENTWISE_INPUTS_MAX || nout != 1) {
        *bad_row = 0;
        return mr_error_set(err, MR_EINTERNAL, "%zu inputs and %zu results", nin, nout);
    }
    for (; open < nin; open++) {
        dtypes[open] = in[open].column->c.dtype;
        rc = mr_input_open(&in[open], rows, &w.inputs[open], err);
        if (rc < 0) {
            *bad_row = 0;
            goto out;
        }
    }
    w.loop = call->kernel->loop(call->attrs, call->nattrs, dtypes, nin);
    if (w.loop == NULL) {
        *bad_row = 0;
        rc = mr_error_set(err, MR_EINTERNAL, "no loop for %s", mr_dtype_name((mr_dtype)dtypes[0]));
        goto out;
    }
    rc = run(&w, call->out_specs[0].dtype, rows, bad_row, err);
    if (rc == MR_OK) {
        rc = mr_output_finish(&w.out, out, err);
        *bad_row = 0;
    }

out:
    mr_output_drop(&w.out);
    for (size_t k = 0; k < open; k++) {
        mr_input_close(&w.inputs[k]);
    }
    return rc;
}
