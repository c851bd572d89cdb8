/*
 * The dispatcher's core alone, on one core of the machine: a cluster of many workers and jobs is
 * built up by commands, its records are kept as a store would, and another core takes over from
 * them. One line of JSON: microseconds of the commands (the median and the longest), milliseconds
 * and MiB of the takeover without and with a grant of each task.
 *
 *     core_bench [WORKERS] [JOBS]
 */
#include "base/base.h"
#include "base/map.h"
#include "dispatcher/core/core.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

#define LATER 100 /* workers that come last */

struct entry {
    TAILQ_ENTRY(entry) link;
    char *key;
    char *value;
    size_t size;
};

struct bench {
    unsigned workers, jobs;
    struct mr_map map;
    TAILQ_HEAD(, entry) store;
    mr_core *core;
    struct mr_outcome out;
    int64_t now_ms;
    uint64_t epoch;
    char (*iterations)[48];
    char (*lives)[96]; /* of the workers: "<incarnation>.<stamp>" */
};

struct times {
    double *us;
    size_t n, cap;
};

static _Noreturn void die(const char *what, const mr_error *err)
{
    (void)fprintf(stderr, "core_bench: %s: %s\n", what,
                  err == NULL ? "out of memory" : err->message);
    exit(1);
}

static double now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return 1e6 * (double)ts.tv_sec + 1e-3 * (double)ts.tv_nsec;
}

static void note(struct times *t, double us)
{
    if (t->n == t->cap) {
        t->cap = 2 * t->cap + 64;
        t->us = mr_reallocarray(t->us, t->cap, sizeof t->us[0]);
        if (t->us == NULL) {
            die("times", NULL);
        }
    }
    t->us[t->n++] = us;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y ? 1 : 0;
}

static void print_times(const char *name, struct times *t)
{
    qsort(t->us, t->n, sizeof t->us[0], compare);
    printf("\"%s_us\": %.1f, \"%s_max_us\": %.1f, ", name, t->us[t->n / 2], name, t->us[t->n - 1]);
    mr_free(t->us);
    *t = (struct times){0};
}

/* ---------------------------------------------------------------- the store */

static void put(struct bench *b, const struct mr_change *change)
{
    struct entry *e = mr_map_get(&b->map, change->key);

    if (e == NULL && change->value != NULL) {
        e = mr_calloc(1, sizeof *e);
        if (e == NULL || (e->key = mr_strdup(change->key)) == NULL ||
            mr_map_put(&b->map, e->key, e, NULL) < 0) {
            die("store", NULL);
        }
        TAILQ_INSERT_TAIL(&b->store, e, link);
    }
    if (e == NULL) {
        return;
    }
    mr_free(e->value);
    e->value = change->value != NULL ? mr_strdup(change->value) : NULL;
    e->size = change->size;
    if (e->value == NULL) {
        mr_map_remove(&b->map, e->key);
        TAILQ_REMOVE(&b->store, e, link);
        mr_free(e->key);
        mr_free(e);
    }
}

static const struct mr_effect *step(struct bench *b, struct mr_command *command,
                                    struct times *times)
{
    const struct mr_effect *reply = NULL;
    mr_error err;

    mr_outcome_clear(&b->out);
    command->now_ms = b->now_ms;
    command->wall_ms = INT64_C(1700000000000) + b->now_ms;
    double from = now_us();

    if (mr_core_step(b->core, command, &b->out, &err) < 0) {
        die("step", &err);
    }
    if (times != NULL) {
        note(times, now_us() - from);
    }
    for (size_t i = 0; i < b->out.nchanges; i++) {
        put(b, &b->out.changes[i]);
    }
    for (size_t i = 0; i < b->out.neffects; i++) {
        reply = b->out.effects[i].kind == MR_EFFECT_REPLY ? &b->out.effects[i] : reply;
    }
    if (reply != NULL && reply->error.code < 0) {
        die("reply", &reply->error);
    }
    return reply;
}

static void settle(struct bench *b)
{
    struct mr_command timer = {.kind = MR_COMMAND_TIMER};

    while (mr_core_next_timer(b->core) <= b->now_ms) {
        step(b, &timer, NULL);
    }
}

static mr_core *load(struct bench *b, double *ms, double *mib)
{
    struct mr_core_config config = {.epoch = ++b->epoch}; /* another leader */
    size_t before = mallinfo2().uordblks;
    double from = now_us();
    mr_core *core = mr_core_new(&config);
    struct entry *e;
    mr_error err;

    TAILQ_FOREACH(e, &b->store, link) {
        int rc = strncmp(e->key, "blobs/", 6) == 0
                     ? mr_core_load_blob(core, e->key, &err)
                     : mr_core_load(core, e->key, e->value, e->size, &err);

        if (rc < 0) {
            die(e->key, &err);
        }
    }
    if (mr_core_ready(core, b->now_ms, &err) < 0) {
        die("takeover", &err);
    }
    *ms = 1e-3 * (now_us() - from);
    *mib = (double)(mallinfo2().uordblks - before) / (1 << 20);
    return core;
}

