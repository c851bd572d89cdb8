#include "tables/bits.h"
#include "tables/parquet.h"
#include "tables/thrift.h"

#include "base/limits.h"

#include <zlib.h>

#define WINDOW (256u << 10)
#define HEADER_BYTES_MAX (16u << 20) /* statistics included */
#define HEADER_BYTES_USUAL 256u

enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 };

struct header {
    int32_t type;
    int32_t plain_size;
    int32_t size;
    bool has_crc;
    uint32_t crc;
    int32_t values;
    int32_t encoding;
    int32_t def_size; /* v2 */
    int32_t rep_size;
    bool compressed;
    int32_t def_encoding; /* v1; of levels that there are none of, writers say anything */
    int32_t rep_encoding;
};

int mr_parquet_pages_begin(struct mr_parquet_pages *p, const struct mr_table_input *in,
                           const struct mr_parquet_chunk *chunk, mr_error *err)
{
    static const int codecs[] = {MR_CODEC_NONE, MR_CODEC_SNAPPY, MR_CODEC_GZIP, -1, -1, -1,
                                 MR_CODEC_ZSTD, MR_CODEC_LZ4_RAW};
    static const char *const names[] = {"UNCOMPRESSED",      "SNAPPY", "GZIP",   "LZO", "BROTLI",
                                        "LZ4 (the old one)", "ZSTD",   "LZ4_RAW"};
    int64_t start = chunk->data_at;

    if (chunk->codec < 0 || chunk->codec > 7 || codecs[chunk->codec] < 0) {
        return mr_error_set(err, MR_EUNIMPL, "compression %s is not read",
                            chunk->codec >= 0 && chunk->codec <= 7 ? names[chunk->codec]
                                                                   : "of no known kind");
    }
    if (chunk->dictionary_at > 0 && chunk->dictionary_at < start) {
        start = chunk->dictionary_at;
    }
    if (start < 0 || chunk->bytes < 0 || (uint64_t)start > in->size ||
        (uint64_t)chunk->bytes > in->size - (uint64_t)start) {
        return mr_table_damaged(err, "its bytes lie outside of the file");
    }
    p->in = in;
    p->codec = (enum mr_codec)codecs[chunk->codec];
    p->offset = (uint64_t)start;
    p->end = (uint64_t)start + (uint64_t)chunk->bytes;
    return MR_OK;
}

void mr_parquet_pages_end(struct mr_parquet_pages *p)
{
    mr_buffer_unref(p->window);
    mr_buffer_unref(p->plain);
    *p = (struct mr_parquet_pages){0};
}

/* A buffer for @size bytes in *@b, whose first @keep bytes from @from on come along. */
static int make_room(mr_buffer **b, size_t size, size_t from, size_t keep, mr_error *err)
{
    mr_buffer *to = *b;

    if (to == NULL || mr_buffer_size(to) < size) {
        MR_TRY(mr_buffer_new(size, &to, err));
    }
    if (keep > 0) {
        memmove(mr_buffer_data(to), (char *)mr_buffer_data(*b) + from, keep);
    }
    if (to != *b) {
        mr_buffer_unref(*b);
        *b = to;
    }
    return MR_OK;
}

/* At least @n bytes in the window, of which the chunk has so many left. */
static int need(struct mr_parquet_pages *p, size_t n, mr_error *err)
{
    size_t have = p->filled - p->at;

    if (have >= n) {
        return MR_OK;
    }
    uint64_t left = p->end - p->offset;
    size_t size = MR_MAX(n, WINDOW);
    size = left < size - have ? have + (size_t)left : size;
    MR_TRY(make_room(&p->window, size, p->at, have, err));
    p->at = 0;
    p->filled = have;
    MR_TRY(p->in->read(p->in->ctx, p->offset, (char *)mr_buffer_data(p->window) + have, size - have,
                       err));
    p->offset += size - have;
    p->filled = size;
    return MR_OK;
}

static const unsigned char *window(const struct mr_parquet_pages *p)
{
    return (const unsigned char *)mr_buffer_data(p->window) + p->at;
}

