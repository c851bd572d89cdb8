/* What callers of rpc.h rely on, run over gRPC and loopback, and over the transport within one
 * process: this is what keeps that one honest. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/sync.h"
#include "tests/support/rpc.h"
#include "tests/support/unary.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

/* A transport may let go of the last ones on a thread of its own, a moment later. */
static void wait_released(struct rpc_fixture *f, unsigned n)
{
    assert_true(seen_until(&f->server, &f->server.released, n));
    assert_int_equal(seen_count(&f->server, &f->server.released), n);
}

static void unary_answers(void **state)
{
    struct rpc_fixture *f = *state;
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
    struct rpc_fixture *f = *state;
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
    struct rpc_fixture *f = *state;
    const char *metadata[] = {"NOT LEGAL", "x", NULL};
    void *reply = NULL;
    size_t n = 0;
    mr_error err;
    mr_rpc_stream *s = NULL;

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, metadata, LONG_MS, true, &reply, &n, &err),
        MR_EINVAL);
    assert_int_equal(
        mr_rpc_stream_open(f->ch, "/t/Stream", metadata, -1, true, &rpc_client_ops, f, &s, &err),
        MR_EINVAL);
}

static void unary_deadline(void **state)
{
    struct rpc_fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;

    /* A call that is over before it has left does not arrive: then one that has longer. */
    for (int64_t ms = 50; seen_count(&f->server, &f->server.done) == 0; ms *= 2) {
        assert_true(ms < LONG_MS);
        assert_int_equal(
            mr_rpc_unary_wait(f->ch, "/t/Hold", "", 0, NULL, ms, true, &reply, &n, NULL),
            MR_EDEADLINE);
    }
    /* The server hears of the end of this call before the next ones on the same connection. */
    for (unsigned i = 0; !mr_rpc_request_cancelled(f->held); i++) {
        assert_true(i < 1000);
        assert_int_equal(
            mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL),
            MR_OK);
        mr_free(reply);
    }
    mr_rpc_reply(f->held, MR_OK, NULL, "late", 4); /* only frees it */
}

static void unary_cancel(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_call *call = NULL;

    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Hold", "", 0, NULL, -1, true, rpc_call_done, f, &call, NULL),
        MR_OK);
    assert_true(seen_until(&f->server, &f->server.done, 1));
    mr_rpc_call_cancel(call);
    assert_true(seen_until(&f->client, &f->client.done, 1));
    assert_int_equal(f->client.rc, MR_ECANCELED);
    mr_rpc_call_cancel(call);
    mr_rpc_call_unref(call);
    mr_rpc_reply(f->held, MR_OK, NULL, "late", 4);
}

static void unary_answered_from_another_thread(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_call *call = NULL;

    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Hold", "", 0, NULL, LONG_MS, true, rpc_call_done, f, &call, NULL),
        MR_OK);
    assert_true(seen_until(&f->server, &f->server.done, 1));
    mr_rpc_reply(f->held, MR_OK, NULL, "now", 3);
    assert_true(seen_until(&f->client, &f->client.done, 1));
    assert_int_equal(f->client.rc, MR_OK);
    mr_rpc_call_unref(call);
}

static void nobody_listens(void **state)
{
    struct rpc_fixture *f = *state;
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
    struct rpc_fixture *f = *state;
    mr_rpc_channel *ch = NULL;
    mr_error err;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(mr_rpc_channel_new(f->rt, wrong[i], NULL, &ch, &err), MR_EINVAL);
        assert_null(ch);
        assert_non_null(strstr(err.message, wrong[i]));
    }
}

