/*
 * decode_json: records of JSON, which are objects, to one column a field: numbers, strings, bools,
 * and arrays of these; of arrays of any length also the lengths. Objects in arrays are read as one
 * array for each of their fields. A record is read once; what is not wanted is passed over.
 *
 * A field that is missing, is null or lies in an object that is, has its default. A name that is
 * wanted and stands twice in an object is an error.
 */
#include "base/buf.h"
#include "ops/attr.h"
#include "ops/json.h"
#include "ops/json_column.h"
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

static int infer_open(struct mr_kernel_infer *it, const struct mr_json_field *f,
                      struct mr_leaf_spec *out, mr_error *err)
{
    int first = 0;
    int last = 0;

    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    if (it->nout + (size_t)mr_json_length_axes(f, it->in[0].rank, &first, &last) > it->cap) {
        return mr_error_set(err, MR_EINVAL, "more than %zu fields and lengths of lists", it->cap);
    }
    mr_json_values_spec(f, &it->in[0], out);
    for (int a = first; a <= last; a++) {
        mr_json_lengths_spec(f, &it->in[0], a, &it->out[it->nout++]);
    }
    return MR_OK;
}

static int infer_field(struct mr_kernel_infer *it, const struct mr_json_field *f,
                       struct mr_leaf_spec *out, mr_error *err)
{
    if (f->open) {
        return infer_open(it, f, out, err);
    }
    *out = it->in[0];
    out->dtype = f->dtype;
    if (out->rank >= 0) {
        MR_TRY(mr_json_check_rank(f, out->rank, err));
        memcpy(out->dims + out->rank, f->dims, (size_t)f->rank * sizeof f->dims[0]);
        out->rank = (int8_t)(out->rank + f->rank);
    }
    return MR_OK;
}

static int infer(struct mr_kernel_infer *it, mr_error *err)
{
    MR_AUTO(mr_json_fields_free) struct mr_json_fields *fields = NULL;
    char text[MR_JSON_PATH_TEXT];

    MR_TRY(mr_json_fields_new(it->attrs, &fields, err));
    if (fields->n > it->cap) {
        return mr_error_set(err, MR_EINVAL, "%zu fields; at most %zu", fields->n, it->cap);
    }
    it->nout = fields->n;
    for (size_t i = 0; i < fields->n; i++) {
        MR_TRY_WRAP(infer_field(it, &fields->fields[i], &it->out[i], err), err, "%s",
                    mr_json_path_text(fields->fields[i].path, text));
    }
    return MR_OK;
}

/* ---- values ---- */

