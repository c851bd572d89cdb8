/* Colours of pixels: hue, saturation, value and back, over triples along the last axis. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"

#include <math.h>

static int infer_colours(struct mr_kernel_infer *it, mr_error *err)
{
    int8_t rank = it->in[0].rank;

    if (rank == 0 ||
        (rank > 0 && it->in[0].dims[rank - 1] != 3 && it->in[0].dims[rank - 1] != MR_DIM_UNKNOWN)) {
        return mr_error_set(err, MR_EINVAL, "the last axis must have 3 values: a colour");
    }
    return MR_OK;
}

static void to_hsv(const double *rgb, double *hsv)
{
    double value = fmax(rgb[0], fmax(rgb[1], rgb[2]));
    double range = value - fmin(rgb[0], fmin(rgb[1], rgb[2]));
    double hue = 0;

    if (range > 0) {
        hue = rgb[0] == value   ? (rgb[1] - rgb[2]) / (6 * range)
              : rgb[1] == value ? (rgb[2] - rgb[0]) / (6 * range) + 2.0 / 6
                                : (rgb[0] - rgb[1]) / (6 * range) + 4.0 / 6;
    }
    hsv[0] = hue < 0 ? hue + 1 : hue;
    hsv[1] = value > 0 ? range / value : 0;
    hsv[2] = value;
}

static double unit(double v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

static void to_rgb(const double *hsv, double *rgb)
{
    double hue = hsv[0] * 6;
    double parts[3] = {fabs(hue - 3) - 1, 2 - fabs(hue - 2), 2 - fabs(hue - 4)};

    for (int c = 0; c < 3; c++) {
        rgb[c] = (1 - hsv[1] + hsv[1] * unit(parts[c])) * hsv[2];
    }
}

#define CONVERT(tag, dtype, S, W, N, LD, ST, ...)                                                  \
    case dtype: {                                                                                  \
        const S *x = (const S *)(const void *)row->in[0].values;                                   \
        S *z = (S *)(void *)out->values;                                                           \
        for (uint64_t i = 0; i + 2 < out->count; i += 3) {                                         \
            double from[3] = {(double)LD(N, x[i]), (double)LD(N, x[i + 1]),                        \
                              (double)LD(N, x[i + 2])};                                            \
            double to[3];                                                                          \
            convert(from, to);                                                                     \
            z[i] = ST(S, (N)to[0]);                                                                \
            z[i + 1] = ST(S, (N)to[1]);                                                            \
            z[i + 2] = ST(S, (N)to[2]);                                                            \
        }                                                                                          \
        return MR_OK;                                                                              \
    }

static int fill_colours(const struct mr_row *row, void (*convert)(const double *, double *),
                        struct mr_result *out, mr_error *err)
{
    switch (out->dtype) {
        MR_EACH_FLOAT(CONVERT, )
    default: return mr_error_set(err, MR_EINTERNAL, "dtype %u", out->dtype);
    }
}

static int fill_rgb_to_hsv(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_colours(row, to_hsv, out, err);
}

static int fill_hsv_to_rgb(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_colours(row, to_rgb, out, err);
}

#define COLOUR_KERNEL(id)                                                                          \
    MR_ROWS_KERNEL(id, 1, 1, MR_SET_FLOATS, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_colours,   \
                   .fill = fill_##id)

COLOUR_KERNEL(rgb_to_hsv);
COLOUR_KERNEL(hsv_to_rgb);
