/* Functions of one float: the C library's, computed in float32 for float16 and bfloat16. */
#include "ops/attr.h"
#include "ops/elementwise.h"
#include "ops/loops.h"
#include "ops/table.h"

#include <tgmath.h>

MR_INFER_ELEMENTWISE(infer_floats, MR_SET_FLOATS)
MR_INFER_ELEMENTWISE(infer_numbers, MR_SET_NUMBERS)
MR_INFER_ELEMENTWISE_TO(infer_test, MR_SET_FLOATS, MR_BOOL)

#define FLOAT_UNARY(symbol, text, EACH_LOOP, infer, expr)                                          \
    MR_EACH_FLOAT(EACH_LOOP, symbol, expr)                                                         \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_FLOAT(MR_LOOP_ENTRY, symbol, )};                                                   \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, 1, 0, infer, symbol##_loop)

FLOAT_UNARY(reciprocal, "reciprocal", MR_UNARY, infer_floats, (1 / a));
FLOAT_UNARY(sqrt, "sqrt", MR_UNARY, infer_floats, (sqrt(a)));
FLOAT_UNARY(rsqrt, "rsqrt", MR_UNARY, infer_floats, (1 / sqrt(a)));
FLOAT_UNARY(exp, "exp", MR_UNARY_SLOW, infer_floats, (exp(a)));
FLOAT_UNARY(expm1, "expm1", MR_UNARY_SLOW, infer_floats, (expm1(a)));
FLOAT_UNARY(log, "log", MR_UNARY_SLOW, infer_floats, (log(a)));
FLOAT_UNARY(log1p, "log1p", MR_UNARY_SLOW, infer_floats, (log1p(a)));
FLOAT_UNARY(sin, "sin", MR_UNARY_SLOW, infer_floats, (sin(a)));
FLOAT_UNARY(cos, "cos", MR_UNARY_SLOW, infer_floats, (cos(a)));
FLOAT_UNARY(tan, "tan", MR_UNARY_SLOW, infer_floats, (tan(a)));
FLOAT_UNARY(tanh, "tanh", MR_UNARY_SLOW, infer_floats, (tanh(a)));
FLOAT_UNARY(sigmoid, "sigmoid", MR_UNARY_SLOW, infer_floats, (1 / (1 + exp(-a))));
FLOAT_UNARY(floor, "floor", MR_UNARY, infer_floats, (floor(a)));
FLOAT_UNARY(ceil, "ceil", MR_UNARY, infer_floats, (ceil(a)));

FLOAT_UNARY(is_nan, "is_nan", MR_UNARY_TEST, infer_test, (isnan(a) != 0));
FLOAT_UNARY(is_inf, "is_inf", MR_UNARY_TEST, infer_test, (isinf(a) != 0));
FLOAT_UNARY(is_finite, "is_finite", MR_UNARY_TEST, infer_test, (isfinite(a) != 0));

/* roundeven: half goes to even, whatever rounding the process has set. Ints are round already. */
MR_EACH_INT(MR_UNARY, round, a)
MR_EACH_FLOAT(MR_UNARY, round, (roundeven(a)))
static const mr_kernel_loop round_loops[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, round, )};
MR_LOOP_BY_DTYPE(round)
MR_ELEMENTWISE_KERNEL(mr_kernel_round, "round", 1, 0, infer_numbers, round_loop);
