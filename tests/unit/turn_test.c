/* The dispatcher's turn machine over the store in memory, on virtual time: nothing is answered
 * before what it rests on is committed, what is committed is all of it, and who is refused is told
 * why. */
#include "dispatcher.h"
#include "dispatcher/turn/internal.h"

#include "base/identity.h"
#include "base/log.h"
#include "coord/fake/fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define CLUSTER "t"
#define ROOT "/millrace/" CLUSTER "/"
#define TTL_MS 10000
#define RETENTION_MS 60000
#define WORKERS 64
#define HEARTBEAT_MS 1000
#define LATE_MS 400 /* an answer of the store that lets wait */

/* What a caller has got. */
struct answer {
    bool given;
    bool watch;
    bool over; /* a watch */
    int code;
    uint32_t traits;
    char message[MR_ERROR_MESSAGE_SIZE];
};

struct fixture {
    mr_fake *fake;
    mr_store *store;
    mr_store *other; /* somebody else's */
    int64_t worker_timeout_ms;
    struct dispatcher *d;
    mr_turn *t;
};

/* ---- the surroundings ---- */

/* What @a is told first, of a watch: the state that there is. */
static void tell(struct answer *a, const struct mr_method *method, const void *bytes, size_t size)
{
    ProtobufCMessage *m = protobuf_c_message_unpack(method->reply, NULL, size, bytes);

    assert_non_null(m);
    const Millrace__ReplyHeader *header =
        ((const Millrace__RegisterWorkerReply *)m)->header; /* all have it there */

    a->given = true;
    a->code = header->code;
    a->traits = header->traits;
    (void)snprintf(a->message, sizeof a->message, "%s", header->message);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void on_answer(void *ctx, uint64_t token, const struct mr_method *method,
                      const struct mr_buf *message)
{
    struct answer *a = (struct answer *)(uintptr_t)token;

    assert_false(a->given);
    tell(a, method, message->data, message->len);
}

static void on_push(void *ctx, uint64_t token, const struct mr_method *method, const void *bytes,
                    size_t size)
{
    struct answer *a = (struct answer *)(uintptr_t)token;

    if (a->watch && !a->given) {
        tell(a, method, bytes, size);
    }
}

static void on_finish(void *ctx, uint64_t token)
{
    struct answer *a = (struct answer *)(uintptr_t)token;

    a->over = a->over || a->watch;
}

static struct mr_definition *on_define(void *ctx, const Millrace__RegisterDatasetRequest *request)
{
    struct mr_definition *d = mr_calloc(1, sizeof *d);

    (void)snprintf(d->fingerprint, sizeof d->fingerprint, "%032x", 1);
    d->spec = mr_strdup("s");
    d->spec_size = 1;
    return d;
}

static void turn(struct fixture *f)
{
    dispatcher_turn(f->d, mr_fake_now_ms(f->fake), 1);
}

static void run_ms(struct fixture *f, int64_t ms)
{
    int64_t until = mr_fake_now_ms(f->fake) + ms;

    while (mr_fake_now_ms(f->fake) < until) {
        (void)mr_fake_step(f->fake, mr_fake_now_ms(f->fake) + 1);
        turn(f);
    }
}

/* A dispatcher begins. */
static void begin_as(struct fixture *f, const char *address, const char *instance)
{
    static const struct dispatcher_ops ops = {
        .answer = on_answer, .push = on_push, .finish = on_finish, .define = on_define};
    struct mr_turn_options o = {.cluster = CLUSTER,
                                .address = address,
                                .socket = address,
                                .instance = instance,
                                .secret = "00112233445566778899aabbccddeeff",
                                .seed = 1,
                                .started_ms = 1,
                                .etcd_write_budget = 1 << 20,
                                .lease_ttl_ms = TTL_MS,
                                .heartbeat_ms = HEARTBEAT_MS,
                                .worker_timeout_ms = f->worker_timeout_ms,
                                .client_timeout_ms = 3600 * 1000,
                                .worker_retention_ms = RETENTION_MS};

    assert_int_equal(mr_fake_connect(f->fake, &f->store, NULL), MR_OK);
    f->d = dispatcher_new(&o, f->store, &ops, f, mr_fake_now_ms(f->fake));
    f->t = dispatcher_machine(f->d);
}

/* And leads. */
static void begin(struct fixture *f)
{
    begin_as(f, "d:1", "00000000000000000000000000000001");
    for (int i = 0; i < 60000 && !f->t->serving; i++) {
        run_ms(f, 1);
    }
    assert_true(f->t->serving);
    run_ms(f, 100); /* and the schema is written */
    assert_int_equal(mr_member_newest(f->t->member), mr_member_committed(f->t->member));
}

static int setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    *state = f;
    assert_int_equal(mr_fake_new(1, &f->fake, NULL), MR_OK);
    assert_int_equal(mr_fake_connect(f->fake, &f->other, NULL), MR_OK);
    f->worker_timeout_ms = 3600 * 1000;
    begin(f);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->other->ops->close(f->other);
    dispatcher_kill(f->d);
    mr_fake_free(f->fake);
    mr_free(f);
    return 0;
}

