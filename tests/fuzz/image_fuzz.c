/* Any bytes as an image: no decoder reads or writes outside of what it was given, and none gives
 * other than what the header said. */
#include "image/image.h"

#include <stdlib.h>

#define BYTES_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink; /* reading is what a sanitizer looks at */

static size_t bytes_of(const struct mr_image_info *info, const struct mr_image_request *want)
{
    size_t frames = want->frames && info->frames > 0 ? info->frames : 1;

    return frames * info->height * info->width * info->channels * (info->bits / 8);
}

static void use(struct mr_bytes in, const struct mr_image_request *want)
{
    const struct mr_image_codec *codec = mr_image_codec_of(in, NULL);
    struct mr_image_info info;
    mr_error err;

    if (codec == NULL || codec->header(in, want, &info, &err) != MR_OK) {
        return;
    }
    if (bytes_of(&info, want) == 0) {
        abort();
    }
    if (bytes_of(&info, want) > BYTES_MAX) {
        return; /* a decoder's time, not its mistakes */
    }
    unsigned char *pixels = calloc(1, bytes_of(&info, want));
    if (pixels != NULL && codec->decode(in, want, &info, pixels, &err) == MR_OK) {
        for (size_t i = 0; i < bytes_of(&info, want); i++) {
            sink = pixels[i];
        }
    }
    free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int ratios[] = {1, 2, 4, 8};

    for (int i = 0; i < 6; i++) {
        struct mr_image_request want = {.channels = i % 5,
                                        .wide = i % 2 == 1,
                                        .frames = i % 2 == 1,
                                        .cropped = i >= 4,
                                        .crop = {3, 5, 7, 9},
                                        .ratio = ratios[i % 4],
                                        .plain_chroma = i == 2,
                                        .dct = i == 3 ? MR_JPEG_DCT_ACCURATE : MR_JPEG_DCT_FAST,
                                        .recover = i == 5};

        use((struct mr_bytes){data, size}, &want);
    }
    return 0;
}
