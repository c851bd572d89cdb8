/* One column of a row group: levels and values of its pages put together as rows. */
#include "tables/bits.h"
#include "tables/parquet.h"

#define LEVELS 1024u

struct mr_parquet_reader {
    const struct mr_parquet_leaf *leaf;
    struct mr_parquet_pages pages;
    struct mr_dictionary dictionary;
    bool has_dictionary;
    int64_t values_left; /* of the chunk, behind the page at hand */
    uint32_t page_left;  /* of the page, nulls included */
    struct mr_rle defs;
    struct mr_values values;
    /* of a list: a page of few bytes may have many levels, so that only some are read at a time */
    struct mr_rle reps;
    unsigned char rep[LEVELS];
    unsigned char def[LEVELS];
    uint32_t level;  /* the next of them */
    uint32_t levels; /* how many there are */
};

int mr_parquet_reader_new(const struct mr_table_input *in, const struct mr_parquet_leaf *leaf,
                          const struct mr_parquet_chunk *chunk, struct mr_parquet_reader **ret,
                          mr_error *err)
{
    struct mr_parquet_reader *r = mr_calloc(1, sizeof *r);

    MR_CHECK_ALLOC(r, err);
    r->leaf = leaf;
    r->values_left = chunk->values;
    int rc = mr_parquet_pages_begin(&r->pages, in, chunk, err);
    if (rc != MR_OK) {
        mr_parquet_reader_free(r);
        return rc;
    }
    *ret = r;
    return MR_OK;
}

void mr_parquet_reader_free(struct mr_parquet_reader *r)
{
    if (r == NULL) {
        return;
    }
    mr_parquet_pages_end(&r->pages);
    mr_dictionary_free(&r->dictionary);
    mr_values_end(&r->values);
    mr_free(r);
}

/* ---- pages ---- */

static unsigned bits_for(uint32_t max)
{
    return max == 0 ? 0 : 32 - (unsigned)__builtin_clz(max);
}

/* The next @n levels, each at most @max. */
static int read_levels(struct mr_rle *rle, uint32_t max, unsigned char *to, uint32_t n,
                       mr_error *err)
{
    while (n > 0) {
        uint32_t buf[MR_RLE_CHUNK];
        bool repeated = false;
        uint32_t got = mr_rle_next(rle, n, buf, &repeated);

        if (got == 0) {
            return mr_table_damaged(err, "a page has fewer levels than values");
        }
        for (uint32_t i = 0; i < got; i++) {
            uint32_t level = buf[repeated ? 0 : i];

            if (level > max) {
                return mr_table_damaged(err, "a level of %u, the largest is %u", level, max);
            }
            to[i] = (unsigned char)level;
        }
        to += got;
        n -= got;
    }
    return MR_OK;
}

/* Some levels of the page at hand, which has values left. */
static int need_levels(struct mr_parquet_reader *r, mr_error *err)
{
    uint32_t n = MR_MIN(r->page_left, LEVELS);

    if (r->level < r->levels) {
        return MR_OK;
    }
    MR_TRY(read_levels(&r->reps, 1, r->rep, n, err));
    MR_TRY(read_levels(&r->defs, r->leaf->max_def, r->def, n, err));
    r->level = 0;
    r->levels = n;
    return MR_OK;
}

/* The next page with values; MR_END: there is none. */
static int next_page(struct mr_parquet_reader *r, mr_error *err)
{
    const struct mr_parquet_leaf *leaf = r->leaf;
    struct mr_parquet_page page;

    do {
        MR_TRY(mr_parquet_next_page(&r->pages, leaf->list, leaf->max_def > 0, &page, err));
        if (page.dictionary) {
            if (r->has_dictionary) {
                return mr_table_damaged(err, "it has two dictionaries");
            }
            MR_TRY(mr_dictionary_read(&r->dictionary, leaf->type, page.data, page.data_size,
                                      page.values, err));
            r->has_dictionary = true;
        }
    } while (page.dictionary);
    if (page.values > r->values_left) {
        return mr_table_damaged(err, "its pages have more values than it should have");
    }
    MR_TRY(mr_values_begin(&r->values, leaf->type, page.encoding, page.data, page.data_size,
                           page.values, r->has_dictionary ? &r->dictionary : NULL, err));
    (void)mr_rle_begin(&r->reps, page.rep, page.rep_size, 1);
    (void)mr_rle_begin(&r->defs, page.def, page.def_size, bits_for(leaf->max_def));
    r->level = r->levels = 0;
    r->page_left = page.values;
    r->values_left -= page.values;
    return MR_OK;
}

/* ---- values ---- */

#define CONVERT_CHUNK 512u

static int64_t nanoseconds(const unsigned char *p)
{
    const uint64_t day_ns = UINT64_C(86400000000000);
    uint64_t day = mr_load32(p + 8);

    /* Julian day 2440588 is 1970-01-01. What is out of range wraps. */
    return (int64_t)((day - 2440588) * day_ns + mr_load64(p));
}