static void big_unary(void **state)
{
    struct rpc_fixture *f = *state;
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

static void port_is_taken(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_server *srv = NULL;
    mr_error err;

    assert_int_equal(mr_rpc_server_new(f->rt, NULL, &srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_listen(srv, f->address, NULL, NULL, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, f->address));
    assert_non_null(strstr(err.message, "Address already in use"));
    mr_rpc_server_free(srv);
}

static void stream_echoes(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    for (unsigned i = 1; i <= 100; i++) {
        char text[16];

        snprintf(text, sizeof text, "m%u", i);
        rpc_send_text(s, text);
        assert_true(seen_until(&f->client, &f->client.sent, i));
        assert_true(seen_until(&f->client, &f->client.messages, i));
        assert_memory_equal(f->client.last, text, strlen(text));
    }
    rpc_send_text(s, "bye");
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_OK);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    assert_int_equal(f->server.rc, MR_OK);
    struct mr_rpc_slice slice = {.data = "x", .size = 1, .release = rpc_count_release, .ctx = f};
    assert_int_equal(mr_rpc_stream_send(s, &slice, 1, false, NULL), MR_ECANCELED);
    assert_int_equal(f->server.released, 1); /* also when nothing was sent */
    mr_rpc_stream_receive(s);
    mr_rpc_stream_cancel(s);
    mr_rpc_stream_unref(s);
}

static void stream_status_arrives(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    rpc_send_text(s, "no");
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EPRECOND);
    assert_string_equal(f->client.text, "not today");
    mr_rpc_stream_unref(s);

    s = rpc_open_stream(f, "/t/RefuseStream");
    assert_true(seen_until(&f->client, &f->client.ended, 2));
    assert_int_equal(f->client.rc, MR_EPERM);
    mr_rpc_stream_unref(s);

    s = rpc_open_stream(f, "/t/Nothing");
    assert_true(seen_until(&f->client, &f->client.ended, 3));
    assert_int_equal(f->client.rc, MR_EUNIMPL);
    mr_rpc_stream_unref(s);
}

static void client_cancels(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    rpc_send_text(s, "hello");
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_cancel(s);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_ECANCELED);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    assert_int_equal(f->server.rc, MR_ECANCELED);
    mr_rpc_stream_unref(s);
}

static void last_unref_cancels(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    rpc_send_text(s, "hello");
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_unref(s);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_true(seen_until(&f->server, &f->server.ended, 1));
}

static void server_cancels(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    rpc_send_text(s, "hello");
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    mr_rpc_stream *peer = mr_rpc_stream_ref(f->accepted);
    assert_true(strlen(mr_rpc_stream_peer(peer)) > 0);
    assert_true(strlen(mr_rpc_stream_host(peer)) > 0);
    mr_rpc_stream_cancel(peer);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_true(f->client.rc < 0);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    mr_rpc_stream_unref(peer);
    mr_rpc_stream_unref(s);
}

static void stream_deadline(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = NULL;

    assert_int_equal(
        mr_rpc_stream_open(f->ch, "/t/Stream", NULL, 50, true, &rpc_client_ops, f, &s, NULL),
        MR_OK);
    mr_rpc_stream_receive(s);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EDEADLINE);
    mr_rpc_stream_unref(s);
}

static void half_close_waits_for_the_message(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    rpc_send_text(s, "hello");
    mr_rpc_stream_half_close(s);
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    mr_rpc_stream_finish(f->accepted, MR_OK, NULL);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_OK);
    mr_rpc_stream_unref(s);
}

static void many_messages_with_the_hint(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");

    /* The first carries it too: it must not get stuck. */
    for (unsigned i = 0; i < 1000; i++) {
        struct mr_rpc_slice slice = {.data = "abcdefgh", .size = 8};

        assert_int_equal(mr_rpc_stream_send(s, &slice, 1, i % 16 != 15 && i != 999, NULL), MR_OK);
        assert_true(seen_until(&f->client, &f->client.sent, i + 1));
    }
    assert_true(seen_until(&f->client, &f->client.messages, 1000));
    assert_int_equal(f->client.bytes, 8000);
    mr_rpc_stream_unref(s);
}

static void many_slices_arrive_in_order(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");
    struct mr_rpc_slice slices[40];
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCD";

    for (size_t i = 0; i < 40; i++) {
        slices[i] = (struct mr_rpc_slice){
            .data = letters + i, .size = 1, .release = rpc_count_release, .ctx = f};
    }
    assert_int_equal(mr_rpc_stream_send(s, slices, 40, false, NULL), MR_OK);
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    assert_memory_equal(f->client.last, letters, 40);
    wait_released(f, 40);
    mr_rpc_stream_unref(s);
}

