#include "tests/support/store.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/sync.h"
#include "coord/etcd/etcd.h"

struct mr_test_store *mr_test_store_new(bool real, const struct mr_test_etcd_options *opts,
                                        uint64_t seed)
{
    struct mr_test_store *t = mr_calloc(1, sizeof *t);

    if (t == NULL) {
        return NULL;
    }
    t->real = real;
    mr_mutex_init(&t->lock);
    mr_cond_init(&t->changed);
    if (real) {
        t->etcd = mr_test_etcd_start_with(opts);
    } else if (mr_fake_new(seed, &t->fake, NULL) < 0) {
        t->fake = NULL;
    }
    if (t->etcd == NULL && t->fake == NULL) {
        mr_free(t);
        return NULL;
    }
    return t;
}

mr_store *mr_test_store_connect(struct mr_test_store *t)
{
    mr_store *s = NULL;
    mr_error err;
    int rc;

    if (t->real) {
        struct mr_etcd_options etcd = mr_test_etcd_client(t->etcd);

        rc = mr_etcd_open(&etcd, &s, &err);
    } else {
        rc = mr_fake_connect(t->fake, &s, &err);
    }

    if (rc < 0) {
        fprintf(stderr, "connecting: %s\n", err.message);
    }
    return s;
}

void mr_test_store_free(struct mr_test_store *t)
{
    if (t != NULL) {
        mr_fake_free(t->fake);
        mr_test_etcd_stop(t->etcd);
        mr_free(t);
    }
}

void mr_test_store_lock(struct mr_test_store *t)
{
    if (t->real) {
        mr_mutex_lock(&t->lock);
    }
}

void mr_test_store_unlock(struct mr_test_store *t)
{
    if (t->real) {
        (void)pthread_cond_broadcast(&t->changed);
        mr_mutex_unlock(&t->lock);
    }
}

static bool wait_fake(struct mr_test_store *t, bool (*done)(void *ctx), void *ctx, int64_t ms)
{
    int64_t until = mr_fake_now_ms(t->fake) + ms;

    while (!done(ctx)) {
        if (!mr_fake_step(t->fake, until)) {
            return done(ctx);
        }
    }
    return true;
}

bool mr_test_store_wait(struct mr_test_store *t, bool (*done)(void *ctx), void *ctx, int64_t ms)
{
    if (!t->real) {
        return wait_fake(t, done, ctx, ms);
    }
    int64_t until = mr_now_ms() + ms;
    bool ok;

    mr_mutex_lock(&t->lock);
    while (!(ok = done(ctx)) && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&t->changed, &t->lock, until - mr_now_ms());
    }
    mr_mutex_unlock(&t->lock);
    return ok;
}

int64_t mr_test_store_now_ms(const struct mr_test_store *t)
{
    return t->real ? mr_now_ms() : mr_fake_now_ms(t->fake);
}

bool mr_test_store_compact(struct mr_test_store *t, int64_t revision)
{
    char rev[32];
    const char *const args[] = {"compact", rev, NULL};

    (void)snprintf(rev, sizeof rev, "%lld", (long long)revision);
    return t->real ? mr_test_etcdctl(t->etcd, args) == 0
                   : mr_fake_compact(t->fake, revision, NULL) >= 0;
}
