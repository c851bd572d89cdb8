/* Who leads: a dispatcher as it is shipped, over the fake store; and what is on its way to and from
 * it. */
#include "rounds_world.h"

#include "dispatcher.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"
#include "coord/fake/fake.h"
#include "coord/member.h"
#include "dispatcher/turn/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/millrace/rounds/"

struct queued_call {
    STAILQ_ENTRY(queued_call) link;
    int64_t due;
    enum call call;
    uint32_t who;
    size_t size;
    uint8_t bytes[];
};

struct leader {
    struct world *w;
    mr_fake *fake;
    mr_store *store;
    struct dispatcher *d; /* NULL: none is alive */
    int64_t back_at;      /* nobody is before */
    uint64_t lives;
    STAILQ_HEAD(, queued_call) calls;
    bool asked, registered; /* the dataset: this leader, and somebody has answered */
};

static uint64_t token_of(enum call call, uint32_t who)
{
    return ((uint64_t)call + 1) << 32 | who;
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

/* ---------------------------------------------------------------- what the leader says */

static bool is_of_worker(enum call call)
{
    return call >= CALL_REGISTER;
}

static struct worker *find_worker(const struct world *w, uint32_t who)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (w->workers[i] != NULL && worker_number(w->workers[i]) == who) {
            return w->workers[i];
        }
    }
    return NULL;
}

/* To whom it is for, if he lives. What does not come from a leader is nothing. */
static void hear(struct world *w, uint64_t token, const struct mr_method *method, const void *bytes,
                 size_t size)
{
    ProtobufCMessage *message = protobuf_c_message_unpack(method->reply, NULL, size, bytes);
    const Millrace__ReplyHeader *header = ((const Millrace__OpenReply *)message)->header;
    enum call call = (enum call)((token >> 32) - 1);
    uint32_t who = (uint32_t)token;
    struct worker *worker = is_of_worker(call) ? find_worker(w, who) : NULL;
    bool lives = is_of_worker(call) ? worker != NULL : w->consumers[who] != NULL;

    if (lives && !header->not_leader && (header->traits & MR_MAYBE_APPLIED) == 0) {
        struct letter *letter = letter_new(message);

        letter->code = header->code;
        snprintf(letter->text, sizeof letter->text, "%.190s",
                 header->code < 0 ? header->message : "");
        if (worker != NULL) {
            worker_hear(w, worker, call, letter);
        } else {
            consumer_hear(w, w->consumers[who], call, letter);
        }
    }
    protobuf_c_message_free_unpacked(message, NULL);
}

static void on_answer(void *ctx, uint64_t token, const struct mr_method *method,
                      const struct mr_buf *message)
{
    struct leader *l = ctx;

    if (token == 0) {
        Millrace__RegisterDatasetReply *reply =
            millrace__register_dataset_reply__unpack(NULL, message->len, message->data);

        l->registered = reply->header->code == 0; /* or the next leader is asked */
        millrace__register_dataset_reply__free_unpacked(reply, NULL);
    } else if (!chance(l->w, l->w->knobs.lose_call)) {
        hear(l->w, token, method, message->data, message->len);
    }
}

static void on_push(void *ctx, uint64_t token, const struct mr_method *method, const void *bytes,
                    size_t size)
{
    struct leader *l = ctx;

    hear(l->w, token, method, bytes, size);
}

static void on_finish(void *ctx, uint64_t token)
{
    struct leader *l = ctx;
    uint32_t who = (uint32_t)token;
    struct worker *worker = find_worker(l->w, who);

    if ((enum call)((token >> 32) - 1) == CALL_WATCH_CLIENT && l->w->consumers[who] != NULL) {
        consumer_cut(l->w->consumers[who]);
    } else if ((enum call)((token >> 32) - 1) == CALL_WATCH_WORKER && worker != NULL) {
        worker_cut(worker);
    }
}

static struct mr_definition *on_define(void *ctx, const Millrace__RegisterDatasetRequest *request)
{
    struct mr_definition *d = mr_calloc(1, sizeof *d);

    (void)ctx;
    (void)request;
    MR_ASSERT(d != NULL);
    snprintf(d->fingerprint, sizeof d->fingerprint, "0123456789abcdef0123456789abcdef");
    snprintf(d->summary, sizeof d->summary, "range");
    d->spec = mr_strdup("spec");
    d->spec_size = 4;
    d->cardinality = 100;
    return d;
}

static void on_trace(void *ctx, const char *line)
{
    const struct leader *l = ctx;

    if (l->w->knobs.show) {
        printf("[%6lld] %s\n", (long long)l->w->now, line);
    }
}

