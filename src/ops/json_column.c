#include "ops/json_column.h"

#include "base/limits.h"
#include "ops/attr.h"

#define UNSET (-1)

struct mr_json_lists {
    int first; /* the axes whose lengths are results: first to last; last < first: none are */
    int last;
    int rank;        /* of the values */
    mr_buffer *held; /* what follows */
    int64_t *dims;   /* [rows][rank], of the values */
    int64_t *counts; /* [axes][rows]: how many lengths */
    uint32_t rows;
    struct mr_buf values;
    size_t values_before;               /* bytes, of the rows that have ended */
    int64_t size[MR_RANK_MAX];          /* along each axis, in the record at hand */
    struct mr_buf lengths[MR_RANK_MAX]; /* int64_t each */
    size_t lengths_before[MR_RANK_MAX];
};

int mr_json_length_axes(const struct mr_json_field *f, int records, int *first, int *last)
{
    /* A list along axis 0 is all that one record has: its length is that of the values. */
    *first = records == 0 ? 1 : 0;
    *last = !f->open ? *first - 1 : records == 0 ? f->ragged : f->last;
    return MR_MAX(*last - *first + 1, 0);
}

void mr_json_values_spec(const struct mr_json_field *f, const struct mr_leaf_spec *records,
                         struct mr_leaf_spec *ret)
{
    int first = 0;
    int last = 0;
    int n = mr_json_length_axes(f, records->rank, &first, &last);
    int kept = n > 0 ? last + 1 : 1; /* axes that become one */

    memset(ret, 0, sizeof *ret);
    ret->dtype = f->dtype;
    ret->rank = (int8_t)(f->rank - kept + 1);
    ret->dims[0] = n > 0 ? MR_DIM_UNKNOWN : f->dims[0];
    memcpy(ret->dims + 1, f->dims + kept, (size_t)(f->rank - kept) * sizeof f->dims[0]);
}

void mr_json_lengths_spec(const struct mr_json_field *f, const struct mr_leaf_spec *records,
                          int axis, struct mr_leaf_spec *ret)
{
    uint64_t count = 0;
    bool known = true;

    memset(ret, 0, sizeof *ret);
    ret->dtype = MR_INT64;
    ret->rank = 1;
    ret->dims[0] = records->rank == 0 && axis == 1 ? f->dims[0] : MR_DIM_UNKNOWN;
    for (int d = 0; d < records->rank; d++) {
        known = known && records->dims[d] >= 0;
    }
    if (axis == 0 && known && mr_shape_count(records->rank, records->dims, &count) &&
        count <= INT64_MAX) {
        ret->dims[0] = (int64_t)count;
    }
}

/* ---- from the beginning to the end ---- */

int mr_json_check_rank(const struct mr_json_field *f, int records, mr_error *err)
{
    return f->rank + records <= MR_RANK_MAX
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "its rank is above %d", MR_RANK_MAX);
}

static int open_lists(struct mr_json_column *c, uint32_t rows, int records, mr_error *err)
{
    const struct mr_json_field *f = c->field;
    struct mr_json_lists *l = mr_calloc(1, sizeof *l);

    MR_CHECK_ALLOC(l, err);
    c->lists = l; /* mr_json_column_drop() frees what is there */
    c->output.dtype = f->dtype;
    c->output.width = mr_value_width(f->dtype);
    int n = mr_json_length_axes(f, records, &l->first, &l->last);
    l->rank = n > 0 ? f->rank - l->last : f->rank;
    l->rows = rows;
    size_t each = (size_t)l->rank + (size_t)n;
    MR_TRY(mr_buffer_new((size_t)rows * each * sizeof *l->dims, &l->held, err));
    l->dims = mr_buffer_data(l->held);
    l->counts = l->dims + (size_t)rows * (size_t)l->rank;
    l->values.memory = mr_memory_current();
    for (int a = 0; a < MR_RANK_MAX; a++) {
        l->lengths[a].memory = mr_memory_current();
    }
    return MR_OK;
}

