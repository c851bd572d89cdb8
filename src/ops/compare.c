/* Comparisons, which give bool, and select, which takes one. Strings compare by bytes. */
#include "ops/attr.h"
#include "ops/loops.h"

#define ORDER(name, expr)                                                                          \
    MR_EACH_NUMBER(MR_BINARY_TEST, name, expr)                                                     \
    MR_TEST_KERNEL(name, 2, MR_SET_NUMBERS, MR_EACH_NUMBER(MR_LOOP_ENTRY, name, ))

ORDER(less, (a < b));
ORDER(less_equal, (a <= b));
ORDER(greater, (a > b));
ORDER(greater_equal, (a >= b));

#define EQUALITY(name, expr, string_expr)                                                          \
    MR_EACH_NUMBER(MR_BINARY_TEST, name, expr)                                                     \
    MR_EACH_BOOL(MR_BINARY_TEST, name, expr)                                                       \
    MR_LOOP_HEAD(name, string)                                                                     \
    MR_BINARY_BODY(struct mr_string, uint8_t, struct mr_string, MR_AS_IT_IS, MR_INT_STORE,         \
                   (string_expr mr_string_equal(a, b)))                                            \
    MR_TEST_KERNEL(name, 2, MR_SET_ANY,                                                            \
                   MR_EACH_NUMBER(MR_LOOP_ENTRY, name, )                                           \
                       MR_EACH_BOOL(MR_LOOP_ENTRY, name, )[MR_STRING] = name##_string)

EQUALITY(equal, (a == b), );
EQUALITY(not_equal, (a != b), !);

#define SELECT_LOOP(tag, T)                                                                        \
    MR_LOOP_HEAD(select, tag)                                                                      \
    {                                                                                              \
        T *restrict z = out;                                                                       \
        const uint8_t *condition = in[0];                                                          \
        const T *x = in[1];                                                                        \
        const T *y = in[2];                                                                        \
                                                                                                   \
        if (step[0] == 0 && step[condition[0] ? 1 : 2] != 0) {                                     \
            memcpy(z, condition[0] ? x : y, n * sizeof *z);                                        \
            return n;                                                                              \
        }                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            z[i] = condition[i * step[0]] ? x[i * step[1]] : y[i * step[2]];                       \
        }                                                                                          \
        return n;                                                                                  \
    }
SELECT_LOOP(8, uint8_t)
SELECT_LOOP(16, uint16_t)
SELECT_LOOP(32, uint32_t)
SELECT_LOOP(64, uint64_t)
SELECT_LOOP(16_bytes, struct mr_string) /* and complex128 */

static mr_kernel_loop select_loop(struct mr_attrs attrs, const uint8_t *dtypes)
{
    switch (mr_value_width(dtypes[1])) {
    case 1: return select_8;
    case 2: return select_16;
    case 4: return select_32;
    case 8: return select_64;
    case 16: return select_16_bytes;
    default: return NULL;
    }
}

static int infer_select(struct mr_kernel_infer *it, mr_error *err)
{
    it->out->dtype = it->in[1].dtype;
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_BOOL), err));
    return mr_infer_same_dtype(it->in, 1, it->nin, err);
}

MR_ELEMENTWISE(select, 3, 0, 0, .infer = infer_select, .loop = select_loop);

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
            const N held = v < b || v != v ? v : b;                                                \
            const N raised = held > a || held != held ? held : a;                                  \
                                                                                                   \
            z[i] = ST(S, raised); /* Where the bounds cross, the lower one counts. */              \
        }                                                                                          \
        return n;                                                                                  \
    }
MR_EACH_NUMBER(CLIP, clip_by_value, )
MR_LOOPS_KERNEL(clip_by_value, 3, 0, MR_SET_NUMBERS,
                MR_EACH_NUMBER(MR_LOOP_ENTRY, clip_by_value, ));
