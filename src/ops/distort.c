/*
 * sample_distorted_bounding_box: a box of an image at random, of which so much is seen of an object
 * and whose area and proportions are within bounds. An attempt draws proportions, then a height
 * among those that the bounds allow, then a place; the whole image is the answer if no attempt
 * covers any object. The same distribution as TensorFlow's.
 */
#include "base/cancel.h"
#include "ops/attr.h"
#include "ops/draws.h"
#include "ops/rows.h"

#include <math.h>

#define ATTEMPTS_MAX 1000000

struct bounds {
    double covered;
    double aspect_min;
    double aspect_max;
    double area_min;
    double area_max;
    int64_t attempts;
    bool use_image;
};

static double number(struct mr_attrs attrs, const char *name, double fallback)
{
    const struct mr_attr *a = mr_attr_get(attrs, name);

    return a != NULL ? a->f : fallback;
}

static struct bounds bounds_of(struct mr_attrs attrs)
{
    return (struct bounds){.covered = number(attrs, "min_object_covered", 0.1),
                           .aspect_min = number(attrs, "aspect_min", 0.75),
                           .aspect_max = number(attrs, "aspect_max", 1.33),
                           .area_min = number(attrs, "area_min", 0.05),
                           .area_max = number(attrs, "area_max", 1),
                           .attempts = mr_attr_int(attrs, "max_attempts", 100),
                           .use_image = mr_attr_bool(attrs, "use_image", false)};
}

static int check_bounds(struct mr_attrs attrs, mr_error *err)
{
    struct bounds b = bounds_of(attrs);

    if (!(b.covered >= 0)) {
        return mr_error_set(err, MR_EINVAL, "min_object_covered is %g, it must be 0 or more",
                            b.covered);
    }
    if (!(b.aspect_min > 0 && b.aspect_max > 0 && b.aspect_max < INFINITY &&
          b.aspect_min < INFINITY)) {
        return mr_error_set(err, MR_EINVAL, "aspect_ratio_range is [%g, %g], it must be above 0",
                            b.aspect_min, b.aspect_max);
    }
    if (!(b.area_min > 0 && b.area_max > 0 && b.area_min <= 1 && b.area_max <= 1)) {
        return mr_error_set(err, MR_EINVAL, "area_range is [%g, %g], it must be above 0, to 1",
                            b.area_min, b.area_max);
    }
    if (b.attempts < 1 || b.attempts > ATTEMPTS_MAX) {
        return mr_error_set(err, MR_EINVAL, "max_attempts is %lld, it must be 1 to %d",
                            (long long)b.attempts, ATTEMPTS_MAX);
    }
    return MR_OK;
}

static int infer_distorted(struct mr_kernel_infer *it, bool stateless, mr_error *err)
{
    MR_TRY(check_bounds(it->attrs, err));
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 0, 1, err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET(MR_FLOAT32), err));
    MR_TRY(mr_infer_rank(it->in, 1, 3, err));
    MR_TRY(mr_infer_seed(it, stateless, err));
    if (it->cap < 3) {
        return mr_error_set(err, MR_EINVAL, "3 results are too many");
    }
    it->nout = 3;
    mr_shape_set(&it->out[0], 1, (int64_t[]){3});
    it->out[2] = it->out[1] = it->out[0];
    mr_shape_set(&it->out[2], 3, (int64_t[]){1, 1, 4});
    it->out[2].dtype = MR_FLOAT32;
    return MR_OK;
}

/* In pixels. */
struct area {
    int64_t y;
    int64_t x;
    int64_t height;
    int64_t width;
};

static double size_of(const struct area *a)
{
    return a->height > 0 && a->width > 0 ? (double)a->height * (double)a->width : 0;
}

static double size_of_both(const struct area *a, const struct area *b)
{
    struct area both = {.y = MR_MAX(a->y, b->y), .x = MR_MAX(a->x, b->x)};

    both.height = MR_MIN(a->y + a->height, b->y + b->height) - both.y;
    both.width = MR_MIN(a->x + a->width, b->x + b->width) - both.x;
    return size_of(&both);
}

static struct area object_of(const float *box, int64_t height, int64_t width)
{
    struct area a = {.y = (int64_t)(box[0] * (float)height), .x = (int64_t)(box[1] * (float)width)};

    a.height = (int64_t)(box[2] * (float)height) - a.y;
    a.width = (int64_t)(box[3] * (float)width) - a.x;
    return a;
}

static bool covers(const struct area *found, const struct mr_tensor *boxes,
                   const struct area *whole, double covered)
{
    const float *values = (const float *)(const void *)boxes->values;

    for (uint64_t i = 0; i + 3 < boxes->count; i += 4) {
        struct area object = object_of(values + i, whole->height, whole->width);

        if (size_of(&object) >= 1 && size_of_both(found, &object) / size_of(&object) >= covered) {
            return true;
        }
    }
    return false;
}

/* Of a number above 0, however large. */
static int64_t whole_of(double v)
{
    return (int64_t)fmin(v, 0x1p52);
}

static int64_t nearest(double v)
{
    return whole_of(v + 0.5);
}

/* false: the bounds leave no size for these proportions. */
static bool draw_area(const struct bounds *b, const struct area *whole, struct mr_draws *d,
                      struct area *ret)
{
    double aspect = b->aspect_min + mr_draw_unit(d) * (b->aspect_max - b->aspect_min);
    double least = b->area_min * size_of(whole);
    double most = b->area_max * size_of(whole);
    int64_t height = nearest(sqrt(least / aspect));
    int64_t highest = nearest(sqrt(most / aspect));

