#include "tables/flatbuffer.h"

#include "tables/bits.h"

/* Whether there are @n bytes at @at. */
static bool has(struct mr_flat *f, size_t at, size_t n)
{
    bool there = at <= f->size && n <= f->size - at;

    f->bad = f->bad || !there;
    return there;
}

static uint64_t number(struct mr_flat *f, size_t at, int bytes)
{
    return has(f, at, (size_t)bytes) ? mr_load_some(f->data + at, (size_t)bytes) : 0;
}

/* What the offset at @at leads to, where a number of 4 bytes stands. */
static size_t follow(struct mr_flat *f, size_t at)
{
    uint64_t to = at + number(f, at, 4);

    return to != at && has(f, (size_t)to, 4) ? (size_t)to : 0;
}

mr_flat_table mr_flat_root(struct mr_flat *f)
{
    return follow(f, 0);
}

/* A table begins with the distance back to the table of its fields' places: its size, the table's,
 * and a place for each, 0 for what is absent. */
static size_t place(struct mr_flat *f, mr_flat_table t, int field)
{
    if (t == 0) {
        return 0;
    }
    int64_t places = (int64_t)t - (int32_t)number(f, t, 4);
    size_t entry = 4 + 2 * (size_t)field;
    if (places < 0 || !has(f, (size_t)places, 4)) {
        f->bad = true;
        return 0;
    }
    if (entry + 2 > number(f, (size_t)places, 2)) {
        return 0;
    }
    uint64_t offset = number(f, (size_t)places + entry, 2);
    return offset != 0 ? t + (size_t)offset : 0;
}

int64_t mr_flat_int(struct mr_flat *f, mr_flat_table t, int field, int bytes, int64_t absent)
{
    size_t at = place(f, t, field);

    if (at == 0 || !has(f, at, (size_t)bytes)) {
        return absent;
    }
    uint64_t v = number(f, at, bytes);
    int shift = 64 - 8 * bytes;
    return (int64_t)(v << shift) >> shift;
}

mr_flat_table mr_flat_child(struct mr_flat *f, mr_flat_table t, int field)
{
    size_t at = place(f, t, field);

    return at != 0 ? follow(f, at) : 0;
}

struct mr_flat_vector mr_flat_list(struct mr_flat *f, mr_flat_table t, int field, size_t width)
{
    size_t at = mr_flat_child(f, t, field);
    uint64_t n = at != 0 ? number(f, at, 4) : 0;

    if (n > f->size / width || (n > 0 && !has(f, at + 4, (size_t)n * width))) {
        f->bad = true;
        n = 0;
    }
    return (struct mr_flat_vector){at + 4, (uint32_t)n};
}

mr_flat_table mr_flat_item(struct mr_flat *f, struct mr_flat_vector v, uint32_t i)
{
    return follow(f, v.at + 4 * (size_t)i);
}

const char *mr_flat_string(struct mr_flat *f, mr_flat_table t, int field, size_t *n)
{
    struct mr_flat_vector v = mr_flat_list(f, t, field, 1);

    *n = v.n;
    return v.at > 4 ? (const char *)f->data + v.at : NULL;
}

int64_t mr_flat_i64(const struct mr_flat *f, size_t at)
{
    return (int64_t)mr_load64(f->data + at);
}

int32_t mr_flat_i32(const struct mr_flat *f, size_t at)
{
    return (int32_t)mr_load32(f->data + at);
}
