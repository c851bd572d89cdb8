/* Time and chance, the transcript, and who is meant by an id. */
#include "sim.h"

#include <stdarg.h>

void sim_rare(struct sim *sim, enum sim_rare rare)
{
    sim->rares[rare]++;
}

uint64_t sim_draw(struct sim *sim, uint64_t n)
{
    return mr_rng_below(&sim->rng, n);
}

bool sim_chance(struct sim *sim, unsigned percent)
{
    return percent > 0 && sim_draw(sim, 100) < percent;
}

void sim_hex_id(struct sim *sim, char out[33])
{
    struct sim_known *known = sim_got(mr_calloc(1, sizeof *known));
    uint64_t key[2] = {++sim->ids, 0};

    if (!sim->plain) {
        key[0] = mr_rng_next(&sim->rng);
        key[1] = mr_rng_next(&sim->rng);
    }
    memcpy(known->identity.key, key, sizeof key);
    mr_identity_make(&known->identity);
    known->next = sim->known;
    sim->known = known;
    sim_must(mr_map_put(&sim->identities, known->identity.id, &known->identity, NULL));
    memcpy(out, known->identity.id, 33);
}

const struct mr_identity *sim_identity(const struct sim *sim, const char *id)
{
    return mr_map_get(&sim->identities, id);
}

int64_t sim_delay(struct sim *sim)
{
    if (sim->plain) {
        return 1;
    }
    if (sim_chance(sim, sim->faults.slow_percent)) {
        return (int64_t)(200 + sim_draw(sim, 4000));
    }
    return (int64_t)(1 + sim_draw(sim, 15));
}

void sim_name(struct sim *sim, const char *id, char kind, int number)
{
    if (sim->plain && sim->nnames < sizeof sim->names / sizeof sim->names[0]) {
        struct sim_name *name = &sim->names[sim->nnames++];

        snprintf(name->id, sizeof name->id, "%s", id);
        snprintf(name->name, sizeof name->name, "%c%d", kind, number);
    }
}

/* Put names for ids, whole or cut to 8 digits. */
static void put_names(const struct sim *sim, char *line)
{
    for (size_t i = 0; i < sim->nnames; i++) {
        const struct sim_name *name = &sim->names[i];
        size_t shown = strlen(name->name);
        char prefix[9];
        char *at;

        snprintf(prefix, sizeof prefix, "%.8s", name->id);
        while ((at = strstr(line, prefix)) != NULL) {
            size_t n = strncmp(at, name->id, 32) == 0 ? 32 : 8;

            memcpy(at, name->name, shown);
            memmove(at + shown, at + n, strlen(at + n) + 1);
        }
    }
}

void sim_say(struct sim *sim, const char *fmt, ...)
{
    char line[600];
    va_list args;
    int n;

    if (!sim->record) {
        return;
    }
    n = snprintf(line, sizeof line, "[%7lld] ", (long long)sim->now);
    va_start(args, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, args);
    va_end(args);
    strcat(line, "\n");
    put_names(sim, line);
    mr_buf_puts(&sim->transcript, line);
}

void sim_violation(struct sim *sim, const char *fmt, ...)
{
    va_list args;

    if (sim->violation[0] != '\0') {
        return;
    }
    va_start(args, fmt);
    vsnprintf(sim->violation, sizeof sim->violation, fmt, args);
    va_end(args);
    sim_say(sim, "VIOLATION: %s", sim->violation);
}

/* ---------------------------------------------------------------- events: a binary heap */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push_event(struct sim *sim, struct sim_event event)
{
    MORE(sim->events, sim->cap_events, sim->nevents);
    size_t i = sim->nevents++;

    while (i > 0 && is_before(&event, &sim->events[(i - 1) / 2])) {
        sim->events[i] = sim->events[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->events[i] = event;
}

static struct sim_event pop_event(struct sim *sim)
{
    struct sim_event first = sim->events[0];
    struct sim_event last = sim->events[--sim->nevents];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= sim->nevents) {
            break;
        }
        if (child + 1 < sim->nevents && is_before(&sim->events[child + 1], &sim->events[child])) {
            child++;
        }
        if (!is_before(&sim->events[child], &last)) {
            break;
        }
        sim->events[i] = sim->events[child];
        i = child;
    }
    if (sim->nevents > 0) {
        sim->events[i] = last;
    }
    return first;
}

