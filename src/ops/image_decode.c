/* Images from bytes, and files as bytes. */
#include "base/limits.h"
#include "image/image.h"
#include "ops/attr.h"
#include "ops/box.h"

/* ---- what is asked for ---- */

static struct mr_bytes bytes_of(const struct mr_row *row)
{
    const struct mr_string *s = mr_tensor_strings(&row->in[0]);

    return (struct mr_bytes){s->data, s->size};
}

static bool is_text(const struct mr_attr *a, const char *text)
{
    return a != NULL && a->size == strlen(text) && memcmp(a->bytes, text, a->size) == 0;
}

/* As in TensorFlow, decode_jpeg, decode_png and decode_gif decode any of these. */
static bool is_common(const struct mr_image_codec *codec)
{
    return codec == &mr_image_jpeg || codec == &mr_image_png || codec == &mr_image_gif;
}

static int find_codec(const struct mr_row *row, const struct mr_image_codec **ret, mr_error *err)
{
    const struct mr_attr *format = mr_attr_get(row->attrs, "format");

    *ret = mr_image_codec_of(bytes_of(row), err);
    if (*ret == NULL) {
        return MR_EINVAL;
    }
    bool common = is_common(*ret) &&
                  (is_text(format, mr_image_jpeg.name) || is_text(format, mr_image_png.name));
    bool windowed = row->nin == 2; /* decode_and_crop_jpeg */
    if (format != NULL && (windowed || !common) && !is_text(format, (*ret)->name)) {
        return mr_error_set(err, MR_EINVAL,
                            "the image is %s, not %.*s: use the decoder of that format, or "
                            "decode_image",
                            (*ret)->name, (int)format->size, (const char *)format->bytes);
    }
    return MR_OK;
}

static struct mr_image_request request_of(const struct mr_row *row)
{
    struct mr_image_request want = {
        .channels = (int)mr_attr_int(row->attrs, "channels", 0),
        .wide = mr_attr_dtype(row->attrs, "dtype", MR_UINT8) != MR_UINT8,
        .cropped = row->nin == 2,
        .ratio = (int)mr_attr_int(row->attrs, "ratio", 1),
        .plain_chroma = !mr_attr_bool(row->attrs, "fancy_upscaling", true),
        .dct = is_text(mr_attr_get(row->attrs, "dct_method"), "INTEGER_ACCURATE")
                   ? MR_JPEG_DCT_ACCURATE
                   : MR_JPEG_DCT_FAST,
        .recover = mr_attr_bool(row->attrs, "try_recover_truncated", false),
    };

    for (uint64_t i = 0; want.cropped && i < 4; i++) {
        want.crop[i] = mr_tensor_index(&row->in[1], i);
    }
    return want;
}

struct picture {
    struct mr_bytes in;
    const struct mr_image_codec *codec;
    struct mr_image_request want;
    struct mr_image_info info;
};

/* What @p is asked for, which is set, and what it will give. A GIF's frames are an axis, which only
 * decode_gif has. */
static int open_image(const struct mr_row *row, struct picture *p, mr_error *err)
{
    p->in = bytes_of(row);
    MR_TRY(find_codec(row, &p->codec, err));
    MR_TRY(p->codec->header(p->in, &p->want, &p->info, err));
    if (p->codec != &mr_image_gif || p->want.frames) {
        return MR_OK;
    }
    bool first = !mr_attr_bool(row->attrs, "expand_animations", true);
    bool one = mr_attr_get(row->attrs, "format") != NULL && p->info.frames == 1;
    return first || one
               ? MR_OK
               : mr_error_set(
                     err, MR_EINVAL,
                     "a GIF of frames (%u): use decode_gif for all of them, or decode_image "
                     "with expand_animations=False for the first",
                     p->info.frames);
}

/* ---- decode_image ---- */

static int check_attrs(const struct mr_kernel_infer *it, mr_error *err)
{
    int64_t channels = mr_attr_int(it->attrs, "channels", 0);
    int64_t ratio = mr_attr_int(it->attrs, "ratio", 1);
    const struct mr_attr *dct = mr_attr_get(it->attrs, "dct_method");

    if (channels < 0 || channels > 4) {
        return mr_error_set(err, MR_EINVAL, "channels is %lld, it must be 0 to 4",
                            (long long)channels);
    }
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
        return mr_error_set(err, MR_EINVAL, "ratio is %lld, it must be 1, 2, 4 or 8",
                            (long long)ratio);
    }
    if (dct != NULL && !is_text(dct, "") && !is_text(dct, "INTEGER_FAST") &&
        !is_text(dct, "INTEGER_ACCURATE")) {
        return mr_error_set(err, MR_EINVAL,
                            "dct_method is '%.*s', it must be INTEGER_FAST or INTEGER_ACCURATE",
                            (int)dct->size, (const char *)dct->bytes);
    }
    return MR_OK;
}

