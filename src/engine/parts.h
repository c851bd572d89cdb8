/*
 * Work in parts, done while its owner does something else, by threads of the pool that have nothing
 * to do. Who owns it comes back for it, does what is left, and waits for what others have begun.
 *
 * Threads: of one owner at a time; the parts run on any.
 */
#pragma once

#include "engine/env.h"
#include "engine/pool.h"

#define MR_PARTS_HELPERS 4u

struct mr_parts_helper {
    struct mr_pool_task task;
    struct mr_parts *parts;
};

struct mr_parts {
    struct mr_env *env;
    /* false: it failed, and what is left need not be done */
    bool (*run)(void *ctx, uint32_t part);
    void *ctx;
    uint32_t n;
    atomic_uint next;
    atomic_bool failed;
    struct mr_parts_helper helpers[MR_PARTS_HELPERS];
    uint32_t nhelpers; /* that were asked for */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t busy; /* helpers that were not taken back and have not ended; guarded by lock */
};

void mr_parts_init(struct mr_parts *p, struct mr_env *env);
/* It is stopped, or was never started. */
void mr_parts_destroy(struct mr_parts *p);

/* Helpers, if there are any, begin with parts 0 to @n - 1. The environment uses the pool. What they
 * make is charged to it. */
void mr_parts_start(struct mr_parts *p, bool (*run)(void *ctx, uint32_t part), void *ctx,
                    uint32_t n);
/* All parts have been done: by helpers, the rest by the caller. false: one has failed, and then
 * some may not have been done. */
bool mr_parts_finish(struct mr_parts *p);
/* No part runs any more, nor will one begin. */
void mr_parts_stop(struct mr_parts *p);
