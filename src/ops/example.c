/* parse_example: tf.Example records to one column a feature. The records of all rows are scanned
 * once, which finds where each feature lies; then each feature is checked and read into its column.
 */
#include "ops/attr.h"
#include "ops/example_config.h"
#include "ops/example_names.h"

static int prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    struct mr_example_config *config = NULL;

    MR_TRY(mr_example_config_new((struct mr_attrs){attrs, nattrs}, &config, err));
    *state = config;
    return MR_OK;
}

static int fill_specs(const struct mr_example_config *config, const struct mr_leaf_spec *in,
                      struct mr_leaf_spec *out, mr_error *err)
{
    for (size_t i = 0; i < config->n; i++) {
        const struct mr_example_feature *f = &config->features[i];
        char text[MR_FEATURE_TEXT];
        int batch = (int)in->rank;

        if (f->rank + batch > MR_RANK_MAX) {
            return mr_error_set(err, MR_EINVAL, "%s: its rank is above %d",
                                mr_feature_text(f->name, text), MR_RANK_MAX);
        }
        memset(&out[i], 0, sizeof out[i]);
        out[i].dtype = f->dtype;
        if (f->joined && batch == 1) {
            out[i].rank = 1;
            out[i].dims[0] = MR_DIM_UNKNOWN;
            out[config->n + f->number] = *in;
            out[config->n + f->number].dtype = MR_INT64;
            continue;
        }
        out[i].rank = (int8_t)(f->rank + batch);
        if (batch == 1) {
            out[i].dims[0] = in->dims[0];
        }
        memcpy(out[i].dims + batch, f->dims, (size_t)f->rank * sizeof f->dims[0]);
    }
    return MR_OK;
}

static int infer(struct mr_kernel_infer *it, mr_error *err)
{
    MR_AUTO(mr_example_config_free) struct mr_example_config *config = NULL;

    if (it->in[0].rank < 0 || it->in[0].rank > 1) {
        return mr_error_set(err, MR_EINVAL, "wants one record or a vector of records");
    }
    MR_TRY(mr_example_config_new(it->attrs, &config, err));
    size_t results = config->n + (it->in[0].rank == 1 ? config->njoined : 0);
    if (results > it->cap) {
        return mr_error_set(err, MR_EINVAL, "%zu features; at most %zu", results, it->cap);
    }
    it->nout = results;
    return fill_specs(config, &it->in[0], it->out, err);
}

struct parsing {
    const struct mr_example_config *config;
    const struct mr_input *input;
    uint32_t rows;
    struct mr_string *found;   /* [records][features]; data == NULL: absent */
    struct mr_string *current; /* the record that is being scanned */
    uint32_t bad_row;
};

static uint32_t row_of_record(const struct parsing *p, uint64_t record)
{
    uint32_t row = 0;

    if (p->input->fixed) {
        return (uint32_t)(record / p->input->per_row);
    }
    while (row + 1 < p->rows && p->input->starts[row + 1] - p->input->starts[0] <= record) {
        row++;
    }
    return row;
}

