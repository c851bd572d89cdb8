/* Complex numbers: made of two floats, taken apart, added and multiplied. Their dtypes are of none
 * of the other kernels that compute; those that only move values take them. */
#include "ops/attr.h"
#include "ops/loops.h"

#include <math.h>

struct c64 {
    float re;
    float im;
};

struct c128 {
    double re;
    double im;
};

static uint8_t part_of(uint8_t dtype)
{
    return dtype == MR_COMPLEX128 || dtype == MR_FLOAT64 ? MR_FLOAT64 : MR_FLOAT32;
}

/* ---- complex: real and imaginary parts ---- */

static int infer_complex(struct mr_kernel_infer *it, mr_error *err)
{
    it->out->dtype = it->in[0].dtype == MR_FLOAT64 ? MR_COMPLEX128 : MR_COMPLEX64;
    return MR_OK;
}

#define JOIN(tag, T, R)                                                                            \
    static size_t complex_##tag(size_t n, void *out, const void *const *in, const uint8_t *step,   \
                                mr_error *err)                                                     \
    {                                                                                              \
        const R *x = in[0];                                                                        \
        const R *y = in[1];                                                                        \
        T *restrict z = out;                                                                       \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            z[i] = (T){x[i * step[0]], y[i * step[1]]};                                            \
        }                                                                                          \
        return n;                                                                                  \
    }
JOIN(f32, struct c64, float)
JOIN(f64, struct c128, double)

static const mr_kernel_loop complex_loops[MR_DTYPE_COUNT] = {
    [MR_FLOAT32] = complex_f32, [MR_FLOAT64] = complex_f64};
MR_ELEMENTWISE(complex, 2, 0, MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64), .infer = infer_complex,
               .loops = complex_loops);

/* ---- real, imag, angle, complex_abs: a float of each ---- */

static int infer_part(struct mr_kernel_infer *it, mr_error *err)
{
    it->out->dtype = part_of(it->in[0].dtype);
    return MR_OK;
}

#define UNARY_LOOP(name, tag, T, R, expr)                                                          \
    static size_t name##_##tag(size_t n, void *out, const void *const *in, const uint8_t *step,    \
                               mr_error *err)                                                      \
    {                                                                                              \
        const T *x = in[0];                                                                        \
        R *restrict z = out;                                                                       \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T a = x[i * step[0]];                                                            \
            z[i] = expr;                                                                           \
        }                                                                                          \
        return n;                                                                                  \
    }
#define LOOPS(name)                                                                                \
    static const mr_kernel_loop name##_loops[MR_DTYPE_COUNT] = {                                   \
        [MR_COMPLEX64] = name##_c64, [MR_COMPLEX128] = name##_c128};
/* Two expressions, for float and for double. */
#define PART(name, narrow, wide)                                                                   \
    UNARY_LOOP(name, c64, struct c64, float, narrow)                                               \
    UNARY_LOOP(name, c128, struct c128, double, wide)                                              \
    LOOPS(name)                                                                                    \
    MR_ELEMENTWISE(name, 1, 0, MR_SET_COMPLEX, .infer = infer_part, .loops = name##_loops)

PART(real, a.re, a.re);
PART(imag, a.im, a.im);
PART(angle, atan2f(a.im, a.re), atan2(a.im, a.re));
/* The squares of floats have room in a double. An infinite part counts whatever the other is. */
static float abs_of(struct c64 a)
{
    bool infinite = isinf(a.re) != 0 || isinf(a.im) != 0;

    return infinite ? HUGE_VALF
                    : (float)sqrt((double)a.re * (double)a.re + (double)a.im * (double)a.im);
}

PART(complex_abs, abs_of(a), hypot(a.re, a.im));

/* ---- of complex numbers a complex number ---- */

#define BINARY_LOOP(name, tag, T, R, expr_re, expr_im)                                             \
    static size_t name##_##tag(size_t n, void *out, const void *const *in, const uint8_t *step,    \
                               mr_error *err)                                                      \
    {                                                                                              \
        const T *x = in[0];                                                                        \
        const T *y = in[1];                                                                        \
        T *restrict z = out;                                                                       \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T a = x[i * step[0]];                                                            \
            const T b = y[i * step[1]];                                                            \
            z[i] = (T){(R)(expr_re), (R)(expr_im)};                                                \
        }                                                                                          \
        return n;                                                                                  \
    }
#define BINARY(name, expr_re, expr_im)                                                             \
    BINARY_LOOP(name, c64, struct c64, float, expr_re, expr_im)                                    \
    BINARY_LOOP(name, c128, struct c128, double, expr_re, expr_im)                                 \
    LOOPS(name)                                                                                    \
    MR_ELEMENTWISE(name, 2, 0, MR_SET_COMPLEX, .loops = name##_loops)

BINARY(complex_add, a.re + b.re, a.im + b.im);
BINARY(complex_sub, a.re - b.re, a.im - b.im);
BINARY(complex_mul, a.re *b.re - a.im * b.im, a.re *b.im + a.im * b.re);
/* A square may leave float32: the division is in float64. */
#define SQUARE(v) ((double)(v) * (double)(v))
BINARY(complex_div,
       ((double)a.re * (double)b.re + (double)a.im * (double)b.im) / (SQUARE(b.re) + SQUARE(b.im)),
       ((double)a.im * (double)b.re - (double)a.re * (double)b.im) / (SQUARE(b.re) + SQUARE(b.im)));

UNARY_LOOP(conj, c64, struct c64, struct c64, ((struct c64){a.re, -a.im}))
UNARY_LOOP(conj, c128, struct c128, struct c128, ((struct c128){a.re, -a.im}))
LOOPS(conj)
MR_ELEMENTWISE(conj, 1, 0, MR_SET_COMPLEX, .loops = conj_loops);