static void drop_event(struct sim_event *event)
{
    if (event->owned) {
        mr_free(event->arg);
    }
}

void sim_at(struct sim *sim, int64_t at, struct sim_process *process, sim_fn *fn, void *arg,
            bool owned)
{
    uint64_t chance = 0;

    if (sim->grain_ms > 1) {
        at += (sim->grain_ms - at % sim->grain_ms) % sim->grain_ms;
        chance = sim_draw(sim, 1000) << 48;
    }
    push_event(sim, (struct sim_event){.at = at,
                                       .order = chance + ++sim->order,
                                       .process = process,
                                       .life = process != NULL ? process->life : 0,
                                       .fn = fn,
                                       .arg = arg,
                                       .owned = owned});
}

void sim_after(struct sim *sim, int64_t ms, struct sim_process *process, sim_fn *fn, void *arg,
               bool owned)
{
    sim_at(sim, sim->now + ms, process, fn, arg, owned);
}

void sim_later(struct sim *sim, int64_t ms, struct sim_process *process, sim_fn *fn,
               const void *arg, size_t size)
{
    void *copy = sim_got(mr_memdup(arg, size));

    sim_after(sim, ms, process, fn, copy, true);
}

/* When something happens next, here or in the store. */
static int64_t next_at(const struct sim *sim)
{
    int64_t store = mr_fake_next_ms(sim->store.fake);

    return sim->nevents > 0 && sim->events[0].at < store ? sim->events[0].at : store;
}

bool sim_step(struct sim *sim)
{
    int64_t at = next_at(sim);

    if (at == INT64_MAX) {
        return false;
    }
    sim->now = at;
    if (mr_fake_step(sim->store.fake, at)) {
        return true;
    }
    struct sim_event event = pop_event(sim);
    const struct sim_process *p = event.process;
    bool lives = p == NULL || (p->alive && p->life == event.life);

    if (lives && p != NULL && p->frozen_until > sim->now) {
        event.at = p->frozen_until; /* keeps its place among the others */
        push_event(sim, event);
        return true;
    }
    if (lives) {
        event.fn(sim, event.arg);
    }
    drop_event(&event);
    return true;
}

void sim_run_until(struct sim *sim, int64_t at)
{
    while (sim->violation[0] == '\0' && next_at(sim) <= at) {
        sim_step(sim);
    }
    if (sim->now < at) {
        sim->now = at;
        (void)mr_fake_step(sim->store.fake, at);
    }
}

bool sim_all_done(const struct sim *sim)
{
    for (int i = 0; i < sim->nclients; i++) {
        if (!sim->clients[i].done) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- what befalls whom */

bool sim_is_cut(const struct sim *sim, int from, int to)
{
    return sim->cut_until[from][to] > sim->now;
}

void sim_moment(struct sim *sim, enum sim_moment moment, struct sim_worker *worker,
                struct sim_client *client)
{
    unsigned permille = sim->faults.moments[moment];

    if (permille > 0 && sim_draw(sim, 1000) < permille) {
        sim->befall(sim, worker, client);
    }
}

bool sim_is_stranding(const struct sim *sim)
{
    return sim->stranded_at != 0 && sim->now < sim->stranded_at + 2 * SIM_OUT_OF_REACH_MS &&
           sim->rares[SIM_RARE_UNREACHABLE] == 0;
}

/* ---------------------------------------------------------------- who is meant */

int sim_dataset_of(const struct sim *sim, const char *id)
{
    int i = SIM_DATASETS - 1;

    while (i > 0 && strcmp(sim->datasets[i].id, id) != 0) {
        i--;
    }
    return i;
}

struct sim_task *sim_find_task(struct sim_worker *worker, const char *id)
{
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        if (strcmp(id, task->id) == 0) {
            return task;
        }
    }
    return NULL;
}

void sim_world_free(struct sim *sim)
{
    while (sim->nevents > 0) {
        struct sim_event event = pop_event(sim);

        drop_event(&event);
    }
    mr_free(sim->events);
    mr_buf_free(&sim->transcript);
    while (sim->known != NULL) {
        struct sim_known *known = sim->known;

        sim->known = known->next;
        mr_free(known);
    }
    mr_map_free(&sim->identities);
}
