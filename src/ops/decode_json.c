/*
 * decode_json: records of JSON, which are objects, to one column a field: numbers, strings, bools,
 * and arrays of these of one shape. A record is read once; what is not wanted is passed over.
 *
 * A field that is missing, is null or lies in an object that is, has its default. A name that is
 * wanted and stands twice in an object is an error.
 */
#include "base/buf.h"
#include "ops/attr.h"
#include "ops/json.h"
#include "ops/json_fields.h"
#include "ops/number.h"

/* ---- what there will be ---- */

static int prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    struct mr_json_fields *fields = NULL;

    MR_TRY(mr_json_fields_new((struct mr_attrs){attrs, nattrs}, &fields, err));
    *state = fields;
    return MR_OK;
}

static int check_rank(const struct mr_json_field *f, int records, mr_error *err)
{
    char text[MR_JSON_PATH_TEXT];

    if (f->rank + records > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "%s: its rank is above %d",
                            mr_json_path_text(f->path, text), MR_RANK_MAX);
    }
    return MR_OK;
}

static int infer(struct mr_kernel_infer *it, mr_error *err)
{
    MR_AUTO(mr_json_fields_free) struct mr_json_fields *fields = NULL;

    MR_TRY(mr_json_fields_new(it->attrs, &fields, err));
    if (fields->n > it->cap) {
        return mr_error_set(err, MR_EINVAL, "%zu fields; at most %zu", fields->n, it->cap);
    }
    it->nout = fields->n;
    for (size_t i = 0; i < fields->n; i++) {
        const struct mr_json_field *f = &fields->fields[i];
        struct mr_leaf_spec *out = &it->out[i];

        *out = it->in[0];
        out->dtype = f->dtype;
        if (out->rank >= 0) {
            MR_TRY(check_rank(f, out->rank, err));
            memcpy(out->dims + out->rank, f->dims, (size_t)f->rank * sizeof f->dims[0]);
            out->rank = (int8_t)(out->rank + f->rank);
        }
    }
    return MR_OK;
}

/* ---- values ---- */

struct column {
    struct mr_output output;
    struct mr_owned_column made;
    unsigned char *at; /* where the values of the record at hand go */
    bool filled;
};

struct decoding {
    const struct mr_json_fields *fields;
    struct mr_input input;
    uint32_t rows;
    struct column *columns;
    struct mr_json json;
    uint64_t record; /* the number of the one at hand, from 1 */
    uint64_t *seen;  /* for each node, the last record that had it */
    struct mr_buf name;
    bool located; /* the error says which field it is in */
};

static int mismatch(struct decoding *d, enum mr_json_kind kind, const char *wanted, mr_error *err)
{
    const unsigned char *at = d->json.at;

    /* What is no value at all, though it begins as one ("not JSON", as null), is said first. */
    MR_TRY(mr_json_skip(&d->json, err));
    return mr_json_invalid(&d->json, at, err, "%s instead of %s", mr_json_kind_name(kind), wanted);
}

static int decode_string(struct decoding *d, struct column *c, unsigned char *to, mr_error *err)
{
    struct mr_json_text text;

    MR_TRY(mr_json_string(&d->json, &text, err));
    if (text.escaped) { /* else it is a view of the record */
        unsigned char *bytes = mr_output_bytes(&c->output, text.raw.size, err);

        if (bytes == NULL) {
            return MR_EEXHAUSTED;
        }
        text.raw = (struct mr_string){bytes, mr_json_unescape(&text, bytes)};
    }
    memcpy(to, &text.raw, sizeof text.raw);
    return MR_OK;
}

static int decode_number(struct decoding *d, uint8_t dtype, unsigned char *to, mr_error *err)
{
    const unsigned char *at = d->json.at;
    struct mr_string text;
    bool ok;

    MR_TRY(mr_json_number(&d->json, &text, err));
    switch (dtype) {
    case MR_FLOAT32: ok = mr_number_f32(text, (float *)(void *)to); break;
    case MR_FLOAT64: ok = mr_number_f64(text, (double *)(void *)to); break;
    default: ok = mr_number_whole(text, dtype, to);
    }
    return ok ? MR_OK
              : mr_json_invalid(&d->json, at, err, "%.*s is not a valid %s",
                                (int)MR_MIN(text.size, 60), (const char *)text.data,
                                mr_dtype_name((mr_dtype)dtype));
}

static int decode_value(struct decoding *d, struct column *c, unsigned char *to, mr_error *err)
{
    uint8_t dtype = c->output.dtype;
    enum mr_json_kind kind = mr_json_peek(&d->json);
    enum mr_json_kind wanted = dtype == MR_STRING ? MR_JSON_STRING
                               : dtype == MR_BOOL ? MR_JSON_BOOL
                                                  : MR_JSON_NUMBER;
    bool yes = false;

    if (kind != wanted) {
        return mismatch(d, kind, mr_json_kind_name(wanted), err);
    }
    if (kind == MR_JSON_STRING) {
        return decode_string(d, c, to, err);
    }
    if (kind == MR_JSON_NUMBER) {
        return decode_number(d, dtype, to, err);
    }
    MR_TRY(mr_json_bool(&d->json, &yes, err));
    *to = yes;
    return MR_OK;
}

