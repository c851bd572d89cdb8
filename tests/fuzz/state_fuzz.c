/*
 * A dispatcher's core and whatever may be stored: a takeover of any state either names the key that
 * it does not take, or gives a core that goes on under whatever its workers and clients do next.
 * `millrace state check` judges the same state, and must see what a takeover sees.
 *
 * The input is a list of keys, "<key><TAB><value>". corpus/state was written by cores (see the
 * README).
 */
#include "coord/bytes.h"
#include "lines.h"
#include "main/state.h"
#include "world.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

#define ROOT "/millrace/t/"
#define EPOCH 2000 /* later than those that wrote the corpus */
#define KEYS_MAX 500
#define ACTORS_MAX 12 /* of a kind: what holds for a dozen holds for more */
#define NAME_MAX_BYTES 160
#define A_CLIENT "abcdefabcdefabcdefabcdefabcdef01"
#define A_WORKER "abcdefabcdefabcdefabcdefabcdef02"

struct names {
    char at[ACTORS_MAX][NAME_MAX_BYTES];
    size_t n;
};

static void add_name(struct names *names, const char *name, size_t len)
{
    if (names->n < ACTORS_MAX && len < NAME_MAX_BYTES) {
        memcpy(names->at[names->n], name, len);
        names->at[names->n++][len] = '\0';
    }
}

/* What comes behind @prefix in the keys that are there, up to one of @until. */
static void find_names(const struct world *w, const char *prefix, const char *until,
                       struct names *ret)
{
    ret->n = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (strncmp(w->keys[i].key, prefix, strlen(prefix)) == 0) {
            const char *name = w->keys[i].key + strlen(prefix);

            add_name(ret, name, strcspn(name, until));
        }
    }
}

/* ---------------------------------------------------------------- state check */

static void judge(const struct world *w, int loaded)
{
    struct state state = {.root = ROOT, .revision = EPOCH - 1};
    struct state_report report = {0};
    struct mr_buf text = {0};

    for (size_t i = 0; i < w->count; i++) {
        char *full = mr_asprintf(ROOT "%s", w->keys[i].key);
        struct mr_kv kv = {.key = mr_bytes_str(full),
                           .value = mr_bytes_str(w->keys[i].value),
                           .create_revision = 5,
                           .mod_revision = 9};

        if (state_add(&state, &kv, strlen(ROOT), false, NULL) < 0) {
            abort();
        }
        mr_free(full);
    }
    if (state_check(&state, &report, NULL) < 0 || (loaded < 0 && report.problems.n == 0)) {
        fprintf(stderr, "fuzz: state check does not see what a takeover refuses\n");
        abort();
    }
    state_report_print(&state, &report, &text);
    (void)state_report_json(&state, &report, &text, NULL); /* a key that is no text has no JSON */
    state_print_tree(&state, &text);
    state_print_values(&state, false, &text);
    (void)state_print_json(&state, &text, NULL);
    mr_buf_free(&text);
    state_report_free(&report);
    state_free(&state);
}

/* ---------------------------------------------------------------- what happens next */

/* The last number that was answered, which is asked for again, and the next one. */
static uint64_t last_seq(const struct world *w, const Millrace__TaskAssignment *task,
                         uint32_t provider)
{
    char key[512];
    const char *slash = strchr(task->task_id, '/');
    const char *value;

    if (slash == NULL) {
        return 0;
    }
    snprintf(key, sizeof key, "grants/%.100s/%u/%.200s", task->iteration_id, provider, slash + 1);
    value = world_get(w, key);
    value = value != NULL ? strstr(value, "\"seq\":\"") : NULL;
    return value != NULL ? strtoull(value + strlen("\"seq\":\""), NULL, 10) : 0;
}

