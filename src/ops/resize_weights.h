/*
 * Which pixels of an axis make a pixel of the resized one, and with which weights: TensorFlow's
 * methods. Pure.
 */
#pragma once

#include "element/buffer.h"

enum mr_resize {
    MR_RESIZE_BILINEAR,
    MR_RESIZE_NEAREST,
    MR_RESIZE_BICUBIC,
    MR_RESIZE_AREA,
    MR_RESIZE_LANCZOS3,
    MR_RESIZE_LANCZOS5,
    MR_RESIZE_GAUSSIAN,
    MR_RESIZE_MITCHELL,
    MR_RESIZE_METHODS,
};

/* Pixel i is the sum of weights[i * span + k] * in[starts[i] + k], k below counts[i]. */
struct mr_resize_axis {
    mr_buffer *held; /* all three */
    uint32_t *starts;
    uint32_t *counts;
    float *weights;
    size_t span;
};

/* -1: there is no such method. */
int mr_resize_method(const char *name, size_t size);
/* From @in to @out pixels, both above 0; *@ret is to be freed. */
int mr_resize_axis_new(int method, bool antialias, int64_t in, int64_t out,
                       struct mr_resize_axis *ret, mr_error *err);
void mr_resize_axis_free(struct mr_resize_axis *axis);
