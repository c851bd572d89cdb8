#include "kernel_support.h"

#include "base/rng.h"
#include "image/image.h"
#include "ops/attr.h"
#include "ops/half.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

mr_dtype test_dtype(const char *name, size_t len)
{
    for (int d = 1; d < MR_DTYPE_COUNT; d++) {
        const char *known = mr_dtype_name((mr_dtype)d);

        if (strlen(known) == len && memcmp(known, name, len) == 0) {
            return (mr_dtype)d;
        }
    }
    fail_msg("no dtype: %s", name);
    return MR_DTYPE_NONE;
}

static enum test_content content_of(const char *name, size_t len)
{
    static const char *const names[] = {
        [CONTENT_WORD] = "",       [CONTENT_EXAMPLE] = "example", [CONTENT_DECIMAL] = "decimal",
        [CONTENT_IMAGE] = "image", [CONTENT_PATH] = "path",       [CONTENT_JSON] = "json",
        [CONTENT_WAV] = "wav",     [CONTENT_TENSOR] = "tensor"};

    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            return (enum test_content)i;
        }
    }
    return CONTENT_WORD;
}

static const char *parse_input(const char *p, struct test_input *ret)
{
    size_t len = strcspn(p, "[");

    memset(ret, 0, sizeof *ret);
    ret->content = content_of(p, len);
    ret->spec.dtype = (uint8_t)(ret->content != CONTENT_WORD ? MR_STRING : test_dtype(p, len));
    ret->low = (MR_SET(ret->spec.dtype) & (MR_SET_SIGNED | MR_SET_FLOATS)) != 0 ? -5 : 0;
    ret->high = ret->spec.dtype == MR_BOOL ? 1 : 5;
    p += len + 1;
    while (*p != ']') {
        int d = (int)ret->spec.rank++;

        if (isalpha((unsigned char)*p)) {
            ret->letters[d] = *p++;
            ret->spec.dims[d] = MR_DIM_UNKNOWN;
            ret->varies = true;
        } else {
            char *end;
            ret->spec.dims[d] = strtoll(p, &end, 10);
            p = end;
        }
        p += *p == ',';
    }
    p++;
    if (*p == '{') {
        char *end;

        ret->low = strtod(p + 1, &end);
        ret->high = strtod(end + 1, &end);
        p = end + 1;
    }
    return p + strspn(p, " ");
}

size_t test_parse_inputs(const char *text, struct test_input *ret)
{
    size_t n = 0;

    while (*text != '\0') {
        assert_true(n < TEST_INPUTS_MAX);
        text = parse_input(text, &ret[n++]);
    }
    return n;
}

static const char *parse_list(const char *p, char close, struct mr_attr *a, int64_t *ints)
{
    p++;
    while (*p != close) {
        char *end;

        ints[a->count++] = strtoll(p, &end, 10);
        p = end + (*end == ',');
    }
    a->ints = ints;
    return p + 1;
}

/* ("a","b") */
static const char *parse_strings(const char *p, struct mr_attr *a, mr_block **block)
{
    char copies[8][32] = {{0}};
    const char *values[8];
    uint32_t n = 0;

    while (*p != ')') {
        size_t len = strcspn(p += 2, "\"");

        assert_true(n < 8 && len < 32);
        memcpy(copies[n], p, len);
        values[n] = copies[n];
        n++;
        p += len + 1;
    }
    a->kind = MR_ATTR_STRINGS;
    *block = test_strings(0, NULL, n, values);
    a->block = *block;
    return p + 1;
}

static const char *parse_attr(const char *p, struct test_attrs *ret)
{
    struct mr_attr *a = &ret->attrs[ret->n];
    size_t len = strcspn(p, "=");

    memcpy(ret->names[ret->n], p, len);
    a->name = ret->names[ret->n];
    p += len + 1;
    if (*p == '[') {
        a->kind = MR_ATTR_INTS;
        p = parse_list(p, ']', a, ret->ints[ret->n]);
    } else if (*p == '(') {
        p = parse_strings(p, a, &ret->blocks[ret->n]);
    } else if (*p == '<') {
        a->kind = MR_ATTR_SHAPE;
        p = parse_list(p, '>', a, ret->ints[ret->n]);
    } else if (*p == ':') {
        len = strcspn(++p, " ");
        a->kind = MR_ATTR_DTYPE;
        a->i = test_dtype(p, len);
        p += len;
    } else if (*p == '"') {
        len = strcspn(++p, "\"");
        a->kind = MR_ATTR_BYTES;
        memcpy(ret->bytes[ret->n], p, len);
        a->bytes = ret->bytes[ret->n];
        a->size = len;
        p += len + 1;
    } else if (strncmp(p, "true", 4) == 0) {
        a->kind = MR_ATTR_BOOL;
        a->i = 1;
        p += 4;
    } else if (strncmp(p, "false", 5) == 0) {
        a->kind = MR_ATTR_BOOL;
        p += 5;
    } else {
        char *end;

        a->kind = MR_ATTR_INT;
        a->i = strtoll(p, &end, 10);
        p = end;
    }
    ret->n++;
    return p + strspn(p, " ");
}

