/* What workers and clients have in common: messages on a bad network, and calls that are repeated
 * until answered. */
#include "sim.h"

/* ---------------------------------------------------------------- the network */

static void actor_message(struct sim *sim, struct sim_message *message);

static void delivered(struct sim *sim, void *arg)
{
    struct sim_message *message = arg;

    if (sim->now - message->sent_at >= 60000 && !message->reply) {
        sim_rare(sim, SIM_RARE_MINUTES_LATE);
    }
    if (!message->reply) {
        sim->replicas[message->replica].process.party->request(sim, message);
    } else {
        actor_message(sim, message);
    }
}

static struct sim_process *process_of(struct sim *sim, bool is_worker, int actor)
{
    return is_worker ? &sim->workers[actor].process : &sim->clients[actor].process;
}

static void send_copy(struct sim *sim, const struct sim_message *message, struct sim_process *to,
                      int64_t after_ms)
{
    sim_later(sim, after_ms, to, delivered, message,
              sizeof *message + message->size + message->asked);
    if (!message->reply) {
        sim_rare(sim, SIM_RARE_DUPLICATE);
    }
}

/* Takes @message. */
void sim_send(struct sim *sim, struct sim_message *message)
{
    struct sim_process *to = message->reply ? process_of(sim, message->is_worker, message->actor)
                                            : &sim->replicas[message->replica].process;
    int actor =
        message->is_worker ? SIM_NODE_WORKER(message->actor) : SIM_NODE_CLIENT(message->actor);
    int replica = SIM_NODE_REPLICA(message->replica);

    message->sent_at = sim->now;
    if (sim_chance(sim, sim->faults.duplicate_percent)) {
        send_copy(sim, message, to, (int64_t)(1 + sim_draw(sim, 6000)));
    }
    if (sim_draw(sim, 1000) < sim->faults.minutes_permille) {
        send_copy(sim, message, to, (int64_t)(60000 + sim_draw(sim, 120000)));
    }
    if (sim_chance(sim, sim->faults.loss_percent) ||
        (message->reply && sim_chance(sim, sim->faults.reply_loss_percent)) ||
        (message->reply ? sim_is_cut(sim, replica, actor) : sim_is_cut(sim, actor, replica))) {
        mr_free(message);
        return;
    }
    sim_after(sim, sim_delay(sim), to, delivered, message, true);
}

static void data_came(struct sim *sim, void *arg)
{
    const struct sim_data *data = arg;
    struct sim_worker *worker = &sim->workers[data->worker];
    struct sim_client *client = &sim->clients[data->client];

    if (!data->reply && worker->process.life == data->worker_life) {
        worker->process.party->data(sim, data);
    } else if (data->reply && client->process.life == data->client_life) {
        client->process.party->data(sim, data);
    }
}

static void send_data_copy(struct sim *sim, const struct sim_data *data, int64_t after_ms)
{
    struct sim_process *to =
        data->reply ? &sim->clients[data->client].process : &sim->workers[data->worker].process;

    sim_later(sim, after_ms, to, data_came, data,
              sizeof *data + data->n * sizeof data->elements[0]);
}

void sim_data_send(struct sim *sim, const struct sim_data *data)
{
    int worker = SIM_NODE_WORKER(data->worker), client = SIM_NODE_CLIENT(data->client);

    if (sim_chance(sim, sim->faults.duplicate_percent)) {
        send_data_copy(sim, data, (int64_t)(1 + sim_draw(sim, 6000)));
    }
    if (!sim_chance(sim, sim->faults.loss_percent) &&
        !(data->reply ? sim_is_cut(sim, worker, client) : sim_is_cut(sim, client, worker))) {
        send_data_copy(sim, data, sim_delay(sim));
    }
}

/* ---------------------------------------------------------------- calls */

struct retry {
    struct sim_call *call;
    uint64_t id;
    unsigned tries; /* of several timers that wait, the first one wins */
    bool is_worker;
    int actor;
};

static int *leader_of(struct sim *sim, bool is_worker, int actor)
{
    return is_worker ? &sim->workers[actor].leader : &sim->clients[actor].leader;
}

static void attempt(struct sim *sim, struct sim_call *call, bool is_worker, int actor);

static void try_again(struct sim *sim, void *arg)
{
    struct retry *retry = arg;
    int *leader = leader_of(sim, retry->is_worker, retry->actor);

    if (retry->call->id == retry->id && retry->call->tries == retry->tries) {
        *leader = (*leader + 1) % SIM_REPLICAS;
        if (retry->call->refresh != NULL) {
            retry->call->refresh(sim, retry->call);
        }
        attempt(sim, retry->call, retry->is_worker, retry->actor);
    }
}

static void retry_in(struct sim *sim, int64_t ms, struct sim_call *call, bool is_worker, int actor)
{
    struct retry retry = {call, call->id, call->tries, is_worker, actor};

    sim_later(sim, ms, process_of(sim, is_worker, actor), try_again, &retry, sizeof retry);
}

