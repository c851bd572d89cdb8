/*
 * Months of a cluster in virtual time: jobs with names and without, OFF and DYNAMIC, under both guarantees; readers
 * that read to the end, leave in the middle, go on early or fall silent; workers that come and go; a failover every
 * day, half of them with the deletions of a timer under way. One reader stays from the first day to the last in an
 * iteration in which most tasks end and one never does. On every day:
 *
 *  - each kind of key is no more than a function of what is alive and what ended within its retention (check_day());
 *  - what must still be there is there: named jobs within their retention, named datasets always;
 *  - no ended repetition was run again, no named job forgot its past (on_opened()).
 *
 * In the end everything has gone but named datasets and live workers. MR_RETENTION_JOBS sets the number of jobs.
 */
#include "retention_store.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"

#include <millrace/dataset.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define JOBS_A_DAY 1000
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JOBS 10000 /* ten times as slow */
#else
#define JOBS 100000
#endif
#define WORKERS 5
#define NAMED_DATASETS 20
#define JOBS_A_CONTENT 10
#define EPOCHS_MAX 3

/* A few below the hour, where leaders start anew, and a few above, where wall time is compared. */
static const struct mr_core_config config = {
    .worker_timeout_ms = 10 * MINUTE,
    .client_timeout_ms = 30 * MINUTE,
    .job_gc_timeout_ms = 2 * HOUR,
    .finished_retention_ms = 10 * MINUTE,
    .client_retention_ms = 10 * MINUTE,
    .worker_retention_ms = DAY,
    .job_retention_ms = 7 * DAY,
    .dataset_retention_ms = DAY,
};

/* What a failover may add to each of them: the grace after it, the half of a retention by which `used_ms` is exact, and
 * the time until silence is noticed. */
#define SLACK (config.client_timeout_ms + 2 * HOUR)

struct job {
    bool named, dynamic;
    int guarantee;
    uint32_t dataset; /* below NAMED_DATASETS: a named one */
    uint64_t epochs;
    char owner[33]; /* anonymous: the client */
    char id[48];
    int64_t used; /* by a reader, last */
    uint32_t readers;
    bool ended[EPOCHS_MAX];
    int64_t read[EPOCHS_MAX]; /* last; 0: never */
};

struct reader {
    uint32_t job;
    char client[33];
    char iteration[48];
    uint64_t repetition;
    bool alive, reading;
    int64_t seen;
    int64_t until; /* of this repetition */
};

struct event {
    int64_t at;
    enum { ARRIVAL, READER, WORKER } kind;
    uint32_t index;
};

struct world {
    struct store store;
    struct mr_rng rng;
    struct job *jobs;
    uint32_t njobs, jobs_max;
    struct reader *readers;
    uint32_t nreaders;
    char workers[WORKERS][33];
    uint32_t lives;
    int64_t *deaths;
    uint32_t ndeaths;
    struct reader *endless; /* one of `readers` */
    struct event *heap;
    size_t nheap, cap_heap;
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return mr_rng_below(&w->rng, n);
}

static void later(struct world *w, int64_t ms, int kind, uint32_t index)
{
    size_t at = w->nheap++;

    if (w->nheap > w->cap_heap) {
        w->cap_heap = 2 * w->nheap;
        w->heap = mr_reallocarray(w->heap, w->cap_heap, sizeof w->heap[0]);
        assert_non_null(w->heap);
    }
    struct event event = {w->store.now + ms, kind, index};

    while (at > 0 && event.at < w->heap[(at - 1) / 2].at) {
        w->heap[at] = w->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->heap[at] = event;
}

static struct event next_event(struct world *w)
{
    struct event first = w->heap[0];
    struct event last = w->heap[--w->nheap];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < w->nheap && w->heap[child + 1].at < w->heap[child].at) {
            child++;
        }
        if (child >= w->nheap || w->heap[child].at >= last.at) {
            break;
        }
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return first;
}

static void hex_id(char out[33], const char *kind, uint32_t n)
{
    snprintf(out, 33, "%.2s%030x", kind, n);
}

