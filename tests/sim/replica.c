/* A dispatcher replica: the process that is shipped (dispatcher.h), when it gets to run, and what
 * goes to and from it over the network. */
#include "sim.h"

#define LATE_MS 200 /* the judge's: less is ordinary scheduling */

static uint64_t token_of(const struct sim_asked *asked)
{
    return (uintptr_t)asked;
}

static struct sim_asked *asked_of(uint64_t token)
{
    return (struct sim_asked *)(uintptr_t)token;
}

static void forget(struct sim_replica *replica, struct sim_asked *asked)
{
    for (struct sim_asked **p = &replica->asked; *p != NULL; p = &(*p)->next) {
        if (*p == asked) {
            *p = asked->next;
            break;
        }
    }
    mr_free(asked);
}

/* ---------------------------------------------------------------- turns */

static void turn(struct sim *sim, void *arg);

static void turn_at(struct sim *sim, struct sim_replica *replica, int64_t at)
{
    at = MR_MAX(at, sim->now);
    if (at < replica->turn_due) {
        replica->turn_due = at;
        sim_at(sim, MR_MAX(replica->busy_until, at), &replica->process, turn, replica, false);
    }
}

static void on_wake(void *ctx)
{
    struct sim_replica *replica = ctx;
    struct sim *sim = replica->sim;
    bool soon = sim->plain || !sim_chance(sim, 20); /* or others run first, and more comes */

    turn_at(sim, replica, sim->now + (soon ? 0 : (int64_t)sim_draw(sim, 60)));
}

static bool leads(const struct sim_replica *replica)
{
    return replica->dispatcher != NULL && mr_turn_serves(dispatcher_machine(replica->dispatcher));
}

/* The judge's own watch. */
static void measure(struct sim *sim, struct sim_replica *replica, int64_t late)
{
    bool leading = leads(replica);

    if (late == 0) {
        return;
    }
    sim_rare(sim, SIM_RARE_LATE_TURN);
    replica->stood_still += late;
    if (leading && sim_store_epoch(sim) != sim_replica_epoch(replica)) {
        sim_rare(sim, SIM_RARE_PAUSED_BEYOND_LEASE);
    } else if (leading && late >= SIM_WORKER_TIMEOUT_MS) {
        sim_rare(sim, SIM_RARE_PAUSED_WITH_LEASE);
    }
}

/* Streams of processes that are gone break. */
static void break_streams(struct sim *sim, struct sim_replica *replica)
{
    for (struct sim_asked *a = replica->asked; a != NULL; a = a->next) {
        const struct sim_process *p = a->actor < 0   ? &sim->replicas[a->standby].process
                                      : a->is_worker ? &sim->workers[a->actor].process
                                                     : &sim->clients[a->actor].process;

        if (a->stream && !a->over && p->life != a->actor_life) {
            a->over = true;
            dispatcher_end_stream(replica->dispatcher, token_of(a));
        }
    }
}

/* What has ended is forgotten between turns, when nobody holds it. */
static void sweep(struct sim_replica *replica)
{
    struct sim_asked *next;

    for (struct sim_asked *a = replica->asked; a != NULL; a = next) {
        next = a->next;
        if (a->over && !dispatcher_has(replica->dispatcher, token_of(a))) {
            forget(replica, a);
        }
    }
}

static void turn(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;
    int64_t now = sim->now + replica->clock_origin;

    if (replica->turn_due > sim->now) {
        return; /* the turn it was for was taken earlier */
    }
    if (replica->busy_until > sim->now) { /* the one before still runs */
        sim_at(sim, replica->busy_until, &replica->process, turn, replica, false);
        return;
    }
    measure(sim, replica, dispatcher_late_ms(replica->dispatcher, now, LATE_MS));
    replica->turn_due = INT64_MAX;
    break_streams(sim, replica);
    dispatcher_put_in(replica->dispatcher, sim->bug == SIM_BUG_TIMERS_FIRST,
                      sim->bug == SIM_BUG_LATENESS_IGNORED);
    sim_seams(sim, replica);
    dispatcher_turn(replica->dispatcher, now,
                    (uint64_t)(1700000000000 + sim->now + replica->wall_skew));
    sim_seams(sim, NULL);
    sweep(replica);
    if (sim_draw(sim, 1000) < sim->faults.late_turn_permille) {
        replica->busy_until =
            sim->now + 50 + (int64_t)sim_draw(sim, sim_chance(sim, 2) ? 1500 : LATE_MS - 60);
    } else if (sim->now < replica->held_up_until &&
               sim->now > replica->held_up_until - LATE_MS / 2) {
        replica->busy_until = replica->held_up_until;
    }
    if (replica->busy_until > sim->now) {
        dispatcher_busy(replica->dispatcher, replica->busy_until + replica->clock_origin);
    }
    turn_at(sim, replica, dispatcher_due(replica->dispatcher, now) - replica->clock_origin);
}

