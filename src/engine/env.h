/*
 * What all nodes of one engine iterator share: the cancel token, the memory budget, seeds, compiled
 * functions, splits.
 *
 * Threads: safe from any thread, except for opening and closing.
 */
#pragma once

#include "base/memory.h"
#include "base/sync.h"
#include "engine/engine.h"
#include "engine/program.h"

#include <stdatomic.h>

/* Called (under the environment's lock) when the iterator is cancelled: wake whoever waits. */
struct mr_canceller {
    void (*wake)(void *ctx);
    void *ctx;
    bool gentle; /* wakes waiters, who look around and wait again: may be called at any time */
    struct mr_canceller *next;
    struct mr_canceller **link;
};

/* A provider of splits: a source of the outermost graph, or a zip or concatenate of sources. */
struct mr_provider {
    uint64_t path;
    const mr_dataset *at; /* lent by the graph: the node where it is cut */
    int64_t splits;       /* MR_CARDINALITY_INFINITE: endless */
    uint64_t rows;        /* elements in a split; in the last one there may be fewer */
    uint64_t elements;    /* that the whole graph makes of a split, at most; 0: not known */
    uint64_t opened;      /* passes so far; guarded by env->lock */
};

/* What a function that returns a dataset needs for one row of its input. */
struct mr_expansion {
    mr_function *fn;   /* one reference */
    uint32_t *numbers; /* value numbers that the dataset uses, ascending */
    size_t n;
    mr_program *program; /* computes them; NULL if there are none */
};

/* Adjacent maps joined. */
struct mr_map_plan {
    mr_program *program;
    mr_function *fn;         /* one reference; what the program was made of */
    const mr_dataset *input; /* of the first of the maps */
    uint32_t joined;         /* how many maps */
};

struct mr_profile;

struct mr_env {
    uint64_t seed;
    uint64_t epoch;
    uint64_t part;   /* mr_engine_options */
    uint64_t serial; /* of this environment in the process, from 1 */
    uint32_t threads;
    mr_cpu_share *share; /* mr_engine_options */
    bool has_splits;
    struct mr_split_source splits;
    struct mr_external_opener external; /* open == NULL: none */
    struct mr_provider *providers;
    size_t nproviders;

    atomic_bool cancelled;
    mr_memory *memory; /* one reference; what the threads that work for it make is charged to it */
    size_t budget_bytes;      /* its limit */
    atomic_size_t used_bytes; /* what operators hold of it */
    atomic_uint open_nodes;
    atomic_uint stage_threads;           /* of MR_STAGE_THREADS_MAX, promised to stages */
    atomic_uint_fast64_t ignored_errors; /* of elements that ignore_errors has left out */

    pthread_mutex_t lock; /* guards all below, and `opened` of the providers */
    struct mr_canceller *cancellers;
    struct mr_env_entry *cache;
    bool pooled;                /* holds the pool until the end */
    struct mr_profile *profile; /* NULL: nobody looks. Constant */
};

int mr_env_init(struct mr_env *env, const mr_dataset *root, const struct mr_engine_options *opts,
                mr_error *err);
void mr_env_destroy(struct mr_env *env); /* a half-made one is fine */

/* What this thread does from now on is for @env: it is charged to its memory, and given up when it
 * is cancelled. Returns what it was for before. */
struct mr_env_work {
    mr_memory *memory;
    const atomic_bool *cancelled;
    struct mr_profile *profile;
    struct mr_doing *seen; /* its place in `profile`; NULL: none */
    struct mr_doing *doing;
};
struct mr_env_work mr_env_enter(struct mr_env *env);
/* ... and is seen by whoever looks (engine/profile.h): for the stage of operator @stage, or for the
 * consumer (0). */
struct mr_env_work mr_env_enter_stage(struct mr_env *env, uint32_t stage);
void mr_env_leave(struct mr_env_work before);

void mr_env_cancel(struct mr_env *env);
bool mr_env_cancelled(const struct mr_env *env);
int mr_env_canceled_error(mr_error *err);
/* Calls wake at once if the iterator is cancelled already. */
void mr_env_add_canceller(struct mr_env *env, struct mr_canceller *c, void (*wake)(void *ctx),
                          void *ctx);
/* Wake all waiters behind gentle cancellers. Not to be called under a lock that one of them
 * takes. */
void mr_env_wake(struct mr_env *env);
/* one that was never added is fine */
void mr_env_remove_canceller(struct mr_env *env, struct mr_canceller *c);

/* Have the pool's threads running until the environment ends: stages come and go more often than
 * they. */
int mr_env_use_pool(struct mr_env *env, mr_error *err);
/* Whether they are: then they cost nothing more. */
bool mr_env_has_pool(struct mr_env *env);

/* Threads for a stage that is opened, for as long as it is open: @wanted, or fewer if many are
 * open. With 0 it does all its work when it is pulled. So what a function makes for each of
 * thousands of elements does not start a thread each. */
uint32_t mr_env_take_threads(struct mr_env *env, uint32_t wanted);
void mr_env_give_threads(struct mr_env *env, uint32_t n);

/* What operators hold in blocks. false (and nothing charged) if that would go over the budget. The
 * blocks themselves were charged when they were made (base/memory.h): this bounds and names who
 * holds them. */
bool mr_env_charge(struct mr_env *env, size_t bytes);
/* The same for what was made ahead of need, which gives way sooner. */
bool mr_env_charge_ahead(struct mr_env *env, size_t bytes);
void mr_env_release(struct mr_env *env, size_t bytes);
/* What was *@charged is now @bytes, and *@charged says so. false (and nothing changed) if that
 * would go over the budget. */
bool mr_env_recharge(struct mr_env *env, size_t *charged, size_t bytes);
/* The same for arrays, which nobody else has charged: charge them before they are made. */
bool mr_env_recharge_array(struct mr_env *env, size_t *charged, size_t bytes);
/* "the memory budget is ...", for an error. */
struct mr_budget_text {
    char text[96];
};
struct mr_budget_text mr_env_budget_text(const struct mr_env *env);

/* Compiled once an environment; lent until its end. */
int mr_env_program(struct mr_env *env, mr_function *fn, mr_program **ret, mr_error *err);
int mr_env_map_plan(struct mr_env *env, const mr_dataset *ds, const struct mr_map_plan **ret,
                    mr_error *err);
int mr_env_expansion(struct mr_env *env, mr_function *fn, const struct mr_expansion **ret,
                     mr_error *err);

/* The provider at @path, or NULL. */
struct mr_provider *mr_env_provider(struct mr_env *env, uint64_t path);

/* ---- the machine (machine.c) ---- */

/* Cores that this process may use: affinity and cgroup cpu.max. At least 1. */
uint32_t mr_machine_cores(void);
/* Memory that it may use: cgroup memory.max or the machine's. */
uint64_t mr_machine_memory_bytes(void);

/* ---- plans (plan.c) ---- */

/* Join @ds (a map) with the maps below it that run the same way. */
int mr_plan_map(const mr_dataset *ds, struct mr_map_plan *ret, mr_error *err);
