#include "tests/support/unary.h"

#include "base/sync.h"

struct waiter {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t cond;
    bool over;
    int rc;
    void *reply;
    size_t size;
    mr_error err;
};

static void wake(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct waiter *w = ctx;

    MR_LOCK(&w->lock);
    w->rc = rc;
    if (rc < 0) {
        w->err = *err;
    } else {
        w->reply = mr_memdup(reply, size);
        w->size = size;
        if (w->reply == NULL) {
            w->rc = mr_error_nomem(&w->err);
        }
    }
    w->over = true;
    (void)pthread_cond_signal(&w->cond);
}

int mr_rpc_unary_wait(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                      const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                      void **reply, size_t *reply_size, mr_error *err)
{
    struct waiter w = {.over = false};
    mr_rpc_call *call = NULL;

    mr_mutex_init(&w.lock);
    mr_cond_init(&w.cond);
    int rc = mr_rpc_unary(ch, path, request, size, metadata, timeout_ms, wait_for_ready, wake, &w,
                          &call, err);
    if (rc == MR_OK) {
        mr_mutex_lock(&w.lock);
        while (!w.over) {
            mr_cond_wait(&w.cond, &w.lock);
        }
        mr_mutex_unlock(&w.lock);
        mr_rpc_call_unref(call);
        rc = w.rc;
        if (rc < 0 && err != NULL) {
            *err = w.err;
        }
        if (rc == MR_OK) {
            *reply = w.reply;
            *reply_size = w.size;
        }
    }
    (void)pthread_cond_destroy(&w.cond);
    (void)pthread_mutex_destroy(&w.lock);
    return rc;
}
