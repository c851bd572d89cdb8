/* crop_and_resize: boxes of images, in parts of their sides, made one size. Corners lie on the
 * centres of pixels. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"

static int infer_crop(struct mr_kernel_infer *it, mr_error *err)
{
    static const int ranks[] = {4, 2, 1, 1};
    const struct mr_attr *method = mr_attr_get(it->attrs, "method");
    int64_t dims[4] = {MR_DIM_UNKNOWN, MR_DIM_UNKNOWN, MR_DIM_UNKNOWN, MR_DIM_UNKNOWN};

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_NUMBERS, err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET(MR_FLOAT32), err));
    MR_TRY(mr_infer_dtype(it->in, 2, MR_SET_INDEX, err));
    MR_TRY(mr_infer_dtype(it->in, 3, MR_SET_INDEX, err));
    for (size_t i = 0; i < 4; i++) {
        MR_TRY(mr_infer_rank(it->in, i, ranks[i], err));
    }
    if (method != NULL && !(method->size == 8 && memcmp(method->bytes, "bilinear", 8) == 0) &&
        !(method->size == 7 && memcmp(method->bytes, "nearest", 7) == 0)) {
        return mr_error_set(err, MR_EINVAL, "method is \"bilinear\" or \"nearest\"");
    }
    dims[0] = it->in[1].rank == 2 ? it->in[1].dims[0] : MR_DIM_UNKNOWN;
    dims[3] = it->in[0].rank == 4 ? it->in[0].dims[3] : MR_DIM_UNKNOWN;
    mr_shape_set(it->out, 4, dims);
    it->out->dtype = MR_FLOAT32;
    return MR_OK;
}

static int check_boxes(const struct mr_row *row, mr_error *err)
{
    const struct mr_tensor *boxes = &row->in[1];
    const float *values = (const float *)(const void *)boxes->values;

    if (boxes->dims[1] != 4 || row->in[2].dims[0] != boxes->dims[0]) {
        return mr_error_set(err, MR_EINVAL, "boxes of shape [%lld,%lld] with %lld indices",
                            (long long)boxes->dims[0], (long long)boxes->dims[1],
                            (long long)row->in[2].dims[0]);
    }
    for (int64_t i = 0; i < boxes->dims[0]; i++) {
        int64_t image = mr_tensor_index(&row->in[2], (uint64_t)i);

        if (image < 0 || image >= row->in[0].dims[0]) {
            return mr_error_set(err, MR_EINVAL, "box %lld is of image %lld of %lld", (long long)i,
                                (long long)image, (long long)row->in[0].dims[0]);
        }
    }
    for (uint64_t i = 0; i < boxes->count; i++) {
        if (!__builtin_isfinite(values[i])) {
            return mr_error_set(err, MR_EINVAL, "box %llu has a value that is not finite",
                                (unsigned long long)(i / 4));
        }
    }
    return MR_OK;
}

static int dims_crop(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    const struct mr_tensor *image = &row->in[0];

    MR_TRY(check_boxes(row, err));
    if (image->dims[1] < 1 || image->dims[2] < 1) {
        return mr_error_set(err, MR_EINVAL, "images of %lld x %lld pixels",
                            (long long)image->dims[1], (long long)image->dims[2]);
    }
    if (row->in[3].count != 2) {
        return mr_error_set(err, MR_EINVAL, "a size of %llu values, it must have 2: height, width",
                            (unsigned long long)row->in[3].count);
    }
    spec->dims[0] = row->in[1].dims[0];
    for (uint64_t i = 0; i < 2; i++) {
        spec->dims[1 + i] = mr_tensor_index(&row->in[3], i);
        if (spec->dims[1 + i] < 1) {
            return mr_error_set(err, MR_EINVAL, "a size of %lld pixels",
                                (long long)spec->dims[1 + i]);
        }
    }
    return MR_OK;
}

/* Where pixel @i of @n comes from on a side of @whole pixels. */
static float place(float from, float to, int64_t i, int64_t n, int64_t whole)
{
    float last = (float)(whole - 1);

    return n > 1 ? from * last + (float)i * ((to - from) * last / (float)(n - 1))
                 : 0.5f * (from + to) * last;
}

