#include "ops/rows.h"

#include "base/cancel.h"
#include "ops/attr.h"

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

uint64_t mr_broadcast_index(const struct mr_tensor *t, const struct mr_result *out, int inner,
                            uint64_t i)
{
    uint64_t at = 0;
    uint64_t stride = 1;

    for (int d = out->rank - 1 - inner, e = t->rank - 1 - inner; e >= 0; d--, e--) {
        uint64_t index = i % (uint64_t)out->dims[d];

        i /= (uint64_t)out->dims[d];
        at += t->dims[e] == 1 ? 0 : index * stride;
        stride *= (uint64_t)t->dims[e];
    }
    return at;
}

int mr_result_put_bytes(struct mr_result *out, const void *bytes, size_t size,
                        struct mr_string *ret, mr_error *err)
{
    unsigned char *copy = mr_output_bytes(out->column, size, err);

    if (copy == NULL) {
        return MR_EEXHAUSTED;
    }
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    *ret = (struct mr_string){copy, size};
    return MR_OK;
}

void mr_result_put_index(struct mr_result *out, uint64_t i, uint64_t value)
{
    if (out->dtype == MR_INT32) {
        ((int32_t *)(void *)out->values)[i] = (int32_t)(uint32_t)value;
    } else {
        ((int64_t *)(void *)out->values)[i] = (int64_t)value;
    }
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
    MR_AUTO(mr_free)
    struct mr_leaf_spec *many = nin <= SMALL_INPUTS ? NULL : mr_calloc(nin, sizeof *many);
    struct mr_leaf_spec *specs = nin <= SMALL_INPUTS ? small : many;
    struct mr_kernel_infer it = {
        {call->attrs, call->nattrs}, specs, nin, out, nout, 0, call->functions, call->nfunctions};

    MR_CHECK_ALLOC(specs, err);
    for (size_t i = 0; i < nin; i++) {
        mr_tensor_spec(&in[i], &specs[i]);
    }
    MR_TRY(mr_infer_call(call->kernel, &it, err));
    if (it.nout != nout) {
        return mr_error_set(err, MR_EINVAL, "%zu results instead of %zu", it.nout, nout);
    }
    for (size_t o = 0; o < nout; o++) {
        /* A shape of an attribute may be of any rank. */
        if (out[o].rank < 0 && (call->kernel->flags & MR_KERNEL_FINDS_RANK) == 0) {
            return mr_error_set(err, MR_EINVAL, "the rank of result %zu is unknown", o);
        }
    }
    return MR_OK;
}

struct rows_result {
    struct mr_output output;
    struct mr_owned_column made;
    mr_buffer *dims; /* int64_t [rows][rank], where rows differ */
    int8_t rank;     /* of each of them */
};

struct rows_work {
    const struct mr_kernel_call *call;
    uint32_t rows;
    size_t nout;
    struct mr_input *inputs;
    struct mr_tensor *tensors; /* of one row */
    struct mr_row row;
    struct mr_kernel_random random; /* of that row */
    struct mr_leaf_spec *specs;     /* nout: of one row */
    struct rows_result *results;    /* nout */
};

static void load_row(struct rows_work *w, uint32_t r)
{
    for (size_t i = 0; i < w->row.nin; i++) {
        w->tensors[i] = mr_input_row(&w->inputs[i], r);
    }
    if (w->call->random != NULL) {
        w->random.index = mr_kernel_random_index(w->call->random, r);
    }
}

static int infer_row(struct rows_work *w, uint32_t r, mr_error *err)
{
    load_row(w, r);
    MR_TRY(mr_rows_infer(w->call, w->tensors, w->row.nin, w->specs, w->nout, err));
    return w->call->kernel->dims != NULL ? w->call->kernel->dims(&w->row, w->specs, err) : MR_OK;
}

static int alloc_empty(struct rows_work *w, mr_error *err)
{
    for (size_t o = 0; o < w->nout; o++) {
        MR_TRY(mr_output_empty(&w->results[o].output, &w->call->out_specs[o], err));
    }
    return MR_OK;
}

/* Whether infer says all about the rows, which have one shape: then dims() need not look at
 * them. */
static int is_complete(struct rows_work *w, bool *ret, mr_error *err)
{
    load_row(w, 0);
    MR_TRY(mr_rows_infer(w->call, w->tensors, w->row.nin, w->specs, w->nout, err));
    *ret = true;
    for (size_t o = 0; o < w->nout; o++) {
        *ret = *ret && w->specs[o].rank >= 0;
        for (int d = 0; d < w->specs[o].rank; d++) {
            *ret = *ret && w->specs[o].dims[d] != MR_DIM_UNKNOWN;
        }
    }
    return MR_OK;
}