/* ---------------------------------------------------------------- calls and answers */

static struct sim_asked *ask(struct sim_replica *replica, size_t size)
{
    struct sim_asked *asked = sim_got(mr_calloc(1, sizeof *asked + size));

    asked->size = size;
    asked->next = replica->asked;
    replica->asked = asked;
    return asked;
}

static void on_request(struct sim *sim, const struct sim_message *request)
{
    struct sim_replica *replica = &sim->replicas[request->replica];
    bool stream =
        request->kind == MR_COMMAND_WATCH_CLIENT || request->kind == MR_COMMAND_WATCH_WORKER;
    struct sim_asked *asked;

    if (replica->dispatcher == NULL) {
        return; /* it does not listen yet */
    }
    for (struct sim_asked *a = replica->asked; a != NULL && stream; a = a->next) {
        if (a->stream && !a->over && a->is_worker == request->is_worker &&
            a->actor == request->actor) { /* whoever watches again has no use for the old stream */
            a->over = true;
            dispatcher_end_stream(replica->dispatcher, token_of(a));
        }
    }
    asked = ask(replica, request->size);
    asked->is_worker = request->is_worker;
    asked->actor = request->actor;
    asked->actor_life = request->actor_life;
    asked->call = request->call;
    asked->kind = request->kind;
    asked->stream = stream;
    memcpy(asked->body, request->body, request->size);
    bool known = dispatcher_call(replica->dispatcher, request->kind, request->body, request->size,
                                 token_of(asked), sim->now + replica->clock_origin);

    MR_ASSERT(known);
}

/* @bytes: a packed reply, with its header. */
static struct sim_message *make_message(const struct sim_replica *replica,
                                        const struct sim_asked *asked,
                                        const struct mr_method *method, const void *bytes,
                                        size_t size)
{
    bool splits = asked->kind == MR_COMMAND_GET_SPLITS;
    struct sim_message *m = mr_calloc(1, sizeof *m + size + asked->size);
    ProtobufCMessage *body = protobuf_c_message_unpack(method->reply, NULL, size, bytes);

    MR_ASSERT(m != NULL && body != NULL);
    const Millrace__ReplyHeader *header = ((const Millrace__OpenReply *)body)->header;

    m->kind = asked->kind;
    m->reply = true;
    m->is_worker = asked->is_worker;
    m->actor = asked->actor;
    m->actor_life = asked->actor_life;
    m->replica = replica->number;
    m->epoch = header->epoch;
    m->memory = replica->memory;
    m->error.code = header->code;
    m->error.traits = header->traits;
    snprintf(m->error.message, sizeof m->error.message, "%s", header->message);
    /* The store refuses by chance, so what it is said to refuse for good is tried again, too. */
    m->not_leader = (m->error.traits & MR_RETRYABLE) != 0 || m->error.code == MR_EINTERNAL;
    m->size = size;
    m->asked = splits ? asked->size : 0;
    memcpy(m->body, bytes, size);
    memcpy(m->body + size, asked->body, m->asked);
    protobuf_c_message_free_unpacked(body, NULL);
    return m;
}

/* Somebody is told that his call was not applied: is that certain? */
static void note_denial(struct sim *sim, const struct sim_replica *replica,
                        const struct sim_asked *asked, const struct sim_message *m)
{
    struct sim_batch *flight = replica->flight;
    bool denied = (m->error.code == MR_EUNAVAIL || m->error.code == MR_EINTERNAL) &&
                  (m->error.traits & MR_MAYBE_APPLIED) == 0;

    if (denied && asked->changed && flight != NULL && flight->memory == replica->memory &&
        flight->number == asked->batch) {
        flight->denied = true;
        sim_check_applied(sim, flight);
    }
}

static void on_answer(void *ctx, uint64_t token, const struct mr_method *method,
                      const struct mr_buf *message)
{
    struct sim_replica *replica = ctx;
    struct sim_asked *asked = asked_of(token);
    struct sim_message *m = make_message(replica, asked, method, message->data, message->len);

    m->call = asked->call;
    if (strstr(m->error.message, "etcd does not answer") != NULL) {
        sim_rare(replica->sim, SIM_RARE_ADMISSION);
    }
    note_denial(replica->sim, replica, asked, m);
    sim_send(replica->sim, m);
    forget(replica, asked);
}