/* The two pixels beside a place, and how far it is on from the first. */
struct between {
    int64_t low;
    int64_t high;
    float part;
};

/* Of places within. NEAREST: half goes up. Floats of many millions are whole numbers apart. */
static struct between between(float at, bool nearest, int64_t whole)
{
    int64_t low = MR_MIN((int64_t)(nearest ? at + 0.5f : at), whole - 1);

    if (nearest) {
        return (struct between){low, low, 0};
    }
    return (struct between){low, MR_MIN(low + (at > (float)low), whole - 1), at - (float)low};
}

#define MIX_PIXEL(tag, dtype, S, W, N, LD, ST, ...)                                                \
    static void mix_pixel_##tag(const void *image, const int64_t *dims, struct between y,          \
                                struct between x, float *out)                                      \
    {                                                                                              \
        const S *p = image;                                                                        \
        const S *top = p + y.low * dims[2] * dims[3];                                              \
        const S *bottom = p + y.high * dims[2] * dims[3];                                          \
                                                                                                   \
        for (int64_t c = 0; c < dims[3]; c++) {                                                    \
            float a = (float)LD(N, top[x.low * dims[3] + c]);                                      \
            float b = (float)LD(N, top[x.high * dims[3] + c]);                                     \
            float d = (float)LD(N, bottom[x.low * dims[3] + c]);                                   \
            float e = (float)LD(N, bottom[x.high * dims[3] + c]);                                  \
            float upper = a + (b - a) * x.part;                                                    \
            float lower = d + (e - d) * x.part;                                                    \
                                                                                                   \
            out[c] = upper + (lower - upper) * y.part;                                             \
        }                                                                                          \
    }
MR_EACH_NUMBER(MIX_PIXEL, )

typedef void (*mix_pixel_fn)(const void *image, const int64_t *dims, struct between y,
                             struct between x, float *out);
static const mix_pixel_fn mix_pixel[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, mix_pixel, )};

struct cropping {
    const struct mr_tensor *image;
    const int64_t *size; /* of the result: boxes, height, width, channels */
    bool nearest;
    float outside;
};

static void one_box(const struct cropping *c, const unsigned char *pixels, const float *box,
                    float *out)
{
    const int64_t *dims = c->image->dims;

    for (int64_t i = 0; i < c->size[1]; i++) {
        float y = place(box[0], box[2], i, c->size[1], dims[1]);

        for (int64_t j = 0; j < c->size[2]; j++, out += dims[3]) {
            float x = place(box[1], box[3], j, c->size[2], dims[2]);

            if (y >= 0 && y <= (float)(dims[1] - 1) && x >= 0 && x <= (float)(dims[2] - 1)) {
                mix_pixel[c->image->dtype](pixels, dims, between(y, c->nearest, dims[1]),
                                           between(x, c->nearest, dims[2]), out);
                continue;
            }
            for (int64_t k = 0; k < dims[3]; k++) {
                out[k] = c->outside;
            }
        }
    }
}

static int fill_crop(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_attr *method = mr_attr_get(row->attrs, "method");
    const struct mr_attr *outside = mr_attr_get(row->attrs, "extrapolation_value");
    const struct mr_tensor *image = &row->in[0];
    const float *boxes = (const float *)(const void *)row->in[1].values;
    size_t bytes = (size_t)(image->dims[1] * image->dims[2] * image->dims[3]) * image->width;
    size_t values = (size_t)(out->dims[1] * out->dims[2] * out->dims[3]);
    struct cropping c = {image, out->dims, method != NULL && method->size == 7,
                         outside != NULL ? (float)outside->f : 0};

    for (int64_t i = 0; values > 0 && i < out->dims[0]; i++) {
        size_t of = (size_t)mr_tensor_index(&row->in[2], (uint64_t)i);

        one_box(&c, image->values + of * bytes, boxes + 4 * i,
                (float *)(void *)out->values + (size_t)i * values);
    }
    return MR_OK;
}

MR_ROWS_KERNEL(crop_and_resize, 4, 4, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_crop,
               .dims = dims_crop, .fill = fill_crop,
               .attr_table = {{"extrapolation_value", MR_ATTR_FLOAT, true},
                              {"method", MR_ATTR_BYTES, true}});
