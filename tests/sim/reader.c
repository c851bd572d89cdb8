/*
 * The elements' way into an application: a reader asks each task of its iteration for more, says
 * what it has received and what the application has had, and returns elements one by one.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>
#include <string.h>

#define TURN_MS 100
#define WINDOW 12           /* elements that a task may send ahead */
#define UNREACHABLE_MS 1500 /* asked in vain for so long */

/* ---------------------------------------------------------------- messages, on a network as bad as
 * the other one */

static void delivered(struct sim *sim, void *arg)
{
    const struct sim_data *data = arg;
    struct sim_worker *worker = &sim->workers[data->worker];
    struct sim_client *client = &sim->clients[data->client];

    if (!data->reply && worker->process.life == data->worker_life) {
        sim_task_data(sim, worker, data);
    } else if (data->reply && client->process.life == data->client_life) {
        sim_reader_data(sim, client, data);
    }
}

static void deliver(struct sim *sim, const struct sim_data *data, int64_t after_ms)
{
    struct sim_process *to =
        data->reply ? &sim->clients[data->client].process : &sim->workers[data->worker].process;
    struct sim_data *copy = mr_memdup(data, sizeof *data + data->n * sizeof data->elements[0]);

    MR_ASSERT(copy != NULL);
    sim_after(sim, after_ms, to, delivered, copy, true);
}

void sim_data_send(struct sim *sim, const struct sim_data *data)
{
    int worker = SIM_NODE_WORKER(data->worker), client = SIM_NODE_CLIENT(data->client);

    if (sim_chance(sim, sim->faults.duplicate_percent)) {
        deliver(sim, data, (int64_t)(1 + sim_draw(sim, 6000)));
    }
    if (!sim_chance(sim, sim->faults.loss_percent) &&
        !(data->reply ? sim_is_cut(sim, worker, client) : sim_is_cut(sim, client, worker))) {
        deliver(sim, data, sim_delay(sim));
    }
}

/* ---------------------------------------------------------------- links */

static struct sim_link *find_link(struct sim_client *client, const char *task)
{
    for (size_t i = 0; i < client->nlinks; i++) {
        if (strcmp(client->links[i].task, task) == 0) {
            return &client->links[i];
        }
    }
    return NULL;
}

static struct sim_link *add_link(struct sim_client *client, const Millrace__TaskInfo *info)
{
    if (client->nlinks == client->cap_links) {
        client->cap_links = 2 * client->cap_links + 4;
        client->links = mr_reallocarray(client->links, client->cap_links, sizeof *client->links);
        MR_ASSERT(client->links != NULL);
    }
    struct sim_link *link = &client->links[client->nlinks++];

    *link = (struct sim_link){.session = 1};
    snprintf(link->task, sizeof link->task, "%s", info->task_id);
    snprintf(link->incarnation, sizeof link->incarnation, "%s", info->worker_incarnation);
    return link;
}

void sim_reader_update(struct sim *sim, struct sim_client *client,
                       const Millrace__ClientUpdate *update)
{
    bool all = update->follows == 0 || update->finished; /* what it does not name is over */

    for (size_t i = 0; i < client->nlinks; i++) {
        client->links[i].closed = client->links[i].closed || all;
    }
    for (size_t i = 0; i < update->n_tasks; i++) {
        const Millrace__TaskInfo *info = update->tasks[i];
        struct sim_link *link = find_link(client, info->task_id);

        if (link == NULL) {
            link = add_link(client, info);
        }
        link->closed = info->ended || info->lost;
    }
    sim_reader_wake(sim, client);
}

void sim_reader_reset(struct sim_client *client)
{
    for (size_t i = 0; i < client->nlinks; i++) {
        mr_free(client->links[i].queue);
    }
    mr_free(client->links);
    client->links = NULL;
    client->nlinks = client->cap_links = 0;
    client->draining = false;
}

bool sim_reader_is_empty(const struct sim_client *client)
{
    for (size_t i = 0; i < client->nlinks; i++) {
        if (client->links[i].taken < client->links[i].nqueue) {
            return false;
        }
    }
    return true;
}

