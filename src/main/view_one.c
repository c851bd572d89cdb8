/* One worker, one dataset. */
#include "main/view_parts.h"

static void put_worker_tasks(const json_t *picked, const char *address, struct mr_buf *out)
{
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *job, *part;
    char label[256];
    size_t i, j;

    grid_init(grid, part_task_columns);
    json_array_foreach(doc_at(picked, "jobs"), i, job)
    {
        json_array_foreach(doc_at(job, "iterations"), j, part)
        {
            part_add_tasks(grid, doc_at(part, "tasks"), address,
                           doc_job_label(job, label, sizeof label), doc_text(part, "id"));
        }
    }
    json_array_foreach(doc_at(picked, "productions"), i, part)
    {
        part_add_tasks(grid, doc_at(part, "tasks"), address, "production", doc_text(part, "id"));
    }
    part_grid(grid, "tasks", out);
}

void view_worker(const json_t *picked, struct mr_buf *out)
{
    json_t *worker;
    size_t i;

    json_array_foreach(doc_at(picked, "workers"), i, worker)
    {
        const json_t *cache = doc_at(worker, "cache");

        part_heading(out, "worker", doc_text(worker, "address"));
        part_line(out, "id", doc_text(worker, "worker"));
        part_line(out, "state", view_worker_state(worker));
        part_line(out, "version", doc_text(worker, "version"));
        mr_buf_printf(out, "  %-10s %s ago\n", "seen",
                      human_span(doc_number(worker, "silentMs")).text);
        part_since(out, picked, "registered", doc_number(worker, "registeredMs"));
        part_since(out, picked, "lost", doc_number(worker, "lostMs"));
        if (cache != NULL) {
            mr_buf_printf(out, "  %-10s %s of %s\n", "cache",
                          human_bytes(doc_number(cache, "bytes")).text,
                          human_bytes(doc_number(cache, "bytesMax")).text);
            part_line(out, "degraded", doc_text(cache, "degraded"));
        }
        put_worker_tasks(picked, doc_text(worker, "address"), out);
    }
}

void view_dataset(const json_t *picked, struct mr_buf *out)
{
    json_t *dataset;
    size_t i;

    json_array_foreach(doc_at(picked, "datasets"), i, dataset)
    {
        part_heading(out, "dataset", doc_text(dataset, "id"));
        part_line(out, "pipeline", doc_text(dataset, "summary"));
        part_line(out, "elements", view_cardinality(dataset).text);
        part_line(out, "definition", human_bytes(doc_number(dataset, "definitionSize")).text);
        part_line(out, "content", doc_text(dataset, "fingerprint"));
    }
    if (json_array_size(doc_at(picked, "jobs")) > 0) {
        view_title("jobs", json_array_size(doc_at(picked, "jobs")), out);
        view_jobs(picked, out);
    }
}
