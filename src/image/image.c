#include "image/image.h"

#include "base/limits.h"

static const struct mr_image_codec *const codecs[] = {&mr_image_jpeg, &mr_image_png, &mr_image_webp,
                                                      &mr_image_bmp};

/* The first bytes, for a message. */
static void show(struct mr_bytes in, char *out, size_t size)
{
    char text[17] = {0};

    memcpy(text, in.data, MR_MIN(in.size, sizeof text - 1));
    for (size_t i = 0; i < sizeof text - 1 && i < in.size; i++) {
        text[i] = text[i] == '\0' ? '.' : text[i];
    }
    (void)mr_escape(text, out, size);
}

const struct mr_image_codec *mr_image_codec_of(struct mr_bytes in, mr_error *err)
{
    char text[MR_SHOWN_BYTES + 1];

    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        if (codecs[i]->recognises(in)) {
            return codecs[i];
        }
    }
    if (in.size == 0) {
        (void)mr_error_set(err, MR_EINVAL, "the image is empty: 0 bytes");
        return NULL;
    }
    show(in, text, sizeof text);
    (void)mr_error_set(err, MR_EINVAL,
                       "%zu bytes that begin with '%s' are no image of a known format (JPEG, PNG, "
                       "WebP, BMP)",
                       in.size, text);
    return NULL;
}

int mr_image_check_size(const char *format, uint64_t width, uint64_t height, uint64_t values,
                        mr_error *err)
{
    uint64_t bytes;

    if (width == 0 || height == 0) {
        return mr_error_set(err, MR_EINVAL, "%s: an image of %llu x %llu pixels", format,
                            (unsigned long long)width, (unsigned long long)height);
    }
    if (__builtin_mul_overflow(width, height, &bytes) ||
        __builtin_mul_overflow(bytes, values, &bytes) || bytes > MR_ELEMENT_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "%s: an image of %llu x %llu pixels is more than an element may hold "
                            "(%llu bytes)",
                            format, (unsigned long long)width, (unsigned long long)height,
                            (unsigned long long)MR_ELEMENT_BYTES_MAX);
    }
    return MR_OK;
}

int mr_image_channels(const char *format, int want, unsigned allowed, mr_error *err)
{
    char text[32] = "";
    size_t n = 0;

    if (want >= 0 && want <= 4 && (allowed & (1u << want)) != 0) {
        return MR_OK;
    }
    for (int c = 0; c <= 4; c++) {
        if ((allowed & (1u << c)) != 0) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n > 0 ? ", " : "", c);
        }
    }
    return mr_error_set(err, MR_EINVAL, "%s: channels is %d, it must be one of %s", format, want,
                        text);
}
