#include "engine/table_file.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/doing.h"
#include "dataset/operator.h"
#include "tables/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <millrace/table.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- bytes ---- */

static int read_at(void *ctx, uint64_t offset, void *to, size_t n, mr_error *err)
{
    const struct mr_table_file *f = ctx;
    size_t got = 0;

    mr_cpu_rest();
    while (got < n) {
        uint32_t before = mr_doing_begin_storage(f->path);
        ssize_t some = pread(f->fd, (char *)to + got, n - got, (off_t)(offset + got));

        mr_doing_end(before);
        if (some < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "offset %" PRIu64, offset + got);
        }
        if (some == 0) {
            return mr_table_damaged(err, "offset %" PRIu64 ": the file has become shorter",
                                    offset + got);
        }
        got += some > 0 ? (size_t)some : 0;
    }
    return MR_OK;
}

static int open_table(struct mr_table_file *f, const struct mr_table_format *format, mr_error *err)
{
    struct stat st;

    uint32_t before = mr_doing_begin_storage(f->path);
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe makes nobody wait */
    mr_doing_end(before);
    if (f->fd < 0 || fstat(f->fd, &st) != 0) {
        return mr_error_file(err, errno, f->path);
    }
    if (S_ISDIR(st.st_mode)) {
        return mr_error_file(err, EISDIR, f->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return mr_error_set(err, MR_EINVAL, "file '%s': this is no regular file", f->path);
    }
    const struct mr_table_input in = {.ctx = f, .size = (uint64_t)st.st_size, .read = read_at};
    MR_TRY_WRAP(mr_table_open(format, &in, &f->table, err), err, "file '%s'", f->path);
    return MR_OK;
}

static int new_file(const char *path, struct mr_table_file **ret, mr_error *err)
{
    struct mr_table_file *f = mr_calloc(1, sizeof *f);

    MR_CHECK_ALLOC(f, err);
    f->fd = -1;
    f->path = mr_strdup(path);
    if (f->path == NULL) {
        mr_free(f);
        return mr_error_nomem(err);
    }
    *ret = f;
    return MR_OK;
}

void mr_table_file_close(struct mr_table_file *f)
{
    if (f == NULL) {
        return;
    }
    mr_table_close(f->table);
    if (f->fd >= 0) {
        (void)close(f->fd);
    }
    mr_free(f->path);
    mr_free(f->wants);
    mr_free(f->columns);
    mr_free(f);
}
MR_AUTO_DEFINE(struct mr_table_file, mr_table_file_close)

/* ---- columns ---- */

static int find_column(struct mr_table_file *f, uint32_t i, mr_error *err)
{
    const struct mr_table_column_want *want = &f->wants[i];
    struct mr_leaf_spec leaf;
    char is[MR_LEAF_TEXT];
    char wanted[MR_LEAF_TEXT];

    MR_TRY(mr_table_find(f->table, want->name, want->name_size, &f->columns[i], err));
    if (f->columns[i] == UINT32_MAX) {
        return mr_error_set(err, MR_EINVAL, "there is no such column");
    }
    const struct mr_table_column *column = &f->table->columns[f->columns[i]];
    if (column->unread != NULL) {
        return mr_error_set(err, MR_EUNIMPL, "it is %s, which is not read", column->unread);
    }
    if (!mr_arrow_leaf(&column->schema, &leaf)) {
        return mr_error_set(err, MR_EUNIMPL, "Arrow's format '%s' is not read",
                            column->schema.format);
    }
    if (!mr_leaf_covers(&want->leaf, &leaf)) {
        return mr_error_set(err, MR_EINVAL, "it is %s, not %s", mr_leaf_text(&leaf, is),
                            mr_leaf_text(&want->leaf, wanted));
    }
    return MR_OK;
}

int mr_table_file_open(const char *path, const struct mr_table_format *format,
                       const struct mr_table_column_want *wants, uint32_t n,
                       struct mr_table_file **ret, mr_error *err)
{
    MR_AUTO(mr_table_file_close) struct mr_table_file *f = NULL;

    MR_TRY(new_file(path, &f, err));
    MR_TRY(open_table(f, format, err));
    f->wants = mr_memdup(wants, n * sizeof *wants);
    f->columns = mr_calloc((size_t)n + 1, sizeof *f->columns);
    if (f->wants == NULL || f->columns == NULL) {
        return mr_error_nomem(err);
    }
    f->n = n;
    for (uint32_t i = 0; i < n; i++) {
        MR_TRY_WRAP(find_column(f, i, err), err, "file '%s', column '%.*s'", path,
                    (int)MR_MIN(wants[i].name_size, 64), wants[i].name);
    }
    *ret = MR_TAKE(f);
    return MR_OK;
}

/* ---- rows ---- */

int mr_table_file_begin(struct mr_table_file *f, uint32_t group, int64_t row, mr_error *err)
{
    MR_TRY_WRAP(mr_table_begin(f->table, group, row, f->columns, f->n, err), err, "file '%s'",
                f->path);
    return MR_OK;
}

static int make_block(struct mr_table_file *f, struct ArrowArray *rows, uint32_t **bad,
                      struct mr_owned_column *columns, mr_block **ret, mr_error *err)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const struct mr_arrow_want want = {&f->table->columns[f->columns[i]].schema,
                                           f->wants[i].instead};

        mr_arrow_array_discharge(rows->children[i]); /* the column is charged instead */
        MR_TRY_WRAP(mr_arrow_column(&want, rows->children[i], bad, i + 1, &columns[i], err), err,
                    "%s %u, column '%.*s'", f->table->format->group, f->table->group,
                    (int)MR_MIN(f->wants[i].name_size, 64), f->wants[i].name);
    }
    return mr_block_from_columns((uint32_t)rows->length, columns, f->n, ret, err);
}

