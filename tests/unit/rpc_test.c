/* gRPC through src/rpc: a server and its clients in one process, over loopback. */
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/limits.h"
#include "base/sync.h"
#include "rpc/internal.h"
#include "tests/support/heap.h"
#include "tests/support/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <grpc/grpc.h>
#include <millrace/base.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 20000

/* What a callback of the test saw; waited for with until(). */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned messages;
    size_t bytes;
    unsigned sent;
    unsigned done;
    unsigned ended;
    int rc;
    char text[MR_ERROR_MESSAGE_SIZE];
    uint8_t last[64];
};

struct fixture {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_channel *ch;
    char address[64];
    struct seen client;
    struct seen server;
    atomic_uint released;
    mr_rpc_request *_Atomic held;
    mr_rpc_stream *_Atomic accepted;
};

static void seen_init(struct seen *s)
{
    memset(s, 0, sizeof *s);
    mr_mutex_init(&s->lock);
    mr_cond_init(&s->cond);
}

static bool until(struct seen *s, unsigned *counter, unsigned n)
{
    MR_LOCK(&s->lock);
    while (*counter < n) {
        if (!mr_cond_wait_ms(&s->cond, &s->lock, LONG_MS)) {
            return false;
        }
    }
    return true;
}

static unsigned count_of(struct seen *s, const unsigned *counter)
{
    MR_LOCK(&s->lock);
    return *counter;
}

static void bump(struct seen *s, unsigned *counter)
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
    struct fixture *f = ctx;
    mr_rpc_request *before = atomic_exchange(&f->held, req);

    if (before != NULL) {
        mr_rpc_reply(before, MR_OK, NULL, "late", 4);
    }
    bump(&f->server, &f->server.done);
}

/* Echo stream: a message is received only after the one before was sent. A message "bye" finishes,
 * "no" fails. */
static void echo_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fixture *f = ctx;
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
    bump(&f->server, &f->server.messages);
}

static void echo_sent(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_receive(s);
}

static void server_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fixture *f = ctx;

    f->server.rc = rc;
    mr_rpc_stream_unref(s);
    bump(&f->server, &f->server.ended);
}

static const struct mr_rpc_stream_ops echo_ops = {echo_message, echo_sent, server_ended};

static void echo_accept(void *ctx, mr_rpc_stream *s)
{
    struct fixture *f = ctx;

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

static void flood_release(void *ctx)
{
    struct fixture *f = ctx;

    (void)atomic_fetch_add(&f->released, 1);
}

static void flood_send(void *ctx, mr_rpc_stream *s)
{
    struct fixture *f = ctx;
    struct mr_rpc_slice slice = {
        .data = megabyte, .size = sizeof megabyte, .release = flood_release, .ctx = f};

    (void)mr_rpc_stream_send(s, &slice, 1, false, NULL);
    bump(&f->server, &f->server.sent);
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
    struct fixture *f = ctx;
    size_t n = mr_rpc_message_size(m);
    size_t head = n < sizeof f->client.last ? n : sizeof f->client.last;

    mr_mutex_lock(&f->client.lock);
    f->client.bytes += n;
    mr_rpc_message_copy(m, 0, head, f->client.last);
    mr_mutex_unlock(&f->client.lock);
    mr_rpc_message_free(m);
    mr_rpc_stream_receive(s);
    bump(&f->client, &f->client.messages);
}

static void client_sent(void *ctx, mr_rpc_stream *s)
{
    struct fixture *f = ctx;

    bump(&f->client, &f->client.sent);
}

static void client_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fixture *f = ctx;

    f->client.rc = rc;
    if (rc < 0) {
        memcpy(f->client.text, err->message, sizeof f->client.text);
    }
    bump(&f->client, &f->client.ended);
}

static const struct mr_rpc_stream_ops client_ops = {client_message, client_sent, client_ended};

static void call_done(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct fixture *f = ctx;

    f->client.rc = rc;
    bump(&f->client, &f->client.done);
}

/* ---- fixture ---- */