void sim_replica_wrote(struct sim_replica *replica, uint64_t batch)
{
    uint64_t token = dispatcher_deciding(replica->dispatcher);

    if (token != 0) {
        asked_of(token)->changed = true;
        asked_of(token)->batch = batch;
    }
}

/* ---------------------------------------------------------------- streams */

struct broken {
    bool is_worker;
    int actor;
    uint64_t call;
};

static void broke(struct sim *sim, void *arg)
{
    const struct broken *broken = arg;
    uint64_t *stream = broken->is_worker ? &sim->workers[broken->actor].stream
                                         : &sim->clients[broken->actor].stream;

    if (*stream == broken->call) {
        *stream = 0;
    }
}

static void follower_hears(struct sim_replica *replica, const struct sim_asked *asked, bool ended);

static void on_push(void *ctx, uint64_t token, const struct mr_method *method, const void *bytes,
                    size_t size)
{
    struct sim_replica *replica = ctx;
    struct sim_asked *asked = asked_of(token);

    if (asked->actor < 0) {
        follower_hears(replica, asked, false);
        return;
    }
    struct sim_message *m = make_message(replica, asked, method, bytes, size);

    if (asked->answered && m->error.code < 0) {
        mr_free(m); /* its last words: the stream breaks */
        return;
    }
    m->call = asked->answered ? 0 : asked->call;
    m->stream = asked->answered ? asked->call : 0;
    asked->answered = true;
    note_denial(replica->sim, replica, asked, m);
    sim_send(replica->sim, m);
}

static void on_finish(void *ctx, uint64_t token)
{
    struct sim_replica *replica = ctx;
    struct sim_asked *asked = asked_of(token);

    asked->over = true;
    if (asked->actor < 0) {
        follower_hears(replica, asked, true);
        return;
    }
    struct broken broken = {asked->is_worker, asked->actor, asked->call};

    sim_later(replica->sim, sim_delay(replica->sim), NULL, broke, &broken, sizeof broken);
}

/* ---------------------------------------------------------------- standbys */

/* What is on its way between a standby and the leader that it follows. */
struct follow_news {
    int standby;
    uint64_t id;
    uint64_t leader_life;
    int64_t epoch;
    bool ended;
};

static void send_news(struct sim *sim, const struct follow_news *news, struct sim_process *to,
                      sim_fn *fn)
{
    sim_later(sim, sim->plain ? 1 : 1 + (int64_t)sim_draw(sim, 5), to, fn, news, sizeof *news);
}

/* At the standby. */
static void followed(struct sim *sim, void *arg)
{
    const struct follow_news *news = arg;
    struct sim_replica *replica = &sim->replicas[news->standby];
    struct mr_item item = {.kind = news->ended ? MR_ITEM_FOLLOW_ENDED : MR_ITEM_FOLLOW_ALIVE,
                           .follow = replica->following.follow};

    if (replica->following.id == news->id && news->id != 0) {
        replica->following.id = news->ended ? 0 : news->id;
        dispatcher_post(replica->dispatcher, &item);
    }
}

static void follower_hears(struct sim_replica *replica, const struct sim_asked *asked, bool ended)
{
    struct follow_news news = {.standby = asked->standby, .id = asked->following, .ended = ended};

    send_news(replica->sim, &news, &replica->sim->replicas[asked->standby].process, followed);
}

/* At the leader. */
static void follow_came(struct sim *sim, void *arg)
{
    struct follow_news *news = arg;
    struct sim_replica *standby = &sim->replicas[news->standby];
    struct sim_replica *leader = &sim->replicas[standby->following.leader];
    Millrace__FollowRequest request = MILLRACE__FOLLOW_REQUEST__INIT;
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;
    uint8_t bytes[256];
    char instance[33];

    if (standby->following.id != news->id) {
        return;
    }
    if (leader->dispatcher == NULL) {
        news->ended = true;
        send_news(sim, news, &standby->process, followed);
        return;
    }
    snprintf(instance, sizeof instance, "%030llx%02x", (unsigned long long)standby->process.life,
             standby->number);
    header.epoch = (uint64_t)news->epoch;
    request.header = &header;
    request.instance = instance;
    struct sim_asked *asked = ask(leader, 0);

    asked->actor = -1;
    asked->standby = news->standby;
    asked->actor_life = standby->process.life;
    asked->following = news->id;
    asked->kind = MR_COMMAND_STATUS;
    asked->stream = true;
    bool known = dispatcher_call(leader->dispatcher, MR_COMMAND_STATUS, bytes,
                                 millrace__follow_request__pack(&request, bytes), token_of(asked),
                                 sim->now + leader->clock_origin);

    MR_ASSERT(known);
}

