#include "ops/elementwise.h"

#include "ops/attr.h"

struct work {
    mr_kernel_loop loop;
    size_t nin;
    struct mr_input inputs[MR_ELEMENTWISE_INPUTS_MAX];
    struct mr_output out;
};

/* One row whose inputs have other shapes than the result: runs along the innermost axes, as long as
 * every input either goes on or stands still there, and an odometer for the axes outside. */
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

/* What the shapes of row @r of the inputs broadcast to. */
static int shape_of_row(const struct work *w, uint32_t r, struct mr_leaf_spec *ret, mr_error *err)
{
    for (size_t k = 0; k < w->nin; k++) {
        struct mr_tensor row = mr_input_row(&w->inputs[k], r);
        struct mr_leaf_spec s;

        mr_shape_set(k == 0 ? ret : &s, row.rank, row.dims);
        MR_TRY(k == 0 ? MR_OK : mr_shape_broadcast(&s, ret, err));
    }
    return MR_OK;
}

static int alloc_fixed(struct work *w, unsigned dtype, uint32_t rows, mr_error *err)
{
    struct mr_leaf_spec shape;

    MR_TRY(shape_of_row(w, 0, &shape, err));
    return mr_output_fixed(&w->out, dtype, rows, shape.rank, shape.dims, err);
}

static int alloc_var(struct work *w, unsigned dtype, uint32_t rows, uint32_t *bad_row,
                     mr_error *err)
{
    struct mr_leaf_spec shape;
    int rank = 0;

    for (size_t k = 0; k < w->nin; k++) {
        rank = w->inputs[k].rank > rank ? w->inputs[k].rank : rank;
    }
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    MR_TRY(mr_buffer_new((size_t)rows * (size_t)rank * sizeof(int64_t), &held, err));
    int64_t *dims = mr_buffer_data(held);
    for (uint32_t r = 0; r < rows; r++) {
        *bad_row = r;
        MR_TRY(shape_of_row(w, r, &shape, err));
        memcpy(dims + (size_t)r * (size_t)rank, shape.dims, (size_t)rank * sizeof *dims);
    }
    return mr_output_var(&w->out, dtype, rows, rank, dims, bad_row, err);
}

static int run(struct work *w, unsigned dtype, uint32_t rows, uint32_t *bad_row, mr_error *err)
{
    uint8_t step[MR_ELEMENTWISE_INPUTS_MAX];
    const void *in[MR_ELEMENTWISE_INPUTS_MAX];
    bool fixed = true;

    for (size_t k = 0; k < w->nin; k++) {
        fixed = fixed && w->inputs[k].fixed;
        in[k] = w->inputs[k].values;
    }
    MR_TRY(fixed ? alloc_fixed(w, dtype, rows, err) : alloc_var(w, dtype, rows, bad_row, err));
    if (w->out.count == 0) {
        return MR_OK;
    }
    if (fixed && is_flat(w, step)) {
        size_t n = w->loop(w->out.count, w->out.values, in, step, err);

        *bad_row = n != w->out.count ? (uint32_t)(n / w->out.per_row) : 0;
        return n != w->out.count ? MR_EINVAL : MR_OK;
    }
    for (uint32_t r = 0; r < rows; r++) {
        *bad_row = r;
        MR_TRY(run_row(w, r, err));
    }
    *bad_row = 0;
    return MR_OK;
}

static int eval(struct work *w, const struct mr_kernel_call *call, uint32_t rows,
                const struct mr_kernel_in *in, struct mr_owned_column *out, uint32_t *bad_row,
                mr_error *err)
{
    uint8_t dtypes[MR_ELEMENTWISE_INPUTS_MAX];

    for (size_t k = 0; k < w->nin; k++) {
        dtypes[k] = in[k].column->c.dtype;
        MR_TRY(mr_input_open(&in[k], rows, &w->inputs[k], err));
    }
    w->loop = mr_kernel_loop_of(call->kernel, (struct mr_attrs){call->attrs, call->nattrs}, dtypes);
    if (w->loop == NULL) {
        return mr_error_set(err, MR_EINTERNAL, "no loop for %s",
                            mr_dtype_name((mr_dtype)dtypes[0]));
    }
    MR_TRY(run(w, call->out_specs[0].dtype, rows, bad_row, err));
    return mr_output_finish(&w->out, out, err);
}

int mr_elementwise_eval(const struct mr_kernel_call *call, uint32_t rows,
                        const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                        size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct work w = {.nin = nin};

    *bad_row = 0;
    if (nin > MR_ELEMENTWISE_INPUTS_MAX || nout != 1) {
        return mr_error_set(err, MR_EINTERNAL, "%zu inputs and %zu results", nin, nout);
    }
    int rc = eval(&w, call, rows, in, out, bad_row, err);
    mr_output_drop(&w.out);
    for (size_t k = 0; k < nin; k++) {
        mr_input_close(&w.inputs[k]);
    }
    return rc;
}
