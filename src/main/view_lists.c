/* Lists: workers, datasets, jobs, dispatchers; and all of them. */
#include "main/doc.h"
#include "main/grid.h"
#include "main/human.h"
#include "main/output.h"
#include "main/view.h"

struct human view_age(const json_t *status, int64_t then_ms)
{
    int64_t now_ms = doc_number(status, "wallMs");

    return now_ms > 0 && then_ms > 0 ? human_span(now_ms - then_ms) : (struct human){""};
}

struct human view_cardinality(const json_t *dataset)
{
    int64_t n = doc_number(dataset, "cardinality");

    return n == -1   ? (struct human){"infinite"}
           : n == -2 ? (struct human){"unknown"}
                     : human_count(n);
}

struct human view_losses(int64_t splits)
{
    struct human h = {""};

    if (splits > 0) {
        (void)snprintf(h.text, sizeof h.text, "%.16s split%s", human_count(splits).text,
                       splits > 1 ? "s" : "");
    }
    return h;
}

int64_t view_sum(const json_t *tasks, const char *key)
{
    int64_t sum = 0;
    json_t *task;
    size_t i;

    json_array_foreach(tasks, i, task)
    {
        sum += doc_number(task, key);
    }
    return sum;
}

void view_title(const char *title, size_t n, struct mr_buf *out)
{
    mr_buf_printf(out, "\n%s (%zu)\n", title, n);
}

/* A sentence in place of a table without rows. */
static void put_grid(const struct grid *grid, const char *nothing, struct mr_buf *out)
{
    if (grid_rows(grid) == 0 && !grid->cells.failed) {
        mr_buf_puts(out, nothing);
    }
    grid_render(grid, 0 /* indent */, out);
}

/* ---- workers ---- */

const char *view_worker_state(const json_t *worker)
{
    return doc_flag(worker, "left")       ? "left"
           : doc_flag(worker, "lost")     ? "lost"
           : doc_flag(worker, "draining") ? "draining"
                                          : "live";
}

static void add_cache(struct grid *grid, const json_t *cache)
{
    if (cache == NULL) {
        grid_add(grid, "");
    } else {
        grid_printf(grid, "%s of %s%s", human_bytes(doc_number(cache, "bytes")).text,
                    human_bytes(doc_number(cache, "bytesMax")).text,
                    doc_text(cache, "degraded")[0] != '\0' ? ", degraded" : "");
    }
}

static void add_tags(struct grid *grid, const json_t *tags)
{
    struct mr_buf text = MR_BUF_INIT;
    json_t *tag;
    size_t i;

    json_array_foreach(tags, i, tag)
    {
        mr_buf_printf(&text, "%s%s", i > 0 ? "," : "",
                      json_is_string(tag) ? json_string_value(tag) : "?");
    }
    grid_add(grid, text.len > 0 ? (const char *)text.data : "");
    grid->cells.failed |= text.failed;
    mr_buf_free(&text);
}

