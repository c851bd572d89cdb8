/* Comparisons, which give bool, and select, which takes one. Strings compare by bytes. */
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/elementwise.h"
#include "ops/loops.h"
#include "ops/table.h"

#include <string.h>

MR_INFER_ELEMENTWISE_TO(infer_order, MR_SET_NUMBERS, MR_BOOL)
MR_INFER_ELEMENTWISE_TO(infer_equal, MR_SET_ANY, MR_BOOL)

#define ORDER(symbol, text, expr)                                                                  \
    MR_EACH_NUMBER(MR_BINARY_TEST, symbol, expr)                                                   \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_NUMBER(MR_LOOP_ENTRY, symbol, )};                                                  \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, 2, 0, infer_order, symbol##_loop)

ORDER(less, "less", (a < b));
ORDER(less_equal, "less_equal", (a <= b));
ORDER(greater, "greater", (a > b));
ORDER(greater_equal, "greater_equal", (a >= b));

static bool same_bytes(const struct mr_string *a, const struct mr_string *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

#define EQUALITY(symbol, text, expr, string_expr)                                                  \
    MR_EACH_NUMBER(MR_BINARY_TEST, symbol, expr)                                                   \
    MR_EACH_BOOL(MR_BINARY_TEST, symbol, expr)                                                     \
    MR_LOOP_HEAD(symbol, string)                                                                   \
    {                                                                                              \
        uint8_t *restrict z = out;                                                                 \
        const struct mr_string *x = in[0];                                                         \
        const struct mr_string *y = in[1];                                                         \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            z[i] = string_expr same_bytes(&x[i * step[0]], &y[i * step[1]]);                       \
        }                                                                                          \
        return n;                                                                                  \
    }                                                                                              \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_NUMBER(MR_LOOP_ENTRY, symbol, ) MR_EACH_BOOL(MR_LOOP_ENTRY, symbol, )[MR_STRING] = \
            symbol##_string,                                                                       \
    };                                                                                             \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, 2, 0, infer_equal, symbol##_loop)

EQUALITY(equal, "equal", (a == b), );
EQUALITY(not_equal, "not_equal", (a != b), !);

/* ---- select ---- */

#define SELECT_LOOP(tag, T)                                                                        \
    MR_LOOP_HEAD(select, tag)                                                                      \
    {                                                                                              \
        T *restrict z = out;                                                                       \
        const uint8_t *condition = in[0];                                                          \
        const T *x = in[1];                                                                        \
        const T *y = in[2];                                                                        \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            z[i] = condition[i * step[0]] ? x[i * step[1]] : y[i * step[2]];                       \
        }                                                                                          \
        return n;                                                                                  \
    }
SELECT_LOOP(8, uint8_t)
SELECT_LOOP(16, uint16_t)
SELECT_LOOP(32, uint32_t)
SELECT_LOOP(64, uint64_t)
SELECT_LOOP(bytes, struct mr_string)

static mr_kernel_loop select_loop(const struct mr_attr *attrs, size_t nattrs, const uint8_t *dtypes,
                                  size_t nin)
{
    switch (mr_value_width(dtypes[1])) {
    case 1:
        return select_8;
    case 2:
        return select_16;
    case 4:
        return select_32;
    case 8:
        return select_64;
    default:
        return dtypes[1] == MR_STRING ? select_bytes : NULL;
    }
}

static int infer_select(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                        mr_error *err)
{
    MR_TRY(mr_infer_dtype(in, 0, MR_SET(MR_BOOL), err));
    return mr_infer_elementwise(in, nin, 1, MR_SET_ANY, out, cap, nout, err);
}

MR_ELEMENTWISE_KERNEL(mr_kernel_select, "select", 3, 0, infer_select, select_loop);

/* ---- clip_by_value ---- */

#define CLIP(tag, dtype, S, W, N, LD, ST, name, ...)                                               \
    MR_LOOP_HEAD(name, tag)                                                                        \
    {                                                                                              \
        S *restrict z = out;                                                                       \
        const S *x = in[0];                                                                        \
        const S *low = in[1];                                                                      \
        const S *high = in[2];                                                                     \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const N v = LD(N, x[i * step[0]]);                                                     \
            const N a = LD(N, low[i * step[1]]);                                                   \
            const N b = LD(N, high[i * step[2]]);                                                  \
            const N raised = v > a || v != v ? v : a;                                              \
            const N held = raised < b || raised != raised ? raised : b;                            \
                                                                                                   \
            z[i] = ST(S, held);                                                                    \
        }                                                                                          \
        return n;                                                                                  \
    }
MR_EACH_NUMBER(CLIP, clip, )
static const mr_kernel_loop clip_loops[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, clip, )};
MR_LOOP_BY_DTYPE(clip)
MR_INFER_ELEMENTWISE(infer_clip, MR_SET_NUMBERS)
MR_ELEMENTWISE_KERNEL(mr_kernel_clip_by_value, "clip_by_value", 3, 0, infer_clip, clip_loop);
