/* parquet and arrow: the rows of a file of tables, row group by row group. The file is opened by
 * the first pull. Rows are read some 1 MiB at a time, and given as slices of that. What is damaged
 * ends its row group behind the last row that can be read, however many are read at a time, and the
 * next one is read; how many rows were lost, nobody knows. A row that is null where it must not be
 * is an error in its place.
 *
 * While a block is being given, threads of the pool that have nothing to do read the rows behind
 * it, column by column. Nothing is known of them before they are wanted: they are in no state, and
 * if something went wrong they are read again, by the pull that wants them. */
#include "element/trace.h"
#include "engine/ops/ops.h"
#include "engine/parts.h"
#include "engine/table_file.h"

#define READ_BYTES (1u << 20)
#define ROWS_MAX (1u << 20)
#define AHEAD_BYTES_MIN (READ_BYTES / 4) /* fewer are not worth handing over */
#define AHEAD_ROOM 4                     /* blocks that memory must have room for beside */

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
    /* behind `block` */
    uint64_t group;
    uint64_t row;
    /* what errors behind name: the file, and its rows by their number in all of it */
    mr_trace_file *trace;
    uint64_t before;  /* rows of the groups before `group` */
    uint32_t most;    /* rows that are read at a time, as memory allows; 0: as it comes */
    size_t had_bytes; /* a row of the last block; 0: there was none */
    bool ended;
    /* what was read, from row `used` on is still to be given */
    mr_block *block;
    uint32_t *bad;
    uint32_t used;
    /* behind what was given: in `block` */
    uint64_t given_group;
    uint64_t given_row;
    /* those behind `block`, while they are being read ahead */
    struct mr_parts parts;
    struct mr_table_rows ahead;
    bool failed_ahead; /* in this row group */
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

    mr_parts_init(&it->parts, head->env);
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
    it->group = it->given_group = it->first;
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

/* What is read ahead is given up, and nothing is any more: to go on, the row group is begun again,
 * and what was given of it is read once more. */
static void end_ahead(struct table_iter *it)
{
    mr_parts_stop(&it->parts);
    mr_table_rows_drop(&it->ahead);
    it->begun = false;
    it->failed_ahead = true;
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
    it->failed_ahead = false;
}

/* What is given next is what is read next. */
static void give_from_here(struct table_iter *it)
{
    it->given_group = it->group;
    it->given_row = it->row;
}

/* Whether there is a row group to be read; without one the file has ended. */
static bool has_group(const struct table_iter *it)
{
    uint64_t there = it->file->table->ngroups;
    uint64_t wanted = it->groups >= 0 ? (uint64_t)it->groups : there;

    return it->group < there && it->group - it->first < wanted;
}

/* Bytes of a row, as far as that is known. What the file says is too little where many rows are one
 * value of a dictionary. */
static size_t row_bytes(const struct table_iter *it)
{
    const struct mr_table_group *group = &it->file->table->groups[it->group];
    size_t bytes = mr_spec_row_bytes(it->head.ds->spec);

    if (bytes == 0 && group->rows > 0 && group->bytes > 0) {
        bytes = (size_t)(group->bytes / group->rows);
    }
    return MR_MAX(MR_MAX(bytes, it->had_bytes), (size_t)1);
}

/* As many as are some READ_BYTES; no fewer than are asked for where they are asked for in bulk,
 * unless that is many units: the next ones can be read while some are given. No unit, or request,
 * should lie in two blocks. @before rows are given before these. */
static uint32_t rows_to_read(const struct table_iter *it, const struct mr_pull *pull,
                             uint32_t before)
{
    size_t most = MR_MAX(pull->bytes, (size_t)READ_BYTES);
    size_t rows = MR_MIN(most / row_bytes(it), (size_t)ROWS_MAX);
    size_t piece = MR_MAX(READ_BYTES / row_bytes(it), (size_t)pull->unit);
    uint32_t unit = pull->unit > 0 ? pull->unit : pull->rows;

    if (pull->unit > 0 && it->head.env->threads > 1) {
        rows = MR_MIN(rows, piece);
    }
    rows = MR_MAX(rows, (size_t)1);
    if (rows >= unit) {
        uint32_t first = (uint32_t)(((uint64_t)pull->rows + unit - before % unit) % unit);

        rows -= (rows + unit - first) % unit;
    }
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
    give_from_here(it);
    return failed(it, rc, err);
}

