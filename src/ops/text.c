/*
 * Operators that make new strings: as_string, string_join, string_lower, string_upper.
 *
 * Numbers are written in the C locale: printf() would use the decimal point of the process's.
 */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/half.h"
#include "ops/locale.h"
#include "ops/rows.h"
#include "ops/table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A copy of @size bytes as value @i of a result. */
static int put_string(struct mr_result *out, uint64_t i, const void *bytes, size_t size,
                      mr_error *err)
{
    struct mr_string *views = (struct mr_string *)(void *)out->values;
    unsigned char *copy = mr_output_bytes(out->column, size, err);

    if (copy == NULL) {
        return MR_EEXHAUSTED;
    }
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    views[i] = (struct mr_string){copy, size};
    return MR_OK;
}

/* ---- as_string ---- */

#define PRECISION_MAX 100
#define NUMBER_TEXT 512 /* the largest double has 309 digits before the point */

static int infer_as_string(const struct mr_attr *attrs, size_t nattrs,
                           const struct mr_leaf_spec *in, size_t nin, struct mr_leaf_spec *out,
                           size_t cap, size_t *nout, mr_error *err)
{
    int64_t precision = mr_attr_int(attrs, nattrs, "precision", -1);

    MR_TRY(mr_infer_dtype(in, 0, MR_SET_NUMBERS | MR_SET(MR_BOOL) | MR_SET(MR_STRING), err));
    if ((precision < -1 || precision > PRECISION_MAX)) {
        return mr_error_set(err, MR_EINVAL, "precision %lld; at most %d", (long long)precision,
                            PRECISION_MAX);
    }
    if (mr_attr_bool(attrs, nattrs, "scientific", false) &&
        mr_attr_bool(attrs, nattrs, "shortest", false)) {
        return mr_error_set(err, MR_EINVAL, "scientific and shortest exclude each other");
    }
    out[0] = in[0];
    out[0].dtype = MR_STRING;
    *nout = 1;
    return MR_OK;
}

static int print_float(char text[NUMBER_TEXT], double v, char form, int precision)
{
    const char format[] = {'%', '.', '*', form, '\0'};
    const char plain[] = {'%', form, '\0'};

    return precision < 0 ? snprintf(text, NUMBER_TEXT, plain, v)
                         : snprintf(text, NUMBER_TEXT, format, precision, v);
}

static int print_value(char text[NUMBER_TEXT], const struct mr_tensor *t, uint64_t i, char form,
                       int precision)
{
    const void *p = t->values + i * t->width;

    switch ((mr_dtype)t->dtype) {
    case MR_BOOL:
        return snprintf(text, NUMBER_TEXT, "%s", *(const uint8_t *)p != 0 ? "true" : "false");
    case MR_INT8:
        return snprintf(text, NUMBER_TEXT, "%d", *(const int8_t *)p);
    case MR_INT16:
        return snprintf(text, NUMBER_TEXT, "%d", *(const int16_t *)p);
    case MR_INT32:
        return snprintf(text, NUMBER_TEXT, "%d", *(const int32_t *)p);
    case MR_INT64:
        return snprintf(text, NUMBER_TEXT, "%lld", (long long)*(const int64_t *)p);
    case MR_UINT8:
        return snprintf(text, NUMBER_TEXT, "%u", *(const uint8_t *)p);
    case MR_UINT16:
        return snprintf(text, NUMBER_TEXT, "%u", *(const uint16_t *)p);
    case MR_UINT32:
        return snprintf(text, NUMBER_TEXT, "%u", *(const uint32_t *)p);
    case MR_UINT64:
        return snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)*(const uint64_t *)p);
    case MR_FLOAT16:
        return print_float(text, (double)mr_half_load(*(const mr_half *)p), form, precision);
    case MR_BFLOAT16:
        return print_float(text, (double)mr_bfloat_load(*(const mr_bfloat *)p), form, precision);
    case MR_FLOAT32:
        return print_float(text, (double)*(const float *)p, form, precision);
    case MR_FLOAT64:
        return print_float(text, *(const double *)p, form, precision);
    case MR_DTYPE_NONE:
    case MR_STRING:
    case MR_DTYPE_COUNT:
    default:
        return -1; /* infer has refused it */
    }
}

static int copy_strings(const struct mr_tensor *in, struct mr_result *out, mr_error *err)
{
    const struct mr_string *values = (const struct mr_string *)(const void *)in->values;

    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(put_string(out, i, values[i].data, values[i].size, err));
    }
    return MR_OK;
}

static int fill_as_string(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                          size_t output, struct mr_result *out, mr_error *err)
{
    int precision = (int)mr_attr_int(call->attrs, call->nattrs, "precision", -1);
    bool scientific = mr_attr_bool(call->attrs, call->nattrs, "scientific", false);
    bool shortest = mr_attr_bool(call->attrs, call->nattrs, "shortest", false);
    char form = scientific ? 'e' : shortest ? 'g' : 'f';

    if (in[0].dtype == MR_STRING) {
        return copy_strings(&in[0], out, err);
    }
    locale_t c = mr_c_locale_new();
    if (c == (locale_t)0) {
        return mr_error_nomem(err);
    }
    locale_t old = uselocale(c);
    for (uint64_t i = 0; i < out->count; i++) {
        char text[NUMBER_TEXT];
        int n = print_value(text, &in[0], i, form, precision);

        MR_TRY(n < 0 ? mr_error_set(err, MR_EINTERNAL, "dtype %u", in[0].dtype)
                     : put_string(out, i, text, (size_t)n, err));
    }
    (void)uselocale(old);
    freelocale(c);
    return MR_OK;
}

