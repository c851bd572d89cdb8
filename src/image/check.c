/* What all codecs check. */
#include "base/limits.h"
#include "image/image.h"

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
