#include "main/table.h"

#include "main/output.h"

#include <jansson.h>

#define COLUMNS_MAX 32
#define CELL_BYTES_MAX 60
#define NESTING_MAX 8

static void render_table(json_t *rows, const char *title, unsigned depth, struct mr_buf *out);

static bool is_rows(json_t *v)
{
    return json_is_array(v) && json_array_size(v) > 0 && json_is_object(json_array_get(v, 0));
}

static void append_printable(struct mr_buf *out, const char *s, size_t bytes_max)
{
    output_safe(out, s, strnlen(s, bytes_max));
}

static bool is_flat(json_t *v)
{
    const char *key;
    json_t *value;

    json_object_foreach(v, key, value)
    {
        if (json_is_object(value) || json_is_array(value)) {
            return false;
        }
    }
    return json_is_object(v) && json_object_size(v) > 0;
}

static void append_flat(json_t *object, size_t bytes_max, struct mr_buf *cell)
{
    const char *key;
    json_t *value;
    bool first = true;

    json_object_foreach(object, key, value)
    {
        char *dumped =
            json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

        mr_buf_puts(cell, first ? "" : ", ");
        append_printable(cell, key, bytes_max);
        mr_buf_puts(cell, " ");
        append_printable(cell,
                         json_is_string(value) ? json_string_value(value)
                         : dumped == NULL      ? "?"
                                               : dumped,
                         bytes_max);
        free(dumped);
        first = false;
    }
}

/* One value, at most @bytes_max: a string without its quotes, a list of strings with commas, an
 * object of plain values as "name value, name value", nothing for what is empty, otherwise JSON.
 * Control characters must not reach a terminal. */
static void cell_text(json_t *v, size_t bytes_max, struct mr_buf *cell)
{
    size_t i;
    json_t *item;

    mr_buf_clear(cell);
    mr_buf_append(cell, "", 0); /* a NUL, at least */
    if (json_is_string(v)) {
        append_printable(cell, json_string_value(v), bytes_max);
    } else if (json_is_array(v) &&
               (json_array_size(v) == 0 || json_is_string(json_array_get(v, 0)))) {
        json_array_foreach(v, i, item)
        {
            mr_buf_puts(cell, i == 0 ? "" : ",");
            append_printable(cell, json_is_string(item) ? json_string_value(item) : "?", bytes_max);
        }
    } else if (is_flat(v)) {
        append_flat(v, bytes_max, cell);
    } else if (v != NULL && !(json_is_object(v) && json_object_size(v) == 0)) {
        char *dumped = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

        append_printable(cell, dumped == NULL ? "?" : dumped, bytes_max);
        free(dumped);
    }
    if (cell->len > bytes_max) {
        cell->len = bytes_max;
        cell->data[bytes_max] = '\0';
    }
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

/* What a row is called by the tables within it. */
static json_t *label_of(json_t *row)
{
    json_t *label = json_object_get(row, "name");

    return label != NULL ? label : json_object_get(row, "id");
}

/* The tables under @key of all @rows as one, in whose rows "of" says which row they come from. NULL
 * if there is none. */
static json_t *merge_nested(json_t *rows, const char *key)
{
    json_t *merged = NULL;
    size_t i;
    size_t j;
    json_t *row;
    json_t *inner;

    json_array_foreach(rows, i, row)
    {
        json_t *table = json_object_get(row, key);

        if (!is_rows(table)) {
            continue;
        }
        merged = merged == NULL ? json_array() : merged;
        json_array_foreach(table, j, inner)
        {
            json_t *copy = json_object();
            json_t *label = label_of(row);

            (void)json_object_set(copy, "of", label != NULL ? label : json_null());
            (void)json_object_update(copy, inner);
            (void)json_array_append_new(merged, copy);
        }
    }
    return merged;
}

/* The tables within rows follow theirs: "jobs: iterations". */
static void render_nested(json_t *rows, const char *title, unsigned depth, struct mr_buf *out)
{
    json_t *keys = json_object();
    size_t i;
    json_t *row;
    const char *key;
    json_t *value;

    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, value)
        {
            if (is_rows(value)) {
                (void)json_object_set(keys, key, value);
            }
        }
    }
    json_object_foreach(keys, key, value)
    {
        json_t *merged = depth < NESTING_MAX ? merge_nested(rows, key) : NULL;
        struct mr_buf name = MR_BUF_INIT;

        mr_buf_printf(&name, "%s: %s", title, key);
        if (merged != NULL && !name.failed) {
            render_table(merged, (const char *)name.data, depth + 1, out);
        }
        mr_buf_free(&name);
        json_decref(merged);
    }
    json_decref(keys);
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
            cell_text(json_object_get(row, names[c]), CELL_BYTES_MAX, &cell);
            widths[c] = MR_MAX(cell.len, widths[c]);
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

            cell_text(v, CELL_BYTES_MAX, &cell);
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
        if (json_is_array(value) && json_array_size(value) == 0) {
            continue; /* a table without rows */
        }
        if (!is_rows(value) && (!json_is_object(value) || depth >= NESTING_MAX)) {
            cell_text(value, SIZE_MAX, &cell);
            mr_buf_printf(out, "%s%s: %s\n", title == NULL ? "" : "  ", key,
                          (const char *)cell.data);
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

int table_print(const char *json, bool raw, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;

    if (raw) {
        mr_buf_printf(out, "%s\n", json);
    } else {
        MR_TRY(table_render(json, out, err));
    }
    return output_print(out, err);
}