/* ---- calls ---- */

static void call(struct fixture *f, enum mr_command_kind kind, const ProtobufCMessage *request,
                 struct answer *ret)
{
    unsigned char bytes[512];
    size_t size = protobuf_c_message_pack(request, bytes);

    *ret = (struct answer){.watch =
                               kind == MR_COMMAND_WATCH_WORKER || kind == MR_COMMAND_WATCH_CLIENT};
    assert_true(dispatcher_call(f->d, kind, bytes, size, (uintptr_t)ret, mr_fake_now_ms(f->fake)));
    turn(f);
}

/* Worker @n. */
static struct mr_identity *identity(int n)
{
    static struct mr_identity all[WORKERS];

    assert_true(n < WORKERS);
    if (all[n].id[0] == '\0') {
        mr_identity_draw(&all[n]);
    }
    return &all[n];
}

static char *worker(int n)
{
    return identity(n)->id;
}

/* Its calls begin with this. */
static Millrace__RequestHeader said_by(int n)
{
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;

    header.key = (ProtobufCBinaryData){.data = identity(n)->key, .len = sizeof identity(n)->key};
    return header;
}

static void register_at(struct fixture *f, const char *cluster, int n, char *address,
                        struct answer *ret)
{
    Millrace__RegisterWorkerRequest r = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    Millrace__RequestHeader header = said_by(n);

    header.cluster = (char *)(uintptr_t)cluster;
    r.header = &header;
    r.incarnation = worker(n);
    r.address = address;
    call(f, MR_COMMAND_REGISTER_WORKER, &r.base, ret);
}

static void watch_as(struct fixture *f, int n, struct answer *ret)
{
    Millrace__WatchWorkerRequest r = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    Millrace__RequestHeader header = said_by(n);

    r.header = &header;
    r.incarnation = worker(n);
    call(f, MR_COMMAND_WATCH_WORKER, &r.base, ret);
}

/* It registers and watches: @ret is about that. */
static void add_worker_at(struct fixture *f, int n, char *address, struct answer *ret)
{
    static struct answer registered[WORKERS];

    register_at(f, CLUSTER, n, address, &registered[n]);
    watch_as(f, n, ret);
}

static void add_worker(struct fixture *f, int n, struct answer *ret)
{
    char address[16];

    (void)snprintf(address, sizeof address, "w:%d", n);
    add_worker_at(f, n, address, ret);
}

static void beat(struct fixture *f, int n, bool leaving, struct answer *ret)
{
    Millrace__WorkerHeartbeatRequest r = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    Millrace__RequestHeader header = said_by(n);

    r.header = &header;
    r.incarnation = worker(n);
    r.leaving = leaving;
    call(f, MR_COMMAND_WORKER_HEARTBEAT, &r.base, ret);
}

/* A life is named by the stamp of its registration: any leader's, of its first commands. */
static bool is_stored(struct fixture *f, int n)
{
    bool stored = false;
    char key[128];

    for (int64_t epoch = 1; epoch <= mr_fake_revision(f->fake); epoch++) {
        for (int counter = 1; counter <= 32; counter++) {
            (void)snprintf(key, sizeof key, ROOT "workers/%s.%lld.%d", worker(n), (long long)epoch,
                           counter);
            stored = stored || mr_fake_get(f->fake, key).value.data != NULL;
        }
    }
    return stored;
}

