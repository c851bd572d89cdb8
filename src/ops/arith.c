/* Arithmetic on numbers of one dtype. Ints wrap: they are computed in an unsigned type. */
#include "ops/attr.h"
#include "ops/loops.h"

#include <tgmath.h>

#define ARITH(name, inputs, EACH_LOOP, expr)                                                       \
    MR_EACH_NUMBER(EACH_LOOP, name, expr)                                                          \
    MR_LOOPS_KERNEL(name, inputs, 0, MR_SET_NUMBERS, MR_EACH_NUMBER(MR_LOOP_ENTRY, name, ))

ARITH(add, 2, MR_BINARY_WIDE, (a + b));
ARITH(sub, 2, MR_BINARY_WIDE, (a - b));
ARITH(mul, 2, MR_BINARY_WIDE, (a * b));
ARITH(squared_difference, 2, MR_BINARY_WIDE, ((a - b) * (a - b)));
ARITH(square, 1, MR_UNARY_WIDE, (a * a));
/* A NaN compares false: the second test keeps it if it is a, the first chooses it if it is b. */
ARITH(minimum, 2, MR_BINARY, (a < b || a != a ? a : b));
ARITH(maximum, 2, MR_BINARY, (a > b || a != a ? a : b));
ARITH(relu, 1, MR_UNARY, (a > 0 || a != a ? a : 0));

#define SIGNED(name, INT_LOOP, int_expr, float_expr)                                               \
    MR_EACH_SIGNED(INT_LOOP, name, int_expr)                                                       \
    MR_EACH_FLOAT(MR_UNARY, name, float_expr)                                                      \
    MR_LOOPS_KERNEL(name, 1, 0, MR_SET_SIGNED | MR_SET_FLOATS,                                     \
                    MR_EACH_SIGNED(MR_LOOP_ENTRY, name, ) MR_EACH_FLOAT(MR_LOOP_ENTRY, name, ))

SIGNED(neg, MR_UNARY_WIDE, (0 - a), (-a));
/* Narrow ints were sign-extended when they were widened, so the top bit is the sign for all
 * widths. */
SIGNED(abs, MR_UNARY_WIDE, ((a >> (sizeof a * 8 - 1)) != 0 ? 0 - a : a),
       (a < 0    ? -a
        : a == 0 ? 0
                 : a));
SIGNED(sign, MR_UNARY, ((a > 0) - (a < 0)), (a > 0 ? 1 : a < 0 ? -1 : a));

/* Ints are looked at one by one: a divisor of 0 is an error, and the smallest int divided by -1
 * would trap. @by_minus_one sees the dividend as `wide`, in which negation wraps. */
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

/* The quotient is rounded to the dtype first: what is next to a whole number of narrow floats is
 * it. */
#define WHOLE_QUOTIENT(tag, dtype, S, W, N, LD, ST, name, round)                                   \
    MR_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, S, N, LD, ST, (round(LD(N, ST(S, a / b)))))

MR_EACH_SIGNED(SIGNED_DIVIDE, floor_div, (0 - wide),
               (a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0)))
MR_EACH_UNSIGNED(UNSIGNED_DIVIDE, floor_div, (a / b))
MR_EACH_FLOAT(WHOLE_QUOTIENT, floor_div, floor)
MR_EACH_SIGNED(SIGNED_DIVIDE, floor_mod, 0, (a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)))
MR_EACH_UNSIGNED(UNSIGNED_DIVIDE, floor_mod, (a % b))
MR_EACH_FLOAT(MR_BINARY_SLOW, floor_mod,
              (fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0) ? fmod(a, b) + b : fmod(a, b)))

MR_LOOPS_KERNEL(floor_div, 2, MR_KERNEL_MAY_FAIL, MR_SET_NUMBERS,
                MR_EACH_NUMBER(MR_LOOP_ENTRY, floor_div, ));
MR_LOOPS_KERNEL(floor_mod, 2, MR_KERNEL_MAY_FAIL, MR_SET_NUMBERS,
                MR_EACH_NUMBER(MR_LOOP_ENTRY, floor_mod, ));

MR_EACH_SIGNED(SIGNED_DIVIDE, truncate_div, (0 - wide), (a / b))
MR_EACH_UNSIGNED(UNSIGNED_DIVIDE, truncate_div, (a / b))
MR_EACH_FLOAT(WHOLE_QUOTIENT, truncate_div, trunc)
MR_EACH_SIGNED(SIGNED_DIVIDE, truncate_mod, 0, (a % b))
MR_EACH_UNSIGNED(UNSIGNED_DIVIDE, truncate_mod, (a % b))
MR_EACH_FLOAT(MR_BINARY_SLOW, truncate_mod, (fmod(a, b)))

MR_LOOPS_KERNEL(truncate_div, 2, MR_KERNEL_MAY_FAIL, MR_SET_NUMBERS,
                MR_EACH_NUMBER(MR_LOOP_ENTRY, truncate_div, ));
MR_LOOPS_KERNEL(truncate_mod, 2, MR_KERNEL_MAY_FAIL, MR_SET_NUMBERS,
                MR_EACH_NUMBER(MR_LOOP_ENTRY, truncate_mod, ));

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

static int infer_div(struct mr_kernel_infer *it, mr_error *err)
{
    if (mr_dtype_is_int(it->out->dtype)) {
        it->out->dtype = mr_dtype_size((mr_dtype)it->out->dtype) <= 2 ? MR_FLOAT32 : MR_FLOAT64;
    }
    return MR_OK;
}

MR_LOOPS(div, MR_EACH_NUMBER(MR_LOOP_ENTRY, div, ));
MR_ELEMENTWISE(div, 2, 0, MR_SET_NUMBERS, .infer = infer_div, .loops = div_loops);

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
INT_POW(i8, int8_t, uint32_t)
INT_POW(i16, int16_t, uint32_t)
INT_POW(i32, int32_t, uint32_t)
INT_POW(i64, int64_t, uint64_t)
MR_EACH_FLOAT(MR_BINARY_SLOW, pow, (pow(a, b)))

MR_LOOPS_KERNEL(pow, 2, MR_KERNEL_MAY_FAIL, MR_SET_SIGNED | MR_SET_FLOATS, [MR_INT8] = pow_i8,
                [MR_INT16] = pow_i16, [MR_INT32] = pow_i32, [MR_INT64] = pow_i64,
                MR_EACH_FLOAT(MR_LOOP_ENTRY, pow, ));