static void take_over(struct bench *b, const char *name)
{
    double ms, mib;

    mr_core_free(load(b, &ms, &mib)); /* warm, as the second one of a process */
    mr_core_free(load(b, &ms, &mib));
    printf("\"%s_keys\": %zu, \"%s_ms\": %.1f, \"%s_mib\": %.1f, ", name, b->map.count, name, ms,
           name, mib);
}

/* ---------------------------------------------------------------- commands */

static void hex_id(char out[33], const char *kind, unsigned n)
{
    snprintf(out, 33, "%.2s%030x", kind, n);
}

static void register_dataset(struct bench *b)
{
    static const int64_t splits[] = {1000000000};
    struct mr_part_store part = {
        .blob = "bb000000000000000000000000000000", .data = "definition", .size = 10};
    struct mr_dataset_register in = {.dataset_id = "numbers",
                                     .fingerprint = "dd000000000000000000000000000000",
                                     .compression = "AUTO",
                                     .providers = splits,
                                     .nproviders = 1,
                                     .definition_size = 10,
                                     .blob = part.blob,
                                     .parts = 1};
    struct mr_command command = {.kind = MR_COMMAND_STORE_PART, .part = &part};

    step(b, &command, NULL);
    command = (struct mr_command){.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &in};
    step(b, &command, NULL);
}

static void register_worker(struct bench *b, unsigned n, struct times *times)
{
    Millrace__RegisterWorkerRequest in = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    Millrace__WatchWorkerRequest watch = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_REGISTER_WORKER, .register_worker = &in};
    char incarnation[33], address[64];

    hex_id(incarnation, "ee", n);
    snprintf(address, sizeof address, "worker-%u.workers.training.svc:5051", n);
    in.incarnation = incarnation;
    in.address = address;
    step(b, &command, times);
    watch.incarnation = incarnation;
    command = (struct mr_command){.kind = MR_COMMAND_WATCH_WORKER, .watch_worker = &watch};
    step(b, &command, times);
    snprintf(b->lives[n], sizeof b->lives[n], "%s", strchr(b->out.changes[0].key, '/') + 1);
}

static void print_task(const struct bench *b, unsigned job, unsigned worker, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", b->iterations[job], b->lives[worker]);
}

static void open_job(struct bench *b, unsigned n, struct times *times)
{
    Millrace__OpenRequest in = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    struct mr_command command = {.kind = MR_COMMAND_OPEN, .open = &in};
    char client[33], name[32];

    hex_id(client, "cc", n);
    snprintf(name, sizeof name, "job-%u", n);
    spec.name = name;
    spec.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    in.job = &spec;
    in.client = client;
    in.dataset_id = (char *)(uintptr_t) "numbers";
    const struct mr_effect *reply = step(b, &command, times);

    snprintf(b->iterations[n], sizeof b->iterations[n], "%s",
             ((const Millrace__OpenReply *)reply->message)->iteration_id);
}

static void get_splits(struct bench *b, unsigned job, unsigned worker, struct times *times)
{
    Millrace__GetSplitsRequest in = MILLRACE__GET_SPLITS_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_SPLITS, .get_splits = &in};
    char incarnation[33], task[160];

    hex_id(incarnation, "ee", worker);
    print_task(b, job, worker, task, sizeof task);
    in.incarnation = incarnation;
    in.task_id = task;
    in.seq = 1;
    in.want = 100;
    step(b, &command, times);
}

static void heartbeat(struct bench *b, unsigned worker, struct times *times)
{
    Millrace__WorkerHeartbeatRequest in = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &in};
    char incarnation[33];

    hex_id(incarnation, "ee", worker);
    in.incarnation = incarnation;
    step(b, &command, times);
}

static void end_task(struct bench *b, unsigned job, unsigned worker, struct times *times)
{
    Millrace__TaskEndedRequest in = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &in};
    char incarnation[33], task[160];

    hex_id(incarnation, "ee", worker);
    print_task(b, job, worker, task, sizeof task);
    in.incarnation = incarnation;
    in.task_id = task;
    step(b, &command, times);
}

/* @update, packed for each of @b->workers clients, or once and copied. Returns their number. */
static unsigned tell(const struct bench *b, const Millrace__ClientUpdate *update, bool once)
{
    size_t size = millrace__client_update__get_packed_size(update);
    uint8_t *packed = mr_malloc(size), *copy = mr_malloc(size);

    if (packed == NULL || copy == NULL) {
        die("packing", NULL);
    }
    for (unsigned c = 0; c < b->workers; c++) {
        if (c == 0 || !once) {
            millrace__client_update__pack(update, packed);
        }
        memcpy(copy, packed, size);
    }
    mr_free(packed);
    mr_free(copy);
    return b->workers;
}

