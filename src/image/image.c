#include "image/image.h"

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

/* Does @in end with @end, in small letters or capitals of ASCII? */
static bool ends_with(struct mr_bytes in, const char *end)
{
    size_t n = strlen(end);
    bool same = in.size >= n;

    for (size_t i = 0; same && i < n; i++) {
        unsigned char c = ((const unsigned char *)in.data)[in.size - n + i];

        same = (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) == end[i];
    }
    return same;
}

/* Do bytes that are no image end as the name of one? */
static bool is_name_of_image(struct mr_bytes in)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"};
    bool found = false;

    for (size_t i = 0; !found && i < sizeof ends / sizeof ends[0]; i++) {
        found = ends_with(in, ends[i]);
    }
    return found;
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