void test_parse_attrs(const char *text, struct test_attrs *ret)
{
    memset(ret, 0, sizeof *ret);
    while (*text != '\0') {
        assert_true(ret->n < TEST_ATTRS_MAX);
        text = parse_attr(text, ret);
    }
}

void test_free_attrs(struct test_attrs *attrs)
{
    for (size_t i = 0; i < attrs->n; i++) {
        mr_block_unref(attrs->blocks[i]);
        attrs->blocks[i] = NULL;
    }
}

/* ---- tf.Example ---- */

void test_put_varint(struct mr_buf *out, uint64_t v)
{
    do {
        unsigned char byte = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

        mr_buf_append(out, &byte, 1);
        v >>= 7;
    } while (v != 0);
}

void test_put_field(struct mr_buf *out, uint32_t number, const void *bytes, size_t size)
{
    test_put_varint(out, (uint64_t)number << 3 | 2);
    test_put_varint(out, size);
    mr_buf_append(out, bytes, size);
}

void test_put_feature(struct mr_buf *entries, const char *key, uint32_t kind, const void *list,
                      size_t size)
{
    struct mr_buf feature = MR_BUF_INIT;
    struct mr_buf entry = MR_BUF_INIT;

    test_put_field(&feature, kind, list, size);
    test_put_field(&entry, 1, key, strlen(key));
    test_put_field(&entry, 2, feature.data, feature.len);
    test_put_field(entries, 1, entry.data, entry.len);
    mr_buf_free(&feature);
    mr_buf_free(&entry);
}

void test_put_ints(struct mr_buf *entries, const char *key, const int64_t *values, size_t n,
                   bool packed)
{
    struct mr_buf list = MR_BUF_INIT;
    struct mr_buf numbers = MR_BUF_INIT;

    for (size_t i = 0; i < n; i++) {
        if (!packed) {
            test_put_varint(&list, 1 << 3 | 0);
        }
        test_put_varint(packed ? &numbers : &list, (uint64_t)values[i]);
    }
    if (packed) {
        test_put_field(&list, 1, numbers.data, numbers.len);
    }
    test_put_feature(entries, key, 3, list.data, list.len);
    mr_buf_free(&list);
    mr_buf_free(&numbers);
}

void test_put_floats(struct mr_buf *entries, const char *key, const float *values, size_t n,
                     bool packed)
{
    struct mr_buf list = MR_BUF_INIT;

    if (packed) {
        test_put_field(&list, 1, values, n * sizeof *values);
    }
    for (size_t i = 0; !packed && i < n; i++) {
        test_put_varint(&list, 1 << 3 | 5);
        mr_buf_append(&list, &values[i], sizeof values[i]);
    }
    test_put_feature(entries, key, 2, list.data, list.len);
    mr_buf_free(&list);
}

void test_put_string(struct mr_buf *entries, const char *key, const char *value)
{
    struct mr_buf list = MR_BUF_INIT;

    test_put_field(&list, 1, value, strlen(value));
    test_put_feature(entries, key, 1, list.data, list.len);
    mr_buf_free(&list);
}

void test_put_example(struct mr_buf *out, struct mr_buf *entries)
{
    test_put_field(out, 1, entries->data, entries->len);
    mr_buf_free(entries);
}

/* A record with features label (int64), pixels (4 floats), tag (bytes, not always) and steps (2n
 * ints). */
