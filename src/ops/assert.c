/* assert: a tensor as it is, where a condition holds; an error of one's own wording where it does
 * not. */
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
