#include "tables/codec.h"

#include <limits.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

static bool inflate_all(const void *from, size_t size, void *to, size_t to_size)
{
    z_stream z = {0};
    int rc = Z_OK;

    if (size > UINT_MAX || to_size > UINT_MAX || inflateInit2(&z, 15 + 32) != Z_OK) {
        return false;
    }
    z.next_in = (Bytef *)(uintptr_t)from;
    z.avail_in = (unsigned)size;
    z.next_out = to;
    z.avail_out = (unsigned)to_size;
    while (rc == Z_OK) { /* a file of GZIP may be several behind one another */
        rc = inflate(&z, Z_FINISH);
        if (rc == Z_STREAM_END && z.avail_in > 0 && z.avail_out > 0) {
            rc = inflateReset(&z);
        }
    }
    (void)inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_out == 0;
}

static bool lz4_frame(const void *from, size_t size, void *to, size_t to_size)
{
    LZ4F_dctx *ctx = NULL;
    size_t in = 0;
    size_t out = 0;
    size_t left = 1;

    if (LZ4F_isError(LZ4F_createDecompressionContext(&ctx, LZ4F_VERSION))) {
        return false;
    }
    while (left != 0 && !LZ4F_isError(left)) {
        size_t read = size - in;
        size_t wrote = to_size - out;

        left = LZ4F_decompress(ctx, (char *)to + out, &wrote, (const char *)from + in, &read, NULL);
        in += read;
        out += wrote;
        if (read == 0 && wrote == 0) {
            break;
        }
    }
    (void)LZ4F_freeDecompressionContext(ctx);
    return left == 0 && out == to_size;
}

static bool lz4_raw(const void *from, size_t size, void *to, size_t to_size)
{
    return size <= INT_MAX && to_size <= INT_MAX &&
           LZ4_decompress_safe(from, to, (int)size, (int)to_size) == (int)to_size;
}

static bool snappy(const void *from, size_t size, void *to, size_t to_size)
{
    size_t length = 0;

    return snappy_uncompressed_length(from, size, &length) == SNAPPY_OK && length == to_size &&
           snappy_uncompress(from, size, to, &length) == SNAPPY_OK && length == to_size;
}

int mr_decompress(enum mr_codec codec, const void *from, size_t size, void *to, size_t to_size,
                  mr_error *err)
{
    bool ok = false;

    switch (codec) {
    case MR_CODEC_NONE:
        ok = size == to_size;
        if (ok && size > 0) {
            memcpy(to, from, size);
        }
        break;
    case MR_CODEC_SNAPPY: ok = snappy(from, size, to, to_size); break;
    case MR_CODEC_GZIP: ok = inflate_all(from, size, to, to_size); break;
    case MR_CODEC_ZSTD: {
        size_t n = ZSTD_decompress(to, to_size, from, size);

        ok = !ZSTD_isError(n) && n == to_size;
        break;
    }
    case MR_CODEC_LZ4_RAW: ok = lz4_raw(from, size, to, to_size); break;
    case MR_CODEC_LZ4_FRAME: ok = lz4_frame(from, size, to, to_size); break;
    }
    return ok ? MR_OK
              : mr_error_set(err, MR_EDATALOSS,
                             "%zu compressed bytes are not the %zu bytes that they should be", size,
                             to_size);
}
