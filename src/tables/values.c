#include "tables/values.h"

#include "tables/bits.h"
#include "tables/delta.h"
#include "tables/table.h"

#define SHORT 16u /* bytes of a string that is copied as a whole, with what is behind it */

static int too_few(mr_error *err)
{
    return mr_table_damaged(err, "a page has fewer values than it should have");
}

/* ---- dictionaries ---- */

int mr_dictionary_read(struct mr_dictionary *d, struct mr_physical_type type, const void *p,
                       size_t size, size_t n, mr_error *err)
{
    struct mr_values v = {0};
    bool bytes = type.kind == MR_PHYSICAL_BYTES;

    mr_dictionary_free(d);
    mr_sink_begin(&d->values, bytes ? MR_SINK_BYTES : MR_SINK_FIXED, type.width);
    if (type.kind == MR_PHYSICAL_BOOL || n > size / (bytes ? 4 : type.width)) {
        return mr_table_damaged(err, "a dictionary of %zu bytes cannot have %zu values", size, n);
    }
    MR_TRY(mr_values_begin(&v, type, MR_ENCODING_PLAIN, p, size, n, NULL, err));
    MR_TRY(mr_sink_reserve(&d->values, n, err));
    if (bytes) {
        MR_TRY(mr_values_bytes(&v, &d->values, n, err));
        MR_TRY(mr_sink_reserve_bytes(&d->values, SHORT, err)); /* behind the last, for put() */
    } else {
        MR_TRY(mr_values_fixed(&v, d->values.data, n, err));
    }
    d->n = n;
    return MR_OK;
}

void mr_dictionary_free(struct mr_dictionary *d)
{
    mr_sink_free(&d->values);
    d->n = 0;
}

/* ---- beginning ---- */

static int begin_dictionary(struct mr_values *v, mr_error *err)
{
    if (v->dictionary == NULL) {
        return mr_table_damaged(err, "a page wants a dictionary that is not there");
    }
    if (v->at == v->end) { /* of no values */
        return MR_OK;
    }
    unsigned width = *v->at++;
    return mr_rle_begin(&v->rle, v->at, (size_t)(v->end - v->at), width)
               ? MR_OK
               : mr_table_damaged(err, "indices of %u bits", width);
}

/* Numbers, and where they end. */
static int begin_delta(struct mr_values *v, size_t most, mr_buffer **ret, mr_error *err)
{
    size_t used = 0;
    size_t n = 0;

    MR_TRY(mr_delta_read(v->at, (size_t)(v->end - v->at), most, ret, &n, &used, err));
    v->at += used;
    v->count = n;
    return MR_OK;
}

/* Strings of which each begins as the one before: so many bytes, and then its own. */
static int begin_delta_bytes(struct mr_values *v, size_t most, mr_error *err)
{
    MR_TRY(begin_delta(v, most, &v->prefixes, err));
    size_t prefixes = v->count;

    MR_TRY(begin_delta(v, most, &v->numbers, err));
    v->last.memory = mr_memory_current();
    return v->count == prefixes
               ? MR_OK
               : mr_table_damaged(err, "%zu lengths for %zu strings", v->count, prefixes);
}

static int begin_rle(struct mr_values *v, mr_error *err)
{
    size_t size = (size_t)(v->end - v->at);

    if (size < 4 || mr_load32(v->at) > size - 4) {
        return too_few(err);
    }
    (void)mr_rle_begin(&v->rle, v->at + 4, mr_load32(v->at), 1);
    return MR_OK;
}

static bool is_allowed(const struct mr_values *v)
{
    enum mr_physical kind = v->type.kind;
    bool bytes = kind == MR_PHYSICAL_BYTES;

    switch (v->encoding) {
    case MR_ENCODING_PLAIN: return true;
    case MR_ENCODING_PLAIN_DICTIONARY:
    case MR_ENCODING_DICTIONARY: return kind != MR_PHYSICAL_BOOL;
    case MR_ENCODING_RLE: return kind == MR_PHYSICAL_BOOL;
    case MR_ENCODING_DELTA: return kind == MR_PHYSICAL_INT32 || kind == MR_PHYSICAL_INT64;
    case MR_ENCODING_DELTA_LENGTH: return bytes;
    case MR_ENCODING_DELTA_BYTES: return bytes || kind == MR_PHYSICAL_FIXED;
    case MR_ENCODING_STREAM_SPLIT:
        return !bytes && kind != MR_PHYSICAL_BOOL && kind != MR_PHYSICAL_INT96;
    }
    return false;
}

