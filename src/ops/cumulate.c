/* cumsum, cumprod, cumulative_logsumexp: partial results along an axis. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"

#include <tgmath.h>

static int infer_cumulate(struct mr_kernel_infer *it, mr_error *err)
{
    int axis = 0;

    return it->in[0].rank < 0 ? MR_OK : mr_attr_axis(it->attrs, 0, it->in[0].rank, &axis, err);
}

/* One line: @n values, one every @stride values, from the last one on if @reverse. */
typedef void (*line_fn)(const void *values, void *out, uint64_t n, uint64_t stride, bool reverse,
                        bool exclusive);

#define CUMULATE(tag, dtype, S, W, N, LD, ST, name, start, expr)                                   \
    static void name##_##tag(const void *values, void *out, uint64_t n, uint64_t stride,           \
                             bool reverse, bool exclusive)                                         \
    {                                                                                              \
        const S *x = values;                                                                       \
        S *z = out;                                                                                \
        W acc = (W)(start);                                                                        \
                                                                                                   \
        for (uint64_t k = 0; k < n; k++) {                                                         \
            uint64_t i = (reverse ? n - 1 - k : k) * stride;                                       \
            W v = LD(W, x[i]);                                                                     \
            W next = expr;                                                                         \
                                                                                                   \
            z[i] = exclusive ? ST(S, acc) : ST(S, next);                                           \
            acc = next;                                                                            \
        }                                                                                          \
    }
/* The larger one is taken out, so that nothing overflows. Two infinities have no difference. */
#define LOG_SUM                                                                                    \
    (acc == v ? acc + log((__typeof__(acc))2) : (acc > v ? acc : v) + log1p(exp(-fabs(acc - v))))
MR_EACH_NUMBER(CUMULATE, sum, 0, acc + v)
MR_EACH_NUMBER(CUMULATE, prod, 1, acc *v)
MR_EACH_FLOAT(CUMULATE, logsumexp, -INFINITY, LOG_SUM)
static const line_fn sum_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, sum, )};
static const line_fn prod_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, prod, )};

static const line_fn logsumexp_fns[MR_DTYPE_COUNT] = {MR_EACH_FLOAT(MR_LOOP_ENTRY, logsumexp, )};

static int fill_cumulate(const struct mr_row *row, const line_fn *fns, struct mr_result *out,
                         mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    bool reverse = mr_attr_bool(row->attrs, "reverse", false);
    bool exclusive = mr_attr_bool(row->attrs, "exclusive", false);
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, 0, x->rank, &axis, err));
    mr_shape_split(x->rank, x->dims, axis, &outer, &inner);
    uint64_t n = (uint64_t)x->dims[axis];
    for (uint64_t o = 0; x->count > 0 && o < outer; o++) {
        for (uint64_t i = 0; i < inner; i++) {
            size_t at = (size_t)(o * n * inner + i) * x->width;

            fns[x->dtype](x->values + at, out->values + at, n, inner, reverse, exclusive);
        }
    }
    return MR_OK;
}

static int fill_cumsum(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_cumulate(row, sum_fns, out, err);
}

static int fill_cumprod(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_cumulate(row, prod_fns, out, err);
}

static int fill_cumulative_logsumexp(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_cumulate(row, logsumexp_fns, out, err);
}

#define CUMULATE_KERNEL(name, set)                                                                 \
    MR_ROWS_KERNEL(name, 1, 1, set, .infer = infer_cumulate, .fill = fill_##name,                  \
                   .attr_table = {{"axis", MR_ATTR_INT, true},                                     \
                                  {"exclusive", MR_ATTR_BOOL, true},                               \
                                  {"reverse", MR_ATTR_BOOL, true}})

CUMULATE_KERNEL(cumsum, MR_SET_NUMBERS);
CUMULATE_KERNEL(cumprod, MR_SET_NUMBERS);
CUMULATE_KERNEL(cumulative_logsumexp, MR_SET_FLOATS);
