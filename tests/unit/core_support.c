#include "core_support.h"

#include "base/base.h"
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const char *id_of(const char *name)
{
    static char ring[8][33];
    static unsigned next;
    char *out = ring[next++ % 8];
    uint8_t hash[16];

    mr_hash128(name, strlen(name), hash);
    for (size_t i = 0; i < sizeof hash; i++) {
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    }
    return out;
}

/* The one that was opened last. */
static const struct table *table_in_use;

/* The value of @field in @json, up to its quote. */
static void copy_field(const char *json, const char *field, char *out, size_t size)
{
    const char *at = strstr(json, field);

    at = at != NULL ? at + strlen(field) : "";
    snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
}

const char *task_of(const char *iteration, const char *worker, unsigned life)
{
    static char ring[8][128];
    static unsigned next;
    char *out = ring[next++ % 8];
    char prefix[64], number[32], registered[64] = "?"; /* such a life is in no table */

    snprintf(prefix, sizeof prefix, "workers/%s.", id_of(worker));
    snprintf(number, sizeof number, "\"life\":%u,", life);
    for (size_t i = 0; i < table_in_use->count; i++) {
        if (strncmp(table_in_use->keys[i], prefix, strlen(prefix)) == 0 &&
            strstr(table_in_use->values[i], number) != NULL) {
            copy_field(table_in_use->values[i], "\"registered\":\"", registered, sizeof registered);
        }
    }
    snprintf(out, 128, "%s/%s.%s", iteration, id_of(worker), registered);
    return out;
}

/* ---------------------------------------------------------------- the store */

static size_t find(const struct table *t, const char *key)
{
    size_t i = 0;

    while (i < t->count && strcmp(t->keys[i], key) != 0) {
        i++;
    }
    return i;
}

const char *table_get(const struct table *t, const char *key)
{
    size_t i = find(t, key);

    return i < t->count ? t->values[i] : NULL;
}

size_t table_count(const struct table *t, const char *prefix)
{
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++) {
        n += strncmp(t->keys[i], prefix, strlen(prefix)) == 0 ? 1 : 0;
    }
    return n;
}

void table_delete(struct table *t, const char *key)
{
    size_t i = find(t, key);

    if (i < t->count) {
        mr_free(t->keys[i]);
        mr_free(t->values[i]);
        t->count--;
        t->keys[i] = t->keys[t->count];
        t->values[i] = t->values[t->count];
    }
}

void table_put(struct table *t, const char *key, const char *value)
{
    table_delete(t, key);
    assert_true(t->count < KEYS_MAX);
    t->keys[t->count] = mr_strdup(key);
    t->values[t->count++] = mr_strdup(value);
}

static int try_load(struct table *t, mr_error *err)
{
    int rc = MR_OK;

    t->config.epoch = t->epoch;
    t->core = mr_core_new(&t->config);
    assert_non_null(t->core);
    for (size_t i = 0; i < t->count && rc >= 0; i++) {
        rc = strncmp(t->keys[i], "blobs/", 6) == 0
                 ? mr_core_load_blob(t->core, t->keys[i], err)
                 : mr_core_load(t->core, t->keys[i], t->values[i], strlen(t->values[i]), err);
    }
    mr_core_loaded_at(t->core, t->epoch);
    rc = rc < 0 ? rc : mr_core_ready(t->core, t->now, err);
    if (rc < 0) {
        mr_core_free(t->core);
        t->core = NULL;
    }
    return rc;
}

static void load(struct table *t)
{
    mr_error err = {0};

    if (try_load(t, &err) < 0) {
        fail_msg("takeover: %s", err.message);
    }
}

void table_open(struct table *t, const struct mr_core_config *config)
{
    memset(t, 0, sizeof *t);
    table_in_use = t;
    t->now = 1000;
    t->wall = INT64_C(1700000000000);
    t->epoch = 5;
    if (config != NULL) {
        t->config = *config;
    }
    if (t->config.worker_timeout_ms == 0) {
        t->config.worker_timeout_ms = 60000; /* so that nobody is lost in passing */
    }
    load(t);
}

