#include "tables/table.h"

#include "base/limits.h"
#include "base/memory.h"

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

/* Rows before @row are read and let go. */
static int pass_rows(struct mr_table *t, int64_t row, mr_error *err)
{
    while (t->row < row) {
        struct ArrowArray rows;
        uint32_t n = row - t->row < PASS_ROWS ? (uint32_t)(row - t->row) : PASS_ROWS;

        MR_TRY(t->format->next(t, n, &rows, err));
        t->row += rows.length;
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

int mr_table_next(struct mr_table *t, uint32_t rows, struct ArrowArray *ret, mr_error *err)
{
    int64_t left = t->groups[t->group].rows - t->row;

    if (left == 0) {
        return MR_END;
    }
    rows = left < rows ? (uint32_t)left : rows;
    MR_TRY_WRAP(t->format->next(t, rows, ret, err), err, "%s %u", t->format->group, t->group);
    t->row += ret->length;
    return MR_OK;
}