static void note_entry(void *ctx, struct mr_string key, struct mr_string feature)
{
    struct parsing *p = ctx;
    size_t low = 0;
    size_t high = p->config->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t i = p->config->by_name[middle];
        int order = mr_string_compare(key, p->config->features[i].name);

        if (order == 0) {
            p->current[i] = feature;
            return;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
}

static uint64_t records_of_row(const struct parsing *p, uint32_t row)
{
    return p->input->fixed ? p->input->per_row : (uint64_t)p->input->row_dims[row];
}

/* Record @r has failed: which of its row it is, if there may be others. */
static void name_record(const struct parsing *p, uint64_t r, mr_error *err)
{
    uint32_t row = row_of_record(p, r);

    if (p->input->rank == 1) {
        uint64_t first =
            p->input->fixed ? row * p->input->per_row : p->input->starts[row] - p->input->starts[0];

        mr_error_wrap(err, "record %llu of %llu", (unsigned long long)(r - first),
                      (unsigned long long)records_of_row(p, row));
    }
}

static int scan_records(struct parsing *p, mr_error *err)
{
    const struct mr_string *records = (const struct mr_string *)(const void *)p->input->values;

    for (uint64_t r = 0; r < p->input->count; r++) {
        p->current = p->found + r * p->config->n;
        int rc = mr_example_scan(records[r], note_entry, p, err);
        if (rc < 0) {
            p->bad_row = row_of_record(p, r);
            name_record(p, r, err);
            return rc;
        }
    }
    return MR_OK;
}

static const char *list_name(enum mr_feature_kind kind)
{
    static const char *const names[] = {"nothing", "a bytes list", "a float list", "an int64 list"};

    return names[kind];
}

static int count_own_values(const struct parsing *p, uint64_t r, size_t i, uint64_t *count,
                            bool *absent, mr_error *err)
{
    const struct mr_example_feature *f = &p->config->features[i];
    struct mr_string span = p->found[r * p->config->n + i];
    enum mr_feature_kind kind = MR_FEATURE_NONE;
    char text[MR_FEATURE_TEXT];

    *count = 0;
    int rc = span.data == NULL ? MR_OK : mr_feature_count(span, &kind, count, err);
    if (rc < 0) {
        mr_error_wrap(err, "%s", mr_feature_text(f->name, text));
        return rc;
    }
    *absent = kind == MR_FEATURE_NONE;
    if (*absent) {
        if (f->fallback == NULL && !f->sequence) {
            const struct mr_string *records =
                (const struct mr_string *)(const void *)p->input->values;
            char names[MR_EXAMPLE_NAMES_TEXT];

            return mr_error_set(err, MR_EINVAL, "%s is missing and has no default%s",
                                mr_feature_text(f->name, text),
                                mr_example_names(records[r], names));
        }
        return MR_OK;
    }
    if (kind != mr_feature_kind_of(f->dtype)) {
        return mr_error_set(err, MR_EINVAL, "%s is %s; wants %s", mr_feature_text(f->name, text),
                            list_name(kind), list_name(mr_feature_kind_of(f->dtype)));
    }
    if (f->sequence ? *count % f->per_record != 0 : *count != f->per_record) {
        return mr_error_set(err, MR_EINVAL, "%s has %llu values; wants %s%llu",
                            mr_feature_text(f->name, text), (unsigned long long)*count,
                            f->sequence ? "a multiple of " : "", (unsigned long long)f->per_record);
    }
    return MR_OK;
}

/* How many values record @r has for feature @i; 0 if it has none and that is allowed (*@absent). */
static int count_values(const struct parsing *p, uint64_t r, size_t i, uint64_t *count,
                        bool *absent, mr_error *err)
{
    int rc = count_own_values(p, r, i, count, absent, err);

    if (rc < 0) {
        name_record(p, r, err);
    }
    return rc;
}

static void fill_default(const struct mr_example_feature *f, const struct mr_input *fallback,
                         unsigned char *out)
{
    size_t width = fallback->width;

    for (uint64_t k = 0; k < f->per_record; k++) {
        memcpy(out + k * width, fallback->values + (f->fallback_count == 1 ? 0 : k) * width, width);
    }
}

/* A feature of one length: its values go straight into the column. */
static int read_fixed(struct parsing *p, size_t i, struct mr_output *out,
                      const struct mr_input *fallback, mr_error *err)
{
    const struct mr_example_feature *f = &p->config->features[i];

    for (uint64_t r = 0; r < p->input->count; r++) {
        unsigned char *at = out->values + r * f->per_record * out->width;
        uint64_t count;
        bool absent;
        int rc = count_values(p, r, i, &count, &absent, err);

        if (rc < 0) {
            p->bad_row = row_of_record(p, r);
            return rc;
        }
        if (absent) {
            fill_default(f, fallback, at);
        } else {
            mr_feature_read(p->found[r * p->config->n + i], mr_feature_kind_of(f->dtype), count,
                            at);
        }
    }
    return MR_OK;
}

/* Dims of the rows of a feature of one length: those of the record vector, and its own. */
static int alloc_fixed(struct parsing *p, const struct mr_example_feature *f, struct mr_output *out,
                       mr_error *err)
{
    int batch = p->input->rank;
    int rank = batch + f->rank;
    int64_t dims[MR_RANK_MAX];

    if (p->input->fixed || p->rows == 0) {
        dims[0] = batch == 1 && p->input->fixed ? p->input->dims[0] : 0;
        memcpy(dims + batch, f->dims, (size_t)f->rank * sizeof dims[0]);
        return mr_output_fixed(out, f->dtype, p->rows, rank, dims, err);
    }
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    MR_TRY(mr_buffer_new((size_t)p->rows * (size_t)rank * sizeof(int64_t), &held, err));
    int64_t *all = mr_buffer_data(held);
    for (uint32_t r = 0; r < p->rows; r++) {
        all[r * (size_t)rank] = p->input->row_dims[r];
        memcpy(all + r * (size_t)rank + 1, f->dims, (size_t)f->rank * sizeof *all);
    }
    return mr_output_var(out, f->dtype, p->rows, rank, all, &p->bad_row, err);
}

/* Room for @each numbers a row, and one for each record behind them. */
static int lists(const struct parsing *p, size_t each, mr_buffer **held, int64_t **ret,
                 mr_error *err)
{
    size_t bytes;

    if (__builtin_add_overflow(p->rows * each, p->input->count, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof **ret, &bytes)) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_buffer_new(bytes, held, err));
    *ret = mr_buffer_data(*held);
    return MR_OK;
}

