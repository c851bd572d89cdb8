#include "dispatcher/views/why.h"

/* Of readers there is less to say, and less than that of workers is an accident. */
#define READ_NS_MIN UINT64_C(2000000000)
#define PIPELINE_NS_MIN UINT64_C(300000000)
#define WHOLE 1000000u /* parts are counted in these, and shown in thousands */
/* A consumer is slow if the others wait so much of their time, and so much more than it. */
#define SLOW_WAITS (3 * WHOLE / 10)
#define SLOW_MORE (2 * WHOLE / 10)

static const struct {
    const char *name;
    const char *advice;
} bounds[MR_BOUND_COUNT] = {
    [MR_BOUND_UNKNOWN] = {"", "read on for some seconds: too little is known yet"},
    [MR_BOUND_TRAINER] = {"trainer", "the input keeps up: more workers would not help"},
    [MR_BOUND_CLIENT] = {"client",
                         "operators behind distribute() take the time: move them in front of it, "
                         "where workers run them, or make them parallel"},
    [MR_BOUND_NETWORK] = {"network",
                          "workers have sent all that they may: put them nearer, send smaller "
                          "elements, or use compression"},
    [MR_BOUND_CPU] =
        {"cpu", "make this operator cheaper or parallel (num_parallel_calls), or add workers"},
    [MR_BOUND_STORAGE] = {"storage",
                          "read more files at once (interleave with num_parallel_calls, prefetch), "
                          "or from faster storage"},
    [MR_BOUND_SPLITS] = {"splits",
                         "workers have no splits left: make more of them (more, smaller files)"},
    [MR_BOUND_CONSUMER] = {"consumer", "the other readers wait for this one: look at what it does"},
    [MR_BOUND_MEMORY] = {"memory",
                         "raise the workers' --memory-budget, or make buffers and batches smaller"},
    [MR_BOUND_POOL] = {"pool",
                       "the workers' threads are busy with other jobs: add workers, or cores"},
};

const char *mr_bound_name(enum mr_bound bound)
{
    return bounds[bound].name;
}

uint32_t mr_why_share(uint64_t part, uint64_t of)
{
    while (of > UINT64_MAX / WHOLE) {
        of /= 2;
        part /= 2;
    }
    return of == 0 ? 0 : (uint32_t)(MR_MIN(part, of) * WHOLE / of);
}

static uint32_t times(uint32_t share_of, uint32_t whole)
{
    return (uint32_t)((uint64_t)share_of * whole / WHOLE);
}

static uint32_t permille(uint32_t share_of)
{
    return (share_of + WHOLE / 2000) / (WHOLE / 1000);
}

/* @share of the readers' time goes to that. */
static void give(struct mr_why *why, enum mr_bound bound, const char *name, uint32_t share_of)
{
    size_t i = why->n;

    if (share_of == 0) {
        return;
    }
    for (; i > 0 && why->parts[i - 1].permille < share_of; i--) {
        why->parts[i] = why->parts[i - 1];
    }
    why->parts[i] = (struct mr_why_part){bound, name, share_of};
    why->n++;
}

/* ---- the pipeline ---- */

/* All that the tasks did, but for waiting for clients. */
static uint64_t busy_ns(const struct mr_iteration_times *t)
{
    uint64_t sum = 0;

    for (int i = MR_SPENT_CLIENTS + 1; i < MR_SPENT_COUNT; i++) {
        sum += t->lately.spent[i];
    }
    for (uint32_t i = 0; i < t->n; i++) {
        sum += t->lately.operators[i].work + t->lately.operators[i].storage;
    }
    return sum;
}

static uint32_t share_of_clients(const struct mr_iteration_times *t)
{
    uint64_t clients = t->lately.spent[MR_SPENT_CLIENTS];

    return mr_why_share(clients, clients + busy_ns(t));
}