/* ---- string_join ---- */

static int infer_join(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                      size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    struct mr_leaf_spec result = in[0];

    for (size_t i = 0; i < nin; i++) {
        MR_TRY(mr_infer_dtype(in, i, MR_SET(MR_STRING), err));
    }
    for (size_t i = 1; i < nin; i++) {
        MR_TRY(mr_shape_broadcast(&in[i], &result, err));
    }
    out[0] = result;
    *nout = 1;
    return MR_OK;
}

/* The value of @t that is broadcast to value @i of the result. */
static struct mr_string broadcast_value(const struct mr_tensor *t, const struct mr_result *out,
                                        uint64_t i)
{
    const struct mr_string *values = (const struct mr_string *)(const void *)t->values;
    uint64_t at = 0;
    uint64_t stride = 1;

    for (int d = out->rank - 1, e = t->rank - 1; e >= 0; d--, e--) {
        uint64_t index = i % (uint64_t)out->dims[d];

        i /= (uint64_t)out->dims[d];
        at += t->dims[e] == 1 ? 0 : index * stride;
        stride *= (uint64_t)t->dims[e];
    }
    return values[at];
}

static int fill_join(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                     size_t output, struct mr_result *out, mr_error *err)
{
    const struct mr_attr *separator = mr_attr_find(call->attrs, call->nattrs, "separator");
    size_t gap = separator == NULL ? 0 : separator->size;
    struct mr_string *views = (struct mr_string *)(void *)out->values;

    for (uint64_t i = 0; i < out->count; i++) {
        size_t size = gap * (nin - 1);
        unsigned char *at;

        for (size_t k = 0; k < nin; k++) {
            size += broadcast_value(&in[k], out, i).size;
        }
        at = mr_output_bytes(out->column, size, err);
        if (at == NULL) {
            return MR_EEXHAUSTED;
        }
        views[i] = (struct mr_string){at, size};
        for (size_t k = 0; k < nin; k++) {
            struct mr_string s = broadcast_value(&in[k], out, i);

            if (k > 0 && gap > 0) {
                memcpy(at, separator->bytes, gap);
                at += gap;
            }
            if (s.size > 0) {
                memcpy(at, s.data, s.size);
                at += s.size;
            }
        }
    }
    return MR_OK;
}

/* ---- string_lower, string_upper ---- */

static int infer_string(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                        size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                        mr_error *err)
{
    MR_TRY(mr_infer_dtype(in, 0, MR_SET(MR_STRING), err));

    out[0] = in[0];
    *nout = 1;
    return MR_OK;
}

/* Letters from @first to the 26th have bit 5 flipped: ASCII, and so all other bytes of UTF-8
 * stay. */
static int flip_case(const struct mr_tensor *in, struct mr_result *out, unsigned char first,
                     mr_error *err)
{
    const struct mr_string *values = (const struct mr_string *)(const void *)in->values;
    const struct mr_string *views = (const struct mr_string *)(const void *)out->values;

    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(put_string(out, i, values[i].data, values[i].size, err));
        unsigned char *bytes = (unsigned char *)(uintptr_t)views[i].data;
        for (size_t k = 0; k < views[i].size; k++) {
            if (bytes[k] >= first && bytes[k] < first + 26) {
                bytes[k] ^= 0x20u;
            }
        }
    }
    return MR_OK;
}

static int fill_lower(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      size_t output, struct mr_result *out, mr_error *err)
{
    return flip_case(&in[0], out, 'A', err);
}

static int fill_upper(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      size_t output, struct mr_result *out, mr_error *err)
{
    return flip_case(&in[0], out, 'a', err);
}

static const struct mr_kernel_attr as_string_attrs[] = {{"precision", MR_ATTR_INT, true},
                                                        {"scientific", MR_ATTR_BOOL, true},
                                                        {"shortest", MR_ATTR_BOOL, true},
                                                        {NULL, 0, false}};
static const struct mr_kernel_attr join_attrs[] = {{"separator", MR_ATTR_BYTES, true},
                                                   {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_as_string, "as_string", 0, 1, 1, infer_as_string, as_string_attrs, NULL,
               fill_as_string);
MR_ROWS_KERNEL(mr_kernel_string_join, "string_join", MR_KERNEL_MAY_FAIL, 1, -1, infer_join,
               join_attrs, NULL, fill_join);
MR_ROWS_KERNEL(mr_kernel_string_lower, "string_lower", 0, 1, 1, infer_string, NULL, NULL,
               fill_lower);
MR_ROWS_KERNEL(mr_kernel_string_upper, "string_upper", 0, 1, 1, infer_string, NULL, NULL,
               fill_upper);