static char *lent(const char *s)
{
    return (char *)(uintptr_t)s;
}

/* ---------------------------------------------------------------- calls */

static const ProtobufCMessage *call(struct world *w, struct mr_command *command, int *code)
{
    store_step(&w->store, command);
    return store_reply(&w->store, code);
}

static void name_dataset(uint32_t dataset, char out[33])
{
    if (dataset < NAMED_DATASETS) {
        snprintf(out, 33, "numbers-%u", dataset);
    } else {
        hex_id(out, "dd", dataset);
    }
}

static void register_dataset(struct world *w, uint32_t dataset)
{
    static const int64_t splits[] = {64};
    char fingerprint[33], blob[33], id[33];
    struct mr_part_store part = {.blob = blob, .data = "definition", .size = 10};
    struct mr_dataset_register in = {.dataset_id = dataset < NAMED_DATASETS ? id : "",
                                     .fingerprint = fingerprint,
                                     .compression = "AUTO",
                                     .cardinality = 64,
                                     .providers = splits,
                                     .nproviders = 1,
                                     .definition_size = 10,
                                     .blob = ""};
    struct mr_command command = {.kind = MR_COMMAND_STORE_PART, .part = &part};
    int code;

    hex_id(fingerprint, "dd", dataset);
    hex_id(blob, "bb", (uint32_t)w->store.steps);
    name_dataset(dataset, id);
    if (!mr_core_has_definition(w->store.core, fingerprint)) {
        store_step(&w->store, &command);
        in.blob = blob;
        in.parts = 1;
    }
    command = (struct mr_command){.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &in};
    call(w, &command, &code);
    assert_int_equal(code, MR_OK);
}

static int open_job(struct world *w, struct reader *r, Millrace__OpenReply const **reply)
{
    Millrace__OpenRequest in = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    struct mr_command command = {.kind = MR_COMMAND_OPEN, .open = &in};
    const struct job *job = &w->jobs[r->job];
    char name[32], dataset[33];
    int code;

    snprintf(name, sizeof name, "job-%u", r->job);
    name_dataset(job->dataset, dataset);
    spec.name = job->named ? name : lent("");
    spec.mode =
        job->dynamic ? MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC : MILLRACE__PROCESSING_MODE__PROCESSING_OFF;
    spec.guarantee = (Millrace__Guarantee)job->guarantee;
    in.job = &spec;
    in.client = r->client;
    in.dataset_id = dataset;
    in.repetition = r->repetition;
    *reply = (const Millrace__OpenReply *)call(w, &command, &code);
    return code;
}

static int release(struct world *w, struct reader *r)
{
    Millrace__ReleaseClientRequest in = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_RELEASE_CLIENT, .release_client = &in};
    int code;

    in.client = r->client;
    in.iteration_id = r->iteration;
    call(w, &command, &code);
    return code;
}

static int client_heartbeat(struct world *w, struct reader *r)
{
    Millrace__ClientHeartbeatRequest in = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &in};
    int code;

    in.client = r->client;
    in.iteration_id = r->iteration;
    call(w, &command, &code);
    return code;
}

static void work(struct world *w, const struct job *job, char *task, char *worker)
{
    Millrace__GetSplitsRequest get = MILLRACE__GET_SPLITS_REQUEST__INIT;
    Millrace__TaskEndedRequest end = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_SPLITS, .get_splits = &get};
    int code;

    get.task_id = end.task_id = task;
    get.incarnation = end.incarnation = worker;
    get.seq = 1;
    if (job->dynamic) {
        call(w, &command, &code);
    }
    if (draw(w, 4) != 0) { /* else another reader of it, or the next round, has it ended */
        command = (struct mr_command){.kind = MR_COMMAND_TASK_ENDED, .task_ended = &end};
        call(w, &command, &code);
    }
}

static bool is_alive(const struct world *w, const char *worker)
{
    bool alive = false;

    for (int i = 0; i < WORKERS; i++) {
        alive = alive || strcmp(w->workers[i], worker) == 0;
    }
    return alive;
}

