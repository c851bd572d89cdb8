/* What befalls a cluster: processes that die or stand still, ways that are cut, a store in trouble,
 * clocks that jump. */
#include "sim.h"

static void store_again(struct sim *sim, void *arg)
{
    sim_store_sync(sim);
}

void sim_cut(struct sim *sim, int a, int b, bool one_way, int64_t ms)
{
    sim->cut_until[a][b] = sim->now + ms;
    if (!one_way) {
        sim->cut_until[b][a] = sim->now + ms;
    }
    if (b == SIM_NODE_STORE) {
        sim_store_sync(sim);
        sim_after(sim, ms + 1, NULL, store_again, NULL, false);
    }
    sim_rare(sim, one_way ? SIM_RARE_CUT_ONE_WAY : SIM_RARE_CUT);
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
    /* A refused connect tells the others that the process is gone; half the time they have to wait
     * for the lease. */
    replica->vanished = !sim->plain && sim_chance(sim, 50);
    sim_replica_stop(sim, replica);
    sim_after(sim, down_ms, NULL, start_replica, replica, false);
}

static void store_back(struct sim *sim, void *arg)
{
    sim->store.away = false;
    sim_store_sync(sim);
}

static void store_drained(struct sim *sim, void *arg)
{
    sim_store_fill(sim, false);
}

static void freeze(struct sim *sim, struct sim_process *process, int64_t ms)
{
    if (process->alive && process->frozen_until <= sim->now) {
        process->frozen_until = sim->now + ms;
    }
}

void sim_keep_leading(struct sim *sim, int number, int64_t ms)
{
    sim_store_keep_leader(sim, ms);
    for (int i = 0; i < SIM_REPLICAS; i++) {
        if (i != number) {
            sim_cut(sim, SIM_NODE_REPLICA(i), SIM_NODE_STORE, false, ms);
        }
    }
}

static void freeze_replica(struct sim *sim, int number)
{
    struct sim_replica *replica = &sim->replicas[number];
    int64_t ms = (int64_t)(500 + sim_draw(sim, 6000));

    if (number == sim_leader(sim) && sim_chance(sim, 30)) {
        /* The store was started again just now, and has given the lease a longer time than anybody
         * else has; and nobody else can reach it. */
        ms = (int64_t)(SIM_WORKER_TIMEOUT_MS + sim_draw(sim, 5000));
        sim_keep_leading(sim, number, ms + SIM_LEASE_MS);
    }
    if (sim_chance(sim, 50)) { /* and is late to learn what became of its term */
        sim_store_deafen(sim, replica, ms + 50 + (int64_t)sim_draw(sim, 3000));
    }
    sim_say(sim, "dispatcher %d: frozen", number);
    freeze(sim, &replica->process, ms);
}

/* When the leader's patience with @worker is at its end, if nobody sleeps until then; 0: it has not
 * heard of it. */
static int64_t patience_ends(const struct sim *sim, const struct sim_worker *worker)
{
    const struct sim_replica *leader =
        sim_leader(sim) >= 0 ? &sim->replicas[sim_leader(sim)] : NULL;
    const struct sim_heard *heard = leader != NULL ? &leader->heard[worker->number] : NULL;

    int64_t grace;

    if (heard == NULL || strcmp(heard->incarnation, worker->incarnation) != 0) {
        return 0;
    }
    grace = leader->term_ran_at + SIM_GRACE_MS - SIM_WORKER_TIMEOUT_MS;
    return MR_MAX(heard->any_at, grace) + SIM_WORKER_TIMEOUT_MS + leader->stood_still;
}

/* Often until about the moment in which it would be given up, or just that: there judgement is
 * hard. */
static void freeze_worker(struct sim *sim, struct sim_worker *worker)
{
    int64_t ends = patience_ends(sim, worker),
            ms = 100 + (int64_t)sim_draw(sim, sim_chance(sim, 50) ? 2000 : 10000);

    if (ends > sim->now && sim_chance(sim, 40)) {
        ms = ends - sim->now - 40 + (int64_t)sim_draw(sim, 60);
        if (sim_chance(sim, 50)) { /* and then the leader is in the middle of a long turn */
            sim->replicas[sim_leader(sim)].held_up_until = ends + (int64_t)sim_draw(sim, 20);
        }
    } else if (sim_chance(sim, 30)) {
        ms =
            worker->last_ok + SIM_WORKER_TIMEOUT_MS - sim->now + (int64_t)sim_draw(sim, 1000) - 100;
    }
    sim_say(sim, "worker %d: frozen", worker->number);
    freeze(sim, &worker->process, ms);
}