static int alloc_same(struct rows_work *w, mr_error *err)
{
    for (size_t o = 0; o < w->nout; o++) {
        MR_TRY(mr_output_fixed(&w->results[o].output, w->specs[o].dtype, w->rows, w->specs[o].rank,
                               w->specs[o].dims, err));
    }
    return MR_OK;
}

/* The dims of result @o of row @r are those of its spec. A column has one rank: with another one, a
 * row has to go into a block of its own, which those who split blocks for MR_EEXHAUSTED see to. */
static int note_dims(struct rows_work *w, uint32_t r, size_t o, mr_error *err)
{
    const struct mr_leaf_spec *spec = &w->specs[o];
    struct rows_result *result = &w->results[o];
    size_t bytes = (size_t)spec->rank * sizeof spec->dims[0];

    if (r == 0) {
        result->rank = spec->rank;
        MR_TRY(mr_buffer_new(w->rows * bytes, &result->dims, err));
    }
    if (spec->rank != result->rank) {
        return mr_error_set(err, MR_EEXHAUSTED, "result %zu has rank %d, and rank %d in row 0", o,
                            spec->rank, result->rank);
    }
    memcpy((unsigned char *)mr_buffer_data(result->dims) + r * bytes, spec->dims, bytes);
    return MR_OK;
}

static int alloc_each(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < w->rows; r++) {
        *bad_row = r;
        MR_TRY(mr_cancel_check(err));
        MR_TRY(infer_row(w, r, err));
        for (size_t o = 0; o < w->nout; o++) {
            MR_TRY(note_dims(w, r, o, err));
        }
    }
    for (size_t o = 0; o < w->nout; o++) {
        MR_TRY(mr_output_var(&w->results[o].output, w->specs[o].dtype, w->rows, w->specs[o].rank,
                             mr_buffer_data(w->results[o].dims), bad_row, err));
    }
    return MR_OK;
}

static int fill_rows(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < w->rows; r++) {
        load_row(w, r);
        *bad_row = r;
        MR_TRY(mr_cancel_check(err));
        for (size_t o = 0; o < w->nout; o++) {
            struct mr_output *output = &w->results[o].output;
            struct mr_result result = {.dims = mr_output_dims(output, r),
                                       .rank = output->rank,
                                       .dtype = output->dtype,
                                       .width = output->width,
                                       .index = o,
                                       .column = output};

            result.values = mr_output_row(output, r, &result.count);
            MR_TRY(w->call->kernel->fill(&w->row, &result, err));
        }
    }
    *bad_row = 0;
    return MR_OK;
}

static int run(struct rows_work *w, uint32_t *bad_row, mr_error *err)
{
    bool same = true;

    if (w->rows == 0) {
        return alloc_empty(w, err);
    }
    for (size_t i = 0; i < w->row.nin; i++) {
        same = same && w->inputs[i].fixed;
    }
    if (same) {
        MR_TRY(is_complete(w, &same, err));
    }
    MR_TRY(same ? alloc_same(w, err) : alloc_each(w, bad_row, err));
    return fill_rows(w, bad_row, err);
}

static int eval(struct rows_work *w, struct mr_owned_column *out, uint32_t *bad_row, mr_error *err)
{
    if (w->tensors == NULL || w->specs == NULL || w->results == NULL) {
        return mr_error_nomem(err);
    }
    MR_TRY(run(w, bad_row, err));
    for (size_t o = 0; o < w->nout; o++) {
        MR_TRY(mr_output_finish(&w->results[o].output, &w->results[o].made, err));
    }
    for (size_t o = 0; o < w->nout; o++) {
        out[o] = w->results[o].made;
        w->results[o].made = (struct mr_owned_column){0};
    }
    return MR_OK;
}

int mr_rows_eval(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                 size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                 mr_error *err)
{
    struct rows_work w = {
        .call = call,
        .rows = rows,
        .nout = nout,
        .tensors = mr_calloc(nin, sizeof *w.tensors),
        .specs = mr_calloc(nout, sizeof *w.specs),
        .results = mr_calloc(nout, sizeof *w.results),
    };

    *bad_row = 0;
    if (call->random != NULL) {
        w.random = *call->random;
        w.random.indices = NULL;
    }
    w.row = (struct mr_row){{call->attrs, call->nattrs}, call->state, w.tensors, nin, &w.random};
    int rc = mr_inputs_open(in, nin, rows, &w.inputs, err);
    if (rc == MR_OK) {
        rc = eval(&w, out, bad_row, err);
    }
    for (size_t o = 0; w.results != NULL && o < nout; o++) {
        mr_output_drop(&w.results[o].output);
        mr_column_release(&w.results[o].made);
        mr_buffer_unref(w.results[o].dims);
    }
    mr_inputs_close(w.inputs, nin);
    mr_free(w.tensors);
    mr_free(w.specs);
    mr_free(w.results);
    return rc;
}