/* Of a feature of any length: how many values each record has (@counts), and the dims of each row.
 * The records of a row are as long as the longest of them. */
static int measure_sequence(struct parsing *p, size_t i, uint64_t *counts, int64_t *dims,
                            mr_error *err)
{
    const struct mr_example_feature *f = &p->config->features[i];
    int batch = p->input->rank;
    uint64_t r = 0;

    for (uint32_t row = 0; row < p->rows; row++) {
        int64_t *own = dims + (size_t)row * (size_t)(batch + f->rank);
        uint64_t records = records_of_row(p, row);
        uint64_t most = 0;

        for (uint64_t end = r + records; r < end; r++) {
            bool absent;
            int rc = count_values(p, r, i, &counts[r], &absent, err);

            if (rc < 0) {
                p->bad_row = row;
                return rc;
            }
            most = counts[r] > most ? counts[r] : most;
        }
        memcpy(own + batch, f->dims, (size_t)f->rank * sizeof *own);
        if (batch == 1) {
            own[0] = (int64_t)records;
        }
        own[batch] = (int64_t)(most / f->per_record);
    }
    return MR_OK;
}

/* The values of one record at @at, and the default behind them up to @size values. */
static void fill_record(const struct mr_example_feature *f, struct mr_string found, uint64_t count,
                        uint64_t size, const struct mr_input *fallback, unsigned char *at,
                        size_t width)
{
    if (count > 0) {
        mr_feature_read(found, mr_feature_kind_of(f->dtype), count, at);
    }
    for (uint64_t k = count; k < size; k++) {
        if (f->fallback != NULL) {
            memcpy(at + k * width, fallback->values, width);
        } else {
            memset(at + k * width, 0, width);
        }
    }
}

static int read_sequence(struct parsing *p, size_t i, struct mr_output *out,
                         const struct mr_input *fallback, mr_error *err)
{
    static const int64_t none[MR_RANK_MAX];
    const struct mr_example_feature *f = &p->config->features[i];
    int rank = p->input->rank + f->rank;
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    int64_t *dims = NULL; /* of the rows, then the counts of the records */
    uint64_t r = 0;

    MR_TRY(lists(p, (size_t)rank, &held, &dims, err));
    uint64_t *counts = (uint64_t *)(dims + (size_t)p->rows * (size_t)rank);
    MR_TRY(measure_sequence(p, i, counts, dims, err));
    MR_TRY(p->rows > 0 ? mr_output_var(out, f->dtype, p->rows, rank, dims, &p->bad_row, err)
                       : mr_output_fixed(out, f->dtype, 0, rank, none, err));
    for (uint32_t row = 0; row < p->rows; row++) {
        uint64_t records = records_of_row(p, row);
        uint64_t values;
        unsigned char *at = mr_output_row(out, row, &values);
        uint64_t size = records > 0 ? values / records : 0; /* of one record */

        for (uint64_t k = 0; k < records; k++, r++) {
            fill_record(f, p->found[r * p->config->n + i], counts[r], size, fallback,
                        at + k * size * out->width, out->width);
        }
    }
    return MR_OK;
}