int mr_values_begin(struct mr_values *v, struct mr_physical_type type, int encoding,
                    const unsigned char *p, size_t size, size_t most,
                    const struct mr_dictionary *dictionary, mr_error *err)
{
    mr_values_end(v);
    v->type = type;
    v->encoding = (enum mr_encoding)encoding;
    v->at = p;
    v->end = p + size;
    v->dictionary = dictionary;
    if (encoding < 0 || !is_allowed(v)) {
        return mr_error_set(err, MR_EUNIMPL, "encoding %d of such values is not read", encoding);
    }
    switch (v->encoding) {
    case MR_ENCODING_PLAIN_DICTIONARY:
    case MR_ENCODING_DICTIONARY: return begin_dictionary(v, err);
    case MR_ENCODING_RLE: return begin_rle(v, err);
    case MR_ENCODING_DELTA:
    case MR_ENCODING_DELTA_LENGTH: return begin_delta(v, most, &v->numbers, err);
    case MR_ENCODING_DELTA_BYTES: return begin_delta_bytes(v, most, err);
    case MR_ENCODING_STREAM_SPLIT: v->count = size / type.width; return MR_OK;
    case MR_ENCODING_PLAIN: break;
    }
    return MR_OK;
}

void mr_values_end(struct mr_values *v)
{
    mr_buffer_unref(v->numbers);
    mr_buffer_unref(v->prefixes);
    mr_buf_free(&v->last);
    *v = (struct mr_values){0};
}

/* ---- values of one width ---- */

static void copy_value(unsigned char *to, const unsigned char *from, size_t width)
{
    switch (width) {
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, width); break;
    }
}

/* Indices into the dictionary, which are not checked. 0: there are none, or no value has them. */
static uint32_t indices(struct mr_values *v, size_t n, uint32_t buf[MR_RLE_CHUNK], bool *repeated)
{
    uint32_t most = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    uint32_t got = mr_rle_next(&v->rle, most, buf, repeated);
    uint32_t largest = 0;

    for (uint32_t i = 0; i < (*repeated ? 1 : got); i++) {
        largest = MR_MAX(largest, buf[i]);
    }
    return got > 0 && largest < v->dictionary->n ? got : 0;
}

#define GATHER(size)                                                                               \
    for (uint32_t i = 0; i < got; i++) {                                                           \
        memcpy(out + (size_t)i * (size), from + (size_t)buf[repeated ? 0 : i] * (size), (size));   \
    }

static int fixed_of_dictionary(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    const unsigned char *from = v->dictionary->values.data;
    size_t width = v->type.width;

    while (n > 0) {
        uint32_t buf[MR_RLE_CHUNK];
        bool repeated = false;
        uint32_t got = indices(v, n, buf, &repeated);

        if (got == 0) {
            return mr_table_damaged(err, "an index that the dictionary does not have");
        }
        if (width == 4) {
            GATHER(4)
        } else if (width == 8) {
            GATHER(8)
        } else {
            GATHER(width)
        }
        out += got * width;
        n -= got;
    }
    return MR_OK;
}

static int plain_bools(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    if (v->next + n > (size_t)(v->end - v->at) * 8) {
        return too_few(err);
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = mr_bit(v->at, v->next + i);
    }
    v->next += n;
    return MR_OK;
}

static int rle_bools(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    while (n > 0) {
        uint32_t buf[MR_RLE_CHUNK];
        bool repeated = false;
        uint32_t got =
            mr_rle_next(&v->rle, n < UINT32_MAX ? (uint32_t)n : UINT32_MAX, buf, &repeated);

        if (got == 0) {
            return too_few(err);
        }
        for (uint32_t i = 0; i < got; i++) {
            out[i] = buf[repeated ? 0 : i] != 0;
        }
        out += got;
        n -= got;
    }
    return MR_OK;
}