/* What the end of an epoch costs its clients' leader beside deciding it: messages to @b->workers
 * clients of job 0, one for each change, or for each batch. The core alone knows no batches; one
 * here is what a transaction takes. */
static void tell_end(struct bench *b, bool joined)
{
    Millrace__ClientUpdate *held = NULL;
    unsigned messages = 0;
    double us = 0;

    for (unsigned i = 0; i < b->workers; i++) {
        end_task(b, b->jobs - (joined ? 1 : 2), i, NULL);
        double from = now_us();

        for (size_t k = 0; k < b->out.neffects; k++) {
            struct mr_effect *e = &b->out.effects[k];
            Millrace__ClientUpdate *update = (Millrace__ClientUpdate *)e->message;

            if (e->kind != MR_EFFECT_PUSH_ITERATION) {
                continue;
            }
            e->message = NULL;
            if (held == NULL) {
                held = update;
            } else if (!mr_client_update_join(held, update)) {
                die("joining updates", NULL);
            }
        }
        if (held != NULL &&
            (!joined || (i + 1) % MR_CORE_CHANGES_MAX == 0 || i + 1 == b->workers)) {
            messages += tell(b, held, joined);
            protobuf_c_message_free_unpacked(&held->base, NULL);
            held = NULL;
        }
        us += now_us() - from;
    }
    printf("\"tell_end%s_messages\": %u, \"tell_end%s_ms\": %.1f, ", joined ? "_joined" : "",
           messages, joined ? "_joined" : "", 1e-3 * us);
}

static void on_job(void *ctx, const struct mr_job_numbers *n)
{
    *(uint64_t *)ctx += n->clients;
}

static void on_waited_for(void *ctx, const char *label, uint32_t consumer, uint64_t ms)
{
    *(uint64_t *)ctx += ms;
}

/* What a page of metrics asks the core. */
static void count(struct bench *b, struct times *times)
{
    uint64_t sum = 0;
    struct mr_core_visitor visitor = {.job = on_job, .waited_for = on_waited_for, .ctx = &sum};
    struct mr_core_counts counts;
    double from = now_us();

    mr_core_count(b->core, &counts);
    mr_core_visit_jobs(b->core, &visitor);
    note(times, now_us() - from);
    if (counts.clients != sum) {
        die("counts", NULL);
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.workers = argc > 1 ? (unsigned)atoi(argv[1]) : 1000,
                      .jobs = argc > 2 ? (unsigned)atoi(argv[2]) : 100,
                      .now_ms = 1};
    struct times times = {0};
    double ms, mib;

    if (b.workers == 0 || b.jobs < 3) {
        (void)fprintf(stderr, "usage: core_bench [WORKERS] [JOBS]; three jobs at least\n");
        return 2;
    }
    TAILQ_INIT(&b.store);
    b.iterations = mr_calloc(b.jobs, sizeof b.iterations[0]);
    b.lives = mr_calloc(b.workers + LATER, sizeof b.lives[0]);
    b.core = b.iterations != NULL && b.lives != NULL ? load(&b, &ms, &mib) : NULL;
    if (b.core == NULL) {
        die("start", NULL);
    }
    printf("{\"workers\": %u, \"jobs\": %u, \"tasks\": %u, ", b.workers, b.jobs,
           b.workers * b.jobs);
    register_dataset(&b);
    for (unsigned i = 0; i < b.workers; i++) {
        register_worker(&b, i, NULL);
    }
    for (unsigned i = 0; i < b.jobs; i++) {
        open_job(&b, i, &times);
    }
    print_times("open", &times);
    settle(&b);
    take_over(&b, "takeover_derived");
    for (unsigned i = 0; i < b.jobs; i++) {
        for (unsigned j = 0; j < b.workers; j++) {
            get_splits(&b, i, j, &times);
        }
    }
    print_times("get_splits", &times);
    for (unsigned i = 0; i < b.workers; i++) {
        heartbeat(&b, i, &times);
    }
    print_times("heartbeat", &times);
    for (unsigned i = 0; i < 20; i++) {
        count(&b, &times);
    }
    print_times("count", &times);
    take_over(&b, "takeover");
    for (unsigned i = 0; i < b.workers; i++) {
        end_task(&b, 0, i, &times);
    }
    print_times("end_task", &times);
    tell_end(&b, false);
    tell_end(&b, true);
    for (unsigned i = 0; i < LATER; i++) {
        register_worker(&b, b.workers + i, &times);
    }
    print_times("register_worker", &times);
    printf("\"rss_mib\": %.0f}\n", (double)mallinfo2().uordblks / (1 << 20));
    mr_outcome_clear(&b.out);
    mr_core_free(b.core);
    return 0;
}
