/* string_format: a template with what tensors hold, for people to read. */
#include "base/buf.h"
#include "ops/attr.h"
#include "ops/half.h"
#include "ops/locale.h"
#include "ops/loops.h"
#include "ops/number.h"
#include "ops/rows.h"

#define NUMBER_TEXT 64

static struct mr_string bytes_of(struct mr_attrs attrs, const char *name)
{
    const struct mr_attr *a = mr_attr_get(attrs, name);

    return (struct mr_string){a->bytes, a->size};
}

/* Up to the next placeholder, which goes with it; false: that is all. */
static bool next_piece(struct mr_string *rest, struct mr_string placeholder,
                       struct mr_string *piece)
{
    const unsigned char *found =
        rest->size > 0 ? memmem(rest->data, rest->size, placeholder.data, placeholder.size) : NULL;

    *piece = *rest;
    if (found == NULL) {
        return false;
    }
    piece->size = (size_t)(found - rest->data);
    rest->data = found + placeholder.size;
    rest->size -= piece->size + placeholder.size;
    return true;
}

static int infer_format(struct mr_kernel_infer *it, mr_error *err)
{
    struct mr_string rest = bytes_of(it->attrs, "template");
    struct mr_string placeholder = bytes_of(it->attrs, "placeholder");
    struct mr_string piece;
    size_t n = 0;

    if (placeholder.size == 0) {
        return mr_error_set(err, MR_EINVAL, "the placeholder is empty");
    }
    while (next_piece(&rest, placeholder, &piece)) {
        n++;
    }
    if (n != it->nin) {
        return mr_error_set(err, MR_EINVAL, "%zu placeholders for %zu tensors", n, it->nin);
    }
    mr_shape_set(it->out, 0, NULL);
    return MR_OK;
}

/* As few digits as tell the number from its neighbours, or nearly. */
static int print_float(char text[NUMBER_TEXT], float v)
{
    int n = snprintf(text, NUMBER_TEXT, "%.6g", (double)v);
    struct mr_string s = {(const unsigned char *)text, (size_t)n};
    float back;

    return mr_number_f32(s, &back) && back == v ? n
                                                : snprintf(text, NUMBER_TEXT, "%.9g", (double)v);
}

static int print_double(char text[NUMBER_TEXT], double v)
{
    int n = snprintf(text, NUMBER_TEXT, "%.15g", v);
    struct mr_string s = {(const unsigned char *)text, (size_t)n};
    double back;

    return mr_number_f64(s, &back) && back == v ? n : snprintf(text, NUMBER_TEXT, "%.17g", v);
}

/* In quotes, as a literal of C; UTF-8 stays as it is. */
static void put_string(struct mr_buf *to, struct mr_string s)
{
    mr_buf_puts(to, "\"");
    for (size_t i = 0; i < s.size; i++) {
        static const char special[] = "\n\r\t\"'\\";
        static const char letters[] = "nrt\"'\\";
        const char *at = s.data[i] != 0 ? strchr(special, s.data[i]) : NULL;

        if (at != NULL) {
            mr_buf_printf(to, "\\%c", letters[at - special]);
        } else if (s.data[i] < ' ' || s.data[i] == 0x7f) {
            mr_buf_printf(to, "\\%03o", (unsigned)s.data[i]);
        } else {
            mr_buf_append(to, &s.data[i], 1);
        }
    }
    mr_buf_puts(to, "\"");
}

static void put_value(struct mr_buf *to, const struct mr_tensor *t, uint64_t i)
{
    const void *p = t->values + i * t->width;
    char text[NUMBER_TEXT];
    int n = 0;

#define SIGNED_VALUE(tag, dtype, S, ...)                                                           \
    case dtype:                                                                                    \
        n = snprintf(text, sizeof text, "%lld", (long long)*(const S *)p);                         \
        break;
#define UNSIGNED_VALUE(tag, dtype, S, ...)                                                         \
    case dtype: n = snprintf(text, sizeof text, "%llu", (unsigned long long)*(const S *)p); break;
    switch (t->dtype) {
        MR_EACH_SIGNED(SIGNED_VALUE, )
        MR_EACH_UNSIGNED(UNSIGNED_VALUE, )
        MR_EACH_BOOL(UNSIGNED_VALUE, )
    case MR_FLOAT16: n = print_float(text, mr_half_load(*(const mr_half *)p)); break;
    case MR_BFLOAT16: n = print_float(text, mr_bfloat_load(*(const mr_bfloat *)p)); break;
    case MR_FLOAT32: n = print_float(text, *(const float *)p); break;
    case MR_FLOAT64: n = print_double(text, *(const double *)p); break;
    default: put_string(to, mr_tensor_strings(t)[i]); return;
    }
    mr_buf_append(to, text, (size_t)n);
}