static void let_the_store_wait(struct fixture *f)
{
    mr_fake_script(f->store, MR_FAKE_TXN, MR_FAKE_DELAYED, LATE_MS);
}

static void expect(struct fixture *f, const struct answer *a, int code)
{
    for (int ms = 0; ms < 10 * LATE_MS && !a->given; ms++) {
        run_ms(f, 1);
    }
    assert_true(a->given);
    assert_int_equal(a->code, code);
}

/* Until @a is given; it has to be, and not before @ms have passed. */
static void expect_after(struct fixture *f, const struct answer *a, int64_t ms, int code)
{
    int64_t from = mr_fake_now_ms(f->fake);

    assert_false(a->given);
    expect(f, a, code);
    assert_true(mr_fake_now_ms(f->fake) - from >= ms);
}

/* ---- cases ---- */

static void a_change_is_answered_when_it_is_committed(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    let_the_store_wait(f);
    add_worker(f, 1, &a);
    assert_false(is_stored(f, 1));
    expect_after(f, &a, LATE_MS, MR_OK);
    assert_true(is_stored(f, 1));
}

/* Answers from memory are, when nothing is on its way; else they may rest on what is, and wait for
 * it. */
static void what_is_read_waits_for_what_was_written_before(void **state)
{
    struct fixture *f = *state;
    struct answer a, b, c;

    add_worker(f, 1, &a);
    expect_after(f, &a, 0, MR_OK);
    beat(f, 1, false, &a);
    turn(f);
    assert_true(a.given);

    let_the_store_wait(f);
    add_worker(f, 2, &a);
    turn(f); /* it is sent */
    beat(f, 1, false, &b);
    beat(f, 2, false, &c);
    expect_after(f, &c, LATE_MS - 1, MR_OK);
    assert_true(a.given);
    assert_true(b.given);
}

/* A leader that was deposed may not know what there is by now, so it says no when it has proved
 * that it leads. */
static void a_denial_waits_for_a_proof(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    let_the_store_wait(f);
    beat(f, 1, false, &a);
    expect_after(f, &a, LATE_MS, MR_ENOTFOUND);
}

static void what_is_sent_already_proves_nothing_of_a_denial(void **state)
{
    struct fixture *f = *state;
    struct answer a, b;

    let_the_store_wait(f);
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &a);
    beat(f, 2, false, &b);
    expect_after(f, &a, LATE_MS - 1, MR_OK);
    assert_false(b.given);
    expect_after(f, &b, 0, MR_ENOTFOUND);
}

/* Whoever says that an address is theirs does not take it from a worker whose stream stands; from
 * one that has gone, yes. */
static void who_is_connected_keeps_its_address(void **state)
{
    struct fixture *f = *state;
    struct answer first, newer, said, stranger;

    add_worker_at(f, 1, (char[]){"w:1"}, &first);
    expect(f, &first, MR_OK);
    register_at(f, CLUSTER, 2, (char[]){"w:1"}, &stranger);
    expect(f, &stranger, MR_EUNAVAIL);
    assert_int_equal(stranger.traits, MR_RETRYABLE);
    beat(f, 1, false, &said);
    expect(f, &said, MR_OK);
    dispatcher_end_stream(f->d, (uintptr_t)&first); /* It was killed, and is started again. */
    register_at(f, CLUSTER, 2, (char[]){"w:1"}, &stranger);
    expect(f, &stranger, MR_OK);
    beat(f, 1, false, &said);
    expect(f, &said, MR_OK); /* nobody is there yet: anybody may say an address */
    watch_as(f, 2, &newer);
    expect(f, &newer, MR_OK);
    beat(f, 1, false, &said);
    expect(f, &said, MR_EPRECOND);
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &said);
    expect(f, &said, MR_EPRECOND); /* for good: it exits */
}

/* Who was there first with a stream has the address, whoever registered first. */
static void who_watches_first_has_the_address(void **state)
{
    struct fixture *f = *state;
    struct answer a, b, said;

    register_at(f, CLUSTER, 2, (char[]){"w:1"}, &b);
    add_worker_at(f, 1, (char[]){"w:1"}, &a);
    expect(f, &a, MR_OK);
    expect(f, &b, MR_OK);
    watch_as(f, 2, &b);
    expect(f, &b, MR_EUNAVAIL);
    assert_int_equal(b.traits, MR_RETRYABLE);
    beat(f, 1, false, &said);
    expect(f, &said, MR_OK);
}

