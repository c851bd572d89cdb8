/*
 * Operators that make new strings: as_string, string_join, string_lower, string_upper.
 *
 * Numbers are written in the C locale: printf() would use the decimal point of the process's.
 */
#include "ops/attr.h"
#include "ops/locale.h"
#include "ops/loops.h"
#include "ops/rows.h"

/* A copy of @size bytes as value @i of a result. */
static int put_string(struct mr_result *out, uint64_t i, const void *bytes, size_t size,
                      mr_error *err)
{
    return mr_result_put_bytes(out, bytes, size, &mr_result_strings(out)[i], err);
}

/* ---- as_string ---- */

#define PRECISION_MAX 100
#define NUMBER_TEXT 512 /* the largest double has 309 digits before the point */

static int infer_as_string(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t precision = mr_attr_int(it->attrs, "precision", -1);

    if (precision < -1 || precision > PRECISION_MAX) {
        return mr_error_set(err, MR_EINVAL, "precision %lld; at most %d", (long long)precision,
                            PRECISION_MAX);
    }
    if (mr_attr_bool(it->attrs, "scientific", false) &&
        mr_attr_bool(it->attrs, "shortest", false)) {
        return mr_error_set(err, MR_EINVAL, "scientific and shortest exclude each other");
    }
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

#define SIGNED_VALUE(tag, dtype, S, ...)                                                           \
    case dtype:                                                                                    \
        return snprintf(text, NUMBER_TEXT, "%lld", (long long)*(const S *)p);
#define UNSIGNED_VALUE(tag, dtype, S, ...)                                                         \
    case dtype:                                                                                    \
        return snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)*(const S *)p);
#define FLOAT_VALUE(tag, dtype, S, W, N, LD, ST, ...)                                              \
    case dtype: return print_float(text, (double)LD(N, *(const S *)p), form, precision);
    switch (t->dtype) {
        MR_EACH_SIGNED(SIGNED_VALUE, )
        MR_EACH_UNSIGNED(UNSIGNED_VALUE, )
        MR_EACH_FLOAT(FLOAT_VALUE, )
    case MR_BOOL:
        return snprintf(text, NUMBER_TEXT, "%s", *(const uint8_t *)p != 0 ? "true" : "false");
    default: return -1; /* infer has refused it */
    }
}

static int copy_strings(const struct mr_tensor *in, struct mr_result *out, mr_error *err)
{
    const struct mr_string *values = mr_tensor_strings(in);

    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(put_string(out, i, values[i].data, values[i].size, err));
    }
    return MR_OK;
}

static int print_values(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int precision = (int)mr_attr_int(row->attrs, "precision", -1);
    bool scientific = mr_attr_bool(row->attrs, "scientific", false);
    bool shortest = mr_attr_bool(row->attrs, "shortest", false);
    char form = scientific ? 'e' : shortest ? 'g' : 'f';

    for (uint64_t i = 0; i < out->count; i++) {
        char text[NUMBER_TEXT];
        int n = print_value(text, &row->in[0], i, form, precision);

        MR_TRY(n < 0 ? mr_error_set(err, MR_EINTERNAL, "dtype %u", row->in[0].dtype)
                     : put_string(out, i, text, (size_t)n, err));
    }
    return MR_OK;
}

static int fill_as_string(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    if (row->in[0].dtype == MR_STRING) {
        return copy_strings(&row->in[0], out, err);
    }
    locale_t c = mr_c_locale_new();
    if (c == (locale_t)0) {
        return mr_error_nomem(err);
    }
    locale_t old = uselocale(c);
    int rc = print_values(row, out, err);
    (void)uselocale(old);
    freelocale(c);
    return rc;
}

/* ---- string_join ---- */

static int infer_join(struct mr_kernel_infer *it, mr_error *err)
{
    for (size_t i = 1; i < it->nin; i++) {
        MR_TRY(mr_shape_broadcast(&it->in[i], it->out, err));
    }
    return MR_OK;
}

/* The value of @t that is broadcast to value @i of the result. */
static struct mr_string broadcast_value(const struct mr_tensor *t, const struct mr_result *out,
                                        uint64_t i)
{
    return mr_tensor_strings(t)[mr_broadcast_index(t, out, 0, i)];
}

static int fill_join(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_attr *separator = mr_attr_get(row->attrs, "separator");
    size_t gap = separator == NULL ? 0 : separator->size;
    struct mr_string *views = mr_result_strings(out);

    for (uint64_t i = 0; i < out->count; i++) {
        size_t size = gap * (row->nin - 1);
        unsigned char *at;

        for (size_t k = 0; k < row->nin; k++) {
            size += broadcast_value(&row->in[k], out, i).size;
        }
        at = mr_output_bytes(out->column, size, err);
        if (at == NULL) {
            return MR_EEXHAUSTED;
        }
        views[i] = (struct mr_string){at, size};
        for (size_t k = 0; k < row->nin; k++) {
            struct mr_string s = broadcast_value(&row->in[k], out, i);

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

/* Letters from @first to the 26th have bit 5 flipped: ASCII, and so all other bytes of UTF-8
 * stay. */
static int flip_case(const struct mr_tensor *in, struct mr_result *out, unsigned char first,
                     mr_error *err)
{
    const struct mr_string *values = mr_tensor_strings(in);
    const struct mr_string *views = mr_result_strings(out);

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

static int fill_lower(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return flip_case(&row->in[0], out, 'A', err);
}

static int fill_upper(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return flip_case(&row->in[0], out, 'a', err);
}

MR_ROWS_KERNEL(as_string, 1, 1, MR_SET_ANY, .result = MR_STRING, .infer = infer_as_string,
               .fill = fill_as_string,
               .attr_table = {{"precision", MR_ATTR_INT, true},
                              {"scientific", MR_ATTR_BOOL, true},
                              {"shortest", MR_ATTR_BOOL, true}});
MR_ROWS_KERNEL(string_join, 1, -1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_join, .fill = fill_join,
               .attr_table = {{"separator", MR_ATTR_BYTES, true}});
MR_ROWS_KERNEL(string_lower, 1, 1, MR_SET(MR_STRING), .fill = fill_lower);
MR_ROWS_KERNEL(string_upper, 1, 1, MR_SET(MR_STRING), .fill = fill_upper);
