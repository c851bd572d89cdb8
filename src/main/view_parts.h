/*
 * What the views of one job, worker or dataset are made of.
 *
 * Threads: pure.
 */
#pragma once

#include "base/base.h"
#include "main/doc.h"
#include "main/grid.h"
#include "main/human.h"
#include "main/view.h"

/* "job train", an empty line before it. */
void part_heading(struct mr_buf *out, const char *what, const char *name);
/* "  name   text"; nothing without a text. */
void part_line(struct mr_buf *out, const char *name, const char *text);
void part_since(struct mr_buf *out, const json_t *status, const char *name, int64_t then_ms);
/* @grid below its title; nothing without rows. */
void part_grid(const struct grid *grid, const char *title, struct mr_buf *out);

/* One more of the remarks in a cell; and that cell, which takes them. */
void part_remark(struct mr_buf *notes, const char *fmt, ...) MR_PRINTF(2, 3);
void part_add_notes(struct grid *grid, struct mr_buf *notes);

/* The counts of @object that are not 0: "skipped 3". */
struct part_count {
    const char *key, *says;
};
void part_remark_counts(struct mr_buf *notes, const json_t *object, const struct part_count *counts,
                        size_t n);

/* Rows of tasks. @worker: only those there; NULL: all. @job: whose they are; "" if that is
 * plain. */
extern const struct grid_column part_task_columns[];
void part_add_tasks(struct grid *grid, const json_t *tasks, const char *worker, const char *job,
                    const char *iteration);
