/* What befalls a cluster: processes that die or stand still, ways that are cut, a store in trouble, clocks that jump.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/dataset.h>

void sim_cut(struct sim *sim, int a, int b, bool one_way, int64_t ms)
{
    sim->cut_until[a][b] = sim->now + ms;
    if (!one_way) {
        sim->cut_until[b][a] = sim->now + ms;
    }
    sim_rare(sim, one_way ? SIM_RARE_CUT_ONE_WAY : SIM_RARE_CUT);
}

bool sim_is_cut(const struct sim *sim, int from, int to)
{
    return sim->cut_until[from][to] > sim->now;
}

static void start_replica(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;

    if (!replica->process.alive) {
        sim_replica_start(sim, replica);
    }
}

void sim_kill_replica(struct sim *sim, int number, int64_t down_ms)
{
    struct sim_replica *replica = &sim->replicas[number];

    if (!replica->process.alive) {
        return;
    }
    sim_say(sim, "dispatcher %d: killed", number);
    sim_replica_drop(sim, replica);
    replica->process.alive = false;
    replica->process.life++;
    /* A refused connect tells the others that the process is gone; half the time they have to wait for the lease. */
    if (sim->store.leader == number && !sim->plain && sim_chance(sim, 50)) {
        sim->store.lease_until = sim->now;
    }
    sim_after(sim, down_ms, NULL, start_replica, replica, false);
}

static void start_worker(struct sim *sim, void *arg)
{
    sim_worker_start(sim, arg);
}

static void start_client(struct sim *sim, void *arg)
{
    sim_client_start(sim, arg);
}

static void store_back(struct sim *sim, void *arg)
{
    (void)arg;
    sim->store.away = false;
}

static void store_drained(struct sim *sim, void *arg)
{
    (void)arg;
    sim->store.full = false;
}

static void freeze(struct sim *sim, struct sim_process *process, int64_t ms)
{
    if (process->alive && process->frozen_until <= sim->now) {
        process->frozen_until = sim->now + ms;
    }
}

static void freeze_replica(struct sim *sim, int number)
{
    struct sim_replica *replica = &sim->replicas[number];
    int64_t ms = (int64_t)(500 + sim_draw(sim, 6000));

    if (sim->store.leader == number && sim_chance(sim, 30)) {
        /* The store was started again just now, and has given the lease a longer time than anybody else has. */
        ms = (int64_t)(SIM_WORKER_TIMEOUT_MS + sim_draw(sim, 5000));
        sim->store.lease_until = sim->now + ms + SIM_LEASE_MS;
    }
    sim_say(sim, "dispatcher %d: frozen", number);
    freeze(sim, &replica->process, ms);
}

/* Often until about the moment in which it would be given up: that is where judgement is hard. */
static void freeze_worker(struct sim *sim, struct sim_worker *worker)
{
    int64_t ms = 1000 + (int64_t)sim_draw(sim, 9000);

    if (sim_chance(sim, 60)) {
        ms = worker->last_ok + SIM_WORKER_TIMEOUT_MS - sim->now + (int64_t)sim_draw(sim, 1000) - 100;
    }
    sim_say(sim, "worker %d: frozen", worker->number);
    freeze(sim, &worker->process, ms);
}

static void cut_something(struct sim *sim, int replica)
{
    int64_t ms = (int64_t)(500 + sim_draw(sim, 12000));
    bool one_way = sim_chance(sim, 30);
    int worker = SIM_NODE_WORKER((int)sim_draw(sim, (uint64_t)sim->nworkers));
    int client = SIM_NODE_CLIENT((int)sim_draw(sim, (uint64_t)sim->nclients));
    int a = SIM_NODE_REPLICA(replica), b = SIM_NODE_STORE;

    switch (sim_draw(sim, 4)) {
    case 0:
        sim_rare(sim, replica == sim_leader(sim) ? SIM_RARE_STORE_CUT : SIM_RARE_CUT);
        one_way = false; /* a store that is not heard does not hear */
        break;
    case 1:
        b = worker;
        break;
    case 2:
        b = client;
        break;
    default:
        a = worker;
        b = client;
        break;
    }
    sim_say(sim, "no way between %d and %d", a, b);
    if (one_way && sim_chance(sim, 50)) {
        sim_cut(sim, b, a, one_way, ms);
    } else {
        sim_cut(sim, a, b, one_way, ms);
    }
}

