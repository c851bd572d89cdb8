/* resize: images of another size, by weights along both axes (resize_weights.h): lines first, into
 * one of floats, then its pixels. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/resize_weights.h"
#include "ops/rows.h"
#include "ops/scratch.h"

static int method_of(struct mr_attrs attrs)
{
    const struct mr_attr *a = mr_attr_get(attrs, "method");

    return a == NULL ? MR_RESIZE_BILINEAR : mr_resize_method(a->bytes, a->size);
}

static int infer_resize(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *size = mr_attr_get(it->attrs, "size");
    int8_t rank = it->in[0].rank;

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_NUMBERS, err));
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    if (rank != 3 && rank != 4) {
        return mr_error_set(err, MR_EINVAL,
                            "images of rank %d, they must be [height, width, channels] or a batch "
                            "of these",
                            rank);
    }
    if ((size == NULL) == (it->nin == 1) || (size != NULL && size->count != 2)) {
        return mr_error_set(err, MR_EINVAL, "a size is a vector of 2: height, width");
    }
    if (method_of(it->attrs) < 0) {
        return mr_error_set(err, MR_EINVAL, "there is no such method of resizing");
    }
    if (it->nin == 2) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 1, err));
    }
    for (int i = 0; i < 2; i++) {
        int64_t n = size != NULL ? size->ints[i] : MR_DIM_UNKNOWN;

        if (size != NULL && n <= 0) {
            return mr_error_set(err, MR_EINVAL, "a size of %lld pixels", (long long)n);
        }
        it->out->dims[rank - 3 + i] = n;
    }
    it->out->dtype = method_of(it->attrs) == MR_RESIZE_NEAREST ? it->in[0].dtype : MR_FLOAT32;
    return MR_OK;
}

static int dims_resize(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int first = row->in[0].rank - 3;

    if (row->nin == 2 && row->in[1].count != 2) {
        return mr_error_set(err, MR_EINVAL, "a size of %llu values, it must have 2: height, width",
                            (unsigned long long)row->in[1].count);
    }
    for (int i = 0; row->nin == 2 && i < 2; i++) {
        spec->dims[first + i] = mr_tensor_index(&row->in[1], (uint64_t)i);
        if (spec->dims[first + i] <= 0) {
            return mr_error_set(err, MR_EINVAL, "a size of %lld pixels",
                                (long long)spec->dims[first + i]);
        }
    }
    return MR_OK;
}

/* line[i] += weights[0] * x[i] + weights[1] * y[i]: two lines at a time, so that @line is read and
 * written half as often. @line begins with what set_lines() makes of the first two. */
#define ADD_LINES(tag, dtype, S, W, N, LD, ST, ...)                                                \
    MR_HOT_##tag static void set_lines_##tag(const void *first, const void *second, size_t n,      \
                                             const float *weights, float *restrict line)           \
    {                                                                                              \
        const S *x = first;                                                                        \
        const S *y = second;                                                                       \
        float v = weights[0];                                                                      \
        float w = weights[1];                                                                      \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            line[i] = v * (float)LD(N, x[i]) + w * (float)LD(N, y[i]);                             \
        }                                                                                          \
    }                                                                                              \
    MR_HOT_##tag static void add_lines_##tag(const void *first, const void *second, size_t n,      \
                                             const float *weights, float *restrict line)           \
    {                                                                                              \
        const S *x = first;                                                                        \
        const S *y = second;                                                                       \
        float v = weights[0];                                                                      \
        float w = weights[1];                                                                      \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            line[i] = line[i] + v * (float)LD(N, x[i]) + w * (float)LD(N, y[i]);                   \
        }                                                                                          \
    }                                                                                              \
    MR_HOT_##tag static void add_line_##tag(const void *in, size_t n, float weight,                \
                                            float *restrict line)                                  \
    {                                                                                              \
        const S *x = in;                                                                           \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            line[i] += weight * (float)LD(N, x[i]);                                                \
        }                                                                                          \
    }
MR_EACH_NUMBER(ADD_LINES, )

typedef void (*add_line_fn)(const void *in, size_t n, float weight, float *line);
typedef void (*add_lines_fn)(const void *first, const void *second, size_t n, const float *weights,
                             float *line);
static const add_line_fn add_line[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, add_line, )};
static const add_lines_fn set_lines[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, set_lines, )};
static const add_lines_fn add_lines[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, add_lines, )};

/* Pixels of the line from pixels of @line. Where @channels is a constant, the compiler unrolls. */
static inline __attribute__((always_inline)) void mix_pixels(const float *line,
                                                             const struct mr_resize_axis *x,
                                                             int64_t width, size_t channels,
                                                             float *out)
{
    for (int64_t i = 0; i < width; i++, out += channels) {
        const float *w = x->weights + (size_t)i * x->span;
        const float *p = line + x->starts[i] * channels;

        for (size_t c = 0; c < channels; c++) {
            out[c] = 0;
        }
        for (uint32_t k = 0; k < x->counts[i]; k++, p += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] += w[k] * p[c];
            }
        }
    }
}

/* Four values at once, of which one too many is read and written: @line has room for it, and what
 * is written too much is written again, but for the last pixel. */
typedef float four __attribute__((vector_size(16)));

static inline __attribute__((always_inline)) four load_four(const float *p)
{
    four v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) four mix_four(const float *p, const float *w,
                                                           uint32_t n)
{
    four sum = {0};

    if (n == 2) { /* bilinear, nearly always */
        return w[0] * load_four(p) + w[1] * load_four(p + 3);
    }
    for (uint32_t k = 0; k < n; k++, p += 3) {
        sum += w[k] * load_four(p);
    }
    return sum;
}