struct decoding {
    const struct mr_json_fields *fields;
    struct mr_input input;
    uint32_t rows;
    struct mr_json_column *columns;
    struct mr_json json;
    uint64_t scopes; /* records and items of lists that have begun */
    uint64_t scope;  /* the number of the innermost one, from 1 */
    uint64_t *seen;  /* for each node, the last scope that had it */
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

static int decode_string(struct decoding *d, struct mr_json_column *c, unsigned char *to,
                         mr_error *err)
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

static int decode_value(struct decoding *d, struct mr_json_column *c, unsigned char *to,
                        mr_error *err)
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

static int decode_list(struct decoding *d, struct mr_json_column *c, int axis, mr_error *err);

/* What a field has where @axis of its lists were entered. */
static int decode_values(struct decoding *d, struct mr_json_column *c, int axis, mr_error *err)
{
    const struct mr_json_field *f = c->field;

    if (axis > 0 && axis == f->lists && f->optional && mr_json_peek(&d->json) == MR_JSON_NULL) {
        MR_TRY(mr_json_null(&d->json, err));
        return mr_json_column_default(c, axis, err);
    }
    if (axis < f->rank) {
        return decode_list(d, c, axis, err);
    }
    unsigned char *to = mr_json_column_more(c, err);
    return to == NULL ? MR_EEXHAUSTED : decode_value(d, c, to, err);
}

/* A list along @axis, which began at @at, has @n entries, @more: and others. */
static int finish_list(struct decoding *d, struct mr_json_column *c, int axis,
                       const unsigned char *at, uint64_t n, bool more, mr_error *err)
{
    int64_t dim = c->field->dims[axis];

    if (dim >= 0 && (more || n < (uint64_t)dim)) {
        return mr_json_invalid(&d->json, at, err, "an array of %s%llu, its shape wants %lld",
                               more ? "more than " : "", (unsigned long long)n, (long long)dim);
    }
    MR_TRY_WRAP(mr_json_column_list(c, axis, n, err), err, "column %zu",
                (size_t)(at - d->json.begin) + 1);
    return MR_OK;
}

static int decode_list(struct decoding *d, struct mr_json_column *c, int axis, mr_error *err)
{
    enum mr_json_kind kind = mr_json_peek(&d->json);
    int64_t dim = c->field->dims[axis];
    const unsigned char *at = d->json.at;
    bool more = true;
    uint64_t n = 0;

    if (kind != MR_JSON_ARRAY) {
        return mismatch(d, kind, "an array", err);
    }
    mr_json_enter(&d->json);
    for (;; n++) {
        MR_TRY(mr_json_item(&d->json, n == 0, &more, err));
        if (!more || n == (uint64_t)dim) { /* never, if it is unknown */
            break;
        }
        MR_TRY(decode_values(d, c, axis + 1, err));
    }
    return finish_list(d, c, axis, at, n, more, err);
}

/* ---- what is missing ---- */

/* A record, or a list's item, has ended: what it lacks of @node's fields, where @axis lists were
 * entered. */
static int finish_scope(struct decoding *d, const struct mr_json_node *node, int axis,
                        mr_error *err)
{
    const uint32_t *leaves = d->fields->leaves + node->first;
    char text[MR_JSON_PATH_TEXT];

    for (uint32_t i = 0; i < node->leaves; i++) {
        struct mr_json_column *c = &d->columns[leaves[i]];

        if (!c->filled) {
            if (!c->field->optional) {
                d->located = true;
                return mr_error_set(err, MR_EINVAL, "%s is missing or null, and has no default",
                                    mr_json_path_text(c->field->path, text));
            }
            MR_TRY_WRAP(mr_json_column_default(c, axis, err), err, "%s",
                        mr_json_path_text(c->field->path, text));
        }
        c->filled = false;
    }
    return MR_OK;
}

/* ---- members ---- */

static int decode_object(struct decoding *d, uint32_t node, mr_error *err);

/* An object of a list, or null: names may stand in it that stood in the one before. */
static int decode_item(struct decoding *d, uint32_t number, mr_error *err)
{
    const struct mr_json_node *node = &d->fields->nodes[number];
    enum mr_json_kind kind = mr_json_peek(&d->json);
    const unsigned char *at = d->json.at;
    uint64_t around = d->scope;

    d->scope = ++d->scopes;
    MR_TRY(kind == MR_JSON_NULL     ? mr_json_null(&d->json, err)
           : kind == MR_JSON_OBJECT ? decode_object(d, number, err)
                                    : mismatch(d, kind, "an object", err));
    MR_TRY_WRAP(finish_scope(d, node, node->axis + node->lists, err), err, "column %zu",
                (size_t)(at - d->json.begin) + 1);
    d->scope = around;
    return MR_OK;
}

/* Lists of objects, of which @level were entered. */
static int decode_items(struct decoding *d, uint32_t number, int level, mr_error *err)
{
    const struct mr_json_node *node = &d->fields->nodes[number];
    const uint32_t *leaves = d->fields->leaves + node->first;
    enum mr_json_kind kind = mr_json_peek(&d->json);
    const unsigned char *at = d->json.at;
    bool more = true;
    uint64_t n = 0;

    if (level == node->lists) {
        return decode_item(d, number, err);
    }
    if (kind != MR_JSON_ARRAY) {
        return mismatch(d, kind, "an array", err);
    }
    mr_json_enter(&d->json);
    for (;; n++) {
        MR_TRY(mr_json_item(&d->json, n == 0, &more, err));
        if (!more) {
            break;
        }
        MR_TRY(decode_items(d, number, level + 1, err));
    }
    for (uint32_t i = 0; i < node->leaves; i++) {
        struct mr_json_column *c = &d->columns[leaves[i]];

        MR_TRY(finish_list(d, c, node->axis + level, at, n, false, err));
        c->filled = true; /* also if there are no items */
    }
    return MR_OK;
}

static int decode_known(struct decoding *d, uint32_t number, mr_error *err)
{
    const struct mr_json_node *node = &d->fields->nodes[number];
    enum mr_json_kind kind = mr_json_peek(&d->json);

    if (d->seen[number] == d->scope) {
        return mr_json_invalid(&d->json, d->json.at, err, "it is given twice");
    }
    d->seen[number] = d->scope;
    if (kind == MR_JSON_NULL) {
        return mr_json_null(&d->json, err);
    }
    if (node->field < 0 && node->lists > 0) {
        return decode_items(d, number, 0, err);
    }
    if (node->field < 0) {
        return kind == MR_JSON_OBJECT ? decode_object(d, number, err)
                                      : mismatch(d, kind, "an object", err);
    }
    struct mr_json_column *c = &d->columns[node->field];
    c->filled = true;
    return decode_values(d, c, node->axis, err);
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

static int decode_record(struct decoding *d, struct mr_string record, mr_error *err)
{
    d->json = mr_json_begin(record.data != NULL ? record : (struct mr_string){(const void *)"", 0});
    d->scope = ++d->scopes;
    for (size_t i = 0; d->fields->open && i < d->fields->n; i++) {
        mr_json_column_record(&d->columns[i]);
    }
    enum mr_json_kind kind = mr_json_peek(&d->json);
    MR_TRY(kind == MR_JSON_OBJECT ? decode_object(d, 0, err) : mismatch(d, kind, "an object", err));
    MR_TRY(mr_json_finish(&d->json, err));
    return finish_scope(d, &d->fields->nodes[0], 0, err);
}

static int decode_row(struct decoding *d, uint32_t row, mr_error *err)
{
    struct mr_tensor records = mr_input_row(&d->input, row);
    char text[MR_JSON_PATH_TEXT];

    for (uint64_t i = 0; i < records.count; i++) {
        int rc = decode_record(d, mr_tensor_strings(&records)[i], err);

        if (rc < 0 && records.rank > 0) {
            mr_error_wrap(err, "record %llu of %llu", (unsigned long long)i,
                          (unsigned long long)records.count);
        }
        MR_TRY(rc);
    }
    for (size_t i = 0; d->fields->open && i < d->fields->n; i++) {
        MR_TRY_WRAP(mr_json_column_row(&d->columns[i], row, err), err, "%s",
                    mr_json_path_text(d->fields->fields[i].path, text));
    }
    return MR_OK;
}

static int decode_rows(struct decoding *d, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < d->rows; r++) {
        *bad_row = r;
        MR_TRY(decode_row(d, r, err));
    }
    *bad_row = 0;
    return MR_OK;
}

/* No rows: all columns are empty. */
static int finish_empty(const struct mr_kernel_call *call, struct mr_owned_column *out, size_t nout,
                        mr_error *err)
{
    for (size_t i = 0; i < nout; i++) {
        struct mr_output empty = {0};
        int rc = mr_output_empty(&empty, &call->out_specs[i], err);

        rc = rc == MR_OK ? mr_output_finish(&empty, &out[i], err) : rc;
        mr_output_drop(&empty);
        MR_TRY(rc);
    }
    return MR_OK;
}

static int finish(struct decoding *d, struct mr_owned_column *out, uint32_t *bad_row, mr_error *err)
{
    size_t lengths = d->fields->n;
    int first = 0;
    int last = 0;

    for (size_t i = 0; i < d->fields->n; i++) {
        struct mr_json_column *c = &d->columns[i];

        MR_TRY(mr_json_column_finish(c, d->rows, &out[i], &out[lengths], bad_row, err));
        lengths += (size_t)mr_json_length_axes(c->field, d->input.rank, &first, &last);
    }
    return MR_OK;
}

static int run(struct decoding *d, const struct mr_kernel_call *call, struct mr_owned_column *out,
               size_t nout, uint32_t *bad_row, mr_error *err)
{
    char text[MR_JSON_PATH_TEXT];

    if (d->rows == 0) {
        return finish_empty(call, out, nout, err);
    }
    for (size_t i = 0; i < d->fields->n; i++) {
        MR_TRY_WRAP(mr_json_column_open(&d->columns[i], &d->fields->fields[i], &d->input, d->rows,
                                        bad_row, err),
                    err, "%s", mr_json_path_text(d->fields->fields[i].path, text));
    }
    MR_TRY(decode_rows(d, bad_row, err));
    return finish(d, out, bad_row, err);
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
    d.columns = mr_calloc(d.fields->n, sizeof *d.columns);
    d.seen = mr_calloc(d.fields->nodes_count, sizeof *d.seen);
    MR_AUTO(mr_free) struct mr_owned_column *made = mr_calloc(nout, sizeof *made);
    int rc = d.columns == NULL || d.seen == NULL || made == NULL
                 ? mr_error_nomem(err)
                 : run(&d, call, made, nout, bad_row, err);
    for (size_t i = 0; d.columns != NULL && i < d.fields->n; i++) {
        mr_json_column_drop(&d.columns[i]);
    }
    for (size_t i = 0; made != NULL && i < nout; i++) {
        if (rc == MR_OK) {
            out[i] = made[i];
        } else {
            mr_column_release(&made[i]);
        }
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
                                {"ragged", MR_ATTR_INTS, true},
                                {"shape#", MR_ATTR_SHAPE, true},
                                {"default#", MR_ATTR_BLOCK, true}});
