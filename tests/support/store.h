/*
 * A store for a test: the fake on its virtual clock, or a private etcd on the real one, with one
 * way to wait for both.
 *
 * Callbacks of the store must be serialised with the test: take mr_test_store_lock() in them and
 * around what they touch.
 */
#pragma once

#include "coord/fake/fake.h"
#include "tests/support/etcd.h"

#include <pthread.h>

struct mr_test_store {
    bool real;
    mr_fake *fake;
    struct mr_test_etcd *etcd;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* @real: over etcd, one as @opts has it (NULL: plain). NULL: it could not be started. */
struct mr_test_store *mr_test_store_new(bool real, const struct mr_test_etcd_options *opts,
                                        uint64_t seed);
mr_store *mr_test_store_connect(struct mr_test_store *t);
void mr_test_store_free(struct mr_test_store *t); /* its clients must have been closed */

void mr_test_store_lock(struct mr_test_store *t);
void mr_test_store_unlock(struct mr_test_store *t); /* and wake who waits */

/* Let time pass until @done(@ctx), called with the lock held. false: not within @ms. */
bool mr_test_store_wait(struct mr_test_store *t, bool (*done)(void *ctx), void *ctx, int64_t ms);
int64_t mr_test_store_now_ms(const struct mr_test_store *t);
bool mr_test_store_compact(struct mr_test_store *t, int64_t revision);
