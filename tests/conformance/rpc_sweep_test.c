/* Each allocation of a server, a channel, two calls and a stream fails once, over both
 * transports. */
#include "base/sync.h"
#include "rpc/rpc.h"
#include "tests/support/sweep.h"
#include "tests/support/unary.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LONG_MS 20000

struct world {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_channel *ch;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    bool over;
    unsigned messages;
    int rc;
    mr_error err;
};

/* ---- the server ---- */

static void on_echo(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    mr_rpc_reply(req, MR_OK, NULL, bytes, size);
}

static void on_bulk(void *ctx, mr_rpc_request *req, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
    mr_rpc_reply(req, MR_OK, NULL, "", 0);
}

static void on_request(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    const struct mr_rpc_slice slice = {.data = "answer", .size = 6};
    mr_error err;

    mr_rpc_message_free(m);
    if (mr_rpc_stream_send(s, &slice, 1, false, &err) < 0) {
        mr_rpc_stream_finish(s, err.code, err.message);
    }
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_finish(s, MR_OK, NULL);
}

static void on_served(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    mr_rpc_stream_unref(s);
}

static void on_stream(void *ctx, mr_rpc_stream *s)
{
    static const struct mr_rpc_stream_ops ops = {
        .message = on_request, .sent = on_sent, .ended = on_served};

    mr_rpc_stream_accept(s, &ops, ctx);
    mr_rpc_stream_receive(s);
}

static int serve(struct world *w, int *port, mr_error *err)
{
    MR_TRY(mr_rpc_server_new(w->rt, NULL, &w->srv, err));
    MR_TRY(mr_rpc_server_unary(w->srv, "/t/Echo", 64, on_echo, w, err));
    MR_TRY(mr_rpc_server_bulk(w->srv, "/t/Bulk", 64, on_bulk, w, err));
    MR_TRY(mr_rpc_server_stream(w->srv, "/t/Stream", on_stream, w, err));
    MR_TRY(mr_rpc_server_listen(w->srv, "127.0.0.1:0", NULL, port, err));
    return mr_rpc_server_start(w->srv, err);
}

/* ---- the client ---- */

static void on_answer(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct world *w = ctx;

    assert_int_equal(mr_rpc_message_size(m), 6);
    mr_rpc_message_free(m);
    mr_rpc_stream_receive(s);
    MR_LOCK(&w->lock);
    w->messages++;
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct world *w = ctx;

    MR_LOCK(&w->lock);
    w->rc = rc;
    if (rc < 0) {
        w->err = *err;
    }
    w->over = true;
    (void)pthread_cond_broadcast(&w->changed);
}

static int stream(struct world *w, mr_error *err)
{
    static const struct mr_rpc_stream_ops ops = {.message = on_answer, .ended = on_ended};
    const struct mr_rpc_slice slice = {.data = "request", .size = 7};
    mr_rpc_stream *s = NULL;

    MR_TRY(mr_rpc_stream_open(w->ch, "/t/Stream", NULL, LONG_MS, true, &ops, w, &s, err));
    int rc = mr_rpc_stream_send(s, &slice, 1, false, err);

    mr_rpc_stream_receive(s);
    if (rc < 0) {
        mr_rpc_stream_cancel(s);
    }
    mr_mutex_lock(&w->lock);
    while (!w->over) {
        mr_cond_wait(&w->changed, &w->lock);
    }
    mr_mutex_unlock(&w->lock);
    mr_rpc_stream_unref(s);
    if (rc == MR_OK && w->rc < 0) {
        *err = w->err;
        rc = w->rc;
    }
    assert_int_equal(rc == MR_OK ? w->messages : 1, 1);
    return rc;
}

static int call(struct world *w, const char *path, mr_error *err)
{
    void *reply = NULL;
    size_t size = 0;

    MR_TRY(mr_rpc_unary_wait(w->ch, path, "x", 1, NULL, LONG_MS, true, &reply, &size, err));
    mr_free(reply);
    return MR_OK;
}

static int run(struct world *w, mr_error *err)
{
    char address[32];
    int port = 0;

    MR_TRY(mr_rpc_acquire(&w->rt, err));
    MR_TRY(serve(w, &port, err));
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    MR_TRY(mr_rpc_channel_new(w->rt, address, NULL, &w->ch, err));
    MR_TRY(call(w, "/t/Echo", err));
    MR_TRY(call(w, "/t/Bulk", err));
    return stream(w, err);
}

static int attempt(void *ctx, uint64_t nth, bool *reached, mr_error *err)
{
    struct world w = {.rt = NULL};

    mr_mutex_init(&w.lock);
    mr_cond_init(&w.changed);
    int rc = run(&w, err);

    mr_rpc_channel_free(w.ch);
    mr_rpc_server_free(w.srv);
    mr_rpc_release(w.rt);
    (void)pthread_cond_destroy(&w.changed);
    (void)pthread_mutex_destroy(&w.lock);
    return rc;
}

static void each_allocation_that_fails_is_told(void **state)
{
    assert_true(sweep_allocations(attempt, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_that_fails_is_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