static void convert(enum mr_parquet_convert how, const unsigned char *from, unsigned char *to,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (how == MR_CONVERT_TO_8_BITS) {
            to[i] = from[4 * i];
        } else if (how == MR_CONVERT_TO_16_BITS) {
            memcpy(to + 2 * i, from + 4 * i, 2);
        } else {
            int64_t v = nanoseconds(from + 12 * i);

            memcpy(to + 8 * i, &v, 8);
        }
    }
}

/* @n values to the end of @s, which has room for them. */
static int fixed_values(struct mr_parquet_reader *r, struct mr_sink *s, size_t n, mr_error *err)
{
    unsigned char *to = s->data + s->n * s->width;
    unsigned char scratch[CONVERT_CHUNK * 12];

    if (r->leaf->convert == MR_CONVERT_NONE) {
        return mr_values_fixed(&r->values, to, n, err);
    }
    while (n > 0) {
        size_t some = MR_MIN(n, CONVERT_CHUNK);

        MR_TRY(mr_values_fixed(&r->values, scratch, some, err));
        convert(r->leaf->convert, scratch, to, some);
        to += some * s->width;
        n -= some;
    }
    return MR_OK;
}

static int bool_values(struct mr_parquet_reader *r, struct mr_sink *s, size_t n, mr_error *err)
{
    size_t at = s->n;

    while (n > 0) {
        unsigned char scratch[CONVERT_CHUNK];
        size_t some = MR_MIN(n, sizeof scratch);

        MR_TRY(mr_values_fixed(&r->values, scratch, some, err));
        for (size_t i = 0; i < some; i++, at++) {
            if (scratch[i] != 0) {
                mr_set_bit(s->data, at);
            }
        }
        n -= some;
    }
    return MR_OK;
}

static int add_values(struct mr_parquet_reader *r, struct mr_sink *s, size_t n, mr_error *err)
{
    if (s->kind == MR_SINK_BYTES) {
        return mr_values_bytes(&r->values, s, n, err);
    }
    MR_TRY(s->kind == MR_SINK_BITS ? bool_values(r, s, n, err) : fixed_values(r, s, n, err));
    mr_sink_add_valid(s, n);
    return MR_OK;
}

/* Values that were read one behind the other, to where their levels say. */
static void spread(struct mr_sink *s, const uint32_t *levels, uint32_t n, uint32_t values,
                   uint32_t max)
{
    unsigned char *to = s->data + s->n * s->width;

    for (uint32_t i = n; i-- > 0;) {
        if (levels[i] == max) {
            memmove(to + i * s->width, to + --values * s->width, s->width);
            mr_set_bit(s->valid, s->n + i);
        } else {
            memset(to + i * s->width, 0, s->width);
        }
    }
}

/* The same for what is not spread: in runs. */
static int add_runs(struct mr_parquet_reader *r, struct mr_sink *s, const uint32_t *levels,
                    uint32_t n, mr_error *err)
{
    uint32_t max = r->leaf->max_def;

    for (uint32_t i = 0; i < n;) {
        bool there = levels[i] == max;
        uint32_t run = 1;

        while (i + run < n && (levels[i + run] == max) == there) {
            run++;
        }
        MR_TRY(there ? add_values(r, s, run, err) : mr_sink_add_nulls(s, run, err));
        i += run;
    }
    return MR_OK;
}

static int add_mixed(struct mr_parquet_reader *r, struct mr_sink *s, const uint32_t *levels,
                     uint32_t n, mr_error *err)
{
    uint32_t max = r->leaf->max_def;
    uint32_t values = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (levels[i] > max) {
            return mr_table_damaged(err, "a level of %u, the largest is %u", levels[i], max);
        }
        values += levels[i] == max;
    }
    if (values == n) {
        return add_values(r, s, n, err);
    }
    if (s->kind != MR_SINK_FIXED) {
        return add_runs(r, s, levels, n, err);
    }
    MR_TRY(mr_sink_need_valid(s, err));
    MR_TRY(fixed_values(r, s, values, err));
    spread(s, levels, n, values, max);
    s->n += n;
    s->nulls += n - values;
    return MR_OK;
}

/* ---- rows ---- */

static void begin_sink(const struct mr_parquet_leaf *leaf, struct mr_sink *s)
{
    enum mr_sink_kind kind = leaf->type.kind == MR_PHYSICAL_BOOL    ? MR_SINK_BITS
                             : leaf->type.kind == MR_PHYSICAL_BYTES ? MR_SINK_BYTES
                                                                    : MR_SINK_FIXED;

    mr_sink_begin(s, kind, leaf->width);
}

/* Up to @n rows of the page at hand. */
static int some_values(struct mr_parquet_reader *r, struct mr_sink *s, uint32_t n, mr_error *err)
{
    uint32_t levels[MR_RLE_CHUNK];
    uint32_t got = n;
    bool repeated = false;

    if (r->leaf->max_def == 0) {
        MR_TRY(add_values(r, s, n, err));
    } else {
        got = mr_rle_next(&r->defs, n, levels, &repeated);
        if (got == 0) {
            return mr_table_damaged(err, "a page has fewer levels than values");
        }
        if (!repeated || levels[0] > r->leaf->max_def) {
            MR_TRY(add_mixed(r, s, levels, repeated ? 1 : got, err));
        } else if (levels[0] == r->leaf->max_def) {
            MR_TRY(add_values(r, s, got, err));
        } else {
            MR_TRY(mr_sink_add_nulls(s, got, err));
        }
    }
    r->page_left -= got;
    return MR_OK;
}