/* An Open is committed: from this moment on the place is somebody else's, whether or not the answer
 * arrives. */
static void on_applied(void *ctx, const struct mr_txn *txn, bool succeeded, int64_t revision)
{
    const struct leader *l = ctx;
    const char *prefix = ROOT "consumers/";

    (void)revision;
    for (size_t i = 0; succeeded && i < txn->nsuccess; i++) {
        const struct mr_op *op = &txn->success[i];
        uint32_t process = UINT32_MAX;

        if (op->kind != MR_OP_PUT || op->key.size < strlen(prefix) ||
            memcmp(op->key.data, prefix, strlen(prefix)) != 0) {
            continue;
        }
        char *key = mr_strndup(op->key.data, op->key.size);
        char *value = mr_strndup(op->value.data, op->value.size);

        for (uint32_t k = 0; k < l->w->nconsumers; k++) {
            if (strstr(value, consumer_id(k)) != NULL) {
                process = k;
            }
        }
        judge_placed(l->w->judge, (uint32_t)atoi(strrchr(key, '/') + 1), process);
        mr_free(key);
        mr_free(value);
    }
}

/* ---------------------------------------------------------------- a life of it */

static void start(struct leader *l)
{
    static const struct dispatcher_ops ops = {.answer = on_answer,
                                              .push = on_push,
                                              .finish = on_finish,
                                              .define = on_define,
                                              .trace = on_trace};
    char instance[33];
    struct mr_turn_options o = {.cluster = "rounds",
                                .address = "d:1",
                                .socket = "d:1",
                                .instance = instance,
                                .secret = "00112233445566778899aabbccddeeff",
                                .seed = ++l->lives,
                                .started_ms = (uint64_t)l->w->now,
                                .etcd_write_budget = INT64_C(1) << 40,
                                .lease_ttl_ms = 1000,
                                .heartbeat_ms = 200,
                                .worker_timeout_ms = 2000,
                                .client_timeout_ms = 6000,
                                .job_gc_timeout_ms = 100000};
    int rc = mr_fake_connect(l->fake, &l->store, NULL);

    MR_ASSERT(rc == MR_OK);
    snprintf(instance, sizeof instance, "%032llx", (unsigned long long)l->lives);
    l->d = dispatcher_new(&o, l->store, &ops, l, l->w->now);
    l->asked = false;
}

static void register_dataset(struct leader *l)
{
    Millrace__RegisterDatasetRequest request = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    uint8_t bytes[128];

    request.dataset_id = (char *)(uintptr_t) "d";
    request.compression = (char *)(uintptr_t) "AUTO";
    request.definition =
        (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "definition", .len = 10};
    (void)dispatcher_call(l->d, MR_COMMAND_REGISTER_DATASET, bytes,
                          millrace__register_dataset_request__pack(&request, bytes), 0, l->w->now);
    l->asked = true;
}

/* The store is slow, the more so if that is to show. */
static void turn(struct leader *l, int64_t now)
{
    uint64_t most = l->w->bug == BUG_TOLD_EARLY ? 900 : 20;

    mr_fake_script(l->store, MR_FAKE_TXN, MR_FAKE_DELAYED,
                   1 + (int64_t)mr_rng_below(&l->w->rng, most));
    dispatcher_turn(l->d, now, (uint64_t)(INT64_C(1700000000000) + now));
}

/* All that is due up to now. */
static void run(struct leader *l)
{
    int64_t now = l->w->now;

    for (;;) {
        int64_t at = mr_fake_next_ms(l->fake);
        int64_t due = l->d != NULL ? dispatcher_due(l->d, mr_fake_now_ms(l->fake)) : INT64_MAX;

        if (due <= at && due <= now) {
            (void)mr_fake_step(l->fake, due);
            turn(l, due);
        } else if (at <= now) {
            (void)mr_fake_step(l->fake, at);
        } else {
            break;
        }
    }
    (void)mr_fake_step(l->fake, now);
}

/* ---------------------------------------------------------------- calls */

static const enum mr_command_kind kinds[] = {
    [CALL_OPEN] = MR_COMMAND_OPEN,
    [CALL_BEAT_CLIENT] = MR_COMMAND_CLIENT_HEARTBEAT,
    [CALL_WATCH_CLIENT] = MR_COMMAND_WATCH_CLIENT,
    [CALL_RELEASE] = MR_COMMAND_RELEASE_CLIENT,
    [CALL_REGISTER] = MR_COMMAND_REGISTER_WORKER,
    [CALL_BEAT_WORKER] = MR_COMMAND_WORKER_HEARTBEAT,
    [CALL_WATCH_WORKER] = MR_COMMAND_WATCH_WORKER,
    [CALL_ENDED] = MR_COMMAND_TASK_ENDED,
};