static const int64_t *numbers_of(const mr_buffer *b)
{
    return mr_buffer_data(b);
}

static int delta_fixed(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    if (n > v->count - v->next) {
        return too_few(err);
    }
    const int64_t *numbers = numbers_of(v->numbers);
    for (size_t i = 0; i < n; i++) {
        copy_value(out + i * v->type.width, (const unsigned char *)&numbers[v->next + i],
                   v->type.width);
    }
    v->next += n;
    return MR_OK;
}

static int split_fixed(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    if (n > v->count - v->next) {
        return too_few(err);
    }
    for (size_t b = 0; b < v->type.width; b++) {
        const unsigned char *stream = v->at + b * v->count + v->next;

        for (size_t i = 0; i < n; i++) {
            out[i * v->type.width + b] = stream[i];
        }
    }
    v->next += n;
    return MR_OK;
}

/* The next value of DELTA_BYTES in `last`. */
static int next_delta_bytes(struct mr_values *v, mr_error *err)
{
    if (v->next == v->count) {
        return too_few(err);
    }
    int64_t prefix = numbers_of(v->prefixes)[v->next];
    int64_t size = numbers_of(v->numbers)[v->next];
    if (prefix < 0 || (uint64_t)prefix > v->last.len || size < 0 || size > v->end - v->at) {
        return mr_table_damaged(err, "the length of a string is out of range");
    }
    v->last.len = (size_t)prefix;
    mr_buf_append(&v->last, v->at, (size_t)size);
    v->at += size;
    v->next++;
    return v->last.failed ? mr_buf_error(&v->last, err) : MR_OK;
}

static int delta_bytes_fixed(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        MR_TRY(next_delta_bytes(v, err));
        if (v->last.len != v->type.width) {
            return mr_table_damaged(err, "a value of %zu bytes instead of %zu", v->last.len,
                                    v->type.width);
        }
        memcpy(out + i * v->type.width, v->last.data, v->type.width);
    }
    return MR_OK;
}

static int plain_fixed(struct mr_values *v, unsigned char *out, size_t n, mr_error *err)
{
    if (v->type.kind == MR_PHYSICAL_BOOL) {
        return plain_bools(v, out, n, err);
    }
    if (n > (size_t)(v->end - v->at) / v->type.width) {
        return too_few(err);
    }
    memcpy(out, v->at, n * v->type.width);
    v->at += n * v->type.width;
    return MR_OK;
}

int mr_values_fixed(struct mr_values *v, void *to, size_t n, mr_error *err)
{
    if (n == 0) {
        return MR_OK;
    }
    switch (v->encoding) {
    case MR_ENCODING_PLAIN: return plain_fixed(v, to, n, err);
    case MR_ENCODING_PLAIN_DICTIONARY:
    case MR_ENCODING_DICTIONARY: return fixed_of_dictionary(v, to, n, err);
    case MR_ENCODING_RLE: return rle_bools(v, to, n, err);
    case MR_ENCODING_DELTA: return delta_fixed(v, to, n, err);
    case MR_ENCODING_STREAM_SPLIT: return split_fixed(v, to, n, err);
    case MR_ENCODING_DELTA_BYTES: return delta_bytes_fixed(v, to, n, err);
    case MR_ENCODING_DELTA_LENGTH: break;
    }
    return too_few(err); /* mr_values_begin() has refused it */
}

/* ---- strings ---- */

/* Room for @size more bytes, and for SHORT behind them, which copies of short strings may touch. */
static int reserve(struct mr_sink *to, uint64_t size, mr_error *err)
{
    return mr_sink_reserve_bytes(to, (size_t)size + SHORT, err);
}

/* There is room; @slack: behind the string lie SHORT bytes that may be read, too. */
static void put(struct mr_sink *to, size_t i, const unsigned char *p, size_t size, bool slack)
{
    int64_t end = to->offsets[i];

    if (slack && size <= SHORT) {
        memcpy(to->data + end, p, SHORT);
    } else if (size > 0) {
        memcpy(to->data + end, p, size);
    }
    to->offsets[i + 1] = end + (int64_t)size;
}

