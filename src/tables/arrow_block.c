#include "tables/arrow_block.h"

#include "base/limits.h"
#include "tables/arrow_format.h"
#include "tables/bits.h"
#include "tables/table.h"

#include <stdatomic.h>

/* ---- owning ---- */

/* An array whose buffers several buffers of a block lie in. */
struct held {
    atomic_uint refs;
    struct ArrowArray array;
};

static void held_unref(void *ctx)
{
    struct held *h = ctx;

    if (h != NULL && atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1) {
        h->array.release(&h->array);
        mr_free(h);
    }
}

static int hold(struct ArrowArray *array, struct held **ret, mr_error *err)
{
    struct held *h = mr_malloc(sizeof *h);

    if (h == NULL) {
        array->release(array);
        return mr_error_nomem(err);
    }
    atomic_init(&h->refs, 1);
    h->array = *array;
    array->release = NULL;
    *ret = h;
    return MR_OK;
}

void mr_owned_column_free(struct mr_owned_column *c)
{
    for (int i = 0; i < 3; i++) {
        mr_buffer_unref(MR_TAKE(c->owner[i]));
    }
}

/* @size bytes at @p, of an array of @h, as a buffer; copied where they are not aligned as those of
 * a block. */
static int lend(struct held *h, const void *p, size_t size, mr_buffer **ret, mr_error *err)
{
    if (size == 0 || (uintptr_t)p % MR_ALIGNMENT != 0) {
        MR_TRY(mr_buffer_new(size, ret, err));
        if (size > 0) {
            memcpy(mr_buffer_data(*ret), p, size);
        }
        return MR_OK;
    }
    MR_TRY(mr_buffer_wrap((void *)(uintptr_t)p, size, held_unref, h, ret, err));
    atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    mr_buffer_charge(*ret, mr_memory_current());
    return MR_OK;
}

/* ---- nulls ---- */

/* Rows of an array: [first, first + n). */
struct range {
    int64_t first;
    int64_t n;
};

static const unsigned char *validity(const struct ArrowArray *a)
{
    return a->null_count != 0 ? a->buffers[0] : NULL;
}

static bool is_null(const struct ArrowArray *a, int64_t i)
{
    const unsigned char *valid = validity(a);

    return valid != NULL && !mr_bit(valid, (uint64_t)(a->offset + i));
}

/* Where nulls are reported: row by row, or for @per values of each. */
struct nulls {
    const struct mr_column *instead;
    uint32_t **bad;
    uint32_t mark;
    uint32_t rows;
};

static int mark_bad(const struct nulls *n, int64_t row, mr_error *err)
{
    if (*n->bad == NULL) {
        *n->bad = mr_calloc((size_t)n->rows + 1, sizeof **n->bad);
        MR_CHECK_ALLOC(*n->bad, err);
    }
    if ((*n->bad)[row] == 0) {
        (*n->bad)[row] = n->mark;
    }
    return MR_OK;
}

static int mark_nulls(const struct nulls *n, const struct ArrowArray *a, mr_error *err)
{
    for (int64_t i = 0; n->instead == NULL && validity(a) != NULL && i < a->length; i++) {
        if (is_null(a, i)) {
            MR_TRY(mark_bad(n, i, err));
        }
    }
    return MR_OK;
}

/* ---- values; @r is within the array, which may have an offset ---- */

static int bits_column(const struct ArrowArray *a, struct range r, const struct mr_column *instead,
                       struct mr_owned_column *ret, mr_error *err)
{
    bool fallback = instead != NULL && *(const unsigned char *)instead->data != 0;
    uint64_t from = (uint64_t)(a->offset + r.first);

    MR_TRY(mr_buffer_new((size_t)r.n, &ret->owner[2], err));
    unsigned char *to = mr_buffer_data(ret->owner[2]);
    for (int64_t i = 0; i < r.n; i++) {
        to[i] = is_null(a, r.first + i) ? fallback : mr_bit(a->buffers[1], from + (uint64_t)i);
    }
    return MR_OK;
}

/* Numbers are lent, unless some are to be others. */
static int values_column(struct held *h, const struct ArrowArray *a, struct range r, size_t width,
                         const struct mr_column *instead, struct mr_owned_column *ret,
                         mr_error *err)
{
    size_t size = (size_t)r.n * width;
    const unsigned char *from = a->buffers[1];

    if (from != NULL) { /* there may be none for no values */
        from += (size_t)(a->offset + r.first) * width;
    }
    if (validity(a) == NULL) {
        return lend(h, from, size, &ret->owner[2], err);
    }
    MR_TRY(mr_buffer_new(size, &ret->owner[2], err));
    unsigned char *to = mr_buffer_data(ret->owner[2]);
    for (int64_t i = 0; i < r.n; i++, to += width) {
        if (!is_null(a, r.first + i)) {
            memcpy(to, from + (size_t)i * width, width);
        } else if (instead != NULL) {
            memcpy(to, instead->data, width);
        } else {
            memset(to, 0, width);
        }
    }
    return MR_OK;
}