/* The tasks there are do their work and end, recovery tasks too. False: one waits for a worker that is not alive. */
static bool end_tasks(struct world *w, struct reader *r)
{
    Millrace__WatchClientRequest in = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WATCH_CLIENT, .watch_client = &in};
    bool finished = false;
    int code;

    in.client = r->client;
    in.iteration_id = r->iteration;
    for (int round = 0; !finished && round < 20; round++) {
        char tasks[64][128], workers[64][33];
        const Millrace__ClientUpdate *update = (const Millrace__ClientUpdate *)call(w, &command, &code);
        size_t n = 0;

        assert_int_equal(code, MR_OK);
        finished = update->finished;
        for (size_t i = 0; !finished && i < update->n_tasks && n < 64; i++) {
            if (!update->tasks[i]->ended && is_alive(w, update->tasks[i]->worker_incarnation)) {
                snprintf(tasks[n], sizeof tasks[n], "%s", update->tasks[i]->task_id);
                snprintf(workers[n], sizeof workers[n], "%s", update->tasks[i]->worker_incarnation);
                n++;
            }
        }
        for (size_t i = 0; i < n; i++) {
            work(w, &w->jobs[r->job], tasks[i], workers[i]);
        }
        store_run(&w->store, w->store.now + 1);
    }
    w->jobs[r->job].ended[r->repetition] = w->jobs[r->job].ended[r->repetition] || finished;
    return finished;
}

static int register_worker(struct world *w, uint32_t slot)
{
    Millrace__RegisterWorkerRequest in = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_REGISTER_WORKER, .register_worker = &in};
    char address[32];
    int code;

    snprintf(address, sizeof address, "host-%u:1", draw(w, 2) == 0 ? slot : w->lives + WORKERS);
    hex_id(w->workers[slot], "ee", w->lives++);
    in.incarnation = w->workers[slot];
    in.address = address;
    call(w, &command, &code);
    return code;
}

/* What this worker does for the reader that stays. */
static void end_endless(struct world *w, uint32_t slot)
{
    Millrace__TaskEndedRequest in = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &in};
    char task[128];
    int code;

    snprintf(task, sizeof task, "%s/%s.1", w->endless->iteration, w->workers[slot]);
    in.task_id = task;
    in.incarnation = w->workers[slot];
    call(w, &command, &code);
    assert_int_equal(code, MR_OK);
}

static int worker_heartbeat(struct world *w, uint32_t slot, bool leaving)
{
    Millrace__WorkerHeartbeatRequest in = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &in};
    int code;

    in.incarnation = w->workers[slot];
    in.leaving = leaving;
    call(w, &command, &code);
    return code;
}

/* ---------------------------------------------------------------- what they do */

static void add_reader(struct world *w, uint32_t job, uint64_t repetition)
{
    uint32_t index = w->nreaders++;
    struct reader *r = &w->readers[index];

    *r = (struct reader){.job = job, .repetition = repetition, .alive = true, .seen = w->store.now};
    if (w->jobs[job].named) {
        hex_id(r->client, "cc", index);
    } else {
        snprintf(r->client, sizeof r->client, "%s", w->jobs[job].owner);
    }
    w->jobs[job].readers++;
    later(w, (int64_t)draw(w, 60 * SECOND), READER, index);
}

static void arrive(struct world *w)
{
    uint32_t index = w->njobs++;
    struct job *job = &w->jobs[index];
    uint32_t content = NAMED_DATASETS + index / JOBS_A_CONTENT;

    *job = (struct job){.named = draw(w, 3) == 0,
                        .dynamic = draw(w, 2) == 0,
                        .dataset = draw(w, 2) == 0 ? (uint32_t)draw(w, NAMED_DATASETS) : content,
                        .epochs = 1 + draw(w, EPOCHS_MAX),
                        .used = w->store.now};
    job->guarantee = job->dynamic && draw(w, 2) == 0 ? 1 : 0;
    hex_id(job->owner, "ca", index);
    add_reader(w, index, 0);
    if (job->named && draw(w, 2) == 0) {
        add_reader(w, index, 0);
    }
    if (index > 10 && draw(w, 5) == 0) { /* somebody comes late, to a job of the last days */
        uint32_t other = index - 1 - (uint32_t)draw(w, index < 3000 ? index / 2 : 3000);

        if (w->jobs[other].named && w->jobs[other].id[0] != '\0') {
            add_reader(w, other, 0);
        }
    }
    if (w->njobs < w->jobs_max) {
        later(w, (int64_t)draw(w, 2 * DAY / JOBS_A_DAY), ARRIVAL, 0);
    }
}

