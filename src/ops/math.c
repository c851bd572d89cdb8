/* Functions of one float: the C library's, computed in float32 for float16 and bfloat16. */
#include "ops/attr.h"
#include "ops/loops.h"

#include <tgmath.h>

#define FLOAT_UNARY(name, EACH_LOOP, expr)                                                         \
    MR_EACH_FLOAT(EACH_LOOP, name, expr)                                                           \
    MR_LOOPS_KERNEL(name, 1, 0, MR_SET_FLOATS, MR_EACH_FLOAT(MR_LOOP_ENTRY, name, ))
#define FLOAT_TEST(name, expr)                                                                     \
    MR_EACH_FLOAT(MR_UNARY_TEST, name, expr)                                                       \
    MR_TEST_KERNEL(name, 1, MR_SET_FLOATS, MR_EACH_FLOAT(MR_LOOP_ENTRY, name, ))

FLOAT_UNARY(reciprocal, MR_UNARY, (1 / a));
FLOAT_UNARY(sqrt, MR_UNARY, (sqrt(a)));
FLOAT_UNARY(rsqrt, MR_UNARY, (1 / sqrt(a)));
FLOAT_UNARY(exp, MR_UNARY_SLOW, (exp(a)));
FLOAT_UNARY(expm1, MR_UNARY_SLOW, (expm1(a)));
FLOAT_UNARY(log, MR_UNARY_SLOW, (log(a)));
FLOAT_UNARY(log1p, MR_UNARY_SLOW, (log1p(a)));
FLOAT_UNARY(sin, MR_UNARY_SLOW, (sin(a)));
FLOAT_UNARY(cos, MR_UNARY_SLOW, (cos(a)));
FLOAT_UNARY(tan, MR_UNARY_SLOW, (tan(a)));
FLOAT_UNARY(tanh, MR_UNARY_SLOW, (tanh(a)));
FLOAT_UNARY(sigmoid, MR_UNARY_SLOW, (1 / (1 + exp(-a))));
FLOAT_UNARY(floor, MR_UNARY, (floor(a)));
FLOAT_UNARY(ceil, MR_UNARY, (ceil(a)));

FLOAT_TEST(is_nan, (isnan(a) != 0));
FLOAT_TEST(is_inf, (isinf(a) != 0));
FLOAT_TEST(is_finite, (isfinite(a) != 0));

/* roundeven: half goes to even, whatever rounding the process has set. Ints are round already. */
MR_EACH_INT(MR_UNARY, round, a)
MR_EACH_FLOAT(MR_UNARY, round, (roundeven(a)))
MR_LOOPS_KERNEL(round, 1, 0, MR_SET_NUMBERS, MR_EACH_NUMBER(MR_LOOP_ENTRY, round, ));
