/* string_ngrams: n strings that follow one another in a row of strings, joined; with what stands
 * before and behind the row, if that is wished. Rows are vectors by row splits. */
#include "base/cancel.h"
#include "ops/attr.h"
#include "ops/rows.h"

struct ngrams {
    const int64_t *widths;
    int32_t nwidths;
    int64_t padding; /* how many on each side; -1: one less than the width */
    bool keep_short; /* a row that is too short for each width is one ngram */
    struct mr_string separator;
    struct mr_string left;
    struct mr_string right;
};

static struct mr_string bytes_of(struct mr_attrs attrs, const char *name)
{
    const struct mr_attr *a = mr_attr_get(attrs, name);

    return a != NULL ? (struct mr_string){a->bytes, a->size} : (struct mr_string){0};
}

static struct ngrams ngrams_of(struct mr_attrs attrs)
{
    const struct mr_attr *widths = mr_attr_get(attrs, "widths");

    return (struct ngrams){
        .widths = widths->ints,
        .nwidths = widths->count,
        .padding = mr_attr_int(attrs, "pad_width", -1),
        .keep_short = mr_attr_bool(attrs, "preserve_short_sequences", false),
        .separator = bytes_of(attrs, "separator"),
        .left = bytes_of(attrs, "left_pad"),
        .right = bytes_of(attrs, "right_pad"),
    };
}

static int infer_ngrams(struct mr_kernel_infer *it, mr_error *err)
{
    struct ngrams g = ngrams_of(it->attrs);

    for (int32_t i = 0; i < g.nwidths; i++) {
        if (g.widths[i] < 1 || g.widths[i] > INT32_MAX) {
            return mr_error_set(err, MR_EINVAL, "a width of %lld", (long long)g.widths[i]);
        }
    }
    if (g.padding < -1 || g.padding > INT32_MAX) {
        return mr_error_set(err, MR_EINVAL, "pad_width %lld", (long long)g.padding);
    }
    if (g.nwidths == 0 && g.keep_short && g.padding < 0) {
        return mr_error_set(err, MR_EINVAL, "preserve_short_sequences without widths or pad_width");
    }
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 0, 1, err));
    MR_TRY(mr_infer_rank(it->in, 1, 1, err));
    if (it->cap < 2) {
        return mr_error_set(err, MR_EINVAL, "no room for two results");
    }
    it->nout = 2;
    mr_shape_set(&it->out[0], 1, (int64_t[]){MR_DIM_UNKNOWN});
    it->out[1] = it->in[1];
    return MR_OK;
}

/* On each side of a row, for ngrams of this width. */
static int64_t padding_for(const struct ngrams *g, int64_t width)
{
    return g->padding < 0 ? width - 1 : MR_MIN(g->padding, width - 1);
}

static int64_t count_of(const struct ngrams *g, int64_t length, int64_t width)
{
    int64_t n = length + 2 * padding_for(g, width) - width + 1;

    return n > 0 ? n : 0;
}

/* The width that makes one ngram of a row for which none is narrow enough; 0: that is none. */
static int64_t short_width(const struct ngrams *g, int64_t length)
{
    return g->keep_short && length > 0 ? length + 2 * MR_MAX(g->padding, 0) : 0;
}

static int64_t count_row(const struct ngrams *g, int64_t length)
{
    int64_t n = 0;

    for (int32_t i = 0; i < g->nwidths; i++) {
        n += count_of(g, length, g->widths[i]);
    }
    return n > 0 ? n : short_width(g, length) > 0;
}

/* Row splits rise from 0 to the number of strings. */
static int check_splits(const struct mr_row *row, mr_error *err)
{
    uint64_t n = row->in[1].count;
    int64_t last = 0;

    for (uint64_t i = 0; i < n; i++) {
        int64_t at = mr_tensor_index(&row->in[1], i);

        if (at < last || (i == 0 && at != 0)) {
            return mr_error_set(err, MR_EINVAL, "row splits: %lld behind %lld", (long long)at,
                                (long long)last);
        }
        last = at;
    }
    return (uint64_t)last == row->in[0].count
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "row splits end at %lld, not at %llu",
                              (long long)last, (unsigned long long)row->in[0].count);
}

