/*
 * decode_csv: records of CSV as columns. Input 0 has the records; the others say what the columns
 * are, in their order: the dtype, and what stands for a field that is empty, nothing if there must
 * be one. A record is read once, whatever the number of columns.
 */
#include "ops/attr.h"
#include "ops/csv.h"
#include "ops/number.h"

#define SET_COLUMNS (MR_SET_INDEX | MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64) | MR_SET(MR_STRING))

/* ---- attributes ---- */

static int infer_delim(struct mr_attrs attrs, mr_error *err)
{
    const struct mr_attr *delim = mr_attr_get(attrs, "field_delim");

    if (delim != NULL && (delim->size != 1 || strchr("\"\n\r", *(const char *)delim->bytes))) {
        return mr_error_set(err, MR_EINVAL,
                            "field_delim is '%.*s', it must be one byte, and no quote or end of "
                            "line",
                            (int)MR_MIN(delim->size, 20), (const char *)delim->bytes);
    }
    return MR_OK;
}

/* Rising numbers of fields, one a column; NULL: all fields are columns. */
static int infer_selection(const struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *cols = mr_attr_get(it->attrs, "select_cols");

    for (int32_t i = 0; cols != NULL && i < cols->count; i++) {
        if (cols->ints[i] < 0 || cols->ints[i] > INT32_MAX ||
            (i > 0 && cols->ints[i] <= cols->ints[i - 1])) {
            return mr_error_set(err, MR_EINVAL,
                                "select_cols must be numbers of fields that rise, from 0");
        }
    }
    const struct mr_attr *fields = mr_attr_get(it->attrs, "fields");
    if (fields != NULL && (fields->i < 1 || fields->i > INT32_MAX)) {
        return mr_error_set(err, MR_EINVAL, "fields is %lld", (long long)fields->i);
    }
    if (cols != NULL && (size_t)cols->count != it->nin - 1) {
        return mr_error_set(err, MR_EINVAL, "%d select_cols for %zu columns", cols->count,
                            it->nin - 1);
    }
    return MR_OK;
}

static int infer_decode_csv(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    MR_TRY(infer_delim(it->attrs, err));
    MR_TRY(infer_selection(it, err));
    if (it->nin - 1 > it->cap) {
        return mr_error_set(err, MR_EINVAL, "%zu columns; at most %zu", it->nin - 1, it->cap);
    }
    it->nout = it->nin - 1;
    for (size_t i = 0; i < it->nout; i++) {
        const struct mr_leaf_spec *given = &it->in[i + 1];

        MR_TRY(mr_infer_dtype(it->in, i + 1, SET_COLUMNS, err));
        if (given->rank > 1 || (given->rank == 1 && given->dims[0] > 1)) {
            return mr_error_set(err, MR_EINVAL, "the default of column %zu has more than one value",
                                i + 1);
        }
        it->out[i] = it->in[0];
        it->out[i].dtype = given->dtype;
    }
    return MR_OK;
}

/* ---- running ---- */

struct column {
    struct mr_output output;
    struct mr_owned_column made;
    unsigned char *at; /* where the next value goes */
    uint32_t field;
    struct mr_tensor fallback; /* of the row at hand; no value: there must be a field */
};

struct decoding {
    struct mr_csv_format format;
    struct mr_string na;
    uint32_t fields; /* that a record has at most; 0: any number */
    uint32_t rows;
    struct mr_input *inputs;
    struct column *columns;
    size_t n;
};

static void configure(struct decoding *d, const struct mr_kernel_call *call)
{
    struct mr_attrs attrs = {call->attrs, call->nattrs};
    const struct mr_attr *delim = mr_attr_get(attrs, "field_delim");
    const struct mr_attr *na = mr_attr_get(attrs, "na_value");
    const struct mr_attr *cols = mr_attr_get(attrs, "select_cols");

    d->format.delim = delim != NULL ? *(const unsigned char *)delim->bytes : ',';
    d->format.quotes = mr_attr_bool(attrs, "use_quote_delim", true);
    d->na = na != NULL ? (struct mr_string){na->bytes, na->size} : (struct mr_string){0};
    d->format.lines = mr_attr_bool(attrs, "lines", false);
    d->fields = (uint32_t)mr_attr_int(attrs, "fields", cols == NULL ? (int64_t)d->n : 0);
    for (size_t i = 0; i < d->n; i++) {
        d->columns[i].field = cols != NULL ? (uint32_t)cols->ints[i] : (uint32_t)i;
    }
}

static int bad_field(const struct column *c, struct mr_string text, mr_error *err)
{
    return mr_error_set(err, MR_EINVAL, "field %u, '%.*s', is not a valid %s", c->field + 1,
                        (int)MR_MIN(text.size, 60), (const char *)text.data,
                        mr_dtype_name((mr_dtype)c->output.dtype));
}

static int put_string(struct column *c, const struct mr_csv_field *field, mr_error *err)
{
    struct mr_string *to = (struct mr_string *)(void *)c->at;

    *to = field->text;
    if (field->doubled) { /* else it is a view of the record */
        unsigned char *bytes = mr_output_bytes(&c->output, field->text.size, err);

        if (bytes == NULL) {
            return MR_EEXHAUSTED;
        }
        *to = (struct mr_string){bytes, mr_csv_halve(field->text, bytes)};
    }
    return MR_OK;
}

