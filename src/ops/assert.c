/* assert: a tensor as it is, where a condition holds; an error of one's own wording where it does
 * not. */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/table.h"
#include "ops/tensor.h"

#define MESSAGE_MAX 200

static int infer_assert(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                        mr_error *err)
{
    MR_TRY(mr_infer_dtype(in, 1, MR_SET(MR_BOOL), err));

    MR_TRY(mr_infer_rank(in, 1, 0, err));
    out[0] = in[0];
    *nout = 1;
    return MR_OK;
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
    uint32_t bad = 0;
    int rc = first_false(&in[1], rows, &bad, err);

    *bad_row = 0;
    if (rc != MR_OK) {
        return rc;
    }
    if (bad < rows) {
        *bad_row = bad;
        return mr_error_set(err, MR_EINVAL, "%.*s",
                            (int)(message->size < MESSAGE_MAX ? message->size : MESSAGE_MAX),
                            (const char *)message->bytes);
    }
    if (in[0].broadcast) {
        return mr_column_expand(in[0].column, rows, out, err);
    }
    mr_column_share(in[0].column, out);
    return MR_OK;
}

static const struct mr_kernel_attr assert_attrs[] = {{"message", MR_ATTR_BYTES, false},
                                                     {NULL, 0, false}};

const struct mr_kernel mr_kernel_assert = {
    .name = "assert",
    .version = 1,
    .flags = MR_KERNEL_MAY_FAIL,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_assert,
    .eval = eval_assert,
    .attr_table = assert_attrs,
};