static void reader_gone(struct world *w, struct reader *r)
{
    r->alive = false;
    r->reading = false;
    w->jobs[r->job].readers--;
}

static void used(struct world *w, struct reader *r)
{
    r->seen = w->store.now;
    w->jobs[r->job].used = w->store.now;
    w->jobs[r->job].read[r->repetition] = w->store.now;
}

/* Was there still a job, and did it remember? */
static void on_opened(struct world *w, struct reader *r, const Millrace__OpenReply *reply, int64_t unused_ms)
{
    struct job *job = &w->jobs[r->job];

    if (strcmp(job->id, reply->job_id) != 0) {
        assert_true(job->id[0] == '\0' || unused_ms >= (job->named ? config.job_retention_ms / 2 : 0));
        snprintf(job->id, sizeof job->id, "%s", reply->job_id);
        memset(job->ended, 0, sizeof job->ended);
        memset(job->read, 0, sizeof job->read);
    }
    assert_true(reply->finished || !job->ended[r->repetition]);
    snprintf(r->iteration, sizeof r->iteration, "%s", reply->iteration_id);
}

/* Open the next repetition, past those that have ended. */
static void begin(struct world *w, uint32_t index)
{
    struct reader *r = &w->readers[index];
    struct job *job = &w->jobs[r->job];
    int64_t unused_ms = job->readers > 1 ? 0 : w->store.now - job->used;
    const Millrace__OpenReply *reply;

    for (; r->repetition < job->epochs; r->repetition++) {
        int code = open_job(w, r, &reply);

        if (code == MR_ENOTFOUND) {
            register_dataset(w, job->dataset);
            code = open_job(w, r, &reply);
        }
        assert_int_equal(code, MR_OK);
        on_opened(w, r, reply, unused_ms);
        used(w, r);
        unused_ms = 0;
        if (!reply->finished) {
            r->reading = true;
            r->until = w->store.now + (int64_t)draw(w, draw(w, 10) == 0 ? 3 * HOUR : 10 * MINUTE);
            later(w, SECOND, READER, index);
            return;
        }
    }
    reader_gone(w, r);
}

static void read_on(struct world *w, uint32_t index)
{
    struct reader *r = &w->readers[index];
    struct job *job = &w->jobs[r->job];
    int64_t left = r->until - w->store.now;

    assert_int_equal(client_heartbeat(w, r), MR_OK);
    used(w, r);
    if (left > 0) {
        later(w, left < 10 * MINUTE ? left : 10 * MINUTE, READER, index);
        return;
    }
    switch (draw(w, 12)) {
    case 0: /* falls silent */
        reader_gone(w, r);
        return;
    case 1: /* leaves in the middle */
        assert_int_equal(release(w, r), MR_OK);
        reader_gone(w, r);
        return;
    case 2: /* goes on early */
        break;
    default:
        if (!end_tasks(w, r)) {
            later(w, 5 * MINUTE, READER, index);
            return;
        }
        break;
    }
    r->reading = false;
    if (++r->repetition < job->epochs) {
        later(w, (int64_t)draw(w, 5 * MINUTE), READER, index);
        return;
    }
    if (draw(w, 8) != 0) {
        assert_int_equal(release(w, r), MR_OK);
    }
    r->repetition--;
    reader_gone(w, r);
}

