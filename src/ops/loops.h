/*
 * Macros that write one inner loop (mr_kernel_loop) a dtype.
 *
 * The lists call X(tag, dtype, storage, wide, natural, LOAD, STORE, ...): `wide` is the unsigned
 * type in which + - * wrap, `natural` the type in which values compare and divide. An expression
 * sees its operands as a and b (and c).
 */
#pragma once

#include "ops/elementwise.h"
#include "ops/half.h"
#include "ops/kernel.h"

/* A second version for AVX2, chosen when the program starts; sanitizers are not running yet at that
 * time. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(MR_SANITIZE) &&                           \
    !defined(__clang_analyzer__)
#define MR_HOT __attribute__((target_clones("avx2", "default")))
#else
#define MR_HOT
#endif
/* Only for the dtypes that pipelines are made of: two versions of everything would double the
 * library. */
#define MR_HOT_u8 MR_HOT
#define MR_HOT_i32 MR_HOT
#define MR_HOT_i64 MR_HOT
#define MR_HOT_f32 MR_HOT
#define MR_HOT_f64 MR_HOT
#define MR_HOT_b
#define MR_HOT_i8
#define MR_HOT_i16
#define MR_HOT_u16
#define MR_HOT_u32
#define MR_HOT_u64
#define MR_HOT_f16
#define MR_HOT_bf16

#define MR_INT_LOAD(C, v) ((C)(v))
#define MR_INT_STORE(S, v) ((S)(v))
#define MR_AS_IT_IS(T, v) (v)
#define MR_HALF_LOAD(C, v) mr_half_load(v)
#define MR_HALF_STORE(S, v) mr_half_store(v)
#define MR_BFLOAT_LOAD(C, v) mr_bfloat_load(v)
#define MR_BFLOAT_STORE(S, v) mr_bfloat_store(v)

#define MR_EACH_SIGNED(X, ...)                                                                     \
    X(i8, MR_INT8, int8_t, uint32_t, int8_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)               \
    X(i16, MR_INT16, int16_t, uint32_t, int16_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)           \
    X(i32, MR_INT32, int32_t, uint32_t, int32_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)           \
    X(i64, MR_INT64, int64_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)
#define MR_EACH_UNSIGNED(X, ...)                                                                   \
    X(u8, MR_UINT8, uint8_t, uint32_t, uint8_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)            \
    X(u16, MR_UINT16, uint16_t, uint32_t, uint16_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)        \
    X(u32, MR_UINT32, uint32_t, uint32_t, uint32_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)        \
    X(u64, MR_UINT64, uint64_t, uint64_t, uint64_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)
#define MR_EACH_FLOAT(X, ...)                                                                      \
    X(f16, MR_FLOAT16, mr_half, float, float, MR_HALF_LOAD, MR_HALF_STORE, __VA_ARGS__)            \
    X(bf16, MR_BFLOAT16, mr_bfloat, float, float, MR_BFLOAT_LOAD, MR_BFLOAT_STORE, __VA_ARGS__)    \
    X(f32, MR_FLOAT32, float, float, float, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)                \
    X(f64, MR_FLOAT64, double, double, double, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)
#define MR_EACH_INT(X, ...) MR_EACH_SIGNED(X, __VA_ARGS__) MR_EACH_UNSIGNED(X, __VA_ARGS__)
#define MR_EACH_NUMBER(X, ...) MR_EACH_INT(X, __VA_ARGS__) MR_EACH_FLOAT(X, __VA_ARGS__)
#define MR_EACH_BOOL(X, ...)                                                                       \
    X(b, MR_BOOL, uint8_t, uint32_t, uint8_t, MR_INT_LOAD, MR_INT_STORE, __VA_ARGS__)

/* The loop of operator `name` for one dtype, as an entry of a table indexed by dtype. */
#define MR_LOOP_ENTRY(tag, dtype, S, W, N, LD, ST, name, ...) [dtype] = name##_##tag,

#define MR_LOOP_HEAD(name, tag)                                                                    \
    static size_t name##_##tag(size_t n, void *out, const void *const *in, const uint8_t *step,    \
                               mr_error *err)
#define MR_HOT_LOOP_HEAD(name, tag) MR_HOT_##tag MR_LOOP_HEAD(name, tag)

/* One value for all: operands that stand still. */
#define MR_FILL_BODY(R, v)                                                                         \
    {                                                                                              \
        const R only = (v);                                                                        \
        for (size_t i = 0; i < n; i++) {                                                           \
            z[i] = only;                                                                           \
        }                                                                                          \
    }

