#include "main/grid.h"

#include "main/output.h"

#include <stdarg.h>

#define COLUMNS_MAX 16

void grid_init(struct grid *grid, const struct grid_column *columns)
{
    *grid = (struct grid){.columns = columns, .cells = MR_BUF_INIT};
}

void grid_add(struct grid *grid, const char *text)
{
    output_safe(&grid->cells, text, strlen(text));
    mr_buf_append(&grid->cells, "", 1);
    grid->n++;
}

void grid_printf(struct grid *grid, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    grid_add(grid, text);
}

static size_t columns_of(const struct grid *grid)
{
    size_t n = 0;

    while (grid->columns[n].title != NULL) {
        n++;
    }
    MR_ASSERT(n > 0 && n <= COLUMNS_MAX);
    return n;
}

size_t grid_rows(const struct grid *grid)
{
    return grid->n / columns_of(grid);
}

/* Columns of a terminal, as long as each character of UTF-8 takes one. */
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80 ? 1 : 0;
    }
    return n;
}

/* Bytes of the first @width characters. */
static size_t bytes_of(const char *text, size_t width)
{
    size_t i = 0;

    for (size_t n = 0; text[i] != '\0'; i++) {
        n += ((unsigned char)text[i] & 0xc0) != 0x80 ? 1 : 0;
        if (n > width) {
            break;
        }
    }
    return i;
}

static void put_spaces(struct mr_buf *out, size_t n)
{
    for (; n > 0; n--) {
        mr_buf_puts(out, " ");
    }
}

/* Nothing stands behind its last cell that is not empty. */
static void end_line(struct mr_buf *out)
{
    while (out->len > 0 && out->data[out->len - 1] == ' ') {
        out->len--;
    }
    mr_buf_puts(out, "\n");
}

static void put_cell(const struct grid_column *column, const char *text, size_t width, bool last,
                     struct mr_buf *out)
{
    size_t bytes = last ? strlen(text) : bytes_of(text, GRID_CELL_MAX);
    size_t used = MR_MIN(width_of(text), width);
    bool right = (column->kind & GRID_NUMBER) != 0;

    put_spaces(out, right ? width - used : 0);
    mr_buf_append(out, text, bytes);
    put_spaces(out, last ? 0 : right ? 2 : width - used + 2);
    if (last) {
        end_line(out);
    }
}

/* 0: the column is left out. */
static void measure(const struct grid *grid, size_t n, size_t *widths)
{
    const char *cell = (const char *)grid->cells.data;

    for (size_t c = 0; c < n; c++) {
        bool optional = (grid->columns[c].kind & GRID_IF_ANY) != 0;

        widths[c] = optional ? 0 : strlen(grid->columns[c].title);
    }
    for (size_t i = 0; i < grid->n; i++, cell += strlen(cell) + 1) {
        size_t c = i % n, width = MR_MIN(width_of(cell), GRID_CELL_MAX);

        if (width > 0) {
            widths[c] = MR_MAX(widths[c], MR_MAX(width, strlen(grid->columns[c].title)));
        }
    }
}

void grid_render(const struct grid *grid, unsigned indent, struct mr_buf *out)
{
    size_t n = columns_of(grid), last = 0, widths[COLUMNS_MAX];
    const char *cell = (const char *)grid->cells.data;

    if (grid->cells.failed) {
        out->failed = true;
        return;
    }
    if (grid->n < n) {
        return;
    }
    measure(grid, n, widths);
    for (size_t c = 0; c < n; c++) {
        last = widths[c] > 0 ? c : last;
    }
    put_spaces(out, indent);
    for (size_t c = 0; c <= last; c++) {
        if (widths[c] > 0) {
            put_cell(&grid->columns[c], grid->columns[c].title, widths[c], c == last, out);
        }
    }
    for (size_t i = 0; i < grid->n; i++, cell += strlen(cell) + 1) {
        size_t c = i % n;

        put_spaces(out, c == 0 ? indent : 0);
        if (widths[c] > 0) {
            put_cell(&grid->columns[c], cell, widths[c], c == last, out);
        }
    }
}

void grid_free(struct grid *grid)
{
    mr_buf_free(&grid->cells);
}