struct text {
    const unsigned char *data;
    size_t size;
};

/* Strings as offsets and bytes of arrays. */
struct strings {
    const struct ArrowArray *a;
    enum mr_arrow_shape shape;
    int64_t size; /* MR_SHAPE_BYTES_FIXED */
};

static struct text string_at(const struct strings *s, int64_t i)
{
    const unsigned char *data = s->a->buffers[s->shape == MR_SHAPE_BYTES_FIXED ? 1 : 2];
    int64_t at = s->a->offset + i;
    int64_t from = at * s->size;
    int64_t to = from + s->size;

    if (s->shape == MR_SHAPE_BYTES32) {
        const int32_t *offsets = s->a->buffers[1];

        from = offsets[at];
        to = offsets[at + 1];
    } else if (s->shape == MR_SHAPE_BYTES64) {
        const int64_t *offsets = s->a->buffers[1];

        from = offsets[at];
        to = offsets[at + 1];
    }
    return (struct text){to > from ? data + from : NULL, (size_t)(to - from)};
}

static struct text string_instead(const struct mr_column *instead)
{
    if (instead == NULL) {
        return (struct text){NULL, 0};
    }
    return (struct text){(const unsigned char *)instead->data + instead->offsets[0],
                         (size_t)(instead->offsets[1] - instead->offsets[0])};
}

/* @n strings, each as @get gives it, copied. */
struct string_source {
    struct strings strings;
    const struct ArrowArray *indices; /* NULL: one behind the other */
    enum mr_dtype index;
    struct range rows;
    struct text instead;
};

static int64_t index_at(const struct ArrowArray *a, enum mr_dtype dtype, int64_t i)
{
    int64_t at = a->offset + i;

    switch ((int)dtype) {
    case MR_INT8: return ((const int8_t *)a->buffers[1])[at];
    case MR_UINT8: return ((const uint8_t *)a->buffers[1])[at];
    case MR_INT16: return ((const int16_t *)a->buffers[1])[at];
    case MR_UINT16: return ((const uint16_t *)a->buffers[1])[at];
    case MR_INT32: return ((const int32_t *)a->buffers[1])[at];
    case MR_UINT32: return ((const uint32_t *)a->buffers[1])[at];
    case MR_INT64:
    case MR_UINT64: return ((const int64_t *)a->buffers[1])[at];
    default: return -1;
    }
}

static struct text source_string(const struct string_source *s, int64_t i)
{
    int64_t row = s->rows.first + i;

    if (s->indices != NULL) {
        if (is_null(s->indices, row)) {
            return s->instead;
        }
        row = index_at(s->indices, s->index, row);
    }
    return is_null(s->strings.a, row) ? s->instead : string_at(&s->strings, row);
}

static int copy_strings(const struct string_source *s, struct mr_owned_column *ret, mr_error *err)
{
    size_t n = (size_t)s->rows.n;
    uint64_t total = 0;

    MR_TRY(mr_buffer_new((n + 1) * sizeof(uint64_t), &ret->owner[1], err));
    uint64_t *offsets = mr_buffer_data(ret->owner[1]);
    offsets[0] = 0;
    for (size_t i = 0; i < n; i++) {
        total += source_string(s, (int64_t)i).size;
        offsets[i + 1] = total;
        if (total > MR_ELEMENT_BYTES_MAX) {
            return mr_table_room(total, err);
        }
    }
    MR_TRY(mr_buffer_new(total, &ret->owner[2], err));
    unsigned char *to = mr_buffer_data(ret->owner[2]);
    for (size_t i = 0; i < n; i++) {
        struct text one = source_string(s, (int64_t)i);

        if (one.size > 0) {
            memcpy(to + offsets[i], one.data, one.size);
        }
    }
    return MR_OK;
}

/* Without nulls: the bytes are lent, and offsets of 64 bits, too. */
static int lend_strings(struct held *h, const struct strings *s, struct range r,
                        struct mr_owned_column *ret, mr_error *err)
{
    size_t n = (size_t)r.n;
    int64_t first = s->a->offset + r.first;
    const int64_t *wide = s->a->buffers[1];

