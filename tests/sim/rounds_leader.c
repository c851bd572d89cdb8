/* The store, the core of whoever leads, and what is on its way from there. */
#include "rounds_world.h"

#include <inttypes.h>
#include <millrace/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 4096
#define PENDING_MAX 256

/* A step's outcome that waits for its commit. */
struct pending {
    struct mr_outcome out;
};

struct queued_call {
    STAILQ_ENTRY(queued_call) link;
    int64_t due;
    enum call call;
    uint32_t who;
    size_t size;
    uint8_t bytes[];
};

struct leader {
    mr_core *core;
    uint64_t epoch;
    int64_t back_at; /* nobody leads before */
    int64_t commit_at;
    char *keys[KEYS_MAX];
    char *values[KEYS_MAX];
    size_t nkeys;
    struct pending pending[PENDING_MAX];
    size_t npending;
    STAILQ_HEAD(, queued_call) calls;
    bool watching_worker[10000];
    bool watching_consumer[PROCESSES_MAX];
    bool registered; /* the dataset */
};

/* ---------------------------------------------------------------- the store */

static void store_put(struct leader *l, const char *key, const char *value)
{
    size_t i = 0;

    while (i < l->nkeys && strcmp(l->keys[i], key) != 0) {
        i++;
    }
    if (value == NULL) {
        if (i < l->nkeys) {
            free(l->keys[i]);
            free(l->values[i]);
            l->keys[i] = l->keys[--l->nkeys];
            l->values[i] = l->values[l->nkeys];
        }
        return;
    }
    if (i == l->nkeys) {
        l->keys[l->nkeys++] = strdup(key);
        l->values[i] = NULL;
    }
    free(l->values[i]);
    l->values[i] = strdup(value);
}

static void apply(struct leader *l, const struct mr_outcome *out)
{
    for (size_t i = 0; i < out->nchanges; i++) {
        const struct mr_change *change = &out->changes[i];
        char *value = NULL;

        if (change->value != NULL) {
            value = strndup(change->value, change->size);
        }
        store_put(l, change->key, value);
        free(value);
    }
}

static void trace(void *ctx, const char *line)
{
    const struct world *w = ctx;

    printf("[%6lld] %s\n", (long long)w->now, line);
}

static void load(struct world *w)
{
    struct leader *l = w->leader;
    struct mr_core_config config = {
        .epoch = l->epoch,
        .worker_timeout_ms = 2000,
        .client_timeout_ms = 6000,
        .job_gc_timeout_ms = 100000,
        .takeover_grace_ms = 1500,
        .heartbeat_ms = 200,
        .trace = w->knobs.show ? trace : NULL,
        .trace_ctx = w,
    };
    mr_error err;

    l->core = mr_core_new(&config);
    for (size_t i = 0; i < l->nkeys; i++) {
        int rc;

        if (strncmp(l->keys[i], "blobs/", 6) == 0) {
            rc = mr_core_load_blob(l->core, l->keys[i], &err);
        } else {
            rc = mr_core_load(l->core, l->keys[i], l->values[i], strlen(l->values[i]), &err);
        }
        if (rc < 0) {
            snprintf(w->failure, sizeof w->failure, "loading %.100s: %s", l->keys[i], err.message);
        }
    }
    if (mr_core_ready(l->core, w->now, &err) < 0) {
        snprintf(w->failure, sizeof w->failure, "loading: %s", err.message);
    }
}

/* ---------------------------------------------------------------- letters */

struct letter *letter_new(const ProtobufCMessage *message)
{
    size_t size = message != NULL ? protobuf_c_message_get_packed_size(message) : 0;
    struct letter *letter = calloc(1, sizeof *letter + size + 1);

    letter->size = size;
    if (message != NULL) {
        protobuf_c_message_pack(message, letter->bytes);
    }
    return letter;
}

