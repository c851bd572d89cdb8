#include "tables/rle.h"

#include "tables/bits.h"

bool mr_rle_begin(struct mr_rle *r, const void *p, size_t n, unsigned width)
{
    *r = (struct mr_rle){.at = p, .end = (const unsigned char *)p + n, .width = width};
    return width <= 32;
}

static bool head(struct mr_rle *r, uint32_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 35 && r->at < r->end; shift += 7) {
        uint8_t b = *r->at++;

        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *ret = (uint32_t)v;
            return v <= UINT32_MAX;
        }
    }
    return false;
}

/* The next run that has a value. The last groups of packed values may be cut short: there are as
 * many as there are bytes for. */
static bool next_run(struct mr_rle *r)
{
    while (r->repeats == 0 && r->packed == 0) {
        uint32_t h = 0;
        size_t bytes = (r->width + 7) / 8;

        if (r->at == r->end || !head(r, &h)) {
            return false;
        }
        size_t left = (size_t)(r->end - r->at);
        if ((h & 1) == 0) {
            if (left < bytes) {
                return false;
            }
            r->repeats = h >> 1;
            r->value = (uint32_t)mr_load_some(r->at, bytes);
            r->at += bytes;
            continue;
        }
        uint64_t size = (uint64_t)(h >> 1) * r->width;
        uint64_t there = size < left ? size : left;

        r->packed = r->width == 0 ? (uint64_t)(h >> 1) * 8 : there * 8 / r->width;
        r->packed_next = 0;
        r->packed_at = r->at;
        r->at += there;
    }
    return true;
}

/* Eight values at a time, of a width that the compiler knows. */
static inline __attribute__((always_inline)) void
unpack_width(const unsigned char *p, unsigned width, uint32_t *to, uint32_t n)
{
    const uint64_t mask = (UINT64_C(1) << width) - 1;

    for (uint32_t i = 0; i < n; i += 8, p += width) {
#pragma GCC unroll 8
        for (unsigned k = 0; k < 8; k++) {
            unsigned bit = k * width;

            to[i + k] = (uint32_t)(mr_load64(p + bit / 8) >> (bit % 8) & mask);
        }
    }
}

#define WIDTH(w)                                                                                   \
    case w: unpack_width(p, w, to, n); break

/* @n values, a multiple of 8, from a whole byte on: behind the last one's first byte there are 7
 * more. Widths above 24 are those of huge dictionaries: they take the slow way. */
static void unpack_eights(const unsigned char *p, unsigned width, uint32_t *to, uint32_t n)
{
    switch (width) {
        WIDTH(1);
        WIDTH(2);
        WIDTH(3);
        WIDTH(4);
        WIDTH(5);
        WIDTH(6);
        WIDTH(7);
        WIDTH(8);
        WIDTH(9);
        WIDTH(10);
        WIDTH(11);
        WIDTH(12);
        WIDTH(13);
        WIDTH(14);
        WIDTH(15);
        WIDTH(16);
        WIDTH(17);
        WIDTH(18);
        WIDTH(19);
        WIDTH(20);
        WIDTH(21);
        WIDTH(22);
        WIDTH(23);
        WIDTH(24);
    }
}

/* How many of @n values from @bit on unpack_eights() can do, with @size bytes. */
static uint32_t eights(unsigned width, uint64_t bit, size_t size, uint32_t n)
{
    if (width == 0 || width > 24 || bit % 8 != 0 || size < bit / 8 + 8) {
        return 0;
    }
    uint64_t groups = (size - bit / 8 - 8) / width; /* each ends 8 bytes and more before the end */

    return (uint32_t)MR_MIN(groups * 8, (uint64_t)(n / 8 * 8));
}

static void unpack(struct mr_rle *r, uint32_t *to, uint32_t n)
{
    const unsigned char *p = r->packed_at;
    size_t size = (size_t)(r->at - p);
    uint64_t mask = (UINT64_C(1) << r->width) - 1;
    uint64_t bit = r->packed_next * r->width;
    uint32_t i = eights(r->width, bit, size, n);

    unpack_eights(p + bit / 8, r->width, to, i);
    bit += (uint64_t)i * r->width;
    for (; i < n && bit / 8 + 8 <= size; i++, bit += r->width) {
        to[i] = (uint32_t)(mr_load64(p + bit / 8) >> (bit % 8) & mask);
    }
    for (; i < n; i++, bit += r->width) {
        to[i] = (uint32_t)(mr_load_some(p + bit / 8, size - bit / 8) >> (bit % 8) & mask);
    }
}

uint32_t mr_rle_next(struct mr_rle *r, uint32_t most, uint32_t buf[MR_RLE_CHUNK], bool *repeated)
{
    if (most == 0 || !next_run(r)) {
        return 0;
    }
    *repeated = r->repeats > 0;
    if (r->repeats > 0) {
        uint32_t n = MR_MIN(most, r->repeats);

        r->repeats -= n;
        buf[0] = r->value;
        return n;
    }
    uint32_t n = MR_MIN(most, MR_RLE_CHUNK);

    n = r->packed < n ? (uint32_t)r->packed : n;
    unpack(r, buf, n);
    r->packed -= n;
    r->packed_next += n;
    return n;
}