static void start_server(struct fixture *f, const char *address)
{
    const struct mr_rpc_limits limits = {.message_bytes = MR_RPC_DEFINITION_BYTES_MAX};

    assert_int_equal(mr_rpc_server_new(f->rt, &limits, &f->srv, NULL), MR_OK);
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

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    seen_init(&f->client);
    seen_init(&f->server);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", mr_test_port());
    start_server(f, f->address);
    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &f->ch, NULL), MR_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_rpc_channel_free(f->ch);
    mr_rpc_server_free(f->srv);
    mr_rpc_release(f->rt);
    free(f);
    return 0;
}

static mr_rpc_stream *open_stream(struct fixture *f, const char *path)
{
    mr_rpc_stream *s = NULL;

    assert_int_equal(mr_rpc_stream_open(f->ch, path, NULL, -1, true, &client_ops, f, &s, NULL),
                     MR_OK);
    mr_rpc_stream_receive(s);
    return s;
}

static void send_text(mr_rpc_stream *s, const char *text)
{
    struct mr_rpc_slice slice = {.data = text, .size = strlen(text)};

    assert_int_equal(mr_rpc_stream_send(s, &slice, 1, false, NULL), MR_OK);
}

/* ---- tests ---- */

static void unary_answers(void **state)
{
    struct fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;
    const char *metadata[] = {"authorization", "token", NULL};

    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", "12345678", 8, metadata, LONG_MS, true,
                                       &reply, &n, NULL),
                     MR_OK);
    assert_int_equal(n, 8);
    assert_memory_equal(reply, "12345678", 8);
    mr_free(reply);
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    assert_int_equal(n, 0);
    mr_free(reply);
}

static void unary_status_and_text_arrive(void **state)
{
    struct fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Refuse", "", 0, NULL, LONG_MS, true, &reply, &n, &err),
        MR_ENOTFOUND);
    assert_int_equal(err.code, MR_ENOTFOUND);
    assert_string_equal(err.message, "no dataset 'x'");
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Nothing", "", 0, NULL, LONG_MS, true, &reply, &n, &err),
        MR_EUNIMPL);
    assert_non_null(strstr(err.message, "/t/Nothing"));
}

static void bad_metadata_is_an_error(void **state)
{
    struct fixture *f = *state;
    const char *metadata[] = {"NOT LEGAL", "x", NULL};
    void *reply = NULL;
    size_t n = 0;
    mr_error err;
    mr_rpc_stream *s = NULL;

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, metadata, LONG_MS, true, &reply, &n, &err),
        MR_EINVAL);
    assert_int_equal(
        mr_rpc_stream_open(f->ch, "/t/Stream", metadata, -1, true, &client_ops, f, &s, &err),
        MR_EINVAL);
}

static void unary_deadline(void **state)
{
    struct fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;

    /* A call that is over before it has left does not arrive: then one that has longer. */
    for (int64_t ms = 50; count_of(&f->server, &f->server.done) == 0; ms *= 2) {
        assert_true(ms < LONG_MS);
        assert_int_equal(
            mr_rpc_unary_wait(f->ch, "/t/Hold", "", 0, NULL, ms, true, &reply, &n, NULL),
            MR_EDEADLINE);
    }
    while (!mr_rpc_request_cancelled(f->held)) {
        usleep(1000);
    }
    mr_rpc_reply(f->held, MR_OK, NULL, "late", 4); /* only frees it */
}

static void unary_cancel(void **state)
{
    struct fixture *f = *state;
    mr_rpc_call *call = NULL;

    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Hold", "", 0, NULL, -1, true, call_done, f, &call, NULL), MR_OK);
    assert_true(until(&f->server, &f->server.done, 1));
    mr_rpc_call_cancel(call);
    assert_true(until(&f->client, &f->client.done, 1));
    assert_int_equal(f->client.rc, MR_ECANCELED);
    mr_rpc_call_cancel(call);
    mr_rpc_call_unref(call);
    mr_rpc_reply(f->held, MR_OK, NULL, "late", 4);
}

static void unary_answered_from_another_thread(void **state)
{
    struct fixture *f = *state;
    mr_rpc_call *call = NULL;

    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Hold", "", 0, NULL, LONG_MS, true, call_done, f, &call, NULL),
        MR_OK);
    assert_true(until(&f->server, &f->server.done, 1));
    mr_rpc_reply(f->held, MR_OK, NULL, "now", 3);
    assert_true(until(&f->client, &f->client.done, 1));
    assert_int_equal(f->client.rc, MR_OK);
    mr_rpc_call_unref(call);
}