static void back_pressure_and_release(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Flood");

    assert_true(seen_until(&f->client, &f->client.messages, 50));
    mr_rpc_stream_unref(s);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    wait_released(f, f->server.sent);
}

static void stop_under_load(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s[8];
    mr_rpc_call *calls[8];

    for (size_t i = 0; i < 8; i++) {
        s[i] = rpc_open_stream(f, i % 2 == 0 ? "/t/Flood" : "/t/Stream");
        assert_int_equal(mr_rpc_unary(f->ch, "/t/Echo", "x", 1, NULL, -1, true, rpc_call_done, f,
                                      &calls[i], NULL),
                         MR_OK);
    }
    assert_true(seen_until(&f->client, &f->client.messages, 20));
    assert_true(seen_until(&f->client, &f->client.done, 8));
    mr_rpc_server_free(f->srv);
    f->srv = NULL;
    assert_true(seen_until(&f->client, &f->client.ended, 8));
    assert_true(f->client.rc < 0);
    wait_released(f, f->server.sent);
    for (size_t i = 0; i < 8; i++) {
        mr_rpc_stream_unref(s[i]);
        mr_rpc_call_unref(calls[i]);
    }
}

static void stop_with_an_unanswered_request(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_call *call = NULL;

    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Hold", "", 0, NULL, -1, true, rpc_call_done, f, &call, NULL),
        MR_OK);
    assert_true(seen_until(&f->server, &f->server.done, 1));
    mr_rpc_server_free(f->srv);
    f->srv = NULL;
    assert_true(seen_until(&f->client, &f->client.done, 1));
    assert_int_equal(f->client.rc, MR_EUNAVAIL);
    mr_rpc_call_unref(call);
    mr_rpc_reply(f->held, MR_OK, NULL, "", 0);
}

static void server_comes_back(void **state)
{
    struct rpc_fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;

    mr_rpc_server_free(f->srv);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, 200, true, &reply, &n, NULL),
                     MR_EDEADLINE);
    rpc_start_server(f, f->address);
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    mr_free(reply);
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
    seen_bump(&l->seen, &l->seen.done);
}

static void many_calls(void **state)
{
    struct rpc_fixture *f = *state;
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
    assert_true(seen_until(&l.seen, &l.seen.done, total));
    assert_int_equal(l.failures, 0);
    print_message("%.0f unary calls a second\n",
                  (double)total * 1e9 / (double)(mr_now_ns() - from));
}

/* ---- limits ---- */

/* In place of the fixture's server. */
static void restart(struct rpc_fixture *f, const struct mr_rpc_limits *limits)
{
    void *reply = NULL;
    size_t n = 0;
    int rc;

    mr_rpc_server_free(f->srv);
    rpc_start_server_with(f, f->address, limits);
    do { /* what is sent on the connection to the one before is lost; @limits may end a slow call */
        rc = mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL);
    } while (rc == MR_EUNAVAIL || rc == MR_EDEADLINE);
    assert_int_equal(rc, MR_OK);
    mr_free(reply);
}

static void a_request_that_is_too_large_is_refused(void **state)
{
    struct rpc_fixture *f = *state;
    char large[MR_RPC_REQUEST_BYTES_MAX + 1] = {0};
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    /* By the method, which says what it takes; */
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Small", large, 65, NULL, LONG_MS, true, &reply, &n, &err),
        MR_EINVAL);
    assert_string_equal(err.message, "/t/Small: a request of 65 bytes, at most 64 are allowed");
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Small", large, 64, NULL, LONG_MS, true, &reply, &n, &err),
        MR_OK);
    mr_free(reply);
    /* and by the server, before anybody has seen it. */
    restart(f, NULL);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", large, sizeof large, NULL, LONG_MS, true,
                                       &reply, &n, &err),
                     MR_EEXHAUSTED);
}