static int append(struct mr_sink *to, const void *p, size_t size, mr_error *err)
{
    MR_TRY(reserve(to, size, err));
    put(to, to->n, p, size, false);
    mr_sink_add_valid(to, 1);
    return MR_OK;
}

/* The length of the next string, which the page has; SIZE_MAX: it has not. */
static size_t plain_length(const unsigned char *at, const unsigned char *end)
{
    size_t left = (size_t)(end - at);

    return left < 4 || mr_load32(at) > left - 4 ? SIZE_MAX : mr_load32(at);
}

static int plain_bytes(struct mr_values *v, struct mr_sink *to, size_t n, mr_error *err)
{
    const unsigned char *at = v->at;
    uint64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        size_t size = plain_length(at, v->end);

        if (size == SIZE_MAX) {
            return mr_table_damaged(err, "a string is longer than its page");
        }
        total += size;
        at += 4 + size;
    }
    MR_TRY(reserve(to, total, err));
    for (size_t i = 0; i < n; i++) {
        size_t size = mr_load32(v->at);

        put(to, to->n + i, v->at + 4, size, v->end - v->at >= (ptrdiff_t)(4 + SHORT));
        v->at += 4 + size;
    }
    mr_sink_add_valid(to, n);
    return MR_OK;
}

/* Strings buf[0], buf[1], ... of the dictionary; *@repeated: all are buf[0]. */
static int strings_of_dictionary(const struct mr_sink *from, const uint32_t *buf, uint32_t n,
                                 bool repeated, struct mr_sink *to, mr_error *err)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < n; i++) {
        const int64_t *at = from->offsets + buf[repeated ? 0 : i];

        total += (uint64_t)(at[1] - at[0]);
    }
    MR_TRY(reserve(to, total, err));
    for (uint32_t i = 0; i < n; i++) {
        const int64_t *at = from->offsets + buf[repeated ? 0 : i];

        put(to, to->n + i, from->data + at[0], (size_t)(at[1] - at[0]), true);
    }
    mr_sink_add_valid(to, n);
    return MR_OK;
}

static int bytes_of_dictionary(struct mr_values *v, struct mr_sink *to, size_t n, mr_error *err)
{
    while (n > 0) {
        uint32_t buf[MR_RLE_CHUNK];
        bool repeated = false;
        uint32_t got = indices(v, n, buf, &repeated);

        if (got == 0) {
            return mr_table_damaged(err, "an index that the dictionary does not have");
        }
        MR_TRY(strings_of_dictionary(&v->dictionary->values, buf, got, repeated, to, err));
        n -= got;
    }
    return MR_OK;
}

static int delta_length_bytes(struct mr_values *v, struct mr_sink *to, size_t n, mr_error *err)
{
    if (n > v->count - v->next) {
        return too_few(err);
    }
    for (size_t i = 0; i < n; i++) {
        int64_t size = numbers_of(v->numbers)[v->next];

        if (size < 0 || size > v->end - v->at) {
            return mr_table_damaged(err, "the length of a string is out of range");
        }
        MR_TRY(append(to, v->at, (size_t)size, err));
        v->at += size;
        v->next++;
    }
    return MR_OK;
}

int mr_values_bytes(struct mr_values *v, struct mr_sink *to, size_t n, mr_error *err)
{
    if (v->encoding == MR_ENCODING_PLAIN) {
        return plain_bytes(v, to, n, err);
    }
    if (v->encoding == MR_ENCODING_DELTA_LENGTH) {
        return delta_length_bytes(v, to, n, err);
    }
    if (v->encoding != MR_ENCODING_DELTA_BYTES) {
        return bytes_of_dictionary(v, to, n, err);
    }
    for (size_t i = 0; i < n; i++) {
        MR_TRY(next_delta_bytes(v, err));
        MR_TRY(append(to, v->last.data, v->last.len, err));
    }
    return MR_OK;
}