/* How many values each record has, and in all records of each row. */
static int measure_joined(struct parsing *p, size_t i, int64_t *counts, int64_t *totals,
                          mr_error *err)
{
    uint64_t r = 0;

    for (uint32_t row = 0; row < p->rows; row++) {
        uint64_t records = records_of_row(p, row);

        totals[row] = 0;
        for (uint64_t end = r + records; r < end; r++) {
            uint64_t count;
            bool absent;
            int rc = count_values(p, r, i, &count, &absent, err);

            if (rc < 0) {
                p->bad_row = row;
                return rc;
            }
            counts[r] = (int64_t)count;
            totals[row] += counts[r];
        }
    }
    return MR_OK;
}

/* The records of each row behind one another. */
static int read_joined(struct parsing *p, size_t i, const int64_t *counts, const int64_t *totals,
                       struct mr_output *out, mr_error *err)
{
    static const int64_t none[1];
    const struct mr_example_feature *f = &p->config->features[i];
    uint64_t r = 0;

    MR_TRY(p->rows > 0 ? mr_output_var(out, f->dtype, p->rows, 1, totals, &p->bad_row, err)
                       : mr_output_fixed(out, f->dtype, 0, 1, none, err));
    for (uint32_t row = 0; row < p->rows; row++) {
        uint64_t values;
        unsigned char *at = mr_output_row(out, row, &values);

        for (uint64_t k = records_of_row(p, row); k > 0; k--, r++) {
            if (counts[r] > 0) {
                mr_feature_read(p->found[r * p->config->n + i], mr_feature_kind_of(f->dtype),
                                (uint64_t)counts[r], at);
            }
            at += (uint64_t)counts[r] * out->width;
        }
    }
    return MR_OK;
}

/* The lengths have the shape of the records. */
static int put_lengths(struct parsing *p, const int64_t *counts, struct mr_output *out,
                       mr_error *err)
{
    const struct mr_input *records = p->input;

    MR_TRY(records->fixed || p->rows == 0
               ? mr_output_fixed(out, MR_INT64, p->rows, 1,
                                 (int64_t[]){records->fixed ? records->dims[0] : 0}, err)
               : mr_output_var(out, MR_INT64, p->rows, 1, records->row_dims, &p->bad_row, err));
    if (records->count > 0 && p->rows > 0) {
        memcpy(out->values, counts, records->count * sizeof *counts);
    }
    return MR_OK;
}

static int read_joined_feature(struct parsing *p, size_t i, struct mr_owned_column *values,
                               struct mr_owned_column *lengths, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *held = NULL;
    int64_t *totals = NULL;
    struct mr_output out = {0};
    struct mr_output sizes = {0};

    p->bad_row = 0;
    MR_TRY(lists(p, 1, &held, &totals, err));
    int64_t *counts = totals + p->rows;
    MR_TRY(measure_joined(p, i, counts, totals, err));
    int rc = read_joined(p, i, counts, totals, &out, err);
    rc = rc == MR_OK ? put_lengths(p, counts, &sizes, err) : rc;
    rc = rc == MR_OK ? mr_output_finish(&out, values, err) : rc;
    rc = rc == MR_OK ? mr_output_finish(&sizes, lengths, err) : rc;
    mr_output_drop(&out);
    mr_output_drop(&sizes);
    return rc;
}

