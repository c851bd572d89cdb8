#include "tests/support/live_store.h"

#include "base/clock.h"
#include "base/sync.h"
#include "coord/fake/fake.h"

#include <stdlib.h>

#define STEP_MS 1

struct mr_live_store {
    pthread_mutex_t lock; /* guards everything below, and all of the fake; callbacks run with it */
    pthread_cond_t changed;
    mr_fake *fake;
    pthread_t thread;
    int64_t began_ms;
    bool stopping;
};

struct client {
    mr_store head;
    struct mr_live_store *live;
    mr_store *store;   /* of the fake */
    uint64_t requests; /* so far */
    uint64_t fail_at;
};

static const mr_error failed = {
    .code = MR_EUNAVAIL, .traits = MR_RETRYABLE, .message = "etcd is told to fail"};

static bool fails(struct client *c)
{
    return ++c->requests == c->fail_at;
}

static void *run(void *arg)
{
    struct mr_live_store *l = arg;

    MR_LOCK(&l->lock);
    while (!l->stopping) {
        while (mr_fake_step(l->fake, mr_now_ms() - l->began_ms)) {
        }
        (void)mr_cond_wait_ms(&l->changed, &l->lock, STEP_MS);
    }
    return NULL;
}

struct mr_live_store *mr_live_store_new(uint64_t seed)
{
    struct mr_live_store *l = calloc(1, sizeof *l);
    pthread_mutexattr_t recursive;

    if (l == NULL || mr_fake_new(seed, &l->fake, NULL) < 0) {
        abort();
    }
    /* A callback may call the store. */
    (void)pthread_mutexattr_init(&recursive);
    (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&l->lock, &recursive);
    (void)pthread_mutexattr_destroy(&recursive);
    mr_cond_init(&l->changed);
    l->began_ms = mr_now_ms();
    if (mr_thread_start(&l->thread, "live-store", run, l, NULL) < 0) {
        abort();
    }
    return l;
}

void mr_live_store_free(struct mr_live_store *l)
{
    mr_mutex_lock(&l->lock);
    l->stopping = true;
    mr_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
    mr_fake_free(l->fake);
    (void)pthread_cond_destroy(&l->changed);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- the port, with the lock ---- */

#define INNER(s)                                                                                   \
    struct client *c = (struct client *)(s);                                                       \
    MR_LOCK(&c->live->lock)

static void do_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                   void *ctx)
{
    INNER(s);
    if (fails(c)) {
        done(ctx, failed.code, NULL, &failed);
        return;
    }
    c->store->ops->txn(c->store, txn, timeout_ms, done, ctx);
}

static void do_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                     int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                     void *ctx)
{
    INNER(s);
    if (fails(c)) {
        done(ctx, failed.code, NULL, &failed);
        return;
    }
    c->store->ops->range(c->store, key, end, revision, limit, keys_only, timeout_ms, done, ctx);
}

static void do_lease(mr_store *s, enum mr_lease_call call, int64_t number, int64_t timeout_ms,
                     mr_lease_done *done, void *ctx)
{
    INNER(s);
    if (fails(c)) {
        done(ctx, failed.code, 0, 0, &failed);
        return;
    }
    c->store->ops->lease(c->store, call, number, timeout_ms, done, ctx);
}

static void do_status(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx)
{
    INNER(s);
    if (fails(c)) {
        done(ctx, failed.code, NULL, &failed);
        return;
    }
    c->store->ops->status(c->store, timeout_ms, done, ctx);
}

static uint64_t do_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                         void *ctx)
{
    INNER(s);
    return c->store->ops->watch(c->store, key, revision, fn, ctx);
}

static void do_watch_cancel(mr_store *s, uint64_t id)
{
    INNER(s);
    c->store->ops->watch_cancel(c->store, id);
}

static void do_close(mr_store *s)
{
    {
        INNER(s);
        c->store->ops->close(c->store);
    }
    free(s);
}

mr_store *mr_live_store_connect(struct mr_live_store *l)
{
    static const struct mr_store_ops ops = {.txn = do_txn,
                                            .range = do_range,
                                            .lease = do_lease,
                                            .status = do_status,
                                            .watch = do_watch,
                                            .watch_cancel = do_watch_cancel,
                                            .close = do_close};
    struct client *c = calloc(1, sizeof *c);

    if (c == NULL) {
        abort();
    }
    c->head.ops = &ops;
    c->live = l;
    MR_LOCK(&l->lock);
    if (mr_fake_connect(l->fake, &c->store, NULL) < 0) {
        abort();
    }
    return &c->head;
}

void mr_live_store_cut(mr_store *s)
{
    INNER(s);
    mr_fake_cut(c->store, true);
}

void mr_live_store_fail_at(mr_store *s, uint64_t nth)
{
    INNER(s);
    c->fail_at = nth;
}

uint64_t mr_live_store_requests(mr_store *s)
{
    INNER(s);
    return c->requests;
}