/* Nobody has a stream when a leader begins. */
static void a_new_leader_gives_nobody_the_address_of_another(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_worker_at(f, 1, (char[]){"w:1"}, &a);
    expect(f, &a, MR_OK);
    dispatcher_kill(f->d);
    begin(f);
    register_at(f, CLUSTER, 2, (char[]){"w:1"}, &a);
    expect(f, &a, MR_EUNAVAIL);
    assert_int_equal(a.traits, MR_RETRYABLE);
    beat(f, 1, false, &a);
    expect(f, &a, MR_OK);
}

static void ignore(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err)
{
    assert_int_equal(rc, MR_OK);
}

/* Whoever waits is told that it may have happened or not: not that it did. */
static void a_deposed_leader_confirms_nothing(void **state)
{
    struct fixture *f = *state;
    struct mr_op op = {.kind = MR_OP_DELETE, .key = {ROOT "leader", strlen(ROOT "leader")}};
    struct mr_txn txn = {.success = &op, .nsuccess = 1};
    struct answer a;

    mr_fake_script(f->store, MR_FAKE_TXN, MR_FAKE_LOST_REQUEST, 0);
    add_worker(f, 1, &a);
    turn(f);
    f->other->ops->txn(f->other, &txn, 1000, ignore, NULL);
    expect_after(f, &a, 0, MR_EUNAVAIL);
    assert_true((a.traits & MR_MAYBE_APPLIED) != 0);
    assert_false(is_stored(f, 1));
}

/* One command that deletes several keys: none of them stays. */
static void all_of_a_command_is_committed(void **state)
{
    enum { N = 6 };
    struct fixture *f = *state;
    struct answer a, left[N];

    for (int n = 1; n <= N; n++) {
        add_worker(f, n, &a);
        expect_after(f, &a, 0, MR_OK);
    }
    for (int n = 1; n <= N; n++) {
        assert_true(is_stored(f, n));
        beat(f, n, true /* leaving */, &left[n - 1]);
    }
    run_ms(f, RETENTION_MS + 2 * TTL_MS);
    for (int n = 1; n <= N; n++) {
        assert_false(is_stored(f, n));
    }
}

static void hold(struct fixture *f, enum mr_effect_kind kind, const char *topic,
                 ProtobufCMessage *message, struct mr_call *call, uint64_t batch)
{
    struct mr_effect *e = mr_calloc(1, sizeof *e);

    *e = (struct mr_effect){.kind = kind, .fenced = true, .message = message};
    (void)snprintf(e->topic, sizeof e->topic, "%s", topic);
    f->t->outcome = (struct mr_outcome){.effects = e, .neffects = 1, .cap_effects = 1};
    assert_int_equal(mr_turn_hold(f->t, call, batch, false, NULL), MR_OK);
    mr_outcome_clear(&f->t->outcome);
}

/* What the core would say of task @n of iteration @topic, after version @follows. */
static void say(struct fixture *f, const char *topic, uint64_t follows, const char *task,
                bool finished, uint64_t batch)
{
    Millrace__ClientUpdate *update = mr_calloc(1, sizeof *update);

    millrace__client_update__init(update);
    update->follows = follows;
    update->version = follows + 1;
    update->tasks = mr_calloc(1, sizeof(Millrace__TaskInfo *));
    update->tasks[update->n_tasks] = mr_calloc(1, sizeof(Millrace__TaskInfo));
    millrace__task_info__init(update->tasks[update->n_tasks]);
    update->tasks[update->n_tasks++]->task_id = mr_strdup(task);
    update->finished = finished;
    hold(f, MR_EFFECT_PUSH_ITERATION, topic, &update->base, NULL, batch);
}

/* What it would say to worker @topic: of @client, that it is gone; of task @dropped, or that
 * nothing is to be dropped. */
