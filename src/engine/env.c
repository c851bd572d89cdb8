#include "engine/env.h"

#include "base/cancel.h"
#include "base/limits.h"
#include "base/rng.h"
#include "dataset/graph.h"
#include "engine/pool.h"
#include "engine/profile.h"
#include "engine/providers.h"

enum entry_kind { ENTRY_PROGRAM, ENTRY_MAP_PLAN, ENTRY_EXPANSION };

/* Things compiled, by the function or node that they were made of. A pipeline has a handful: a list
 * does. */
struct mr_env_entry {
    struct mr_env_entry *next;
    enum entry_kind kind;
    const void *key;
    mr_program *program;
    struct mr_map_plan plan;
    struct mr_expansion expansion;
};

static atomic_uint_least64_t serials;

/* The blocks that work is done in have 64 KiB: with less than some of them there is no working.
 * What is held is bound by less if that is asked for. */
#define MEMORY_MIN (1024u * 1024u)

/* Of its own when a size was asked for; else the one that it shares with others, if there is
 * one. */
static int make_memory(struct mr_env *env, const struct mr_engine_options *opts, mr_error *err)
{
    if (opts->memory != NULL && opts->memory_budget_bytes == 0) {
        env->memory = mr_memory_ref(opts->memory);
        env->budget_bytes = mr_memory_limit(env->memory);
        return MR_OK;
    }
    env->budget_bytes =
        opts->memory_budget_bytes != 0 ? opts->memory_budget_bytes : mr_machine_memory_bytes() / 4;
    return mr_memory_new(MR_MAX(MEMORY_MIN, env->budget_bytes), opts->memory, &env->memory, err);
}

int mr_env_init(struct mr_env *env, const mr_dataset *root, const struct mr_engine_options *opts,
                mr_error *err)
{
    *env = (struct mr_env){0};
    mr_mutex_init(&env->lock);
    atomic_init(&env->cancelled, false);
    atomic_init(&env->used_bytes, 0);
    atomic_init(&env->open_nodes, 0);
    atomic_init(&env->stage_threads, 0);
    env->seed = opts->seed != 0 ? opts->seed : mr_random_u64();
    env->epoch = opts->epoch;
    env->serial = atomic_fetch_add(&serials, 1) + 1;
    env->threads = opts->threads != 0 ? opts->threads : mr_machine_cores();

    env->share = opts->share;
    MR_TRY(make_memory(env, opts, err));
    MR_TRY(opts->profile ? mr_profile_new(&env->profile, err) : MR_OK);
    if (opts->external != NULL) {
        env->external = *opts->external;
    }
    if (opts->splits == NULL) {
        return MR_OK;
    }
    env->has_splits = true;
    env->splits = *opts->splits;
    env->part = opts->part;
    return mr_providers_list(root, &env->providers, &env->nproviders, err);
}

static void entry_free(struct mr_env_entry *e)
{
    if (e->kind == ENTRY_PROGRAM) {
        mr_program_free(e->program);
    } else if (e->kind == ENTRY_MAP_PLAN) {
        mr_program_free(e->plan.program);
        mr_function_unref(e->plan.fn);
    } else {
        mr_program_free(e->expansion.program);
        mr_function_unref(e->expansion.fn);
        mr_free(e->expansion.numbers);
    }
    mr_free(e);
}

void mr_env_destroy(struct mr_env *env)
{
    while (env->cache != NULL) {
        struct mr_env_entry *e = env->cache;

        env->cache = e->next;
        entry_free(e);
    }
    if (env->pooled) {
        mr_pool_release();
    }
    mr_profile_free(env->profile);
    mr_free(env->providers);
    mr_memory_unref(env->memory);
    (void)pthread_mutex_destroy(&env->lock);
}

struct mr_env_work mr_env_enter(struct mr_env *env)
{
    return (struct mr_env_work){.memory = mr_memory_enter(env->memory),
                                .cancelled = mr_cancel_enter(&env->cancelled)};
}

struct mr_env_work mr_env_enter_stage(struct mr_env *env, uint32_t stage)
{
    struct mr_env_work before = mr_env_enter(env);

    before.profile = env->profile;
    before.seen = mr_profile_take(env->profile, stage);
    before.doing = before.seen != NULL ? mr_doing_enter(before.seen) : NULL;
    return before;
}