static void ask_for_splits(struct world *w, const char *worker,
                           const Millrace__TaskAssignment *task)
{
    for (uint32_t provider = 0; provider < task->n_providers && provider < 3; provider++) {
        uint64_t seq = last_seq(w, task, provider);

        for (uint64_t i = 0; i < 4; i++) {
            Millrace__GetSplitsRequest request = MILLRACE__GET_SPLITS_REQUEST__INIT;
            struct mr_command command = {.kind = MR_COMMAND_GET_SPLITS, .get_splits = &request};
            Millrace__GrantReport report = MILLRACE__GRANT_REPORT__INIT;
            Millrace__SplitRange finished = {
                .base = PROTOBUF_C_MESSAGE_INIT(&millrace__split_range__descriptor)};
            Millrace__SplitRange *list = &finished;

            finished.first = 1;
            finished.count = seq;
            report.provider = provider;
            report.finished = &list;
            report.n_finished = 1;
            request.report = i == 2 ? &report : NULL;
            request.incarnation = (char *)(uintptr_t)worker;
            request.task_id = task->task_id;
            request.iteration_id = task->iteration_id;
            request.provider = provider;
            request.repetition = i == 3 ? 1 : 0;
            request.seq = seq + i;
            request.want = i == 2 ? 1000 : 3;
            (void)world_step(w, &command);
        }
    }
}

static void make_progress(struct world *w, const char *worker, const Millrace__WorkerUpdate *update)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &request};
    Millrace__TaskProgress progress[ACTORS_MAX];
    Millrace__TaskProgress *tasks[ACTORS_MAX];
    Millrace__JoinAnswer join = MILLRACE__JOIN_ANSWER__INIT;

    request.incarnation = (char *)(uintptr_t)worker;
    request.tasks = tasks;
    for (size_t i = 0; i < update->n_tasks && i < ACTORS_MAX; i++) {
        millrace__task_progress__init(&progress[i]);
        tasks[request.n_tasks++] = &progress[i];
        progress[i].task_id = update->tasks[i]->task_id;
        progress[i].produced = 10;
        progress[i].join = update->tasks[i]->joining ? &join : NULL;
    }
    (void)world_step(w, &command);
}

static void end_tasks(struct world *w, const char *worker, const Millrace__WorkerUpdate *update)
{
    for (size_t i = 0; i < update->n_tasks && i < ACTORS_MAX; i++) {
        Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
        struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};

        request.incarnation = (char *)(uintptr_t)worker;
        request.task_id = update->tasks[i]->task_id;
        request.end_round = 3;
        request.code = i % 3 == 2 ? MR_EDATALOSS : 0;
        (void)world_step(w, &command);
    }
}

/* It comes (back), sees its tasks and works on them; at the end of its work, if it is to come to
 * one. */
static void be_worker(struct world *w, const char *worker, bool ends)
{
    Millrace__RegisterWorkerRequest hello = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    Millrace__WatchWorkerRequest watch = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_REGISTER_WORKER, .register_worker = &hello};
    const struct mr_effect *reply;

    hello.incarnation = watch.incarnation = (char *)(uintptr_t)worker;
    hello.address = (char *)(uintptr_t)(worker[0] == 'a' ? "10.0.0.9:1" : worker);
    (void)world_step(w, &command);
    command = (struct mr_command){.kind = MR_COMMAND_WATCH_WORKER, .watch_worker = &watch};
    reply = world_step(w, &command);
    if (reply == NULL || reply->error.code < 0) {
        return;
    }
    /* The reply goes with the next step. */
    size_t size = protobuf_c_message_get_packed_size(reply->message);
    uint8_t *bytes = malloc(size + 1);

    if (bytes == NULL) {
        abort();
    }
    protobuf_c_message_pack(reply->message, bytes);
    Millrace__WorkerUpdate *update = millrace__worker_update__unpack(NULL, size, bytes);

    free(bytes);
    if (update == NULL) {
        abort();
    }
    make_progress(w, worker, update);
    for (size_t i = 0; i < update->n_tasks && i < ACTORS_MAX; i++) {
        ask_for_splits(w, worker, update->tasks[i]);
    }
    if (ends) {
        end_tasks(w, worker, update);
    }
    millrace__worker_update__free_unpacked(update, NULL);
}

static void open_job(struct world *w, const char *client, const Millrace__JobRecord *job)
{
    Millrace__OpenRequest request = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    struct mr_command command = {.kind = MR_COMMAND_OPEN, .open = &request};

    spec.name = job->name;
    spec.mode = job->mode;
    spec.guarantee = job->guarantee;
    spec.target_workers = job->target_workers;
    spec.trainer = job->trainer;
    spec.sharing = job->sharing;
    spec.lag = job->lag;
    spec.num_consumers = job->num_consumers;
    spec.last_round = job->last_round;
    request.client = (char *)(uintptr_t)client;
    request.dataset_id = job->dataset_id;
    request.job = &spec;
    request.repetition = job->ended_below;
    (void)world_step(w, &command);
    request.job_id = job->id;
    (void)world_step(w, &command);
}