static void say_gone(struct fixture *f, const char *topic, uint64_t follows, const char *client,
                     const char *dropped, uint64_t batch)
{
    Millrace__WorkerUpdate *update = mr_calloc(1, sizeof *update);

    millrace__worker_update__init(update);
    update->follows = follows;
    update->version = follows + 1;
    update->released_clients = mr_calloc(1, sizeof(char *));
    update->released_clients[update->n_released_clients++] = mr_strdup(client);
    if (dropped != NULL) {
        update->dropped = mr_calloc(1, sizeof(char *));
        update->dropped[update->n_dropped++] = mr_strdup(dropped);
    }
    hold(f, MR_EFFECT_PUSH_WORKER, topic, &update->base, NULL, batch);
}

static const Millrace__WorkerUpdate *held_for_worker(const struct mr_held_effect *h)
{
    assert_int_equal(h->kind, MR_EFFECT_PUSH_WORKER);
    return (const Millrace__WorkerUpdate *)h->message;
}

/* A thousand clients that go are told to a thousand workers: once to each, as long as the order of
 * things stays. */
static void workers_hear_once_of_the_clients_that_go_in_a_batch(void **state)
{
    struct fixture *f = *state;
    uint64_t batch = mr_member_newest(f->t->member) + 1; /* not committed */
    const struct mr_held_effect *h;

    say_gone(f, "w1", 7, "a", "t1", batch);
    say_gone(f, "w2", 3, "a", NULL, batch);
    say_gone(f, "w1", 8, "b", NULL, batch);
    say_gone(f, "w1", 9, "c", NULL, batch);
    say_gone(f, "w1", 10, "d", "t2", batch); /* t2 may be what "a" has read: it is dropped later */
    say_gone(f, "w1", 11, "e", NULL, batch);
    say_gone(f, "w1", 12, "f", NULL, batch + 1);
    h = f->t->held;
    assert_int_equal(held_for_worker(h)->n_released_clients, 3);
    assert_string_equal(held_for_worker(h)->released_clients[2], "c");
    assert_int_equal(held_for_worker(h)->n_dropped, 1);
    assert_int_equal(held_for_worker(h)->version, 10);
    h = h->next;
    assert_string_equal(h->topic, "w2");
    assert_int_equal(held_for_worker(h)->n_released_clients, 1);
    h = h->next;
    assert_string_equal(held_for_worker(h)->dropped[0], "t2");
    assert_int_equal(held_for_worker(h)->follows, 10);
    assert_int_equal(held_for_worker(h)->n_released_clients, 2);
    h = h->next;
    assert_int_equal(held_for_worker(h)->follows, 12);
    assert_null(h->next);
}

/* What a worker is told is never taken for what an iteration's clients are told, whatever the
 * worker calls itself. */
static void a_worker_that_is_named_as_an_iteration_is_told_by_itself(void **state)
{
    struct fixture *f = *state;
    uint64_t batch = mr_member_newest(f->t->member) + 1;

    say(f, "i1", 7, "a", false, batch);
    say_gone(f, "i1", 8, "c", NULL, batch);
    assert_int_equal(f->t->held->kind, MR_EFFECT_PUSH_ITERATION);
    assert_int_equal(((const Millrace__ClientUpdate *)f->t->held->message)->version, 8);
    assert_int_equal(held_for_worker(f->t->held->next)->n_released_clients, 1);
}

/* At the end of an epoch a thousand tasks end in a few batches, and a thousand clients hear of
 * it. */
static void clients_hear_once_of_a_batch(void **state)
{
    struct fixture *f = *state;
    uint64_t batch = mr_member_newest(f->t->member) + 1; /* not committed */
    const Millrace__ClientUpdate *update;

    say(f, "i1", 7, "a", false, batch);
    say(f, "i2", 9, "x", false, batch);
    say(f, "i1", 8, "b", false, batch);
    say(f, "i1", 9, "c", true, batch);
    say(f, "i1", 10, "d", false, batch + 1);
    update = (const Millrace__ClientUpdate *)f->t->held->message;
    assert_string_equal(f->t->held->topic, "i1");
    assert_int_equal(update->follows, 7);
    assert_int_equal(update->version, 10);
    assert_int_equal(update->n_tasks, 3);
    assert_string_equal(update->tasks[2]->task_id, "c");
    assert_true(update->finished);
    update = (const Millrace__ClientUpdate *)f->t->held->next->message;
    assert_int_equal(update->n_tasks, 1);
    update = (const Millrace__ClientUpdate *)f->t->held->next->next->message;
    assert_int_equal(update->follows, 10);
    assert_null(f->t->held->next->next->next);
}

