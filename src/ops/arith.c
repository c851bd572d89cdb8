/* Arithmetic on numbers of one dtype. Ints wrap: they are computed in an unsigned type. */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/elementwise.h"
#include "ops/loops.h"
#include "ops/table.h"

#include <tgmath.h>

MR_INFER_ELEMENTWISE(infer_numbers, MR_SET_NUMBERS)
MR_INFER_ELEMENTWISE(infer_signed, MR_SET_SIGNED | MR_SET_FLOATS)
MR_INFER_ELEMENTWISE(infer_pow, MR_SET_INDEX | MR_SET_FLOATS)

#define ARITH(symbol, text, inputs, infer, EACH_LOOP, expr)                                        \
    MR_EACH_NUMBER(EACH_LOOP, symbol, expr)                                                        \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_NUMBER(MR_LOOP_ENTRY, symbol, )};                                                  \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, inputs, 0, infer, symbol##_loop)

ARITH(add, "add", 2, infer_numbers, MR_BINARY_WIDE, (a + b));
ARITH(sub, "sub", 2, infer_numbers, MR_BINARY_WIDE, (a - b));
ARITH(mul, "mul", 2, infer_numbers, MR_BINARY_WIDE, (a * b));
ARITH(squared_difference, "squared_difference", 2, infer_numbers, MR_BINARY_WIDE,
      ((a - b) * (a - b)));
ARITH(square, "square", 1, infer_numbers, MR_UNARY_WIDE, (a * a));
/* A NaN compares false: the second test keeps it if it is a, the first chooses it if it is b. */
ARITH(minimum, "minimum", 2, infer_numbers, MR_BINARY, (a < b || a != a ? a : b));
ARITH(maximum, "maximum", 2, infer_numbers, MR_BINARY, (a > b || a != a ? a : b));
ARITH(relu, "relu", 1, infer_numbers, MR_UNARY, (a > 0 || a != a ? a : 0));

#define SIGNED(symbol, text, INT_LOOP, int_expr, float_expr)                                       \
    MR_EACH_SIGNED(INT_LOOP, symbol, int_expr)                                                     \
    MR_EACH_FLOAT(MR_UNARY, symbol, float_expr)                                                    \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_SIGNED(MR_LOOP_ENTRY, symbol, ) MR_EACH_FLOAT(MR_LOOP_ENTRY, symbol, )};           \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, 1, 0, infer_signed, symbol##_loop)

SIGNED(neg, "neg", MR_UNARY_WIDE, (0 - a), (-a));
/* Narrow ints were sign-extended when they were widened, so the top bit is the sign for all
 * widths. */
SIGNED(abs, "abs", MR_UNARY_WIDE, ((a >> (sizeof a * 8 - 1)) != 0 ? 0 - a : a),
       (a < 0    ? -a
        : a == 0 ? 0
                 : a));
SIGNED(sign, "sign", MR_UNARY, ((a > 0) - (a < 0)), (a > 0 ? 1 : a < 0 ? -1 : a));

/* ---- division ---- */

/*
 * Ints are looked at one by one: a divisor of 0 is an error, and the smallest int divided by -1
 * would trap. @by_minus_one sees the dividend as `wide`, in which negation wraps.
 */
#define INT_DIVIDE_BODY(S, W, N, is_minus_one, by_minus_one, expr)                                 \
    {                                                                                              \
        S *restrict z = out;                                                                       \
        const S *x = in[0];                                                                        \
        const S *y = in[1];                                                                        \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const N a = x[i * step[0]];                                                            \
            const N b = y[i * step[1]];                                                            \
            const W wide = (W)a;                                                                   \
                                                                                                   \
            if (b == 0) {                                                                          \
                mr_error_set(err, MR_EINVAL, "integer division by zero");                          \
                return i;                                                                          \
            }                                                                                      \
            z[i] = (S)(is_minus_one ? (S)(by_minus_one) : (S)(expr));                              \
            (void)wide;                                                                            \
        }                                                                                          \
        return n;                                                                                  \
    }
#define SIGNED_DIVIDE(tag, dtype, S, W, N, LD, ST, name, by_minus_one, expr)                       \
    MR_LOOP_HEAD(name, tag) INT_DIVIDE_BODY(S, W, N, (b == -1), by_minus_one, expr)
#define UNSIGNED_DIVIDE(tag, dtype, S, W, N, LD, ST, name, expr)                                   \
    MR_LOOP_HEAD(name, tag) INT_DIVIDE_BODY(S, W, N, false, 0, expr)

MR_EACH_SIGNED(SIGNED_DIVIDE, floor_div, (0 - wide),
               (a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0)))