void table_take_over(struct table *t)
{
    mr_outcome_clear(&t->out);
    mr_core_free(t->core);
    t->epoch += 2;
    load(t);
}

int table_try_take_over(struct table *t, mr_error *err)
{
    mr_outcome_clear(&t->out);
    mr_core_free(t->core);
    t->epoch += 2;
    return try_load(t, err);
}

static void open_with_numbers(struct table *t)
{
    static const int64_t hundred[] = {100};

    table_open(t, NULL);
    assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
}

void table_open_usual(struct table *t)
{
    open_with_numbers(t);
    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
}

int core_setup(void **state)
{
    struct table *t = mr_calloc(1, sizeof *t);

    *state = t;
    open_with_numbers(t);
    return 0;
}

int core_teardown(void **state)
{
    table_close(*state);
    mr_free(*state);
    return 0;
}

void keep_id(char *out, const char *id)
{
    snprintf(out, 64, "%s", id);
}

void table_close(struct table *t)
{
    mr_outcome_clear(&t->out);
    mr_core_free(t->core);
    while (t->count > 0) {
        table_delete(t, t->keys[0]);
    }
}

static void keep_first(void *ctx, const char *key, const char *line)
{
    char *first = ctx;

    if (first[0] == '\0') {
        snprintf(first, 256, "%s", line);
    }
}

const char *first_flaw(const mr_core *core)
{
    static char first[256];

    first[0] = '\0';
    mr_core_each_flaw(core, keep_first, first);
    return first[0] != '\0' ? first : NULL;
}

/* ---------------------------------------------------------------- steps */

static void count_client(void *ctx, const char *key)
{
    size_t *n = ctx;

    *n += strncmp(key, "clients/", 8) == 0 ? 1 : 0;
}

/* What the core says that the store has is what is there. A client that went several times is left
 * over several times. */
static void check_counts(const struct table *t)
{
    struct mr_core_counts counts;
    size_t clients = 0;
    size_t there =
        t->count + (table_get(t, "schema") == NULL ? 1 : 0); /* A loop would have written it. */

    mr_core_count(t->core, &counts);
    mr_core_each_left_over(t->core, count_client, &clients);
    if (counts.keys < there || counts.keys > there + (clients > 0 ? clients - 1 : 0)) {
        fail_msg("the core counts %zu keys, the store has %zu", counts.keys, there);
    }
}

void table_step(struct table *t, struct mr_command *command)
{
    mr_error err = {0};

    mr_outcome_clear(&t->out);
    command->now_ms = t->now;
    command->wall_ms = t->wall;
    command->token = 77;
    command->host = t->host;
    command->owner = t->owner;
    command->quota = t->quota;
    command->seed = 4711;
    command->full = command->full || t->full;
    command->grant_ms = t->grant_ms;
    if (mr_core_step(t->core, command, &t->out, &err) < 0 || mr_core_check(t->core, &err) < 0) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < t->out.nchanges; i++) {
        if (t->out.changes[i].value != NULL) {
            assert_int_equal(strlen(t->out.changes[i].value), t->out.changes[i].size);
            table_put(t, t->out.changes[i].key, t->out.changes[i].value);
        } else {
            table_delete(t, t->out.changes[i].key);
        }
    }
    if (command->kind != MR_COMMAND_STORE_PART) { /* Counted with the dataset that comes next. */
        check_counts(t);
    }
}

void table_wait(struct table *t, int64_t ms)
{
    int64_t until = t->now + ms;

    for (;;) {
        int64_t due = mr_core_next_timer(t->core);
        struct mr_command timer = {.kind = MR_COMMAND_TIMER};

        if (due > until) {
            break;
        }
        if (due > t->now) {
            t->wall += due - t->now;
            t->now = due;
        }
        table_step(t, &timer);
    }
    t->wall += until - t->now;
    t->now = until;
}

const struct mr_effect *the_reply(const struct table *t)
{
    const struct mr_effect *reply = NULL;

    for (size_t i = 0; i < t->out.neffects; i++) {
        if (t->out.effects[i].kind == MR_EFFECT_REPLY) {
            assert_null(reply); /* one command, one answer */
            reply = &t->out.effects[i];
        }
    }
    assert_non_null(reply);
    assert_int_equal(reply->token, 77);
    assert_non_null(reply->message);
    return reply;
}