    if (s->shape == MR_SHAPE_BYTES64 && wide != NULL) {
        MR_TRY(lend(h, wide + first, (n + 1) * sizeof *wide, &ret->owner[1], err));
        return lend(h, s->a->buffers[2], (size_t)wide[first + r.n], &ret->owner[2], err);
    }
    MR_TRY(mr_buffer_new((n + 1) * sizeof(uint64_t), &ret->owner[1], err));
    uint64_t *offsets = mr_buffer_data(ret->owner[1]);
    const int32_t *narrow = s->a->buffers[1];
    for (size_t i = 0; i <= n; i++) {
        int64_t at = first + (int64_t)i;

        offsets[i] = s->shape == MR_SHAPE_BYTES_FIXED         ? (uint64_t)(at * s->size)
                     : s->shape == MR_SHAPE_BYTES32 && narrow ? (uint64_t)narrow[at]
                                                              : 0;
    }
    return lend(h, s->a->buffers[s->shape == MR_SHAPE_BYTES_FIXED ? 1 : 2], offsets[n],
                &ret->owner[2], err);
}

static int plain_values(struct held *h, const struct ArrowArray *a, const struct mr_arrow_format *f,
                        struct range r, const struct mr_column *instead,
                        struct mr_owned_column *ret, mr_error *err)
{
    const struct strings strings = {a, f->shape, f->size};

    if (f->shape == MR_SHAPE_VALUES) {
        return values_column(h, a, r, mr_dtype_size(f->dtype), instead, ret, err);
    }
    if (f->shape == MR_SHAPE_BITS) {
        return bits_column(a, r, instead, ret, err);
    }
    if (validity(a) == NULL) {
        return lend_strings(h, &strings, r, ret, err);
    }
    const struct string_source source = {
        .strings = strings, .rows = r, .instead = string_instead(instead)};
    return copy_strings(&source, ret, err);
}

/* ---- dictionaries ---- */

static int check_indices(const struct nulls *nulls, const struct ArrowArray *a, enum mr_dtype index,
                         mr_error *err)
{
    for (int64_t i = 0; i < a->length; i++) {
        if (is_null(a, i)) {
            continue;
        }
        int64_t v = index_at(a, index, i);

        if (v < 0 || v >= a->dictionary->length) {
            return mr_table_damaged(err, "index %" PRId64 " in a dictionary of %" PRId64, v,
                                    a->dictionary->length);
        }
        if (nulls->instead == NULL && is_null(a->dictionary, v)) {
            MR_TRY(mark_bad(nulls, i, err));
        }
    }
    return MR_OK;
}

static int gather(const struct ArrowArray *a, enum mr_dtype index, size_t width,
                  const struct mr_column *from, const struct mr_column *instead,
                  struct mr_owned_column *ret, mr_error *err)
{
    MR_TRY(mr_buffer_new((size_t)a->length * width, &ret->owner[2], err));
    unsigned char *to = mr_buffer_data(ret->owner[2]);

    for (int64_t i = 0; i < a->length; i++, to += width) {
        if (!is_null(a, i)) {
            memcpy(to, (const char *)from->data + (size_t)index_at(a, index, i) * width, width);
        } else if (instead != NULL) {
            memcpy(to, instead->data, width);
        } else {
            memset(to, 0, width);
        }
    }
    return MR_OK;
}

static int dictionary_column(struct held *h, const struct ArrowSchema *schema,
                             const struct nulls *nulls, struct mr_owned_column *ret, mr_error *err)
{
    const struct ArrowArray *a = &h->array;
    enum mr_dtype index = mr_arrow_format_of(schema->format).dtype;
    struct mr_arrow_format f = mr_arrow_format_of(schema->dictionary->format);
    struct mr_owned_column values = {.c = {.dtype = (uint8_t)f.dtype}};

    MR_TRY(check_indices(nulls, a, index, err));
    if (f.dtype == MR_STRING) {
        const struct string_source source = {
            .strings = {a->dictionary, f.shape, f.size},
            .indices = a,
            .index = index,
            .rows = {0, a->length},
            .instead = string_instead(nulls->instead),
        };
        return copy_strings(&source, ret, err);
    }
    struct range all = {0, a->dictionary->length};
    int rc = plain_values(h, a->dictionary, &f, all, nulls->instead, &values, err);
    if (rc == MR_OK) {
        values.c.data = mr_buffer_data(values.owner[2]);
        rc = gather(a, index, mr_dtype_size(f.dtype), &values.c, nulls->instead, ret, err);
    }
    mr_owned_column_free(&values);
    return rc;
}

/* ---- lists ---- */

static int64_t list_end(const struct ArrowArray *a, const struct mr_arrow_format *f, int64_t i)
{
    int64_t at = a->offset + i;

    if (f->shape == MR_SHAPE_LIST_FIXED) {
        return at * f->size;
    }
    if (a->buffers[1] == NULL) {
        return 0;
    }
    return f->shape == MR_SHAPE_LIST32 ? ((const int32_t *)a->buffers[1])[at]
                                       : ((const int64_t *)a->buffers[1])[at];
}

