#include "tests/support/rpc.h"

#include "base/limits.h"
#include "base/sync.h"
#include "tests/support/port.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

void seen_init(struct seen *s)
{
    memset(s, 0, sizeof *s);
    mr_mutex_init(&s->lock);
    mr_cond_init(&s->cond);
}

bool seen_until(struct seen *s, unsigned *counter, unsigned n)
{
    MR_LOCK(&s->lock);
    while (*counter < n) {
        if (!mr_cond_wait_ms(&s->cond, &s->lock, LONG_MS)) {
            return false;
        }
    }
    return true;
}

unsigned seen_count(struct seen *s, const unsigned *counter)
{
    MR_LOCK(&s->lock);
    return *counter;
}

void seen_bump(struct seen *s, unsigned *counter)
{
    MR_LOCK(&s->lock);
    (*counter)++;
    (void)pthread_cond_broadcast(&s->cond);
}

/* ---- server side ---- */

static void echo(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    mr_rpc_reply(req, MR_OK, NULL, bytes, size);
}

static void refuse(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    mr_rpc_reply(req, MR_ENOTFOUND, "no dataset 'x'", NULL, 0);
}

static void hold(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct rpc_fixture *f = ctx;
    mr_rpc_request *before = atomic_exchange(&f->held, req);

    if (before != NULL) {
        mr_rpc_reply(before, MR_OK, NULL, "late", 4);
    }
    seen_bump(&f->server, &f->server.done);
}

/* Echo stream: a message is received only after the one before was sent. A message "bye" finishes,
 * "no" fails. */
static void echo_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct rpc_fixture *f = ctx;
    size_t n = mr_rpc_message_size(m);
    char *copy = mr_malloc(n + 1);

    mr_rpc_message_copy(m, 0, n, copy);
    mr_rpc_message_free(m);
    if (n == 3 && memcmp(copy, "bye", 3) == 0) {
        mr_rpc_stream_finish(s, MR_OK, NULL);
        mr_free(copy);
    } else if (n == 2 && memcmp(copy, "no", 2) == 0) {
        mr_rpc_stream_finish(s, MR_EPRECOND, "not today");
        mr_free(copy);
    } else {
        struct mr_rpc_slice slice = {.data = copy, .size = n, .release = mr_free, .ctx = copy};
        (void)mr_rpc_stream_send(s, &slice, 1, false, NULL);
    }
    seen_bump(&f->server, &f->server.messages);
}

static void echo_sent(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_receive(s);
}

static void server_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct rpc_fixture *f = ctx;

    f->server.rc = rc;
    mr_rpc_stream_unref(s);
    seen_bump(&f->server, &f->server.ended);
}

static const struct mr_rpc_stream_ops echo_ops = {echo_message, echo_sent, server_ended};

static void echo_accept(void *ctx, mr_rpc_stream *s)
{
    struct rpc_fixture *f = ctx;

    mr_rpc_stream_accept(s, &echo_ops, ctx);
    atomic_store(&f->accepted, s);
    mr_rpc_stream_receive(s);
}

static void refuse_accept(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_finish(s, MR_EPERM, "not for you");
    mr_rpc_stream_unref(s);
}

/* Flood: 1 MiB messages for as long as somebody reads. */
static uint8_t megabyte[1 << 20];

void rpc_count_release(void *ctx)
{
    struct rpc_fixture *f = ctx;

    seen_bump(&f->server, &f->server.released);
}

static void flood_send(void *ctx, mr_rpc_stream *s)
{
    struct rpc_fixture *f = ctx;
    struct mr_rpc_slice slice = {
        .data = megabyte, .size = sizeof megabyte, .release = rpc_count_release, .ctx = f};

    (void)mr_rpc_stream_send(s, &slice, 1, false, NULL);
    seen_bump(&f->server, &f->server.sent);
}

static void flood_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
}

static const struct mr_rpc_stream_ops flood_ops = {flood_message, flood_send, server_ended};

static void flood_accept(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &flood_ops, ctx);
    flood_send(ctx, s);
}

/* ---- client side ---- */