static void random_example(struct mr_buf *out, double seed)
{
    struct mr_buf entries = MR_BUF_INIT;
    float pixels[4] = {(float)seed, 1, -2.5f, 0};
    int64_t steps[10] = {1, -1, (int64_t)seed, 4, 5, 6, 7, 8, 9, 10};
    int64_t label = (int64_t)seed - 3;

    test_put_ints(&entries, "label", &label, 1, seed > 2);
    test_put_floats(&entries, "pixels", pixels, 4, seed > 1);
    if (seed > 0) {
        test_put_string(&entries, "tag", seed > 3 ? "long tag" : "t");
    }
    test_put_ints(&entries, "steps", steps, 2 * (size_t)seed, true);
    test_put_example(out, &entries);
}

/* ---- columns ---- */

static void store(mr_dtype dtype, void *at, double v)
{
    union {
        int64_t i;
        uint64_t u;
        float f;
        double d;
        mr_half h;
        mr_bfloat b;
        float c[2];
        double z[2];
    } u = {0};

    if (dtype == MR_COMPLEX64) {
        u.c[0] = (float)v;
        u.c[1] = (float)(-v / 2);
    } else if (dtype == MR_COMPLEX128) {
        u.z[0] = v;
        u.z[1] = -v / 2;
    } else if (dtype == MR_FLOAT16) {
        u.h = mr_half_store((float)v);
    } else if (dtype == MR_BFLOAT16) {
        u.b = mr_bfloat_store((float)v);
    } else if (dtype == MR_FLOAT32) {
        u.f = (float)v;
    } else if (dtype == MR_FLOAT64) {
        u.d = v;
    } else if (dtype == MR_UINT64) {
        u.u = (uint64_t)v;
    } else {
        u.i = (int64_t)v;
    }
    memcpy(at, &u, mr_dtype_size(dtype)); /* little-endian */
}

double test_value(const struct mr_owned_column *c, uint32_t rows, uint32_t row, uint64_t i)
{
    struct mr_kernel_in in = {c, false};
    struct mr_input input;
    double v = 0;

    assert_int_equal(mr_input_open(&in, rows, &input, NULL), MR_OK);
    struct mr_tensor t = mr_input_row(&input, row);
    assert_true(i < t.count);
    const void *at = t.values + i * t.width;
#define CASE(dtype, T)                                                                             \
    case dtype: {                                                                                  \
        T x;                                                                                       \
        memcpy(&x, at, sizeof x);                                                                  \
        v = (double)x;                                                                             \
        break;                                                                                     \
    }
    switch ((mr_dtype)c->c.dtype) {
        CASE(MR_BOOL, uint8_t)
        CASE(MR_INT8, int8_t)
        CASE(MR_INT16, int16_t)
        CASE(MR_INT32, int32_t)
        CASE(MR_INT64, int64_t)
        CASE(MR_UINT8, uint8_t)
        CASE(MR_UINT16, uint16_t)
        CASE(MR_UINT32, uint32_t)
        CASE(MR_UINT64, uint64_t)
        CASE(MR_FLOAT32, float)
        CASE(MR_FLOAT64, double)
    case MR_FLOAT16: v = (double)mr_half_load(*(const mr_half *)at); break;
    case MR_BFLOAT16: v = (double)mr_bfloat_load(*(const mr_bfloat *)at); break;
    case MR_DTYPE_NONE:
    case MR_STRING:
    case MR_COMPLEX64:
    case MR_COMPLEX128:
    case MR_DTYPE_COUNT: fail_msg("no number");
    }
#undef CASE
    mr_input_close(&input);
    return v;
}

/* A PNG whose size and colour depend on @value. */
static void random_image(struct mr_buf *out, double value)
{
    uint32_t n = (uint32_t)fabs(value);
    struct mr_image_info info = {.height = 1 + n, .width = 2 + n / 2, .channels = 3, .bits = 8};
    unsigned char pixels[64 * 3];
    unsigned char *made = NULL;
    size_t size = 0;

    assert_in_range(info.height * info.width, 1, 64);
    memset(pixels, (int)(40 * n), sizeof pixels);
    if (mr_png_encode(&info, pixels, -1, &made, &size, NULL) != MR_OK) {
        fail_msg("no PNG was made");
    }
    mr_buf_append(out, made, size);
    mr_free(made);
}