static void nobody_listens(void **state)
{
    struct fixture *f = *state;
    mr_rpc_channel *ch = NULL;
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    assert_int_equal(mr_rpc_channel_new(f->rt, "127.0.0.1:1", NULL, &ch, NULL), MR_OK);
    assert_int_equal(
        mr_rpc_unary_wait(ch, "/t/Echo", "", 0, NULL, LONG_MS, false, &reply, &n, &err),
        MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "nothing listens or answers there: "));
    assert_int_equal(mr_rpc_unary_wait(ch, "/t/Echo", "", 0, NULL, 100, true, &reply, &n, NULL),
                     MR_EDEADLINE);
    mr_rpc_channel_free(ch);
}

/* Addresses come from others, too. */
static void a_channel_leads_to_a_host_and_port(void **state)
{
    static const char *const wrong[] = {"x", "x:y", "x:99999", "unix:/tmp/x:1", "dns:///x:1"};
    struct fixture *f = *state;
    mr_rpc_channel *ch = NULL;
    mr_error err;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(mr_rpc_channel_new(f->rt, wrong[i], NULL, &ch, &err), MR_EINVAL);
        assert_null(ch);
        assert_non_null(strstr(err.message, wrong[i]));
    }
}

static void what_grpc_says_is_cut_to_its_point(void **state)
{
    static const char *const said[][2] = {
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Failed to "
         "connect to remote "
         "host: Connection refused",
         "nothing listens or answers there: Connection refused"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Failed to "
         "connect to remote "
         "host: FD shutdown",
         "nothing listens or answers there: FD shutdown"},
        {"failed to connect to all addresses; last error: UNAVAILABLE: ipv6:%5B::1%5D:5050: Failed "
         "to connect to "
         "remote host: No route to host",
         "nothing listens or answers there: No route to host"},
        {"failed to connect to all addresses; last error: UNKNOWN: Timeout occurred: FD shutdown",
         "nothing listens or answers there: UNKNOWN: Timeout occurred: FD shutdown"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Socket "
         "closed",
         "Socket closed"},
        {"failed to connect to all addresses", "failed to connect to all addresses"},
        {"split 3: last error: ipv4:10.0.0.1: what others say stays",
         "split 3: last error: ipv4:10.0.0.1: what others "
         "say stays"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        grpc_slice details = grpc_slice_from_static_string(said[i][0]);
        mr_error err;

        assert_int_equal(mr_rpc_status_error(GRPC_STATUS_UNAVAILABLE, details, &err), MR_EUNAVAIL);
        assert_string_equal(err.message, said[i][1]);
    }
}

static void big_unary(void **state)
{
    struct fixture *f = *state;
    size_t size = 20u << 20; /* beyond gRPC's default of 4 MiB */
    char *big = malloc(size);
    void *reply = NULL;
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        big[i] = (char)(i * 31);
    }
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", big, size, NULL, LONG_MS, true, &reply, &n, NULL),
        MR_OK);
    assert_int_equal(n, size);
    assert_memory_equal(reply, big, size);
    mr_free(reply);
    free(big);
}

/* Two servers that tell others "localhost" are the same one for them. */
static void all_addresses_are_told_as_one_that_others_can_use(void **state)
{
    char out[64];
    mr_error err;
    const char *const listens[] = {"0.0.0.0:0", "[::]:0", ":0"};

    assert_int_equal(mr_rpc_advertise("127.0.0.1:0", 7, NULL, out, sizeof out, &err), MR_OK);
    assert_string_equal(out, "127.0.0.1:7"); /* as asked for */
    assert_int_equal(mr_rpc_advertise("[fd00::1]:0", 7, NULL, out, sizeof out, &err), MR_OK);
    assert_string_equal(out, "[fd00::1]:7");
    for (size_t i = 0; i < sizeof listens / sizeof listens[0]; i++) {
        int rc = mr_rpc_advertise(listens[i], 7, "127.0.0.1:1, [::1]:2,,nonsense", out, sizeof out,
                                  &err);

        if (rc < 0) { /* a machine without a network */
            assert_non_null(strstr(err.message, "--advertise-address"));
            continue;
        }
        assert_true(mr_address_is_valid(out));
        assert_non_null(strstr(out, ":7"));
        assert_null(strstr(out, "localhost"));
        assert_int_not_equal(strncmp(out, "127.", 4), 0);
        assert_null(strstr(out, "[::1]"));
    }
}

