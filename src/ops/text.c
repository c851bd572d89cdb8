/*
 * Operators that make new strings: as_string, string_join.
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
#define WIDTH_MAX 1000
#define NUMBER_TEXT 1024 /* the largest double has 309 digits before the point */

/* How printf() is to write a value: flag, width and precision, where they are given. */
struct format {
    char flag; /* '\0': none */
    int width;
    int precision;
    char form; /* of floats */
};

static struct format format_of(struct mr_attrs attrs)
{
    const struct mr_attr *fill = mr_attr_get(attrs, "fill");

    return (struct format){
        .flag = fill != NULL && fill->size > 0 ? *(const char *)fill->bytes : '\0',
        .width = (int)MR_MAX(mr_attr_int(attrs, "width", -1), -1),
        .precision = (int)MR_MAX(mr_attr_int(attrs, "precision", -1), -1),
        .form = mr_attr_bool(attrs, "scientific", false) ? 'e'
                : mr_attr_bool(attrs, "shortest", false) ? 'g'
                                                         : 'f',
    };
}

static bool is_flag(const struct mr_attr *fill)
{
    char c = *(const char *)fill->bytes;

    return fill->size == 1 && (c == ' ' || c == '+' || c == '-' || c == '0' || c == '#');
}

static int infer_as_string(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *fill = mr_attr_get(it->attrs, "fill");
    int64_t precision = mr_attr_int(it->attrs, "precision", -1);
    int64_t width = mr_attr_int(it->attrs, "width", -1);
    bool scientific = mr_attr_bool(it->attrs, "scientific", false);
    bool shortest = mr_attr_bool(it->attrs, "shortest", false);
    uint32_t of_no_ints = MR_SET_FLOATS | MR_SET(MR_STRING);

    if (precision > PRECISION_MAX || width > WIDTH_MAX) {
        return mr_error_set(err, MR_EINVAL, "precision %lld, width %lld; at most %d and %d",
                            (long long)precision, (long long)width, PRECISION_MAX, WIDTH_MAX);
    }
    if (scientific && shortest) {
        return mr_error_set(err, MR_EINVAL, "scientific and shortest exclude each other");
    }
    if ((MR_SET(it->in[0].dtype) & of_no_ints) == 0 && (scientific || shortest || precision >= 0)) {
        return mr_error_set(err, MR_EINVAL, "precision, scientific and shortest are not for %s",
                            mr_dtype_name((mr_dtype)it->in[0].dtype));
    }
    if (fill != NULL && fill->size > 0 && !is_flag(fill)) {
        return mr_error_set(err, MR_EINVAL, "fill '%.*s': wants one of ' ', '+', '-', '0', '#'",
                            (int)MR_MIN(fill->size, 20), (const char *)fill->bytes);
    }
    return MR_OK;
}

/* "%", flag, "*", @conversion; the width 0 is none. */
static void conversion(const struct format *f, const char *end, char to[8])
{
    int n = 0;

    to[n++] = '%';
    if (f->flag != '\0') {
        to[n++] = f->flag;
    }
    to[n++] = '*';
    memcpy(to + n, end, strlen(end) + 1);
}

static int print_signed(char text[NUMBER_TEXT], long long v, const struct format *f)
{
    char how[8];

    conversion(f, "lld", how);
    return snprintf(text, NUMBER_TEXT, how, MR_MAX(f->width, 0), v);
}

static int print_unsigned(char text[NUMBER_TEXT], unsigned long long v, const struct format *f)
{
    char how[8];

    conversion(f, "llu", how);
    return snprintf(text, NUMBER_TEXT, how, MR_MAX(f->width, 0), v);
}

static int print_float(char text[NUMBER_TEXT], double v, const struct format *f)
{
    const char end[] = {'.', '*', f->form, '\0'};
    char how[8];

    conversion(f, end, how); /* a negative precision is none */
    return snprintf(text, NUMBER_TEXT, how, MR_MAX(f->width, 0), f->precision, v);
}

static int print_value(char text[NUMBER_TEXT], const struct mr_tensor *t, uint64_t i,
                       const struct format *f)
{
    const void *p = t->values + i * t->width;

#define SIGNED_VALUE(tag, dtype, S, ...)                                                           \
    case dtype:                                                                                    \
        return print_signed(text, *(const S *)p, f);
#define UNSIGNED_VALUE(tag, dtype, S, ...)                                                         \
    case dtype:                                                                                    \
        return print_unsigned(text, *(const S *)p, f);
#define FLOAT_VALUE(tag, dtype, S, W, N, LD, ST, ...)                                              \
    case dtype: return print_float(text, (double)LD(N, *(const S *)p), f);
    switch (t->dtype) {
        MR_EACH_SIGNED(SIGNED_VALUE, )
        MR_EACH_UNSIGNED(UNSIGNED_VALUE, )
        MR_EACH_FLOAT(FLOAT_VALUE, )
    case MR_BOOL:
        return snprintf(text, NUMBER_TEXT, "%s", *(const uint8_t *)p != 0 ? "true" : "false");
    default: return -1; /* infer has refused it */
    }
}

/* As "%5.3s" does, but for a zero byte. Without a width they stay as they are. */
static int pad_string(struct mr_string s, const struct format *f, struct mr_result *out, uint64_t i,
                      mr_error *err)
{
    size_t size = f->width > 0 && f->precision >= 0 ? MR_MIN(s.size, (size_t)f->precision) : s.size;
    size_t width = f->width > 0 ? MR_MAX(size, (size_t)f->width) : size;
    unsigned char *to = mr_output_bytes(out->column, width, err);

    if (to == NULL) {
        return MR_EEXHAUSTED;
    }
    if (width > size) {
        memset(to, ' ', width);
    }
    if (size > 0) {
        memcpy(to + (f->flag == '-' ? 0 : width - size), s.data, size);
    }
    mr_result_strings(out)[i] = (struct mr_string){to, width};
    return MR_OK;
}

static int print_values(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct format f = format_of(row->attrs);

    for (uint64_t i = 0; i < out->count; i++) {
        char text[NUMBER_TEXT];

        if (row->in[0].dtype == MR_STRING) {
            MR_TRY(pad_string(mr_tensor_strings(&row->in[0])[i], &f, out, i, err));
            continue;
        }
        int n = print_value(text, &row->in[0], i, &f);
        MR_TRY(n < 0 ? mr_error_set(err, MR_EINTERNAL, "dtype %u", row->in[0].dtype)
                     : put_string(out, i, text, (size_t)n, err));
    }
    return MR_OK;
}

static int fill_as_string(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
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

MR_ROWS_KERNEL(as_string, 1, 1, MR_SET_ANY, .result = MR_STRING, .infer = infer_as_string,
               .fill = fill_as_string,
               .attr_table = {{"fill", MR_ATTR_BYTES, true},
                              {"precision", MR_ATTR_INT, true},
                              {"scientific", MR_ATTR_BOOL, true},
                              {"shortest", MR_ATTR_BOOL, true},
                              {"width", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(string_join, 1, -1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_join, .fill = fill_join,
               .attr_table = {{"separator", MR_ATTR_BYTES, true}});
