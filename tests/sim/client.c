/* A client: reads repetition after repetition of its job, each with a read of its own
 * (src/client/read). What the read asks of dispatchers goes out as calls, one at a time; the watch
 * is a call whose answer is followed by pushes. */
#include "sim.h"

#include "dispatcher/turn/method.h"

static void do_register(struct sim *sim, struct sim_client *client)
{
    Millrace__RegisterDatasetRequest request = MILLRACE__REGISTER_DATASET_REQUEST__INIT;

    request.dataset_id = (char *)(uintptr_t)sim->datasets[client->plan.dataset].id;
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_REGISTER_DATASET,
             &request.base);
}

static void do_watch(struct sim *sim, struct sim_client *client)
{
    Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;

    client->unwatched = false;
    request.client = client->id;
    request.iteration_id = client->iteration;
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_WATCH_CLIENT, &request.base);
}

/* ---------------------------------------------------------------- one repetition after the
 * other */

static void begin_read(struct sim *sim, struct sim_client *client)
{
    const struct sim_plan *plan = &client->plan;
    struct mr_read *r = &client->read;

    sim_reader_reset(client);
    memset(r, 0, sizeof *r);
    r->port = &sim_reader_port;
    r->now_ms = sim->now + 1;
    mr_rng_seed(&r->rng, (uint64_t)client->number);
    snprintf(r->client, sizeof r->client, "%s", client->id);
    r->opts = (struct mr_read_options){
        .service = (char *)"sim",
        .job.base = PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor),
        .job.mode = plan->dynamic ? MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC
                                  : MILLRACE__PROCESSING_MODE__PROCESSING_OFF,
        .job.guarantee =
            plan->repeats ? MILLRACE__GUARANTEE__AT_LEAST_ONCE : MILLRACE__GUARANTEE__AT_MOST_ONCE,
        .on_loss = MR_ON_LOSS_REPORT,
        .job.name = (char *)(uintptr_t)plan->job,
        .job.trainer = (char *)(uintptr_t)plan->trainer,
        .job.sharing = plan->shares && plan->trainer[0] == '\0' ? MILLRACE__SHARING__SHARING_AUTO
                                                                : MILLRACE__SHARING__SHARING_OFF,
        .job.lag = plan->waits ? MILLRACE__LAG__LAG_WAIT : MILLRACE__LAG__LAG_SKIP,
        .connect_timeout_ms = INT64_MAX / 4,
        .heartbeat_ms = SIM_HEARTBEAT_MS,
        .repetition = client->repetition,
        .job.num_consumers = plan->consumers,
        .consumer_index = plan->seat,
        .max_outstanding = sim->rounds.ahead,
        .resumes = plan->resumes,
        .resume_round = plan->resume_round,
        .dataset_id = (char *)(uintptr_t)sim->datasets[plan->dataset].id};

    sim_must(mr_read_init(r, NULL));
    client->has_read = true;
    client->attached = false;
    client->stream = 0;
    if (plan->job[0] == '\0' && client->job_id[0] != '\0') { /* It moves on within its own job. */
        r->job_id = mr_strdup(client->job_id);
    }
}

static void next_repetition(struct sim *sim, struct sim_client *client)
{
    sim_reader_reset(client);
    client->attached = false;
    client->iteration[0] = '\0';
    client->repetition++;
    if (client->repetition >= client->plan.repetitions) {
        client->done = true;
        sim_say(sim, "client %d: has read everything", client->number);
        return;
    }
    begin_read(sim, client);
}

void sim_client_drained(struct sim *sim, struct sim_client *client)
{
    sim_say(sim, "client %d: end of repetition %llu", client->number,
            (unsigned long long)client->repetition);
    sim->ends++;
}

/* The application closes it. An anonymous job goes with its client: that one moves from repetition
 * to repetition and leaves at the last. */
static void close_read(struct sim *sim, struct sim_client *client)
{
    bool last = client->repetition + 1 >= client->plan.repetitions;
    ProtobufCMessage *release =
        client->plan.job[0] != '\0' || last ? mr_read_release(&client->read) : NULL;

    if (release == NULL) {
        next_repetition(sim, client);
        return;
    }
    client->releasing = true;
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_RELEASE_CLIENT, release);
    protobuf_c_message_free_unpacked(release, NULL);
}

static enum mr_command_kind kind_of(const ProtobufCMessage *request)
{
    const struct mr_method *method = mr_methods;

    while (method->request != request->descriptor) {
        method++;
    }
    return method->command;
}