MR_EACH_UNSIGNED(UNSIGNED_DIVIDE, floor_div, (a / b))
MR_EACH_FLOAT(MR_BINARY_SLOW, floor_div, (floor(a / b)))
MR_EACH_SIGNED(SIGNED_DIVIDE, floor_mod, 0, (a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)))
MR_EACH_UNSIGNED(UNSIGNED_DIVIDE, floor_mod, (a % b))
MR_EACH_FLOAT(MR_BINARY_SLOW, floor_mod,
              (fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b)))

static const mr_kernel_loop floor_div_loops[MR_DTYPE_COUNT] = {
    MR_EACH_NUMBER(MR_LOOP_ENTRY, floor_div, )};
static const mr_kernel_loop floor_mod_loops[MR_DTYPE_COUNT] = {
    MR_EACH_NUMBER(MR_LOOP_ENTRY, floor_mod, )};
MR_LOOP_BY_DTYPE(floor_div)
MR_LOOP_BY_DTYPE(floor_mod)
MR_ELEMENTWISE_KERNEL(mr_kernel_floor_div, "floor_div", 2, MR_KERNEL_MAY_FAIL, infer_numbers,
                      floor_div_loop);
MR_ELEMENTWISE_KERNEL(mr_kernel_floor_mod, "floor_mod", 2, MR_KERNEL_MAY_FAIL, infer_numbers,
                      floor_mod_loop);

/* True division: ints become floats first. */
#define TRUE_DIVIDE(R, tag, S)                                                                     \
    MR_HOT_LOOP_HEAD(div, tag) MR_BINARY_BODY(S, R, R, MR_INT_LOAD, MR_INT_STORE, (a / b))

TRUE_DIVIDE(float, i8, int8_t)
TRUE_DIVIDE(float, i16, int16_t)
TRUE_DIVIDE(double, i32, int32_t)
TRUE_DIVIDE(double, i64, int64_t)
TRUE_DIVIDE(float, u8, uint8_t)
TRUE_DIVIDE(float, u16, uint16_t)
TRUE_DIVIDE(double, u32, uint32_t)
TRUE_DIVIDE(double, u64, uint64_t)
MR_EACH_FLOAT(MR_BINARY, div, (a / b))

static const mr_kernel_loop div_loops[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, div, )};
MR_LOOP_BY_DTYPE(div)

static int infer_div(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                     size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    MR_TRY(mr_infer_elementwise(in, nin, 0, MR_SET_NUMBERS, out, cap, nout, err));

    if (mr_dtype_is_int(out[0].dtype)) {
        out[0].dtype = mr_dtype_size((mr_dtype)out[0].dtype) <= 2 ? MR_FLOAT32 : MR_FLOAT64;
    }
    return MR_OK;
}

MR_ELEMENTWISE_KERNEL(mr_kernel_div, "div", 2, 0, infer_div, div_loop);

/* ---- powers ---- */

#define INT_POW(tag, S, W)                                                                         \
    MR_LOOP_HEAD(pow, tag)                                                                         \
    {                                                                                              \
        S *restrict z = out;                                                                       \
        const S *x = in[0];                                                                        \
        const S *y = in[1];                                                                        \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            W base = (W)x[i * step[0]];                                                            \
            S exponent = y[i * step[1]];                                                           \
            W power = 1;                                                                           \
                                                                                                   \
            if (exponent < 0) {                                                                    \
                mr_error_set(err, MR_EINVAL, "an integer to the power of %lld",                    \
                             (long long)exponent);                                                 \
                return i;                                                                          \
            }                                                                                      \
            for (; exponent > 0; exponent = (S)(exponent >> 1), base *= base) {                    \
                power *= (exponent & 1) != 0 ? base : 1;                                           \
            }                                                                                      \
            z[i] = (S)power;                                                                       \
        }                                                                                          \
        return n;                                                                                  \
    }
INT_POW(i32, int32_t, uint32_t)
INT_POW(i64, int64_t, uint64_t)
MR_EACH_FLOAT(MR_BINARY_SLOW, pow, (pow(a, b)))

static const mr_kernel_loop pow_loops[MR_DTYPE_COUNT] = {
    [MR_INT32] = pow_i32, [MR_INT64] = pow_i64, MR_EACH_FLOAT(MR_LOOP_ENTRY, pow, )};
MR_LOOP_BY_DTYPE(pow)
MR_ELEMENTWISE_KERNEL(mr_kernel_pow, "pow", 2, MR_KERNEL_MAY_FAIL, infer_pow, pow_loop);
