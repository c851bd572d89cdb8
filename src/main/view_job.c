/* One job, or all trainers of a name, and the productions that they read. */
#include "main/view_parts.h"

/* ---- the iterations of a job ---- */

static void note_end(struct mr_buf *notes, const json_t *end)
{
    static const struct part_count counts[] = {{"lostSplits", "lost splits"},
                                               {"lostElements", "lost elements, at most"},
                                               {"lostWorkers", "lost workers"},
                                               {"repeatedSplits", "repeated splits"},
                                               {"quarantinedSplits", "quarantined splits"},
                                               {"abandoned", "abandoned elements"}};

    if (doc_text(end, "error")[0] != '\0') {
        part_remark(notes, "%s", doc_text(end, "error"));
    }
    part_remark_counts(notes, end, counts, sizeof counts / sizeof counts[0]);
}

static void note_iteration(struct mr_buf *notes, const json_t *iteration)
{
    int64_t skipped = doc_number(iteration, "skipped");

    note_end(notes, doc_at(iteration, "end"));
    if (skipped > 0) {
        part_remark(notes, "skipped %lld", (long long)skipped);
    }
    if (doc_flag(iteration, "joining")) {
        part_remark(notes, "joining a production");
    } else if (doc_text(iteration, "production")[0] != '\0') {
        part_remark(notes, "reads production %s", doc_text(iteration, "production"));
    }
    if (doc_text(iteration, "unshared")[0] != '\0') {
        part_remark(notes, "joined no production: %s", doc_text(iteration, "unshared"));
    }
}

static const char *iteration_state(const json_t *iteration)
{
    return !doc_flag(iteration, "finished")                         ? "open"
           : doc_text(doc_at(iteration, "end"), "error")[0] != '\0' ? "failed"
                                                                    : "finished";
}

