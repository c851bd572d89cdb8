#include "tables/delta.h"

#include "tables/bits.h"
#include "tables/table.h"

#define BLOCK_VALUES_MAX 65536u

struct delta {
    const unsigned char *at;
    const unsigned char *end;
    bool bad;
    uint64_t per_block;
    uint64_t minis;
    uint64_t per_mini;
};

static uint64_t varint(struct delta *d)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64 && d->at < d->end; shift += 7) {
        uint8_t b = *d->at++;

        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            return v;
        }
    }
    d->bad = true;
    return 0;
}

static uint64_t zigzag(struct delta *d)
{
    uint64_t v = varint(d);

    return (v >> 1) ^ -(v & 1);
}

/* Value @i of @width bits, up to 64, of the @size bytes at @p. */
static uint64_t unpack(const unsigned char *p, size_t size, uint64_t i, unsigned width)
{
    uint64_t bit = i * width;
    size_t at = bit / 8;
    unsigned shift = bit % 8;
    uint64_t v = at + 8 <= size ? mr_load64(p + at) : mr_load_some(p + at, size - at);

    v >>= shift;
    if (shift + width > 64) {
        v |= (uint64_t)p[at + 8] << (64 - shift);
    }
    return width == 64 ? v : v & ((UINT64_C(1) << width) - 1);
}

/* Up to @n values of a miniblock behind @last, which is kept up. Each begins with the next byte. */
static void miniblock(struct delta *d, unsigned width, uint64_t least, uint64_t *last, int64_t *to,
                      uint64_t n)
{
    size_t size = (size_t)(d->per_mini * width / 8);

    if (width > 64 || size > (size_t)(d->end - d->at)) {
        d->bad = true;
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        *last += least + (width == 0 ? 0 : unpack(d->at, size, i, width));
        to[i] = (int64_t)*last;
    }
    d->at += size;
}

/* Behind the last value miniblocks have no bytes. */
static uint64_t block(struct delta *d, uint64_t *last, int64_t *to, uint64_t left)
{
    uint64_t least = zigzag(d);
    const unsigned char *widths = d->at;
    uint64_t done = 0;

    if (d->bad || d->minis > (uint64_t)(d->end - d->at)) {
        d->bad = true;
        return 0;
    }
    d->at += d->minis;
    for (uint64_t m = 0; m < d->minis && done < left && !d->bad; m++) {
        uint64_t n = MR_MIN(left - done, d->per_mini);

        miniblock(d, widths[m], least, last, to + done, n);
        done += n;
    }
    return done;
}

int mr_delta_read(const unsigned char *p, size_t size, uint64_t most, mr_buffer **ret, size_t *n,
                  size_t *used, mr_error *err)
{
    struct delta d = {.at = p, .end = p + size};

    d.per_block = varint(&d);
    d.minis = varint(&d);
    uint64_t count = varint(&d);
    uint64_t last = zigzag(&d);
    if (d.bad || d.per_block == 0 || d.per_block > BLOCK_VALUES_MAX || d.minis == 0 ||
        d.per_block % d.minis != 0 || d.per_block / d.minis % 8 != 0) {
        return mr_table_damaged(err, "the head of delta-encoded values is damaged");
    }
    d.per_mini = d.per_block / d.minis;
    if (count > most) {
        return mr_table_damaged(err, "%" PRIu64 " delta-encoded values, there should be %" PRIu64,
                                count, most);
    }
    MR_AUTO(mr_buffer_unref) mr_buffer *numbers = NULL;
    MR_TRY(mr_table_room(count * sizeof(int64_t), err));
    MR_TRY(mr_buffer_new((size_t)count * sizeof(int64_t), &numbers, err));
    int64_t *to = mr_buffer_data(numbers);
    if (count > 0) {
        to[0] = (int64_t)last;
    }
    for (uint64_t done = 1; done < count && !d.bad;) {
        done += block(&d, &last, to + done, count - done);
    }
    if (d.bad) {
        return mr_table_damaged(err, "delta-encoded values are damaged");
    }
    *ret = MR_TAKE(numbers);
    *n = (size_t)count;
    *used = (size_t)(d.at - p);
    return MR_OK;
}
