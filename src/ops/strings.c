/*
 * Operators on strings that need no new bytes: string_length, string_to_number (_or), decode_raw,
 * string_strip. Results of dtype string are views of the input until the column is gathered.
 */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/number.h"
#include "ops/rows.h"

/* ---- string_length ---- */

/* Characters: bytes that do not continue another. */
static uint32_t count_characters(struct mr_string s)
{
    uint32_t count = 0;

    for (size_t k = 0; k < s.size; k++) {
        count += (s.data[k] & 0xc0u) != 0x80u;
    }
    return count;
}

MR_LOOP_HEAD(length, bytes)
MR_UNARY_BODY(struct mr_string, int32_t, struct mr_string, MR_AS_IT_IS, MR_INT_STORE,
              (uint32_t)a.size)
MR_LOOP_HEAD(length, utf8)
MR_UNARY_BODY(struct mr_string, int32_t, struct mr_string, MR_AS_IT_IS, MR_INT_STORE,
              count_characters(a))

static mr_kernel_loop length_loop(struct mr_attrs attrs, const uint8_t *dtypes)
{
    const struct mr_attr *unit = mr_attr_get(attrs, "unit");

    return unit != NULL && mr_attr_says(unit, "UTF8_CHAR") ? length_utf8 : length_bytes;
}

static int infer_length(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *unit = mr_attr_get(it->attrs, "unit");

    if (unit != NULL && !mr_attr_says(unit, "BYTE") && !mr_attr_says(unit, "UTF8_CHAR")) {
        return mr_error_set(err, MR_EINVAL, "unit '%.*s': wants BYTE or UTF8_CHAR",
                            unit->size > 20 ? 20 : (int)unit->size, (const char *)unit->bytes);
    }
    return MR_OK;
}

/* ---- string_to_number ---- */

static int bad_number(struct mr_string s, const char *why, mr_error *err)
{
    return mr_error_set(err, MR_EINVAL, "'%.*s' %s", s.size > 60 ? 60 : (int)s.size,
                        (const char *)s.data, why);
}

#define NUMBER(tag, T, what)                                                                       \
    MR_LOOP_HEAD(number, tag)                                                                      \
    {                                                                                              \
        const struct mr_string *x = in[0];                                                         \
        T *z = out;                                                                                \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            if (!mr_number_##tag(x[i * step[0]], &z[i])) {                                         \
                bad_number(x[i * step[0]], what, err);                                             \
                return i;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return n;                                                                                  \
    }
NUMBER(f32, float, "is not a number")
NUMBER(f64, double, "is not a number")
NUMBER(i32, int32_t, "is not an integer, or does not fit int32")
NUMBER(i64, int64_t, "is not an integer, or does not fit int64")

/* The same with a number for what is none. */
#define NUMBER_OR(tag, T)                                                                          \
    MR_LOOP_HEAD(number_or, tag)                                                                   \
    {                                                                                              \
        const struct mr_string *x = in[0];                                                         \
        const T *fallback = in[1];                                                                 \
        T *z = out;                                                                                \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            if (!mr_number_##tag(x[i * step[0]], &z[i])) {                                         \
                z[i] = fallback[i * step[1]];                                                      \
            }                                                                                      \
        }                                                                                          \
        return n;                                                                                  \
    }
NUMBER_OR(f32, float)
NUMBER_OR(f64, double)
NUMBER_OR(i32, int32_t)
NUMBER_OR(i64, int64_t)

static mr_kernel_loop number_or_loop(struct mr_attrs attrs, const uint8_t *dtypes)
{
    static const mr_kernel_loop loops[MR_DTYPE_COUNT] = {
        [MR_INT32] = number_or_i32,
        [MR_INT64] = number_or_i64,
        [MR_FLOAT32] = number_or_f32,
        [MR_FLOAT64] = number_or_f64,
    };

    return dtypes[1] < MR_DTYPE_COUNT ? loops[dtypes[1]] : NULL;
}

static int infer_number_or(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX | MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64), err));
    it->out->dtype = it->in[1].dtype;
    return MR_OK;
}

static mr_kernel_loop number_loop(struct mr_attrs attrs, const uint8_t *dtypes)
{
    static const mr_kernel_loop loops[MR_DTYPE_COUNT] = {
        [MR_INT32] = number_i32,
        [MR_INT64] = number_i64,
        [MR_FLOAT32] = number_f32,
        [MR_FLOAT64] = number_f64,
    };

    return loops[mr_attr_dtype(attrs, "dtype", MR_FLOAT32)]; /* a dtype: infer has checked it */
}

static int infer_number(struct mr_kernel_infer *it, mr_error *err)
{
    mr_dtype dtype = mr_attr_dtype(it->attrs, "dtype", MR_FLOAT32);

    if (number_loop(it->attrs, NULL) == NULL) {
        return mr_error_set(err, MR_EINVAL, "dtype %s: wants float32, float64, int32 or int64",
                            mr_dtype_name(dtype));
    }
    it->out->dtype = (uint8_t)dtype;
    return MR_OK;
}

/* ---- string_strip ---- */

MR_LOOP_HEAD(string_strip, string)
MR_UNARY_BODY(struct mr_string, struct mr_string, struct mr_string, MR_AS_IT_IS, MR_AS_IT_IS,
              mr_strip(a))

/* ---- decode_raw ---- */

#define SET_RAW (MR_SET_NUMBERS | MR_SET_COMPLEX | MR_SET(MR_BOOL))

