/*
 * What a walk is made of, drawn anew for each: which kinds of faults there are in it and how often,
 * how bad its network and its store are, who takes part, and what they read.
 *
 * Not everything goes wrong in every walk. What is common would hide what comes of the rest: where
 * workers die every second nobody gets far enough to lose anything else. And some of what is rare
 * by itself needs company: two failovers in a row, a reader that dies with its worker, an answer
 * that is lost again. So each kind is off in many walks, seldom in some, and goes on and on in a
 * few.
 */
#include "rounds.h"

/* Up to @usual, or in one of three up to @most. */
static unsigned draw_rate(struct sim *sim, unsigned on_percent, unsigned usual, unsigned most)
{
    return sim_chance(sim, on_percent)
               ? 1 + (unsigned)sim_draw(sim, sim_chance(sim, 67) ? usual : most)
               : 0;
}

static void draw_network(struct sim *sim, unsigned on_percent, struct sim_faults *f)
{
    f->loss_percent = draw_rate(sim, on_percent, 4, 15);
    f->reply_loss_percent = draw_rate(sim, on_percent, 5, 40);
    f->duplicate_percent = draw_rate(sim, on_percent, 8, 40);
    f->slow_percent = draw_rate(sim, on_percent, 4, 15);
    f->minutes_permille = sim_chance(sim, 30) ? 5 : 0;
}

static void draw_store(struct sim *sim, unsigned on_percent, struct sim_faults *f)
{
    f->answer_loss_percent = draw_rate(sim, on_percent, 10, 50);
    f->refusal_permille = draw_rate(sim, on_percent, 10, 60);
    f->store_slow_ms = draw_rate(sim, on_percent, 100, 800);
}

static void draw_moments(struct sim *sim, unsigned on_percent, struct sim_faults *f)
{
    static const unsigned most[] = {
#define X(name, text, most) most,
        SIM_MOMENTS(X)
#undef X
    };

    f->late_turn_permille = draw_rate(sim, on_percent, 400, 1000);
    f->pace_ms = sim_chance(sim, 30) ? 900 : 2500;
    f->burst_percent = draw_rate(sim, on_percent, 20, 60);
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        f->weights[i] = sim_chance(sim, on_percent) ? 1u << sim_draw(sim, 4) : 0;
    }
    for (int i = 0; i < SIM_MOMENT_COUNT; i++) {
        f->moments[i] = sim_chance(sim, 50) ? 1 + (unsigned)sim_draw(sim, most[i]) : 0;
    }
}

static bool is_about_sharing(const struct sim *sim)
{
    return sim->seed % 3 == 0;
}

/* What is common to the plans of a walk. */
struct mix {
    unsigned named_percent;   /* the others have jobs of their own */
    unsigned dynamic_percent; /* of those */
    unsigned slow_percent;
    uint64_t repetitions;
    bool one_job;      /* all that have a name have the same */
    bool eval_dynamic; /* the second job's mode; the first one's is always DYNAMIC */
};

static struct mix draw_mix(struct sim *sim)
{
    static const unsigned named[] = {0, 66, 66, 100}, slow[] = {0, 30, 30, 100};

    return (struct mix){
        .named_percent = is_about_sharing(sim) ? 66 : named[sim_draw(sim, 4)],
        .dynamic_percent = sim_chance(sim, 50) ? 60 : 100,
        .slow_percent = slow[sim_draw(sim, 4)],
        .repetitions = 2 + sim_draw(sim, 3),
        .one_job = !is_about_sharing(sim) && sim_chance(sim, 30),
        .eval_dynamic = sim_chance(sim, 50),
    };
}

/* Of several sources only at_most_once can be had. */
static bool may_repeat(struct sim *sim, const struct sim_plan *p, unsigned job)
{
    bool one_source = sim->datasets[p->dataset].nproviders == 1;

    return p->dynamic && one_source && (job == 0 ? sim_chance(sim, 75) : sim->seed % 7 != 0);
}

/* Several jobs that want the same, or trainers of one job. */
static void plan_sharing(struct sim *sim)
{
    bool cached = sim_chance(sim, 30);

    /* Who comes early may still have the start of what another one has just begun. */
    if (sim_chance(sim, 70)) {
        sim->start_ms = 1000;
        sim->faults.busy_percent = 0;
        sim->appetite = 8;
        sim->want = 4;
    }

    for (int i = 0; i < sim->nclients; i++) {
        struct sim_plan *p = &sim->clients[i].plan;
        unsigned job = p->job[0] == '\0' ? 0 : p->job[0] == 't' ? 1 : 2;

        p->shares = job != 0 || sim_chance(sim, 70);
        p->repeats = false;
        p->dynamic = p->dynamic || sim->seed % 4 != 0;
        if (p->shares && sim->seed % 5 != 0) {
            p->dataset = (int)(sim->seed % 4);
        }
        p->waits = p->shares && (job == 0 ? sim_chance(sim, 50) : (sim->seed / 3 + job) % 2 == 0);
        if (cached && job != 0) {
            snprintf(p->trainer, sizeof p->trainer, "t%u", job);
            snprintf(p->job, sizeof p->job, "train");
            p->dataset = (int)(sim->seed % SIM_DATASETS);
            p->dynamic = true; /* trainers agree on all of it */
        }
    }
}

