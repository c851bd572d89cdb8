/* PNG, by libspng. What it cannot convert itself (colours to grey) is made of four channels. */
#include "base/memory.h"
#include "image/image.h"

#include <spng.h>
#include <stdlib.h>

/* A colour profile or a text is not what anybody waits for. */
#define CHUNK_BYTES_MAX (16u << 20)

MR_AUTO_DEFINE(spng_ctx, spng_ctx_free)

static bool recognises(struct mr_bytes in)
{
    static const unsigned char magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

    return in.size >= sizeof magic && memcmp(in.data, magic, sizeof magic) == 0;
}

static int refused(int rc, mr_error *err)
{
    return mr_error_set(err, MR_EINVAL, "PNG: %s", spng_strerror(rc));
}

static int begin(struct mr_bytes in, spng_ctx **ret, struct spng_ihdr *ihdr, mr_error *err)
{
    spng_ctx *ctx = spng_ctx_new(0);
    int rc;

    *ret = ctx;
    if (ctx == NULL) {
        return mr_error_nomem(err);
    }
    rc = spng_set_chunk_limits(ctx, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX);
    rc = rc == 0 ? spng_set_png_buffer(ctx, in.data, in.size) : rc;
    rc = rc == 0 ? spng_get_ihdr(ctx, ihdr) : rc;
    return rc == 0 ? MR_OK : refused(rc, err);
}

/* As many as the picture has, with its palette and its transparent colour applied. */
static uint32_t own_channels(spng_ctx *ctx, const struct spng_ihdr *ihdr)
{
    struct spng_trns trns;
    bool transparent = spng_get_trns(ctx, &trns) == 0;
    bool grey = ihdr->color_type == SPNG_COLOR_TYPE_GRAYSCALE;

    switch (ihdr->color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA: return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA: return 4;
    default: return (grey ? 1u : 3u) + (transparent ? 1u : 0u);
    }
}

static int header(struct mr_bytes in, const struct mr_image_request *want,
                  struct mr_image_info *ret, mr_error *err)
{
    MR_AUTO(spng_ctx_free) spng_ctx *ctx = NULL;
    struct spng_ihdr ihdr;

    MR_TRY(begin(in, &ctx, &ihdr, err));
    MR_TRY(mr_image_channels("PNG", want->channels, 0x1f, err));
    MR_TRY(mr_image_check_size("PNG", ihdr.width, ihdr.height, 8, err));
    *ret = (struct mr_image_info){
        .height = ihdr.height,
        .width = ihdr.width,
        .channels = want->channels != 0 ? (uint32_t)want->channels : own_channels(ctx, &ihdr),
        .bits = want->wide ? 16 : 8,
    };
    return MR_OK;
}

/* Luma (ITU-R BT.601) in parts of 2^15, as libpng computes it: of the values as the file has
 * them. */
#define LUMA(p, rounding) ((9797u * (p)[0] + 19234u * (p)[1] + 3737u * (p)[2] + (rounding)) >> 15)

/* @out: 1 to 3 channels of each of @n pixels of four, of other or the same width. */
#define CONVERT(name, From, To, rounding, change)                                                  \
    static void name(const void *pixels, size_t n, uint32_t channels, void *out)                   \
    {                                                                                              \
        const From *in = pixels;                                                                   \
        To *to = out;                                                                              \
                                                                                                   \
        for (size_t i = 0; i < n; i++, in += 4, to += channels) {                                  \
            unsigned grey = LUMA(in, rounding);                                                    \
                                                                                                   \
            for (uint32_t c = 0; c < channels; c++) {                                              \
                unsigned v = channels == 3 ? in[c] : c == 0 ? grey : in[3];                        \
                to[c] = (To)(change);                                                              \
            }                                                                                      \
        }                                                                                          \
    }
CONVERT(from8_to8, uint8_t, uint8_t, 0u, v)
CONVERT(from8_to16, uint8_t, uint16_t, 0u, v * 257u)
CONVERT(from16_to8, uint16_t, uint8_t, 16384u, v >> 8)
CONVERT(from16_to16, uint16_t, uint16_t, 16384u, v)

/* What the library writes as it is wanted; 0: it cannot. */
static int direct_format(const struct mr_image_info *info, const struct spng_ihdr *ihdr)
{
    bool grey = ihdr->color_type == SPNG_COLOR_TYPE_GRAYSCALE && ihdr->bit_depth <= 8;

    if (grey && info->channels == 1 && info->bits == 8) {
        return SPNG_FMT_G8;
    }
    if (info->bits == 16) {
        return info->channels == 4 ? SPNG_FMT_RGBA16 : 0;
    }
    return info->channels == 3 ? SPNG_FMT_RGB8 : info->channels == 4 ? SPNG_FMT_RGBA8 : 0;
}