const ProtobufCMessage *the_push(const struct table *t, enum mr_effect_kind kind, const char *topic)
{
    const ProtobufCMessage *push = NULL;

    for (size_t i = 0; i < t->out.neffects; i++) {
        if (t->out.effects[i].kind == kind && strcmp(t->out.effects[i].topic, topic) == 0) {
            push = t->out.effects[i].message;
        }
    }
    return push;
}

static int answer(struct table *t, struct mr_command *command)
{
    table_step(t, command);
    if (the_reply(t)->error.code < 0) { /* a denial never comes from memory */
        assert_true(the_reply(t)->fenced);
        assert_true(the_reply(t)->error.message[0] != '\0');
    }
    return the_reply(t)->error.code;
}

static char *text(const char *s)
{
    return s != NULL ? (char *)(uintptr_t)s : (char *)protobuf_c_empty_string;
}

static int put(struct table *t, const char *id, const char *fingerprint, const int64_t *list,
               size_t n, bool tolerant, int64_t cardinality)
{
    static const char *const sources[] = {"range (step 0)", "tfrecord (step 3)"};
    static const uint64_t split_elements[MR_CORE_PROVIDERS_MAX] = {1000};
    struct mr_part_store part = {.blob = id_of(fingerprint), .data = "definition", .size = 10};
    struct mr_dataset_register in = {
        .dataset_id = id,
        .fingerprint = fingerprint,
        .compression = "AUTO",
        .spec = "spec",
        .spec_size = 4,
        .cardinality = cardinality,
        .providers = list,
        .split_elements = split_elements,
        .nproviders = n,
        .sources = sources,
        .ignores_errors = tolerant,
        .summary = "range > batch",
        .definition_size =
            mr_core_has_definition(t->core, fingerprint) ? 12 : 10, /* in another form */
        .blob = "",
    };
    struct mr_command command = {.kind = MR_COMMAND_STORE_PART, .part = &part};

    if (!mr_core_has_definition(t->core, fingerprint)) {
        table_step(t, &command);
        in.blob = part.blob;
        in.parts = 1;
    }
    command = (struct mr_command){.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &in};
    return answer(t, &command);
}

int put_dataset(struct table *t, const char *id, const char *fingerprint, const int64_t *list,
                size_t n)
{
    return put(t, id, fingerprint, list, n, false, 100);
}

int put_tolerant_dataset(struct table *t, const char *id, const char *fingerprint,
                         const int64_t *list, size_t n)
{
    return put(t, id, fingerprint, list, n, true, 100);
}

int put_endless_dataset(struct table *t, const char *id, const char *fingerprint)
{
    static const int64_t endless[] = {-1};

    return put(t, id, fingerprint, endless, 1, false, -1);
}

int register_worker(struct table *t, const char *worker, const char *address)
{
    Millrace__RegisterWorkerRequest request = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_REGISTER_WORKER, .register_worker = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.address = (char *)(uintptr_t)address;
    return answer(t, &command);
}

int try_watch_worker(struct table *t, const char *worker)
{
    Millrace__WatchWorkerRequest request = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WATCH_WORKER, .watch_worker = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    return answer(t, &command);
}

int add_worker(struct table *t, const char *worker, const char *address)
{
    int code = register_worker(t, worker, address);

    return code == MR_OK ? try_watch_worker(t, worker) : code;
}

int beat_worker(struct table *t, const char *worker)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    return answer(t, &command);
}

int beat_with_progress(struct table *t, const char *worker, const Millrace__TaskProgress *progress)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &request};
    Millrace__TaskProgress *tasks[] = {(Millrace__TaskProgress *)(uintptr_t)progress};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.tasks = tasks;
    request.n_tasks = 1;
    return answer(t, &command);
}

int beat_with_join(struct table *t, const char *worker, const char *task, uint64_t first,
                   const char *refused)
{
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__JoinAnswer join = MILLRACE__JOIN_ANSWER__INIT;

    join.first = first;
    join.refused = text(refused);
    progress.task_id = text(task);
    progress.join = &join;
    return beat_with_progress(t, worker, &progress);
}