#define MR_UNARY_BODY(S, R, C, LD, ST, expr)                                                       \
    {                                                                                              \
        R *restrict z = out;                                                                       \
        const S *x = in[0];                                                                        \
                                                                                                   \
        if (step[0] == 0) {                                                                        \
            const C a = LD(C, x[0]);                                                               \
            MR_FILL_BODY(R, ST(R, expr))                                                           \
            return n;                                                                              \
        }                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const C a = LD(C, x[i]);                                                               \
            z[i] = ST(R, expr);                                                                    \
        }                                                                                          \
        return n;                                                                                  \
    }

/* One loop a case, each of which the compiler can vectorise. */
#define MR_BINARY_BODY(S, R, C, LD, ST, expr)                                                      \
    {                                                                                              \
        R *restrict z = out;                                                                       \
        const S *x = in[0];                                                                        \
        const S *y = in[1];                                                                        \
                                                                                                   \
        if (step[0] != 0 && step[1] != 0) {                                                        \
            for (size_t i = 0; i < n; i++) {                                                       \
                const C a = LD(C, x[i]);                                                           \
                const C b = LD(C, y[i]);                                                           \
                z[i] = ST(R, expr);                                                                \
            }                                                                                      \
        } else if (step[0] != 0) {                                                                 \
            const C b = LD(C, y[0]);                                                               \
            for (size_t i = 0; i < n; i++) {                                                       \
                const C a = LD(C, x[i]);                                                           \
                z[i] = ST(R, expr);                                                                \
            }                                                                                      \
        } else if (step[1] != 0) {                                                                 \
            const C a = LD(C, x[0]);                                                               \
            for (size_t i = 0; i < n; i++) {                                                       \
                const C b = LD(C, y[i]);                                                           \
                z[i] = ST(R, expr);                                                                \
            }                                                                                      \
        } else {                                                                                   \
            const C a = LD(C, x[0]);                                                               \
            const C b = LD(C, y[0]);                                                               \
            MR_FILL_BODY(R, ST(R, expr))                                                           \
        }                                                                                          \
        return n;                                                                                  \
    }

/* X-functions for the lists: results of the operands' dtype, computed wide (wrapping) or naturally;
 * or bool. */
#define MR_UNARY_WIDE(tag, dtype, S, W, N, LD, ST, name, expr)                                     \
    MR_HOT_LOOP_HEAD(name, tag) MR_UNARY_BODY(S, S, W, LD, ST, expr)
#define MR_UNARY(tag, dtype, S, W, N, LD, ST, name, expr)                                          \
    MR_HOT_LOOP_HEAD(name, tag) MR_UNARY_BODY(S, S, N, LD, ST, expr)
#define MR_UNARY_SLOW(tag, dtype, S, W, N, LD, ST, name, expr)                                     \
    MR_LOOP_HEAD(name, tag) MR_UNARY_BODY(S, S, N, LD, ST, expr)
#define MR_UNARY_TEST(tag, dtype, S, W, N, LD, ST, name, expr)                                     \
    MR_LOOP_HEAD(name, tag) MR_UNARY_BODY(S, uint8_t, N, LD, MR_INT_STORE, expr)
#define MR_BINARY_WIDE(tag, dtype, S, W, N, LD, ST, name, expr)                                    \
    MR_HOT_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, S, W, LD, ST, expr)
#define MR_BINARY(tag, dtype, S, W, N, LD, ST, name, expr)                                         \
    MR_HOT_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, S, N, LD, ST, expr)
#define MR_BINARY_SLOW(tag, dtype, S, W, N, LD, ST, name, expr)                                    \
    MR_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, S, N, LD, ST, expr)
#define MR_BINARY_TEST(tag, dtype, S, W, N, LD, ST, name, expr)                                    \
    MR_HOT_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, uint8_t, N, LD, MR_INT_STORE, expr)

/* A table of loops by dtype, and an elementwise kernel of the same name that uses it. */
#define MR_LOOPS(name, ...) static const mr_kernel_loop name##_loops[MR_DTYPE_COUNT] = {__VA_ARGS__}
#define MR_LOOPS_KERNEL(name, inputs, flags, set, ...)                                             \
    MR_LOOPS(name, __VA_ARGS__);                                                                   \
    MR_ELEMENTWISE(name, inputs, flags, set, .loops = name##_loops)
/* The same with a result of bools. */
#define MR_TEST_KERNEL(name, inputs, set, ...)                                                     \
    MR_LOOPS(name, __VA_ARGS__);                                                                   \
    MR_ELEMENTWISE(name, inputs, 0, set, .loops = name##_loops, .result = MR_BOOL)