/* Between two parts along @axis: a blank, or ends of lines. */
static void put_gap(struct mr_buf *to, const struct mr_tensor *t, int axis)
{
    if (axis == t->rank - 1) {
        mr_buf_puts(to, " ");
        return;
    }
    for (int d = axis; d < t->rank - 1; d++) {
        mr_buf_puts(to, "\n");
    }
    for (int d = 0; d <= axis; d++) {
        mr_buf_puts(to, " ");
    }
}

/* The values from @first on along @axis and those behind it; @ends of them at both ends. As deep as
 * a tensor has axes. */
static void put_axis(struct mr_buf *to, const struct mr_tensor *t, int axis, uint64_t first,
                     uint64_t each, uint64_t ends) /* NOLINT(misc-no-recursion) */
{
    if (axis == t->rank) {
        put_value(to, t, first);
        return;
    }
    uint64_t n = (uint64_t)t->dims[axis];
    uint64_t begin = MR_MIN(ends, n);
    uint64_t end = n - begin > ends ? n - ends : begin;

    each = n > 0 ? each / n : 0;
    mr_buf_puts(to, "[");
    for (uint64_t i = 0; i < n && !to->failed; i++) {
        if (i > 0 || begin == 0) {
            put_gap(to, t, axis);
        }
        if (i == begin && end > begin) {
            mr_buf_puts(to, "...");
            i = end - 1;
            continue;
        }
        put_axis(to, t, axis + 1, first + i * each, each, ends);
    }
    mr_buf_puts(to, "]");
}

static void put_tensor(struct mr_buf *to, const struct mr_tensor *t, int64_t summarize)
{
    uint64_t ends = summarize < 0 ? t->count : MR_MIN((uint64_t)summarize, t->count);

    if (t->rank == 0 && ends == 0) {
        mr_buf_puts(to, "...");
        return;
    }
    put_axis(to, t, 0, 0, t->count, ends);
}

static int format(const struct mr_row *row, struct mr_buf *to, struct mr_result *out, mr_error *err)
{
    struct mr_string rest = bytes_of(row->attrs, "template");
    struct mr_string placeholder = bytes_of(row->attrs, "placeholder");
    int64_t summarize = mr_attr_int(row->attrs, "summarize", 3);
    struct mr_string piece;

    for (size_t i = 0; next_piece(&rest, placeholder, &piece) && i < row->nin; i++) {
        mr_buf_append(to, piece.data, piece.size);
        put_tensor(to, &row->in[i], summarize);
    }
    mr_buf_append(to, piece.data, piece.size);
    return to->failed ? mr_buf_error(to, err)
                      : mr_result_put_bytes(out, to->data, to->len, mr_result_strings(out), err);
}

static int fill_format(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct mr_buf to = {.memory = mr_memory_current()};
    locale_t c = mr_c_locale_new();

    if (c == (locale_t)0) {
        return mr_error_nomem(err);
    }
    locale_t old = uselocale(c);
    int rc = format(row, &to, out, err);
    (void)uselocale(old);
    freelocale(c);
    mr_buf_free(&to);
    return rc;
}

MR_ROWS_KERNEL(string_format, 1, -1, 0, .result = MR_STRING, .infer = infer_format,
               .flags = MR_KERNEL_MAY_FAIL, .fill = fill_format,
               .attr_table = {{"placeholder", MR_ATTR_BYTES, false},
                              {"summarize", MR_ATTR_INT, true},
                              {"template", MR_ATTR_BYTES, false}});