/* The values of a field from axis @axis on; @n in all. */
static int decode_values(struct decoding *d, const struct mr_json_field *f, struct column *c,
                         int axis, uint64_t n, unsigned char *to, mr_error *err)
{
    if (axis == f->rank) {
        return decode_value(d, c, to, err);
    }
    enum mr_json_kind kind = mr_json_peek(&d->json);
    uint64_t dim = (uint64_t)f->dims[axis];
    uint64_t inner = dim > 0 ? n / dim : 0;
    const unsigned char *at = d->json.at;
    bool more = true;
    uint64_t i = 0;

    if (kind != MR_JSON_ARRAY) {
        return mismatch(d, kind, "an array", err);
    }
    mr_json_enter(&d->json);
    for (;; i++) {
        MR_TRY(mr_json_item(&d->json, i == 0, &more, err));
        if (!more || i == dim) {
            break;
        }
        MR_TRY(decode_values(d, f, c, axis + 1, inner, to + i * inner * c->output.width, err));
    }
    if (more || i < dim) {
        return mr_json_invalid(&d->json, at, err, "an array of %s%llu, its shape wants %llu",
                               more ? "more than " : "", (unsigned long long)i,
                               (unsigned long long)dim);
    }
    return MR_OK;
}

/* ---- members ---- */

static int decode_object(struct decoding *d, uint32_t node, mr_error *err);

static int decode_known(struct decoding *d, uint32_t number, mr_error *err)
{
    const struct mr_json_node *node = &d->fields->nodes[number];
    enum mr_json_kind kind = mr_json_peek(&d->json);

    if (d->seen[number] == d->record) {
        return mr_json_invalid(&d->json, d->json.at, err, "it is given twice");
    }
    d->seen[number] = d->record;
    if (kind == MR_JSON_NULL) {
        return mr_json_null(&d->json, err);
    }
    if (node->field < 0) {
        return kind == MR_JSON_OBJECT ? decode_object(d, number, err)
                                      : mismatch(d, kind, "an object", err);
    }
    const struct mr_json_field *f = &d->fields->fields[node->field];
    struct column *c = &d->columns[node->field];
    c->filled = true;
    return decode_values(d, f, c, 0, f->count, c->at, err);
}

static int find_node(struct decoding *d, uint32_t parent, const struct mr_json_text *name,
                     uint32_t *ret, mr_error *err)
{
    struct mr_string plain = name->raw;

    if (name->escaped) {
        mr_buf_clear(&d->name);
        unsigned char *to = mr_buf_reserve(&d->name, name->raw.size);
        if (to == NULL) {
            return mr_buf_error(&d->name, err);
        }
        plain = (struct mr_string){to, mr_json_unescape(name, to)};
    }
    *ret = mr_json_fields_find(d->fields, parent, plain);
    return MR_OK;
}

static int decode_member(struct decoding *d, uint32_t parent, const struct mr_json_text *name,
                         mr_error *err)
{
    char text[MR_JSON_PATH_TEXT];
    uint32_t node = 0;

    MR_TRY(find_node(d, parent, name, &node, err));
    int rc = node != 0 ? decode_known(d, node, err) : mr_json_skip(&d->json, err);
    if (rc < 0 && !d->located) {
        mr_error_wrap(err, "%s",
                      mr_json_path_text(node != 0 ? d->fields->nodes[node].path : name->raw, text));
        d->located = true;
    }
    return rc;
}

/* Recursion is as deep as the names of fields are. */
static int decode_object(struct decoding *d, uint32_t node, mr_error *err)
{
    bool more = true;

    mr_json_enter(&d->json);
    for (bool first = true;; first = false) {
        struct mr_json_text name;

        MR_TRY(mr_json_member(&d->json, first, &name, &more, err));
        if (!more) {
            return MR_OK;
        }
        MR_TRY(decode_member(d, node, &name, err));
    }
}

/* ---- records ---- */

static int fill_default(const struct mr_json_field *f, const struct column *c, mr_error *err)
{
    char text[MR_JSON_PATH_TEXT];
    size_t width = c->output.width;

    if (!f->optional) {
        return mr_error_set(err, MR_EINVAL, "%s is missing or null, and has no default",
                            mr_json_path_text(f->path, text));
    }
    for (uint64_t k = 0; k < f->count; k++) {
        memcpy(c->at + k * width, f->fallback.values + (f->fallback.count == 1 ? 0 : k) * width,
               width);
    }
    return MR_OK;
}