static void tend_worker(struct world *w, uint32_t slot)
{
    uint64_t fate = draw(w, 1000); /* about twice in three days a worker goes */

    if (w->workers[slot][0] == '\0' || fate < 2) {
        if (fate == 0 && w->workers[slot][0] != '\0') {
            assert_int_equal(worker_heartbeat(w, slot, true /* leaving */), MR_OK);
        }
        if (w->workers[slot][0] != '\0') {
            w->deaths[w->ndeaths++] = w->store.now;
        }
        assert_int_equal(register_worker(w, slot), MR_OK);
    } else {
        assert_int_equal(worker_heartbeat(w, slot, false), MR_OK);
        if (slot > 0) {
            end_endless(w, slot);
        }
    }
    later(w, 3 * MINUTE, WORKER, slot);
}

static void start_endless(struct world *w)
{
    const Millrace__OpenReply *reply;

    w->jobs[w->njobs++] = (struct job){.named = true, .epochs = 1};
    add_reader(w, 0, 0);
    w->endless = &w->readers[0];
    assert_int_equal(open_job(w, w->endless, &reply), MR_OK);
    on_opened(w, w->endless, reply, 0);
    used(w, w->endless);
    w->endless->reading = true;
    w->endless->until = INT64_MAX / 2;
}

static void run(struct world *w, int64_t until)
{
    while (w->nheap > 0 && w->heap[0].at <= until) {
        struct event event = next_event(w);

        store_run(&w->store, event.at > w->store.now ? event.at : w->store.now);
        switch (event.kind) {
        case ARRIVAL:
            arrive(w);
            break;
        case READER:
            if (w->readers[event.index].reading) {
                read_on(w, event.index);
            } else {
                begin(w, event.index);
            }
            break;
        case WORKER:
            tend_worker(w, event.index);
            break;
        }
    }
    store_run(&w->store, until > w->store.now ? until : w->store.now);
}

/* ---------------------------------------------------------------- what is judged */

struct bounds {
    size_t jobs, iterations, open, clients, workers, datasets;
};

static bool within(const struct world *w, int64_t since, int64_t ms)
{
    return w->store.now - since <= ms;
}

static void bound_jobs(struct world *w, struct bounds *b)
{
    bool *contents = mr_calloc(NAMED_DATASETS + w->jobs_max / JOBS_A_CONTENT + 1, sizeof contents[0]);
    char key[64];

    assert_non_null(contents);
    for (uint32_t i = 0; i < w->njobs; i++) {
        const struct job *job = &w->jobs[i];
        int64_t keep = job->named ? config.job_retention_ms : config.job_gc_timeout_ms;
        bool alive = job->readers > 0;

        if (within(w, job->used, keep + config.dataset_retention_ms + SLACK) || alive) {
            contents[job->dataset] = true;
        }
        if (!alive && !within(w, job->used, keep + SLACK)) {
            continue;
        }
        b->jobs++;
        b->open += job->named && job->dynamic ? 1 : 0; /* the last one waits for readers as long as its job */
        for (uint64_t r = 0; r < job->epochs; r++) {
            bool recent = alive || within(w, job->read[r], config.job_gc_timeout_ms + SLACK);

            b->open += job->read[r] != 0 && recent ? 1 : 0;
            b->iterations += job->read[r] != 0 && within(w, job->read[r], config.finished_retention_ms + SLACK) ? 1 : 0;
        }
        snprintf(key, sizeof key, "jobs/job-%u", i);
        /* To be told that a repetition has ended is a use, too, of which the half of the retention is left at least. */
        if (job->named && job->id[0] != '\0' && within(w, job->used, config.job_retention_ms / 2)) {
            assert_non_null(store_get(&w->store, key));
        }
    }
    b->iterations += b->open;
    for (uint32_t i = 0; i < NAMED_DATASETS + w->njobs / JOBS_A_CONTENT + 1; i++) {
        b->datasets += i < NAMED_DATASETS || contents[i] ? 1 : 0;
    }
    mr_free(contents);
}

static void check_kind(const struct world *w, const char *prefix, size_t bound)
{
    size_t n = store_count(&w->store, prefix);

    if (n > bound) {
        fail_msg("day %.1f: %zu keys below %s; what is alive accounts for %zu", (double)w->store.now / (double)DAY, n,
                 prefix, bound);
    }
}