static void attempt(struct sim *sim, struct sim_call *call, bool is_worker, int actor)
{
    struct sim_message *message = sim_got(mr_calloc(1, sizeof *message + call->size));

    message->kind = call->kind;
    message->is_worker = is_worker;
    message->actor = actor;
    message->actor_life = process_of(sim, is_worker, actor)->life;
    message->replica = *leader_of(sim, is_worker, actor);
    message->call = call->id;
    message->size = call->size;
    memcpy(message->body, call->body, call->size);
    call->tries++;
    sim_send(sim, message);
    retry_in(sim, SIM_RPC_TIMEOUT_MS + (int64_t)sim_draw(sim, 100), call, is_worker, actor);
}

void sim_call_cancel(struct sim_call *call)
{
    mr_free(call->body);
    *call = (struct sim_call){0};
}

/* With what every request says: of which cluster, and who it is. */
static void pack(struct sim *sim, bool is_worker, int actor, const ProtobufCMessage *request,
                 struct mr_buf *out)
{
    const char *id = is_worker ? sim->workers[actor].incarnation : sim->clients[actor].id;
    const struct mr_identity *identity = sim_identity(sim, id);
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;
    Millrace__OpenRequest *r = (Millrace__OpenRequest *)(uintptr_t)request; /* all have one there */

    header.cluster = (char *)(uintptr_t)SIM_CLUSTER;
    if (identity != NULL) {
        header.key = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)identity->key,
                                           .len = sizeof identity->key};
    }
    r->header = &header;
    if (request->descriptor == &millrace__register_dataset_request__descriptor) {
        Millrace__RegisterDatasetRequest *d = (Millrace__RegisterDatasetRequest *)r;

        d->definition = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "def", .len = 3};
        d->compression = (char *)(uintptr_t) "AUTO";
    }
    void *p = sim_got(mr_buf_reserve(out, protobuf_c_message_get_packed_size(request) + 1));

    out->len = protobuf_c_message_pack(request, p);
    r->header = NULL;
}

void sim_call(struct sim *sim, struct sim_call *call, bool is_worker, int actor,
              enum mr_command_kind kind, const ProtobufCMessage *request)
{
    struct mr_buf body = MR_BUF_INIT;

    sim_call_cancel(call);
    call->id = ++sim->calls;
    call->kind = kind;
    pack(sim, is_worker, actor, request, &body);
    call->body = mr_buf_take(&body, &call->size);
    call->began = sim->now;
    attempt(sim, call, is_worker, actor);
}

void sim_probe(struct sim *sim, int client, int replica, enum mr_command_kind kind,
               const ProtobufCMessage *request)
{
    struct mr_buf body = MR_BUF_INIT;
    struct sim_message *message;

    pack(sim, false, client, request, &body);
    message = sim_got(mr_calloc(1, sizeof *message + body.len));
    memcpy(message->body, body.data, body.len);
    message->size = body.len;
    mr_buf_free(&body);
    message->kind = kind;
    message->actor = client;
    message->actor_life = sim->clients[client].process.life;
    message->replica = replica;
    message->call = ++sim->calls;
    sim->probe = message->call;
    sim->probe_answers = 0;
    sim_send(sim, message);
}

/* The call of this actor that @message answers. */
static struct sim_call *find_call(struct sim *sim, const struct sim_message *message)
{
    if (!message->is_worker) {
        struct sim_call *call = &sim->clients[message->actor].control;

        return call->id == message->call ? call : NULL;
    }
    struct sim_worker *worker = &sim->workers[message->actor];

    if (worker->control.id == message->call) {
        return &worker->control;
    }
    for (int i = 0; i < worker->used; i++) {
        if (worker->tasks[i].call.id == message->call) {
            return &worker->tasks[i].call;
        }
    }
    return NULL;
}

static void actor_message(struct sim *sim, struct sim_message *message)
{
    struct sim_process *process = process_of(sim, message->is_worker, message->actor);
    uint64_t *epoch = message->is_worker ? &sim->workers[message->actor].epoch
                                         : &sim->clients[message->actor].epoch;
    struct sim_call *call = NULL;

    if (process->life != message->actor_life) {
        return;
    }
    if (message->call != 0 && message->call == sim->probe && !message->not_leader) {
        sim->probe_answers++;
        sim->probe_code = message->error.code;
        return;
    }
    if (message->call != 0) {
        call = find_call(sim, message);
        if (call == NULL) {
            return; /* a copy, or an answer nobody waits for any more */
        }
    }
    if (message->not_leader) {
        if (strstr(message->error.message, "are being asked where they are") != NULL) {
            sim_rare(sim, SIM_RARE_ROUNDS_ASKED);
        }
        retry_in(sim, (int64_t)(10 + sim_draw(sim, 30)), call, message->is_worker, message->actor);
        return;
    }
    if (message->epoch < *epoch) {
        return; /* from a leader that was replaced */
    }
    *epoch = message->epoch;
    if (message->call == 0) {
        process->party->push(sim, message);
        return;
    }
    call->id = 0;
    process->party->reply(sim, call, message);
}