static void client_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct rpc_fixture *f = ctx;
    size_t n = mr_rpc_message_size(m);
    size_t head = n < sizeof f->client.last ? n : sizeof f->client.last;

    mr_mutex_lock(&f->client.lock);
    f->client.bytes += n;
    mr_rpc_message_copy(m, 0, head, f->client.last);
    mr_mutex_unlock(&f->client.lock);
    mr_rpc_message_free(m);
    mr_rpc_stream_receive(s);
    seen_bump(&f->client, &f->client.messages);
}

static void client_sent(void *ctx, mr_rpc_stream *s)
{
    struct rpc_fixture *f = ctx;

    seen_bump(&f->client, &f->client.sent);
}

static void client_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct rpc_fixture *f = ctx;

    f->client.rc = rc;
    if (rc < 0) {
        memcpy(f->client.text, err->message, sizeof f->client.text);
    }
    seen_bump(&f->client, &f->client.ended);
}

const struct mr_rpc_stream_ops rpc_client_ops = {client_message, client_sent, client_ended};

void rpc_call_done(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct rpc_fixture *f = ctx;

    f->client.rc = rc;
    seen_bump(&f->client, &f->client.done);
}

/* ---- all of it ---- */

/* Count: RPC_COUNT small messages for the first that comes, and the end. */
static void count_send(void *ctx, mr_rpc_stream *s)
{
    struct rpc_fixture *f = ctx;
    struct mr_rpc_slice slice = {.data = megabyte, .size = 100};

    if (seen_count(&f->server, &f->server.sent) == RPC_COUNT) {
        mr_rpc_stream_finish(s, MR_OK, NULL);
        return;
    }
    (void)mr_rpc_stream_send(s, &slice, 1, false, NULL);
    seen_bump(&f->server, &f->server.sent);
}

static void count_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
    count_send(ctx, s);
}

static const struct mr_rpc_stream_ops count_ops = {count_message, count_send, server_ended};

static void count_accept(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &count_ops, ctx);
    mr_rpc_stream_receive(s);
}

void rpc_start_server(struct rpc_fixture *f, const char *address)
{
    const struct mr_rpc_limits limits = {.message_bytes = MR_RPC_DEFINITION_BYTES_MAX};

    rpc_start_server_with(f, address, &limits);
}

void rpc_start_server_with(struct rpc_fixture *f, const char *address,
                           const struct mr_rpc_limits *limits)
{
    assert_int_equal(mr_rpc_server_new(f->rt, limits, &f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(f->srv, "/t/Small", 64, echo, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Count", count_accept, f, NULL), MR_OK);
    assert_int_equal(
        mr_rpc_server_unary(f->srv, "/t/Echo", MR_RPC_DEFINITION_BYTES_MAX, echo, f, NULL), MR_OK);
    assert_int_equal(
        mr_rpc_server_unary(f->srv, "/t/Refuse", MR_RPC_DEFINITION_BYTES_MAX, refuse, f, NULL),
        MR_OK);
    assert_int_equal(
        mr_rpc_server_unary(f->srv, "/t/Hold", MR_RPC_DEFINITION_BYTES_MAX, hold, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Stream", echo_accept, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/RefuseStream", refuse_accept, f, NULL),
                     MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Flood", flood_accept, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_listen(f->srv, address, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(f->srv, NULL), MR_OK);
}

int rpc_setup(void **state)
{
    struct rpc_fixture *f = calloc(1, sizeof *f);

    seen_init(&f->client);
    seen_init(&f->server);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", mr_test_port());
    rpc_start_server(f, f->address);
    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &f->ch, NULL), MR_OK);
    *state = f;
    return 0;
}

int rpc_teardown(void **state)
{
    struct rpc_fixture *f = *state;

    mr_rpc_channel_free(f->ch);
    mr_rpc_server_free(f->srv);
    mr_rpc_release(f->rt);
    free(f);
    return 0;
}

mr_rpc_stream *rpc_open_stream(struct rpc_fixture *f, const char *path)
{
    mr_rpc_stream *s = NULL;

    assert_int_equal(mr_rpc_stream_open(f->ch, path, NULL, -1, true, &rpc_client_ops, f, &s, NULL),
                     MR_OK);
    mr_rpc_stream_receive(s);
    return s;
}

void rpc_send_text(mr_rpc_stream *s, const char *text)
{
    struct mr_rpc_slice slice = {.data = text, .size = strlen(text)};

    assert_int_equal(mr_rpc_stream_send(s, &slice, 1, false, NULL), MR_OK);
}
