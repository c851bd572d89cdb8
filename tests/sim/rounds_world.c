/* Who comes and goes. */
#include "rounds_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool chance(struct world *w, uint32_t knob)
{
    return w->faults && mr_rng_below(&w->rng, 10000) < knob;
}

bool half(struct world *w)
{
    return mr_rng_below(&w->rng, 2) == 0;
}

static int64_t soon(struct world *w, uint64_t ms)
{
    return w->now + (int64_t)mr_rng_below(&w->rng, ms);
}

static uint32_t count_workers(const struct world *w)
{
    uint32_t n = 0;

    for (size_t i = 0; i < WORKERS_MAX; i++) {
        n += w->workers[i] != NULL ? 1 : 0;
    }
    return n;
}

static void add_worker(struct world *w)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (w->workers[i] == NULL) {
            w->workers[i] = worker_new(w, w->nworkers++);
            return;
        }
    }
}

/* @resume: all begin with the same round, as a job does that goes on from its checkpoint. */
static void start_consumer(struct world *w, uint32_t seat, bool resume, uint64_t round)
{
    if (w->nconsumers == PROCESSES_MAX) {
        return;
    }
    w->holder[seat] = w->nconsumers;
    w->consumers[w->nconsumers] = consumer_new(w, w->nconsumers, seat, resume, round);
    w->nconsumers++;
    w->restart_at[seat] = -1;
}

static struct consumer *holder(const struct world *w, uint32_t seat)
{
    return w->consumers[w->holder[seat]];
}

/* Not all die: a third goes on purpose. */
static bool says_goodbye(struct world *w, uint32_t number)
{
    bool says = w->bug == BUG_NONE && number % 3 == 0;

    w->rare[RARE_LEFT] += says ? 1 : 0;
    return says;
}

static void trouble_workers(struct world *w)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (w->workers[i] == NULL) {
            continue;
        }
        if (chance(w, w->knobs.pause_worker)) {
            worker_pause(w->workers[i], soon(w, 4000));
        }
        if (chance(w, w->knobs.kill_worker)) {
            if (says_goodbye(w, worker_number(w->workers[i]))) {
                worker_leave(w, w->workers[i]);
            }
            worker_free(w->workers[i]);
            w->workers[i] = NULL;
        }
    }
    if (count_workers(w) < w->knobs.workers && (chance(w, 100) || !w->faults)) {
        add_worker(w);
    }
    if (chance(w, w->knobs.new_worker)) {
        w->rare[RARE_JOINED]++;
        add_worker(w);
    }
}

/* Somebody is dead, and another process is started in its place; or somebody is only slow, and both
 * are there. */
static void trouble_consumers(struct world *w)
{
    for (uint32_t seat = 0; seat < w->knobs.consumers; seat++) {
        struct consumer *c = holder(w, seat);
        bool dies = chance(w, w->knobs.kill_consumer), pauses = chance(w, w->knobs.pause_consumer);

        if (w->restart_at[seat] < 0 && (dies || pauses)) {
            if (dies) {
                if (says_goodbye(w, w->holder[seat])) {
                    consumer_leave(w, c);
                }
                consumer_kill(w, c);
            } else {
                consumer_pause(c, soon(w, 5000));
            }
            w->restart_at[seat] = dies || half(w) ? soon(w, 2000) : -1;
        }
        if (w->restart_at[seat] >= 0 && w->now >= w->restart_at[seat]) {
            w->rare[RARE_RESTART]++;
            w->rare[RARE_RESTART_IN_CLOSING] += leader_is_closing(w) ? 1 : 0;
            start_consumer(w, seat, false, 0);
        }
        /* Refused, or it lost its place: whoever runs the job says where it goes on. */
        if (w->restart_at[seat] < 0 && consumer_has_failed(holder(w, seat))) {
            if (half(w)) {
                w->restart_at[seat] = soon(w, 500);
            } else {
                uint64_t best = consumer_next_best(holder(w, seat));

                start_consumer(w, seat, true,
                               best > judge_next(w->judge) ? best : judge_next(w->judge));
            }
        }
    }
}

void world_tick(struct world *w)
{
    const char *verdict;

    w->now += 1 + (int64_t)mr_rng_below(&w->rng, 8);
    trouble_workers(w);
    trouble_consumers(w);
    leader_tick(w);
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (w->workers[i] != NULL) {
            worker_tick(w, w->workers[i]);
        }
    }
    for (uint32_t i = 0; i < w->nconsumers; i++) {
        if (w->consumers[i] != NULL) {
            consumer_tick(w, w->consumers[i]);
        }
        if (w->consumers[i] != NULL && w->holder[consumer_seat(w->consumers[i])] != i &&
            (consumer_is_dead(w->consumers[i]) || consumer_has_failed(w->consumers[i]))) {
            consumer_free(w->consumers[i]);
            w->consumers[i] = NULL;
        }
    }
    verdict = judge_verdict(w->judge);
    if (verdict != NULL && w->failure[0] == '\0') {
        snprintf(w->failure, sizeof w->failure, "%.390s", verdict);
    }
}

void world_open(struct world *w, uint64_t seed, const struct knobs *knobs, enum bug bug)
{
    memset(w, 0, sizeof *w);
    mr_rng_seed(&w->rng, seed);
    w->knobs = *knobs;
    w->bug = bug;
    w->now = 1000;
    w->judge = judge_new(knobs->consumers);
    w->leader = leader_new(w);
    for (uint32_t i = 0; i < knobs->workers; i++) {
        add_worker(w);
    }
    for (uint32_t i = 0; i < knobs->consumers; i++) {
        start_consumer(w, i, false, 0);
    }
}

void world_close(struct world *w)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        worker_free(w->workers[i]);
    }
    for (uint32_t i = 0; i < w->nconsumers; i++) {
        consumer_free(w->consumers[i]);
    }
    leader_free(w->leader);
    judge_free(w->judge);
}