static int check_dtype(uint8_t dtype, mr_error *err)
{
    return dtype == MR_UINT8 || dtype == MR_UINT16 || dtype == MR_FLOAT32
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "images are decoded to uint8, uint16 or float32");
}

/* Input @i is a vector of @n ints. */
static int check_vector(const struct mr_kernel_infer *it, size_t i, int64_t n, mr_error *err)
{
    MR_TRY(mr_infer_dtype(it->in, i, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, i, 1, err));
    if (it->in[i].rank == 1 && it->in[i].dims[0] != n && it->in[i].dims[0] != MR_DIM_UNKNOWN) {
        return mr_error_set(err, MR_EINVAL, "%s of %lld values, it must have %lld: y, x, %s",
                            n == 4 ? "a crop window" : "a begin or size",
                            (long long)it->in[i].dims[0], (long long)n,
                            n == 4 ? "height, width" : "channel");
    }
    return MR_OK;
}

static int infer_decode_image(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t channels = mr_attr_int(it->attrs, "channels", 0);
    uint8_t dtype = mr_attr_dtype(it->attrs, "dtype", MR_UINT8);

    MR_TRY(check_attrs(it, err));
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    MR_TRY(mr_infer_rank(it->in, 0, 0, err));
    for (size_t i = 1; i < it->nin; i++) {
        MR_TRY(check_vector(it, i, it->nin == 2 ? 4 : 3, err));
    }
    MR_TRY(check_dtype(dtype, err));
    channels = channels > 0 && it->nin < 3 ? channels : MR_DIM_UNKNOWN;
    mr_shape_set(it->out, 3, (int64_t[]){MR_DIM_UNKNOWN, MR_DIM_UNKNOWN, channels});
    it->out->dtype = dtype;
    return MR_OK;
}

static int dims_decode_image(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    struct picture p = {.want = request_of(row)};

    MR_TRY(open_image(row, &p, err));
    int64_t whole[3] = {p.info.height, p.info.width, p.info.channels};
    if (row->nin == 3) {
        return mr_box_dims(3, whole, &row->in[1], &row->in[2],
                           mr_attr_bool(row->attrs, "outside", false), spec->dims, err);
    }
    memcpy(spec->dims, whole, sizeof whole);
    return MR_OK;
}

/* @n values of @bits bits, at the end of @at, become wider ones from its beginning on. The one that
 * is written never is behind the one that is read next. */
static void widen(unsigned char *at, uint64_t n, uint32_t bits, uint8_t dtype)
{
    size_t width = dtype == MR_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    const unsigned char *from = at + n * (width - bits / 8);

    for (uint64_t i = 0; i < n; i++) {
        uint16_t wide = 0;
        float part;

        if (bits == 8) {
            wide = from[i];
        } else {
            memcpy(&wide, from + 2 * i, sizeof wide);
        }
        if (dtype == MR_FLOAT32) {
            part = (float)wide * (bits == 8 ? 1.0f / 255 : 1.0f / 65535);
            memcpy(at + i * sizeof part, &part, sizeof part);
        } else {
            wide = (uint16_t)(wide * 256u);
            memcpy(at + i * sizeof wide, &wide, sizeof wide);
        }
    }
}

/* @count values of @dtype at @values: all that @p is asked for. */
static int decode_into(const struct picture *p, unsigned char *values, uint64_t count,
                       uint8_t dtype, mr_error *err)
{
    size_t bytes = count * mr_value_width(dtype);
    size_t own = count * p->info.bits / 8;

    MR_TRY(p->codec->decode(p->in, &p->want, &p->info, values + bytes - own, err));
    if (own < bytes) {
        widen(values, count, p->info.bits, dtype);
    }
    return MR_OK;
}

/* A box that decoding alone does not give: it goes beyond the picture, has not all channels, or the
 * format has no windows. */
static int decode_and_copy(const struct picture *p, const int64_t *dims,
                           const struct mr_overlap *parts, struct mr_result *out, mr_error *err)
{
    uint64_t count = (uint64_t)(dims[0] * dims[1] * dims[2]);

    if (count > MR_ELEMENT_BYTES_MAX / out->width) {
        return mr_error_set(err, MR_EEXHAUSTED, "an image of %lld x %lld pixels is above the limit",
                            (long long)dims[0], (long long)dims[1]);
    }
    MR_AUTO(mr_buffer_unref) mr_buffer *all = NULL;
    MR_TRY(mr_buffer_new(count * out->width, &all, err));
    unsigned char *values = mr_buffer_data(all);
    MR_TRY(decode_into(p, values, count, out->dtype, err));
    mr_box_copy(3, dims, values, parts, out);
    return MR_OK;
}