/* The library accepts a last chunk without its checksum. That chunk is always the same, and usually
 * at the end of the file. */
static bool ends(struct mr_bytes in)
{
    static const unsigned char last[8] = {'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};

    return in.size >= sizeof last &&
           (memcmp(in.data + in.size - sizeof last, last, sizeof last) == 0 ||
            memmem(in.data, in.size, last, sizeof last) != NULL);
}

static int run(spng_ctx *ctx, struct mr_bytes in, void *pixels, size_t bytes, int format,
               mr_error *err)
{
    size_t wanted;
    /* Transparency becomes the fourth channel; without one it is left out. */
    int flags = format == SPNG_FMT_RGB8 || format == SPNG_FMT_G8 ? 0 : SPNG_DECODE_TRNS;
    int rc = spng_decoded_image_size(ctx, format, &wanted);

    if (rc == 0 && wanted > bytes) {
        return mr_error_set(err, MR_EINTERNAL, "PNG: %zu bytes where %zu are expected", wanted,
                            bytes);
    }
    rc = rc == 0 ? spng_decode_image(ctx, pixels, bytes, format, flags) : rc;
    /* A file that was cut off may have all pixels, but not its end. */
    rc = rc == 0 ? spng_decode_chunks(ctx) : rc;
    if (rc == 0 && !ends(in)) {
        return mr_error_set(err, MR_EINVAL, "PNG: the data ends early");
    }
    return rc == 0 ? MR_OK : refused(rc, err);
}

static int decode(struct mr_bytes in, const struct mr_image_request *want,
                  const struct mr_image_info *info, void *pixels, mr_error *err)
{
    MR_AUTO(spng_ctx_free) spng_ctx *ctx = NULL;
    MR_AUTO(mr_free) void *four = NULL;
    struct mr_memory_lent lent = {0};
    MR_AUTO(mr_memory_give_back) struct mr_memory_lent *held = &lent;
    struct spng_ihdr ihdr;
    size_t n = (size_t)info->width * info->height;

    MR_TRY(begin(in, &ctx, &ihdr, err));
    int format = direct_format(info, &ihdr);
    if (format != 0) {
        return run(ctx, in, pixels, n * info->channels * (info->bits / 8), format, err);
    }
    bool deep = ihdr.bit_depth == 16;
    size_t bytes = n * 4 * (deep ? 2 : 1);
    MR_TRY(mr_memory_lend(bytes, held, err));
    four = mr_malloc(bytes);
    MR_CHECK_ALLOC(four, err);
    MR_TRY(run(ctx, in, four, bytes, deep ? SPNG_FMT_RGBA16 : SPNG_FMT_RGBA8, err));
    if (info->bits == 16) {
        (deep ? from16_to16 : from8_to16)(four, n, info->channels, pixels);
    } else {
        (deep ? from16_to8 : from8_to8)(four, n, info->channels, pixels);
    }
    return MR_OK;
}

const struct mr_image_codec mr_image_png = {"PNG", recognises, header, decode};

int mr_png_encode(const struct mr_image_info *info, const void *pixels, int level,
                  unsigned char **ret, size_t *size, mr_error *err)
{
    static const uint8_t types[5] = {0, SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA,
                                     SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
    struct spng_ihdr ihdr = {.width = info->width,
                             .height = info->height,
                             .bit_depth = (uint8_t)info->bits,
                             .color_type = types[info->channels]};
    size_t bytes = (size_t)info->width * info->height * info->channels * (info->bits / 8);
    struct mr_memory_lent lent = {0};
    MR_AUTO(mr_memory_give_back) struct mr_memory_lent *held = &lent;
    MR_AUTO(spng_ctx_free) spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    int rc;

    MR_CHECK_ALLOC(ctx, err);
    /* What is made is hardly larger than what it is made of, but may be nearly as large. */
    MR_TRY(mr_memory_lend(bytes, held, err));
    rc = spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
    rc = rc == 0 && level >= 0 ? spng_set_option(ctx, SPNG_IMG_COMPRESSION_LEVEL, level) : rc;
    rc = rc == 0 ? spng_set_ihdr(ctx, &ihdr) : rc;
    rc = rc == 0 ? spng_encode_image(ctx, pixels, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) : rc;
    void *made = rc == 0 ? spng_get_png_buffer(ctx, size, &rc) : NULL;
    if (made == NULL) {
        return refused(rc, err);
    }
    *ret = mr_memdup(made, *size);
    free(made);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}
