/* Decompression of pieces whose size is known: what pages and buffers of tables are compressed
 * with. Threads: any. */
#pragma once

#include "base/base.h"

enum mr_codec {
    MR_CODEC_NONE,
    MR_CODEC_SNAPPY,
    MR_CODEC_GZIP, /* also zlib's own header */
    MR_CODEC_ZSTD,
    MR_CODEC_LZ4_RAW,
    MR_CODEC_LZ4_FRAME,
};

/* MR_EDATALOSS unless @from is exactly @to_size bytes compressed. */
int mr_decompress(enum mr_codec codec, const void *from, size_t size, void *to, size_t to_size,
                  mr_error *err);
