/*
 * A dispatcher replica: the real core in a small model of the loop that drives it. Effects are held until the batch
 * with the changes they rest on is committed; one batch is in flight and the next gathers; what happened to a batch is
 * settled by sending the same one again.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/dataset.h>
#include <string.h>

#define TICK_MS 100
#define RESEND_MS 500

static void trace(void *ctx, const char *line)
{
    sim_say(ctx, "%s", line);
}

/* ---------------------------------------------------------------- terms */

static void drop_messages(struct sim_message **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_free(list[i]);
    }
}

void sim_replica_drop(struct sim *sim, struct sim_replica *replica)
{
    (void)sim;
    mr_core_free(replica->core);
    replica->core = NULL;
    for (size_t i = 0; i < replica->ngathering; i++) {
        mr_free(replica->gathering[i].key);
        mr_free(replica->gathering[i].value);
    }
    mr_free(replica->gathering);
    replica->gathering = NULL;
    replica->ngathering = replica->cap_gathering = 0;
    drop_messages(replica->held, replica->nheld);
    drop_messages(replica->flying, replica->nflying);
    mr_free(replica->held);
    mr_free(replica->flying);
    replica->held = replica->flying = NULL;
    replica->nheld = replica->cap_held = replica->nflying = 0;
    replica->flight = NULL;
    replica->nstreams = 0;
    replica->role = SIM_STANDBY;
}

static void step_down(struct sim *sim, struct sim_replica *replica, const char *why)
{
    sim_say(sim, "dispatcher %d: steps down, %s", replica->number, why);
    sim_replica_drop(sim, replica);
}

void sim_replica_deposed(struct sim *sim, struct sim_replica *replica)
{
    step_down(sim, replica, "another term began");
}

/* @epoch is the replica's, unless a bug is put in that loads more than once in a term. */
static mr_core *load_core(struct sim *sim, struct sim_replica *replica, uint64_t epoch)
{
    struct mr_core_config config = {
        .epoch = epoch,
        .worker_timeout_ms = SIM_WORKER_TIMEOUT_MS,
        .client_timeout_ms = SIM_CLIENT_TIMEOUT_MS,
        .job_gc_timeout_ms = sim->job_gc_ms,
        .takeover_grace_ms = SIM_WORKER_TIMEOUT_MS + SIM_LEASE_MS,
        .heartbeat_ms = SIM_HEARTBEAT_MS,
        .trace = trace,
        .trace_ctx = sim,
    };
    mr_core *core = mr_core_new(&config);
    mr_error err = {0};
    int rc = MR_OK;

    MR_ASSERT(core != NULL);
    for (size_t i = 0; i < sim->store.count && rc == MR_OK; i++) {
        const struct sim_kv *kv = &sim->store.kvs[i];

        if (strncmp(kv->key, "meta/", 5) == 0) {
            continue;
        }
        rc = strncmp(kv->key, "blobs/", 6) == 0 ? mr_core_load_blob(core, kv->key, &err)
                                                : mr_core_load(core, kv->key, kv->value, strlen(kv->value), &err);
    }
    if (rc == MR_OK) {
        rc = mr_core_ready(core, sim->now, &err);
    }
    if (rc < 0) {
        sim_violation(sim, "takeover at epoch %lld: %s", (long long)replica->epoch, err.message);
        mr_core_free(core);
        return NULL;
    }
    return core;
}

static void load(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;
    const struct sim_kv *last = sim_store_get(&sim->store, "meta/batch");

    if (replica->role != SIM_LOADING) {
        return;
    }
    replica->batch_mod = last != NULL ? last->mod : 0;
    replica->core = load_core(sim, replica, (uint64_t)replica->epoch);
    replica->fenced_at = sim->now - SIM_LEASE_MS; /* nothing of this term is committed yet */
    replica->last_turn = sim->now;
    if (replica->core != NULL) {
        replica->role = SIM_LEADING;
        sim->takeovers++;
        sim_say(sim, "dispatcher %d: leads", replica->number);
    }
}

void sim_replica_elected(struct sim *sim, struct sim_replica *replica, int64_t epoch)
{
    replica->role = SIM_LOADING;
    replica->epoch = epoch;
    sim_after(sim, sim_delay(sim), &replica->process, load, replica, false);
}

/* ---------------------------------------------------------------- batches */

static void resend(struct sim *sim, void *arg);

static void send_flight(struct sim *sim, struct sim_replica *replica)
{
    sim_store_send(sim, replica, replica->flight);
    sim_after(sim, RESEND_MS, &replica->process, resend, replica->flight, false);
}