/* @call begins to watch. */
static void watch(struct fixture *f, struct mr_call *call, uint64_t batch)
{
    hold(f, MR_EFFECT_REPLY, "", NULL, call, batch);
    f->t->held->next->call = NULL; /* it lives with the test */
}

/* Its first list is of all that was decided before: it has to come between, or what follows on it
 * would not fit. */
static void nothing_joins_what_was_said_before_somebody_came(void **state)
{
    struct fixture *f = *state;
    uint64_t batch = mr_member_newest(f->t->member) + 1;
    Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    struct mr_method method = {.command = MR_COMMAND_WATCH_CLIENT};
    struct mr_call call = {.method = &method, .request = &request.base};

    request.iteration_id = (char[]){"i1"};
    say(f, "i1", 7, "a", false, batch);
    watch(f, &call, batch);
    say(f, "i1", 8, "b", false, batch);
    assert_int_equal(((const Millrace__ClientUpdate *)f->t->held->message)->n_tasks, 1);
    assert_int_equal(f->t->held->next->kind, MR_EFFECT_REPLY);
    assert_int_equal(((const Millrace__ClientUpdate *)f->t->held->next->next->message)->n_tasks, 1);
    f->t->held->next->kind = MR_EFFECT_RESIGN; /* nobody waits for an answer */
}

static void nothing_joins_what_was_said_before_a_worker_came_back(void **state)
{
    struct fixture *f = *state;
    uint64_t batch = mr_member_newest(f->t->member) + 1;
    Millrace__WatchWorkerRequest request = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    struct mr_method method = {.command = MR_COMMAND_WATCH_WORKER};
    struct mr_call call = {.method = &method, .request = &request.base};

    request.incarnation = (char[]){"w1"};
    say_gone(f, "w1", 7, "a", NULL, batch);
    watch(f, &call, batch);
    say_gone(f, "w1", 8, "b", NULL, batch);
    assert_int_equal(held_for_worker(f->t->held)->n_released_clients, 1);
    assert_int_equal(held_for_worker(f->t->held->next->next)->n_released_clients, 1);
    f->t->held->next->kind = MR_EFFECT_RESIGN; /* nobody waits for an answer */
}

/* ---- when something is wrong ---- */

/* Nobody is told what came of it, and the state is what the store has: in the same term. */
static void a_refused_batch_is_forgotten(void **state)
{
    struct fixture *f = *state;
    int64_t epoch = mr_turn_epoch(f->t);
    struct answer a, b;

    mr_fake_script(f->store, MR_FAKE_TXN, MR_FAKE_REFUSED, 0);
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &a);
    beat(f, 1, false, &b); /* on what will be forgotten */
    expect(f, &a, MR_EUNAVAIL);
    assert_int_equal(a.traits, MR_RETRYABLE); /* not: MAYBE_APPLIED */
    assert_true(b.given);
    assert_int_equal(b.code, MR_EUNAVAIL);
    assert_null(f->t->held);
    assert_false(mr_turn_serves(f->t));
    run_ms(f, 100);
    assert_true(mr_turn_serves(f->t));
    assert_int_equal(mr_turn_epoch(f->t), epoch);
    assert_false(is_stored(f, 1));
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &a);
    expect(f, &a, MR_OK);
}

/* With workers that may be silent for @timeout_ms. */
static void begin_again(struct fixture *f, int64_t timeout_ms)
{
    dispatcher_kill(f->d);
    f->worker_timeout_ms = timeout_ms;
    begin(f);
}

static void keep_lease(struct fixture *f, int64_t ms)
{
    assert_true(mr_fake_prolong(f->fake, mr_fake_get(f->fake, ROOT "leader").lease, ms));
}

static void a_turn_that_is_late_moves_deadlines(void **state)
{
    struct fixture *f = *state;
    struct answer a, watch;

    begin_again(f, 20000);
    add_worker(f, 1, &watch);
    expect(f, &watch, MR_OK);
    run_ms(f, 2000);
    keep_lease(f, 60000);
    mr_fake_advance(f->fake, 25000); /* the process does not run */
    turn(f);
    run_ms(f, 4000);
    beat(f, 1, false, &a);
    expect(f, &a, MR_OK); /* nobody could hear it meanwhile */
    run_ms(f, 45000);     /* it was silent, and all could hear that */
    beat(f, 1, false, &a);
    expect(f, &a, MR_ENOTFOUND);
}