static void port_is_taken(void **state)
{
    struct fixture *f = *state;
    mr_rpc_server *srv = NULL;
    mr_error err;

    assert_int_equal(mr_rpc_server_new(f->rt, NULL, &srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_listen(srv, f->address, NULL, NULL, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, f->address));
    mr_rpc_server_free(srv);
}

static void http_proxy_is_ignored(void **state)
{
    struct fixture *f = *state;
    mr_rpc_channel *ch = NULL;
    void *reply = NULL;
    size_t n = 0;

    setenv("http_proxy", "http://127.0.0.1:1", 1);
    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &ch, NULL), MR_OK);
    assert_int_equal(mr_rpc_unary_wait(ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL),
                     MR_OK);
    unsetenv("http_proxy");
    mr_free(reply);
    mr_rpc_channel_free(ch);
}

static void stream_echoes(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    for (unsigned i = 1; i <= 100; i++) {
        char text[16];

        snprintf(text, sizeof text, "m%u", i);
        send_text(s, text);
        assert_true(until(&f->client, &f->client.sent, i));
        assert_true(until(&f->client, &f->client.messages, i));
        assert_memory_equal(f->client.last, text, strlen(text));
    }
    send_text(s, "bye");
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_OK);
    assert_true(until(&f->server, &f->server.ended, 1));
    assert_int_equal(f->server.rc, MR_OK);
    struct mr_rpc_slice slice = {.data = "x", .size = 1, .release = flood_release, .ctx = f};
    assert_int_equal(mr_rpc_stream_send(s, &slice, 1, false, NULL), MR_ECANCELED);
    assert_int_equal(f->released, 1); /* also when nothing was sent */
    mr_rpc_stream_receive(s);
    mr_rpc_stream_cancel(s);
    mr_rpc_stream_unref(s);
}

static void stream_status_arrives(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    send_text(s, "no");
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EPRECOND);
    assert_string_equal(f->client.text, "not today");
    mr_rpc_stream_unref(s);

    s = open_stream(f, "/t/RefuseStream");
    assert_true(until(&f->client, &f->client.ended, 2));
    assert_int_equal(f->client.rc, MR_EPERM);
    mr_rpc_stream_unref(s);

    s = open_stream(f, "/t/Nothing");
    assert_true(until(&f->client, &f->client.ended, 3));
    assert_int_equal(f->client.rc, MR_EUNIMPL);
    mr_rpc_stream_unref(s);
}

static void client_cancels(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    send_text(s, "hello");
    assert_true(until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_cancel(s);
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_ECANCELED);
    assert_true(until(&f->server, &f->server.ended, 1));
    assert_int_equal(f->server.rc, MR_ECANCELED);
    mr_rpc_stream_unref(s);
}

static void last_unref_cancels(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    send_text(s, "hello");
    assert_true(until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_unref(s);
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_true(until(&f->server, &f->server.ended, 1));
}

static void server_cancels(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    send_text(s, "hello");
    assert_true(until(&f->client, &f->client.messages, 1));
    mr_rpc_stream *peer = mr_rpc_stream_ref(f->accepted);
    assert_non_null(strstr(mr_rpc_stream_peer(peer), "127.0.0.1"));
    mr_rpc_stream_cancel(peer);
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_true(f->client.rc < 0);
    assert_true(until(&f->server, &f->server.ended, 1));
    mr_rpc_stream_unref(peer);
    mr_rpc_stream_unref(s);
}

static void stream_deadline(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = NULL;

    assert_int_equal(
        mr_rpc_stream_open(f->ch, "/t/Stream", NULL, 50, true, &client_ops, f, &s, NULL), MR_OK);
    mr_rpc_stream_receive(s);
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EDEADLINE);
    mr_rpc_stream_unref(s);
}