static int too_few(mr_error *err)
{
    return mr_table_damaged(err, "it has fewer rows than the row group");
}

static int read_values(struct mr_parquet_reader *r, uint32_t rows, struct mr_sink *s, mr_error *err)
{
    MR_TRY(mr_sink_reserve(s, rows, err));
    while (s->n < rows) {
        uint32_t n = rows - (uint32_t)s->n;

        if (r->page_left == 0) {
            int rc = next_page(r, err);

            if (rc != MR_OK) {
                return rc == MR_END ? too_few(err) : rc;
            }
        }
        MR_TRY(some_values(r, s, MR_MIN(n, r->page_left), err));
    }
    return MR_OK;
}

/* ---- lists ---- */

static int flush(struct mr_parquet_reader *r, struct mr_sink *s, bool there, uint32_t *n,
                 mr_error *err)
{
    uint32_t count = *n;

    *n = 0;
    if (count == 0) {
        return MR_OK;
    }
    MR_TRY(mr_sink_reserve(s, count, err));
    return there ? add_values(r, s, count, err) : mr_sink_add_nulls(s, count, err);
}

static int begin_list(struct mr_parquet_reader *r, struct mr_sink *lists, uint32_t def,
                      mr_error *err)
{
    if (def < r->leaf->list_def) {
        return mr_sink_add_nulls(lists, 1, err);
    }
    lists->offsets[lists->n + 1] = lists->offsets[lists->n];
    mr_sink_add_valid(lists, 1);
    return MR_OK;
}

/* What the levels at hand have of the lists, until @rows lists are whole. *@whole: the next list
 * has begun. */
static int some_lists(struct mr_parquet_reader *r, uint32_t rows, struct mr_sink *lists,
                      struct mr_sink *s, bool *whole, mr_error *err)
{
    uint32_t pending = 0;
    uint32_t i = r->level;
    bool there = false;

    for (; i < r->levels; i++) {
        uint32_t def = r->def[i];
        bool is = def == r->leaf->max_def;

        if (r->rep[i] == 0) {
            if (lists->n == rows) {
                *whole = true;
                break;
            }
            MR_TRY(begin_list(r, lists, def, err));
        } else if (lists->n == 0 || def < r->leaf->value_def) {
            return mr_table_damaged(err, "a list goes on that has not begun");
        }
        if (def < r->leaf->value_def) {
            continue;
        }
        if (is != there) {
            MR_TRY(flush(r, s, there, &pending, err));
            there = is;
        }
        pending++;
        lists->offsets[lists->n]++;
    }
    r->page_left -= i - r->level;
    r->level = i;
    return flush(r, s, there, &pending, err);
}

static int read_lists(struct mr_parquet_reader *r, uint32_t rows, struct mr_sink *lists,
                      struct mr_sink *s, mr_error *err)
{
    bool whole = false;

    MR_TRY(mr_sink_reserve(lists, rows, err));
    MR_TRY(mr_sink_reserve(s, rows, err));
    while (!whole) {
        int rc = r->page_left == 0 ? next_page(r, err) : MR_OK;

        if (rc == MR_END && lists->n == rows) {
            return MR_OK;
        }
        if (rc != MR_OK) {
            return rc == MR_END ? too_few(err) : rc;
        }
        MR_TRY(need_levels(r, err));
        MR_TRY(some_lists(r, rows, lists, s, &whole, err));
    }
    return MR_OK;
}

static int read_list_array(struct mr_parquet_reader *r, uint32_t rows, struct mr_sink *s,
                           struct ArrowArray *ret, mr_error *err)
{
    struct mr_sink lists;
    struct ArrowArray values = {0};

    mr_sink_begin(&lists, MR_SINK_LISTS, 0);
    int rc = read_lists(r, rows, &lists, s, err);
    if (rc == MR_OK) {
        rc = mr_sink_take(s, NULL, &values, err);
    }
    if (rc == MR_OK) {
        rc = mr_sink_take(&lists, &values, ret, err);
    }
    if (values.release != NULL) {
        values.release(&values);
    }
    mr_sink_free(&lists);
    return rc;
}

int mr_parquet_read(struct mr_parquet_reader *r, uint32_t rows, struct ArrowArray *ret,
                    mr_error *err)
{
    struct mr_sink s;
    int rc;

    begin_sink(r->leaf, &s);
    if (r->leaf->list) {
        rc = read_list_array(r, rows, &s, ret, err);
    } else {
        rc = read_values(r, rows, &s, err);
        if (rc == MR_OK) {
            rc = mr_sink_take(&s, NULL, ret, err);
        }
    }
    mr_sink_free(&s);
    return rc;
}