size_t sim_reader_unreachable(const struct sim *sim, struct sim_client *client, char **ret,
                              size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < client->nlinks && n < max; i++) {
        struct sim_link *link = &client->links[i];
        bool twice = false;

        for (size_t k = 0; k < n; k++) {
            twice = twice || strcmp(ret[k], link->incarnation) == 0;
        }
        if (!link->closed && !twice && link->silent_since != 0 &&
            sim->now - link->silent_since > UNREACHABLE_MS) {
            ret[n++] = link->incarnation;
        }
    }
    return n;
}

/* ---------------------------------------------------------------- reading */

static void ask(struct sim *sim, struct sim_client *client, struct sim_link *link)
{
    struct sim_data data = {.client = client->number,
                            .client_life = client->process.life,
                            .worker = -1,
                            .session = link->session,
                            .received = link->received,
                            .returned = link->returned,
                            .limit = link->returned + WINDOW};

    if (link->silent_since == 0) {
        link->silent_since = sim->now;
    }
    for (int i = 0; i < sim->nworkers; i++) {
        if (sim->workers[i].process.alive &&
            strcmp(sim->workers[i].incarnation, link->incarnation) == 0) {
            data.worker = i;
        }
    }
    if (data.worker < 0) {
        return; /* refused, or another process */
    }
    data.worker_life = sim->workers[data.worker].process.life;
    snprintf(data.task, sizeof data.task, "%s", link->task);
    snprintf(data.client_id, sizeof data.client_id, "%s", client->id);
    sim_data_send(sim, &data);
}

/* To the application; what earlier sessions brought comes first, and nobody waits to hear of it. */
static void return_some(struct sim *sim, struct sim_client *client, struct sim_link *link)
{
    size_t n = sim->plain ? (client->plan.slow ? 0 : 4)
                          : (size_t)sim_draw(sim, client->plan.slow ? 2 : sim->appetite);

    if (sim_chance(sim, sim->faults.busy_percent) ||
        (sim_is_stranding(sim) && sim_chance(sim, 90))) {
        return;
    }
    for (; n > 0 && link->taken < link->nqueue; n--) {
        sim_view_returned(sim, client->iteration, &link->queue[link->taken]);
        if (link->taken >= link->behind) {
            link->returned++;
        }
        link->taken++;
    }
}

static void turn(struct sim *sim, void *arg)
{
    struct sim_client *client = arg;

    client->reading = false;
    for (size_t i = 0; i < client->nlinks; i++) {
        return_some(sim, client, &client->links[i]);
        if (!client->draining && !client->links[i].closed) {
            ask(sim, client, &client->links[i]);
        }
    }
    if (client->draining && sim_reader_is_empty(client)) {
        sim_client_drained(sim, client);
        return;
    }
    sim_reader_wake(sim, client);
}

void sim_reader_wake(struct sim *sim, struct sim_client *client)
{
    if (!client->reading && client->plan.dynamic && (client->attached || client->draining)) {
        client->reading = true;
        sim_after(sim, sim->plain ? TURN_MS : TURN_MS / 2 + (int64_t)sim_draw(sim, TURN_MS),
                  &client->process, turn, client, false);
    }
}

void sim_reader_data(struct sim *sim, struct sim_client *client, const struct sim_data *data)
{
    struct sim_link *link = find_link(client, data->task);

    if (link == NULL || strcmp(data->client_id, client->id) != 0 ||
        data->session != link->session) {
        return;
    }
    if (data->status != SIM_DATA_MOVED) {
        link->silent_since = 0;
    }
    if (data->status == SIM_DATA_OVER) {
        sim_rare(sim, SIM_RARE_SESSION_OVER);
        link->session++;
        link->received = link->returned = 0;
        link->behind = link->nqueue;
        return;
    }
    if (data->n > 0) {
        sim_moment(sim, SIM_MOMENT_RECEIVED, &sim->workers[data->worker], client);
    }
    for (size_t i = 0; i < data->n; i++) {
        if (data->first + i != link->received) {
            continue; /* it has it already */
        }
        if (link->nqueue == link->cap_queue) {
            link->cap_queue = 2 * link->cap_queue + 16;
            link->queue = mr_reallocarray(link->queue, link->cap_queue, sizeof *link->queue);
            MR_ASSERT(link->queue != NULL);
        }
        link->queue[link->nqueue++] = data->elements[i];
        link->received++;
    }
}
