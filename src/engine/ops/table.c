/* parquet and arrow: the rows of a file of tables, row group by row group. The file is opened by
 * the first pull. Rows are read some 1 MiB at a time, and given as slices of that. What is damaged
 * ends its row group behind the last row that can be read, however many are read at a time, and the
 * next one is read; how many rows were lost, nobody knows. A row that is null where it must not be
 * is an error in its place. */
#include "element/trace.h"
#include "engine/ops/ops.h"
#include "engine/table_file.h"

#define READ_BYTES (1u << 20)
#define ROWS_MAX (1u << 20)

struct table_iter {
    struct mr_op_iter head;
    const struct mr_table_format *format;
    char *path;
    struct mr_table_column_want *wants;
    uint32_t n;
    int64_t groups; /* to be read, from the first on; -1: all */
    struct mr_table_file *file;
    bool begun; /* the file is at `group`, `row` */
    uint64_t first;
    uint64_t group;
    uint64_t row; /* behind `block` */
    /* what errors behind name: the file, and its rows by their number in all of it */
    mr_trace_file *trace;
    uint64_t before; /* rows of the groups before `group` */
    uint32_t most;   /* rows that are read at a time, as memory allows; 0: as it comes */
    bool ended;
    /* what was read, from row `used` on is still to be given */
    mr_block *block;
    uint32_t *bad;
    uint32_t used;
};

static int check_columns(const struct mr_infer *in, const mr_spec *spec, mr_error *err)
{
    const struct mr_attr *columns = mr_infer_attr(in, "columns");
    const struct mr_attr *defaults = mr_infer_attr(in, "defaults");
    const struct mr_attr *defaulted = mr_infer_attr(in, "defaulted");
    int32_t n = defaulted != NULL ? defaulted->count : 0;

    if (mr_block_rows(columns->block) != mr_spec_leaves(spec)) {
        return mr_error_set(err, MR_EINVAL, "argument 'columns' has %u names for %zu components",
                            mr_block_rows(columns->block), mr_spec_leaves(spec));
    }
    if ((defaults != NULL) != (n > 0) ||
        (n > 0 && (mr_block_rows(defaults->block) != 1 ||
                   mr_block_column_count(defaults->block) != (uint32_t)n))) {
        return mr_error_set(err, MR_EINVAL, "argument 'defaults' is not a row of %d values", n);
    }
    for (int32_t i = 0; i < n; i++) {
        const struct mr_column *c = mr_block_column(defaults->block, (uint32_t)i);
        int64_t leaf = defaulted->ints[i];

        if (leaf < 0 || (uint64_t)leaf >= mr_spec_leaves(spec) || c->kind != MR_COLUMN_FIXED ||
            c->rank != 0 || c->dtype != mr_spec_leaf(spec, (size_t)leaf)->dtype) {
            return mr_error_set(err, MR_EINVAL,
                                "argument 'defaults': value %d is not a scalar of its column's "
                                "dtype",
                                i);
        }
    }
    return MR_OK;
}

static int table_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *attr = mr_infer_attr(in, "spec");
    MR_AUTO(mr_spec_unref) mr_spec *spec = NULL;
    MR_AUTO(mr_free) char *path = NULL;

    MR_TRY(mr_infer_string(in, "filename", &path, err));
    MR_TRY_WRAP(mr_spec_from_json(attr->bytes, attr->size, &spec, err), err, "argument 'spec'");
    MR_TRY_WRAP(mr_infer_no_datasets(spec, err), err, "argument 'spec'");
    MR_TRY(check_columns(in, spec, err));
    in->spec = MR_TAKE(spec);
    return MR_OK;
}

static int make_wants(struct table_iter *it, mr_error *err)
{
    const mr_dataset *ds = it->head.ds;
    const struct mr_column *names =
        mr_block_column(mr_attr_find(ds->attrs, ds->nattrs, "columns")->block, 0);
    const struct mr_attr *defaults = mr_attr_find(ds->attrs, ds->nattrs, "defaults");
    const struct mr_attr *defaulted = mr_attr_find(ds->attrs, ds->nattrs, "defaulted");

    it->n = (uint32_t)mr_spec_leaves(ds->spec);
    it->wants = mr_calloc((size_t)it->n + 1, sizeof *it->wants);
    MR_CHECK_ALLOC(it->wants, err);
    for (uint32_t i = 0; i < it->n; i++) {
        it->wants[i].leaf = *mr_spec_leaf(ds->spec, i);
        it->wants[i].name = (const char *)names->data + names->offsets[i];
        it->wants[i].name_size = (size_t)(names->offsets[i + 1] - names->offsets[i]);
    }
    for (int32_t i = 0; defaulted != NULL && i < defaulted->count; i++) {
        it->wants[defaulted->ints[i]].instead = mr_block_column(defaults->block, (uint32_t)i);
    }
    return MR_OK;
}

