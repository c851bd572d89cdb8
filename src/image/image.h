/*
 * Pictures as bytes: what they hold, decoding into the caller's memory, encoding. One table of
 * codecs over the libraries that decode.
 *
 * Pixels are rows from top to bottom, [height][width][channels], without padding. Bytes
 * come from outside: whatever they are, the answer is MR_EINVAL with the codec's reason, and no
 * memory is asked for that the header does not account for.
 *
 * Not for: what is done with pixels (ops/).
 *
 * Threads: all functions from any thread.
 */
#pragma once

#include "base/base.h"

struct mr_bytes {
    const unsigned char *data;
    size_t size;
};

enum mr_jpeg_dct {
    MR_JPEG_DCT_FAST = 0, /* as TensorFlow's default */
    MR_JPEG_DCT_ACCURATE,
};

/* What is wanted of a picture. Zero: all of it, as it is, 8 bits a value. */
struct mr_image_request {
    int channels;    /* 1, 2, 3 or 4; 0: as many as it has */
    bool wide;       /* 16 bits a value, where the format has them; others: *@info says 8 */
    bool cropped;    /* JPEG: only the pixels of the window, which must lie within the picture */
    int64_t crop[4]; /* y, x, height, width, after scaling */
    bool frames;     /* GIF: all of them, one behind another; else the first */
    /* JPEG only */
    int ratio;         /* 1, 2, 4 or 8: each axis is scaled down by it; 0: 1 */
    bool plain_chroma; /* no smooth interpolation of colours */
    int dct;           /* enum mr_jpeg_dct */
    bool recover;      /* a picture that ends early is what the library makes of it */
};

struct mr_image_info {
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    uint32_t bits;   /* 8 or 16 a value */
    uint32_t frames; /* GIF: how many there are; others: 0 */
};

struct mr_image_codec {
    const char *name;
    bool (*recognises)(struct mr_bytes in);
    /* What decode() would give. */
    int (*header)(struct mr_bytes in, const struct mr_image_request *want,
                  struct mr_image_info *ret, mr_error *err);
    /* @pixels has room for what header() said. */
    int (*decode)(struct mr_bytes in, const struct mr_image_request *want,
                  const struct mr_image_info *info, void *pixels, mr_error *err);
};

extern const struct mr_image_codec mr_image_bmp;
extern const struct mr_image_codec mr_image_gif;
extern const struct mr_image_codec mr_image_jpeg;
extern const struct mr_image_codec mr_image_png;
extern const struct mr_image_codec mr_image_webp;

/* NULL with an error that says what the bytes look like if no codec knows them. */
const struct mr_image_codec *mr_image_codec_of(struct mr_bytes in, mr_error *err);
/* MR_EINVAL if there is no pixel, or if there are more than an element may hold. */
int mr_image_check_size(const char *format, uint64_t width, uint64_t height, uint64_t values,
                        mr_error *err);
/* MR_EINVAL names the format unless @want channels are among those @allowed, a bit each. */
int mr_image_channels(const char *format, int want, unsigned allowed, mr_error *err);

struct mr_jpeg_options {
    int quality; /* 1 to 100 */
    bool progressive;
    bool optimise;       /* smaller for more time */
    bool no_subsampling; /* of colours */
};

/* *@ret: mr_malloc(), the caller's. @pixels: 8 bits a value; JPEG takes 1 or 3 channels, PNG 1 to 4
 * and 8 or 16 bits. @level: 0 to 9, -1: zlib's default. */
int mr_jpeg_encode(const struct mr_image_info *info, const void *pixels,
                   const struct mr_jpeg_options *options, unsigned char **ret, size_t *size,
                   mr_error *err);
int mr_png_encode(const struct mr_image_info *info, const void *pixels, int level,
                  unsigned char **ret, size_t *size, mr_error *err);
