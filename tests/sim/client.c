/* A reader: registers its dataset, opens repetition after repetition of its job and waits for each
 * to finish. */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>
#include <string.h>

static void do_register(struct sim *sim, struct sim_client *client)
{
    Millrace__RegisterDatasetRequest request = MILLRACE__REGISTER_DATASET_REQUEST__INIT;

    request.dataset_id = (char *)(uintptr_t)sim->datasets[client->plan.dataset].id;
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_REGISTER_DATASET,
             &request.base);
}

static void do_open(struct sim *sim, struct sim_client *client)
{
    Millrace__OpenRequest request = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;

    client->attached = false;
    spec.name = client->plan.job;
    spec.guarantee = client->plan.repeats ? MILLRACE__GUARANTEE__AT_LEAST_ONCE
                                          : MILLRACE__GUARANTEE__AT_MOST_ONCE;
    spec.mode = client->plan.dynamic ? MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC
                                     : MILLRACE__PROCESSING_MODE__PROCESSING_OFF;
    spec.trainer = client->plan.trainer;
    spec.sharing = client->plan.shares && client->plan.trainer[0] == '\0'
                       ? MILLRACE__SHARING__SHARING_AUTO
                       : MILLRACE__SHARING__SHARING_OFF;
    spec.lag = client->plan.waits ? MILLRACE__LAG__LAG_WAIT : MILLRACE__LAG__LAG_SKIP;
    request.client = client->id;
    request.dataset_id = (char *)(uintptr_t)sim->datasets[client->plan.dataset].id;
    request.job = &spec;
    request.repetition = client->repetition;
    request.job_id = client->job_id;
    request.iteration_id = client->iteration; /* if it was attached to it before */
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_OPEN, &request.base);
}

static void do_watch(struct sim *sim, struct sim_client *client)
{
    Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;

    request.client = client->id;
    request.iteration_id = client->iteration;
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_WATCH_CLIENT, &request.base);
}

static void do_release(struct sim *sim, struct sim_client *client)
{
    Millrace__ReleaseClientRequest request = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;

    client->attached = false;
    request.client = client->id;
    request.iteration_id = client->iteration;
    sim_call(sim, &client->control, false, client->number, MR_COMMAND_RELEASE_CLIENT,
             &request.base);
}

static void heartbeat(struct sim *sim, void *arg)
{
    struct sim_client *client = arg;
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    char *unreachable[16];

    if (client->control.id == 0 && client->attached) {
        request.client = client->id;
        request.iteration_id = client->iteration;
        request.unreachable = unreachable;
        request.n_unreachable = sim_reader_unreachable(sim, client, unreachable,
                                                       sizeof unreachable / sizeof unreachable[0]);
        sim_call(sim, &client->control, false, client->number, MR_COMMAND_CLIENT_HEARTBEAT,
                 &request.base);
    }
}

static void heartbeat_later(struct sim *sim, struct sim_client *client)
{
    sim_after(sim, SIM_HEARTBEAT_MS, &client->process, heartbeat, client, false);
}

/* ---------------------------------------------------------------- one repetition after the
 * other */

static void next_repetition(struct sim *sim, struct sim_client *client)
{
    client->attached = false;
    client->iteration[0] = '\0';
    sim_reader_reset(client);
    client->repetition++;
    if (client->repetition >= client->plan.repetitions) {
        client->done = true;
        sim_say(sim, "client %d: has read everything", client->number);
        return;
    }
    do_open(sim, client);
}

void sim_client_drained(struct sim *sim, struct sim_client *client)
{
    bool last = client->repetition + 1 >= client->plan.repetitions;

    sim_say(sim, "client %d: end of repetition %llu", client->number,
            (unsigned long long)client->repetition);
    sim->ends++;
    /* An anonymous job goes with its client: that one moves from repetition to repetition and
     * leaves at the last. */
    if (client->plan.job[0] != '\0' || last) {
        do_release(sim, client);
    } else {
        next_repetition(sim, client);
    }
}

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
        sim_reader_update(sim, client, update);
        if (update->finished) {
            client->attached = false;
            client->draining = true; /* the application has what is here first */
            if (sim_reader_is_empty(client)) {
                sim_client_drained(sim, client);
            } else {
                sim_reader_wake(sim, client);
            }
        }
    }
    millrace__client_update__free_unpacked(update, NULL);
}