static void deliver(struct leader *l, const struct queued_call *q)
{
    uint64_t token = token_of(q->call, q->who);

    if (q->call == CALL_WATCH_CLIENT || q->call == CALL_WATCH_WORKER) {
        dispatcher_end_stream(l->d, token); /* of before */
    }
    bool known = dispatcher_call(l->d, kinds[q->call], q->bytes, q->size, token, l->w->now);

    MR_ASSERT(known);
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
    const struct leader *l = w->leader;

    return l->d != NULL && mr_turn_serves(dispatcher_machine(l->d));
}

/* ---------------------------------------------------------------- what is stored */

struct search {
    const struct leader *l;
    const char *worker; /* that is lost; NULL: look for one */
    bool found;
};

static char *text_of(struct mr_bytes b)
{
    return mr_strndup(b.data, b.size);
}

static void look_at_rounds(void *ctx, const struct mr_kv *kv)
{
    struct search *s = ctx;
    char *value = text_of(kv->value);

    s->found = s->found || (strstr(value, s->worker) != NULL && strstr(value, "outcomes") == NULL);
    mr_free(value);
}

static void look_at_worker(void *ctx, const struct mr_kv *kv)
{
    struct search *s = ctx;
    char *key = text_of(kv->key), *value = text_of(kv->value);

    if (strstr(value, "\"lost\"") != NULL) {
        struct search rounds = {.worker = strrchr(key, '/') + 1};

        mr_fake_each(s->l->fake, ROOT "rounds/", look_at_rounds, &rounds);
        s->found = s->found || rounds.found;
    }
    mr_free(key);
    mr_free(value);
}

/* Somebody who takes turns is lost, as far as the store knows. */
bool leader_is_closing(const struct world *w)
{
    struct search s = {.l = w->leader};

    mr_fake_each(w->leader->fake, ROOT "workers/", look_at_worker, &s);
    return s.found;
}

static void show(void *ctx, const struct mr_kv *kv)
{
    (void)ctx;
    printf("  %.*s %.*s\n", (int)kv->key.size, (const char *)kv->key.data, (int)kv->value.size,
           (const char *)kv->value.data);
}

void leader_show(const struct world *w)
{
    mr_fake_each(w->leader->fake, ROOT, show, NULL);
}

/* ---------------------------------------------------------------- time */

/* What is not committed is lost, or was applied and nobody heard of it. */
static void fail_over(struct world *w)
{
    struct leader *l = w->leader;
    const mr_member *m = dispatcher_machine(l->d)->member;

    w->rare[RARE_FAILOVER]++;
    w->rare[RARE_CLOSING_FAILOVER] += leader_is_closing(w) ? 1 : 0;
    w->rare[RARE_UNKNOWN_COMMIT] += mr_member_newest(m) > mr_member_committed(m) ? 1 : 0;
    dispatcher_kill(l->d);
    l->d = NULL;
    l->back_at = w->now + (int64_t)mr_rng_below(&w->rng, 500);
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

    dispatchers_answer_early(w->bug == BUG_TOLD_EARLY);
    dispatchers_trust(true);
    if (l->d == NULL && w->now >= l->back_at) {
        start(l);
    }
    for (q = STAILQ_FIRST(&l->calls); q != NULL; q = next) {
        next = STAILQ_NEXT(q, link);
        if (q->due > w->now) {
            continue;
        }
        STAILQ_REMOVE(&l->calls, q, queued_call, link);
        if (leader_is_there(w)) {
            deliver(l, q);
        }
        free(q);
    }
    run(l);
    if (leader_is_there(w) && !l->registered && !l->asked) {
        register_dataset(l);
    }
    if (leader_is_there(w) && chance(w, w->knobs.fail_over)) {
        fail_over(w);
    }
    dispatchers_answer_early(false);
    dispatchers_trust(false);
}

struct leader *leader_new(struct world *w)
{
    struct leader *l = calloc(1, sizeof *l);
    int rc = mr_fake_new(1, &l->fake, NULL);

    MR_ASSERT(rc == MR_OK);
    mr_log_init(MR_LOG_OFF, MR_LOG_TEXT, "sim");
    (void)mr_fake_step(l->fake, w->now);
    mr_fake_observe(l->fake, on_applied, l);
    l->w = w;
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
    dispatcher_kill(l->d);
    mr_fake_free(l->fake);
    free(l);
}
