/* substr: pieces of strings, by bytes or by characters. They are views of the input until the
 * column is gathered. */
#include "ops/attr.h"
#include "ops/loops.h"

/* A character is a byte and those behind it that continue it, valid or not, as TensorFlow has
 * it. */
static bool continues(struct mr_string s, size_t at)
{
    return (s.data[at] & 0xc0u) == 0x80u;
}

/* Up to @n characters on; how many are missing. */
static int64_t forward(struct mr_string s, size_t *at, int64_t n)
{
    for (; n > 0 && *at < s.size; n--) {
        do {
            (*at)++;
        } while (*at < s.size && continues(s, *at));
    }
    return n > 0 ? n : 0;
}

static int64_t backward(struct mr_string s, size_t *at, uint64_t n)
{
    for (; n > 0 && *at > 0; n--) {
        do {
            (*at)--;
        } while (*at > 0 && continues(s, *at));
    }
    return n > 0;
}

/* false: @pos is outside. */
static bool cut_characters(struct mr_string s, int64_t pos, int64_t len, struct mr_string *ret)
{
    size_t begin = pos < 0 ? s.size : 0;
    int64_t missing = pos < 0 ? backward(s, &begin, 0 - (uint64_t)pos) : forward(s, &begin, pos);
    size_t end = begin;

    if (missing > 0) {
        return false;
    }
    (void)forward(s, &end, len); /* none, if it is negative */
    *ret = (struct mr_string){s.data == NULL ? NULL : s.data + begin, end - begin};
    return true;
}

static bool cut_bytes(struct mr_string s, int64_t pos, int64_t len, struct mr_string *ret)
{
    int64_t size = (int64_t)s.size;

    if (pos < -size || pos > size) {
        return false;
    }
    pos += pos < 0 ? size : 0;
    len = len < 0 || len > size - pos ? size - pos : len; /* the rest, if it is negative */
    *ret = (struct mr_string){s.data == NULL ? NULL : s.data + pos, (size_t)len};
    return true;
}

#define SUBSTR(tag, T, cut, unit)                                                                  \
    MR_LOOP_HEAD(substr, tag)                                                                      \
    {                                                                                              \
        const struct mr_string *x = in[0];                                                         \
        const T *pos = in[1];                                                                      \
        const T *len = in[2];                                                                      \
        struct mr_string *z = out;                                                                 \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const struct mr_string s = x[i * step[0]];                                             \
                                                                                                   \
            if (!cut(s, pos[i * step[1]], len[i * step[2]], &z[i])) {                              \
                mr_error_set(err, MR_EINVAL,                                                       \
                             "position %lld, in " unit "s, in a string of %zu bytes",              \
                             (long long)pos[i * step[1]], s.size);                                 \
                return i;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return n;                                                                                  \
    }
SUBSTR(bytes_i32, int32_t, cut_bytes, "byte")
SUBSTR(bytes_i64, int64_t, cut_bytes, "byte")
SUBSTR(characters_i32, int32_t, cut_characters, "character")
SUBSTR(characters_i64, int64_t, cut_characters, "character")

static mr_kernel_loop substr_loop(struct mr_attrs attrs, const uint8_t *dtypes)
{
    const struct mr_attr *unit = mr_attr_get(attrs, "unit");
    bool characters = unit != NULL && mr_attr_says(unit, "UTF8_CHAR");

    switch (dtypes[1]) {
    case MR_INT32: return characters ? substr_characters_i32 : substr_bytes_i32;
    case MR_INT64: return characters ? substr_characters_i64 : substr_bytes_i64;
    default: return NULL;
    }
}

static int infer_substr(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *unit = mr_attr_get(it->attrs, "unit");

    if (unit != NULL && !mr_attr_says(unit, "BYTE") && !mr_attr_says(unit, "UTF8_CHAR")) {
        return mr_error_set(err, MR_EINVAL, "unit '%.*s': wants BYTE or UTF8_CHAR",
                            (int)MR_MIN(unit->size, 20), (const char *)unit->bytes);
    }
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    return mr_infer_same_dtype(it->in, 1, it->nin, err);
}

MR_ELEMENTWISE(substr, 3, MR_KERNEL_MAY_FAIL, 0, .infer = infer_substr, .loop = substr_loop,
               .attr_table = {{"unit", MR_ATTR_BYTES, true}});