static int number_at(const char *address)
{
    return address[1] - '0'; /* "d0:1" */
}

static bool on_open(void *ctx, struct mr_follow *f, const char *address)
{
    struct sim_replica *replica = ctx;
    struct sim *sim = replica->sim;
    struct follow_news news = {.standby = replica->number, .id = ++sim->calls, .epoch = f->epoch};

    replica->following = (struct sim_following){news.id, f, number_at(address)};
    send_news(sim, &news, NULL, follow_came);
    return true;
}

static void on_close(void *ctx, struct mr_follow *f)
{
    struct sim_replica *replica = ctx;
    struct sim_replica *leader = &replica->sim->replicas[replica->following.leader];
    struct mr_item ended = {.kind = MR_ITEM_FOLLOW_ENDED, .follow = f};

    if (replica->following.id == 0 || replica->following.follow != f) {
        return; /* its end is known already */
    }
    for (struct sim_asked *a = leader->asked; a != NULL; a = a->next) {
        if (a->actor < 0 && a->following == replica->following.id && !a->over) {
            a->over = true;
            dispatcher_end_stream(leader->dispatcher, token_of(a));
        }
    }
    replica->following.id = 0;
    dispatcher_post(replica->dispatcher, &ended);
}

static void on_release(void *ctx, void *link)
{
}

struct probe {
    int standby, leader;
    int64_t epoch;
};

static void probed(struct sim *sim, void *arg)
{
    const struct probe *probe = arg;
    const struct sim_replica *leader = &sim->replicas[probe->leader];
    struct mr_item item = {.kind = MR_ITEM_PROBED,
                           .epoch = probe->epoch,
                           .refused = !leader->process.alive && !leader->vanished};

    dispatcher_post(sim->replicas[probe->standby].dispatcher, &item);
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    struct sim_replica *replica = ctx;
    struct sim *sim = replica->sim;
    struct probe probe = {replica->number, number_at(address), epoch};

    sim_later(sim, sim->replicas[probe.leader].vanished ? 500 : 2, &replica->process, probed,
              &probe, sizeof probe);
}

/* ---------------------------------------------------------------- terms */

/* What the core says of itself shows which rare branches were taken. */
static void on_trace(void *ctx, const char *line)
{
    static const struct {
        const char *about, *text;
        enum sim_rare rare;
    } signs[] = {
        {"worker", ": lost", SIM_RARE_WORKER_LOST},
        {"worker", ": superseded", SIM_RARE_SUPERSEDED},
        {"client", ": lost to", SIM_RARE_CLIENT_LOST},
        {"", "one more grace", SIM_RARE_BRAKE},
        {"task", "no client reaches", SIM_RARE_UNREACHABLE},
        {"task", "opened, a recovery task", SIM_RARE_RECOVERY},
        {"task", "a recovery task for suspects", SIM_RARE_SUSPECT},
    };
    struct sim *sim = ((struct sim_replica *)ctx)->sim;

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (strncmp(line, signs[i].about, strlen(signs[i].about)) == 0 &&
            strstr(line, signs[i].text) != NULL) {
            sim_rare(sim, signs[i].rare);
            if (signs[i].rare == SIM_RARE_WORKER_LOST || signs[i].rare == SIM_RARE_CLIENT_LOST) {
                sim_moment(sim, SIM_MOMENT_GIVEN_UP, NULL, NULL);
            }
        }
    }
    if (strncmp(line, "task ", 5) == 0 && strstr(line, ": lost") != NULL && sim_is_recovery(line)) {
        sim_rare(sim, SIM_RARE_RECOVERY_LOST);
    }
    sim_say(sim, "%s", line);
}

static void on_term(void *ctx, enum mr_term_news news)
{
    struct sim_replica *replica = ctx;
    struct sim *sim = replica->sim;

    switch (news) {
    case MR_TERM_WON: break;
    case MR_TERM_LEADS:
        replica->memory = ++sim->memories;
        sim_check_term(sim, replica);
        sim_rounds_term(sim);
        sim->takeovers++;
        sim_moment(sim, SIM_MOMENT_LEADING, NULL, NULL);
        sim_say(sim, "dispatcher %d: leads", replica->number);
        break;
    case MR_TERM_REFUSED:
        sim_say(sim, "dispatcher %d: the store refuses a batch", replica->number);
        break;
    case MR_TERM_LOST: sim_say(sim, "dispatcher %d: steps down", replica->number); break;
    }
}