void mr_env_leave(struct mr_env_work before)
{
    (void)mr_memory_enter(before.memory);
    (void)mr_cancel_enter(before.cancelled);
    if (before.seen != NULL) {
        (void)mr_doing_enter(before.doing);
        mr_profile_leave(before.profile, before.seen);
    }
}

/* ---- cancel ---- */

void mr_env_cancel(struct mr_env *env)
{
    if (atomic_exchange(&env->cancelled, true)) {
        return;
    }
    MR_LOCK(&env->lock);
    for (struct mr_canceller *c = env->cancellers; c != NULL; c = c->next) {
        c->wake(c->ctx);
    }
    if (env->has_splits && env->splits.cancel != NULL) {
        env->splits.cancel(env->splits.ctx);
    }
}

bool mr_env_cancelled(const struct mr_env *env)
{
    return atomic_load_explicit(&env->cancelled, memory_order_acquire);
}

int mr_env_canceled_error(mr_error *err)
{
    return mr_error_set(err, MR_ECANCELED, "the iterator was cancelled");
}

void mr_env_add_canceller(struct mr_env *env, struct mr_canceller *c, void (*wake)(void *ctx),
                          void *ctx)
{
    MR_LOCK(&env->lock);
    c->wake = wake;
    c->ctx = ctx;
    c->next = env->cancellers;
    c->link = &env->cancellers;
    if (c->next != NULL) {
        c->next->link = &c->next;
    }
    env->cancellers = c;
    if (mr_env_cancelled(env)) {
        wake(ctx);
    }
}

void mr_env_wake(struct mr_env *env)
{
    MR_LOCK(&env->lock);
    for (struct mr_canceller *c = env->cancellers; c != NULL; c = c->next) {
        if (c->gentle) {
            c->wake(c->ctx);
        }
    }
}

void mr_env_remove_canceller(struct mr_env *env, struct mr_canceller *c)
{
    MR_LOCK(&env->lock);
    if (c->link == NULL) {
        return;
    }
    *c->link = c->next;
    if (c->next != NULL) {
        c->next->link = c->link;
    }
    c->link = NULL;
}

int mr_env_use_pool(struct mr_env *env, mr_error *err)
{
    int rc = MR_OK;

    MR_LOCK(&env->lock);
    if (!env->pooled) {
        rc = mr_pool_acquire(err);
        env->pooled = rc == MR_OK;
    }
    return rc;
}

bool mr_env_has_pool(struct mr_env *env)
{
    MR_LOCK(&env->lock);
    return env->pooled;
}

/* ---- memory ---- */

uint32_t mr_env_take_threads(struct mr_env *env, uint32_t wanted)
{
    unsigned used = atomic_load(&env->stage_threads);
    uint32_t n;

    do {
        n = MR_MIN(MR_STAGE_THREADS_MAX - used, wanted);
    } while (!atomic_compare_exchange_weak(&env->stage_threads, &used, used + n));
    return n;
}

void mr_env_give_threads(struct mr_env *env, uint32_t n)
{
    unsigned used = atomic_fetch_sub(&env->stage_threads, n);

    MR_ASSERT(used >= n);
}

