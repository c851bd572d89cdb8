/*
 * cast: numbers and bools into each other. Floats lose their fraction; what does not fit saturates,
 * which C leaves undefined; NaN gives 0. float64 becomes float16 by way of float32, as in NumPy's
 * and TensorFlow's kernels.
 */
#include "base/error.h"
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/table.h"

/* Floats to ints, saturating. The limits are exact in double. */
static inline int32_t to_i32(double v)
{
    return v >= 0x1p31 ? INT32_MAX : v <= -0x1p31 ? INT32_MIN : v != v ? 0 : (int32_t)v;
}

static inline int64_t to_i64(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : v != v ? 0 : (int64_t)v;
}

static inline uint32_t to_u32(double v)
{
    return v >= 0x1p32 ? UINT32_MAX : v > 0 ? (uint32_t)v : 0;
}

static inline uint64_t to_u64(double v)
{
    return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

static inline int8_t to_i8(double v)
{
    return v >= 127 ? INT8_MAX : v <= -128 ? INT8_MIN : v != v ? 0 : (int8_t)v;
}

static inline int16_t to_i16(double v)
{
    return v >= 32767 ? INT16_MAX : v <= -32768 ? INT16_MIN : v != v ? 0 : (int16_t)v;
}

static inline uint8_t to_u8(double v)
{
    return v >= 255 ? UINT8_MAX : v > 0 ? (uint8_t)v : 0;
}

static inline uint16_t to_u16(double v)
{
    return v >= 65535 ? UINT16_MAX : v > 0 ? (uint16_t)v : 0;
}

/* CAST(from, S, N, LD, to, R, expr): the loop cast_<from>_<to>; expr sees the loaded value as a. */
#define CAST(from, S, N, LD, to, R, ...)                                                           \
    MR_HOT_##from static size_t cast_##from##_##to(size_t n, void *out, const void *const *in,     \
                                                   const uint8_t *step, mr_error *err)             \
        MR_UNARY_BODY(S, R, N, LD, MR_AS_IS, (__VA_ARGS__))
#define MR_AS_IS(R, v) (v)

#define FROM_INT(tag, dtype, S, W, N, LD, ST, ...)                                                 \
    CAST(tag, S, N, LD, b, uint8_t, (uint8_t)(a != 0))                                             \
    CAST(tag, S, N, LD, i8, int8_t, (int8_t)a)                                                     \
    CAST(tag, S, N, LD, i16, int16_t, (int16_t)a)                                                  \
    CAST(tag, S, N, LD, i32, int32_t, (int32_t)a)                                                  \
    CAST(tag, S, N, LD, i64, int64_t, (int64_t)a)                                                  \
    CAST(tag, S, N, LD, u8, uint8_t, (uint8_t)a)                                                   \
    CAST(tag, S, N, LD, u16, uint16_t, (uint16_t)a)                                                \
    CAST(tag, S, N, LD, u32, uint32_t, (uint32_t)a)                                                \
    CAST(tag, S, N, LD, u64, uint64_t, (uint64_t)a)                                                \
    CAST(tag, S, N, LD, f16, mr_half, mr_half_store((float)a))                                     \
    CAST(tag, S, N, LD, bf16, mr_bfloat, mr_bfloat_store((float)a))                                \
    CAST(tag, S, N, LD, f32, float, (float)a)                                                      \
    CAST(tag, S, N, LD, f64, double, (double)a)
#define FROM_FLOAT(tag, dtype, S, W, N, LD, ST, ...)                                               \
    CAST(tag, S, N, LD, b, uint8_t, (uint8_t)(a != 0))                                             \
    CAST(tag, S, N, LD, i8, int8_t, to_i8((double)a))                                              \
    CAST(tag, S, N, LD, i16, int16_t, to_i16((double)a))                                           \
    CAST(tag, S, N, LD, i32, int32_t, to_i32((double)a))                                           \
    CAST(tag, S, N, LD, i64, int64_t, to_i64((double)a))                                           \
    CAST(tag, S, N, LD, u8, uint8_t, to_u8((double)a))                                             \
    CAST(tag, S, N, LD, u16, uint16_t, to_u16((double)a))                                          \
    CAST(tag, S, N, LD, u32, uint32_t, to_u32((double)a))                                          \
    CAST(tag, S, N, LD, u64, uint64_t, to_u64((double)a))                                          \
    CAST(tag, S, N, LD, f16, mr_half, mr_half_store((float)a))                                     \
    CAST(tag, S, N, LD, bf16, mr_bfloat, mr_bfloat_store((float)a))                                \
    CAST(tag, S, N, LD, f32, float, (float)a)                                                      \
    CAST(tag, S, N, LD, f64, double, (double)a)

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

    if (it->in[0].dtype == MR_STRING || to == MR_STRING) {
        return mr_error_set(err, MR_EINVAL, "%s to %s: as_string and string_to_number do that",
                            mr_dtype_name((mr_dtype)it->in[0].dtype), mr_dtype_name(to));
    }
    it->out->dtype = (uint8_t)to;
    return MR_OK;
}

MR_ELEMENTWISE(cast, 1, 0, 0, .infer = infer_cast, .loop = cast_loop,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, false}});
