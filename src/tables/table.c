#include "tables/table.h"

#include "base/limits.h"
#include "base/memory.h"
#include "tables/sink.h"

#include <stdarg.h>
#include <stdio.h>

#define PASS_ROWS 4096u

int mr_table_damaged(mr_error *err, const char *fmt, ...)
{
    char text[MR_ERROR_MESSAGE_SIZE];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mr_error_set(err, MR_EDATALOSS, "%s", text);
}

int mr_table_room(uint64_t bytes, mr_error *err)
{
    mr_memory *memory = mr_memory_current();

    if (bytes > MR_ELEMENT_BYTES_MAX) {
        return mr_error_set_traits(err, MR_EEXHAUSTED, MR_MEMORY_UNNAMED,
                                   "more than %llu bytes of a column at once",
                                   MR_ELEMENT_BYTES_MAX);
    }
    if (mr_memory_charge(memory, MR_MEMORY_WORK, (size_t)bytes)) {
        mr_memory_release(memory, (size_t)bytes); /* charged as the block that it goes into */
        return MR_OK;
    }
    return mr_memory_refused(memory, MR_MEMORY_WORK, (size_t)bytes, err);
}

int mr_table_open(const struct mr_table_format *format, const struct mr_table_input *in,
                  struct mr_table **ret, mr_error *err)
{
    struct mr_table *t = mr_calloc(1, format->size);

    MR_CHECK_ALLOC(t, err);
    t->format = format;
    t->in = *in;
    int rc = format->open(t, err);
    if (rc != MR_OK) {
        mr_table_close(t);
        return rc;
    }
    *ret = t;
    return MR_OK;
}

void mr_table_close(struct mr_table *t)
{
    if (t == NULL) {
        return;
    }
    t->format->close(t);
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        if (t->columns[i].schema.release != NULL) {
            t->columns[i].schema.release(&t->columns[i].schema);
        }
        mr_free(t->columns[i].name);
    }
    mr_free(t->columns);
    mr_free(t->groups);
    mr_free(t->chosen);
    mr_free(t);
}

int mr_table_find(const struct mr_table *t, const char *name, size_t size, uint32_t *ret,
                  mr_error *err)
{
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < t->ncolumns; i++) {
        if (strlen(t->columns[i].name) != size || memcmp(t->columns[i].name, name, size) != 0) {
            continue;
        }
        if (found != UINT32_MAX) {
            return mr_error_set(err, MR_EINVAL, "two columns are named '%s'",
                                MR_SHOWN(t->columns[i].name));
        }
        found = i;
    }
    *ret = found;
    return MR_OK;
}

static int begin_rows(struct mr_table *t, uint32_t rows, struct mr_table_rows *ret, mr_error *err)
{
    void *const no_validity = NULL;

    ret->t = t;
    ret->parts = t->format->apart ? t->nchosen : 1;
    return mr_arrow_array(rows, 0, &no_validity, 1, t->nchosen, 0, &ret->array, err);
}

static int read_part(const struct mr_table_rows *r, uint32_t part, mr_error *err)
{
    struct mr_table *t = r->t;
    uint32_t end = t->format->apart ? part + 1 : t->nchosen;

    for (uint32_t i = part; i < end; i++) {
        MR_TRY_WRAP(t->format->column(t, i, (uint32_t)r->array.length, r->array.children[i], err),
                    err, "column '%s'", MR_SHOWN(t->columns[t->chosen[i]].name));
    }
    return MR_OK;
}

void mr_table_rows_take(struct mr_table_rows *r, struct ArrowArray *ret)
{
    r->t->row += r->array.length;
    *ret = r->array;
    *r = (struct mr_table_rows){0};
}

void mr_table_rows_drop(struct mr_table_rows *r)
{
    if (r->array.release != NULL) {
        r->array.release(&r->array);
    }
    *r = (struct mr_table_rows){0};
}

static int read_rows(struct mr_table *t, uint32_t rows, struct ArrowArray *ret, mr_error *err)
{
    struct mr_table_rows r = {0};
    int rc = begin_rows(t, rows, &r, err);

    for (uint32_t i = 0; rc == MR_OK && i < r.parts; i++) {
        rc = read_part(&r, i, err);
    }
    if (rc == MR_OK) {
        mr_table_rows_take(&r, ret);
    }
    mr_table_rows_drop(&r);
    return rc;
}

/* Rows before @row are read and let go. */
static int pass_rows(struct mr_table *t, int64_t row, mr_error *err)
{
    while (t->row < row) {
        struct ArrowArray rows;
        uint32_t n = row - t->row < PASS_ROWS ? (uint32_t)(row - t->row) : PASS_ROWS;

        MR_TRY(read_rows(t, n, &rows, err));
        rows.release(&rows);
    }
    return MR_OK;
}

int mr_table_begin(struct mr_table *t, uint32_t group, int64_t row, const uint32_t *chosen,
                   uint32_t n, mr_error *err)
{
    uint32_t *copy = mr_memdup(chosen, n * sizeof *chosen);

    MR_CHECK_ALLOC(copy, err);
    mr_free(t->chosen);
    t->chosen = copy;
    t->nchosen = n;
    t->group = group;
    t->row = 0;
    if (group >= t->ngroups || row < 0 || row > t->groups[group].rows) {
        return mr_table_damaged(err, "there is no row %" PRId64 " in %s %u", row, t->format->group,
                                group);
    }
    MR_TRY_WRAP(t->format->begin(t, err), err, "%s %u", t->format->group, group);
    if (t->format->seeks) {
        t->row = row;
    }
    MR_TRY_WRAP(pass_rows(t, row, err), err, "%s %u", t->format->group, group);
    return MR_OK;
}

/* How many of @rows the group at hand has. */
static uint32_t rows_there(const struct mr_table *t, uint32_t rows)
{
    int64_t left = t->groups[t->group].rows - t->row;

    return left < rows ? (uint32_t)left : rows;
}

int mr_table_next(struct mr_table *t, uint32_t rows, struct ArrowArray *ret, mr_error *err)
{
    rows = rows_there(t, rows);
    if (rows == 0) {
        return MR_END;
    }
    MR_TRY_WRAP(read_rows(t, rows, ret, err), err, "%s %u", t->format->group, t->group);
    return MR_OK;
}

int mr_table_rows_begin(struct mr_table *t, uint32_t rows, struct mr_table_rows *ret, mr_error *err)
{
    rows = rows_there(t, rows);
    if (rows == 0) {
        return MR_END;
    }
    MR_TRY_WRAP(begin_rows(t, rows, ret, err), err, "%s %u", t->format->group, t->group);
    return MR_OK;
}

int mr_table_rows_part(const struct mr_table_rows *r, uint32_t part, mr_error *err)
{
    MR_TRY_WRAP(read_part(r, part, err), err, "%s %u", r->t->format->group, r->t->group);
    return MR_OK;
}