int open_job(struct table *t, struct open_args args)
{
    Millrace__OpenRequest request = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    struct mr_command command = {
        .kind = MR_COMMAND_OPEN, .open = &request, .attach_only = args.attach_only};

    spec.name = text(args.name);
    spec.target_workers = text(args.target);
    spec.mode = args.dynamic ? MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC
                             : MILLRACE__PROCESSING_MODE__PROCESSING_OFF;
    spec.guarantee = (Millrace__Guarantee)args.guarantee;
    spec.trainer = text(args.trainer);
    spec.sharing = (Millrace__Sharing)args.sharing;
    spec.lag = (Millrace__Lag)args.lag;
    spec.num_consumers = args.consumers;
    request.client = (char *)(uintptr_t)id_of(args.client);
    request.dataset_id = text(args.dataset);
    request.job = &spec;
    request.job_id = text(args.job_id);
    request.iteration_id = text(args.iteration_id);
    request.repetition = args.repetition;
    return answer(t, &command);
}

const Millrace__OpenReply *opened(const struct table *t)
{
    return (const Millrace__OpenReply *)the_reply(t)->message;
}

int beat_client(struct table *t, const char *client, const char *iteration, const char *unreachable)
{
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &request};
    char *list[1];

    request.client = (char *)(uintptr_t)id_of(client);
    request.iteration_id = text(iteration);
    if (unreachable != NULL) {
        list[0] = (char *)(uintptr_t)id_of(unreachable);
        request.unreachable = list;
        request.n_unreachable = 1;
    }
    return answer(t, &command);
}

const char *waits_for(struct table *t, const char *client, const char *iteration)
{
    static char said[256];
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &request};

    request.client = (char *)(uintptr_t)id_of(client);
    request.iteration_id = text(iteration);
    request.waits = true;
    assert_int_equal(answer(t, &command), MR_OK);
    snprintf(said, sizeof said, "%s",
             ((const Millrace__ClientHeartbeatReply *)the_reply(t)->message)->waits_for);
    return said;
}

int release_client(struct table *t, const char *client, const char *iteration)
{
    Millrace__ReleaseClientRequest request = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_RELEASE_CLIENT, .release_client = &request};

    request.client = (char *)(uintptr_t)id_of(client);
    request.iteration_id = text(iteration);
    return answer(t, &command);
}

#define REPORT_RANGES_MAX 128

/* A report that lives as long as its request. */
struct report {
    Millrace__SplitRange ranges[REPORT_RANGES_MAX];
    Millrace__SplitRange *pointers[REPORT_RANGES_MAX];
    Millrace__GrantReport message;
    Millrace__GrantReport *messages[1];
};

static void fill_report(struct report *r, const char *finished)
{
    millrace__grant_report__init(&r->message);
    r->messages[0] = &r->message;
    r->message.finished = r->pointers;
    for (size_t i = 0; finished[i] != '\0'; i++) {
        size_t n = r->message.n_finished;

        if (finished[i] != '1') {
            continue;
        }
        if (i > 0 && finished[i - 1] == '1') {
            r->ranges[n - 1].count++;
            continue;
        }
        assert_true(n < REPORT_RANGES_MAX);
        millrace__split_range__init(&r->ranges[n]);
        r->ranges[n].first = i + 1;
        r->ranges[n].count = 1;
        r->pointers[n] = &r->ranges[n];
        r->message.n_finished++;
    }
}

int beat_with_report(struct table *t, const char *worker, const char *task, const char *finished)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &request};
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__TaskProgress *list[] = {&progress};
    struct report report;

    fill_report(&report, finished);
    progress.task_id = text(task);
    progress.reports = report.messages;
    progress.n_reports = 1;
    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.tasks = list;
    request.n_tasks = 1;
    return answer(t, &command);
}

int leave(struct table *t, const char *worker)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.leaving = 1;
    return answer(t, &command);
}

int say_draining(struct table *t, const char *worker)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.draining = 1;
    return answer(t, &command);
}

int drain_worker(struct table *t, const char *name)
{
    Millrace__DrainWorkerRequest request = MILLRACE__DRAIN_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DRAIN_WORKER, .drain_worker = &request};

    request.worker = (char *)(uintptr_t)name;
    return answer(t, &command);
}