static void send_gathered(struct sim *sim, struct sim_replica *replica)
{
    struct sim_batch *batch = sim_batch_new(sim);

    batch->replica = replica->number;
    batch->epoch = replica->epoch;
    batch->batch_mod = replica->batch_mod;
    batch->nonce = mr_rng_next(&sim->rng);
    batch->changes = replica->gathering;
    batch->count = replica->ngathering;
    replica->gathering = NULL;
    replica->ngathering = replica->cap_gathering = 0;
    replica->flying = replica->held;
    replica->nflying = replica->nheld;
    replica->held = NULL;
    replica->nheld = replica->cap_held = 0;
    replica->flight = batch;
    replica->flight_sent = sim->now;
    send_flight(sim, replica);
}

static void pump(struct sim *sim, struct sim_replica *replica)
{
    if (replica->role == SIM_LEADING && replica->flight == NULL && (replica->ngathering > 0 || replica->nheld > 0)) {
        send_gathered(sim, replica);
    }
}

static void gather(struct sim_replica *replica, char *key, char *value)
{
    for (size_t i = 0; i < replica->ngathering; i++) {
        if (strcmp(replica->gathering[i].key, key) == 0) { /* the last write wins */
            mr_free(replica->gathering[i].value);
            mr_free(key);
            replica->gathering[i].value = value;
            return;
        }
    }
    if (replica->ngathering == replica->cap_gathering) {
        replica->cap_gathering = 2 * replica->cap_gathering + 8;
        replica->gathering = mr_reallocarray(replica->gathering, replica->cap_gathering, sizeof *replica->gathering);
        MR_ASSERT(replica->gathering != NULL);
    }
    replica->gathering[replica->ngathering++] = (struct sim_change){key, value};
}

/* The wrong way: what a read shows settles a timeout, and the changes go into another batch. */
static void read_settles(struct sim *sim, struct sim_replica *replica)
{
    struct sim_batch *batch = replica->flight;
    const struct sim_kv *last = sim_store_get(&sim->store, "meta/batch");
    struct sim_change *newer = replica->gathering;
    size_t n = replica->ngathering;

    if (last != NULL && last->mod != batch->batch_mod) {
        sim_replica_settled(sim, replica, batch->nonce, true, false, last->mod);
        return;
    }
    replica->gathering = NULL;
    replica->ngathering = replica->cap_gathering = 0;
    for (size_t i = 0; i < batch->count; i++) {
        gather(replica, mr_strdup(batch->changes[i].key),
               batch->changes[i].value != NULL ? mr_strdup(batch->changes[i].value) : NULL);
    }
    for (size_t i = 0; i < n; i++) {
        gather(replica, newer[i].key, newer[i].value);
    }
    mr_free(newer);
    for (size_t i = 0; i < replica->nflying; i++) {
        replica->held = mr_reallocarray(replica->held, replica->nheld + 1, sizeof *replica->held);
        replica->held[replica->nheld++] = replica->flying[i];
        replica->cap_held = replica->nheld;
    }
    mr_free(replica->flying);
    replica->flying = NULL;
    replica->nflying = 0;
    replica->flight = NULL;
    send_gathered(sim, replica);
}

static void resend(struct sim *sim, void *arg)
{
    struct sim_batch *batch = arg;
    struct sim_replica *replica = &sim->replicas[batch->replica];

    if (replica->flight != batch) {
        return;
    }
    if (sim->bug == SIM_BUG_READ_SETTLES) {
        read_settles(sim, replica);
    } else {
        send_flight(sim, replica);
    }
}

void sim_replica_settled(struct sim *sim, struct sim_replica *replica, uint64_t nonce, bool committed, bool deposed,
                         int64_t batch_mod)
{
    struct sim_message **leaving = replica->flying;
    size_t n = replica->nflying;

    if (replica->flight == NULL || replica->flight->nonce != nonce) {
        return;
    }
    if (sim->bug == SIM_BUG_READ_SETTLES && !deposed) {
        committed = true; /* "the key shows the number of our batch" */
    }
    if (!committed) {
        step_down(sim, replica, "its batch was refused");
        return;
    }
    replica->flight = NULL;
    replica->batch_mod = batch_mod;
    replica->fenced_at = replica->flight_sent;
    replica->flying = NULL;
    replica->nflying = 0;
    for (size_t i = 0; i < n; i++) {
        sim_send(sim, leaving[i]);
    }
    mr_free(leaving);
    if (deposed && sim->bug != SIM_BUG_NO_FENCE) {
        step_down(sim, replica, "it was deposed");
        return;
    }
    pump(sim, replica);
}

/* ---------------------------------------------------------------- steps */

static struct sim_message *make_message(const struct sim_replica *replica, const ProtobufCMessage *body)
{
    size_t size = body != NULL ? protobuf_c_message_get_packed_size(body) : 0;
    struct sim_message *message = mr_calloc(1, sizeof *message + size);