/* What @x points to is read once: the compiler cannot know that @out is not a part of it. */
MR_HOT static void mix_three(const float *line, const struct mr_resize_axis *x, int64_t width,
                             float *restrict out)
{
    const uint32_t *restrict starts = x->starts;
    const uint32_t *restrict counts = x->counts;
    const float *restrict w = x->weights;
    size_t span = x->span;
    four last;

    for (int64_t i = 0; i + 1 < width; i++, out += 3, w += span) {
        four sum = mix_four(line + (size_t)starts[i] * 3, w, counts[i]);

        memcpy(out, &sum, sizeof sum);
    }
    last = mix_four(line + (size_t)starts[width - 1] * 3, w, counts[width - 1]);
    memcpy(out, &last, 3 * sizeof *out);
}

static void add_pixels(const float *line, const struct mr_resize_axis *x, int64_t width,
                       size_t channels, float *out)
{
    switch (channels) {
    case 1: mix_pixels(line, x, width, 1, out); break;
    case 3: mix_three(line, x, width, out); break;
    case 4: mix_pixels(line, x, width, 4, out); break;
    default: mix_pixels(line, x, width, channels, out); break;
    }
}

struct sizes {
    int64_t height;
    int64_t width;
    int64_t new_height;
    int64_t new_width;
    size_t channels;
};

static void one_image(const struct mr_resize_axis *y, const struct mr_resize_axis *x,
                      const struct sizes *s, const struct mr_tensor *in,
                      const unsigned char *pixels, float *line, float *out)
{
    size_t n = (size_t)s->width * s->channels;

    for (int64_t i = 0; i < s->new_height; i++) {
        const unsigned char *at = pixels + (size_t)y->starts[i] * n * in->width;
        const float *w = y->weights + (size_t)i * y->span;
        uint32_t k = 0;

        if (y->counts[i] > 1) {
            set_lines[in->dtype](at, at + n * in->width, n, w, line);
            k += 2;
            at += 2 * n * in->width;
        } else {
            memset(line, 0, n * sizeof *line);
        }
        for (; k + 1 < y->counts[i]; k += 2, at += 2 * n * in->width) {
            add_lines[in->dtype](at, at + n * in->width, n, w + k, line);
        }
        if (k < y->counts[i]) {
            add_line[in->dtype](at, n, w[k], line);
        }
        add_pixels(line, x, s->new_width, s->channels, out);
        out += (size_t)s->new_width * s->channels;
    }
}

static void one_nearest(const struct mr_resize_axis *y, const struct mr_resize_axis *x,
                        const struct sizes *s, const unsigned char *pixels, size_t width,
                        unsigned char *out)
{
    size_t bytes = s->channels * width;

    for (int64_t i = 0; i < s->new_height; i++) {
        const unsigned char *line = pixels + (size_t)y->starts[i] * (size_t)s->width * bytes;

        for (int64_t j = 0; j < s->new_width; j++, out += bytes) {
            memcpy(out, line + x->starts[j] * bytes, bytes);
        }
    }
}

static int all_images(const struct mr_row *row, const struct sizes *s,
                      const struct mr_resize_axis *y, const struct mr_resize_axis *x,
                      struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *in = &row->in[0];
    size_t from = (size_t)(s->height * s->width) * s->channels * in->width;
    size_t to = (size_t)(s->new_height * s->new_width) * s->channels * out->width;
    struct mr_scratch held;
    void *room = NULL;

    MR_TRY(
        mr_scratch_take(&held, ((size_t)s->width * s->channels + 1) * sizeof(float), &room, err));
    float *line = room;
    line[(size_t)s->width * s->channels] = 0; /* read, and of no account (mix_three()) */
    for (int64_t i = 0; i < (in->rank == 4 ? in->dims[0] : 1); i++) {
        const unsigned char *pixels = in->values + (size_t)i * from;
        unsigned char *at = out->values + (size_t)i * to;

        if (method_of(row->attrs) == MR_RESIZE_NEAREST) {
            one_nearest(y, x, s, pixels, in->width, at);
        } else {
            one_image(y, x, s, in, pixels, line, (float *)(void *)at);
        }
    }
    mr_scratch_free(&held);
    return MR_OK;
}

static int fill_resize(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const int64_t *from = row->in[0].dims + row->in[0].rank - 3;
    const int64_t *to = out->dims + out->rank - 3;
    struct sizes s = {from[0], from[1], to[0], to[1], (size_t)from[2]};
    int method = method_of(row->attrs);
    bool antialias = mr_attr_bool(row->attrs, "antialias", false);
    struct mr_resize_axis y = {0};
    struct mr_resize_axis x = {0};

    if (out->count == 0) {
        return MR_OK;
    }
    if (s.height == 0 || s.width == 0) {
        return mr_error_set(err, MR_EINVAL, "an image of %lld x %lld pixels", (long long)s.height,
                            (long long)s.width);
    }
    int rc = mr_resize_axis_new(method, antialias, s.height, s.new_height, &y, err);
    rc = rc == MR_OK ? mr_resize_axis_new(method, antialias, s.width, s.new_width, &x, err) : rc;
    rc = rc == MR_OK ? all_images(row, &s, &y, &x, out, err) : rc;
    mr_resize_axis_free(&y);
    mr_resize_axis_free(&x);
    return rc;
}

MR_ROWS_KERNEL(resize, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_resize,
               .dims = dims_resize, .fill = fill_resize,
               .attr_table = {{"size", MR_ATTR_SHAPE, true},
                              {"method", MR_ATTR_BYTES, true},
                              {"antialias", MR_ATTR_BOOL, true}});