static void half_close_waits_for_the_message(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    send_text(s, "hello");
    mr_rpc_stream_half_close(s);
    assert_true(until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_finish(f->accepted, MR_OK, NULL);
    assert_true(until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_OK);
    mr_rpc_stream_unref(s);
}

static void many_messages_with_the_hint(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");

    /* The first carries it too: it must not get stuck. */
    for (unsigned i = 0; i < 1000; i++) {
        struct mr_rpc_slice slice = {.data = "abcdefgh", .size = 8};

        assert_int_equal(mr_rpc_stream_send(s, &slice, 1, i % 16 != 15 && i != 999, NULL), MR_OK);
        assert_true(until(&f->client, &f->client.sent, i + 1));
    }
    assert_true(until(&f->client, &f->client.messages, 1000));
    assert_int_equal(f->client.bytes, 8000);
    mr_rpc_stream_unref(s);
}

static void many_slices_arrive_in_order(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Stream");
    struct mr_rpc_slice slices[40];
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCD";

    for (size_t i = 0; i < 40; i++) {
        slices[i] = (struct mr_rpc_slice){
            .data = letters + i, .size = 1, .release = flood_release, .ctx = f};
    }
    assert_int_equal(mr_rpc_stream_send(s, slices, 40, false, NULL), MR_OK);
    assert_true(until(&f->client, &f->client.messages, 1));
    assert_memory_equal(f->client.last, letters, 40);
    while (f->released < 40) {
        usleep(1000); /* the answer may be here before gRPC let go of the last slice */
    }
    assert_int_equal(f->released, 40);
    mr_rpc_stream_unref(s);
}

static void back_pressure_and_release(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s = open_stream(f, "/t/Flood");

    assert_true(until(&f->client, &f->client.messages, 50));
    mr_rpc_stream_unref(s);
    assert_true(until(&f->server, &f->server.ended, 1));
    while (f->released < f->server.sent) {
        usleep(1000); /* gRPC lets go of the last ones on a thread of its own */
    }
    assert_int_equal(f->released, f->server.sent);
}

static void stop_under_load(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *s[8];
    mr_rpc_call *calls[8];

    for (size_t i = 0; i < 8; i++) {
        s[i] = open_stream(f, i % 2 == 0 ? "/t/Flood" : "/t/Stream");
        assert_int_equal(
            mr_rpc_unary(f->ch, "/t/Echo", "x", 1, NULL, -1, true, call_done, f, &calls[i], NULL),
            MR_OK);
    }
    assert_true(until(&f->client, &f->client.messages, 20));
    assert_true(until(&f->client, &f->client.done, 8));
    mr_rpc_server_free(f->srv);
    f->srv = NULL;
    assert_true(until(&f->client, &f->client.ended, 8));
    assert_true(f->client.rc < 0);
    for (size_t i = 0; i < 8; i++) {
        mr_rpc_stream_unref(s[i]);
        mr_rpc_call_unref(calls[i]);
    }
}

static void stop_with_an_unanswered_request(void **state)
{
    struct fixture *f = *state;
    mr_rpc_call *call = NULL;

    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Hold", "", 0, NULL, -1, true, call_done, f, &call, NULL), MR_OK);
    assert_true(until(&f->server, &f->server.done, 1));
    mr_rpc_server_free(f->srv);
    f->srv = NULL;
    assert_true(until(&f->client, &f->client.done, 1));
    assert_int_equal(f->client.rc, MR_EUNAVAIL);
    mr_rpc_call_unref(call);
    mr_rpc_reply(f->held, MR_OK, NULL, "", 0);
}

static void server_comes_back(void **state)
{
    struct fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;

    mr_rpc_server_free(f->srv);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, 200, true, &reply, &n, NULL),
                     MR_EDEADLINE);
    start_server(f, f->address);
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    mr_free(reply);
}

/* A server, a client and a stream of its own: 0 if it works. */
static int try_echo(void)
{
    struct fixture *f = NULL;
    void *state = NULL;
    void *reply = NULL;
    size_t n = 0;

    (void)setup(&state);
    f = state;
    if (mr_rpc_unary_wait(f->ch, "/t/Echo", "hi", 2, NULL, LONG_MS, true, &reply, &n, NULL) < 0 ||
        n != 2) {
        return 1;
    }
    mr_free(reply);
    mr_rpc_stream *s = open_stream(f, "/t/Stream");
    send_text(s, "hello");
    if (!until(&f->client, &f->client.messages, 1)) {
        return 2;
    }
    mr_rpc_stream_unref(s);
    (void)teardown(&state);
    return 0;
}

