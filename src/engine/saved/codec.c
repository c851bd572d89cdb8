#include "engine/saved/codec.h"

#include "base/limits.h"

#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#define ZSTD_LEVEL 1
#define GZIP_LEVEL 6

static const char *const names[MR_CODECS] = {[MR_CODEC_NONE] = "",
                                             [MR_CODEC_GZIP] = "GZIP",
                                             [MR_CODEC_ZSTD] = "ZSTD",
                                             [MR_CODEC_LZ4] = "LZ4"};

int mr_codec_parse(const char *name, enum mr_codec *ret, mr_error *err)
{
    if (name == NULL) {
        name = "";
    }
    for (int i = 0; i < MR_CODECS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum mr_codec)i;
            return MR_OK;
        }
    }
    if (strcmp(name, "AUTO") == 0) {
        *ret = MR_CODEC_LZ4;
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EINVAL,
        "'%s' is not a compression: \"\", \"AUTO\", \"GZIP\", \"LZ4\" and \"ZSTD\" are",
        MR_SHOWN(name));
}

const char *mr_codec_name(enum mr_codec codec)
{
    return names[codec];
}

/* Into @room bytes at @to: how many; 0 if they do not fit. */
static size_t compress_into(enum mr_codec codec, const void *p, size_t size, void *to, size_t room)
{
    if (codec == MR_CODEC_ZSTD) {
        size_t n = ZSTD_compress(to, room, p, size, ZSTD_LEVEL);

        return ZSTD_isError(n) ? 0 : n;
    }
    if (codec == MR_CODEC_GZIP) {
        uLongf n = room;

        return compress2(to, &n, p, size, GZIP_LEVEL) == Z_OK ? n : 0;
    }
    if (size > LZ4_MAX_INPUT_SIZE) {
        return 0;
    }
    int n = LZ4_compress_default(p, to, (int)size, (int)room);
    return n > 0 ? (size_t)n : 0;
}

int mr_codec_compress(enum mr_codec codec, const void *p, size_t size, mr_buffer **ret, size_t *n,
                      mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *to = NULL;

    *n = 0;
    if (codec == MR_CODEC_NONE || size < 2) {
        return MR_OK;
    }
    MR_TRY(mr_buffer_new(size - 1, &to, err));
    *n = compress_into(codec, p, size, mr_buffer_data(to), size - 1);
    *ret = *n > 0 ? MR_TAKE(to) : NULL;
    return MR_OK;
}

static bool expand_into(enum mr_codec codec, const void *p, size_t size, void *to, size_t plain)
{
    if (codec == MR_CODEC_ZSTD) {
        size_t n = ZSTD_decompress(to, plain, p, size);

        return !ZSTD_isError(n) && n == plain;
    }
    if (codec == MR_CODEC_GZIP) {
        uLongf n = plain;
        uLong used = size;

        return uncompress2(to, &n, p, &used) == Z_OK && n == plain && used == size;
    }
    return size <= INT32_MAX && plain <= INT32_MAX &&
           LZ4_decompress_safe(p, to, (int)size, (int)plain) == (int)plain;
}

int mr_codec_expand(enum mr_codec codec, const void *p, size_t size, size_t plain, mr_buffer **ret,
                    mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *to = NULL;

    MR_TRY(mr_buffer_new(plain, &to, err));
    if (!expand_into(codec, p, size, mr_buffer_data(to), plain)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "%zu bytes do not expand (%s) to the %zu that they should", size,
                            names[codec], plain);
    }
    *ret = MR_TAKE(to);
    return MR_OK;
}