    MR_ASSERT(message != NULL);
    message->reply = true;
    message->replica = replica->number;
    message->epoch = (uint64_t)replica->epoch;
    message->size = size;
    if (size > 0) {
        protobuf_c_message_pack(body, message->body);
    }
    return message;
}

static void hold(struct sim *sim, struct sim_replica *replica, struct sim_message *message, bool fenced, bool changed)
{
    bool pending = changed || replica->ngathering > 0 || replica->nheld > 0 || replica->flight != NULL;
    bool soft = sim->now - replica->fenced_at <= SIM_LEASE_MS / 2;

    if (sim->bug == SIM_BUG_ANSWER_EARLY || (!pending && !fenced && soft) ||
        (sim->bug == SIM_BUG_SOFT_DENIALS && !changed)) {
        sim_send(sim, message);
        return;
    }
    if (replica->nheld == replica->cap_held) {
        replica->cap_held = 2 * replica->cap_held + 8;
        replica->held = mr_reallocarray(replica->held, replica->cap_held, sizeof *replica->held);
        MR_ASSERT(replica->held != NULL);
    }
    replica->held[replica->nheld++] = message;
}

static void add_stream(struct sim_replica *replica, const struct sim_message *request, const char *topic)
{
    struct sim_stream *stream = NULL;

    for (size_t i = 0; i < replica->nstreams; i++) {
        if (replica->streams[i].is_worker == request->is_worker && replica->streams[i].actor == request->actor) {
            stream = &replica->streams[i];
        }
    }
    if (stream == NULL) {
        stream = &replica->streams[replica->nstreams++];
    }
    *stream = (struct sim_stream){request->is_worker, request->actor, request->actor_life, ""};
    snprintf(stream->topic, sizeof stream->topic, "%s", topic);
}

static void push(struct sim *sim, struct sim_replica *replica, const struct mr_effect *effect, bool changed)
{
    bool for_worker = effect->kind == MR_EFFECT_PUSH_WORKER;

    for (size_t i = 0; i < replica->nstreams; i++) {
        const struct sim_stream *stream = &replica->streams[i];

        if (stream->is_worker != for_worker || strcmp(stream->topic, effect->topic) != 0) {
            continue;
        }
        struct sim_message *message = make_message(replica, effect->message);

        message->kind = for_worker ? MR_COMMAND_WATCH_WORKER : MR_COMMAND_WATCH_CLIENT;
        message->is_worker = for_worker;
        message->actor = stream->actor;
        message->actor_life = stream->actor_life;
        snprintf(message->topic, sizeof message->topic, "%s", effect->topic);
        hold(sim, replica, message, effect->fenced, changed);
    }
}

static void reply(struct sim *sim, struct sim_replica *replica, const struct sim_message *request,
                  const struct mr_effect *effect, bool changed)
{
    struct sim_message *message = make_message(replica, effect->message);

    message->kind = request->kind;
    message->is_worker = request->is_worker;
    message->actor = request->actor;
    message->actor_life = request->actor_life;
    message->call = request->call;
    message->error = effect->error;
    hold(sim, replica, message, effect->fenced, changed);
}

static void run_step(struct sim *sim, struct sim_replica *replica, struct mr_command *command,
                     const struct sim_message *request)
{
    struct mr_outcome out = {0};
    mr_error err = {0};
    bool changed;

    if (sim->bug == SIM_BUG_DECIDE_ON_COMMITTED) {
        mr_core_free(replica->core);
        replica->core =
            load_core(sim, replica, (uint64_t)replica->epoch * 1000000 + ++sim->order); /* so that ids differ */
        if (replica->core == NULL) {
            return;
        }
    }
    command->now_ms = sim->now;
    command->wall_ms = 1700000000000 + sim->now;
    command->late_ms = sim->now - replica->last_turn > 3 * TICK_MS ? sim->now - replica->last_turn - TICK_MS : 0;
    command->seed = mr_rng_next(&sim->rng);
    replica->last_turn = sim->now;
    if (mr_core_step(replica->core, command, &out, &err) < 0 || mr_core_check(replica->core, &err) < 0) {
        sim_violation(sim, "the core: %s", err.message);
        mr_outcome_clear(&out);
        return;
    }
    changed = out.nchanges > 0;
    for (size_t i = 0; i < out.nchanges; i++) {
        gather(replica, out.changes[i].key, out.changes[i].value);
    }
    out.nchanges = 0; /* taken */
    for (size_t i = 0; i < out.neffects; i++) {
        if (out.effects[i].kind == MR_EFFECT_REPLY) {
            reply(sim, replica, request, &out.effects[i], changed);
        } else if (out.effects[i].kind == MR_EFFECT_PUSH_WORKER || out.effects[i].kind == MR_EFFECT_PUSH_ITERATION) {
            push(sim, replica, &out.effects[i], changed);
        }
    }
    mr_outcome_clear(&out);
}