static int fill_column(struct parsing *p, size_t i, struct mr_output *out,
                       const struct mr_input *fallback, struct mr_owned_column *column,
                       mr_error *err)
{
    const struct mr_example_feature *f = &p->config->features[i];

    if (f->sequence) {
        MR_TRY(read_sequence(p, i, out, fallback, err));
    } else {
        MR_TRY(alloc_fixed(p, f, out, err));
        MR_TRY(read_fixed(p, i, out, fallback, err));
    }
    return mr_output_finish(out, column, err);
}

static int read_feature(struct parsing *p, size_t i, struct mr_owned_column *column, mr_error *err)
{
    const struct mr_example_feature *f = &p->config->features[i];
    struct mr_owned_column given; /* the default: it is used as long as `fallback` is open */
    struct mr_input fallback = {0};
    struct mr_output out = {0};

    p->bad_row = 0;
    if (f->fallback != NULL) {
        given = mr_block_owned_column(f->fallback, 0);
        MR_TRY(mr_input_open(&(struct mr_kernel_in){&given, true}, 1, &fallback, err));
    }
    int rc = fill_column(p, i, &out, &fallback, column, err); /* copies strings of the default */
    mr_output_drop(&out);
    mr_input_close(&fallback);
    return rc;
}

/* The first row that fails is wanted, but features are read one after the other: when feature i
 * fails at row k, only rows before k are of interest for the features behind it. The executor asks
 * again for those rows, so it is enough that the row named has failed and that all rows before it
 * are looked at in the end. */
static int read_features(struct parsing *p, struct mr_owned_column *out, mr_error *err)
{
    bool joins = p->input->rank == 1;
    size_t results = p->config->n + (joins ? p->config->njoined : 0);
    struct mr_owned_column *made = mr_calloc(results, sizeof *made);
    int rc = MR_OK;

    MR_CHECK_ALLOC(made, err);
    for (size_t i = 0; rc == MR_OK && i < p->config->n; i++) {
        const struct mr_example_feature *f = &p->config->features[i];

        rc = joins && f->joined
                 ? read_joined_feature(p, i, &made[i], &made[p->config->n + f->number], err)
                 : read_feature(p, i, &made[i], err);
    }
    for (size_t i = 0; i < results; i++) {
        if (rc == MR_OK) {
            out[i] = made[i];
        } else {
            mr_column_release(&made[i]);
        }
    }
    mr_free(made);
    return rc;
}

static int parse(struct parsing *p, struct mr_owned_column *out, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *found = NULL;
    size_t bytes = 0;

    if (__builtin_mul_overflow(p->input->count, p->config->n * sizeof *p->found, &bytes)) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_buffer_new(bytes, &found, err));
    p->found = memset(mr_buffer_data(found), 0, bytes);
    MR_TRY(scan_records(p, err));
    return read_features(p, out, err);
}

static int eval(const struct mr_kernel_call *call, uint32_t rows, const struct mr_kernel_in *in,
                size_t nin, struct mr_owned_column *out, size_t nout, uint32_t *bad_row,
                mr_error *err)
{
    struct parsing p = {.config = call->state, .rows = rows};
    struct mr_owned_column column;
    struct mr_input input;

    MR_CHECK_MAGIC(p.config, MR_EXAMPLE_MAGIC);
    *bad_row = 0;
    MR_TRY(mr_column_pass(&in[0], rows, &column, err));
    int rc = mr_input_open(&(struct mr_kernel_in){&column, false}, rows, &input, err);
    if (rc == MR_OK) {
        p.input = &input;
        rc = parse(&p, out, err);
        *bad_row = rc < 0 ? p.bad_row : 0;
        mr_input_close(&input);
    }
    mr_column_release(&column);
    return rc;
}

MR_DEFINE_KERNEL(parse_example, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
                 .infer = infer, .eval = eval, .prepare = prepare,
                 .release = mr_example_config_free,
                 .attr_table = {{"names", MR_ATTR_STRINGS, false},
                                {"kinds", MR_ATTR_INTS, false},
                                {"dtypes", MR_ATTR_INTS, false},
                                {"shape#", MR_ATTR_SHAPE, true},
                                {"default#", MR_ATTR_BLOCK, true}});