/* A list that is null and has values: it cannot be empty, which null is taken for. */
static int mark_full_nulls(const struct nulls *nulls, const struct ArrowArray *a,
                           const struct mr_arrow_format *f, mr_error *err)
{
    for (int64_t i = 0; validity(a) != NULL && i < a->length; i++) {
        if (is_null(a, i) && list_end(a, f, i) != list_end(a, f, i + 1)) {
            MR_TRY(mark_bad(nulls, i, err));
        }
    }
    return MR_OK;
}

/* A list has a null in it. */
static int mark_elements(const struct nulls *nulls, const struct ArrowArray *a,
                         const struct mr_arrow_format *f, mr_error *err)
{
    const struct ArrowArray *child = a->children[0];

    if (nulls->instead != NULL || validity(child) == NULL) {
        return MR_OK;
    }
    for (int64_t i = 0; i < a->length; i++) {
        for (int64_t k = list_end(a, f, i); k < list_end(a, f, i + 1); k++) {
            if (is_null(child, k)) {
                MR_TRY(mark_bad(nulls, i, err));
                break;
            }
        }
    }
    return MR_OK;
}

/* Row dims and starts in one buffer. A list that is null is empty. */
static int list_rows(const struct ArrowArray *a, const struct mr_arrow_format *f, int64_t first,
                     struct mr_owned_column *ret, mr_error *err)
{
    size_t n = (size_t)a->length;

    MR_TRY(mr_buffer_new((2 * n + 1) * sizeof(int64_t), &ret->owner[0], err));
    int64_t *dims = mr_buffer_data(ret->owner[0]);
    uint64_t *starts = (uint64_t *)(dims + n);
    for (size_t i = 0; i < n; i++) {
        starts[i] = (uint64_t)(list_end(a, f, (int64_t)i) - first);
        dims[i] = list_end(a, f, (int64_t)i + 1) - list_end(a, f, (int64_t)i);
    }
    starts[n] = (uint64_t)(list_end(a, f, a->length) - first);
    ret->c.row_dims = dims;
    ret->c.starts = starts;
    return MR_OK;
}

static int list_column(struct held *h, const struct ArrowSchema *schema,
                       const struct mr_arrow_format *f, const struct nulls *nulls,
                       struct mr_owned_column *ret, mr_error *err)
{
    const struct ArrowArray *a = &h->array;
    struct mr_arrow_format values = mr_arrow_format_of(schema->children[0]->format);
    int64_t first = list_end(a, f, 0);
    struct range r = {first, list_end(a, f, a->length) - first};

    MR_TRY(mark_full_nulls(nulls, a, f, err));
    MR_TRY(mark_elements(nulls, a, f, err));
    ret->c.kind = f->shape == MR_SHAPE_LIST_FIXED ? MR_COLUMN_FIXED : MR_COLUMN_VAR;
    ret->c.rank = 1;
    if (f->shape == MR_SHAPE_LIST_FIXED) {
        ret->c.dims[0] = f->size;
    } else {
        MR_TRY(list_rows(a, f, first, ret, err));
    }
    return plain_values(h, a->children[0], &values, r, nulls->instead, ret, err);
}

int mr_arrow_column(const struct mr_arrow_want *want, struct ArrowArray *array, uint32_t **bad,
                    uint32_t mark, struct mr_owned_column *ret, mr_error *err)
{
    const struct ArrowSchema *schema = want->schema;
    struct mr_arrow_format f = mr_arrow_format_of(schema->format);
    struct mr_leaf_spec leaf = {0};
    struct mr_owned_column column = {0};
    struct held *h = NULL;

    MR_TRY(hold(array, &h, err));
    const struct nulls nulls = {want->instead, bad, mark, (uint32_t)h->array.length};
    (void)mr_arrow_leaf(schema, &leaf);
    column.c.kind = MR_COLUMN_FIXED;
    column.c.dtype = leaf.dtype;
    int rc = mark_nulls(&nulls, &h->array, err);
    if (rc == MR_OK && mr_arrow_is_list(&f)) {
        rc = list_column(h, schema, &f, &nulls, &column, err);
    } else if (rc == MR_OK && schema->dictionary != NULL) {
        rc = dictionary_column(h, schema, &nulls, &column, err);
    } else if (rc == MR_OK) {
        struct range all = {0, h->array.length};

        rc = plain_values(h, &h->array, &f, all, want->instead, &column, err);
    }
    held_unref(h);
    if (rc != MR_OK) {
        mr_owned_column_free(&column);
        return rc;
    }
    column.c.data = mr_buffer_data(column.owner[2]);
    column.c.offsets = column.owner[1] != NULL ? mr_buffer_data(column.owner[1]) : NULL;
    *ret = column;
    return MR_OK;
}