static void put_iterations(const json_t *status, const json_t *iterations, struct mr_buf *out)
{
    static const struct grid_column columns[] = {
        {"ITERATION", GRID_TEXT}, {"REPETITION", GRID_NUMBER}, {"STATE", GRID_TEXT},
        {"CLIENTS", GRID_NUMBER}, {"DELIVERED", GRID_NUMBER},  {"AGE", GRID_NUMBER | GRID_IF_ANY},
        {"ENDED", GRID_IF_ANY},   {"NOTES", GRID_IF_ANY},      {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *iteration;
    size_t i;

    grid_init(grid, columns);
    json_array_foreach(iterations, i, iteration)
    {
        struct human ended = view_age(status, doc_number(iteration, "finishedMs"));
        struct mr_buf notes = MR_BUF_INIT;

        grid_add(grid, doc_text(iteration, "id"));
        grid_printf(grid, "%lld", (long long)doc_number(iteration, "repetition"));
        grid_add(grid, iteration_state(iteration));
        grid_printf(grid, "%lld", (long long)doc_number(iteration, "clients"));
        grid_add(grid, human_count(view_sum(doc_at(iteration, "tasks"), "delivered")).text);
        grid_add(grid, view_age(status, doc_number(iteration, "createdMs")).text);
        grid_printf(grid, "%s%s", ended.text, ended.text[0] != '\0' ? " ago" : "");
        note_iteration(&notes, iteration);
        part_add_notes(grid, &notes);
    }
    part_grid(grid, "iterations", out);
}

static void put_tasks(const json_t *iterations, struct mr_buf *out)
{
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *iteration;
    size_t i;

    grid_init(grid, part_task_columns);
    json_array_foreach(iterations, i, iteration)
    {
        part_add_tasks(grid, doc_at(iteration, "tasks"), NULL, "", doc_text(iteration, "id"));
    }
    part_grid(grid, "tasks", out);
}

static void note_source(struct mr_buf *notes, const json_t *source)
{
    static const struct part_count counts[] = {{"givenBackSplits", "given back"},
                                               {"returnedSplits", "to be repeated"},
                                               {"suspectSplits", "of those in two crashes or more"},
                                               {"repeatedSplits", "repeated"},
                                               {"dropped", "dropped"}};

    part_remark_counts(notes, source, counts, sizeof counts / sizeof counts[0]);
}

static void add_source(struct grid *grid, const char *iteration, const json_t *source)
{
    struct mr_buf notes = MR_BUF_INIT;
    int64_t splits = doc_number(source, "splits");

    grid_add(grid, doc_text(source, "source"));
    grid_add(grid, iteration);
    grid_add(grid, human_count(doc_number(source, "next")).text);
    grid_add(grid, splits < 0 ? "endless" : human_count(splits).text);
    grid_printf(grid, "%lld", (long long)doc_number(source, "repetition"));
    note_source(&notes, source);
    part_add_notes(grid, &notes);
}

static void put_sources(const json_t *iterations, struct mr_buf *out)
{
    static const struct grid_column columns[] = {{"SOURCE", GRID_TEXT},
                                                 {"ITERATION", GRID_TEXT},
                                                 {"HANDED OUT", GRID_NUMBER},
                                                 {"SPLITS", GRID_NUMBER},
                                                 {"REPETITION", GRID_NUMBER},
                                                 {"NOTES", GRID_IF_ANY},
                                                 {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *iteration, *source;
    size_t i, j;

    grid_init(grid, columns);
    json_array_foreach(iterations, i, iteration)
    {
        json_array_foreach(doc_at(iteration, "providers"), j, source)
        {
            add_source(grid, doc_text(iteration, "id"), source);
        }
    }
    part_grid(grid, "sources", out);
}

static void add_ago(struct grid *grid, const json_t *consumer)
{
    if (doc_flag(consumer, "known")) {
        grid_printf(grid, "%s ago", human_span(doc_number(consumer, "silentMs")).text);
    } else {
        grid_add(grid, "not yet");
    }
}

static void put_consumers(const json_t *iterations, struct mr_buf *out)
{
    static const struct grid_column columns[] = {{"CONSUMER", GRID_NUMBER},
                                                 {"CLIENT", GRID_TEXT},
                                                 {"ITERATION", GRID_TEXT},
                                                 {"ROUND", GRID_NUMBER},
                                                 {"SEEN", GRID_TEXT},
                                                 {"NOTES", GRID_IF_ANY},
                                                 {NULL, 0}};
    struct grid all;
    MR_AUTO(grid_free) struct grid *grid = &all;
    json_t *iteration, *consumer;
    size_t i, j;

    grid_init(grid, columns);
    json_array_foreach(iterations, i, iteration)
    {
        json_array_foreach(doc_at(doc_at(iteration, "rounds"), "consumers"), j, consumer)
        {
            const char *client = doc_text(consumer, "client");
            int64_t missed_ms = doc_number(consumer, "missedMs");
            struct mr_buf notes = MR_BUF_INIT;

            grid_printf(grid, "%lld", (long long)doc_number(consumer, "index"));
            grid_add(grid, client[0] != '\0' ? client : "nobody");
            grid_add(grid, doc_text(iteration, "id"));
            grid_printf(grid, "%lld", (long long)doc_number(consumer, "position"));
            add_ago(grid, consumer);
            if (missed_ms > 0) {
                part_remark(&notes, "others wait for it: %s", human_span(missed_ms).text);
            }
            part_add_notes(grid, &notes);
        }
    }
    part_grid(grid, "consumers", out);
}

/* ---- productions ---- */

static void put_production(const json_t *production, struct mr_buf *out)
{
    static const struct grid_column columns[] = {
        {"READER", GRID_TEXT},    {"ITERATION", GRID_TEXT}, {"DELIVERED", GRID_NUMBER},
        {"SKIPPED", GRID_NUMBER}, {"NOTES", GRID_IF_ANY},   {NULL, 0}};
    struct grid users, tasks;
    MR_AUTO(grid_free) struct grid *grid = &users, *made = &tasks;
    json_t *user;
    size_t i;

    part_heading(out, "production", doc_text(production, "id"));
    part_line(out, "scope", doc_text(production, "scope"));
    part_line(out, "closed", doc_text(production, "closed"));
    part_line(out, "lost", view_losses(doc_number(production, "lostSplits")).text);
    grid_init(grid, columns);
    json_array_foreach(doc_at(production, "users"), i, user)
    {
        const char *job = doc_text(user, "job");

        grid_add(grid, job[0] != '\0' ? job : doc_text(user, "jobId"));
        grid_add(grid, doc_text(user, "iterationId"));
        grid_printf(grid, "%lld", (long long)doc_number(user, "delivered"));
        grid_printf(grid, "%lld", (long long)doc_number(user, "skipped"));
        grid_add(grid, doc_flag(user, "joining")    ? "joining"
                       : doc_flag(user, "finished") ? "finished"
                                                    : "");
    }
    part_grid(grid, "readers", out);
    grid_init(made, part_task_columns);
    part_add_tasks(made, doc_at(production, "tasks"), NULL, "", doc_text(production, "id"));
    part_grid(made, "tasks", out);
}

/* ---- what pick.h leaves ---- */

static void put_terms(const json_t *job, struct mr_buf *out)
{
    bool dynamic = strcmp(doc_text(job, "mode"), "PROCESSING_DYNAMIC") == 0;
    bool repeats = strcmp(doc_text(job, "guarantee"), "AT_LEAST_ONCE") == 0;
    const char *sharing = doc_text(job, "sharing");
    char text[64];

    (void)snprintf(text, sizeof text, "%s, %s", dynamic ? "DYNAMIC" : "OFF",
                   repeats ? "at least once" : "at most once");
    part_line(out, "splits", text);
    part_line(out, "workers", doc_text(job, "targetWorkers"));
    if (sharing[0] != '\0') {
        part_line(out, "sharing",
                  strcmp(doc_text(job, "lag"), "LAG_WAIT") == 0
                      ? "on; others wait for it"
                      : "on; it skips what it is late for");
    }
    part_line(out, "not shared", doc_text(job, "unshared"));
}

static void put_job(const json_t *status, const json_t *job, struct mr_buf *out)
{
    const json_t *iterations = doc_at(job, "iterations");
    char label[256];

    part_heading(out, "job", doc_job_label(job, label, sizeof label));
    part_line(out, "id", doc_text(job, "id"));
    part_line(out, "state", view_job_state(job));
    part_line(out, "because", doc_text(job, "setAside"));
    if (doc_text(job, "setAside")[0] != '\0') {
        return;
    }
    part_line(out, "dataset", doc_text(job, "datasetId"));
    put_terms(job, out);
    part_since(out, status, "created", doc_number(job, "createdMs"));
    part_since(out, status, "last read", doc_number(job, "releasedMs"));
    put_iterations(status, iterations, out);
    put_tasks(iterations, out);
    put_sources(iterations, out);
    put_consumers(iterations, out);
}

void view_job(const json_t *picked, struct mr_buf *out)
{
    json_t *one;
    size_t i;

    json_array_foreach(doc_at(picked, "jobs"), i, one)
    {
        put_job(picked, one, out);
    }
    json_array_foreach(doc_at(picked, "productions"), i, one)
    {
        put_production(one, out);
    }
}