static void plan(struct sim *sim)
{
    static const char *const jobs[] = {"", "train", "eval"};
    struct mix mix = draw_mix(sim);

    for (int i = 0; i < sim->nclients; i++) {
        struct sim_plan *p = &sim->clients[i].plan;
        unsigned job = !sim_chance(sim, mix.named_percent) ? 0
                       : mix.one_job                       ? 1
                                                           : 1 + (unsigned)sim_draw(sim, 2);

        snprintf(p->job, sizeof p->job, "%s", jobs[job]);
        /* Who shares a name agrees on the rest. */
        p->dataset =
            job == 0 ? (int)sim_draw(sim, SIM_DATASETS) : (int)((sim->seed + job) % SIM_DATASETS);
        p->dynamic = job == 0 ? sim_chance(sim, mix.dynamic_percent) : job == 1 || mix.eval_dynamic;
        p->repeats = may_repeat(sim, p, job);
        p->slow = sim_chance(sim, mix.slow_percent);
        p->repetitions = job == 0
                             ? 1 + sim_draw(sim, 2)
                             : mix.repetitions + (sim->datasets[p->dataset].splits[0] < 10 ? 4 : 0);
    }
}

/* What goes wrong, and what everybody is like. */
static void draw_conditions(struct sim *sim)
{
    static const unsigned reports[] = {0, 0, 30, 100}, on[] = {15, 30, 50}, busy[] = {0, 60, 90};
    static const uint64_t wants[] = {1, 4, 4};
    static const size_t aheads[] = {2, 8, 24};
    static const size_t appetites[] = {2, 4, 8};
    static const size_t windows[] = {6, 8, 16};

    unsigned on_percent = on[sim_draw(sim, 3)]; /* that something goes wrong at all */

    sim->faults = (struct sim_faults){0};
    draw_network(sim, on_percent, &sim->faults);
    draw_store(sim, on_percent, &sim->faults);
    draw_moments(sim, on_percent, &sim->faults);
    sim->grain_ms = sim_chance(sim, 75) ? 1 : 1 + (int64_t)sim_draw(sim, 100);
    sim->report_percent = reports[sim_draw(sim, 4)];
    sim->ahead = aheads[sim_draw(sim, 3)];
    sim->want = wants[sim_draw(sim, 3)];
    sim->start_ms = sim_chance(sim, 40) ? 1500 : 10000;
    sim->faults.busy_percent = busy[sim_draw(sim, 3)];
    sim->appetite = appetites[sim_draw(sim, 3)];
    sim->window = windows[sim_draw(sim, 3)];
}

static void draw_plans(struct sim *sim)
{
    plan(sim);
    if (is_about_sharing(sim)) {
        plan_sharing(sim);
    }
}

void sim_swarm(struct sim *sim)
{
    draw_conditions(sim);
    sim->gc_dynamic = sim_chance(sim, 30);
    sim->job_gc_ms = !sim->gc_dynamic && sim_chance(sim, 50) ? 0 : 1500;
    sim_add_workers(sim, 1 + (int)sim_draw(sim, 4));
    sim_add_clients(sim, 1 + (int)sim_draw(sim, 5));
    draw_plans(sim);
}

void sim_swarm_rounds(struct sim *sim)
{
    struct sim_rounds *r = &sim->rounds;

    draw_conditions(sim);
    if (sim_chance(sim, 50)) { /* a good network: there is reading between the faults */
        sim->faults.loss_percent = sim->faults.reply_loss_percent = sim->faults.slow_percent = 0;
        sim->grain_ms = 1;
    }
    sim->faults.pace_ms = 6000;
    sim->faults.weights[SIM_FAULT_KILL_CLIENT] += 8;
    sim->faults.weights[SIM_FAULT_KILL_WORKER] += 2;
    r->company_percent = 30;
    r->groups = sim->seed % 2 == 0 ? 50 + sim_draw(sim, 300) : 0; /* half is about finite data */
    r->keep = 2 + (uint32_t)sim_draw(sim, 5);
    r->ahead = 2 + (uint32_t)sim_draw(sim, 5);
    /* Where little is under way, little hides a bug. */
    r->eager = sim->bug == SIM_BUG_NONE && sim_chance(sim, 25);
    sim_add_workers(sim, 1 + (int)sim_draw(sim, 4));
    sim_rounds_begin(sim, 1 + (uint32_t)sim_draw(sim, SIM_SEATS_MAX));
}

void sim_swarm_again(struct sim *sim, unsigned hour)
{
    sim->seed++; /* what a walk is about goes by its seed */
    draw_conditions(sim);
    for (int i = 0; i < sim->nclients; i++) {
        sim->clients[i].plan = (struct sim_plan){0};
    }
    draw_plans(sim);
    for (int i = 0; i < sim->nclients; i++) {
        char *job = sim->clients[i].plan.job;
        size_t n = strlen(job);

        if (n > 0) { /* others have ended under the name alone */
            snprintf(job + n, sizeof sim->clients[i].plan.job - n, "%u", hour);
        }
    }
}