static int put_fallback(struct column *c, mr_error *err)
{
    if (c->fallback.count == 0) {
        return mr_error_set(err, MR_EINVAL, "field %u is empty and has no default", c->field + 1);
    }
    memcpy(c->at, c->fallback.values, c->output.width);
    return MR_OK;
}

static int put(const struct decoding *d, struct column *c, const struct mr_csv_field *field,
               mr_error *err)
{
    bool ok = true;

    if (field->text.size == 0 || (d->na.size > 0 && mr_string_equal(field->text, d->na))) {
        return put_fallback(c, err);
    }
    switch (c->output.dtype) {
    case MR_INT32: ok = mr_number_i32(field->text, (int32_t *)(void *)c->at); break;
    case MR_INT64: ok = mr_number_i64(field->text, (int64_t *)(void *)c->at); break;
    case MR_FLOAT32: ok = mr_number_f32(field->text, (float *)(void *)c->at); break;
    case MR_FLOAT64: ok = mr_number_f64(field->text, (double *)(void *)c->at); break;
    default: return put_string(c, field, err);
    }
    return ok ? MR_OK : bad_field(c, field->text, err);
}

static int decode_record(const struct decoding *d, struct mr_string record, mr_error *err)
{
    struct mr_csv_cursor cursor = mr_csv_begin(&d->format, record);
    struct mr_csv_field field;
    size_t done = 0;

    /* Of the line of a file all is looked at. */
    while (cursor.more && (done < d->n || d->fields > 0 || d->format.lines)) {
        uint32_t number = cursor.field;

        MR_TRY(mr_csv_next(&d->format, &cursor, &field, err));
        if (done < d->n && d->columns[done].field == number) {
            struct column *c = &d->columns[done++];

            MR_TRY(put(d, c, &field, err));
            c->at += c->output.width;
        }
    }
    uint32_t least = d->n > 0 ? d->columns[d->n - 1].field + 1 : 0;
    if (done < d->n) {
        return mr_error_set(err, MR_EINVAL, "%u fields, there must be %s%u", cursor.field,
                            d->fields == least ? "" : "at least ", least);
    }
    if (d->fields > 0 && cursor.field > d->fields) {
        return mr_error_set(err, MR_EINVAL, "%u fields, there must be %s%u", cursor.field,
                            d->fields == least ? "" : "at most ", d->fields);
    }
    return MR_OK;
}

static int allocate(struct decoding *d, const struct mr_kernel_call *call, uint32_t *bad_row,
                    mr_error *err)
{
    const struct mr_input *in = &d->inputs[0];

    for (size_t i = 0; i < d->n; i++) {
        struct mr_output *out = &d->columns[i].output;
        uint8_t dtype = call->out_specs[i].dtype;

        if (d->rows == 0) {
            MR_TRY(mr_output_empty(out, &call->out_specs[i], err));
        } else if (in->fixed) {
            MR_TRY(mr_output_fixed(out, dtype, d->rows, in->rank, in->dims, err));
        } else {
            MR_TRY(mr_output_var(out, dtype, d->rows, in->rank, in->row_dims, bad_row, err));
        }
        d->columns[i].at = out->values;
    }
    return MR_OK;
}

static int decode_rows(struct decoding *d, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < d->rows; r++) {
        struct mr_tensor records = mr_input_row(&d->inputs[0], r);

        *bad_row = r;
        for (size_t i = 0; i < d->n; i++) {
            d->columns[i].fallback = mr_input_row(&d->inputs[i + 1], r);
        }
        for (uint64_t i = 0; i < records.count; i++) {
            MR_TRY(decode_record(d, mr_tensor_strings(&records)[i], err));
        }
    }
    *bad_row = 0;
    return MR_OK;
}

static int run(struct decoding *d, const struct mr_kernel_call *call, struct mr_owned_column *out,
               uint32_t *bad_row, mr_error *err)
{
    MR_TRY(allocate(d, call, bad_row, err));
    MR_TRY(decode_rows(d, bad_row, err));
    for (size_t i = 0; i < d->n; i++) {
        MR_TRY(mr_output_finish(&d->columns[i].output, &d->columns[i].made, err));
    }
    for (size_t i = 0; i < d->n; i++) {
        out[i] = d->columns[i].made;
        d->columns[i].made = (struct mr_owned_column){0};
    }
    return MR_OK;
}

static int eval_decode_csv(const struct mr_kernel_call *call, uint32_t rows,
                           const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                           size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct decoding d = {.rows = rows, .n = nout, .columns = mr_calloc(nout, sizeof *d.columns)};
    int rc = MR_OK;

    *bad_row = 0;
    MR_CHECK_ALLOC(d.columns, err);
    configure(&d, call);
    rc = mr_inputs_open(in, nin, rows, &d.inputs, err);
    rc = rc == MR_OK ? run(&d, call, out, bad_row, err) : rc;
    for (size_t i = 0; i < nout; i++) {
        mr_output_drop(&d.columns[i].output);
        mr_column_release(&d.columns[i].made);
    }
    mr_inputs_close(d.inputs, nin);
    mr_free(d.columns);
    return rc;
}

MR_DEFINE_KERNEL(decode_csv, 2, -1, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_decode_csv,
                 .eval = eval_decode_csv,
                 .attr_table = {{"field_delim", MR_ATTR_BYTES, true},
                                {"fields", MR_ATTR_INT, true},
                                {"lines", MR_ATTR_BOOL, true},
                                {"use_quote_delim", MR_ATTR_BOOL, true},
                                {"na_value", MR_ATTR_BYTES, true},
                                {"select_cols", MR_ATTR_INTS, true}});