static int dims_ngrams(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    struct ngrams g = ngrams_of(row->attrs);

    MR_TRY(check_splits(row, err));
    spec[0].dims[0] = 0;
    for (uint64_t i = 1; i < row->in[1].count; i++) {
        int64_t length = mr_tensor_index(&row->in[1], i) - mr_tensor_index(&row->in[1], i - 1);

        if (__builtin_add_overflow(spec[0].dims[0], count_row(&g, length), &spec[0].dims[0])) {
            return mr_error_set(err, MR_EEXHAUSTED, "too many ngrams");
        }
    }
    return MR_OK;
}

/* Part @k of ngram @i: a pad, or a string of the row. */
static struct mr_string part(const struct ngrams *g, const struct mr_string *strings,
                             int64_t length, int64_t padding, int64_t k)
{
    int64_t at = k - padding;

    return at < 0 ? g->left : at < length ? strings[at] : g->right;
}

/* A width may be large: between two looks at whether anybody waits for the ngram. */
#define PARTS_AT_ONCE 4096

static int put_ngram(const struct ngrams *g, const struct mr_string *strings, int64_t length,
                     int64_t width, int64_t first, struct mr_result *out, struct mr_string *ret,
                     mr_error *err)
{
    int64_t padding = padding_for(g, width);
    size_t size = (size_t)(width - 1) * g->separator.size;

    for (int64_t k = first; k < first + width; k++) {
        MR_TRY(k % PARTS_AT_ONCE == 0 ? mr_cancel_check(err) : MR_OK);
        if (__builtin_add_overflow(size, part(g, strings, length, padding, k).size, &size)) {
            return mr_error_nomem(err);
        }
    }
    unsigned char *at = mr_output_bytes(out->column, size, err);
    if (at == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){at, size};
    for (int64_t k = first; k < first + width; k++) {
        struct mr_string s = part(g, strings, length, padding, k);

        if (k > first && g->separator.size > 0) {
            memcpy(at, g->separator.data, g->separator.size);
            at += g->separator.size;
        }
        if (s.size > 0) {
            memcpy(at, s.data, s.size);
            at += s.size;
        }
    }
    return MR_OK;
}

static int put_row(const struct ngrams *g, const struct mr_string *strings, int64_t length,
                   struct mr_result *out, uint64_t *at, mr_error *err)
{
    uint64_t begin = *at;

    for (int32_t w = 0; w < g->nwidths; w++) {
        int64_t n = count_of(g, length, g->widths[w]);

        for (int64_t i = 0; i < n; i++) {
            MR_TRY(mr_cancel_check(err));
            MR_TRY(put_ngram(g, strings, length, g->widths[w], i, out,
                             &mr_result_strings(out)[(*at)++], err));
        }
    }
    int64_t width = *at == begin ? short_width(g, length) : 0;
    return width > 0
               ? put_ngram(g, strings, length, width, 0, out, &mr_result_strings(out)[(*at)++], err)
               : MR_OK;
}

static int fill_ngrams(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    struct ngrams g = ngrams_of(row->attrs);
    uint64_t at = 0;

    if (out->index == 1 && out->count > 0) {
        mr_result_put_index(out, 0, 0);
    }
    for (uint64_t i = 1; i < row->in[1].count; i++) {
        int64_t begin = mr_tensor_index(&row->in[1], i - 1);
        int64_t length = mr_tensor_index(&row->in[1], i) - begin;

        if (out->index == 1) {
            at += (uint64_t)count_row(&g, length);
            mr_result_put_index(out, i, at);
        } else {
            MR_TRY(put_row(&g, strings + begin, length, out, &at, err));
        }
    }
    return MR_OK;
}

MR_ROWS_KERNEL(string_ngrams, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_ngrams,
               .dims = dims_ngrams, .fill = fill_ngrams,
               .attr_table = {{"left_pad", MR_ATTR_BYTES, true},
                              {"pad_width", MR_ATTR_INT, true},
                              {"preserve_short_sequences", MR_ATTR_BOOL, true},
                              {"right_pad", MR_ATTR_BYTES, true},
                              {"separator", MR_ATTR_BYTES, true},
                              {"widths", MR_ATTR_INTS, false}});