static void a_stream_ends_with_a_message_that_is_too_large(void **state)
{
    static char large[MR_RPC_REQUEST_BYTES_MAX + 1];
    struct rpc_fixture *f = *state;
    struct mr_rpc_slice slice = {
        .data = large, .size = sizeof large, .release = rpc_count_release, .ctx = f};

    restart(f, NULL);
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");
    rpc_send_text(s, "hello");
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    assert_true(seen_until(&f->client, &f->client.sent, 1));
    assert_int_equal(mr_rpc_stream_send(s, &slice, 1, false, NULL), MR_OK);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EEXHAUSTED);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    assert_int_equal(f->server.rc, MR_ECANCELED);
    assert_int_equal(f->server.messages, 1);
    mr_rpc_stream_unref(s);
    wait_released(f, 1);
}

static void a_host_has_its_share_of_calls(void **state)
{
    struct rpc_fixture *f = *state;
    const struct mr_rpc_limits limits = {.calls = 4};
    mr_rpc_stream *s[3];

    restart(f, &limits);
    for (unsigned i = 0; i < 2; i++) {
        s[i] = rpc_open_stream(f, "/t/Stream");
        rpc_send_text(s[i], "hello");
        assert_true(seen_until(&f->client, &f->client.messages, i + 1));
    }
    s[2] = rpc_open_stream(f, "/t/Stream"); /* Half of all is free, for others. */
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EUNAVAIL);
    for (size_t i = 0; i < 3; i++) {
        mr_rpc_stream_unref(s[i]);
    }
    assert_true(seen_until(&f->server, &f->server.ended, 2));
}

static void a_call_that_says_nothing_ends(void **state)
{
    struct rpc_fixture *f = *state;
    const struct mr_rpc_limits limits = {.silent_ms = 1};

    restart(f, &limits);
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EDEADLINE);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    assert_int_equal(f->server.rc, MR_ECANCELED);
    mr_rpc_stream_unref(s);
}

static void of_many_calls_that_say_nothing_the_oldest_ends(void **state)
{
    struct rpc_fixture *f = *state;
    const struct mr_rpc_limits limits = {.silent_calls = 2};
    mr_rpc_stream *s[3];
    void *reply = NULL;
    size_t n = 0;

    restart(f, &limits);
    /* Calls that wait for a connection may come in any order. */
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    mr_free(reply);
    for (size_t i = 0; i < 3; i++) {
        s[i] = rpc_open_stream(f, "/t/Stream");
    }
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EDEADLINE);
    rpc_send_text(s[2], "hello");
    assert_true(seen_until(&f->client, &f->client.messages, 1));
    for (size_t i = 0; i < 3; i++) {
        mr_rpc_stream_unref(s[i]);
    }
    assert_true(seen_until(&f->server, &f->server.ended, 3));
}

/* A connection has so many calls at a time: the next begins when one has ended. */
static void calls_beyond_those_of_a_connection_wait(void **state)
{
    struct rpc_fixture *f = *state;
    const struct mr_rpc_limits limits = {.calls_per_connection = 2};
    mr_rpc_stream *s[2];
    mr_rpc_call *call = NULL;

    restart(f, &limits);
    for (unsigned i = 0; i < 2; i++) {
        s[i] = rpc_open_stream(f, "/t/Stream");
        rpc_send_text(s[i], "hello");
        assert_true(seen_until(&f->client, &f->client.messages, i + 1));
    }
    assert_int_equal(
        mr_rpc_unary(f->ch, "/t/Echo", "x", 1, NULL, LONG_MS, true, rpc_call_done, f, &call, NULL),
        MR_OK);
    rpc_send_text(s[0], "more"); /* What is open goes on, ... */
    assert_true(seen_until(&f->client, &f->client.messages, 3));
    assert_int_equal(seen_count(&f->client, &f->client.done), 0);
    mr_rpc_stream_unref(s[0]);
    assert_true(seen_until(&f->client, &f->client.done, 1));
    mr_rpc_call_unref(call);
    mr_rpc_stream_unref(s[1]);
}