/* Up to some samples of 2 channels. */
static void random_wav(struct mr_buf *out, double value)
{
    static const unsigned char format[] = {16, 0, 0, 0,    1, 0, 2, 0, 0x40, 0x1f,
                                           0,  0, 0, 0x7d, 0, 0, 4, 0, 16,   0};
    unsigned char n = (unsigned char)fmin(fabs(value), 30);
    unsigned char size[] = {(unsigned char)(4 * n), 0, 0, 0};

    mr_buf_append(out, "RIFF\0\0\0\0WAVEfmt ", 16);
    mr_buf_append(out, format, sizeof format);
    mr_buf_puts(out, "data");
    mr_buf_append(out, size, sizeof size);
    for (int i = 0; i < 4 * n; i++) {
        mr_buf_append(out, &n, 1);
    }
}

/* A vector of int32: packed, the last value for those that lack, or one by one. */
static void random_tensor(struct mr_buf *out, double value)
{
    unsigned char n = (unsigned char)fmin(fabs(value), 30);
    unsigned char shape[] = {0x12, 2, 8, n};
    const unsigned char ints[] = {7, 0x80, 1};

    mr_buf_append(out, "\x08\x03", 2);
    test_put_field(out, 2, shape, sizeof shape);
    test_put_field(out, 7, ints, n % 2 == 0 ? sizeof ints : 0);
    for (int i = 0; i < n && n % 2 != 0; i++) {
        test_put_varint(out, 7 << 3);
        test_put_varint(out, (uint64_t)i);
    }
}

/* Lists of lengths that differ: w, and p of objects with lists t. */
static void random_record(struct mr_buf *out, int n)
{
    int items = abs(n) % 4;

    mr_buf_printf(out, "{\"n\": %d, \"o\": {\"s\": \"\\u00e9%d\"}, \"v\": [%d, 2.5], \"w\": [", n,
                  n, n);
    for (int i = 0; i < items; i++) {
        mr_buf_printf(out, i == 0 ? "%d" : ", %d", i);
    }
    mr_buf_puts(out, "], \"p\": [");
    for (int i = 0; i < items; i++) {
        mr_buf_printf(out, "%s{\"t\": [%s]}", i == 0 ? "" : ", ", i % 2 == 0 ? "\"\\n\"" : "");
    }
    mr_buf_puts(out, "]}");
}

static void add_content(struct mr_buf *out, enum test_content content, double value)
{
    switch (content) {
    case CONTENT_EXAMPLE: random_example(out, value); break;
    case CONTENT_DECIMAL: mr_buf_printf(out, " %d\t", (int)value); break;
    case CONTENT_IMAGE: random_image(out, value); break;
    case CONTENT_PATH: mr_buf_puts(out, fabs(value) > 2 ? "/etc/passwd" : "/etc/group"); break;
    case CONTENT_JSON: random_record(out, (int)value); break;
    case CONTENT_WAV: random_wav(out, value); break;
    case CONTENT_TENSOR: random_tensor(out, value); break;
    case CONTENT_WORD: break;
    }
}

/* A block of one column; @values are numbers, or for strings how long each is (filled with
 * letters). */
static mr_block *build(const struct mr_leaf_spec *spec, uint32_t rows, const int64_t *row_dims,
                       uint64_t count, const double *values, enum test_content content)
{
    struct mr_buf records = MR_BUF_INIT;
    struct mr_column c = {.kind = row_dims != NULL ? MR_COLUMN_VAR : MR_COLUMN_FIXED,
                          .dtype = spec->dtype,
                          .rank = (uint8_t)spec->rank};
    size_t width = mr_dtype_size((mr_dtype)spec->dtype);
    unsigned char *data = calloc(count * 8 + 1, 8);
    uint64_t *starts = calloc((size_t)rows + 1, sizeof *starts);
    uint64_t *offsets = calloc(count + 1, sizeof *offsets);
    mr_block *block = NULL;
    mr_error err;

    memcpy(c.dims, spec->dims, sizeof c.dims);
    for (uint64_t i = 0; i < count; i++) {
        if (content != CONTENT_WORD) {
            add_content(&records, content, values[i]);
            offsets[i + 1] = records.len;
        } else if (spec->dtype == MR_STRING) {
            offsets[i + 1] = offsets[i] + (uint64_t)fabs(values[i]);
            for (uint64_t k = offsets[i]; k < offsets[i + 1]; k++) {
                data[k] = (unsigned char)('a' + (i + k) % 3);
            }
        } else {
            store((mr_dtype)spec->dtype, data + i * width, values[i]);
        }
    }
    if (row_dims != NULL) {
        for (uint32_t r = 0; r < rows; r++) {
            uint64_t n = 1;

            for (int d = 0; d < spec->rank; d++) {
                n *= (uint64_t)row_dims[(int)r * spec->rank + d];
            }
            starts[r + 1] = starts[r] + n;
        }
        c.row_dims = row_dims;
        c.starts = starts;
        memset(c.dims, 0, sizeof c.dims);
    }
    c.offsets = spec->dtype == MR_STRING ? offsets : NULL;
    c.data = content != CONTENT_WORD ? records.data : data;
    if (mr_block_new(rows, &c, 1, &block, &err) < 0) {
        fail_msg("%s", err.message);
    }
    mr_buf_free(&records);
    free(data);
    free(starts);
    free(offsets);
    return block;
}