static uint64_t bytes_left(const struct mr_parquet_pages *p)
{
    return p->end - p->offset + (p->filled - p->at);
}

static void page_kind(struct mr_thrift *t, struct header *h, bool v2)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        if (f.id == 1) {
            h->values = mr_thrift_int32(t, &f);
        } else if (f.id == (v2 ? 4 : 2)) {
            h->encoding = mr_thrift_int32(t, &f);
        } else if (v2 && f.id == 5) {
            h->def_size = mr_thrift_int32(t, &f);
        } else if (v2 && f.id == 6) {
            h->rep_size = mr_thrift_int32(t, &f);
        } else if (v2 && f.id == 7) {
            h->compressed = mr_thrift_bool(t, &f);
        } else if (!v2 && h->type == DATA_PAGE && f.id == 3) {
            h->def_encoding = mr_thrift_int32(t, &f);
        } else if (!v2 && h->type == DATA_PAGE && f.id == 4) {
            h->rep_encoding = mr_thrift_int32(t, &f);
        } else {
            mr_thrift_skip(t, &f);
        }
    }
}

static void parse_header(struct mr_thrift *t, struct header *h)
{
    struct mr_thrift_field f = {0};

    *h = (struct header){.type = -1, .compressed = true};
    while (mr_thrift_next(t, &f)) {
        if (f.id == 1) {
            h->type = mr_thrift_int32(t, &f);
        } else if (f.id == 2) {
            h->plain_size = mr_thrift_int32(t, &f);
        } else if (f.id == 3) {
            h->size = mr_thrift_int32(t, &f);
        } else if (f.id == 4) {
            h->has_crc = true;
            h->crc = (uint32_t)mr_thrift_int32(t, &f);
        } else if ((f.id == 5 || f.id == 7 || f.id == 8) && mr_thrift_struct(t, &f)) {
            page_kind(t, h, f.id == 8);
        } else {
            mr_thrift_skip(t, &f);
        }
    }
}

/* It has no length of its own: more is read until it is whole. */
static int read_header(struct mr_parquet_pages *p, struct header *h, mr_error *err)
{
    struct mr_thrift t;

    for (size_t some = HEADER_BYTES_USUAL;; some *= 4) {
        uint64_t left = bytes_left(p);
        size_t n = left < some ? (size_t)left : some;

        MR_TRY(need(p, n, err));
        mr_thrift_begin(&t, window(p), p->filled - p->at);
        parse_header(&t, h);
        if (!t.cut_short || p->filled - p->at == left || some >= HEADER_BYTES_MAX) {
            break;
        }
    }
    if (t.fault != NULL) {
        return mr_table_damaged(err, "the head of a page is damaged: %s", t.fault);
    }
    p->at += (size_t)(t.at - window(p));
    if (h->size < 0 || h->plain_size < 0 || h->values < 0 || (uint64_t)h->size > bytes_left(p)) {
        return mr_table_damaged(err, "a page of %d bytes, decompressed %d, of %d values", h->size,
                                h->plain_size, h->values);
    }
    return MR_OK;
}

static int decompress(struct mr_parquet_pages *p, const unsigned char *from, size_t size,
                      size_t plain_size, const unsigned char **ret, mr_error *err)
{
    if (p->codec == MR_CODEC_NONE) {
        *ret = from;
        return size == plain_size
                   ? MR_OK
                   : mr_table_damaged(err, "a page of %zu bytes should have %zu", size, plain_size);
    }
    if (plain_size > MR_ELEMENT_BYTES_MAX) {
        return mr_table_room(plain_size, err);
    }
    MR_TRY(make_room(&p->plain, plain_size + 8, 0, 0, err));
    *ret = mr_buffer_data(p->plain);
    return plain_size == 0
               ? MR_OK
               : mr_decompress(p->codec, from, size, mr_buffer_data(p->plain), plain_size, err);
}

