/* Windows bitmaps without compression, of 8 (grey), 24 or 32 bits a pixel: what TensorFlow
 * reads. */
#include "image/image.h"

#define HEADER_BYTES 54u

static bool recognises(struct mr_bytes in)
{
    return in.size >= 2 && in.data[0] == 'B' && in.data[1] == 'M';
}

static uint32_t u32(struct mr_bytes in, size_t at)
{
    const unsigned char *p = in.data + at;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct bitmap {
    size_t first; /* byte of the pixels */
    size_t line;  /* bytes, a multiple of 4 */
    bool upwards;
};

/* The height may be negative: from top to bottom. */
static int read_header(struct mr_bytes in, const struct mr_image_request *want, struct bitmap *b,
                       struct mr_image_info *info, mr_error *err)
{
    if (in.size < HEADER_BYTES) {
        return mr_error_set(err, MR_EINVAL, "BMP: %zu bytes, the header alone has %u", in.size,
                            HEADER_BYTES);
    }
    int32_t width = (int32_t)u32(in, 18);
    int32_t height = (int32_t)u32(in, 22);
    uint32_t bits = (uint32_t)in.data[28] | (uint32_t)in.data[29] << 8;
    uint32_t channels = bits / 8;
    if (bits != 8 && bits != 24 && bits != 32) {
        return mr_error_set(err, MR_EINVAL, "BMP: %u bits a pixel; 8, 24 and 32 are read", bits);
    }
    if (width < 0 || height == INT32_MIN) {
        return mr_error_set(err, MR_EINVAL, "BMP: the header is damaged");
    }
    MR_TRY(mr_image_channels("BMP", want->channels, 1u << 0 | 1u << channels, err));
    b->upwards = height > 0;
    height = height < 0 ? -height : height;
    MR_TRY(mr_image_check_size("BMP", (uint64_t)width, (uint64_t)height, channels, err));
    b->first = u32(in, 10);
    b->line = ((size_t)width * channels + 3) / 4 * 4;
    if (b->first > in.size || (in.size - b->first) / b->line < (size_t)height - 1 ||
        in.size - b->first - b->line * ((size_t)height - 1) < (size_t)width * channels) {
        return mr_error_set(err, MR_EINVAL,
                            "BMP: %zu bytes, which is less than %d x %d pixels take", in.size,
                            width, height);
    }
    *info = (struct mr_image_info){
        .height = (uint32_t)height, .width = (uint32_t)width, .channels = channels, .bits = 8};
    return MR_OK;
}

static int header(struct mr_bytes in, const struct mr_image_request *want,
                  struct mr_image_info *ret, mr_error *err)
{
    struct bitmap b;

    return read_header(in, want, &b, ret, err);
}

/* Blue, green, red (, alpha) in the file. */
static void copy_line(const unsigned char *from, uint32_t n, uint32_t channels, unsigned char *to)
{
    if (channels == 1) {
        memcpy(to, from, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++, from += channels, to += channels) {
        to[0] = from[2];
        to[1] = from[1];
        to[2] = from[0];
        if (channels == 4) {
            to[3] = from[3];
        }
    }
}

static int decode(struct mr_bytes in, const struct mr_image_request *want,
                  const struct mr_image_info *info, void *pixels, mr_error *err)
{
    struct mr_image_info again;
    struct bitmap b;
    unsigned char *to = pixels;

    MR_TRY(read_header(in, want, &b, &again, err));
    for (uint32_t y = 0; y < info->height; y++) {
        uint32_t line = b.upwards ? info->height - 1 - y : y;

        copy_line(in.data + b.first + line * b.line, info->width, info->channels, to);
        to += (size_t)info->width * info->channels;
    }
    return MR_OK;
}

const struct mr_image_codec mr_image_bmp = {"BMP", recognises, header, decode};