static void a_full_store_takes_deletes_alone(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    mr_fake_full(f->fake, true);
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &a);
    expect(f, &a, MR_OK); /* the last that finds room */
    register_at(f, CLUSTER, 2, (char[]){"w:2"}, &a);
    assert_true(a.given);
    assert_int_equal(a.code, MR_EEXHAUSTED);
    assert_non_null(strstr(a.message, "alarm NOSPACE"));
    mr_fake_full(f->fake, false);
    run_ms(f, TTL_MS);
    register_at(f, CLUSTER, 2, (char[]){"w:2"}, &a);
    expect(f, &a, MR_OK);
}

/* Another one hears them, if it was this one's fault. */
static void it_resigns_where_there_is_another_one(void **state)
{
    struct fixture *f = *state;
    uint64_t committed = mr_member_committed(f->t->member);

    hold(f, MR_EFFECT_RESIGN, "", NULL, NULL, committed);
    turn(f);
    assert_true(mr_turn_serves(f->t)); /* there is none */
    f->t->dispatchers[f->t->ndispatchers++] = mr_strdup("d:2");
    hold(f, MR_EFFECT_RESIGN, "", NULL, NULL, committed);
    turn(f);
    assert_false(mr_turn_serves(f->t));
    run_ms(f, TTL_MS / 2); /* and does not lead again at once */
    assert_false(mr_turn_serves(f->t));
}

static void a_call_waits_a_second_for_a_leader(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    dispatcher_kill(f->d);
    begin_as(f, "d:1", "00000000000000000000000000000002");
    mr_fake_cut(f->store, true);
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &a);
    assert_int_equal(mr_turn_waiting(f->t), 1);
    expect_after(f, &a, 999, MR_EUNAVAIL);
    assert_string_equal(a.message, "dispatcher d:1: no leader at the moment");
    assert_int_equal(mr_turn_waiting(f->t), 0);
}

/* What was accepted is committed first. */
static void it_stops_when_all_is_said(void **state)
{
    struct mr_item stop = {.kind = MR_ITEM_STOP};
    struct fixture *f = *state;
    struct answer a, b;

    let_the_store_wait(f);
    register_at(f, CLUSTER, 1, (char[]){"w:1"}, &a);
    dispatcher_post(f->d, &stop);
    turn(f);
    register_at(f, CLUSTER, 2, (char[]){"w:2"}, &b);
    assert_true(b.given);
    assert_int_equal(b.code, MR_EUNAVAIL);
    assert_string_equal(b.message, "dispatcher d:1 is stopping");
    assert_false(a.given);
    expect_after(f, &a, LATE_MS - 1, MR_OK);
    run_ms(f, 1000);
    assert_int_equal(mr_fake_get(f->fake, ROOT "leader").key.size, 0);
}

static void a_call_to_another_cluster_is_refused(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    register_at(f, "another", 1, (char[]){"w:1"}, &a);
    assert_true(a.given);
    assert_int_equal(a.code, MR_EPRECOND);
    run_ms(f, LATE_MS);
    assert_false(is_stored(f, 1));
}

/* A call of @method that names worker or client 1, and comes with the first @size bytes of the key
 * of @n. */
static void forge(struct fixture *f, const struct mr_method *method, int n, size_t size,
                  struct answer *ret)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(method->request, method->speaker);
    ProtobufCMessage *request = mr_calloc(1, method->request->sizeof_message);
    Millrace__RequestHeader header = said_by(n);

    protobuf_c_message_init(method->request, request);
    header.key.len = size;
    ((Millrace__OpenRequest *)request)->header = &header; /* all have it there */
    *(char **)(void *)((char *)request + field->offset) = worker(1);
    call(f, method->command, request, ret);
    mr_free(request);
}