bool mr_env_charge(struct mr_env *env, size_t bytes)
{
    size_t used = atomic_load_explicit(&env->used_bytes, memory_order_relaxed);

    do { /* Never above it for a moment: that would refuse others. */
        if (bytes > env->budget_bytes || used > env->budget_bytes - bytes) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&env->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    if (mr_memory_is_short(env->memory, MR_MEMORY_HELD, 0)) {
        mr_env_release(env, bytes);
        return false;
    }
    return true;
}

bool mr_env_charge_ahead(struct mr_env *env, size_t bytes)
{
    bool charged =
        !mr_memory_is_short(env->memory, MR_MEMORY_AHEAD, 0) && mr_env_charge(env, bytes);

    if (!charged) {
        mr_profile_gave_way(env->profile);
    }
    return charged;
}

void mr_env_release(struct mr_env *env, size_t bytes)
{
    size_t before = atomic_fetch_sub_explicit(&env->used_bytes, bytes, memory_order_relaxed);

    MR_ASSERT(before >= bytes);
}

bool mr_env_recharge(struct mr_env *env, size_t *charged, size_t bytes)
{
    if (bytes > *charged && !mr_env_charge(env, bytes - *charged)) {
        return false;
    }
    if (bytes < *charged) {
        mr_env_release(env, *charged - bytes);
    }
    *charged = bytes;
    return true;
}

bool mr_env_recharge_array(struct mr_env *env, size_t *charged, size_t bytes)
{
    size_t before = *charged;

    if (bytes > before && !mr_memory_charge(env->memory, MR_MEMORY_HELD, bytes - before)) {
        return false;
    }
    if (!mr_env_recharge(env, charged, bytes)) {
        mr_memory_release(env->memory, bytes - before);
        return false;
    }
    if (bytes < before) {
        mr_memory_release(env->memory, before - bytes);
    }
    return true;
}

struct mr_budget_text mr_env_budget_text(const struct mr_env *env)
{
    struct mr_budget_text t;

    (void)snprintf(t.text, sizeof t.text, "the memory budget is %llu, %llu of which are in use",
                   (unsigned long long)env->budget_bytes,
                   (unsigned long long)mr_memory_used(env->memory));
    return t;
}

/* ---- compiled things ---- */

static int make_expansion(mr_function *fn, struct mr_expansion *e, mr_error *err)
{
    MR_AUTO(mr_function_unref) mr_function *projected = NULL;
    int rc = mr_dataset_scope_values(fn->dataset, &e->numbers, &e->n, err);

    if (rc != MR_OK || e->n == 0) {
        e->fn = rc == MR_OK ? mr_function_ref(fn) : NULL;
        return rc;
    }
    MR_TRY(mr_function_project(fn, e->numbers, e->n, &projected, err));
    MR_TRY(mr_program_new(projected, &e->program, err));
    e->fn = mr_function_ref(fn);
    return MR_OK;
}

static int make_entry(struct mr_env_entry *e, mr_error *err)
{
    switch (e->kind) {
    case ENTRY_PROGRAM: return mr_program_new((mr_function *)(uintptr_t)e->key, &e->program, err);
    case ENTRY_MAP_PLAN: return mr_plan_map(e->key, &e->plan, err);
    case ENTRY_EXPANSION:
        return make_expansion((mr_function *)(uintptr_t)e->key, &e->expansion, err);
    }
    return mr_error_set(err, MR_EINTERNAL, "entry of kind %d", (int)e->kind);
}

static int entry(struct mr_env *env, enum entry_kind kind, const void *key,
                 struct mr_env_entry **ret, mr_error *err)
{
    struct mr_env_entry *e;

    /* Compiling under it is short, and keeps two threads from doing it twice. */
    MR_LOCK(&env->lock);
    for (e = env->cache; e != NULL; e = e->next) {
        if (e->kind == kind && e->key == key) {
            *ret = e;
            return MR_OK;
        }
    }
    e = mr_calloc(1, sizeof *e);
    MR_CHECK_ALLOC(e, err);
    e->kind = kind;
    e->key = key;
    int rc = make_entry(e, err);
    if (rc != MR_OK) {
        entry_free(e);
        return rc;
    }
    e->next = env->cache;
    env->cache = e;
    *ret = e;
    return MR_OK;
}

int mr_env_program(struct mr_env *env, mr_function *fn, mr_program **ret, mr_error *err)
{
    struct mr_env_entry *e = NULL;

    MR_TRY(entry(env, ENTRY_PROGRAM, fn, &e, err));
    *ret = e->program;
    return MR_OK;
}

int mr_env_map_plan(struct mr_env *env, const mr_dataset *ds, const struct mr_map_plan **ret,
                    mr_error *err)
{
    struct mr_env_entry *e = NULL;

    MR_TRY(entry(env, ENTRY_MAP_PLAN, ds, &e, err));
    *ret = &e->plan;
    return MR_OK;
}

int mr_env_expansion(struct mr_env *env, mr_function *fn, const struct mr_expansion **ret,
                     mr_error *err)
{
    struct mr_env_entry *e = NULL;

    MR_TRY(entry(env, ENTRY_EXPANSION, fn, &e, err));
    *ret = &e->expansion;
    return MR_OK;
}

struct mr_provider *mr_env_provider(struct mr_env *env, uint64_t path)
{
    for (size_t i = 0; i < env->nproviders; i++) {
        if (env->providers[i].path == path) {
            return &env->providers[i];
        }
    }
    return NULL;
}
