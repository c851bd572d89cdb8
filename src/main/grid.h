/*
 * A table for people: columns that are aligned, and none that says nothing.
 *
 * Cells are added in the order of reading. What they say may come from elsewhere: control
 * characters never reach a terminal, and a cell that is too long is cut.
 *
 * Threads: none; a grid belongs to its caller.
 */
#pragma once

#include "base/buf.h"

#define GRID_CELL_MAX 60 /* characters of a cell, but for the last one of a row */

enum grid_kind {
    GRID_TEXT = 0,
    GRID_NUMBER = 1, /* aligned to the right */
    GRID_IF_ANY = 2, /* left out while all its cells are empty */
};

struct grid_column {
    const char *title;
    int kind; /* enum grid_kind, or-ed */
};

struct grid {
    const struct grid_column *columns; /* lent; a NULL title ends them */
    struct mr_buf cells;               /* each with a NUL behind it */
    size_t n;                          /* of them */
};

void grid_init(struct grid *grid, const struct grid_column *columns);
void grid_add(struct grid *grid, const char *text);
void grid_printf(struct grid *grid, const char *fmt, ...) MR_PRINTF(2, 3);
size_t grid_rows(const struct grid *grid);
/* A line of titles and a line a row, with @indent spaces in front; nothing if there are no rows. */
void grid_render(const struct grid *grid, unsigned indent, struct mr_buf *out);
void grid_free(struct grid *grid);
MR_AUTO_DEFINE(struct grid, grid_free)
