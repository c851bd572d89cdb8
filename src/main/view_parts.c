#include "main/view_parts.h"

#include "main/output.h"

#include <stdarg.h>

void part_line(struct mr_buf *out, const char *name, const char *text)
{
    if (text[0] != '\0') {
        mr_buf_printf(out, "  %-10s ", name);
        output_safe(out, text, strlen(text));
        mr_buf_puts(out, "\n");
    }
}

void part_heading(struct mr_buf *out, const char *what, const char *name)
{
    mr_buf_puts(out, out->len > 0 ? "\n" : "");
    mr_buf_printf(out, "%s ", what);
    output_safe(out, name, strlen(name));
    mr_buf_puts(out, "\n");
}

void part_since(struct mr_buf *out, const json_t *status, const char *name, int64_t then_ms)
{
    struct human age = view_age(status, then_ms);

    if (age.text[0] != '\0') {
        mr_buf_printf(out, "  %-10s %s ago\n", name, age.text);
    }
}

void part_grid(const struct grid *grid, const char *title, struct mr_buf *out)
{
    if (grid_rows(grid) > 0) {
        mr_buf_printf(out, "\n  %s (%zu)\n", title, grid_rows(grid));
    }
    grid_render(grid, 2 /* indent */, out);
}

void part_remark(struct mr_buf *notes, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mr_buf_printf(notes, "%s%s", notes->len > 0 ? "; " : "", text);
}

void part_add_notes(struct grid *grid, struct mr_buf *notes)
{
    grid_add(grid, notes->len > 0 ? (const char *)notes->data : "");
    grid->cells.failed |= notes->failed;
    mr_buf_free(notes);
}

/* ---- tasks ---- */

const struct grid_column part_task_columns[] = {{"WORKER", GRID_TEXT},
                                                {"JOB", GRID_IF_ANY},
                                                {"ITERATION", GRID_TEXT},
                                                {"STATE", GRID_TEXT},
                                                {"PRODUCED", GRID_NUMBER},
                                                {"DELIVERED", GRID_NUMBER},
                                                {"SPLITS", GRID_NUMBER | GRID_IF_ANY},
                                                {"NOTES", GRID_IF_ANY},
                                                {NULL, 0}};

void part_remark_counts(struct mr_buf *notes, const json_t *object, const struct part_count *counts,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t count = doc_number(object, counts[i].key);

        if (count > 0) {
            part_remark(notes, "%s %lld", counts[i].says, (long long)count);
        }
    }
}

static void note_window(struct mr_buf *notes, const json_t *window)
{
    if (window == NULL) {
        return;
    }
    part_remark(notes, "window of %s elements, %s%s",
                human_count(doc_number(window, "end") - doc_number(window, "first")).text,
                human_bytes(doc_number(window, "bytes")).text,
                doc_flag(window, "held") ? ", held by a reader" : "");
    if (doc_text(window, "degraded")[0] != '\0') {
        part_remark(notes, "in memory only: %s", doc_text(window, "degraded"));
    }
}

static void note_task(struct mr_buf *notes, const json_t *task)
{
    static const struct part_count counts[] = {{"skipped", "skipped"},
                                               {"abandoned", "abandoned"},
                                               {"openSplits", "open splits"},
                                               {"recovery", "recovery"}};
    size_t unreachable = json_array_size(doc_at(task, "unreachableBy"));

    if (doc_number(task, "stalledMs") > 0) {
        part_remark(notes, "stalled for %s", human_span(doc_number(task, "stalledMs")).text);
    }
    if (unreachable > 0) {
        part_remark(notes, "out of reach of %zu client%s", unreachable, unreachable > 1 ? "s" : "");
    }
    part_remark_counts(notes, task, counts, sizeof counts / sizeof counts[0]);
    note_window(notes, doc_at(task, "window"));
}

void part_add_tasks(struct grid *grid, const json_t *tasks, const char *worker, const char *job,
                    const char *iteration)
{
    json_t *task;
    size_t i;

    json_array_foreach(tasks, i, task)
    {
        struct mr_buf notes = MR_BUF_INIT;

        if (worker != NULL && strcmp(worker, doc_text(task, "workerAddress")) != 0) {
            continue;
        }
        grid_add(grid, doc_text(task, "workerAddress"));
        grid_add(grid, job);
        grid_add(grid, iteration);
        grid_add(grid, doc_text(task, "state"));
        grid_add(grid, human_count(doc_number(task, "produced")).text);
        grid_add(grid, human_count(doc_number(task, "delivered")).text);
        grid_add(grid, doc_number(task, "splits") > 0 ? human_count(doc_number(task, "splits")).text
                                                      : "");
        note_task(&notes, task);
        part_add_notes(grid, &notes);
    }
}