void sim_client_push(struct sim *sim, struct sim_client *client, const struct sim_message *message)
{
    if (client->attached) {
        apply_update(sim, client, message);
    }
}

static void opened(struct sim *sim, struct sim_client *client, const struct sim_call *call,
                   const struct sim_message *message)
{
    Millrace__OpenReply *reply = millrace__open_reply__unpack(NULL, message->size, message->body);

    sim_check_opened(sim, client, reply);
    if (strcmp(client->iteration, reply->iteration_id) != 0) {
        sim_reader_reset(client);
    }
    snprintf(client->job_id, sizeof client->job_id, "%s", reply->job_id);
    snprintf(client->iteration, sizeof client->iteration, "%s", reply->iteration_id);
    client->stream = 0;
    if (reply
            ->finished) { /* it is attached to nothing by that: its own job may go, if it was silent
                             before */
        sim_say(sim, "client %d: repetition %llu has ended already", client->number,
                (unsigned long long)client->repetition);
        next_repetition(sim, client);
    } else {
        client->last_ok = call->began;
        client->attached = true;
        do_watch(sim, client);
    }
    millrace__open_reply__free_unpacked(reply, NULL);
}

static void begin(struct sim *sim, struct sim_client *client)
{
    sim_hex_id(sim, client->id);
    client->repetition = 0;
    client->job_id[0] = '\0';
    client->iteration[0] = '\0';
    client->attached = false;
    client->stream = 0;
    sim_reader_reset(client);
    sim_name(sim, client->id, 'c', client->number);
    sim_say(sim, "client %d: starts", client->number);
    do_register(sim, client);
}

static void failed(struct sim *sim, struct sim_client *client, const struct sim_message *message)
{
    if (message->kind == MR_COMMAND_OPEN && message->error.code == MR_EPRECOND &&
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
        do_open(sim, client);
    }
}

void sim_client_reply(struct sim *sim, struct sim_client *client, struct sim_call *call,
                      const struct sim_message *message)
{
    if (message->kind == MR_COMMAND_REGISTER_DATASET) {
        sim_check_dataset(sim, sim->datasets[client->plan.dataset].id, &message->error);
    }
    if (message->error.code < 0) {
        failed(sim, client, message);
        return;
    }
    client->last_ok = message->kind != MR_COMMAND_OPEN ? call->began : client->last_ok;
    if (message->kind == MR_COMMAND_REGISTER_DATASET) {
        do_open(sim, client);
    } else if (message->kind == MR_COMMAND_OPEN) {
        opened(sim, client, call, message);
    } else if (message->kind == MR_COMMAND_RELEASE_CLIENT) {
        next_repetition(sim, client);
    } else if (message->kind == MR_COMMAND_WATCH_CLIENT) {
        apply_update(sim, client, message);
        heartbeat_later(sim, client);
    } else {
        Millrace__ClientHeartbeatReply *reply =
            millrace__client_heartbeat_reply__unpack(NULL, message->size, message->body);

        if (client->stream == 0 || message->epoch != client->stream_epoch ||
            reply->version != client->version) {
            do_watch(sim, client);
        } else {
            heartbeat_later(sim, client);
        }
        millrace__client_heartbeat_reply__free_unpacked(reply, NULL);
    }
}

void sim_client_start(struct sim *sim, struct sim_client *client)
{
    if (client->process.alive) {
        return;
    }
    client->process.alive = true;
    client->process.life++;
    client->process.frozen_until = 0;
    client->epoch = 0;
    client->leader = sim->plain ? client->leader : (int)sim_draw(sim, SIM_REPLICAS);
    begin(sim, client);
}

void sim_client_stop(struct sim *sim, struct sim_client *client)
{
    sim->clients_lost = true;
    sim_say(sim, "client %d: stops", client->number);
    client->process.alive = false;
    client->process.life++;
    sim_call_cancel(&client->control);
    sim_reader_reset(client);
    client->reading = false;
}

void sim_client_again(struct sim_client *client)
{
    MR_ASSERT(client->done);
    client->process.alive = false;
    client->process.life++;
    sim_call_cancel(&client->control);
    sim_reader_reset(client);
    client->reading = client->draining = client->done = false;
}