/* Clients are told the ids of workers and tasks, and workers those of clients. */
static void an_id_is_no_right_to_speak(void **state)
{
    struct fixture *f = *state;
    uint64_t newest;
    struct answer a;
    size_t n = 0;

    add_worker(f, 1, &a);
    run_ms(f, LATE_MS);
    assert_int_equal(a.code, MR_OK);
    newest = mr_member_newest(f->t->member);
    for (size_t i = 0; i < mr_methods_count; i++) {
        const struct mr_method *method = &mr_methods[i];

        assert_int_equal(
            method->speaker != NULL,
            protobuf_c_message_descriptor_get_field_by_name(method->request, "client") != NULL ||
                protobuf_c_message_descriptor_get_field_by_name(method->request, "incarnation") !=
                    NULL);
        if (method->speaker == NULL) {
            continue;
        }
        const struct {
            int who;
            size_t size;
        } keys[] = {{1, 0}, {1, 15}, {2, 16}};

        for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
            forge(f, method, keys[j].who, keys[j].size, &a);
            assert_true(a.given);
            assert_int_equal(a.code, MR_EPERM);
            n++;
        }
    }
    assert_int_equal(n, 3 * 9);
    assert_null(f->t->held);
    assert_int_equal(mr_member_newest(f->t->member), newest);
    beat(f, 1, false, &a);
    run_ms(f, LATE_MS);
    assert_int_equal(a.code, MR_OK);
}

/* A standby that goes at once. */
static void follow_as(struct fixture *f, const char *instance)
{
    Millrace__FollowRequest r = MILLRACE__FOLLOW_REQUEST__INIT;
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;
    struct answer a;

    header.epoch = (uint64_t)mr_turn_epoch(f->t);
    r.header = &header;
    r.instance = (char *)(uintptr_t)instance;
    call(f, MR_COMMAND_STATUS, &r.base, &a);
    dispatcher_end_stream(f->d, (uintptr_t)&a);
    turn(f);
}

/* Lines of the log about it. */
static unsigned lines_of_followers(struct fixture *f, unsigned n, const char *instance)
{
    FILE *said = tmpfile();
    int before = dup(STDERR_FILENO);
    unsigned lines = 0;
    char line[1024];

    assert_non_null(said);
    assert_true(before >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
    mr_log_init(MR_LOG_INFO, MR_LOG_TEXT, "tester");
    for (unsigned i = 0; i < n; i++) {
        follow_as(f, instance);
    }
    mr_log_init(MR_LOG_WARN, MR_LOG_TEXT, "tester");
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL) {
        lines += strstr(line, "a standby is here") != NULL;
    }
    (void)fclose(said);
    return lines;
}

static void the_log_is_not_filled_by_who_follows(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(lines_of_followers(f, 3, ""), 0);
    assert_int_equal(lines_of_followers(f, 2, "other"), 2);
    assert_int_equal(lines_of_followers(f, 1000, "other"), 8);
    run_ms(f, 60 * 1000);
    assert_int_equal(lines_of_followers(f, 1, "other"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(a_change_is_answered_when_it_is_committed),
        CASE(what_is_read_waits_for_what_was_written_before),
        CASE(a_denial_waits_for_a_proof),
        CASE(what_is_sent_already_proves_nothing_of_a_denial),
        CASE(a_deposed_leader_confirms_nothing),
        CASE(all_of_a_command_is_committed),
        CASE(a_refused_batch_is_forgotten),
        CASE(a_turn_that_is_late_moves_deadlines),
        CASE(a_full_store_takes_deletes_alone),
        CASE(it_resigns_where_there_is_another_one),
        CASE(a_call_waits_a_second_for_a_leader),
        CASE(it_stops_when_all_is_said),
        CASE(a_call_to_another_cluster_is_refused),
        CASE(an_id_is_no_right_to_speak),
        CASE(who_is_connected_keeps_its_address),
        CASE(who_watches_first_has_the_address),
        CASE(clients_hear_once_of_a_batch),
        CASE(nothing_joins_what_was_said_before_somebody_came),
        CASE(workers_hear_once_of_the_clients_that_go_in_a_batch),
        CASE(a_worker_that_is_named_as_an_iteration_is_told_by_itself),
        CASE(nothing_joins_what_was_said_before_a_worker_came_back),
        CASE(a_new_leader_gives_nobody_the_address_of_another),
        CASE(the_log_is_not_filled_by_who_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
