#include "engine/saved/codec.h"

#include "tables/codec.h"

#include <lz4.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#define ZSTD_LEVEL 1
#define GZIP_LEVEL 6

static const char *const names[MR_SAVED_CODECS] = {[MR_SAVED_PLAIN] = "",
                                                   [MR_SAVED_GZIP] = "GZIP",
                                                   [MR_SAVED_ZSTD] = "ZSTD",
                                                   [MR_SAVED_LZ4] = "LZ4",
                                                   [MR_SAVED_SNAPPY] = "SNAPPY"};

int mr_saved_codec_parse(const char *name, enum mr_saved_codec *ret, mr_error *err)
{
    if (name == NULL) {
        name = "";
    }
    for (int i = 0; i < MR_SAVED_CODECS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum mr_saved_codec)i;
            return MR_OK;
        }
    }
    if (strcmp(name, "AUTO") == 0) {
        *ret = MR_SAVED_LZ4;
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL,
                        "'%s' is not a compression: \"\", \"AUTO\", \"GZIP\", \"LZ4\", "
                        "\"SNAPPY\" and \"ZSTD\" are",
                        MR_SHOWN(name));
}

const char *mr_saved_codec_name(enum mr_saved_codec codec)
{
    return names[codec];
}

/* Into @room bytes at @to: how many; 0 if they do not fit. */
static size_t compress_into(enum mr_saved_codec codec, const void *p, size_t size, void *to,
                            size_t room)
{
    if (codec == MR_SAVED_ZSTD) {
        size_t n = ZSTD_compress(to, room, p, size, ZSTD_LEVEL);

        return ZSTD_isError(n) ? 0 : n;
    }
    if (codec == MR_SAVED_GZIP) {
        uLongf n = room;

        return compress2(to, &n, p, size, GZIP_LEVEL) == Z_OK ? n : 0;
    }
    if (codec == MR_SAVED_SNAPPY) {
        size_t n = room; /* at least so many that it never runs over */

        return snappy_compress(p, size, to, &n) == SNAPPY_OK && n < size ? n : 0;
    }
    if (size > LZ4_MAX_INPUT_SIZE) {
        return 0;
    }
    int n = LZ4_compress_default(p, to, (int)size, (int)room);
    return n > 0 ? (size_t)n : 0;
}

int mr_saved_codec_compress(enum mr_saved_codec codec, const void *p, size_t size, mr_buffer **ret,
                            size_t *n, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *to = NULL;

    *n = 0;
    if (codec == MR_SAVED_PLAIN || size < 2) {
        return MR_OK;
    }
    size_t room = codec == MR_SAVED_SNAPPY ? snappy_max_compressed_length(size) : size - 1;
    MR_TRY(mr_buffer_new(room, &to, err));
    *n = compress_into(codec, p, size, mr_buffer_data(to), room);
    *ret = *n > 0 ? MR_TAKE(to) : NULL;
    return MR_OK;
}

int mr_saved_codec_expand(enum mr_saved_codec codec, const void *p, size_t size, size_t plain,
                          mr_buffer **ret, mr_error *err)
{
    static const enum mr_codec codecs[MR_SAVED_CODECS] = {[MR_SAVED_PLAIN] = MR_CODEC_NONE,
                                                          [MR_SAVED_GZIP] = MR_CODEC_GZIP,
                                                          [MR_SAVED_ZSTD] = MR_CODEC_ZSTD,
                                                          [MR_SAVED_LZ4] = MR_CODEC_LZ4_RAW,
                                                          [MR_SAVED_SNAPPY] = MR_CODEC_SNAPPY};
    MR_AUTO(mr_buffer_unref) mr_buffer *to = NULL;

    MR_TRY(mr_buffer_new(plain, &to, err));
    MR_TRY(mr_decompress(codecs[codec], p, size, mr_buffer_data(to), plain, err));
    *ret = MR_TAKE(to);
    return MR_OK;
}