void letters_clear(struct letters *list)
{
    struct letter *letter;

    while ((letter = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        free(letter);
    }
}

struct letter *letters_take(struct letters *list, int64_t now)
{
    struct letter *letter = STAILQ_FIRST(list);

    if (letter == NULL || letter->due > now) {
        return NULL;
    }
    STAILQ_REMOVE_HEAD(list, link);
    return letter;
}

/* ---------------------------------------------------------------- effects */

static bool is_of_worker(enum call call)
{
    return call >= CALL_REGISTER;
}

static void hear(struct world *w, enum call call, uint32_t who, const struct mr_effect *effect)
{
    struct letter *letter = letter_new(effect->message);

    letter->code = effect->error.code;
    snprintf(letter->text, sizeof letter->text, "%.190s",
             effect->error.code < 0 ? effect->error.message : "");
    if (is_of_worker(call)) {
        for (size_t i = 0; i < WORKERS_MAX; i++) {
            if (w->workers[i] != NULL && worker_number(w->workers[i]) == who) {
                worker_hear(w, w->workers[i], call, letter);
                return;
            }
        }
    } else if (w->consumers[who] != NULL) {
        consumer_hear(w, w->consumers[who], call, letter);
        return;
    }
    free(letter);
}

static void take_effect(struct world *w, const struct mr_effect *effect)
{
    struct leader *l = w->leader;
    enum call call = (enum call)(effect->token >> 32);
    uint32_t who = (uint32_t)effect->token;

    switch (effect->kind) {
    case MR_EFFECT_REPLY:
        if (effect->token == 0) {
            break;
        }
        call = (enum call)((int)call - 1);
        if (call == CALL_WATCH_CLIENT) {
            l->watching_consumer[who] = effect->error.code == MR_OK;
        } else if (call == CALL_WATCH_WORKER) {
            l->watching_worker[who] = effect->error.code == MR_OK;
        } else if (chance(w, w->knobs.lose_call)) {
            break;
        }
        hear(w, call, who, effect);
        break;
    case MR_EFFECT_PUSH_ITERATION:
        for (uint32_t i = 0; i < w->nconsumers; i++) {
            if (l->watching_consumer[i]) {
                hear(w, CALL_WATCH_CLIENT, i, effect);
            }
        }
        break;
    case MR_EFFECT_PUSH_WORKER:
        for (uint32_t i = 0; i < w->nworkers; i++) {
            if (l->watching_worker[i] && strcmp(worker_id(i), effect->topic) == 0) {
                hear(w, CALL_WATCH_WORKER, i, effect);
            }
        }
        break;
    case MR_EFFECT_END_CLIENT:
        for (uint32_t i = 0; i < w->nconsumers; i++) {
            if (l->watching_consumer[i] && strcmp(consumer_id(i), effect->topic) == 0) {
                l->watching_consumer[i] = false;
                if (w->consumers[i] != NULL) {
                    consumer_cut(w->consumers[i]);
                }
            }
        }
        break;
    case MR_EFFECT_END_WORKER:
    case MR_EFFECT_RESIGN:
        break;
    }
}

/* An Open is committed: from this moment on the place is somebody else's, whether or not the answer
 * arrives. */
static void note_places(struct world *w, const struct mr_outcome *out)
{
    for (size_t i = 0; i < out->nchanges; i++) {
        const char *key = out->changes[i].key;
        const char *slash = strrchr(key, '/');

        if (strncmp(key, "consumers/", 10) != 0 || out->changes[i].value == NULL) {
            continue;
        }
        uint32_t seat = (uint32_t)atoi(slash + 1), process = UINT32_MAX;

        for (uint32_t k = 0; k < w->nconsumers; k++) {
            if (strstr(out->changes[i].value, consumer_id(k)) != NULL) {
                process = k;
            }
        }
        judge_placed(w->judge, seat, process);
    }
}

static void commit(struct world *w, bool tell)
{
    struct leader *l = w->leader;

    for (size_t i = 0; i < l->npending; i++) {
        struct mr_outcome *out = &l->pending[i].out;

        apply(l, out);
        note_places(w, out);
        for (size_t k = 0; tell && w->bug != BUG_TOLD_EARLY && k < out->neffects; k++) {
            take_effect(w, &out->effects[k]);
        }
        mr_outcome_clear(out);
    }
    l->npending = 0;
}

/* ---------------------------------------------------------------- steps */

static void step(struct world *w, struct mr_command *command)
{
    struct leader *l = w->leader;
    mr_error err;

    if (l->npending == PENDING_MAX) {
        commit(w, true);
    }
    command->now_ms = w->now;
    command->wall_ms = INT64_C(1700000000000) + w->now;
    command->seed = 7;
    struct mr_outcome *out = &l->pending[l->npending++].out;

    memset(out, 0, sizeof *out);
    if (mr_core_step(l->core, command, out, &err) < 0) {
        snprintf(w->failure, sizeof w->failure, "step: %s", err.message);
    } else if (mr_core_check(l->core, &err) < 0) {
        snprintf(w->failure, sizeof w->failure, "invariant: %s", err.message);
    }
    for (size_t k = 0; w->bug == BUG_TOLD_EARLY && k < out->neffects; k++) {
        take_effect(w, &out->effects[k]);
    }
}

static void register_dataset(struct world *w)
{
    static const char blob[] = "0123456789abcdef0123456789abcdef";
    struct mr_part_store part = {.blob = blob, .data = "definition", .size = 10};
    struct mr_dataset_register in = {
        .dataset_id = "d",
        .fingerprint = blob,
        .compression = "AUTO",
        .spec = "spec",
        .spec_size = 4,
        .cardinality = 100,
        .summary = "range",
        .definition_size = 10,
        .blob = blob,
        .parts = 1,
    };
    struct mr_command command = {.kind = MR_COMMAND_STORE_PART, .part = &part};

    step(w, &command);
    command = (struct mr_command){.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &in};
    step(w, &command);
    commit(w, false);
}

static const struct {
    const ProtobufCMessageDescriptor *desc;
    enum mr_command_kind kind;
} calls[] = {
    [CALL_OPEN] = {&millrace__open_request__descriptor, MR_COMMAND_OPEN},
    [CALL_BEAT_CLIENT] = {&millrace__client_heartbeat_request__descriptor,
                          MR_COMMAND_CLIENT_HEARTBEAT},
    [CALL_WATCH_CLIENT] = {&millrace__watch_client_request__descriptor, MR_COMMAND_WATCH_CLIENT},
    [CALL_RELEASE] = {&millrace__release_client_request__descriptor, MR_COMMAND_RELEASE_CLIENT},
    [CALL_REGISTER] = {&millrace__register_worker_request__descriptor, MR_COMMAND_REGISTER_WORKER},
    [CALL_BEAT_WORKER] = {&millrace__worker_heartbeat_request__descriptor,
                          MR_COMMAND_WORKER_HEARTBEAT},
    [CALL_WATCH_WORKER] = {&millrace__watch_worker_request__descriptor, MR_COMMAND_WATCH_WORKER},
    [CALL_ENDED] = {&millrace__task_ended_request__descriptor, MR_COMMAND_TASK_ENDED},
};

static void deliver(struct world *w, const struct queued_call *call)
{
    ProtobufCMessage *message =
        protobuf_c_message_unpack(calls[call->call].desc, NULL, call->size, call->bytes);
    struct mr_command command = {.kind = calls[call->call].kind};

    command.token = ((uint64_t)call->call + 1) << 32 | call->who;
    command.open = (const void *)message; /* the same place for every kind of request */
    step(w, &command);
    protobuf_c_message_free_unpacked(message, NULL);
}

void leader_call(struct world *w, enum call call, uint32_t who, const ProtobufCMessage *request)
{
    struct leader *l = w->leader;
    int copies = chance(w, w->knobs.lose_call) ? 0 : chance(w, w->knobs.repeat_call) ? 2 : 1;

    for (int i = 0; i < copies; i++) {
        size_t size = protobuf_c_message_get_packed_size(request);
        struct queued_call *q = calloc(1, sizeof *q + size + 1);

        protobuf_c_message_pack(request, q->bytes);
        q->size = size;
        q->call = call;
        q->who = who;
        q->due = w->now + (int64_t)mr_rng_below(&w->rng, i > 0 && w->faults ? 3000 : 10);
        STAILQ_INSERT_TAIL(&l->calls, q, link);
    }
}

bool leader_is_there(const struct world *w)
{
    return w->leader->core != NULL;
}

/* Somebody who takes turns is lost, as far as the store knows. */
bool leader_is_closing(const struct world *w)
{
    const struct leader *l = w->leader;

    for (size_t i = 0; i < l->nkeys; i++) {
        const char *lost =
            strncmp(l->keys[i], "workers/", 8) == 0 ? strstr(l->values[i], "\"lost\"") : NULL;

        for (size_t k = 0; lost != NULL && k < l->nkeys; k++) {
            if (strncmp(l->keys[k], "rounds/", 7) == 0 &&
                strstr(l->values[k], l->keys[i] + 8) != NULL &&
                strstr(l->values[k], "outcomes") == NULL) {
                return true;
            }
        }
    }
    return false;
}

/* What is not committed is lost, or was applied and nobody heard of it. */
static void fail_over(struct world *w)
{
    struct leader *l = w->leader;

    w->rare[RARE_FAILOVER]++;
    w->rare[RARE_CLOSING_FAILOVER] += leader_is_closing(w) ? 1 : 0;
    if (l->npending > 0 && half(w)) {
        w->rare[RARE_UNKNOWN_COMMIT]++;
        commit(w, false);
    }
    for (size_t i = 0; i < l->npending; i++) {
        mr_outcome_clear(&l->pending[i].out);
    }
    l->npending = 0;
    mr_core_free(l->core);
    l->core = NULL;
    l->epoch += 10;
    l->back_at = w->now + (int64_t)mr_rng_below(&w->rng, 500);
    memset(l->watching_worker, 0, sizeof l->watching_worker);
    memset(l->watching_consumer, 0, sizeof l->watching_consumer);
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (w->workers[i] != NULL) {
            worker_cut(w->workers[i]);
        }
    }
    for (uint32_t i = 0; i < w->nconsumers; i++) {
        if (w->consumers[i] != NULL) {
            consumer_cut(w->consumers[i]);
        }
    }
}