/* ---- flow ---- */

static void hoard_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct rpc_fixture *f = ctx;

    mr_rpc_message_free(m);
    seen_bump(&f->client, &f->client.messages);
}

static void hoard_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct rpc_fixture *f = ctx;

    f->client.rc = rc;
    seen_bump(&f->client, &f->client.ended);
}

/* A client that asks for one message only when the test does. */
static const struct mr_rpc_stream_ops hoard_ops = {.message = hoard_message, .ended = hoard_ended};

/* What is under way is bounded: it does not grow with what is sent. */
static void a_slow_reader_holds_its_sender_up(void **state)
{
    enum { UNDER_WAY_MAX = 40 };
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = NULL;

    assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Flood", NULL, -1, true, &hoard_ops, f, &s, NULL),
                     MR_OK);
    for (unsigned i = 1; i <= 100; i++) {
        mr_rpc_stream_receive(s);
        assert_true(seen_until(&f->client, &f->client.messages, i));
        assert_true(seen_count(&f->server, &f->server.sent) <= i + UNDER_WAY_MAX);
    }
    mr_rpc_stream_unref(s);
    assert_true(seen_until(&f->server, &f->server.ended, 1));
    wait_released(f, f->server.sent);
}

static void a_clean_end_waits_for_what_was_sent_before(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = NULL;

    assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Count", NULL, -1, true, &hoard_ops, f, &s, NULL),
                     MR_OK);
    rpc_send_text(s, "go");
    assert_true(seen_until(&f->server, &f->server.ended, 1)); /* All is sent, nothing is read. */
    assert_int_equal(f->server.rc, MR_OK);
    for (unsigned i = 1; i <= RPC_COUNT; i++) {
        assert_int_equal(seen_count(&f->client, &f->client.ended), 0);
        mr_rpc_stream_receive(s);
        assert_true(seen_until(&f->client, &f->client.messages, i));
    }
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_OK);
    assert_int_equal(f->client.messages, RPC_COUNT);
    mr_rpc_stream_unref(s);
}

static void many_streams_at_once(void **state)
{
    enum { STREAMS = 300 };
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s[STREAMS];

    for (size_t i = 0; i < STREAMS; i++) {
        s[i] = rpc_open_stream(f, "/t/Stream");
        rpc_send_text(s[i], "hello");
    }
    assert_true(seen_until(&f->client, &f->client.messages, STREAMS));
    assert_true(seen_until(&f->client, &f->client.sent, STREAMS));
    for (size_t i = 0; i < STREAMS; i++) {
        rpc_send_text(s[i], "bye");
    }
    assert_true(seen_until(&f->client, &f->client.ended, STREAMS));
    assert_true(seen_until(&f->server, &f->server.ended, STREAMS));
    for (size_t i = 0; i < STREAMS; i++) {
        mr_rpc_stream_unref(s[i]);
    }
}

int main(int argc, char **argv)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rpc_setup, rpc_teardown)
    const struct CMUnitTest tests[] = {
        TEST(unary_answers),
        TEST(unary_status_and_text_arrive),
        TEST(bad_metadata_is_an_error),
        TEST(unary_deadline),
        TEST(unary_cancel),
        TEST(unary_answered_from_another_thread),
        TEST(nobody_listens),
        TEST(a_channel_leads_to_a_host_and_port),
        TEST(big_unary),
        TEST(port_is_taken),
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
        TEST(many_calls),
        TEST(a_request_that_is_too_large_is_refused),
        TEST(a_stream_ends_with_a_message_that_is_too_large),
        TEST(a_host_has_its_share_of_calls),
        TEST(a_call_that_says_nothing_ends),
        TEST(of_many_calls_that_say_nothing_the_oldest_ends),
        TEST(calls_beyond_those_of_a_connection_wait),
        TEST(a_slow_reader_holds_its_sender_up),
        TEST(a_clean_end_waits_for_what_was_sent_before),
        TEST(many_streams_at_once),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