/* Of records whose number differs from row to row. */
static int open_var(struct mr_json_column *c, const struct mr_input *records, uint32_t rows,
                    uint32_t *bad_row, mr_error *err)
{
    const struct mr_json_field *f = c->field;
    size_t own = records->rank;
    size_t rank = own + (size_t)f->rank;
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;

    MR_TRY(mr_buffer_new(rows * rank * sizeof(int64_t), &held, err));
    int64_t *dims = mr_buffer_data(held);
    for (uint32_t r = 0; r < rows; r++) {
        memcpy(dims + r * rank, records->row_dims + r * own, own * sizeof *dims);
        memcpy(dims + r * rank + own, f->dims, (size_t)f->rank * sizeof *dims);
    }
    return mr_output_var(&c->output, f->dtype, rows, (int)rank, dims, bad_row, err);
}

int mr_json_column_open(struct mr_json_column *c, const struct mr_json_field *f,
                        const struct mr_input *records, uint32_t rows, uint32_t *bad_row,
                        mr_error *err)
{
    int64_t dims[MR_RANK_MAX];

    c->field = f;
    if (f->open) {
        return open_lists(c, rows, records->rank, err);
    }
    MR_TRY(mr_json_check_rank(f, records->rank, err));
    if (records->fixed) {
        memcpy(dims, records->dims, records->rank * sizeof *dims);
        memcpy(dims + records->rank, f->dims, (size_t)f->rank * sizeof *dims);
        MR_TRY(mr_output_fixed(&c->output, f->dtype, rows, records->rank + f->rank, dims, err));
    } else {
        MR_TRY(open_var(c, records, rows, bad_row, err));
    }
    c->at = c->output.values;
    return MR_OK;
}

void mr_json_column_drop(struct mr_json_column *c)
{
    struct mr_json_lists *l = c->lists;

    mr_output_drop(&c->output);
    if (l == NULL) {
        return;
    }
    for (int a = 0; a < MR_RANK_MAX; a++) {
        mr_buf_free(&l->lengths[a]);
    }
    mr_buf_free(&l->values);
    mr_buffer_unref(l->held);
    mr_free(l);
    c->lists = NULL;
}

/* Room for @bytes more in @b; what it has of the row at hand, behind @before, keeps to the
 * limit. */
static void *reserve(struct mr_buf *b, size_t before, size_t bytes, mr_error *err)
{
    if (bytes > MR_ELEMENT_BYTES_MAX - MR_MIN(b->len - before, MR_ELEMENT_BYTES_MAX)) {
        (void)mr_error_set(err, MR_EEXHAUSTED, "its values are above the limit of %llu bytes",
                           (unsigned long long)MR_ELEMENT_BYTES_MAX);
        return NULL;
    }
    void *to = mr_buf_reserve(b, bytes);
    if (to == NULL) {
        (void)mr_buf_error(b, err);
        return NULL;
    }
    b->len += bytes;
    return to;
}

unsigned char *mr_json_column_more(struct mr_json_column *c, mr_error *err)
{
    size_t width = c->output.width;

    if (c->lists != NULL) {
        return reserve(&c->lists->values, c->lists->values_before, width, err);
    }
    c->at += width;
    return c->at - width;
}

int mr_json_column_list(struct mr_json_column *c, int axis, uint64_t n, mr_error *err)
{
    struct mr_json_lists *l = c->lists;

    if (l == NULL) {
        return MR_OK;
    }
    if (axis > c->field->ragged && l->size[axis] >= 0 && l->size[axis] != (int64_t)n) {
        return mr_error_set(
            err, MR_EINVAL,
            "lists of %lld and %llu entries along axis %d; a ragged field takes them",
            (long long)l->size[axis], (unsigned long long)n, axis);
    }
    l->size[axis] = (int64_t)n;
    if (axis >= l->first && axis <= l->last) {
        int64_t *to = reserve(&l->lengths[axis], l->lengths_before[axis], sizeof *to, err);

        if (to == NULL) {
            return MR_EEXHAUSTED;
        }
        *to = (int64_t)n;
    }
    return MR_OK;
}

static int copy_default(struct mr_json_column *c, uint64_t count, mr_error *err)
{
    const struct mr_input *from = &c->field->fallback;
    size_t width = c->output.width;
    unsigned char *to = c->at;

    if (count == 0) {
        return MR_OK;
    }
    if (c->lists != NULL) {
        to = reserve(&c->lists->values, c->lists->values_before, count * width, err);
        if (to == NULL) {
            return MR_EEXHAUSTED;
        }
    } else {
        c->at += count * width;
    }
    for (uint64_t k = 0; k < count; k++) {
        memcpy(to + k * width, from->values + (from->count == 1 ? 0 : k) * width, width);
    }
    return MR_OK;
}

