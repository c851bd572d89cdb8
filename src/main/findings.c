#include "main/findings.h"

#include "main/doc.h"
#include "main/human.h"
#include "main/output.h"
#include "main/view.h"

#define CLOCKS_MS 5000 /* that clocks may differ by: an answer takes a moment, too */
#define GRANT_MS 2000  /* of work that a grant is for while the write budget suffices */
#define SILENT_MS 5000 /* several heartbeats */

/* The list, and what could not be added to it. */
struct said {
    json_t *list;
    bool failed;
};

static void say(struct said *said, bool wrong, const char *about, const char *finding,
                const char *advice)
{
    json_t *one = json_pack("{ss ss ss ss}", "level", wrong ? "wrong" : "note", "about", about,
                            "finding", finding, "advice", advice);

    said->failed |= one == NULL || json_array_append_new(said->list, one) != 0;
}

/* ---- the service itself ---- */

static void look_at_store(const json_t *status, struct said *said)
{
    int64_t silent_ms = doc_number(status, "storeSilentMs");
    char text[96];

    if (silent_ms > 0) {
        (void)snprintf(text, sizeof text, "has not answered for %s", human_span(silent_ms).text);
        say(said, true, "etcd", text, "see whether its members run and have a quorum");
    }
    if (doc_flag(status, "storeFull")) {
        say(said, true, "etcd", "is at its quota: nothing is created or handed out",
            "compact and defragment it, raise its quota, then disarm the alarm");
    }
    if (doc_number(status, "grantMs") > GRANT_MS) {
        say(said, false, "etcd", "gets all the writes that it may",
            "raise --etcd-write-budget of the dispatchers if it can take more");
    }
}

static void look_at_dispatchers(const json_t *status, const struct findings_here *here,
                                struct said *said)
{
    int64_t wall_ms = doc_number(status, "wallMs");
    int64_t apart_ms = wall_ms > here->wall_ms ? wall_ms - here->wall_ms : here->wall_ms - wall_ms;
    const char *leader = doc_text(status, "leader");
    char text[128];

    if (json_array_size(doc_at(status, "dispatchers")) < 2) {
        say(said, false, "dispatchers", "there is one only: nobody takes over when it ends",
            "start another one with the same etcd");
    }
    if (strcmp(doc_text(status, "version"), here->version) != 0) {
        (void)snprintf(text, sizeof text, "is of version %.32s, this program of %.32s",
                       doc_text(status, "version"), here->version);
        say(said, false, leader, text, "use the program of the same version");
    }
    if (wall_ms > 0 && apart_ms > CLOCKS_MS) {
        (void)snprintf(text, sizeof text, "its clock and this machine's are %s apart",
                       human_span(apart_ms).text);
        say(said, true, leader, text, "set both by NTP: certificates go by them");
    }
}

/* ---- workers ---- */

static void look_at_worker(const json_t *status, const json_t *worker, struct said *said)
{
    const char *address = doc_text(worker, "address"), *state = view_worker_state(worker);
    const char *version = doc_text(worker, "version");
    const char *degraded = doc_text(doc_at(worker, "cache"), "degraded");
    int64_t silent_ms = doc_number(worker, "silentMs");
    char text[128];

    if (strcmp(state, "left") == 0) {
        return;
    }
    if (strcmp(state, "lost") == 0) {
        (void)snprintf(text, sizeof text, "was lost; nothing was heard of it for %s",
                       human_span(silent_ms).text);
        say(said, false, address, text, "its log says why it ended, if its machine still runs");
        return;
    }
    if (strcmp(version, doc_text(status, "version")) != 0) {
        (void)snprintf(text, sizeof text, "is of version %.32s, the leader of %.32s", version,
                       doc_text(status, "version"));
        say(said, false, address, text, "finish the update: dispatchers first, then workers");
    }
    if (silent_ms > SILENT_MS) {
        (void)snprintf(text, sizeof text, "has been silent for %s", human_span(silent_ms).text);
        say(said, true, address, text, "see whether it runs and reaches the dispatchers");
    }
    if (degraded[0] != '\0') {
        say(said, true, address, degraded, "make room in its --cache-dir, or choose another disk");
    }
}