void leader_tick(struct world *w)
{
    struct leader *l = w->leader;
    struct queued_call *q, *next;

    if (l->core == NULL && w->now >= l->back_at) {
        load(w);
        if (!l->registered) {
            l->registered = true;
            register_dataset(w);
        }
    }
    for (q = STAILQ_FIRST(&l->calls); q != NULL; q = next) {
        next = STAILQ_NEXT(q, link);
        if (q->due > w->now) {
            continue;
        }
        STAILQ_REMOVE(&l->calls, q, queued_call, link);
        if (l->core != NULL) {
            deliver(w, q);
        }
        free(q);
    }
    if (l->core != NULL && chance(w, w->knobs.fail_over)) {
        fail_over(w);
    }
    if (l->core == NULL) {
        return;
    }
    while (mr_core_next_timer(l->core) <= w->now && w->failure[0] == '\0') {
        struct mr_command command = {.kind = MR_COMMAND_TIMER};

        step(w, &command);
    }
    if (w->now >= l->commit_at) {
        commit(w, true);
        l->commit_at =
            w->now + (int64_t)mr_rng_below(&w->rng, w->bug == BUG_TOLD_EARLY ? 2000 : 20);
    }
}

struct leader *leader_new(struct world *w)
{
    struct leader *l = calloc(1, sizeof *l);

    l->epoch = 5;
    STAILQ_INIT(&l->calls);
    return l;
}

void leader_free(struct leader *l)
{
    struct queued_call *q;

    while ((q = STAILQ_FIRST(&l->calls)) != NULL) {
        STAILQ_REMOVE_HEAD(&l->calls, link);
        free(q);
    }
    for (size_t i = 0; i < l->npending; i++) {
        mr_outcome_clear(&l->pending[i].out);
    }
    for (size_t i = 0; i < l->nkeys; i++) {
        free(l->keys[i]);
        free(l->values[i]);
    }
    mr_core_free(l->core);
    free(l);
}

void leader_show(const struct world *w)
{
    const struct leader *l = w->leader;

    for (size_t i = 0; i < l->nkeys; i++) {
        if (strncmp(l->keys[i], "datasets/", 9) != 0 && strncmp(l->keys[i], "clients/", 8) != 0) {
            printf("  %s %s\n", l->keys[i], l->values[i]);
        }
    }
}