int mr_json_column_default(struct mr_json_column *c, int axis, mr_error *err)
{
    const struct mr_json_field *f = c->field;
    uint64_t repeat = 1;

    if (axis < f->lists) { /* a list that is missing is empty */
        return mr_json_column_list(c, axis, 0, err);
    }
    for (int d = f->lists; c->lists != NULL && d < f->rank; d++) {
        int64_t dim = f->own_open ? f->fallback.dims[d - f->lists] : f->dims[d];

        for (uint64_t i = 0; i < repeat; i++) {
            MR_TRY(mr_json_column_list(c, d, (uint64_t)dim, err));
        }
        repeat *= (uint64_t)dim;
    }
    return copy_default(c, f->own_open ? f->fallback.count : f->own_count, err);
}

void mr_json_column_record(struct mr_json_column *c)
{
    for (int a = 0; c->lists != NULL && a < MR_RANK_MAX; a++) {
        c->lists->size[a] = UNSET;
    }
}

/* How many lengths of @axis the row at hand has; *@sum: their sum. */
static int64_t count_lengths(const struct mr_json_lists *l, int axis, int64_t *sum)
{
    const struct mr_buf *b = &l->lengths[axis];
    size_t before = l->lengths_before[axis];
    const int64_t *lengths = (const int64_t *)(const void *)(b->data + before);
    size_t n = (b->len - before) / sizeof *lengths;

    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        *sum += lengths[i]; /* each is of entries that were read: no overflow */
    }
    return (int64_t)n;
}

int mr_json_column_row(struct mr_json_column *c, uint32_t row, mr_error *err)
{
    const struct mr_json_field *f = c->field;
    struct mr_json_lists *l = c->lists;
    uint64_t count = 0;

    if (l == NULL) {
        return MR_OK;
    }
    int64_t *dims = l->dims + (size_t)row * (size_t)l->rank;
    dims[0] = MR_MAX(l->size[0], 0);
    for (int a = l->first; a <= l->last; a++) {
        l->counts[(size_t)(a - l->first) * l->rows + row] = count_lengths(l, a, &dims[0]);
        l->lengths_before[a] = l->lengths[a].len;
    }
    for (int d = 1; d < l->rank; d++) {
        int axis = f->rank - l->rank + d;

        dims[d] = f->dims[axis] >= 0 ? f->dims[axis] : MR_MAX(l->size[axis], 0);
    }
    if (!mr_shape_count(l->rank, dims, &count) ||
        count != (l->values.len - l->values_before) / c->output.width) {
        return mr_error_set(err, MR_EINVAL, "its shape is above the limit"); /* [10^12, 10^12, 0] */
    }
    l->values_before = l->values.len;
    return MR_OK;
}

static int finish_values(struct mr_json_column *c, uint32_t rows, struct mr_owned_column *out,
                         uint32_t *bad_row, mr_error *err)
{
    struct mr_json_lists *l = c->lists;
    struct mr_arena *strings = c->output.arena;
    int rc = mr_output_var(&c->output, c->field->dtype, rows, l->rank, l->dims, bad_row, err);

    c->output.arena = strings;
    MR_TRY(rc);
    mr_copy_bytes(c->output.values, l->values.data, l->values.len);
    return mr_output_finish(&c->output, out, err);
}

int mr_json_column_finish(struct mr_json_column *c, uint32_t rows, struct mr_owned_column *out,
                          struct mr_owned_column *lengths, uint32_t *bad_row, mr_error *err)
{
    struct mr_json_lists *l = c->lists;

    if (l == NULL) {
        return mr_output_finish(&c->output, out, err);
    }
    MR_TRY(finish_values(c, rows, out, bad_row, err));
    for (int a = l->first; a <= l->last; a++) {
        struct mr_output made = {0};
        const int64_t *counts = l->counts + (size_t)(a - l->first) * rows;
        int rc = mr_output_var(&made, MR_INT64, rows, 1, counts, bad_row, err);

        if (rc == MR_OK) {
            mr_copy_bytes(made.values, l->lengths[a].data, l->lengths[a].len);
            rc = mr_output_finish(&made, &lengths[a - l->first], err);
        }
        mr_output_drop(&made);
        MR_TRY(rc);
    }
    return MR_OK;
}
