/* A dispatcher with its loop, threads and server over the store in memory, and a connection to it:
 * it starts, leads, registers a worker that watches, and stops. Each of its allocations fails once,
 * and so does each request to the store. */
#include "base/identity.h"
#include "base/log.h"
#include "base/sync.h"
#include "control/control.h"
#include "dispatcher/dispatcher.h"
#include "millrace/service.pb-c.h"
#include "millrace/service.rpc.h"
#include "tests/support/live_store.h"
#include "tests/support/sweep.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LONG_MS 20000
#define ATTEMPT_MS 300

struct world {
    struct mr_live_store *live;
    mr_store *store; /* the dispatcher's */
    mr_dispatcher *dispatcher;
    mr_rpc_runtime *rt;
    mr_control *control;
    struct mr_identity who;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    bool updated;
};

static void on_update(void *ctx, const ProtobufCMessage *update)
{
    struct world *w = ctx;

    MR_LOCK(&w->lock);
    w->updated = true;
    (void)pthread_cond_broadcast(&w->changed);
}

static int register_worker(struct world *w, mr_error *err)
{
    Millrace__RegisterWorkerRequest r = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;

    r.incarnation = w->who.id;
    r.address = (char *)(uintptr_t) "w:1";
    MR_TRY(mr_control_call(w->control, MR_METHOD_REGISTER_WORKER, &r.base,
                           &millrace__register_worker_reply__descriptor, LONG_MS, NULL, &reply,
                           err));
    protobuf_c_message_free_unpacked(reply, NULL);
    return MR_OK;
}

/* A leader that has come since knows nobody who did not watch yet. */
static void on_refused(void *ctx, const mr_error *err, bool *again)
{
    *again = true;
    if (err->code == MR_ENOTFOUND) {
        (void)register_worker(ctx, NULL);
    }
}

static int watch(struct world *w, mr_error *err)
{
    static const struct mr_control_watch_ops ops = {.update = on_update, .refused = on_refused};
    Millrace__WatchWorkerRequest r = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    mr_control_watch *watch = NULL;

    r.incarnation = w->who.id;
    MR_TRY(mr_control_watch_new(w->control, MR_METHOD_WATCH_WORKER, &r.base,
                                &millrace__worker_update__descriptor, &ops, w, &watch, err));
    mr_mutex_lock(&w->lock);
    while (!w->updated) {
        mr_cond_wait(&w->changed, &w->lock);
    }
    mr_mutex_unlock(&w->lock);
    mr_control_watch_free(watch);
    return MR_OK;
}

static int run(struct world *w, uint64_t nth, mr_error *err)
{
    const struct mr_dispatcher_options o = {.listen = "127.0.0.1:0",
                                            .etcd_endpoints = "in memory",
                                            .lease_ttl_ms = 2000,
                                            .heartbeat_ms = 100,
                                            .worker_timeout_ms = 60000};

    w->store = mr_live_store_connect(w->live);
    mr_live_store_fail_at(w->store, nth);
    int rc = mr_dispatcher_start_with(&o, w->store, &w->dispatcher, err);

    if (rc < 0) {
        w->store = NULL; /* It was taken. */
        return rc;
    }
    const struct mr_control_options c = {.service = mr_dispatcher_address(w->dispatcher),
                                         .attempt_timeout_ms = ATTEMPT_MS};

    MR_TRY(mr_rpc_acquire(&w->rt, err));
    MR_TRY(mr_control_new(w->rt, &c, &w->control, err));
    mr_control_speak_as(w->control, &w->who);
    MR_TRY(register_worker(w, err));
    return watch(w, err);
}

static int attempt(void *ctx, uint64_t nth, bool *reached, mr_error *err)
{
    struct world w = {.live = mr_live_store_new(1)};

    mr_mutex_init(&w.lock);
    mr_cond_init(&w.changed);
    mr_identity_draw(&w.who);
    int rc = run(&w, nth, err);

    mr_control_free(w.control);
    mr_rpc_release(w.rt);
    if (w.store != NULL) {
        *reached = mr_live_store_requests(w.store) >= nth;
    }
    mr_dispatcher_free(w.dispatcher);
    mr_live_store_free(w.live);
    (void)pthread_cond_destroy(&w.changed);
    (void)pthread_mutex_destroy(&w.lock);
    return rc;
}

static void each_allocation_that_fails_is_told(void **state)
{
    assert_true(sweep_allocations(attempt, NULL) > 100);
}

static void each_request_to_the_store_that_fails_is_told(void **state)
{
    assert_true(sweep_requests(attempt, NULL) > 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_that_fails_is_told),
        cmocka_unit_test(each_request_to_the_store_that_fails_is_told),
    };

    mr_log_init(MR_LOG_ERROR, MR_LOG_TEXT, "sweep");
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