/* Levels with their length in front of them. */
static int take_levels(struct mr_parquet_page *page, const unsigned char **ret, size_t *n,
                       mr_error *err)
{
    if (page->data_size < 4 || mr_load32(page->data) > page->data_size - 4) {
        return mr_table_damaged(err, "the levels of a page are longer than the page");
    }
    *n = mr_load32(page->data);
    *ret = page->data + 4;
    page->data += 4 + *n;
    page->data_size -= 4 + *n;
    return MR_OK;
}

static int page_v1(struct mr_parquet_pages *p, const struct header *h, bool rep, bool def,
                   struct mr_parquet_page *ret, mr_error *err)
{
    MR_TRY(decompress(p, window(p), (size_t)h->size, (size_t)h->plain_size, &ret->data, err));
    ret->data_size = (size_t)h->plain_size;
    if (h->type == DICTIONARY_PAGE) {
        return MR_OK;
    }
    if ((rep && h->rep_encoding != MR_ENCODING_RLE) ||
        (def && h->def_encoding != MR_ENCODING_RLE)) {
        return mr_error_set(err, MR_EUNIMPL, "levels in the old encoding (BIT_PACKED)");
    }
    if (rep) {
        MR_TRY(take_levels(ret, &ret->rep, &ret->rep_size, err));
    }
    return def ? take_levels(ret, &ret->def, &ret->def_size, err) : MR_OK;
}

/* Levels are not compressed, and without lengths of their own. */
static int page_v2(struct mr_parquet_pages *p, const struct header *h, struct mr_parquet_page *ret,
                   mr_error *err)
{
    if (h->rep_size < 0 || h->def_size < 0) {
        return mr_table_damaged(err, "levels of less than no bytes");
    }
    size_t levels = (size_t)h->rep_size + (size_t)h->def_size;
    if (levels > (size_t)h->size || levels > (size_t)h->plain_size) {
        return mr_table_damaged(err, "the levels of a page are longer than the page");
    }
    const unsigned char *at = window(p);
    ret->rep = at;
    ret->rep_size = (size_t)h->rep_size;
    ret->def = at + h->rep_size;
    ret->def_size = (size_t)h->def_size;
    ret->data_size = (size_t)h->plain_size - levels;
    if (h->compressed) {
        return decompress(p, at + levels, (size_t)h->size - levels, ret->data_size, &ret->data,
                          err);
    }
    ret->data = at + levels;
    return ret->data_size == (size_t)h->size - levels
               ? MR_OK
               : mr_table_damaged(err, "a page of %d bytes should have %d", h->size, h->plain_size);
}

static int check_crc(const struct mr_parquet_pages *p, const struct header *h, mr_error *err)
{
    if (h->has_crc && crc32(0, window(p), (unsigned)h->size) != h->crc) {
        return mr_table_damaged(err, "the checksum of a page is wrong");
    }
    return MR_OK;
}

int mr_parquet_next_page(struct mr_parquet_pages *p, bool rep, bool def,
                         struct mr_parquet_page *ret, mr_error *err)
{
    while (bytes_left(p) > 0) {
        struct header h;
        int rc = MR_OK;

        MR_TRY(read_header(p, &h, err));
        MR_TRY(need(p, (size_t)h.size, err));
        *ret = (struct mr_parquet_page){.dictionary = h.type == DICTIONARY_PAGE,
                                        .encoding = h.encoding,
                                        .values = (uint32_t)h.values};
        bool data = h.type == DATA_PAGE || h.type == DATA_PAGE_V2;
        if (data || ret->dictionary) {
            rc = check_crc(p, &h, err);
        }
        if (rc == MR_OK && h.type == DATA_PAGE_V2) {
            rc = page_v2(p, &h, ret, err);
        } else if (rc == MR_OK && (data || ret->dictionary)) {
            rc = page_v1(p, &h, rep, def, ret, err);
        }
        p->at += (size_t)h.size;
        if (rc != MR_OK) {
            return rc;
        }
        if (ret->dictionary || (data && ret->values > 0)) {
            return MR_OK;
        }
    }
    return MR_END;
}