    if (nearest((double)highest * aspect) > whole->width) {
        highest = whole_of(((double)whole->width + 0.5 - 1e-7) / aspect);
    }
    highest = MR_MIN(highest, whole->height);
    height = MR_MIN(height, highest);
    height += (int64_t)mr_draw_below(d, (uint64_t)(highest - height + 1));
    ret->height = height;
    ret->width = nearest((double)height * aspect);
    ret->height += size_of(ret) < least ? 1 : size_of(ret) > most ? -1 : 0;
    ret->width = nearest((double)ret->height * aspect);
    if (size_of(ret) < least || size_of(ret) > most || size_of(ret) < 1 ||
        ret->width > whole->width || ret->height > whole->height) {
        return false;
    }
    ret->y = ret->height < whole->height
                 ? (int64_t)mr_draw_below(d, (uint64_t)(whole->height - ret->height))
                 : 0;
    ret->x = ret->width < whole->width
                 ? (int64_t)mr_draw_below(d, (uint64_t)(whole->width - ret->width))
                 : 0;
    return true;
}

static int check_inputs(const struct mr_row *row, bool use_image, mr_error *err)
{
    const struct mr_tensor *boxes = &row->in[1];
    const float *values = (const float *)(const void *)boxes->values;

    if (row->in[0].count != 3 || boxes->dims[2] != 4) {
        return mr_error_set(
            err, MR_EINVAL,
            "an image size of %llu values and boxes of %lld; they must have 3 and 4",
            (unsigned long long)row->in[0].count, (long long)boxes->dims[2]);
    }
    for (uint64_t i = 0; i < 2; i++) {
        int64_t n = mr_tensor_index(&row->in[0], i);

        if (n < 1 || n > INT32_MAX) {
            return mr_error_set(err, MR_EINVAL, "an image side of %lld pixels", (long long)n);
        }
    }
    for (uint64_t i = 0; i < boxes->count; i++) {
        if (!(values[i] >= 0 && values[i] <= 1)) {
            return mr_error_set(err, MR_EINVAL, "box %llu has %g, borders are 0 and 1",
                                (unsigned long long)(i / 4), (double)values[i]);
        }
    }
    return boxes->count > 0 || use_image
               ? MR_OK
               : mr_error_set(err, MR_EINVAL,
                              "no boxes: use_image_if_no_bounding_boxes takes the image");
}

static void put(const struct area *found, const struct area *whole, struct mr_result *out)
{
    int64_t ints[2][3] = {{found->y, found->x, 0}, {found->height, found->width, -1}};
    float height = (float)whole->height;
    float width = (float)whole->width;
    float box[] = {(float)found->y / height, (float)found->x / width,
                   (float)(found->y + found->height) / height,
                   (float)(found->x + found->width) / width};

    if (out->index == 2) {
        memcpy(out->values, box, sizeof box);
        return;
    }
    for (uint64_t i = 0; i < 3; i++) {
        mr_result_put_index(out, i, (uint64_t)ints[out->index][i]);
    }
}

/* Each result draws the same. */
static int fill_distorted(const struct mr_row *row, bool stateless, struct mr_result *out,
                          mr_error *err)
{
    static const float everything[] = {0, 0, 1, 1};
    struct bounds b = bounds_of(row->attrs);
    struct mr_draws d = mr_draws_of_row(row, stateless);
    struct mr_tensor boxes = row->in[1];
    struct area whole = {0};
    bool found = false;
    struct area area;

    MR_TRY(check_inputs(row, b.use_image, err));
    whole.height = mr_tensor_index(&row->in[0], 0);
    whole.width = mr_tensor_index(&row->in[0], 1);
    if (boxes.count == 0) {
        boxes.values = (const unsigned char *)everything;
        boxes.count = 4;
    }
    for (int64_t i = 0; !found && i < b.attempts; i++) {
        MR_TRY(mr_cancel_check(err));
        found = draw_area(&b, &whole, &d, &area) && covers(&area, &boxes, &whole, b.covered);
    }
    put(found ? &area : &whole, &whole, out);
    return MR_OK;
}

#define FORM(id, inputs, random, stateless, ...)                                                   \
    static int infer_##id(struct mr_kernel_infer *it, mr_error *err)                               \
    {                                                                                              \
        return infer_distorted(it, stateless, err);                                                \
    }                                                                                              \
    static int fill_##id(const struct mr_row *row, struct mr_result *out, mr_error *err)           \
    {                                                                                              \
        return fill_distorted(row, stateless, out, err);                                           \
    }                                                                                              \
    MR_ROWS_KERNEL(id, inputs, inputs, 0, .flags = MR_KERNEL_MAY_FAIL | (random),                  \
                   .infer = infer_##id, .fill = fill_##id,                                         \
                   .attr_table = {{"min_object_covered", MR_ATTR_FLOAT, true},                     \
                                  {"aspect_min", MR_ATTR_FLOAT, true},                             \
                                  {"aspect_max", MR_ATTR_FLOAT, true},                             \
                                  {"area_min", MR_ATTR_FLOAT, true},                               \
                                  {"area_max", MR_ATTR_FLOAT, true},                               \
                                  {"max_attempts", MR_ATTR_INT, true},                             \
                                  {"use_image", MR_ATTR_BOOL, true},                               \
                                  __VA_ARGS__})

FORM(sample_distorted_bounding_box, 2, MR_KERNEL_RANDOM, false, {"seed", MR_ATTR_INT, true});
FORM(stateless_sample_distorted_bounding_box, 3, 0, true, {NULL});