/* What its session does next, as far as it can. When it is to be looked at again. */
static int64_t run_session(struct sim *sim, struct sim_client *client)
{
    struct mr_read_step step;

    while (client->has_read && client->control.id == 0) {
        if (client->unwatched) {
            do_watch(sim, client);
            break;
        }
        mr_read_next_step(&client->read, &step);
        if (step.kind == MR_READ_STEP_WAIT) {
            return step.until_ms;
        }
        if (step.kind == MR_READ_STEP_OUT && !client->ended) {
            break; /* The application still takes. */
        }
        if (step.kind == MR_READ_STEP_OUT) {
            close_read(sim, client);
        } else if (step.kind == MR_READ_STEP_UNWATCH) {
            client->stream = 0;
        } else {
            client->attached = client->attached && client->read.phase != MR_READ_OPENS;
            if (step.request->descriptor == &millrace__client_heartbeat_request__descriptor) {
                sim_rounds_spoil_report(client,
                                        ((Millrace__ClientHeartbeatRequest *)step.request)->rounds);
            }
            sim_call(sim, &client->control, false, client->number, kind_of(step.request),
                     step.request);
            protobuf_c_message_free_unpacked(step.request, NULL);
        }
    }
    return INT64_MAX;
}

static void run_later(struct sim *sim, void *arg)
{
    struct sim_client *client = arg;

    if (sim->now >= client->run_at) {
        sim_client_run(sim, client);
    }
}

void sim_client_run(struct sim *sim, struct sim_client *client)
{
    int64_t next = INT64_MAX;

    for (int i = 0; i < 3 && client->has_read; i++) { /* One thing leads to another. */
        struct mr_read *r = &client->read;

        r->now_ms = sim->now + 1;
        r->wakes = 0;
        sim_reader_tidy(sim, client);
        next = run_session(sim, client);
        if (!client->has_read) {
            return;
        }
        int64_t due = mr_read_tick(r);

        next = MR_MIN(due, next) - 1;
        if ((r->wakes & (MR_READ_WAKE_ATTACH | MR_READ_WAKE_TICK)) == 0) {
            break;
        }
    }
    if (!client->has_read) {
        return;
    }
    sim_reader_come(sim, client);
    if (next < INT64_MAX - 1 && (client->run_at <= sim->now || next < client->run_at)) {
        client->run_at = next > sim->now ? next : sim->now + 1;
        sim_at(sim, client->run_at, &client->process, run_later, client, false);
    }
}

/* ---------------------------------------------------------------- what comes */

static void apply_update(struct sim *sim, struct sim_client *client,
                         const struct sim_message *message)
{
    Millrace__ClientUpdate *update =
        millrace__client_update__unpack(NULL, message->size, message->body);

    if (message->call != 0) {
        client->stream = message->call;
        client->stream_epoch = message->epoch;
    }
    if (message->call != 0 ||
        (client->stream == message->stream && update->follows == client->version)) {
        client->version = update->version;
        sim_check_client_update(sim, client, update);
        if (update->rounds != NULL) {
            sim_rounds_spoil_update(sim, client, update->rounds);
        }
        mr_read_updated(&client->read, update);
        sim_reader_come(sim, client);
    }
    millrace__client_update__free_unpacked(update, NULL);
}

static void on_push(struct sim *sim, const struct sim_message *message)
{
    struct sim_client *client = &sim->clients[message->actor];

    if (client->has_read && client->attached && client->stream != 0) {
        client->read.now_ms = sim->now + 1;
        apply_update(sim, client, message);
        sim_client_run(sim, client);
    }
}

static void opened(struct sim *sim, struct sim_client *client, const struct sim_call *call,
                   const Millrace__OpenReply *reply)
{
    sim_check_opened(sim, client, reply);
    if (reply->finished && !client->read.attached) {
        sim_say(sim, "client %d: repetition %llu has ended already", client->number,
                (unsigned long long)client->repetition);
        snprintf(client->job_id, sizeof client->job_id, "%s", reply->job_id);
        next_repetition(sim, client);
        return;
    }
    snprintf(client->job_id, sizeof client->job_id, "%s", reply->job_id);
    snprintf(client->iteration, sizeof client->iteration, "%s", reply->iteration_id);
    client->stream = 0;
    if (!reply->finished) { /* Else it is attached to nothing by that. */
        client->last_ok = call->began;
        client->attached = true;
    }
    mr_read_answered(&client->read, MR_OK, &reply->base, NULL);
}

static void begin(struct sim *sim, struct sim_client *client)
{
    sim_reader_reset(client);
    sim_hex_id(sim, client->id);
    client->repetition = 0;
    client->job_id[0] = '\0';
    client->iteration[0] = '\0';
    client->attached = false;
    client->stream = 0;
    client->run_at = 0;
    client->ndoubts = 0;
    sim_name(sim, client->id, 'c', client->number);
    sim_say(sim, "client %d: starts", client->number);
    do_register(sim, client);
}

