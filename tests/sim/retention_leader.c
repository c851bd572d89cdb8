/* Who leads: one dispatcher as it is shipped, over the fake store, for months. Nothing is late
 * here, and turns come only when something is due: there are too many for more. */
#include "retention_world.h"

#include "base/log.h"
#include "dispatcher/turn/internal.h"

#include <stdlib.h>

#define ROOT "/millrace/retention/"
#define WALL_MS INT64_C(1700000000000)
#define TTL_MS 60000

static void take_answer(struct leader *l, const struct mr_method *method, const void *bytes,
                        size_t size)
{
    if (l->answer != NULL) {
        protobuf_c_message_free_unpacked(l->answer, NULL);
    }
    l->answer = protobuf_c_message_unpack(method->reply, NULL, size, bytes);
    MR_ASSERT(l->answer != NULL);
    l->answered = true;
}

static void on_answer(void *ctx, uint64_t token, const struct mr_method *method,
                      const struct mr_buf *message)
{
    take_answer(ctx, method, message->data, message->len);
}

/* Of a watch only the first message is of interest. */
static void on_push(void *ctx, uint64_t token, const struct mr_method *method, const void *bytes,
                    size_t size)
{
    struct leader *l = ctx;

    if (token == l->calls && !l->answered) {
        take_answer(l, method, bytes, size);
    }
}

static void on_finish(void *ctx, uint64_t token)
{
}

/* The definition of a dataset is its number. */
static struct mr_definition *on_define(void *ctx, const Millrace__RegisterDatasetRequest *request)
{
    struct mr_definition *d = sim_got(mr_calloc(1, sizeof *d));

    snprintf(d->fingerprint, sizeof d->fingerprint, "dd%030x",
             (unsigned)strtoul((const char *)request->definition.data, NULL, 10));
    d->spec = mr_strdup("s");
    d->spec_size = 1;
    d->cardinality = 64;
    d->providers[0] = 64;
    d->nproviders = 1;
    d->sources[0] = d->names[0];
    return d;
}

static void start(struct leader *l)
{
    static const struct dispatcher_ops ops = {
        .answer = on_answer, .push = on_push, .finish = on_finish, .define = on_define};
    const struct mr_core_config *c = &retention_config;
    char instance[33];
    struct mr_turn_options o = {.cluster = "retention",
                                .address = "d:1",
                                .socket = "d:1",
                                .instance = instance,
                                .secret = "00112233445566778899aabbccddeeff",
                                .seed = ++l->takeovers,
                                .started_ms = (uint64_t)l->now,
                                .etcd_write_budget = INT64_C(1) << 40,
                                .lease_ttl_ms = TTL_MS,
#define X(name) .name = c->name,
                                MR_CORE_TIMES(X)
#undef X
    };
    mr_store *store;

    sim_must(mr_fake_connect(l->fake, &store, NULL));
    snprintf(instance, sizeof instance, "%032llx", (unsigned long long)l->takeovers);
    l->dispatcher = dispatcher_new(&o, store, &ops, l, l->now);
    dispatcher_put_in(l->dispatcher, false, true /* nothing is late */);
    while (!mr_turn_serves(dispatcher_machine(l->dispatcher))) {
        leader_run(l, l->now + 1);
    }
}

void leader_open(struct leader *l)
{
    sim_must(mr_fake_new(1, &l->fake, NULL));
    mr_log_init(MR_LOG_OFF, MR_LOG_TEXT, "sim");
    dispatchers_trust(true);
    start(l);
}

void leader_close(struct leader *l)
{
    dispatcher_kill(l->dispatcher);
    mr_fake_free(l->fake);
    if (l->answer != NULL) {
        protobuf_c_message_free_unpacked(l->answer, NULL);
    }
}

void leader_take_over(struct leader *l)
{
    l->crash_soon = false;
    dispatcher_kill(l->dispatcher);
    start(l);
}

/* ---------------------------------------------------------------- time */

static void turn(struct leader *l)
{
    const mr_member *m = dispatcher_machine(l->dispatcher)->member;

    dispatcher_turn(l->dispatcher, l->now, (uint64_t)(WALL_MS + l->now));
    if (l->crash_soon && mr_member_newest(m) > mr_member_committed(m)) {
        leader_take_over(l);
    }
}

static int64_t due(const struct leader *l)
{
    const mr_turn *t = dispatcher_machine(l->dispatcher);
    int64_t timer = mr_turn_timer_due(t);
    int64_t member = mr_member_due(t->member);

    return dispatcher_mail(l->dispatcher) != NULL ? l->now : MR_MIN(timer, member);
}

/* The next thing, if it is due by @until. */
static bool step(struct leader *l, int64_t until)
{
    int64_t mine = due(l);
    int64_t store = mr_fake_next_ms(l->fake);
    int64_t at = MR_MIN(mine, store);

    if (at > until) {
        return false;
    }
    l->now = MR_MAX(at, l->now);
    if (!mr_fake_step(l->fake, l->now)) {
        turn(l);
    }
    return true;
}

void leader_run(struct leader *l, int64_t until)
{
    while (step(l, until)) {
    }
    l->now = until;
    (void)mr_fake_step(l->fake, until);
}

int leader_call(struct leader *l, enum mr_command_kind kind, const ProtobufCMessage *request)
{
    uint8_t *bytes = sim_got(mr_malloc(protobuf_c_message_get_packed_size(request) + 1));
    bool crash = l->crash_soon;

    l->crash_soon = false; /* in a timer, not here */
    l->answered = false;
    bool known = dispatcher_call(l->dispatcher, kind, bytes,
                                 protobuf_c_message_pack(request, bytes), ++l->calls, l->now);

    MR_ASSERT(known);
    mr_free(bytes);
    while (!l->answered) {
        bool more = step(l, INT64_MAX - 1);

        MR_ASSERT(more);
    }
    l->crash_soon = crash;
    return ((const Millrace__OpenReply *)l->answer)->header->code;
}

/* ---------------------------------------------------------------- what is stored */

bool leader_has(const struct leader *l, const char *key)
{
    char full[256];

    snprintf(full, sizeof full, ROOT "%s", key);
    return mr_fake_get(l->fake, full).key.size > 0;
}

char *leader_text(const struct leader *l, const char *key)
{
    char full[256];

    snprintf(full, sizeof full, ROOT "%s", key);
    struct mr_kv kv = mr_fake_get(l->fake, full);

    return kv.key.size > 0 ? mr_strndup(kv.value.data, kv.value.size) : NULL;
}

static void count_one(void *ctx, const struct mr_kv *kv)
{
    ++*(size_t *)ctx;
}

size_t leader_count(const struct leader *l, const char *prefix)
{
    char full[256];
    size_t n = 0;

    snprintf(full, sizeof full, ROOT "%s", prefix);
    mr_fake_each(l->fake, full, count_one, &n);
    return n;
}