/* @array, which is released, as a block. */
static int take_block(struct mr_table_file *f, struct ArrowArray *array, mr_block **ret,
                      uint32_t **bad, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_owned_column *columns = mr_calloc((size_t)f->n + 1, sizeof *columns);
    MR_AUTO(mr_free) uint32_t *found = NULL;
    int rc =
        columns != NULL ? make_block(f, array, &found, columns, ret, err) : mr_error_nomem(err);

    for (uint32_t i = 0; columns != NULL && i < f->n; i++) {
        mr_owned_column_free(&columns[i]);
    }
    array->release(array);
    if (rc == MR_OK) {
        *bad = MR_TAKE(found);
    }
    return rc;
}

int mr_table_file_read(struct mr_table_file *f, uint32_t rows, mr_block **ret, uint32_t **bad,
                       mr_error *err)
{
    struct ArrowArray array = {0};
    int rc = mr_table_next(f->table, rows, &array, err);

    if (rc == MR_OK) {
        rc = take_block(f, &array, ret, bad, err);
    }
    if (rc < 0) {
        mr_error_wrap(err, "file '%s'", f->path);
    }
    return rc;
}

int mr_table_file_take(struct mr_table_file *f, struct mr_table_rows *rows, mr_block **ret,
                       uint32_t **bad, mr_error *err)
{
    struct ArrowArray array;

    mr_table_rows_take(rows, &array);
    MR_TRY_WRAP(take_block(f, &array, ret, bad, err), err, "file '%s'", f->path);
    return MR_OK;
}

int mr_table_file_null(const struct mr_table_file *f, uint32_t group, int64_t row, uint32_t i,
                       mr_error *err)
{
    return mr_error_set(err, MR_EINVAL,
                        "file '%s', %s %u, row %" PRId64 ", column '%.*s': it is null, and "
                        "`defaults` has no value for that",
                        f->path, f->table->format->group, group, row,
                        (int)MR_MIN(f->wants[i].name_size, 64), f->wants[i].name);
}

/* ---- what a file says of itself ---- */

static void put_text(struct mr_buf *to, const char *text)
{
    MR_AUTO(mr_free) char *shown = NULL;
    json_t *json = json_string(text);

    if (json == NULL) { /* no UTF-8: nobody can name it */
        json = json_string(MR_SHOWN(text));
    }
    shown = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(json);
    if (shown == NULL) {
        to->failed = true;
        return;
    }
    mr_buf_puts(to, shown);
}

static void put_column(struct mr_buf *to, const struct mr_table_column *column)
{
    struct mr_leaf_spec leaf;

    mr_buf_puts(to, "{\"name\":");
    put_text(to, column->name);
    if (column->unread != NULL || !mr_arrow_leaf(&column->schema, &leaf)) {
        mr_buf_puts(to, ",\"unread\":");
        put_text(to, column->unread != NULL ? column->unread : "a column of a type of its own");
    } else {
        mr_buf_printf(to, ",\"leaf\":[\"%s\"", mr_dtype_name(leaf.dtype));
        for (int d = 0; d < leaf.rank; d++) {
            mr_buf_printf(to, ",%" PRId64, leaf.dims[d]);
        }
        bool nullable = (column->schema.flags & ARROW_FLAG_NULLABLE) != 0;
        mr_buf_printf(to, "],\"nullable\":%s", nullable ? "true" : "false");
    }
    mr_buf_puts(to, "}");
}

static int describe(const struct mr_table *t, char **ret, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    size_t size;

    mr_buf_puts(&text, "{\"columns\":[");
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        mr_buf_puts(&text, i > 0 ? "," : "");
        put_column(&text, &t->columns[i]);
    }
    mr_buf_puts(&text, "],\"groups\":[");
    for (uint32_t i = 0; i < t->ngroups; i++) {
        mr_buf_printf(&text, "%s[%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "", t->groups[i].rows,
                      t->groups[i].bytes);
    }
    mr_buf_puts(&text, "]}");
    *ret = mr_buf_take(&text, &size);
    MR_CHECK_ALLOC(*ret, err);
    return MR_OK;
}

int mr_table_describe(const char *format, const char *path, char **ret, mr_error *err)
{
    MR_AUTO(mr_table_file_close) struct mr_table_file *f = NULL;
    const struct mr_table_format *found = strcmp(format, "parquet") == 0 ? &mr_table_parquet
                                          : strcmp(format, "arrow") == 0 ? &mr_table_arrow
                                                                         : NULL;

    if (found == NULL) {
        return mr_error_set(err, MR_EINVAL, "'%s' is not a format of tables", MR_SHOWN(format));
    }
    MR_TRY(new_file(path, &f, err));
    MR_TRY(open_table(f, found, err));
    return describe(f->table, ret, err);
}