static int begin_reading(struct table_iter *it, mr_error *err)
{
    if (!it->begun) {
        MR_TRY(mr_table_file_begin(it->file, (uint32_t)it->group, (int64_t)it->row, err));
        it->begun = true;
    }
    return MR_OK;
}

/* `block` was read. */
static void have_block(struct table_iter *it)
{
    uint32_t rows = mr_block_rows(it->block);

    mr_block_trace(it->block, it->trace, it->before + it->row, NULL);
    give_from_here(it);
    it->row += rows;
    it->had_bytes = mr_block_row_bytes(it->block, 0, rows) / rows;
    it->used = 0;
}

/* ---- ahead ---- */

static bool read_part(void *ctx, uint32_t part)
{
    const struct table_iter *it = ctx;
    mr_error err;

    return mr_table_rows_part(&it->ahead, part, &err) == MR_OK;
}

/* Begins with the rows behind @left of `block` if they are worth it. What goes wrong comes again
 * when they are wanted. */
static void begin_ahead(struct table_iter *it, const struct mr_pull *pull, uint32_t left)
{
    struct mr_env *env = it->head.env;
    mr_error err;

    if (it->ahead.t != NULL || it->failed_ahead || it->most > 0 || env->threads < 2) {
        return;
    }
    if (it->begun && it->row == (uint64_t)it->file->table->groups[it->group].rows) {
        next_group(it);
    }
    if (!has_group(it) || (!it->begun && it->row > 0)) {
        return;
    }
    uint64_t there = (uint64_t)it->file->table->groups[it->group].rows - it->row;
    uint64_t rows = MR_MIN(there, (uint64_t)rows_to_read(it, pull, left));
    uint64_t bytes = rows * row_bytes(it);
    if (bytes < AHEAD_BYTES_MIN ||
        mr_memory_is_short(env->memory, MR_MEMORY_AHEAD, AHEAD_ROOM * (size_t)bytes) ||
        mr_env_use_pool(env, &err) != MR_OK || mr_pool_idle() == 0) {
        return;
    }
    if (begin_reading(it, &err) != MR_OK ||
        mr_table_rows_begin(it->file->table, (uint32_t)rows, &it->ahead, &err) != MR_OK) {
        end_ahead(it);
        return;
    }
    mr_parts_start(&it->parts, read_part, it, it->ahead.parts);
}

/* What was begun becomes `block`, unless something went wrong. */
static void finish_ahead(struct table_iter *it)
{
    mr_error err;

    if (it->ahead.t == NULL) {
        return;
    }
    if (mr_parts_finish(&it->parts) &&
        mr_table_file_take(it->file, &it->ahead, &it->block, &it->bad, &err) == MR_OK) {
        have_block(it);
    } else {
        end_ahead(it);
    }
}

/* More rows into `block`. MR_OK without one: again. */
static int read_rows(struct table_iter *it, const struct mr_pull *pull, mr_error *err)
{
    MR_TRY(open_file(it, err));
    if (mr_env_has_pool(it->head.env)) {
        begin_ahead(it, pull, 0);
    }
    finish_ahead(it);
    if (it->block != NULL) {
        return MR_OK;
    }
    if (!has_group(it)) {
        it->ended = true;
        give_from_here(it);
        return MR_END;
    }
    uint32_t rows = rows_to_read(it, pull, 0);
    int rc = begin_reading(it, err);
    if (rc == MR_OK) {
        rc = mr_table_file_read(it->file, rows, &it->block, &it->bad, err);
    }
    if (rc == MR_END) {
        next_group(it);
        give_from_here(it);
        return MR_OK;
    }
    if (rc != MR_OK) {
        return reading_failed(it, rows, rc, err);
    }
    have_block(it);
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

    if (it->used > 0 || n == all) { /* more than the first few are wanted */
        begin_ahead(it, pull, all - it->used);
    }
    if (it->bad != NULL && it->bad[it->used] != 0) {
        rc = mr_table_file_null(it->file, (uint32_t)it->given_group, (int64_t)it->given_row,
                                it->bad[it->used] - 1, err);
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
    it->given_row += n;
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

    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_bounded(s, &it->given_group, UINT32_MAX, err));
    MR_TRY(mr_state_bounded(s, &it->given_row, INT64_MAX, err));
    if (s->restores) {
        it->group = it->given_group;
        it->row = it->given_row;
    }
    return MR_OK;
}

static void table_close(struct mr_op_iter *head)
{
    struct table_iter *it = (struct table_iter *)head;

    end_ahead(it);
    mr_parts_destroy(&it->parts);
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
