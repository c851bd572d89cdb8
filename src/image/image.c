#include "image/image.h"

#include <strings.h>

static const struct mr_image_codec *const codecs[] = {&mr_image_jpeg, &mr_image_png, &mr_image_webp,
                                                      &mr_image_bmp, &mr_image_gif};

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

/* Do bytes that are no image end as the name of one? */
static bool is_name_of_image(struct mr_bytes in)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t n = strlen(ends[i]);

        if (in.size >= n && strncasecmp((const char *)in.data + in.size - n, ends[i], n) == 0) {
            return true;
        }
    }
    return false;
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
                       "WebP, BMP, GIF)%s",
                       in.size, text,
                       is_name_of_image(in) ? ": read_file reads the file of that name" : "");
    return NULL;
}