/* What the pipeline did while somebody waited for it, which was @whole of the readers' time. */
static void judge_work(const struct mr_iteration_times *t, uint32_t whole, struct mr_why *why)
{
    uint64_t busy = busy_ns(t);
    uint64_t held = t->lately.spent[MR_SPENT_MEMORY];
    /* Whatever it did then: with memory it would have done more of it at once. */
    uint32_t scarce = mr_why_share(t->lately.scarce, busy - held);
    uint32_t memory = times(mr_why_share(held, busy), whole);
    uint32_t rest = whole - memory;

    memory += times(scarce, rest);
    rest = whole - memory;
    give(why, MR_BOUND_MEMORY, "", memory);
    busy -= held;
    give(why, MR_BOUND_SPLITS, "",
         times(mr_why_share(t->lately.spent[MR_SPENT_SPLITS], busy), rest));
    give(why, MR_BOUND_POOL, "", times(mr_why_share(t->lately.spent[MR_SPENT_POOL], busy), rest));
    uint64_t others = t->lately.spent[MR_SPENT_OTHERS] + t->lately.spent[MR_SPENT_WINDOW];
    give(why, MR_BOUND_CPU, "", times(mr_why_share(others, busy), rest));
    for (uint32_t i = 0; i < t->n; i++) {
        const struct mr_operator_times *one = &t->lately.operators[i];

        give(why, MR_BOUND_CPU, t->names[i], times(mr_why_share(one->work, busy), rest));
        give(why, MR_BOUND_STORAGE, t->names[i], times(mr_why_share(one->storage, busy), rest));
    }
}

static void judge_pipeline(const struct mr_why_in *in, uint32_t starved, struct mr_why *why)
{
    const struct mr_iteration_times *sends = in->reading != NULL ? in->reading : in->pipeline;
    uint32_t network = times(share_of_clients(sends), starved);
    uint32_t rest = starved - network;

    give(why, MR_BOUND_NETWORK, "", network);
    if (in->reading != NULL) { /* Who else reads the production may hold it up. */
        uint32_t consumer = times(share_of_clients(in->pipeline), rest);

        give(why, MR_BOUND_CONSUMER, "", consumer);
        rest -= consumer;
    }
    if (in->idle > 0) { /* With a split for each, the others would not have to wait for one. */
        give(why, MR_BOUND_SPLITS, "", rest);
    } else {
        judge_work(in->pipeline, rest, why);
    }
}

/* ---- readers ---- */

static bool has_slow_consumer(const struct mr_why_in *in)
{
    uint32_t least = mr_why_share(in->least.waited, in->least.elapsed);
    uint32_t others = mr_why_share(in->others.waited, in->others.elapsed);

    return in->coordinated && others >= SLOW_WAITS && others >= least + SLOW_MORE;
}

/* Rounds go by the slowest: what the others wait for is that one. */
static void judge_consumer(const struct mr_why_in *in, struct mr_why *why)
{
    uint32_t waits = mr_why_share(in->others.waited, in->others.elapsed);

    give(why, MR_BOUND_CONSUMER, "", waits);
    give(why, MR_BOUND_TRAINER, "", WHOLE - waits);
    (void)snprintf(why->place, sizeof why->place, "consumer %u", in->consumer);
    why->bound = MR_BOUND_CONSUMER; /* however much of their time it is */
    why->permille = waits;
    why->name = "";
}

static bool is_enough(const struct mr_iteration_times *t)
{
    return t != NULL && busy_ns(t) + t->lately.spent[MR_SPENT_CLIENTS] >= PIPELINE_NS_MIN;
}

static void judge_readers(const struct mr_why_in *in, struct mr_why *why)
{
    uint32_t waited = mr_why_share(in->readers.waited, in->readers.elapsed);
    uint32_t starved = MR_MIN(mr_why_share(in->readers.starved, in->readers.elapsed), waited);

    give(why, MR_BOUND_TRAINER, "", WHOLE - waited);
    give(why, MR_BOUND_CLIENT, "", waited - starved);
    if (is_enough(in->pipeline) && (in->reading == NULL || is_enough(in->reading))) {
        judge_pipeline(in, starved, why);
    } else if (starved >= WHOLE - starved) {
        why->n = 0; /* Nobody knows what it waits for, and that is most of it. */
    }
    if (why->n > 0) {
        why->bound = why->parts[0].bound;
        why->permille = why->parts[0].permille;
        why->name = why->parts[0].name;
    }
}

void mr_why_judge(const struct mr_why_in *in, struct mr_why *ret)
{
    *ret = (struct mr_why){.name = ""};
    if (in->readers.elapsed >= READ_NS_MIN) {
        if (has_slow_consumer(in)) {
            judge_consumer(in, ret);
        } else {
            judge_readers(in, ret);
        }
    }
    if (ret->bound == MR_BOUND_STORAGE) {
        memcpy(ret->place, in->pipeline->file_system, sizeof ret->place);
    }
    ret->advice = bounds[ret->bound].advice;
    ret->permille = permille(ret->permille);
    for (size_t i = 0; i < ret->n; i++) {
        ret->parts[i].permille = permille(ret->parts[i].permille);
    }
}
