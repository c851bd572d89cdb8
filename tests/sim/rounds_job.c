/* Whoever runs a coordinated job: a consumer that dies or fails is started again, sometimes beside
 * a process that is only slow. */
#include "rounds.h"

#include <stdlib.h>

static struct sim_client *holder(struct sim *sim, uint32_t seat)
{
    return &sim->clients[sim->rounds.holders[seat]];
}

static void stop(struct sim *sim, struct sim_client *client)
{
    sim_client_stop(sim, client);
    client->done = true; /* nobody waits for it */
}

struct seat {
    uint32_t number;
    bool resumes;
    uint64_t round;
};

/* In the process that is dead, or beside one that is only slow. */
static void start_next(struct sim *sim, void *arg)
{
    const struct seat *seat = arg;
    struct sim_client *before = holder(sim, seat->number), *next = before;

    sim->rounds.restarting[seat->number] = false;
    if (before->done && before->process.alive) {
        return; /* it came to the end */
    }
    if (before->process.alive) {
        next = &sim->clients[(before->number + (int)sim->rounds.consumers) % sim->nclients];
        if (next->process.alive) {
            stop(sim, next);
        }
    }
    sim_rare(sim, sim_rounds_are_closing(sim) ? SIM_RARE_ROUNDS_RESTART_IN_CLOSING
                                              : SIM_RARE_ROUNDS_RESTART);
    sim->rounds.holders[seat->number] = next->number;
    next->plan.resumes = seat->resumes;
    next->plan.resume_round = seat->round;
    next->done = next->failed = false;
    sim_client_start(sim, next);
}

static void start_soon(struct sim *sim, const struct seat *seat, uint64_t within_ms)
{
    if (!sim->rounds.restarting[seat->number]) {
        sim->rounds.restarting[seat->number] = true;
        sim_later(sim, (int64_t)sim_draw(sim, within_ms), NULL, start_next, seat, sizeof *seat);
    }
}

/* Not all die: a third goes on purpose. */
static void say_goodbye(struct sim *sim, const struct sim_client *client)
{
    Millrace__ReleaseClientRequest request = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;

    if (sim->bug == SIM_BUG_NONE && client->has_read && client->iteration[0] != '\0' &&
        sim_chance(sim, 33)) {
        request.client = (char *)(uintptr_t)client->id;
        request.iteration_id = (char *)(uintptr_t)client->iteration;
        sim_probe(sim, client->number, client->leader, MR_COMMAND_RELEASE_CLIENT, &request.base);
        sim_rare(sim, SIM_RARE_ROUNDS_LEFT);
    }
}

void sim_rounds_kill(struct sim *sim, uint32_t number)
{
    struct sim_client *client = holder(sim, number);

    if (client->process.alive && !client->done && !sim->rounds.restarting[number]) {
        say_goodbye(sim, client);
        stop(sim, client);
        start_soon(sim, &(struct seat){.number = number}, 2000);
    }
}

void sim_rounds_stood_still(struct sim *sim, const struct sim_client *client)
{
    uint32_t number = client->plan.seat;

    if (client == holder(sim, number) && !client->done && sim_chance(sim, 50)) {
        start_soon(sim, &(struct seat){.number = number}, 2000);
    }
}

/* Refused, or it lost its place: whoever runs the job says where it goes on. */
static void failed(struct sim *sim, void *arg)
{
    struct sim_client *client = arg;
    static const char words[] = "the first that can is ";
    const char *best = strstr(client->failure.message, words);
    uint64_t round = best != NULL ? strtoull(best + strlen(words), NULL, 10) : 0;
    bool has_place = client == holder(sim, client->plan.seat);
    struct seat seat = {.number = client->plan.seat, .resumes = sim_chance(sim, 50)};

    stop(sim, client);
    if (has_place) {
        uint64_t next = judge_next(sim->rounds.judge);

        seat.round = MR_MAX(round, next);
        start_soon(sim, &seat, 1);
    }
}

void sim_rounds_begin(struct sim *sim, uint32_t consumers)
{
    sim->rounds.consumers = consumers;
    sim->rounds.judge = judge_new(consumers);
    sim->rounds.run = sim_client_run;
    sim->rounds.failed = failed;
    sim_add_clients(sim, 2 * (int)consumers);
    for (int i = 0; i < sim->nclients; i++) {
        struct sim_plan *p = &sim->clients[i].plan;

        *p = (struct sim_plan){.consumers = consumers,
                               .seat = (uint32_t)i % consumers,
                               .job = "rounds",
                               .repetitions = 1};
        sim->clients[i].done = true;
    }
    for (uint32_t i = 0; i < consumers; i++) {
        sim->rounds.holders[i] = (int)i;
        sim->clients[i].done = false;
        sim_client_start(sim, &sim->clients[i]);
    }
}
