/*
 * How blocks of saved datasets are compressed, each by itself. Threads: pure.
 */
#pragma once

#include "element/buffer.h"

/* Stored: never renumber. */
enum mr_saved_codec {
    MR_SAVED_PLAIN = 0,
    MR_SAVED_GZIP = 1, /* deflate, as zlib frames it */
    MR_SAVED_ZSTD = 2,
    MR_SAVED_LZ4 = 3,
    MR_SAVED_SNAPPY = 4,
    MR_SAVED_CODECS
};

/* "" (NULL too), "GZIP", "ZSTD", "LZ4", "SNAPPY"; "AUTO" is LZ4. MR_EINVAL names what else it
 * is. */
int mr_saved_codec_parse(const char *name, enum mr_saved_codec *ret, mr_error *err);
const char *mr_saved_codec_name(enum mr_saved_codec codec);

/* @size bytes at @p, compressed: the first *@n bytes of *@ret. *@n = 0, without a buffer: they do
 * not become fewer. */
int mr_saved_codec_compress(enum mr_saved_codec codec, const void *p, size_t size, mr_buffer **ret,
                            size_t *n, mr_error *err);
/* @size bytes at @p, which must be @plain bytes when expanded: MR_EDATALOSS otherwise. */
int mr_saved_codec_expand(enum mr_saved_codec codec, const void *p, size_t size, size_t plain,
                          mr_buffer **ret, mr_error *err);