static void open_jobs(struct world *w)
{
    static const char prefix[] = "jobs/";
    size_t seen = 0;

    for (size_t i = 0; i < w->count && seen < ACTORS_MAX; i++) {
        if (strncmp(w->keys[i].key, prefix, strlen(prefix)) == 0) {
            ProtobufCMessage *job =
                lines_message(&millrace__job_record__descriptor, w->keys[i].value);

            seen++;
            if (job != NULL) {
                open_job(w, A_CLIENT, (const Millrace__JobRecord *)job);
                protobuf_c_message_free_unpacked(job, NULL);
            }
        }
    }
}

/* It is where @iteration is, whether or not it belongs there. */
static void be_client(struct world *w, const char *client, const char *iteration,
                      const char *worker, bool goes)
{
    Millrace__WatchClientRequest watch = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    Millrace__ClientHeartbeatRequest beat = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    Millrace__ReleaseClientRequest release = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WATCH_CLIENT, .watch_client = &watch};
    char *unreachable = (char *)(uintptr_t)worker;
    const struct mr_effect *reply;

    watch.client = beat.client = release.client = (char *)(uintptr_t)client;
    watch.iteration_id = beat.iteration_id = release.iteration_id = (char *)(uintptr_t)iteration;
    reply = world_step(w, &command);
    if (reply != NULL && reply->error.code == MR_OK) {
        const Millrace__RoundsUpdate *rounds =
            ((const Millrace__ClientUpdate *)reply->message)->rounds;

        report.ask = rounds != NULL ? rounds->ask : 0;
        report.position = rounds != NULL ? rounds->horizon : 0;
        report.session = rounds != NULL && rounds->n_sessions > 0 ? rounds->sessions[0] : 0;
        beat.rounds = rounds != NULL ? &report : NULL;
    }
    beat.unreachable = beat.refusing = &unreachable;
    beat.n_unreachable = beat.n_refusing = worker != NULL ? 1 : 0;
    command = (struct mr_command){.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &beat};
    (void)world_step(w, &command);
    if (goes) {
        command =
            (struct mr_command){.kind = MR_COMMAND_RELEASE_CLIENT, .release_client = &release};
        (void)world_step(w, &command);
    }
}

static void be_clients(struct world *w, bool go)
{
    struct names clients, iterations, workers;

    find_names(w, "clients/", "", &clients);
    find_names(w, "iterations/", "", &iterations);
    find_names(w, "workers/", ".", &workers);
    for (size_t i = 0; i < clients.n; i++) {
        for (size_t k = 0; k < iterations.n; k++) {
            be_client(w, clients.at[i], iterations.at[k],
                      workers.n > 0 ? workers.at[i % workers.n] : NULL, go);
        }
    }
}

static void be_workers(struct world *w, bool end)
{
    struct names workers;

    find_names(w, "workers/", ".", &workers);
    add_name(&workers, A_WORKER, strlen(A_WORKER));
    for (size_t i = 0; i < workers.n; i++) {
        be_worker(w, workers.at[i], end);
    }
}

static void go_on(struct world *w)
{
    world_status(w);
    world_wait(w, 1);
    be_clients(w, false);
    be_workers(w, false);
    world_take_over(w);
    open_jobs(w);
    be_clients(w, false);
    world_wait(w, 25000);
    be_workers(w, true);
    world_status(w);
    world_take_over(w);
    be_clients(w, true);
    world_wait(w, 700 * 1000);
    world_take_over(w);
    world_wait(w, INT64_C(10) * 86400 * 1000);
    world_status(w);
    world_take_over(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = malloc(sizeof *w);
    struct lines lines;
    mr_error err = {0};
    int rc;

    if (w == NULL) {
        abort();
    }
    lines_parse(data, size, &lines);
    world_open(w, EPOCH);
    for (size_t i = 0; i < lines.count && i < KEYS_MAX; i++) {
        world_put(w, lines.at[i].name, lines.at[i].value);
    }
    rc = world_load(w, &err);
    judge(w, rc);
    if (rc >= 0) {
        go_on(w);
    }
    world_close(w);
    lines_free(&lines);
    free(w);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
