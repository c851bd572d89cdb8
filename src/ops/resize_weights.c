/*
 * The methods are those of TensorFlow's kernels (resize_bilinear_op, resize_bicubic_op,
 * resize_area_op, scale_and_translate_op): centres of pixels lie at halves, but for AREA. With
 * antialias a kernel is as wide as a pixel of the result.
 */
#include "ops/resize_weights.h"

#include <math.h>

#define PI 3.14159265358979323846

static const char *const names[MR_RESIZE_METHODS] = {
    [MR_RESIZE_BILINEAR] = "bilinear", [MR_RESIZE_NEAREST] = "nearest",
    [MR_RESIZE_BICUBIC] = "bicubic",   [MR_RESIZE_AREA] = "area",
    [MR_RESIZE_LANCZOS3] = "lanczos3", [MR_RESIZE_LANCZOS5] = "lanczos5",
    [MR_RESIZE_GAUSSIAN] = "gaussian", [MR_RESIZE_MITCHELL] = "mitchellcubic",
};

int mr_resize_method(const char *name, size_t size)
{
    for (int i = 0; i < MR_RESIZE_METHODS; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- kernels: how much a pixel counts at distance x >= 0 ---- */

static double lanczos(double x, double radius)
{
    if (x > radius) {
        return 0;
    }
    return x <= 1e-3 ? 1 : radius * sin(PI * x) * sin(PI * x / radius) / (PI * PI * x * x);
}

static double triangle(double x)
{
    return x < 1 ? 1 - x : 0;
}

/* Keys, "Cubic convolution interpolation for digital image processing", 1981. */
static double keys(double x)
{
    return x >= 2 ? 0 : x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1;
}

/* Mitchell and Netravali, "Reconstruction filters in computer graphics", 1988. */
static double mitchell(double x)
{
    return x >= 2   ? 0
           : x >= 1 ? ((-7.0 / 18 * x + 2) * x - 10.0 / 3) * x + 16.0 / 9
                    : (7.0 / 6 * x - 2) * x * x + 8.0 / 9;
}

static double gaussian(double x)
{
    return x >= 1.5 ? 0 : exp(-x * x / (2 * 0.5 * 0.5));
}

static double kernel(int method, double x)
{
    switch (method) {
    case MR_RESIZE_BILINEAR: return triangle(x);
    case MR_RESIZE_BICUBIC: return keys(x);
    case MR_RESIZE_LANCZOS3: return lanczos(x, 3);
    case MR_RESIZE_LANCZOS5: return lanczos(x, 5);
    case MR_RESIZE_GAUSSIAN: return gaussian(x);
    default: return mitchell(x);
    }
}

static const double radius_of[MR_RESIZE_METHODS] = {
    [MR_RESIZE_BILINEAR] = 1, [MR_RESIZE_BICUBIC] = 2,    [MR_RESIZE_LANCZOS3] = 3,
    [MR_RESIZE_LANCZOS5] = 5, [MR_RESIZE_GAUSSIAN] = 1.5, [MR_RESIZE_MITCHELL] = 2,
};

/* ---- weights of one pixel ---- */

struct pixel {
    uint32_t start;
    uint32_t count;
    float *weights;
    int64_t room; /* of weights: floats of many millions are whole numbers apart */
};

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* In floats, as there: where a kernel ends with a step, rounding decides which pixels count. */
static void by_kernel(int method, bool antialias, int64_t in, int64_t out, int64_t i,
                      struct pixel *p)
{
    float scale = 1.0f / ((float)out / (float)in);
    float wide = antialias && scale > 1 ? scale : 1;
    float centre = ((float)i + 0.5f) * scale;
    float reach = (float)radius_of[method] * wide;
    int64_t first = clamp((int64_t)ceilf(centre - reach - 0.5f), 0, in - 1);
    int64_t last = clamp((int64_t)floorf(centre + reach - 0.5f), first, in - 1);
    float total = 0;

    p->start = (uint32_t)first;
    p->count = (uint32_t)MR_MIN(last - first + 1, p->room);
    for (uint32_t k = 0; k < p->count; k++) {
        float at = ((float)(first + k) + 0.5f - centre) * (1.0f / wide);

        p->weights[k] = (float)kernel(method, fabsf(at));
        total += p->weights[k];
    }
    for (uint32_t k = 0; fabsf(total) > 1e-35f && k < p->count; k++) {
        p->weights[k] *= 1.0f / total;
    }
}

static void bilinear(float scale, int64_t in, int64_t i, struct pixel *p)
{
    float at = ((float)i + 0.5f) * scale - 0.5f;
    float whole = floorf(at);
    int64_t low = clamp((int64_t)whole, 0, in - 1);
    int64_t high = clamp((int64_t)ceilf(at), 0, in - 1);

    p->start = (uint32_t)low;
    p->count = high > low ? 2 : 1;
    p->weights[0] = high > low ? 1 - (at - whole) : 1;
    if (high > low) {
        p->weights[1] = at - whole;
    }
}

static void nearest(float scale, int64_t in, int64_t i, struct pixel *p)
{
    p->start = (uint32_t)clamp((int64_t)floorf(((float)i + 0.5f) * scale), 0, in - 1);
    p->count = 1;
    p->weights[0] = 1;
}

/* Weights come from a table of 1024 distances, as there; pixels beyond the border do not count. */
static void bicubic(float scale, int64_t in, int64_t i, struct pixel *p)
{
    float at = ((float)i + 0.5f) * scale - 0.5f;
    float whole = floorf(at);
    double part = (double)lrintf((at - whole) * 1024.0f) / 1024;
    double distances[4] = {1 + part, part, 1 - part, 2 - part};
    int64_t first = (int64_t)whole - 1;
    float total = 0;

    p->start = (uint32_t)clamp(first, 0, in - 1);
    p->count = 0;
    for (int k = 0; k < 4; k++) {
        if (first + k >= 0 && first + k < in) {
            p->weights[p->count] = (float)keys(distances[k]);
            total += p->weights[p->count++];
        }
    }
    for (uint32_t k = 0; k < p->count && fabsf(total) > 1e-6f; k++) {
        p->weights[k] /= total;
    }
}

/* The part of each pixel that the interval [i, i + 1) covers; no centres. */
static void area(float scale, int64_t in, int64_t i, struct pixel *p)
{
    float begin = (float)i * scale;
    float end = (float)(i + 1) * scale;
    int64_t first = clamp((int64_t)floorf(begin), 0, in - 1);
    int64_t last = clamp((int64_t)ceilf(end) - 1, first, in - 1);

    p->start = (uint32_t)first;
    p->count = (uint32_t)MR_MIN(last - first + 1, p->room);
    for (uint32_t k = 0; k < p->count; k++) {
        float from = fmaxf(begin, (float)(first + k));
        float to = fminf(end, (float)(first + k + 1));

        p->weights[k] = (to - from) / scale;
    }
}

static size_t span_of(int method, bool antialias, double scale, int64_t in)
{
    double wide = antialias && scale > 1 ? scale : 1;

    switch (method) {
    case MR_RESIZE_NEAREST: return 1;
    case MR_RESIZE_AREA: return (size_t)fmin(ceil(scale) + 2, (double)in);
    case MR_RESIZE_BILINEAR:
    case MR_RESIZE_BICUBIC:
        if (!antialias) {
            return 4;
        }
        break;
    default: break;
    }
    return (size_t)fmin(2 * ceil(radius_of[method] * wide) + 2, (double)in);
}

static void one_pixel(int method, bool antialias, int64_t in, int64_t out, int64_t i,
                      struct pixel *p)
{
    float scale = (float)in / (float)out;
    bool plain = !antialias;

    if (method == MR_RESIZE_NEAREST) {
        nearest(scale, in, i, p);
    } else if (method == MR_RESIZE_AREA) {
        area(scale, in, i, p);
    } else if (method == MR_RESIZE_BILINEAR && plain) {
        bilinear(scale, in, i, p);
    } else if (method == MR_RESIZE_BICUBIC && plain) {
        bicubic(scale, in, i, p);
    } else {
        by_kernel(method, antialias, in, out, i, p);
    }
}

int mr_resize_axis_new(int method, bool antialias, int64_t in, int64_t out,
                       struct mr_resize_axis *ret, mr_error *err)
{
    size_t span = span_of(method, antialias, (double)in / (double)out, in);
    size_t bytes;

    *ret = (struct mr_resize_axis){.span = span};
    if (__builtin_mul_overflow((size_t)out, 2 * sizeof *ret->starts + span * sizeof *ret->weights,
                               &bytes)) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_buffer_new(bytes, &ret->held, err));
    ret->starts = mr_buffer_data(ret->held);
    ret->counts = ret->starts + out;
    ret->weights = (float *)(void *)(ret->counts + out);
    for (int64_t i = 0; i < out; i++) {
        struct pixel p = {.weights = ret->weights + (size_t)i * span, .room = (int64_t)span};

        one_pixel(method, antialias, in, out, i, &p);
        MR_ASSERT_SLOW(p.count <= span && p.start + p.count <= (uint64_t)in);
        ret->starts[i] = p.start;
        ret->counts[i] = p.count;
    }
    return MR_OK;
}

void mr_resize_axis_free(struct mr_resize_axis *axis)
{
    mr_buffer_unref(axis->held);
    *axis = (struct mr_resize_axis){0};
}