/* The edge of a real dispatcher parses definitions; here the table of datasets stands for that. */
static void register_dataset(struct sim *sim, struct sim_replica *replica, const struct sim_message *request,
                             const Millrace__RegisterDatasetRequest *in)
{
    const struct sim_dataset *dataset = NULL;
    char blob[33];

    for (int i = 0; i < SIM_DATASETS; i++) {
        if (strcmp(sim->datasets[i].id, in->dataset_id) == 0) {
            dataset = &sim->datasets[i];
        }
    }
    MR_ASSERT(dataset != NULL);
    struct mr_dataset_register registration = {
        .dataset_id = dataset->id,
        .fingerprint = dataset->fingerprint,
        .compression = "AUTO",
        .spec = "s",
        .spec_size = 1,
        .providers = dataset->splits,
        .nproviders = dataset->nproviders,
        .summary = dataset->id,
        .blob = "",
    };

    if (!mr_core_has_definition(replica->core, dataset->fingerprint)) {
        struct mr_part_store part = {.blob = blob, .index = 0, .data = "def", .size = 3};
        struct mr_command store = {.kind = MR_COMMAND_STORE_PART, .part = &part};

        sim_hex_id(sim, blob);
        run_step(sim, replica, &store, request);
        registration.blob = blob;
        registration.parts = 1;
    }
    struct mr_command command = {.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &registration};

    run_step(sim, replica, &command, request);
}

static void serve(struct sim *sim, struct sim_replica *replica, const struct sim_message *request)
{
    ProtobufCMessage *body =
        protobuf_c_message_unpack(sim_request_type(request->kind), NULL, request->size, request->body);
    struct mr_command command = {.kind = request->kind};

    MR_ASSERT(body != NULL);
    if (request->kind == MR_COMMAND_REGISTER_DATASET) {
        register_dataset(sim, replica, request, (Millrace__RegisterDatasetRequest *)body);
    } else {
        command.open = (Millrace__OpenRequest *)body; /* all members of the union are such pointers */
        if (request->kind == MR_COMMAND_WATCH_CLIENT) {
            add_stream(replica, request, command.watch_client->iteration_id);
        } else if (request->kind == MR_COMMAND_WATCH_WORKER) {
            add_stream(replica, request, command.watch_worker->incarnation);
        }
        run_step(sim, replica, &command, request);
    }
    protobuf_c_message_free_unpacked(body, NULL);
}

void sim_replica_message(struct sim *sim, struct sim_replica *replica, struct sim_message *request)
{
    if (replica->role == SIM_LEADING) {
        serve(sim, replica, request);
        pump(sim, replica);
        return;
    }
    struct sim_message *message = make_message(replica, NULL);

    message->kind = request->kind;
    message->is_worker = request->is_worker;
    message->actor = request->actor;
    message->actor_life = request->actor_life;
    message->call = request->call;
    message->not_leader = true;
    sim_send(sim, message);
}

/* ---------------------------------------------------------------- the clock */

static void lead(struct sim *sim, struct sim_replica *replica)
{
    sim_store_renew(sim, replica);
    for (int i = 0; i < 8 && replica->role == SIM_LEADING && mr_core_next_timer(replica->core) <= sim->now; i++) {
        struct mr_command timer = {.kind = MR_COMMAND_TIMER};

        run_step(sim, replica, &timer, NULL);
    }
    if (replica->role != SIM_LEADING) {
        return;
    }
    replica->last_turn = sim->now;
    if (replica->flight == NULL && sim->now - replica->fenced_at > SIM_LEASE_MS / 4) {
        send_gathered(sim, replica); /* a no-op if nothing has gathered: it keeps the right to answer from memory */
    }
    pump(sim, replica);
}

static void tick(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;

    if (replica->role == SIM_STANDBY) {
        sim_store_campaign(sim, replica);
    } else if (replica->role == SIM_LEADING) {
        lead(sim, replica);
    } else {
        sim_store_renew(sim, replica);
    }
    sim_after(sim, TICK_MS, &replica->process, tick, replica, false);
}

void sim_replica_start(struct sim *sim, struct sim_replica *replica)
{
    replica->process.alive = true;
    replica->process.life++;
    replica->process.frozen_until = 0;
    sim_after(sim, sim->plain ? 10 * replica->number : (int64_t)sim_draw(sim, TICK_MS), &replica->process, tick,
              replica, false);
}