static void failed(struct sim *sim, struct sim_client *client, const struct sim_message *message)
{
    if (client->plan.consumers > 0 && message->kind == MR_COMMAND_OPEN) {
        mr_read_answered(&client->read, message->error.code, NULL, &message->error);
    } else if (message->kind == MR_COMMAND_OPEN && message->error.code == MR_EPRECOND &&
               client->iteration[0] != '\0') {
        sim_check_client_gone(sim, client);
        sim_rare(sim, SIM_RARE_COLLECTED);
        sim_say(sim, "client %d: %s", client->number, message->error.message);
        next_repetition(sim, client);
    } else if (message->error.code != MR_ENOTFOUND) {
        sim_violation(sim, "client %d: %s", client->number, message->error.message);
    } else if (message->kind == MR_COMMAND_OPEN) {
        /* Its own anonymous job may have gone while it was silent; anything else was acknowledged
         * and must be there. */
        if (client->plan.job[0] != '\0' || client->job_id[0] == '\0') {
            sim_violation(sim, "client %d: %s", client->number, message->error.message);
        }
        sim_check_client_gone(sim, client);
        begin(sim, client);
    } else {
        sim_check_client_gone(sim, client);
        sim_rare(sim, SIM_RARE_CLIENT_BACK);
        if (client->releasing) {
            next_repetition(sim, client);
        } else if (message->kind == MR_COMMAND_WATCH_CLIENT) {
            mr_read_watch_refused(&client->read, &message->error);
        } else {
            mr_read_answered(&client->read, message->error.code, NULL, &message->error);
        }
    }
}

static void heard(struct sim *sim, struct sim_client *client, const struct sim_message *message,
                  const ProtobufCMessage *reply)
{
    if (message->kind == MR_COMMAND_RELEASE_CLIENT && client->releasing) {
        next_repetition(sim, client);
        return;
    }
    mr_read_answered(&client->read, MR_OK, reply, NULL);
    if (message->kind == MR_COMMAND_CLIENT_HEARTBEAT && !client->read.finished) {
        uint64_t version = ((const Millrace__ClientHeartbeatReply *)reply)->version;

        client->unwatched = client->stream == 0 || message->epoch != client->stream_epoch ||
                            version != client->version;
    }
}

static void on_reply(struct sim *sim, struct sim_call *call, const struct sim_message *message)
{
    struct sim_client *client = &sim->clients[message->actor];

    client->read.now_ms = sim->now + 1;
    if (message->kind == MR_COMMAND_REGISTER_DATASET) {
        sim_check_dataset(sim, sim->datasets[client->plan.dataset].id, &message->error);
    }
    if (message->error.code < 0) {
        failed(sim, client, message);
        sim_client_run(sim, client);
        return;
    }
    client->last_ok = message->kind != MR_COMMAND_OPEN ? call->began : client->last_ok;
    if (message->kind == MR_COMMAND_REGISTER_DATASET) {
        begin_read(sim, client);
    } else if (message->kind == MR_COMMAND_WATCH_CLIENT) {
        apply_update(sim, client, message);
    } else {
        ProtobufCMessage *reply = protobuf_c_message_unpack(dispatcher_method(message->kind)->reply,
                                                            NULL, message->size, message->body);

        if (message->kind == MR_COMMAND_OPEN) {
            opened(sim, client, call, (const Millrace__OpenReply *)reply);
        } else {
            heard(sim, client, message, reply);
        }
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    sim_client_run(sim, client);
}

void sim_client_start(struct sim *sim, struct sim_client *client)
{
    static const struct sim_party party = {
        .push = on_push, .reply = on_reply, .data = sim_reader_data};

    if (client->process.alive) {
        return;
    }
    client->process.party = &party;
    client->process.alive = true;
    client->process.life++;
    client->process.frozen_until = 0;
    client->epoch = 0;
    client->leader = sim->plain ? client->leader : (int)sim_draw(sim, SIM_REPLICAS);
    begin(sim, client);
}

static void be_gone(struct sim_client *client)
{
    client->process.alive = false;
    client->process.life++;
    sim_call_cancel(&client->control);
    sim_reader_reset(client);
    client->coming = false;
}

void sim_client_stop(struct sim *sim, struct sim_client *client)
{
    sim->clients_lost = true;
    sim_say(sim, "client %d: stops", client->number);
    be_gone(client);
}

void sim_client_again(struct sim_client *client)
{
    MR_ASSERT(client->done);
    be_gone(client);
    client->done = false;
}