static int table_open(struct mr_op_iter *head, const struct mr_table_format *format, mr_error *err)
{
    struct table_iter *it = (struct table_iter *)head;
    const void *text = NULL;
    size_t size = 0;
    int64_t first = 0;

    it->format = format;
    MR_TRY(mr_op_bytes(head, "filename", &text, &size, err));
    if (memchr(text, 0, size) != NULL) {
        return mr_op_fail_at_open(
            head, mr_error_set(err, MR_EINVAL, "argument 'filename' has a zero byte in it"), err);
    }
    it->path = mr_strndup(text, size);
    MR_CHECK_ALLOC(it->path, err);
    MR_TRY(mr_op_int(head, "first_group", 0, &first, err));
    MR_TRY(mr_op_int(head, "groups", -1, &it->groups, err));
    it->first = (uint64_t)first;
    it->group = it->first;
    return make_wants(it, err);
}

static int parquet_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    return table_open(head, &mr_table_parquet, err);
}

static int arrow_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    return table_open(head, &mr_table_arrow, err);
}

/* The next pull opens the file again. */
static void put_back(struct table_iter *it)
{
    mr_table_file_close(MR_TAKE(it->file));
    it->begun = false;
}

static int failed(struct table_iter *it, int rc, mr_error *err)
{
    return mr_op_fail(&it->head, it->head.delivered, rc, err);
}

static int open_file(struct table_iter *it, mr_error *err)
{
    if (it->file != NULL) {
        return MR_OK;
    }
    int rc = mr_table_file_open(it->path, it->format, it->wants, it->n, &it->file, err);
    if (rc != MR_OK) {
        it->ended = mr_op_element_failed(rc, err);
        mr_op_mark_uncounted(rc, err);
        return failed(it, rc, err);
    }
    it->before = 0;
    for (uint64_t g = 0; g < it->group && g < it->file->table->ngroups; g++) {
        it->before += (uint64_t)it->file->table->groups[g].rows;
    }
    it->trace = it->trace != NULL ? it->trace : mr_trace_file_new(it->path, MR_PLACES_ROWS);
    return MR_OK;
}

/* Behind the row group at hand. */
static void next_group(struct table_iter *it)
{
    it->before += (uint64_t)it->file->table->groups[it->group].rows;
    it->group++;
    it->row = 0;
    it->most = 0;
    it->begun = false;
}

/* Whether there is a row group to be read; without one the file has ended. */
static bool has_group(struct table_iter *it)
{
    uint64_t there = it->file->table->ngroups;
    uint64_t wanted = it->groups >= 0 ? (uint64_t)it->groups : there;

    it->ended = it->group >= there || it->group - it->first >= wanted;
    return !it->ended;
}

/* As many as are some READ_BYTES, as far as that is known; and no fewer than are asked for where
 * they are asked for in bulk. */
static uint32_t rows_to_read(const struct table_iter *it, const struct mr_pull *pull)
{
    const struct mr_table_group *group = &it->file->table->groups[it->group];
    size_t bytes = mr_spec_row_bytes(it->head.ds->spec);
    size_t most = MR_MAX(pull->bytes, (size_t)READ_BYTES);

    if (bytes == 0 && group->rows > 0 && group->bytes > 0) {
        bytes = (size_t)(group->bytes / group->rows);
    }
    size_t rows = MR_MIN(most / MR_MAX(bytes, (size_t)1), (size_t)ROWS_MAX);
    rows = MR_MAX(rows, (size_t)1);
    return it->most > 0 && it->most < rows ? it->most : (uint32_t)rows;
}

/* The rows at hand cannot be had: fewer are tried, as far as to the one that is damaged or too
 * large; then the row group is left. MR_OK: again. */
static int reading_failed(struct table_iter *it, uint32_t rows, int rc, mr_error *err)
{
    bool too_large = rc == MR_EEXHAUSTED && (err->traits & MR_MEMORY_UNNAMED) != 0;
    bool damaged = it->begun && mr_op_element_failed(rc, err);
    int64_t left = MR_MAX(it->file->table->groups[it->group].rows - (int64_t)it->row, (int64_t)1);

    it->begun = false;
    rows = (uint32_t)MR_MIN((int64_t)rows, left);
    if ((too_large || damaged) && rows > 1) {
        it->most = rows / 2;
        return MR_OK;
    }
    if (!too_large && !mr_op_element_failed(rc, err)) {
        put_back(it);
        return failed(it, rc, err);
    }
    mr_op_mark_passed(rc, err);
    mr_op_mark_uncounted(rc, err);
    next_group(it);
    return failed(it, rc, err);
}