mr_block *test_block(mr_dtype dtype, int rank, const int64_t *dims, uint32_t rows,
                     const double *values)
{
    struct mr_leaf_spec spec = {.dtype = (uint8_t)dtype};
    uint64_t n;

    mr_shape_set(&spec, rank, dims);
    assert_true(mr_shape_count(rank, dims, &n));
    return build(&spec, rows, NULL, n * rows, values, CONTENT_WORD);
}

mr_block *test_strings(int rank, const int64_t *dims, uint32_t rows, const char *const *values)
{
    struct mr_column c = {.kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .rank = (uint8_t)rank};
    uint64_t offsets[64] = {0};
    char data[1024];
    mr_block *block = NULL;
    uint64_t n;

    assert_true(mr_shape_count(rank, dims, &n));
    n *= rows;
    for (int d = 0; d < rank; d++) {
        c.dims[d] = dims[d];
    }
    for (uint64_t i = 0; i < n; i++) {
        size_t len = strlen(values[i]);

        memcpy(data + offsets[i], values[i], len);
        offsets[i + 1] = offsets[i] + len;
    }
    c.offsets = offsets;
    c.data = data;
    assert_int_equal(mr_block_new(rows, &c, 1, &block, NULL), MR_OK);
    return block;
}

static double draw(struct mr_rng *rng, const struct test_input *in)
{
    bool whole = (MR_SET(in->spec.dtype) & MR_SET_FLOATS) == 0;
    uint64_t steps = (uint64_t)((in->high - in->low) * (whole ? 1 : 4)) + 1;

    return in->low + (double)(mr_rng_next(rng) % steps) / (whole ? 1 : 4);
}