static void check_day(struct world *w)
{
    struct bounds b = {.workers = WORKERS};
    mr_error err;

    bound_jobs(w, &b);
    for (uint32_t i = 0; i < w->nreaders; i++) {
        const struct reader *r = &w->readers[i];

        b.clients += r->alive || within(w, r->seen, config.client_retention_ms + SLACK) ? 1 : 0;
    }
    for (uint32_t i = 0; i < w->ndeaths; i++) {
        b.workers += within(w, w->deaths[i], config.worker_retention_ms + SLACK) ? 1 : 0;
    }
    check_kind(w, "jobs/", b.jobs);
    check_kind(w, "iterations/", b.iterations);
    check_kind(w, "clients/", b.clients);
    check_kind(w, "workers/", b.workers);
    check_kind(w, "cursors/", b.open);
    check_kind(w, "tasks/", b.open * b.workers);
    check_kind(w, "grants/", b.open * b.workers);
    check_kind(w, "datasets/", b.datasets);
    check_kind(w, "blobs/", b.datasets);
    if (mr_core_check(w->store.core, &err) < 0) {
        fail_msg("day %.1f: %s", (double)w->store.now / (double)DAY, err.message);
    }
    for (uint32_t i = 0; i < NAMED_DATASETS; i++) {
        char key[64];

        snprintf(key, sizeof key, "datasets/numbers-%u", i);
        assert_non_null(store_get(&w->store, key));
    }
}

/* A day with a failover at some moment of it. */
static void live_a_day(struct world *w)
{
    int64_t morning = w->store.now;

    run(w, morning + (int64_t)draw(w, (uint64_t)DAY));
    if (draw(w, 2) == 0) {
        store_take_over(&w->store);
    } else {
        w->store.crash_soon = true;
    }
    run(w, morning + DAY);
    check_day(w);
}

static void months_leave_nothing_behind(void **state)
{
    const char *wanted = getenv("MR_RETENTION_JOBS");
    struct world w = {.jobs_max = wanted != NULL ? (uint32_t)atoi(wanted) : JOBS};
    int days = (int)(w.jobs_max / JOBS_A_DAY) + 1;

    (void)state;
    mr_rng_seed(&w.rng, 4711);
    w.jobs = mr_calloc(w.jobs_max, sizeof w.jobs[0]);
    w.readers = mr_calloc(3 * (size_t)w.jobs_max, sizeof w.readers[0]);
    w.deaths = mr_calloc(100 * WORKERS * (size_t)days, sizeof w.deaths[0]);
    assert_true(w.jobs != NULL && w.readers != NULL && w.deaths != NULL);
    store_open(&w.store, &config);
    for (uint32_t i = 0; i < NAMED_DATASETS; i++) {
        register_dataset(&w, i);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        later(&w, i * SECOND, WORKER, i);
    }
    start_endless(&w);
    later(&w, MINUTE, ARRIVAL, 0);
    while (w.njobs < w.jobs_max) {
        live_a_day(&w);
    }
    print_message(
        "%u jobs, %u readers, %u worker lives in %.0f days with %llu failovers: %llu steps, at most %zu keys\n",
        w.njobs, w.nreaders, w.lives, (double)w.store.now / (double)DAY, (unsigned long long)w.store.takeovers,
        (unsigned long long)w.store.steps, w.store.keys_max);
    w.endless->until = w.store.now;
    for (int day = 0; day < 10; day++) {
        live_a_day(&w);
    }
    assert_int_equal(store_count(&w.store, "datasets/"), NAMED_DATASETS);
    assert_int_equal(store_count(&w.store, "blobs/"), NAMED_DATASETS);
    assert_int_equal(w.store.map.count - store_count(&w.store, "workers/"),
                     2 * NAMED_DATASETS + store_count(&w.store, "schema"));
    store_close(&w.store);
    mr_free(w.jobs);
    mr_free(w.readers);
    mr_free(w.deaths);
    mr_free(w.heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(months_leave_nothing_behind)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