/* What is decoded is what is wanted. */
static bool is_whole(const int64_t *dims, const struct mr_overlap *parts,
                     const struct mr_result *out)
{
    for (int d = 0; d < 3; d++) {
        if (out->dims[d] != dims[d] || (int64_t)parts[d].n != dims[d]) {
            return false;
        }
    }
    return true;
}

/* decode_image and slice in one: of a JPEG no more is decoded than the box needs. */
static int fill_box(struct picture *p, const struct mr_row *row, struct mr_result *out,
                    mr_error *err)
{
    int64_t dims[3] = {p->info.height, p->info.width, p->info.channels};
    struct mr_overlap parts[3];

    mr_box_overlaps(3, dims, &row->in[1], out->dims, parts);
    /* An empty box says nothing of the picture but whether it can be decoded. */
    if (p->codec == &mr_image_jpeg && parts[0].n > 0 && parts[1].n > 0) {
        p->want.cropped = true;
        for (int d = 0; d < 2; d++) {
            p->want.crop[d] = (int64_t)parts[d].from;
            p->want.crop[2 + d] = dims[d] = (int64_t)parts[d].n;
            parts[d].from = 0;
        }
        p->info.height = (uint32_t)dims[0];
        p->info.width = (uint32_t)dims[1];
    }
    return is_whole(dims, parts, out) ? decode_into(p, out->values, out->count, out->dtype, err)
                                      : decode_and_copy(p, dims, parts, out, err);
}

static int fill_decode_image(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct picture p = {.want = request_of(row)};

    MR_TRY(open_image(row, &p, err));
    return row->nin == 3 ? fill_box(&p, row, out, err)
                         : decode_into(&p, out->values, out->count, out->dtype, err);
}

MR_ROWS_KERNEL(decode_image, 1, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_decode_image,
               .dims = dims_decode_image, .fill = fill_decode_image,
               .attr_table = {{"format", MR_ATTR_BYTES, true},
                              {"channels", MR_ATTR_INT, true},
                              {"dtype", MR_ATTR_DTYPE, true},
                              {"expand_animations", MR_ATTR_BOOL, true},
                              {"ratio", MR_ATTR_INT, true},
                              {"fancy_upscaling", MR_ATTR_BOOL, true},
                              {"dct_method", MR_ATTR_BYTES, true},
                              {"outside", MR_ATTR_BOOL, true},
                              {"try_recover_truncated", MR_ATTR_BOOL, true}});

/* ---- decode_gif ---- */

static int infer_decode_gif(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t dims[] = {MR_DIM_UNKNOWN, MR_DIM_UNKNOWN, MR_DIM_UNKNOWN, 3};

    MR_TRY(mr_infer_rank(it->in, 0, 0, err));
    mr_shape_set(it->out, 4, dims);
    it->out->dtype = mr_attr_dtype(it->attrs, "dtype", MR_UINT8);
    return check_dtype(it->out->dtype, err);
}

static int open_frames(const struct mr_row *row, struct picture *p, mr_error *err)
{
    p->want = request_of(row);
    p->want.channels = 3;
    p->want.frames = true;
    MR_TRY(open_image(row, p, err));
    return is_common(p->codec)
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "the image is %s, not GIF", p->codec->name);
}

static int dims_decode_gif(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    struct picture p;

    MR_TRY(open_frames(row, &p, err));
    spec->dims[0] = p.codec == &mr_image_gif ? p.info.frames : 1;
    spec->dims[1] = p.info.height;
    spec->dims[2] = p.info.width;
    return MR_OK;
}

static int fill_decode_gif(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct picture p;

    MR_TRY(open_frames(row, &p, err));
    return decode_into(&p, out->values, out->count, out->dtype, err);
}

MR_ROWS_KERNEL(decode_gif, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_decode_gif, .dims = dims_decode_gif, .fill = fill_decode_gif,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, true}});

/* ---- image_shape ---- */

static int infer_image_shape(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(check_attrs(it, err));
    MR_TRY(mr_infer_rank(it->in, 0, 0, err));
    mr_shape_set(it->out, 1, (int64_t[]){3});
    return mr_attr_index_dtype(it->attrs, MR_INT32, &it->out->dtype, err);
}

static int fill_image_shape(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct picture p = {.want = request_of(row)};

    p.want.wide = false; /* "dtype" is of the shape */
    MR_TRY(open_image(row, &p, err));
    mr_result_put_index(out, 0, p.info.height);
    mr_result_put_index(out, 1, p.info.width);
    mr_result_put_index(out, 2, p.info.channels);
    return MR_OK;
}

MR_ROWS_KERNEL(image_shape, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_image_shape, .fill = fill_image_shape,
               .attr_table = {{"format", MR_ATTR_BYTES, true},
                              {"channels", MR_ATTR_INT, true},
                              {"dtype", MR_ATTR_DTYPE, true},
                              {"expand_animations", MR_ATTR_BOOL, true},
                              {"ratio", MR_ATTR_INT, true}});