void view_workers(const json_t *status, struct mr_buf *out)
{
    static const struct grid_column columns[] = {{"WORKER", GRID_TEXT},
                                                 {"ID", GRID_TEXT},
                                                 {"STATE", GRID_TEXT},
                                                 {"TASKS", GRID_NUMBER},
                                                 {"CACHE", GRID_IF_ANY},
                                                 {"SEEN", GRID_TEXT},
                                                 {"AGE", GRID_NUMBER | GRID_IF_ANY},
                                                 {"VERSION", GRID_TEXT},
                                                 {"TAGS", GRID_IF_ANY},
                                                 {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *worker;
    size_t i;

    grid_init(grid, columns);
    json_array_foreach(doc_at(status, "workers"), i, worker)
    {
        grid_add(grid, doc_text(worker, "address"));
        grid_add(grid, doc_text(worker, "worker"));
        grid_add(grid, view_worker_state(worker));
        grid_printf(grid, "%lld", (long long)doc_number(worker, "tasks"));
        add_cache(grid, doc_at(worker, "cache"));
        grid_printf(grid, "%s ago", human_span(doc_number(worker, "silentMs")).text);
        grid_add(grid, view_age(status, doc_number(worker, "registeredMs")).text);
        grid_add(grid, doc_text(worker, "version"));
        add_tags(grid, doc_at(worker, "tags"));
    }
    put_grid(grid, "No worker has registered. Start one: millrace worker --dispatcher HOST:PORT\n",
             out);
}

/* ---- datasets ---- */

static size_t jobs_of(const json_t *status, const char *dataset)
{
    json_t *job;
    size_t i, n = 0;

    json_array_foreach(doc_at(status, "jobs"), i, job)
    {
        n += strcmp(doc_text(job, "datasetId"), dataset) == 0 ? 1 : 0;
    }
    return n;
}

void view_datasets(const json_t *status, struct mr_buf *out)
{
    static const struct grid_column columns[] = {
        {"DATASET", GRID_TEXT}, {"ELEMENTS", GRID_NUMBER}, {"DEFINITION", GRID_NUMBER},
        {"JOBS", GRID_NUMBER},  {"PIPELINE", GRID_TEXT},   {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *dataset;
    size_t i;

    grid_init(grid, columns);
    json_array_foreach(doc_at(status, "datasets"), i, dataset)
    {
        grid_add(grid, doc_text(dataset, "id"));
        grid_add(grid, view_cardinality(dataset).text);
        grid_add(grid, human_bytes(doc_number(dataset, "definitionSize")).text);
        grid_printf(grid, "%zu", jobs_of(status, doc_text(dataset, "id")));
        grid_add(grid, doc_text(dataset, "summary"));
    }
    put_grid(grid, "No dataset is registered.\n", out);
}

/* ---- jobs ---- */

static bool is_stalled(const json_t *iteration)
{
    return view_sum(doc_at(iteration, "tasks"), "stalledMs") > 0;
}

const char *view_job_state(const json_t *job)
{
    const json_t *iterations = doc_at(job, "iterations"), *iteration;
    const char *state = "new";
    size_t i;

    if (doc_text(job, "setAside")[0] != '\0') {
        return "set aside";
    }
    json_array_foreach(iterations, i, iteration)
    {
        if (!doc_flag(iteration, "finished")) {
            return is_stalled(iteration)                  ? "stalled"
                   : doc_number(iteration, "clients") > 0 ? "reading"
                                                          : "no reader";
        }
        state = doc_text(doc_at(iteration, "end"), "error")[0] != '\0' ? "failed" : "finished";
    }
    return state;
}

struct totals {
    int64_t repetition; /* of the last iteration */
    int64_t clients;
    int64_t tasks; /* open */
    int64_t delivered;
    int64_t lost_splits;
    int64_t skipped;
};

static void add_up(const json_t *iteration, struct totals *t)
{
    json_t *task;
    size_t i;

    t->repetition = MR_MAX(t->repetition, doc_number(iteration, "repetition"));
    t->clients += doc_number(iteration, "clients");
    t->lost_splits += doc_number(doc_at(iteration, "end"), "lostSplits");
    t->skipped += doc_number(iteration, "skipped");
    json_array_foreach(doc_at(iteration, "tasks"), i, task)
    {
        t->tasks += strcmp(doc_text(task, "state"), "open") == 0 ? 1 : 0;
        t->delivered += doc_number(task, "delivered");
    }
}

static void add_count_if_any(struct grid *grid, int64_t n)
{
    grid_add(grid, n > 0 ? human_count(n).text : "");
}

/* An id that was made from the content is too long for a table; its beginning says as much. */
static void add_dataset_id(struct grid *grid, const char *id)
{
    bool made = strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;

    if (made) {
        grid_printf(grid, "%.8s...", id);
    } else {
        grid_add(grid, id);
    }
}

static void add_job(struct grid *grid, const json_t *status, const json_t *job)
{
    struct totals t = {0};
    char label[256];
    json_t *iteration;
    size_t i;

    json_array_foreach(doc_at(job, "iterations"), i, iteration)
    {
        add_up(iteration, &t);
    }
    grid_add(grid, doc_job_label(job, label, sizeof label));
    grid_add(grid, doc_text(job, "id"));
    grid_add(grid, view_job_state(job));
    add_dataset_id(grid, doc_text(job, "datasetId"));
    add_count_if_any(grid, t.repetition);
    grid_printf(grid, "%lld", (long long)t.clients);
    grid_printf(grid, "%lld", (long long)t.tasks);
    grid_add(grid, human_count(t.delivered).text);
    grid_add(grid, view_losses(t.lost_splits).text);
    add_count_if_any(grid, t.skipped);
    grid_add(grid, view_age(status, doc_number(job, "createdMs")).text);
}

void view_jobs(const json_t *status, struct mr_buf *out)
{
    static const struct grid_column columns[] = {{"JOB", GRID_TEXT},
                                                 {"ID", GRID_TEXT},
                                                 {"STATE", GRID_TEXT},
                                                 {"DATASET", GRID_TEXT},
                                                 {"REPETITION", GRID_NUMBER | GRID_IF_ANY},
                                                 {"CLIENTS", GRID_NUMBER},
                                                 {"TASKS", GRID_NUMBER},
                                                 {"DELIVERED", GRID_NUMBER},
                                                 {"LOST", GRID_NUMBER | GRID_IF_ANY},
                                                 {"SKIPPED", GRID_NUMBER | GRID_IF_ANY},
                                                 {"AGE", GRID_NUMBER | GRID_IF_ANY},
                                                 {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *job;
    size_t i;

    grid_init(grid, columns);
    json_array_foreach(doc_at(status, "jobs"), i, job)
    {
        add_job(grid, status, job);
    }
    put_grid(grid, "There is no job.\n", out);
}

/* ---- dispatchers, and the whole ---- */

void view_dispatchers(const json_t *status, struct mr_buf *out)
{
    static const struct grid_column columns[] = {
        {"DISPATCHER", GRID_TEXT}, {"ROLE", GRID_TEXT}, {"VERSION", GRID_TEXT}, {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *dispatcher;
    size_t i;

    grid_init(grid, columns);
    json_array_foreach(doc_at(status, "dispatchers"), i, dispatcher)
    {
        const char *address = json_is_string(dispatcher) ? json_string_value(dispatcher) : "?";
        bool leads = strcmp(address, doc_text(status, "leader")) == 0;

        grid_add(grid, address);
        grid_add(grid, leads ? "leader" : "standby");
        grid_add(grid, leads ? doc_text(status, "version") : "");
    }
    put_grid(grid, "No dispatcher has said that it lives.\n", out);
}

static void put_line(struct mr_buf *out, const char *name, const char *text)
{
    mr_buf_printf(out, "%-9s ", name);
    output_safe(out, text, strlen(text));
    mr_buf_puts(out, "\n");
}

static void put_cluster(const json_t *status, struct mr_buf *out)
{
    int64_t silent_ms = doc_number(status, "storeSilentMs");
    char text[160];

    put_line(out, "cluster", doc_text(status, "cluster"));
    put_line(out, "leader", doc_text(status, "leader"));
    (void)snprintf(text, sizeof text, "%.64s, epoch %lld", doc_text(status, "version"),
                   (long long)doc_number(status, "epoch"));
    put_line(out, "version", text);
    (void)snprintf(text, sizeof text, "%s/s written%s",
                   human_bytes(doc_number(status, "storeBytesPerS")).text,
                   doc_flag(status, "storeFull") ? "; full: nothing is created or handed out" : "");
    if (silent_ms > 0) {
        (void)snprintf(text, sizeof text, "silent for %s", human_span(silent_ms).text);
    }
    put_line(out, "etcd", text);
}

static size_t count(const json_t *status, const char *key)
{
    return json_array_size(doc_at(status, key));
}

void view_status(const json_t *status, struct mr_buf *out)
{
    put_cluster(status, out);
    view_title("dispatchers", count(status, "dispatchers"), out);
    view_dispatchers(status, out);
    view_title("workers", count(status, "workers"), out);
    view_workers(status, out);
    view_title("datasets", count(status, "datasets"), out);
    view_datasets(status, out);
    view_title("jobs", count(status, "jobs"), out);
    view_jobs(status, out);
}
