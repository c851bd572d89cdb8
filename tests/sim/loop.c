/*
 * A model of the loop that drives a core: a mailbox, turns, timers. Messages that are there come
 * before timers; a turn that begins late says so. Replies and pushes go to those whom they rest on
 * a commit for (replica.c).
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>
#include <string.h>

#define TICK_MS 100
#define LATE_MS_MIN 200 /* less is ordinary scheduling */
#define STALLED_MS 2000 /* a batch unanswered this long: nothing new is decided */

/* ---------------------------------------------------------------- steps */

/* @asked: bytes to leave room for behind the body. */
static struct sim_message *make_message(const struct sim_replica *replica,
                                        const ProtobufCMessage *body, size_t asked)
{
    size_t size = body != NULL ? protobuf_c_message_get_packed_size(body) : 0;
    struct sim_message *message = mr_calloc(1, sizeof *message + size + asked);

    MR_ASSERT(message != NULL);
    message->reply = true;
    message->replica = replica->number;
    message->epoch = (uint64_t)replica->epoch;
    message->memory = replica->memory;
    message->size = size;
    message->asked = asked;
    if (size > 0) {
        protobuf_c_message_pack(body, message->body);
    }
    return message;
}

static void hold(struct sim *sim, struct sim_replica *replica, struct sim_message *message,
                 bool fenced, bool changed)
{
    bool pending =
        changed || replica->ngathering > 0 || replica->nheld > 0 || replica->flight != NULL;
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

static void add_stream(struct sim_replica *replica, const struct sim_message *request,
                       const char *topic)
{
    struct sim_stream *stream = NULL;

    for (size_t i = 0; i < replica->nstreams; i++) {
        if (replica->streams[i].is_worker == request->is_worker &&
            replica->streams[i].actor == request->actor) {
            stream = &replica->streams[i];
        }
    }
    if (stream == NULL) {
        stream = &replica->streams[replica->nstreams++];
    }
    *stream = (struct sim_stream){request->is_worker, request->actor, request->actor_life,
                                  request->call, ""};
    snprintf(stream->topic, sizeof stream->topic, "%s", topic);
}

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

void sim_streams_break(struct sim *sim, struct sim_replica *replica)
{
    for (size_t i = 0; i < replica->nstreams; i++) {
        const struct sim_stream *stream = &replica->streams[i];
        struct broken *broken = mr_malloc(sizeof *broken);

        MR_ASSERT(broken != NULL);
        *broken = (struct broken){stream->is_worker, stream->actor, stream->call};
        sim_after(sim, sim_delay(sim), NULL, broke, broken, true);
    }
    replica->nstreams = 0;
}

static void push(struct sim *sim, struct sim_replica *replica, const struct mr_effect *effect,
                 bool changed)
{
    bool for_worker = effect->kind == MR_EFFECT_PUSH_WORKER;

    for (size_t i = 0; i < replica->nstreams; i++) {
        const struct sim_stream *stream = &replica->streams[i];

        if (stream->is_worker != for_worker || strcmp(stream->topic, effect->topic) != 0) {
            continue;
        }
        struct sim_message *message = make_message(replica, effect->message, 0);

        message->kind = for_worker ? MR_COMMAND_WATCH_WORKER : MR_COMMAND_WATCH_CLIENT;
        message->is_worker = for_worker;
        message->actor = stream->actor;
        message->actor_life = stream->actor_life;
        message->stream = stream->call;
        hold(sim, replica, message, effect->fenced, changed);
    }
}

static void reply(struct sim *sim, struct sim_replica *replica, const struct sim_message *request,
                  const struct mr_effect *effect, bool changed)
{
    bool splits = request->kind == MR_COMMAND_GET_SPLITS;
    struct sim_message *message =
        make_message(replica, effect->message, splits ? request->size : 0);

    message->kind = request->kind;
    message->is_worker = request->is_worker;
    message->actor = request->actor;
    message->actor_life = request->actor_life;
    message->call = request->call;
    message->error = effect->error;
    memcpy(message->body + message->size, request->body, message->asked);
    if (splits && effect->error.code == MR_OK) {
        sim_check_decided(sim, replica, request);
    }
    hold(sim, replica, message, effect->fenced, changed);
}

static void run_step(struct sim *sim, struct sim_replica *replica, struct mr_command *command,
                     const struct sim_message *request)
{
    struct mr_outcome out = {0};
    mr_error err = {0};
    bool changed, resigns = false;

    if (sim->bug == SIM_BUG_DECIDE_ON_COMMITTED) {
        mr_core_free(replica->core);
        replica->core = sim_replica_load(sim, replica,
                                         (uint64_t)replica->epoch * 1000000 +
                                             ++sim->order); /* so that ids differ */
        if (replica->core == NULL) {
            return;
        }
    }
    command->now_ms = sim->now + replica->clock_origin;
    command->wall_ms = 1700000000000 + sim->now + replica->wall_skew;
    command->late_ms = sim->bug == SIM_BUG_LATENESS_IGNORED ? 0 : replica->late_ms;
    command->seed = mr_rng_next(&sim->rng);
    replica->late_ms = 0;
    if (mr_core_step(replica->core, command, &out, &err) < 0 ||
        mr_core_check(replica->core, &err) < 0) {
        sim_violation(sim, "the core: %s", err.message);
        mr_outcome_clear(&out);
        return;
    }
    changed = out.nchanges > 0;
    if (command->kind == MR_COMMAND_TIMER) {
        sim_check_timer(sim, replica, &out);
    }
    for (size_t i = 0; i < out.nchanges; i++) {
        sim_replica_gather(replica, out.changes[i].key, out.changes[i].value);
    }
    out.nchanges = 0; /* taken */
    for (size_t i = 0; i < out.neffects; i++) {
        if (out.effects[i].kind == MR_EFFECT_REPLY) {
            reply(sim, replica, request, &out.effects[i], changed);
        } else if (out.effects[i].kind == MR_EFFECT_PUSH_WORKER ||
                   out.effects[i].kind == MR_EFFECT_PUSH_ITERATION) {
            push(sim, replica, &out.effects[i], changed);
        }
        resigns = resigns || out.effects[i].kind == MR_EFFECT_RESIGN;
    }
    mr_outcome_clear(&out);
    if (resigns) {
        sim_replica_resign(sim, replica);
    }
}

/* The edge of a real dispatcher parses definitions; here the table of datasets stands for that. */
static void register_dataset(struct sim *sim, struct sim_replica *replica,
                             const struct sim_message *request,
                             const Millrace__RegisterDatasetRequest *in)
{
    static const uint64_t split_elements[SIM_PROVIDERS_MAX] = {SIM_SPLIT_ELEMENTS,
                                                               SIM_SPLIT_ELEMENTS};
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
        .definition_size = 10,
        .compression = "AUTO",
        .spec = "s",
        .spec_size = 1,
        .providers = dataset->splits,
        .nproviders = dataset->nproviders,
        .split_elements = split_elements,
        .summary = dataset->id,
        .ignores_errors = dataset->ignores_errors,
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

/* The wrong way: a repeated request is only answered. */
static void forget_report(const struct sim *sim, Millrace__GetSplitsRequest *request)
{
    if (request->report != NULL && sim_was_decided(sim, request)) {
        protobuf_c_message_free_unpacked(&request->report->base, NULL);
        request->report = NULL;
    }
}

static void serve(struct sim *sim, struct sim_replica *replica, const struct sim_message *request)
{
    ProtobufCMessage *body = protobuf_c_message_unpack(sim_request_type(request->kind), NULL,
                                                       request->size, request->body);
    struct mr_command command = {.kind = request->kind};

    MR_ASSERT(body != NULL);
    if (request->kind == MR_COMMAND_REGISTER_DATASET) {
        register_dataset(sim, replica, request, (Millrace__RegisterDatasetRequest *)body);
    } else {
        command.open =
            (Millrace__OpenRequest *)body; /* all members of the union are such pointers */
        if (request->kind == MR_COMMAND_GET_SPLITS && sim->bug == SIM_BUG_REPORTS_AFTER_SEQ) {
            forget_report(sim, (Millrace__GetSplitsRequest *)body);
        }
        if (request->kind == MR_COMMAND_WATCH_CLIENT) {
            add_stream(replica, request, command.watch_client->iteration_id);
        } else if (request->kind == MR_COMMAND_WATCH_WORKER) {
            add_stream(replica, request, command.watch_worker->incarnation);
        }
        run_step(sim, replica, &command, request);
    }
    protobuf_c_message_free_unpacked(body, NULL);
}

/* Sent back unopened: it does not lead, or takes nothing in at the moment. */
static void turn_away(struct sim *sim, struct sim_replica *replica,
                      const struct sim_message *request)
{
    struct sim_message *message = make_message(replica, NULL, 0);

    message->kind = request->kind;
    message->is_worker = request->is_worker;
    message->actor = request->actor;
    message->actor_life = request->actor_life;
    message->call = request->call;
    message->not_leader = true;
    sim_send(sim, message);
}

static void take_message(struct sim *sim, struct sim_replica *replica,
                         const struct sim_message *request)
{
    if (replica->role != SIM_LEADING) {
        turn_away(sim, replica, request);
    } else if (replica->flight != NULL && sim->now - replica->flight_sent > STALLED_MS) {
        sim_rare(sim, SIM_RARE_ADMISSION);
        turn_away(sim, replica, request);
    } else {
        sim_check_heard(sim, replica, request);
        serve(sim, replica, request);
    }
}

static void take_messages(struct sim *sim, struct sim_replica *replica)
{
    for (size_t i = 0; i < replica->nmailbox; i++) {
        struct sim_message *request = replica->mailbox[i];

        replica->mailbox[i] = NULL;
        take_message(sim, replica, request);
        mr_free(request);
    }
    replica->nmailbox = 0;
}

/* ---------------------------------------------------------------- turns */

static void turn(struct sim *sim, void *arg);

static void turn_at(struct sim *sim, struct sim_replica *replica, int64_t at)
{
    if (at < replica->turn_due) {
        replica->turn_due = at;
        sim_at(sim, at < replica->busy_until ? replica->busy_until : at, &replica->process, turn,
               replica, false);
    }
}

/* Takes a copy. */
void sim_replica_message(struct sim *sim, struct sim_replica *replica,
                         const struct sim_message *request)
{
    if (replica->nmailbox == replica->cap_mailbox) {
        replica->cap_mailbox = 2 * replica->cap_mailbox + 8;
        replica->mailbox =
            mr_reallocarray(replica->mailbox, replica->cap_mailbox, sizeof *replica->mailbox);
        MR_ASSERT(replica->mailbox != NULL);
    }
    replica->mailbox[replica->nmailbox] = mr_memdup(request, sizeof *request + request->size);
    MR_ASSERT(replica->mailbox[replica->nmailbox] != NULL);
    replica->nmailbox++;
    turn_at(sim, replica, sim->now);
}

static void run_timers(struct sim *sim, struct sim_replica *replica)
{
    for (int i = 0; i < 8 && replica->role == SIM_LEADING; i++) {
        struct mr_command timer = {.kind = MR_COMMAND_TIMER};

        if (mr_core_next_timer(replica->core) > sim->now + replica->clock_origin) {
            break;
        }
        run_step(sim, replica, &timer, NULL);
    }
}

/* What is done now and then: the lease, and the right to answer from memory. */
static void tick(struct sim *sim, struct sim_replica *replica)
{
    if (replica->role == SIM_STANDBY) {
        sim_store_campaign(sim, replica);
        return;
    }
    sim_store_renew(sim, replica);
    if (replica->role == SIM_LEADING && replica->flight == NULL &&
        sim->now - replica->fenced_at > SIM_LEASE_MS / 4) {
        sim_replica_commit(sim, replica); /* a no-op if nothing has gathered */
    }
}

/* How late it is: the last turn took long, or the process did not run. */
static void measure(struct sim *sim, struct sim_replica *replica)
{
    int64_t late = sim->now - replica->turn_due;

    if (late >= LATE_MS_MIN) {
        sim_rare(sim, SIM_RARE_LATE_TURN);
        replica->late_ms += late;
        replica->stood_still += late;
        if (replica->role == SIM_LEADING && sim->store.leader_create != replica->epoch) {
            sim_rare(sim, SIM_RARE_PAUSED_BEYOND_LEASE);
        } else if (replica->role == SIM_LEADING && late >= SIM_WORKER_TIMEOUT_MS) {
            sim_rare(sim, SIM_RARE_PAUSED_WITH_LEASE);
        }
    }
    replica->turn_due = INT64_MAX;
}

static void turn(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;

    if (replica->turn_due > sim->now) {
        return; /* the turn it was for was taken earlier */
    }
    measure(sim, replica);
    if (sim->bug == SIM_BUG_TIMERS_FIRST) {
        run_timers(sim, replica);
    }
    take_messages(sim, replica);
    run_timers(sim, replica);
    if (sim->now >= replica->next_tick) {
        replica->next_tick += (sim->now - replica->next_tick) / TICK_MS * TICK_MS + TICK_MS;
        tick(sim, replica);
    }
    sim_replica_pump(sim, replica);
    if (sim_draw(sim, 1000) < sim->faults.late_turn_permille) {
        replica->busy_until =
            sim->now + 50 + (int64_t)sim_draw(sim, sim_chance(sim, 2) ? 1500 : LATE_MS_MIN - 60);
    }
    turn_at(sim, replica, replica->next_tick);
}

void sim_replica_start(struct sim *sim, struct sim_replica *replica)
{
    replica->process.alive = true;
    replica->process.life++;
    replica->process.frozen_until = 0;
    replica->clock_origin = sim->plain ? 0 : (int64_t)sim_draw(sim, 1000000000);
    replica->wall_skew = sim->plain ? 0 : (int64_t)sim_draw(sim, 2000) - 1000;
    replica->busy_until = 0;
    replica->turn_due = INT64_MAX;
    replica->next_tick =
        sim->now + (sim->plain ? 10 * replica->number : (int64_t)sim_draw(sim, TICK_MS));
    turn_at(sim, replica, replica->next_tick);
}
