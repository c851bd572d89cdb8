#include "tables/arrow_format.h"

#include "tables/arrow_block.h"

#include <stdlib.h>

/* The number behind "w:" and "+w:"; -1: there is none. */
static int64_t number(const char *s)
{
    char *end;
    long n = strtol(s, &end, 10);

    return *s >= '0' && *s <= '9' && *end == '\0' && n <= INT32_MAX ? n : -1;
}

static struct mr_arrow_format time_format(const char *s)
{
    bool narrow = strcmp(s, "tdD") == 0 || strcmp(s, "tts") == 0 || strcmp(s, "ttm") == 0;

    return s[1] == 'i' ? (struct mr_arrow_format){.shape = MR_SHAPE_NONE} /* intervals */
                       : (struct mr_arrow_format){MR_SHAPE_VALUES, narrow ? MR_INT32 : MR_INT64, 0};
}

static struct mr_arrow_format list_format(const char *s)
{
    if (strcmp(s, "+l") == 0 || strcmp(s, "+L") == 0) {
        return (struct mr_arrow_format){.shape = s[1] == 'l' ? MR_SHAPE_LIST32 : MR_SHAPE_LIST64};
    }
    int64_t n = strncmp(s, "+w:", 3) == 0 ? number(s + 3) : -1;
    return (struct mr_arrow_format){.shape = n >= 0 ? MR_SHAPE_LIST_FIXED : MR_SHAPE_NONE,
                                    .size = n};
}

struct mr_arrow_format mr_arrow_format_of(const char *s)
{
    static const struct {
        char letter;
        struct mr_arrow_format format;
    } letters[] = {
        {'b', {MR_SHAPE_BITS, MR_BOOL, 0}},      {'c', {MR_SHAPE_VALUES, MR_INT8, 0}},
        {'C', {MR_SHAPE_VALUES, MR_UINT8, 0}},   {'s', {MR_SHAPE_VALUES, MR_INT16, 0}},
        {'S', {MR_SHAPE_VALUES, MR_UINT16, 0}},  {'i', {MR_SHAPE_VALUES, MR_INT32, 0}},
        {'I', {MR_SHAPE_VALUES, MR_UINT32, 0}},  {'l', {MR_SHAPE_VALUES, MR_INT64, 0}},
        {'L', {MR_SHAPE_VALUES, MR_UINT64, 0}},  {'e', {MR_SHAPE_VALUES, MR_FLOAT16, 0}},
        {'f', {MR_SHAPE_VALUES, MR_FLOAT32, 0}}, {'g', {MR_SHAPE_VALUES, MR_FLOAT64, 0}},
        {'z', {MR_SHAPE_BYTES32, MR_STRING, 0}}, {'u', {MR_SHAPE_BYTES32, MR_STRING, 0}},
        {'Z', {MR_SHAPE_BYTES64, MR_STRING, 0}}, {'U', {MR_SHAPE_BYTES64, MR_STRING, 0}},
    };

    if (s[0] == 't') {
        return time_format(s);
    }
    if (s[0] == '+') {
        return list_format(s);
    }
    if (strncmp(s, "w:", 2) == 0 && number(s + 2) >= 0) {
        return (struct mr_arrow_format){MR_SHAPE_BYTES_FIXED, MR_STRING, number(s + 2)};
    }
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (s[0] == letters[i].letter && s[1] == '\0') {
            return letters[i].format;
        }
    }
    return (struct mr_arrow_format){.shape = MR_SHAPE_NONE};
}

bool mr_arrow_is_list(const struct mr_arrow_format *f)
{
    return f->shape == MR_SHAPE_LIST32 || f->shape == MR_SHAPE_LIST64 ||
           f->shape == MR_SHAPE_LIST_FIXED;
}

bool mr_arrow_leaf(const struct ArrowSchema *s, struct mr_leaf_spec *ret)
{
    struct mr_arrow_format f = mr_arrow_format_of(s->format);
    struct mr_arrow_format values = f;

    if (mr_arrow_is_list(&f)) {
        const struct ArrowSchema *child = s->children[0];

        values = child->dictionary == NULL ? mr_arrow_format_of(child->format)
                                           : (struct mr_arrow_format){.shape = MR_SHAPE_NONE};
    } else if (s->dictionary != NULL) {
        values = mr_arrow_format_of(s->dictionary->format);
    }
    if (values.shape == MR_SHAPE_NONE || mr_arrow_is_list(&values)) {
        return false;
    }
    *ret = (struct mr_leaf_spec){.dtype = (uint8_t)values.dtype, .rank = mr_arrow_is_list(&f)};
    if (mr_arrow_is_list(&f)) {
        ret->dims[0] = f.shape == MR_SHAPE_LIST_FIXED ? f.size : MR_DIM_UNKNOWN;
    }
    return true;
}