static void kill_worker(struct sim *sim, struct sim_worker *worker)
{
    if (worker->process.alive) {
        sim_worker_stop(sim, worker);
        sim_after(sim, (int64_t)(50 + sim_draw(sim, 9000)), NULL, start_worker, worker, false);
    }
}

static void kill_client(struct sim *sim, struct sim_client *client)
{
    if (client->process.alive && !client->done) {
        sim_client_stop(sim, client);
        sim_after(sim, (int64_t)(50 + sim_draw(sim, 9000)), NULL, start_client, client, false);
    }
}

static void store_fault(struct sim *sim, bool full)
{
    int64_t ms = (int64_t)(100 + sim_draw(sim, 3000));

    if (full && !sim->store.full) {
        sim->store.full = true;
        sim_say(sim, "store: full");
        sim_after(sim, ms, NULL, store_drained, NULL, false);
    } else if (!full && !sim->store.away) {
        sim->store.away = true;
        sim_say(sim, "store: away");
        sim_after(sim, ms, NULL, store_back, NULL, false);
    }
}

/* By up to a day, forth or back: an operator, or a clock that was never set. */
static void wall_jump(struct sim *sim, struct sim_replica *replica)
{
    replica->wall_skew = (int64_t)sim_draw(sim, 2 * 86400000) - 86400000;
    sim_rare(sim, SIM_RARE_WALL_JUMP);
    sim_say(sim, "dispatcher %d: its wall clock is %lld s off", replica->number,
            (long long)(replica->wall_skew / 1000));
}

static void one_fault(struct sim *sim)
{
    const struct sim_faults *may = &sim->faults;
    int worker = (int)sim_draw(sim, (uint64_t)sim->nworkers);
    int client = (int)sim_draw(sim, (uint64_t)sim->nclients);
    int replica = sim_leader(sim) >= 0 && sim_chance(sim, 80) ? sim_leader(sim) : (int)sim_draw(sim, SIM_REPLICAS);

    switch (sim_draw(sim, 13)) {
    case 0:
        if (may->kill_replicas) {
            sim_kill_replica(sim, replica, (int64_t)(200 + sim_draw(sim, 3000)));
        }
        break;
    case 1:
        if (may->freeze_replicas) {
            freeze_replica(sim, replica);
        }
        break;
    case 2:
        if (may->kill_workers) {
            kill_worker(sim, &sim->workers[worker]);
        }
        break;
    case 3:
    case 4:
        if (may->freeze_workers) {
            freeze_worker(sim, &sim->workers[worker]);
        }
        break;
    case 5:
        if (may->kill_clients) {
            kill_client(sim, &sim->clients[client]);
        }
        break;
    case 6:
        if (may->store_away) {
            store_fault(sim, false);
        }
        break;
    case 7:
        if (may->store_full) {
            store_fault(sim, true);
        }
        break;
    case 8:
        if (may->cuts) {
            cut_something(sim, replica);
        }
        break;
    case 9:
        if (may->freeze_clients) {
            sim_say(sim, "client %d: frozen", client);
            freeze(sim, &sim->clients[client].process, 1000 + (int64_t)sim_draw(sim, SIM_CLIENT_TIMEOUT_MS + 6000));
        }
        break;
    case 10:
        if (may->kill_workers && may->kill_clients) { /* one machine had both */
            kill_worker(sim, &sim->workers[worker]);
            kill_client(sim, &sim->clients[client]);
        }
        break;
    case 11:
        if (may->drain_workers) {
            sim_worker_drain(sim, &sim->workers[worker], 1000 + (int64_t)sim_draw(sim, 30000));
        }
        break;
    default:
        if (may->wall_jumps) {
            wall_jump(sim, &sim->replicas[replica]);
        }
        break;
    }
}

struct until {
    int64_t at;
};

static void faults(struct sim *sim, void *arg)
{
    struct until *until = arg;

    if (sim->now >= until->at) {
        sim->faults = (struct sim_faults){0};
        return;
    }
    one_fault(sim);
    sim_start_faults(sim, until->at);
}

void sim_start_faults(struct sim *sim, int64_t at)
{
    struct until *until = mr_malloc(sizeof *until);

    until->at = at;
    sim_after(sim, 100 + (int64_t)sim_draw(sim, (uint64_t)sim->faults.pace_ms), NULL, faults, until, true);
}
