/* More functions of floats: angles, hyperbolas, the error function, logarithms of the gamma
 * function; products and quotients that are 0 where C gives NaN; division that cuts off. */
#include "ops/attr.h"
#include "ops/loops.h"

#include <tgmath.h>

#define FLOAT_UNARY(name, expr)                                                                    \
    MR_EACH_FLOAT(MR_UNARY_SLOW, name, expr)                                                       \
    MR_LOOPS_KERNEL(name, 1, 0, MR_SET_FLOATS, MR_EACH_FLOAT(MR_LOOP_ENTRY, name, ))
#define FLOAT_BINARY(name, expr)                                                                   \
    MR_EACH_FLOAT(MR_BINARY_SLOW, name, expr)                                                      \
    MR_LOOPS_KERNEL(name, 2, 0, MR_SET_FLOATS, MR_EACH_FLOAT(MR_LOOP_ENTRY, name, ))

FLOAT_UNARY(acos, (acos(a)));
FLOAT_UNARY(acosh, (acosh(a)));
FLOAT_UNARY(asin, (asin(a)));
FLOAT_UNARY(asinh, (asinh(a)));
FLOAT_UNARY(atan, (atan(a)));
FLOAT_UNARY(atanh, (atanh(a)));
FLOAT_UNARY(cosh, (cosh(a)));
FLOAT_UNARY(sinh, (sinh(a)));
FLOAT_UNARY(erf, (erf(a)));
FLOAT_UNARY(erfc, (erfc(a)));
/* Neither side overflows: exp() is of what is not positive. */
FLOAT_UNARY(softplus, ((a > 0 ? a : 0) + log1p(exp(-fabs(a)))));
FLOAT_UNARY(elu, (a > 0 ? a : expm1(a)));

/* lgamma() keeps the sign in a global; this one says it to whoever asks. */
static float log_gamma_float(float v)
{
    int sign;

    return lgammaf_r(v, &sign);
}

static double log_gamma_double(double v)
{
    int sign;

    return lgamma_r(v, &sign);
}

FLOAT_UNARY(lgamma, (_Generic(a, double : log_gamma_double, default : log_gamma_float)(a)));

FLOAT_BINARY(atan2, (atan2(a, b)));
FLOAT_BINARY(divide_no_nan, (b == 0 ? 0 : a / b));
FLOAT_BINARY(multiply_no_nan, (b == 0 ? 0 : a * b));
FLOAT_BINARY(xdivy, (a == 0 ? 0 : a / b));
FLOAT_BINARY(xlogy, (a == 0 ? 0 : a * log(b)));
FLOAT_BINARY(xlog1py, (a == 0 ? 0 : a * log1p(b)));

/* Only of dtypes that C has: the next float32 is not the next float16. */
MR_BINARY_SLOW(f32, MR_FLOAT32, float, float, float, MR_INT_LOAD, MR_INT_STORE, nextafter,
               (nextafter(a, b)))
MR_BINARY_SLOW(f64, MR_FLOAT64, double, double, double, MR_INT_LOAD, MR_INT_STORE, nextafter,
               (nextafter(a, b)))
MR_LOOPS_KERNEL(nextafter, 2, 0, MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64),
                [MR_FLOAT32] = nextafter_f32, [MR_FLOAT64] = nextafter_f64);