/* In a child: one that hangs ends, and the parent hears of it. */
static int child_echo(void)
{
    alarm(LONG_MS / 1000);
    return try_echo();
}

static int join(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void fork_when_closed(void **state)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(try_echo(), 0);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(child_echo());
        }
        assert_int_equal(try_echo(), 0); /* at the same time */
        assert_int_equal(join(pid), 0);
    }
}

static void fork_when_open(void **state)
{
    struct fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    mr_free(reply);
    mr_rpc_stream *s = open_stream(f, "/t/Stream");
    pid_t pid = fork();
    if (pid == 0) {
        mr_rpc_runtime *rt = NULL;
        mr_rpc_stream *s2 = NULL;
        struct mr_rpc_slice slice = {.data = "x", .size = 1};
        int bad = 0;

        alarm(LONG_MS / 1000);
        bad |= mr_rpc_acquire(&rt, NULL) != MR_EPRECOND;
        bad |= mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, 1000, true, &reply, &n, NULL) !=
               MR_EPRECOND;
        bad |= mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &client_ops, f, &s2, NULL) !=
               MR_EPRECOND;
        bad |= mr_rpc_stream_send(s, &slice, 1, false, NULL) != MR_EPRECOND;
        mr_rpc_stream_unref(s);
        mr_rpc_channel_free(f->ch);
        mr_rpc_server_free(f->srv);
        mr_rpc_release(f->rt);
        _exit(bad);
    }
    assert_int_equal(join(pid), 0);
    send_text(s, "still here");
    assert_true(until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_unref(s);
}

static int child_is_told(void)
{
    mr_rpc_runtime *rt = NULL;
    mr_error err;

    alarm(LONG_MS / 1000);
    return mr_rpc_acquire(&rt, &err) == MR_EPRECOND &&
                   strstr(err.message, "had not closed yet") != NULL
               ? 0
               : 1;
}

/* Something that gRPC forgot keeps it open: this process goes on, a child is told, and all is well
 * when it is gone. */
static void fork_when_grpc_does_not_close(void **state)
{
    grpc_init();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_echo(), 0);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(child_is_told());
        }
        assert_int_equal(join(pid), 0);
    }
    grpc_shutdown();
    /* It closes a moment later, and who was stuck once waits for no longer: it shows at one of the
     * next closings. */
    for (bool told = true; told;) {
        assert_int_equal(try_echo(), 0);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(child_is_told());
        }
        told = join(pid) == 0;
    }
    fork_when_closed(state);
}

static unsigned threads_of_this_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned n = 0;

    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(dir);
    return n;
}

/* Serve until the parent closes its end of @stop; tell it the port. */
static int child_serve(int tell, int stop)
{
    void *state = NULL;
    char c;

    (void)setup(&state);
    struct fixture *f = state;
    bool told = write(tell, f->address, sizeof f->address) == (ssize_t)sizeof f->address;
    bool closed = read(stop, &c, 1) == 0;
    (void)teardown(&state);
    return told && closed ? 0 : 1;
}

/* A connection attempt that is dropped half-way must not keep gRPC open: a fork afterwards would
 * give a useless child. */
static void closed_while_connecting(void **state)
{
    static struct fixture f;
    int tell[2];
    int stop[2];

    assert_int_equal(pipe(tell), 0);
    assert_int_equal(pipe(stop), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(stop[1]);
        _exit(child_serve(tell[1], stop[0]));
    }
    (void)close(stop[0]);
    assert_int_equal(read(tell[0], f.address, sizeof f.address), sizeof f.address);
    seen_init(&f.client);
    for (unsigned i = 0; i < 60; i++) {
        mr_rpc_call *call = NULL;

        assert_int_equal(mr_rpc_acquire(&f.rt, NULL), MR_OK);
        assert_int_equal(mr_rpc_channel_new(f.rt, f.address, NULL, &f.ch, NULL), MR_OK);
        assert_int_equal(
            mr_rpc_unary(f.ch, "/t/Echo", "", 0, NULL, -1, true, call_done, &f, &call, NULL),
            MR_OK);
        usleep(20 * (i % 40)); /* anywhere in the attempt */
        mr_rpc_call_cancel(call);
        assert_true(until(&f.client, &f.client.done, i + 1));
        mr_rpc_call_unref(call);
        mr_rpc_channel_free(f.ch);
        mr_rpc_release(f.rt);
    }
    for (int i = 0; i < LONG_MS && threads_of_this_process() > 1; i++) {
        usleep(1000); /* A detached thread of gRPC's may be on its last steps. */
    }
    assert_int_equal(threads_of_this_process(), 1);
    (void)close(stop[1]);
    assert_int_equal(join(pid), 0);
}