/* More rows into `block`. MR_OK without one: again. */
static int read_rows(struct table_iter *it, const struct mr_pull *pull, mr_error *err)
{
    MR_TRY(open_file(it, err));
    if (!has_group(it)) {
        return MR_END;
    }
    uint32_t rows = rows_to_read(it, pull);
    int rc = MR_OK;
    if (!it->begun) {
        rc = mr_table_file_begin(it->file, (uint32_t)it->group, (int64_t)it->row, err);
        it->begun = rc == MR_OK;
    }
    if (rc == MR_OK) {
        rc = mr_table_file_read(it->file, rows, &it->block, &it->bad, err);
    }
    if (rc == MR_END) {
        next_group(it);
        return MR_OK;
    }
    if (rc != MR_OK) {
        return reading_failed(it, rows, rc, err);
    }
    mr_block_trace(it->block, it->trace, it->before + it->row, NULL);
    it->row += mr_block_rows(it->block);
    it->used = 0;
    return MR_OK;
}

static void let_go(struct table_iter *it)
{
    mr_block_unref(MR_TAKE(it->block));
    mr_free(MR_TAKE(it->bad));
    it->used = 0;
}

/* Rows of `block`, or the error of the one that comes next. */
static int give_rows(struct table_iter *it, const struct mr_pull *pull, mr_block **ret,
                     mr_error *err)
{
    uint32_t all = mr_block_rows(it->block);
    uint32_t n = MR_MIN(all - it->used, pull->rows);
    int rc = MR_OK;

    if (it->bad != NULL && it->bad[it->used] != 0) {
        int64_t row = (int64_t)(it->row - all + it->used);

        rc = mr_table_file_null(it->file, (uint32_t)it->group, row, it->bad[it->used] - 1, err);
        n = 1;
    } else if (it->bad != NULL) {
        for (uint32_t i = 0; i < n; i++) {
            n = it->bad[it->used + i] != 0 ? i : n;
        }
    }
    if (rc == MR_OK) {
        MR_TRY(mr_block_slice(it->block, it->used, n, ret, err));
    }
    it->used += n;
    if (it->used == all) {
        let_go(it);
    }
    return rc == MR_OK ? MR_OK : failed(it, rc, err);
}

static int table_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct table_iter *it = (struct table_iter *)head;

    while (it->block == NULL) {
        if (it->ended) {
            return MR_END;
        }
        MR_TRY(mr_op_interrupted(head, pull, err));
        MR_TRY(read_rows(it, pull, err));
    }
    return give_rows(it, pull, ret, err);
}

static int table_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct table_iter *it = (struct table_iter *)head;
    uint64_t row = it->row - (it->block != NULL ? mr_block_rows(it->block) - it->used : 0);

    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_bounded(s, &it->group, UINT32_MAX, err));
    MR_TRY(mr_state_bounded(s, &row, INT64_MAX, err));
    if (s->restores) {
        it->row = row;
    }
    return MR_OK;
}

static void table_close(struct mr_op_iter *head)
{
    struct table_iter *it = (struct table_iter *)head;

    let_go(it);
    mr_table_file_close(it->file);
    mr_trace_file_unref(it->trace);
    mr_free(it->wants);
    mr_free(it->path);
}

static const struct mr_arg table_args[] = {
    MR_ARG("filename", MR_ATTR_BYTES, 0),
    MR_ARG("spec", MR_ATTR_BYTES, MR_ARG_CONSTANT),
    MR_ARG("columns", MR_ATTR_STRINGS, 0),
    MR_ARG("defaults", MR_ATTR_BLOCK, MR_ARG_OPTIONAL),
    MR_ARG("defaulted", MR_ATTR_INTS, MR_ARG_OPTIONAL | MR_ARG_CONSTANT),
    MR_OPTIONAL_INT("first_group", 0, INT32_MAX),
    MR_OPTIONAL_INT("groups", -1, INT32_MAX),
    {0},
};

#define TABLE_RUN(open_fn)                                                                         \
    MR_RUN(struct table_iter, .open = open_fn, .pull = table_pull, .state = table_state,           \
           .close = table_close, .whole_split = true)

const struct mr_operator mr_operator_parquet = {
    .name = "parquet",
    .args = table_args,
    .infer = table_infer,
    .run = TABLE_RUN(parquet_open),
};

const struct mr_operator mr_operator_arrow = {
    .name = "arrow",
    .args = table_args,
    .infer = table_infer,
    .run = TABLE_RUN(arrow_open),
};