/* @bytes: to how many every string is cut or filled up with zeros. */
static int check_length(int64_t bytes, unsigned dtype, mr_error *err)
{
    int64_t width = (int64_t)mr_dtype_size((mr_dtype)dtype);

    return bytes > 0 && bytes % width == 0
               ? MR_OK
               : mr_error_set(err, MR_EINVAL,
                              "fixed_length is %lld, it must be above 0, and a multiple of the "
                              "%lld bytes of %s",
                              (long long)bytes, (long long)width, mr_dtype_name((mr_dtype)dtype));
}

static int infer_raw(struct mr_kernel_infer *it, mr_error *err)
{
    mr_dtype dtype = mr_attr_dtype(it->attrs, "dtype", MR_DTYPE_NONE);
    const struct mr_attr *length = mr_attr_get(it->attrs, "fixed_length");
    int64_t dim = MR_DIM_UNKNOWN;

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    if ((MR_SET(dtype) & SET_RAW) == 0) {
        return mr_error_set(err, MR_EINVAL, "dtype %s", mr_dtype_name(dtype));
    }
    if (it->in[0].rank < 0 || it->in[0].rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "wants a rank of 0 to %d", MR_RANK_MAX - 1);
    }
    if (length != NULL && it->nin == 2) {
        return mr_error_set(err, MR_EINVAL,
                            "wants fixed_length as an attribute or as an input, not as both");
    }
    if (it->nin == 2) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    }
    if (length != NULL) {
        MR_TRY(check_length(length->i, dtype, err));
        dim = length->i / (int64_t)mr_dtype_size(dtype);
    }
    it->out->dims[it->out->rank++] = dim;
    it->out->dtype = (uint8_t)dtype;
    return MR_OK;
}

/* How many bytes all strings have, without a fixed_length. */
static int common_length(const struct mr_tensor *in, unsigned dtype, size_t *ret, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(in);
    size_t size = in->count == 0 ? 0 : strings[0].size;

    for (uint64_t i = 1; i < in->count; i++) {
        if (strings[i].size != size) {
            return mr_error_set(err, MR_EINVAL, "strings of %zu and %zu bytes in one tensor", size,
                                strings[i].size);
        }
    }
    if (size % mr_dtype_size((mr_dtype)dtype) != 0) {
        return mr_error_set(err, MR_EINVAL, "%zu bytes are not a whole number of %s", size,
                            mr_dtype_name((mr_dtype)dtype));
    }
    *ret = size;
    return MR_OK;
}

static int dims_raw(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int64_t *dim = &spec->dims[spec->rank - 1];
    size_t width = mr_dtype_size((mr_dtype)spec->dtype);
    size_t size = 0;

    if (row->nin == 2) {
        int64_t bytes = mr_tensor_index(&row->in[1], 0);

        MR_TRY(check_length(bytes, spec->dtype, err));
        *dim = bytes / (int64_t)width;
    } else if (mr_attr_get(row->attrs, "fixed_length") == NULL) {
        MR_TRY(common_length(&row->in[0], spec->dtype, &size, err));
        *dim = (int64_t)(size / width);
    }
    return MR_OK;
}

static void swap_bytes(unsigned char *p, uint64_t n, size_t width)
{
    for (uint64_t i = 0; i < n; i++, p += width) {
        for (size_t k = 0; k < width / 2; k++) {
            unsigned char byte = p[k];

            p[k] = p[width - 1 - k];
            p[width - 1 - k] = byte;
        }
    }
}

static int fill_raw(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    unsigned char *at = out->values;
    size_t size = (size_t)out->dims[out->rank - 1] * out->width; /* of each */

    (void)err;
    for (uint64_t i = 0; i < row->in[0].count; i++, at += size) {
        size_t n = MR_MIN(size, strings[i].size);

        if (n > 0) {
            memcpy(at, strings[i].data, n);
        }
        if (size > n) {
            memset(at + n, 0, size - n);
        }
    }
    if (!mr_attr_bool(row->attrs, "little_endian", true)) {
        uint64_t parts = (MR_SET(out->dtype) & MR_SET_COMPLEX) != 0 ? 2 : 1;

        swap_bytes(out->values, out->count * parts, out->width / parts);
    }
    for (uint64_t i = 0; out->dtype == MR_BOOL && i < out->count; i++) {
        out->values[i] = out->values[i] != 0; /* a bool is 0 or 1, whatever the bytes were */
    }
    return MR_OK;
}

MR_ELEMENTWISE(string_length, 1, 0, MR_SET(MR_STRING), .result = MR_INT32, .infer = infer_length,
               .loop = length_loop, .attr_table = {{"unit", MR_ATTR_BYTES, true}});
MR_ELEMENTWISE(string_to_number, 1, MR_KERNEL_MAY_FAIL, MR_SET(MR_STRING), .infer = infer_number,
               .loop = number_loop, .attr_table = {{"dtype", MR_ATTR_DTYPE, true}});
MR_ELEMENTWISE(string_to_number_or, 2, 0, 0, .infer = infer_number_or, .loop = number_or_loop);
MR_LOOPS_KERNEL(string_strip, 1, 0, MR_SET(MR_STRING), [MR_STRING] = string_strip_string);
MR_ROWS_KERNEL(decode_raw, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_raw,
               .dims = dims_raw, .fill = fill_raw,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, false},
                              {"little_endian", MR_ATTR_BOOL, true},
                              {"fixed_length", MR_ATTR_INT, true}});