/* Calls in flight all the time: also says how many a second, for people. */
struct load {
    mr_rpc_channel *ch;
    struct seen seen;
    atomic_uint left;
    unsigned failures;
};

static void next_call(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct load *l = ctx;
    mr_rpc_call *call = NULL;

    if (rc < 0) {
        l->failures++;
    }
    if (atomic_fetch_sub(&l->left, 1) > 64) {
        if (mr_rpc_unary(l->ch, "/t/Echo", "12345678", 8, NULL, LONG_MS, true, next_call, l, &call,
                         NULL) == MR_OK) {
            mr_rpc_call_unref(call);
        }
    }
    bump(&l->seen, &l->seen.done);
}

static void many_calls(void **state)
{
    struct fixture *f = *state;
    static struct load l;
    unsigned total = 5000;

    seen_init(&l.seen);
    l.ch = f->ch;
    l.failures = 0;
    atomic_store(&l.left, total);
    int64_t from = mr_now_ns();
    for (int i = 0; i < 64; i++) {
        mr_rpc_call *call = NULL;

        assert_int_equal(mr_rpc_unary(f->ch, "/t/Echo", "12345678", 8, NULL, LONG_MS, true,
                                      next_call, &l, &call, NULL),
                         MR_OK);
        mr_rpc_call_unref(call);
    }
    assert_true(until(&l.seen, &l.seen.done, total));
    assert_int_equal(l.failures, 0);
    print_message("%.0f unary calls a second\n",
                  (double)total * 1e9 / (double)(mr_now_ns() - from));
}

/* Whoever reads much once, as clients do, keeps what malloc makes of it only while something is
 * open. */
static void freed_memory_goes_with_the_last_user(void **state)
{
    mr_rpc_runtime *rt = NULL;

    if (!MR_TEST_MALLOC_IS_GLIBCS) {
        skip();
    }
    assert_int_equal(mr_rpc_acquire(&rt, NULL), MR_OK);
    mr_test_heap_spike();
    assert_true(mr_test_resident_bytes() > MR_HEAP_FREE_BYTES);
    mr_rpc_release(rt);
    assert_true(mr_test_resident_bytes() < MR_HEAP_FREE_BYTES);
}

int main(int argc, char **argv)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_when_closed),
        cmocka_unit_test(fork_when_grpc_does_not_close),
        cmocka_unit_test(closed_while_connecting),
        TEST(unary_answers),
        TEST(unary_status_and_text_arrive),
        TEST(bad_metadata_is_an_error),
        TEST(unary_deadline),
        TEST(unary_cancel),
        TEST(unary_answered_from_another_thread),
        TEST(nobody_listens),
        TEST(a_channel_leads_to_a_host_and_port),
        TEST(what_grpc_says_is_cut_to_its_point),
        TEST(big_unary),
        TEST(all_addresses_are_told_as_one_that_others_can_use),
        TEST(port_is_taken),
        TEST(http_proxy_is_ignored),
        TEST(stream_echoes),
        TEST(stream_status_arrives),
        TEST(client_cancels),
        TEST(last_unref_cancels),
        TEST(server_cancels),
        TEST(stream_deadline),
        TEST(half_close_waits_for_the_message),
        TEST(many_messages_with_the_hint),
        TEST(many_slices_arrive_in_order),
        TEST(back_pressure_and_release),
        TEST(stop_under_load),
        TEST(stop_with_an_unanswered_request),
        TEST(server_comes_back),
        TEST(fork_when_open),
        TEST(many_calls),
        cmocka_unit_test(freed_memory_goes_with_the_last_user),
    };
    mr_rpc_keep_forkable();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