static void look_at_workers(const json_t *status, struct said *said)
{
    size_t i, serving = 0;
    json_t *worker;

    json_array_foreach(doc_at(status, "workers"), i, worker)
    {
        serving += strcmp(view_worker_state(worker), "live") == 0 ? 1 : 0;
        look_at_worker(status, worker, said);
    }
    if (serving == 0) {
        say(said, true, "workers", "none takes on work",
            "start one: millrace worker --dispatcher HOST:PORT; its log says why it cannot join");
    }
}

/* ---- jobs ---- */

static void look_at_task(const char *job, const json_t *task, struct said *said)
{
    size_t unreachable = json_array_size(doc_at(task, "unreachableBy"));
    int64_t stalled_ms = doc_number(task, "stalledMs");
    const char *address = doc_text(task, "workerAddress");
    char text[192];

    if (stalled_ms > 0) {
        (void)snprintf(text, sizeof text, "its task at %.80s has made nothing for %s", address,
                       human_span(stalled_ms).text);
        say(said, true, job, text,
            "run its pipeline locally with take(1): a file system or a filter may give nothing");
    }
    if (unreachable > 0) {
        (void)snprintf(text, sizeof text, "%zu of its clients cannot reach %.80s", unreachable,
                       address);
        say(said, true, job, text, "give that worker an --advertise-address that clients reach");
    }
}

static void look_at_iteration(const char *job, const json_t *iteration, struct said *said)
{
    const json_t *end = doc_at(iteration, "end");
    int64_t lost = doc_number(end, "lostSplits");
    char text[192];
    json_t *task;
    size_t i;

    if (doc_text(end, "error")[0] != '\0') {
        say(said, true, job, doc_text(end, "error"), "mend the pipeline, and use another job name");
    }
    if (lost > 0) {
        (void)snprintf(text, sizeof text, "repetition %lld has lost %s",
                       (long long)doc_number(iteration, "repetition"), view_losses(lost).text);
        say(said, true, job, text,
            "guarantee=\"at_least_once\" reads them again; stop workers with SIGTERM or drain "
            "them");
    }
    json_array_foreach(doc_at(iteration, "tasks"), i, task)
    {
        look_at_task(job, task, said);
    }
}

static void look_at_jobs(const json_t *status, struct said *said)
{
    json_t *job, *iteration;
    char label[256];
    size_t i, j;

    json_array_foreach(doc_at(status, "jobs"), i, job)
    {
        const char *name = doc_job_label(job, label, sizeof label);

        if (doc_text(job, "setAside")[0] != '\0') {
            say(said, true, name, doc_text(job, "setAside"),
                "millrace state check says what is wrong in etcd; or millrace job delete");
        }
        if (doc_text(job, "unshared")[0] != '\0') {
            say(said, false, name, doc_text(job, "unshared"), "it does not share: see sharing.md");
        }
        json_array_foreach(doc_at(job, "iterations"), j, iteration)
        {
            look_at_iteration(name, iteration, said);
        }
    }
}

/* ---- all of it ---- */

int findings_of(const json_t *status, const struct findings_here *here, json_t *list, mr_error *err)
{
    struct said said = {.list = list};

    look_at_store(status, &said);
    look_at_dispatchers(status, here, &said);
    look_at_workers(status, &said);
    look_at_jobs(status, &said);
    return said.failed ? mr_error_nomem(err) : MR_OK;
}

int findings_add(json_t *list, bool wrong, const char *about, const char *finding,
                 const char *advice, mr_error *err)
{
    struct said said = {.list = list};

    say(&said, wrong, about, finding, advice);
    return said.failed ? mr_error_nomem(err) : MR_OK;
}

static void put(struct mr_buf *out, const char *text)
{
    output_safe(out, text, strlen(text));
}

size_t findings_print(const json_t *list, struct mr_buf *out)
{
    size_t i, wrong = 0;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        wrong += strcmp(doc_text(one, "level"), "wrong") == 0 ? 1 : 0;
        mr_buf_printf(out, "%-5s  ", doc_text(one, "level"));
        put(out, doc_text(one, "about"));
        mr_buf_puts(out, ": ");
        put(out, doc_text(one, "finding"));
        mr_buf_puts(out, ". ");
        put(out, doc_text(one, "advice"));
        mr_buf_puts(out, "\n");
    }
    if (wrong == 0) {
        mr_buf_puts(out, "Nothing is wrong.\n");
    }
    return wrong;
}
