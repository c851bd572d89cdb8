/* cast: numbers and bools into each other. Floats lose their fraction; what does not fit saturates,
 * which C leaves undefined; NaN gives 0. float64 becomes float16 by way of float32, as in NumPy's
 * and TensorFlow's kernels. */
#include "ops/attr.h"
#include "ops/loops.h"

/* Floats to ints, saturating: @high and @low are the first values beyond that are exact in
 * double. */
#define SATURATE(tag, T, low, high)                                                                \
    static inline T to_##tag(double v)                                                             \
    {                                                                                              \
        return v >= (high) ? T_MAX(T) : v > (low) ? (T)v : v != v ? 0 : T_MIN(T);                  \
    }
#define T_SIGNED(T) ((T)-1 < (T)1)
#define T_MIN(T) ((T)(T_SIGNED(T) ? (uint64_t)1 << (sizeof(T) * 8 - 1) : 0))
#define T_MAX(T) ((T)~T_MIN(T))

SATURATE(i8, int8_t, -0x1p7, 0x1p7)
SATURATE(i16, int16_t, -0x1p15, 0x1p15)
SATURATE(i32, int32_t, -0x1p31, 0x1p31)
SATURATE(i64, int64_t, -0x1p63, 0x1p63)
SATURATE(u8, uint8_t, 0, 0x1p8)
SATURATE(u16, uint16_t, 0, 0x1p16)
SATURATE(u32, uint32_t, 0, 0x1p32)
SATURATE(u64, uint64_t, 0, 0x1p64)

/* CAST(from, S, N, LD, to, R, expr): the loop cast_<from>_<to>; expr sees the loaded value as a. */
#define CAST(from, S, N, LD, to, R, ...)                                                           \
    MR_HOT_##from static size_t cast_##from##_##to(size_t n, void *out, const void *const *in,     \
                                                   const uint8_t *step, mr_error *err)             \
        MR_UNARY_BODY(S, R, N, LD, MR_AS_IS, (__VA_ARGS__))
#define MR_AS_IS(R, v) (v)

/* The loops from one dtype to all; CONVERT(to, R): how it becomes an int. */
#define CAST_TO_EACH(tag, S, N, LD, CONVERT)                                                       \
    CAST(tag, S, N, LD, b, uint8_t, (uint8_t)(a != 0))                                             \
    CAST(tag, S, N, LD, i8, int8_t, CONVERT(i8, int8_t))                                           \
    CAST(tag, S, N, LD, i16, int16_t, CONVERT(i16, int16_t))                                       \
    CAST(tag, S, N, LD, i32, int32_t, CONVERT(i32, int32_t))                                       \
    CAST(tag, S, N, LD, i64, int64_t, CONVERT(i64, int64_t))                                       \
    CAST(tag, S, N, LD, u8, uint8_t, CONVERT(u8, uint8_t))                                         \
    CAST(tag, S, N, LD, u16, uint16_t, CONVERT(u16, uint16_t))                                     \
    CAST(tag, S, N, LD, u32, uint32_t, CONVERT(u32, uint32_t))                                     \
    CAST(tag, S, N, LD, u64, uint64_t, CONVERT(u64, uint64_t))                                     \
    CAST(tag, S, N, LD, f16, mr_half, mr_half_store((float)a))                                     \
    CAST(tag, S, N, LD, bf16, mr_bfloat, mr_bfloat_store((float)a))                                \
    CAST(tag, S, N, LD, f32, float, (float)a)                                                      \
    CAST(tag, S, N, LD, f64, double, (double)a)
#define WRAPPED(to, R) (R) a
#define SATURATED(to, R) to_##to((double)a)
#define FROM_INT(tag, dtype, S, W, N, LD, ST, ...) CAST_TO_EACH(tag, S, N, LD, WRAPPED)
#define FROM_FLOAT(tag, dtype, S, W, N, LD, ST, ...) CAST_TO_EACH(tag, S, N, LD, SATURATED)

MR_EACH_BOOL(FROM_INT, )
MR_EACH_INT(FROM_INT, )
MR_EACH_FLOAT(FROM_FLOAT, )

#define CAST_ROW(tag, dtype, S, W, N, LD, ST, ...)                                                 \
    [dtype] = {                                                                                    \
        [MR_BOOL] = cast_##tag##_b,        [MR_INT8] = cast_##tag##_i8,                            \
        [MR_INT16] = cast_##tag##_i16,     [MR_INT32] = cast_##tag##_i32,                          \
        [MR_INT64] = cast_##tag##_i64,     [MR_UINT8] = cast_##tag##_u8,                           \
        [MR_UINT16] = cast_##tag##_u16,    [MR_UINT32] = cast_##tag##_u32,                         \
        [MR_UINT64] = cast_##tag##_u64,    [MR_FLOAT16] = cast_##tag##_f16,                        \
        [MR_BFLOAT16] = cast_##tag##_bf16, [MR_FLOAT32] = cast_##tag##_f32,                        \
        [MR_FLOAT64] = cast_##tag##_f64,                                                           \
    },
static const mr_kernel_loop cast_loops[MR_DTYPE_COUNT][MR_DTYPE_COUNT] = {
    MR_EACH_BOOL(CAST_ROW, ) MR_EACH_NUMBER(CAST_ROW, )};

static mr_kernel_loop cast_loop(struct mr_attrs attrs, const uint8_t *dtypes)
{
    mr_dtype to = mr_attr_dtype(attrs, "dtype", MR_DTYPE_NONE);

    return to < MR_DTYPE_COUNT && dtypes[0] < MR_DTYPE_COUNT ? cast_loops[dtypes[0]][to] : NULL;
}

static int infer_cast(struct mr_kernel_infer *it, mr_error *err)
{
    mr_dtype to = mr_attr_dtype(it->attrs, "dtype", MR_DTYPE_NONE);

    if (((MR_SET(it->in[0].dtype) | MR_SET(to)) & MR_SET_COMPLEX) != 0) {
        return mr_error_set(err, MR_EINVAL, "%s to %s: complex, real and imag do that",
                            mr_dtype_name((mr_dtype)it->in[0].dtype), mr_dtype_name(to));
    }
    if (it->in[0].dtype == MR_STRING || to == MR_STRING) {
        return mr_error_set(err, MR_EINVAL, "%s to %s: as_string and string_to_number do that",
                            mr_dtype_name((mr_dtype)it->in[0].dtype), mr_dtype_name(to));
    }
    it->out->dtype = (uint8_t)to;
    return MR_OK;
}

MR_ELEMENTWISE(cast, 1, 0, 0, .infer = infer_cast, .loop = cast_loop,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, false}});