int sim_leader(const struct sim *sim)
{
    for (int i = 0; i < SIM_REPLICAS; i++) {
        if (leads(&sim->replicas[i]) &&
            sim_replica_epoch(&sim->replicas[i]) == sim_store_epoch(sim)) {
            return i;
        }
    }
    return -1;
}

/* ---------------------------------------------------------------- the process */

static struct mr_definition *on_define(void *ctx, const Millrace__RegisterDatasetRequest *request)
{
    const struct sim *sim = ((struct sim_replica *)ctx)->sim;
    const struct sim_dataset *dataset = &sim->datasets[sim_dataset_of(sim, request->dataset_id)];
    struct mr_definition *d = sim_got(mr_calloc(1, sizeof *d));

    snprintf(d->fingerprint, sizeof d->fingerprint, "%s", dataset->fingerprint);
    snprintf(d->summary, sizeof d->summary, "%s", dataset->id);
    d->nproviders = dataset->nproviders;
    d->ignores_errors = dataset->ignores_errors;
    for (size_t p = 0; p < dataset->nproviders; p++) {
        d->providers[p] = dataset->splits[p];
        d->split_elements[p] = SIM_SPLIT_ELEMENTS;
        d->sources[p] = d->names[p];
    }
    d->spec = mr_strdup("s");
    d->spec_size = 1;
    return d;
}

/* It is there, and turns from now on. */
static void boot(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;
    static const struct dispatcher_ops ops = {
        .answer = on_answer,
        .push = on_push,
        .finish = on_finish,
        .define = on_define,
        .wake = on_wake,
        .term = on_term,
        .trace = on_trace,
        .follow = {.open = on_open, .close = on_close, .release = on_release},
        .probe = on_probe};
    char address[16], instance[33];
    struct mr_turn_options o = {.cluster = SIM_CLUSTER,
                                .address = address,
                                .socket = address,
                                .instance = instance,
                                .secret = "00112233445566778899aabbccddeeff",
                                .started_ms = (uint64_t)sim->now,
                                .etcd_write_budget = INT64_C(1) << 40,
                                .lease_ttl_ms = SIM_LEASE_MS,
                                .heartbeat_ms = SIM_HEARTBEAT_MS,
                                .worker_timeout_ms = SIM_WORKER_TIMEOUT_MS,
                                .client_timeout_ms = SIM_CLIENT_TIMEOUT_MS,
                                .job_gc_timeout_ms = sim->job_gc_ms > 0 ? sim->job_gc_ms : 300000,
                                .gc_dynamic = sim->gc_dynamic};

    snprintf(address, sizeof address, "d%d:1", replica->number);
    snprintf(instance, sizeof instance, "%030llx%02x", (unsigned long long)replica->process.life,
             replica->number);
    o.seed = sim->plain ? (uint64_t)replica->number + 1 : mr_rng_next(&sim->rng);
    replica->dispatcher = dispatcher_new(&o, sim_store_connect(sim, replica), &ops, replica,
                                         sim->now + replica->clock_origin);
    turn_at(sim, replica, sim->now);
}

void sim_replica_start(struct sim *sim, struct sim_replica *replica)
{
    static const struct sim_party party = {.request = on_request};

    replica->sim = sim;
    replica->process.party = &party;
    replica->process.alive = true;
    replica->process.life++;
    replica->process.frozen_until = 0;
    replica->vanished = false;
    replica->clock_origin = sim->plain ? 0 : (int64_t)sim_draw(sim, 1000000000);
    replica->wall_skew = sim->plain ? 0 : (int64_t)sim_draw(sim, 2000) - 1000;
    replica->busy_until = replica->held_up_until = 0;
    replica->turn_due = INT64_MAX;
    replica->flight = NULL;
    sim_after(sim, sim->plain ? 10 * replica->number : (int64_t)sim_draw(sim, 100),
              &replica->process, boot, replica, false);
}

void sim_replica_stop(struct sim *sim, struct sim_replica *replica)
{
    struct dispatcher *dispatcher = replica->dispatcher;

    replica->process.alive = false;
    replica->process.life++;
    if (dispatcher == NULL) {
        return;
    }
    for (struct sim_asked *a = replica->asked; a != NULL; a = a->next) {
        if (a->actor < 0 && !a->over && !replica->vanished) {
            follower_hears(replica, a, true); /* its connection breaks */
        }
    }
    dispatcher_kill(dispatcher);
    replica->dispatcher = NULL;
    replica->following.id = 0;
    while (replica->asked != NULL) {
        forget(replica, replica->asked);
    }
}