static void freeze_client(struct sim *sim, struct sim_client *client)
{
    int64_t ms = 1000 + (int64_t)sim_draw(sim, SIM_CLIENT_TIMEOUT_MS + 6000);

    if (sim_chance(sim, 40)) {
        ms =
            client->last_ok + SIM_CLIENT_TIMEOUT_MS - sim->now + (int64_t)sim_draw(sim, 1000) - 100;
    }
    if (sim_chance(sim, 15)) { /* until what it reads has been collected, too */
        ms = SIM_CLIENT_TIMEOUT_MS + 2500 + (int64_t)sim_draw(sim, 8000);
    }
    sim_say(sim, "client %d: frozen", client->number);
    freeze(sim, &client->process, ms);
    if (client->plan.consumers > 0) {
        sim_rounds_stood_still(sim, client);
    }
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
        if (sim_chance(sim, 40)) {
            sim_say(sim, "dispatcher %d: is told nothing by the store", replica);
            sim_store_deafen(sim, &sim->replicas[replica], ms);
            return;
        }
        break;
    case 1: b = worker; break;
    case 2: b = client; break;
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

/* Something starts it again, often at once. */
static int64_t downtime(struct sim *sim)
{
    return 50 + (int64_t)sim_draw(sim, sim_chance(sim, 67) ? 500 : 9000);
}

static void kill_worker(struct sim *sim, struct sim_worker *worker)
{
    if (worker->process.alive) {
        sim_worker_stop(sim, worker);
        sim_after(sim, downtime(sim), NULL, sim_worker_again, worker, false);
    }
}

static void kill_client(struct sim *sim, struct sim_client *client)
{
    if (client->plan.consumers > 0) {
        sim_rounds_kill(sim, client->plan.seat);
    } else if (client->process.alive && !client->done) {
        sim_client_stop(sim, client);
        sim_after(sim, downtime(sim), NULL, sim_client_come, client, false);
    }
}

static void store_fault(struct sim *sim, bool full)
{
    int64_t ms = (int64_t)(100 + sim_draw(sim, 3000));

    if (full && !sim->store.full) {
        sim_store_fill(sim, true);
        sim_say(sim, "store: full");
        sim_after(sim, ms, NULL, store_drained, NULL, false);
    } else if (!full && !sim->store.away) {
        sim->store.away = true;
        sim_store_sync(sim);
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

static enum sim_fault draw_kind(struct sim *sim)
{
    const unsigned *weights = sim->faults.weights;
    unsigned sum = 0;
    uint64_t at;
    int kind = 0;

    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        sum += weights[i];
    }
    if (sum == 0) {
        return SIM_FAULT_COUNT;
    }
    for (at = sim_draw(sim, sum); at >= weights[kind]; kind++) {
        at -= weights[kind];
    }
    return (enum sim_fault)kind;
}

static void one_fault(struct sim *sim, enum sim_fault kind, struct sim_worker *worker,
                      struct sim_client *client)
{
    int replica = sim_leader(sim) >= 0 && sim_chance(sim, 80) ? sim_leader(sim)
                                                              : (int)sim_draw(sim, SIM_REPLICAS);

    switch (kind) {
    case SIM_FAULT_KILL_REPLICA:
        sim_kill_replica(sim, replica, (int64_t)(200 + sim_draw(sim, 3000)));
        break;
    case SIM_FAULT_FREEZE_REPLICA: freeze_replica(sim, replica); break;
    case SIM_FAULT_KILL_WORKER: kill_worker(sim, worker); break;
    case SIM_FAULT_FREEZE_WORKER: freeze_worker(sim, worker); break;
    case SIM_FAULT_KILL_CLIENT: kill_client(sim, client); break;
    case SIM_FAULT_FREEZE_CLIENT: freeze_client(sim, client); break;
    case SIM_FAULT_KILL_BOTH:
        kill_worker(sim, worker);
        kill_client(sim, client);
        break;
    case SIM_FAULT_DRAIN_WORKER:
        sim_worker_drain(sim, worker, 1000 + (int64_t)sim_draw(sim, 30000));
        break;
    case SIM_FAULT_STORE_AWAY: store_fault(sim, false); break;
    case SIM_FAULT_STORE_FULL: store_fault(sim, true); break;
    case SIM_FAULT_CUT: cut_something(sim, replica); break;
    case SIM_FAULT_WALL_JUMP: wall_jump(sim, &sim->replicas[replica]); break;
    case SIM_FAULT_COUNT: break;
    }
}

static struct sim_worker *any_worker(struct sim *sim)
{
    return &sim->workers[sim_draw(sim, (uint64_t)sim->nworkers)];
}

static struct sim_client *any_client(struct sim *sim)
{
    return &sim->clients[sim_draw(sim, (uint64_t)sim->nclients)];
}

struct involved {
    enum sim_fault fault;
    struct sim_worker *worker;
    struct sim_client *client;
};

static void befalls(struct sim *sim, void *arg)
{
    const struct involved *who = arg;

    one_fault(sim, who->fault, who->worker, who->client);
}

/* Most of it is about who is involved, whatever else there is in this walk. */
static enum sim_fault draw_about(struct sim *sim, bool worker, bool client)
{
    static const enum sim_fault of_worker[] = {SIM_FAULT_KILL_WORKER, SIM_FAULT_FREEZE_WORKER,
                                               SIM_FAULT_KILL_BOTH};
    static const enum sim_fault of_both[] = {SIM_FAULT_KILL_CLIENT, SIM_FAULT_FREEZE_CLIENT,
                                             SIM_FAULT_KILL_BOTH};
    static const enum sim_fault of_leader[] = {SIM_FAULT_KILL_REPLICA, SIM_FAULT_KILL_REPLICA,
                                               SIM_FAULT_FREEZE_REPLICA};

    if (sim_chance(sim, 25)) {
        return draw_kind(sim);
    }
    return (client ? of_both : worker ? of_worker : of_leader)[sim_draw(sim, 3)];
}

void sim_befall(struct sim *sim, struct sim_worker *worker, struct sim_client *client)
{
    struct involved who = {draw_about(sim, worker != NULL, client != NULL),
                           worker != NULL ? worker : any_worker(sim),
                           client != NULL ? client : any_client(sim)};

    sim_later(sim, (int64_t)sim_draw(sim, sim_chance(sim, 50) ? 20 : 500), NULL, befalls, &who,
              sizeof who);
}

#define LOOK_MS 100

/* Once a task of the first worker was closed for it, all others are dead until everybody has read
 * everything. */
static void keep_alone(struct sim *sim, void *arg)
{
    bool over = sim_all_done(sim);

    if (!over && sim->rares[SIM_RARE_UNREACHABLE] == 0 && !sim_is_stranding(sim)) {
        return; /* it came otherwise */
    }
    for (int i = 1; i < sim->nworkers; i++) {
        struct sim_worker *worker = &sim->workers[i];

        if (!over && sim->rares[SIM_RARE_UNREACHABLE] > 0 && worker->process.alive) {
            sim_worker_stop(sim, worker);
        } else if (over && !worker->process.alive) {
            sim_worker_start(sim, worker);
        }
    }
    if (!over) {
        sim_after(sim, LOOK_MS, NULL, keep_alone, NULL, false);
    }
}

static void strand(struct sim *sim, void *arg)
{
    sim_say(sim, "no reader reaches worker 0");
    for (int i = 0; i < sim->nclients; i++) {
        sim_cut(sim, SIM_NODE_WORKER(0), SIM_NODE_CLIENT(i), false, SIM_OUT_OF_REACH_MS);
    }
    keep_alone(sim, NULL);
}

void sim_strand(struct sim *sim, int64_t at)
{
    sim->stranded_at = at;
    sim_at(sim, at, NULL, strand, NULL, false);
}

static void faults(struct sim *sim, void *arg)
{
    const int64_t *until = arg;

    if (sim->now >= *until) {
        sim->faults = (struct sim_faults){0};
        return;
    }
    one_fault(sim, draw_kind(sim), any_worker(sim), any_client(sim));
    sim_start_faults(sim, *until);
}

void sim_start_faults(struct sim *sim, int64_t until)
{
    int64_t ms = sim_chance(sim, sim->faults.burst_percent)
                     ? (int64_t)sim_draw(sim, 300)
                     : 100 + (int64_t)sim_draw(sim, (uint64_t)sim->faults.pace_ms);

    sim_later(sim, ms, NULL, faults, &until, sizeof until);
}
