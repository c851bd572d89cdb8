/* A tensor as it is where a condition holds (assert) or where it has a shape (ensure_shape); an
 * error where not. */
#include "ops/attr.h"
#include "ops/tensor.h"

#define MESSAGE_MAX 200

static int infer_assert(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET(MR_BOOL), err));
    return mr_infer_rank(it->in, 1, 0, err);
}

/* The first row whose condition does not hold; @rows if there is none. */
static int first_false(const struct mr_kernel_in *in, uint32_t rows, uint32_t *ret, mr_error *err)
{
    struct mr_input condition;

    MR_TRY(mr_input_open(in, rows, &condition, err));
    for (*ret = 0; *ret < rows; ++*ret) {
        struct mr_tensor t = mr_input_row(&condition, *ret);
        if (t.count != 1 || t.values[0] == 0) {
            break;
        }
    }
    mr_input_close(&condition);
    return MR_OK;
}

static int eval_assert(const struct mr_kernel_call *call, uint32_t rows,
                       const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                       size_t nout, uint32_t *bad_row, mr_error *err)
{
    const struct mr_attr *message = mr_attr_find(call->attrs, call->nattrs, "message");

    *bad_row = 0;
    MR_TRY(first_false(&in[1], rows, bad_row, err));
    if (*bad_row < rows) {
        return mr_error_set(err, MR_EINVAL, "%.*s",
                            (int)(message->size < MESSAGE_MAX ? message->size : MESSAGE_MAX),
                            (const char *)message->bytes);
    }
    *bad_row = 0;
    return mr_column_pass(&in[0], rows, out, err);
}

MR_DEFINE_KERNEL(assert, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_assert,
                 .eval = eval_assert, .attr_table = {{"message", MR_ATTR_BYTES, false}});

/* ---- ensure_shape ---- */

static bool dims_fit(const struct mr_attr *shape, const int64_t *dims, int rank)
{
    if (rank != shape->count) {
        return false;
    }
    for (int d = 0; d < rank; d++) {
        if (shape->ints[d] >= 0 && dims[d] >= 0 && shape->ints[d] != dims[d]) {
            return false;
        }
    }
    return true;
}

static int refuse(const struct mr_attr *shape, const int64_t *dims, int rank, mr_error *err)
{
    char found[160];
    char wanted[160];

    return mr_error_set(err, MR_EINVAL, "the shape is %s, %s is wanted",
                        mr_dims_format(dims, rank, found, sizeof found),
                        mr_dims_format(shape->ints, shape->count, wanted, sizeof wanted));
}

static int infer_ensure(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *shape = mr_attr_find(it->attrs.list, it->attrs.n, "shape");
    const struct mr_leaf_spec *in = &it->in[0];

    if (shape->count < 0 || shape->count > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "attribute 'shape': the rank is 0 to %d", MR_RANK_MAX);
    }
    if (in->rank >= 0 && !dims_fit(shape, in->dims, in->rank)) {
        return refuse(shape, in->dims, in->rank, err);
    }
    it->out[0].rank = (int8_t)shape->count;
    for (int d = 0; d < shape->count; d++) {
        bool known = in->rank >= 0 && in->dims[d] >= 0;

        it->out[0].dims[d] = known ? in->dims[d] : shape->ints[d];
    }
    return MR_OK;
}

static int eval_ensure(const struct mr_kernel_call *call, uint32_t rows,
                       const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                       size_t nout, uint32_t *bad_row, mr_error *err)
{
    const struct mr_attr *shape = mr_attr_find(call->attrs, call->nattrs, "shape");
    struct mr_input x;
    int rc = MR_OK;

    *bad_row = 0;
    MR_TRY(mr_input_open(&in[0], rows, &x, err));
    for (uint32_t r = 0; rc == MR_OK && r < rows; r++) {
        struct mr_tensor t = mr_input_row(&x, r);

        if (!dims_fit(shape, t.dims, t.rank)) {
            *bad_row = r;
            rc = refuse(shape, t.dims, t.rank, err);
        }
    }
    mr_input_close(&x);
    return rc == MR_OK ? mr_column_pass(&in[0], rows, out, err) : rc;
}

MR_DEFINE_KERNEL(ensure_shape, 1, 1, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_ensure,
                 .eval = eval_ensure, .attr_table = {{"shape", MR_ATTR_SHAPE, false}});