#define GIVEN_MAX 600

int give_back(struct table *t, const char *worker, const char *task, uint64_t seq,
              const struct given *ranges, size_t n)
{
    static Millrace__GivenBackRange list[GIVEN_MAX];
    static Millrace__GivenBackRange *pointers[GIVEN_MAX];
    Millrace__GetSplitsRequest request = MILLRACE__GET_SPLITS_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_SPLITS, .get_splits = &request};

    assert_true(n <= GIVEN_MAX);
    for (size_t i = 0; i < n; i++) {
        list[i] = (Millrace__GivenBackRange)MILLRACE__GIVEN_BACK_RANGE__INIT;
        list[i].repetition = ranges[i].repetition;
        list[i].first = ranges[i].first;
        list[i].count = ranges[i].count;
        pointers[i] = &list[i];
    }
    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = text(task);
    request.seq = seq;
    request.given_back = pointers;
    request.n_given_back = n;
    return answer(t, &command);
}

int end_drained(struct table *t, const char *worker, const char *task)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = text(task);
    request.drained = 1;
    return answer(t, &command);
}

void fall_silent(struct table *t, const char *client, const char *iteration,
                 const char *const *others)
{
    for (int i = 0; i < 62; i++) {
        table_wait(t, 1000);
        assert_int_equal(beat_client(t, client, iteration, NULL), MR_OK);
        for (const char *const *other = others; *other != NULL; other++) {
            assert_int_equal(beat_worker(t, *other), MR_OK);
        }
    }
}

static int ask(struct table *t, const char *worker, const char *task, uint64_t repetition,
               uint64_t seq, uint64_t want, Millrace__GrantReport *report)
{
    Millrace__GetSplitsRequest request = MILLRACE__GET_SPLITS_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_SPLITS, .get_splits = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = text(task);
    request.repetition = repetition;
    request.seq = seq;
    request.want = want;
    request.report = report;
    return answer(t, &command);
}

int get_splits(struct table *t, const char *worker, const char *task, uint64_t repetition,
               uint64_t seq, uint64_t want)
{
    return ask(t, worker, task, repetition, seq, want, NULL);
}

int get_splits_with_report(struct table *t, const char *worker, const char *task,
                           uint64_t repetition, uint64_t seq, uint64_t want, const char *finished)
{
    struct report report;

    fill_report(&report, finished);
    return ask(t, worker, task, repetition, seq, want, &report.message);
}

const Millrace__GetSplitsReply *splits(const struct table *t)
{
    return (const Millrace__GetSplitsReply *)the_reply(t)->message;
}

void expect_range(struct table *t, const char *worker, const char *task, uint64_t seq,
                  uint64_t want, uint64_t first, uint64_t count)
{
    assert_int_equal(get_splits(t, worker, task, 0, seq, want), MR_OK);
    assert_false(splits(t)->end);
    assert_int_equal(splits(t)->ranges[0]->first, first);
    assert_int_equal(splits(t)->ranges[0]->count, count);
}

void expect_end(struct table *t, const char *worker, const char *task, uint64_t seq)
{
    assert_int_equal(get_splits(t, worker, task, 0, seq, 0), MR_OK);
    assert_true(splits(t)->end);
}

int end_task(struct table *t, const char *worker, const char *task, int code, const char *message)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = text(task);
    request.code = code;
    request.message = text(message);
    return answer(t, &command);
}

const Millrace__ClientUpdate *watch_client(struct table *t, const char *client,
                                           const char *iteration)
{
    Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WATCH_CLIENT, .watch_client = &request};

    request.client = (char *)(uintptr_t)id_of(client);
    request.iteration_id = text(iteration);
    assert_int_equal(answer(t, &command), MR_OK);
    return (const Millrace__ClientUpdate *)the_reply(t)->message;
}

const Millrace__WorkerUpdate *watch_worker(struct table *t, const char *worker)
{
    assert_int_equal(try_watch_worker(t, worker), MR_OK);
    return (const Millrace__WorkerUpdate *)the_reply(t)->message;
}
