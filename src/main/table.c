#include "main/table.h"

#include "base/error.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32
#define CELL_BYTES_MAX 60
#define NESTING_MAX 8

static void render_object(json_t *object, const char *title, unsigned depth, struct mr_buf *out);
static void render_table(json_t *rows, const char *title, unsigned depth, struct mr_buf *out);

static bool is_rows(json_t *v)
{
    return json_is_array(v) && json_array_size(v) > 0 && json_is_object(json_array_get(v, 0));
}

/* One cell: a string without its quotes, anything else as JSON; control characters must not reach a terminal. */
static void cell_text(json_t *v, struct mr_buf *cell)
{
    char *dumped = NULL;
    const char *s = json_string_value(v);

    mr_buf_clear(cell);
    if (json_is_array(v) && json_array_size(v) == 0) {
        s = "";
    } else if (s == NULL) {
        s = dumped = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    }
    for (const char *c = s == NULL ? "?" : s; *c != '\0' && cell->len < CELL_BYTES_MAX; c++) {
        mr_buf_append(cell, (unsigned char)*c < 0x20 || *c == 0x7f ? "?" : c, 1);
    }
    mr_buf_append(cell, "", 0);
    free(dumped);
}

/* The names of all members of all @rows but the tables among them, in order of their appearance. */
static size_t columns_of(json_t *rows, const char **names)
{
    size_t n = 0;
    size_t i;
    json_t *row;
    const char *key;
    json_t *value;

    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, value)
        {
            size_t c = 0;

            while (c < n && strcmp(names[c], key) != 0) {
                c++;
            }
            if (c == n && n < COLUMNS_MAX && !is_rows(value)) {
                names[n++] = key;
            }
        }
    }
    return n;
}

static void pad(struct mr_buf *out, size_t width, size_t used)
{
    for (; used < width; used++) {
        mr_buf_puts(out, " ");
    }
}

/* "jobs digits: iterations": a table within a row. */
static void render_nested(json_t *rows, const char *title, unsigned depth, struct mr_buf *out)
{
    size_t i;
    json_t *row;
    const char *key;
    json_t *value;

    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, value)
        {
            struct mr_buf name = MR_BUF_INIT;
            struct mr_buf cell = MR_BUF_INIT;
            json_t *label = json_object_get(row, "name");

            if (label == NULL) {
                label = json_object_get(row, "id");
            }
            if (is_rows(value) && depth < NESTING_MAX) {
                if (label != NULL) {
                    cell_text(label, &cell);
                }
                mr_buf_printf(&name, "%s %s: %s", title, label != NULL ? (const char *)cell.data : "", key);
                render_table(value, name.failed ? key : (const char *)name.data, depth + 1, out);
            }
            mr_buf_free(&name);
            mr_buf_free(&cell);
        }
    }
}

static void render_table(json_t *rows, const char *title, unsigned depth, struct mr_buf *out)
{
    const char *names[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX];
    struct mr_buf cell = MR_BUF_INIT;
    size_t n = columns_of(rows, names);
    size_t i;
    json_t *row;

    for (size_t c = 0; c < n; c++) {
        widths[c] = strlen(names[c]);
        json_array_foreach(rows, i, row)
        {
            cell_text(json_object_get(row, names[c]), &cell);
            widths[c] = cell.len > widths[c] ? cell.len : widths[c];
        }
    }
    mr_buf_printf(out, "\n%s (%zu)\n", title, json_array_size(rows));
    for (size_t c = 0; c < n; c++) {
        mr_buf_printf(out, "  %s", names[c]);
        pad(out, c + 1 < n ? widths[c] : 0, strlen(names[c]));
    }
    mr_buf_puts(out, "\n");
    json_array_foreach(rows, i, row)
    {
        for (size_t c = 0; c < n; c++) {
            json_t *v = json_object_get(row, names[c]);

            cell_text(v, &cell);
            mr_buf_puts(out, "  ");
            mr_buf_append(out, v == NULL ? "" : (const char *)cell.data, v == NULL ? 0 : cell.len);
            pad(out, c + 1 < n ? widths[c] : 0, v == NULL ? 0 : cell.len);
        }
        mr_buf_puts(out, "\n");
    }
    mr_buf_free(&cell);
    render_nested(rows, title, depth, out);
}

static void render_object(json_t *object, const char *title, unsigned depth, struct mr_buf *out)
{
    struct mr_buf cell = MR_BUF_INIT;
    const char *key;
    json_t *value;

    if (title != NULL) {
        mr_buf_printf(out, "\n%s\n", title);
    }
    json_object_foreach(object, key, value)
    {
        if (!is_rows(value) && (!json_is_object(value) || depth >= NESTING_MAX)) {
            cell_text(value, &cell);
            mr_buf_printf(out, "%s%s: %s\n", title == NULL ? "" : "  ", key, (const char *)cell.data);
        }
    }
    json_object_foreach(object, key, value)
    {
        if (is_rows(value)) {
            render_table(value, key, depth + 1, out);
        } else if (json_is_object(value) && depth < NESTING_MAX) {
            render_object(value, key, depth + 1, out);
        }
    }
    mr_buf_free(&cell);
}

int table_render(const char *json, struct mr_buf *out, mr_error *err)
{
    json_t *doc = json_loads(json, 0, NULL);

    if (!json_is_object(doc)) {
        json_decref(doc);
        return mr_error_set(err, MR_EINVAL, "the status is not a JSON object");
    }
    render_object(doc, NULL /* title */, 0 /* depth */, out);
    json_decref(doc);
    return out->failed ? mr_error_nomem(err) : MR_OK;
}