static int decode_record(struct decoding *d, struct mr_string record, mr_error *err)
{
    d->json = mr_json_begin(record.data != NULL ? record : (struct mr_string){(const void *)"", 0});
    d->record++;
    enum mr_json_kind kind = mr_json_peek(&d->json);
    MR_TRY(kind == MR_JSON_OBJECT ? decode_object(d, 0, err) : mismatch(d, kind, "an object", err));
    MR_TRY(mr_json_finish(&d->json, err));
    for (size_t i = 0; i < d->fields->n; i++) {
        struct column *c = &d->columns[i];

        MR_TRY(c->filled ? MR_OK : fill_default(&d->fields->fields[i], c, err));
        c->filled = false;
        c->at += d->fields->fields[i].count * c->output.width;
    }
    return MR_OK;
}

static int decode_rows(struct decoding *d, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < d->rows; r++) {
        struct mr_tensor records = mr_input_row(&d->input, r);

        *bad_row = r;
        for (uint64_t i = 0; i < records.count; i++) {
            MR_TRY(decode_record(d, mr_tensor_strings(&records)[i], err));
        }
    }
    *bad_row = 0;
    return MR_OK;
}

static int allocate_var(struct decoding *d, const struct mr_json_field *f, struct mr_output *out,
                        uint32_t *bad_row, mr_error *err)
{
    size_t own = d->input.rank;
    size_t rank = own + (size_t)f->rank;
    MR_AUTO(mr_free) int64_t *dims = mr_reallocarray(NULL, d->rows * rank + 1, sizeof *dims);

    MR_CHECK_ALLOC(dims, err);
    for (uint32_t r = 0; r < d->rows; r++) {
        memcpy(dims + r * rank, d->input.row_dims + r * own, own * sizeof *dims);
        memcpy(dims + r * rank + own, f->dims, (size_t)f->rank * sizeof *dims);
    }
    return mr_output_var(out, f->dtype, d->rows, (int)rank, dims, bad_row, err);
}

static int allocate(struct decoding *d, const struct mr_kernel_call *call, size_t i,
                    uint32_t *bad_row, mr_error *err)
{
    const struct mr_json_field *f = &d->fields->fields[i];
    struct mr_output *out = &d->columns[i].output;
    int64_t dims[MR_RANK_MAX];

    MR_TRY(check_rank(f, d->input.rank, err));
    if (d->rows == 0) {
        MR_TRY(mr_output_empty(out, &call->out_specs[i], err));
    } else if (d->input.fixed) {
        memcpy(dims, d->input.dims, d->input.rank * sizeof *dims);
        memcpy(dims + d->input.rank, f->dims, (size_t)f->rank * sizeof *dims);
        MR_TRY(mr_output_fixed(out, f->dtype, d->rows, d->input.rank + f->rank, dims, err));
    } else {
        MR_TRY(allocate_var(d, f, out, bad_row, err));
    }
    d->columns[i].at = out->values;
    return MR_OK;
}

static int run(struct decoding *d, const struct mr_kernel_call *call, struct mr_owned_column *out,
               uint32_t *bad_row, mr_error *err)
{
    for (size_t i = 0; i < d->fields->n; i++) {
        MR_TRY(allocate(d, call, i, bad_row, err));
    }
    MR_TRY(decode_rows(d, bad_row, err));
    for (size_t i = 0; i < d->fields->n; i++) {
        MR_TRY(mr_output_finish(&d->columns[i].output, &d->columns[i].made, err));
    }
    for (size_t i = 0; i < d->fields->n; i++) {
        out[i] = d->columns[i].made;
        d->columns[i].made = (struct mr_owned_column){0};
    }
    return MR_OK;
}

static int eval(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                mr_error *err)
{
    struct decoding d = {
        .fields = call->state, .rows = rows, .name = {.memory = mr_memory_current()}};

    MR_CHECK_MAGIC(d.fields, MR_JSON_FIELDS_MAGIC);
    *bad_row = 0;
    MR_TRY(mr_input_open(&in[0], rows, &d.input, err));
    d.columns = mr_calloc(nout, sizeof *d.columns);
    d.seen = mr_calloc(d.fields->nodes_count, sizeof *d.seen);
    int rc = d.columns == NULL || d.seen == NULL ? mr_error_nomem(err)
                                                 : run(&d, call, out, bad_row, err);
    for (size_t i = 0; d.columns != NULL && i < nout; i++) {
        mr_output_drop(&d.columns[i].output);
        mr_column_release(&d.columns[i].made);
    }
    mr_free(d.columns);
    mr_free(d.seen);
    mr_buf_free(&d.name);
    mr_input_close(&d.input);
    return rc;
}

MR_DEFINE_KERNEL(decode_json, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL, .infer = infer,
                 .eval = eval, .prepare = prepare, .release = mr_json_fields_free,
                 .attr_table = {{"names", MR_ATTR_STRINGS, false},
                                {"dtypes", MR_ATTR_INTS, false},
                                {"shape#", MR_ATTR_SHAPE, true},
                                {"default#", MR_ATTR_BLOCK, true}});
