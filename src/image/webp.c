/* WebP, by libwebp. Still pictures. */
#include "base/memory.h"
#include "image/image.h"

#include <webp/decode.h>

static bool recognises(struct mr_bytes in)
{
    return in.size >= 12 && memcmp(in.data, "RIFF", 4) == 0 && memcmp(in.data + 8, "WEBP", 4) == 0;
}

static int header(struct mr_bytes in, const struct mr_image_request *want,
                  struct mr_image_info *ret, mr_error *err)
{
    WebPBitstreamFeatures found;

    if (WebPGetFeatures(in.data, in.size, &found) != VP8_STATUS_OK) {
        return mr_error_set(err, MR_EINVAL, "WebP: the header is damaged or ends early");
    }
    if (found.has_animation) {
        return mr_error_set(err, MR_EINVAL, "WebP: an animation; only still images are decoded");
    }
    MR_TRY(mr_image_channels("WebP", want->channels, 1u << 0 | 1u << 3 | 1u << 4, err));
    MR_TRY(mr_image_check_size("WebP", (uint64_t)found.width, (uint64_t)found.height, 4, err));
    *ret = (struct mr_image_info){
        .height = (uint32_t)found.height,
        .width = (uint32_t)found.width,
        .channels = want->channels != 0 ? (uint32_t)want->channels
                    : found.has_alpha   ? 4
                                        : 3,
        .bits = 8,
    };
    return MR_OK;
}

#define LOSSLESS 2 /* a format */

/* What has no losses, and how transparent a picture with losses is, the library decodes into up to
 * four bytes a pixel of its own first. */
static bool is_held(struct mr_bytes in)
{
    WebPBitstreamFeatures found;

    return WebPGetFeatures(in.data, in.size, &found) == VP8_STATUS_OK &&
           (found.format == LOSSLESS || found.has_alpha);
}

static int decode(struct mr_bytes in, const struct mr_image_request *want,
                  const struct mr_image_info *info, void *pixels, mr_error *err)
{
    size_t line = (size_t)info->width * info->channels;
    size_t bytes = line * info->height;
    struct mr_memory_lent lent = {0};
    MR_AUTO(mr_memory_give_back) struct mr_memory_lent *held = &lent;

    if (is_held(in)) {
        MR_TRY(mr_memory_lend((size_t)info->width * info->height * 4, held, err));
    }
    void *made = info->channels == 4
                     ? WebPDecodeRGBAInto(in.data, in.size, pixels, bytes, (int)line)
                     : WebPDecodeRGBInto(in.data, in.size, pixels, bytes, (int)line);

    return made != NULL ? MR_OK
                        : mr_error_set(err, MR_EINVAL, "WebP: the data is damaged or ends early");
}

const struct mr_image_codec mr_image_webp = {"WebP", recognises, header, decode};
