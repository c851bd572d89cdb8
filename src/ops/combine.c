#include "ops/combine.h"

#include "ops/loops.h"

#define COMBINE_BODY(S, C, LD, ST, expr)                                                           \
    {                                                                                              \
        const S *x = values;                                                                       \
        S *restrict z = acc;                                                                       \
                                                                                                   \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            const C a = LD(C, z[i]);                                                               \
            const C b = LD(C, x[i]);                                                               \
            z[i] = ST(S, expr);                                                                    \
        }                                                                                          \
    }
#define WIDE(tag, dtype, S, W, N, LD, ST, name, expr)                                              \
    static void name##_##tag(void *acc, const void *values, uint64_t n)                            \
        COMBINE_BODY(S, W, LD, ST, expr)
#define PLAIN(tag, dtype, S, W, N, LD, ST, name, expr)                                             \
    static void name##_##tag(void *acc, const void *values, uint64_t n)                            \
        COMBINE_BODY(S, N, LD, ST, expr)

MR_EACH_NUMBER(WIDE, sum, (a + b))
MR_EACH_NUMBER(WIDE, difference, (a - b))
MR_EACH_NUMBER(WIDE, product, (a * b))
MR_EACH_NUMBER(PLAIN, min, (b < a ? b : a))
MR_EACH_NUMBER(PLAIN, max, (b > a ? b : a))

mr_combine_fn mr_combine_of(enum mr_combination how, unsigned dtype)
{
    static const mr_combine_fn all[][MR_DTYPE_COUNT] = {
        [MR_COMBINE_SUM] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, sum, )},
        [MR_COMBINE_DIFFERENCE] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, difference, )},
        [MR_COMBINE_PRODUCT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, product, )},
        [MR_COMBINE_MIN] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, min, )},
        [MR_COMBINE_MAX] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, max, )},
    };

    return all[how][dtype];
}