void test_random_blocks(const struct test_input *inputs, size_t n, uint32_t rows, uint64_t seed,
                        mr_block **ret)
{
    struct mr_rng rng;
    int64_t letters[8][26];

    mr_rng_seed(&rng, seed);
    for (uint32_t r = 0; r < 8; r++) {
        for (int k = 0; k < 26; k++) {
            letters[r][k] = (int64_t)(mr_rng_next(&rng) % 4);
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct test_input *in = &inputs[i];
        int64_t dims[8 * MR_RANK_MAX] = {0};
        double values[4096];
        uint64_t count = 0;

        assert_true(rows <= 8);
        for (uint32_t r = 0; r < rows; r++) {
            uint64_t row = 1;

            for (int d = 0; d < in->spec.rank; d++) {
                int64_t dim =
                    in->letters[d] != 0 ? letters[r][in->letters[d] - 'a'] : in->spec.dims[d];

                dims[(int)r * in->spec.rank + d] = dim;
                row *= (uint64_t)dim;
            }
            count += row;
        }
        assert_true(count <= 4096);
        for (uint64_t k = 0; k < count; k++) {
            values[k] = draw(&rng, in);
        }
        ret[i] = build(&in->spec, rows, in->varies ? dims : NULL, count, values, in->content);
    }
}

/* ---- calling ---- */

int test_prepare(struct test_call *t, const char *kernel, const char *inputs, const char *attrs,
                 mr_error *err)
{
    struct test_input parsed[TEST_INPUTS_MAX];

    memset(t, 0, sizeof *t);
    t->kernel = mr_kernel_find(kernel);
    if (t->kernel == NULL) {
        fail_msg("there is no kernel %s", kernel);
    }
    t->random = (struct mr_kernel_random){.seed = 7, .epoch = 2, .split = 3};
    t->nin = test_parse_inputs(inputs, parsed);
    for (size_t i = 0; i < t->nin; i++) {
        t->in[i] = parsed[i].spec;
    }
    test_parse_attrs(attrs, &t->attrs);
    t->call = (struct mr_kernel_call){
        .kernel = t->kernel, .attrs = t->attrs.attrs, .nattrs = t->attrs.n, .out_specs = t->out};
    return mr_kernel_infer(t->kernel, t->attrs.attrs, t->attrs.n, t->in, t->nin, NULL, 0, t->out,
                           TEST_OUTPUTS_MAX, &t->nout, err);
}

int test_eval(struct test_call *t, uint32_t rows, mr_block *const *blocks, uint32_t broadcast,
              struct mr_owned_column *out, uint32_t *bad_row, mr_error *err)
{
    struct mr_owned_column columns[TEST_INPUTS_MAX];
    struct mr_kernel_in in[TEST_INPUTS_MAX];

    for (size_t i = 0; i < t->nin; i++) {
        columns[i] = mr_block_owned_column(blocks[i], 0);
        in[i] = (struct mr_kernel_in){&columns[i], (broadcast & (1u << i)) != 0};
    }
    t->call.random = &t->random;
    *bad_row = 0;
    return t->kernel->eval(&t->call, rows, in, t->nin, out, t->nout, bad_row, err);
}

void test_release(struct test_call *t, struct mr_owned_column *out)
{
    for (size_t i = 0; i < t->nout; i++) {
        mr_column_release(&out[i]);
    }
}

static bool is_nan(mr_dtype dtype, const void *at)
{
    union {
        mr_half h;
        mr_bfloat b;
        float f;
        double d;
    } u = {.d = 0};

    if ((MR_SET(dtype) & MR_SET_FLOATS) == 0) {
        return false;
    }
    memcpy(&u, at, mr_dtype_size(dtype));
    return dtype == MR_FLOAT16    ? isnan(mr_half_load(u.h))
           : dtype == MR_BFLOAT16 ? isnan(mr_bfloat_load(u.b))
           : dtype == MR_FLOAT32  ? isnan(u.f)
                                  : isnan(u.d);
}

static bool numbers_equal(mr_dtype dtype, const unsigned char *x, const unsigned char *y)
{
    size_t width = mr_dtype_size(dtype);

    if ((MR_SET(dtype) & MR_SET_COMPLEX) != 0) {
        mr_dtype part = dtype == MR_COMPLEX64 ? MR_FLOAT32 : MR_FLOAT64;

        return numbers_equal(part, x, y) && numbers_equal(part, x + width / 2, y + width / 2);
    }
    return memcmp(x, y, width) == 0 || (is_nan(dtype, x) && is_nan(dtype, y));
}

static bool values_equal(const struct mr_tensor *a, const struct mr_tensor *b, uint64_t i)
{
    const unsigned char *x = a->values + i * a->width;
    const unsigned char *y = b->values + i * b->width;

    if (a->dtype == MR_STRING) {
        const struct mr_string *s = (const struct mr_string *)(const void *)x;
        const struct mr_string *u = (const struct mr_string *)(const void *)y;

        return s->size == u->size && (s->size == 0 || memcmp(s->data, u->data, s->size) == 0);
    }
    return numbers_equal((mr_dtype)a->dtype, x, y);
}

bool test_rows_equal(const struct mr_owned_column *a, uint32_t rows_a, uint32_t ra,
                     const struct mr_owned_column *b, uint32_t rows_b, uint32_t rb)
{
    struct mr_kernel_in ia = {a, false};
    struct mr_kernel_in ib = {b, false};
    struct mr_input x;
    struct mr_input y;

    assert_int_equal(mr_input_open(&ia, rows_a, &x, NULL), MR_OK);
    assert_int_equal(mr_input_open(&ib, rows_b, &y, NULL), MR_OK);
    struct mr_tensor s = mr_input_row(&x, ra);
    struct mr_tensor t = mr_input_row(&y, rb);
    bool same = s.dtype == t.dtype && s.rank == t.rank && s.count == t.count &&
                (s.rank == 0 || memcmp(s.dims, t.dims, (size_t)s.rank * sizeof *s.dims) == 0);
    for (uint64_t i = 0; same && i < s.count; i++) {
        same = values_equal(&s, &t, i);
    }
    mr_input_close(&x);
    mr_input_close(&y);
    return same;
}
