/* Heartbeats say sums; kept is what was added lately. A heartbeat that is lost is made up for by the
 * next one. */
#include "dispatcher/model/apply.h"

#define NS_PER_MS UINT64_C(1000000)

uint64_t mr_times_fade(uint64_t lately, int64_t ms)
{
    uint64_t window = MR_TIMES_WINDOW_MS;
    uint64_t elapsed = (uint64_t)MR_MIN(MR_MAX(ms, 0), INT32_MAX);

    uint64_t whole = window + elapsed;

    return lately / whole * window + lately % whole * window / whole;
}

/* What was added to *@said, at most @most; *@said is @now then. Less than before: it counts from
 * there. */
static uint64_t add(uint64_t *said, uint64_t now, uint64_t most)
{
    uint64_t more = now >= *said ? now - *said : 0;

    *said = now;
    return MR_MIN(more, most);
}

/* Clocks differ, and heartbeats are delayed: twice the time since the last one is plausible. */
static uint64_t plausible(const mr_core *core, int64_t since)
{
    return (uint64_t)(MR_MIN(core->now - since, INT32_MAX) + 1) * 2 * NS_PER_MS;
}

/* ---- clients ---- */

void mr_apply_client_times_said(mr_core *core, const struct mr_client_times_said *u)
{
    const Millrace__ReaderTimes *in = u->times;
    struct mr_client_times *times = u->client->times;
    bool first = times == NULL;

    if (first) {
        times = u->client->times = mr_core_alloc(core, 1, sizeof *times);
    }
    if (times == NULL) {
        return;
    }
    int64_t ms = core->now - times->at;
    uint64_t most = plausible(core, times->at);
    struct mr_reader_times *lately = &times->lately;
    uint64_t elapsed = add(&times->said.elapsed, in->elapsed_ns, most);
    uint64_t waited = add(&times->said.waited, in->waited_ns, elapsed);
    uint64_t starved = add(&times->said.starved, in->starved_ns, waited);

    times->at = core->now;
    if (first) {
        return;
    }
    *lately = (struct mr_reader_times){.elapsed = mr_times_fade(lately->elapsed, ms) + elapsed,
                                       .waited = mr_times_fade(lately->waited, ms) + waited,
                                       .starved = mr_times_fade(lately->starved, ms) + starved};
    core->out->tally.worked_ns += elapsed - waited;
    core->out->tally.waited_ns += waited;
}

/* ---- tasks ---- */

/* The number of operator @name; MR_TIMES_OPERATORS: there are others enough. */
static uint32_t find_operator(struct mr_iteration_times *all, const char *name)
{
    char line[MR_TIMES_NAME] = "";
    uint32_t i = 0;

    mr_line_copy(name, line, sizeof line);
    while (i < all->n && strcmp(all->names[i], line) != 0) {
        i++;
    }
    if (i == all->n && i < MR_TIMES_OPERATORS) {
        memcpy(all->names[i], line, sizeof line);
        all->n++;
    }
    return i;
}

static void fade(struct mr_iteration_times *all, int64_t now)
{
    int64_t ms = now - all->at;
    struct mr_pipeline_times *lately = &all->lately;

    for (int i = 0; i < MR_SPENT_COUNT; i++) {
        lately->spent[i] = mr_times_fade(lately->spent[i], ms);
    }
    lately->scarce = mr_times_fade(lately->scarce, ms);
    for (uint32_t i = 0; i < all->n; i++) {
        lately->operators[i].work = mr_times_fade(lately->operators[i].work, ms);
        lately->operators[i].storage = mr_times_fade(lately->operators[i].storage, ms);
    }
    all->at = now;
}

/* Of one that is new, what is said first is where counting begins. */
static void add_operators(struct mr_iteration_times *all, struct mr_task_times *task,
                          const Millrace__TaskTimes *in, uint64_t most)
{
    for (size_t i = 0; i < in->n_operators && i < MR_TIMES_OPERATORS; i++) {
        const Millrace__OperatorTimes *one = in->operators[i];
        uint32_t number = find_operator(all, one->name);

        if (number == MR_TIMES_OPERATORS) {
            continue;
        }
        bool known = (task->known & 1u << number) != 0;
        struct mr_operator_times *said = &task->said.operators[number];
        uint64_t work = add(&said->work, one->work_ns, most);
        uint64_t storage = add(&said->storage, one->storage_ns, most);

        task->known |= 1u << number;
        if (known) {
            all->lately.operators[number].work += work;
            all->lately.operators[number].storage += storage;
        }
    }
}

static void add_waits(struct mr_iteration_times *all, struct mr_task_times *task,
                      const Millrace__TaskTimes *in, uint64_t most, bool counts)
{
    const uint64_t now[MR_SPENT_COUNT] = {
        [MR_SPENT_CLIENTS] = in->clients_ns, [MR_SPENT_MEMORY] = in->memory_ns,
        [MR_SPENT_WINDOW] = in->window_ns,   [MR_SPENT_SPLITS] = in->splits_ns,
        [MR_SPENT_POOL] = in->pool_ns,       [MR_SPENT_OTHERS] = in->others_ns,
    };

    for (int i = 0; i < MR_SPENT_COUNT; i++) {
        uint64_t more = add(&task->said.spent[i], now[i], most);

        all->lately.spent[i] += counts ? more : 0;
    }
    uint64_t scarce = add(&task->said.scarce, in->scarce_ns, most);
    all->lately.scarce += counts ? scarce : 0;
}

void mr_apply_task_times_said(mr_core *core, const struct mr_task_times_said *u)
{
    struct mr_task *task = u->task;
    struct mr_iteration *it = task->iteration;
    bool first = task->times == NULL;

    if (it->times == NULL) {
        it->times = mr_core_alloc(core, 1, sizeof *it->times);
    }
    if (first) {
        task->times = mr_core_alloc(core, 1, sizeof *task->times);
    }
    if (it->times == NULL || task->times == NULL) {
        return;
    }
    uint64_t most = plausible(core, task->times->at);
    fade(it->times, core->now);
    add_waits(it->times, task->times, u->times, most, !first);
    add_operators(it->times, task->times, u->times, most);
    task->times->at = core->now;
    if (u->times->file_system[0] != '\0') {
        mr_line_copy(u->times->file_system, it->times->file_system, sizeof it->times->file_system);
    }
}
