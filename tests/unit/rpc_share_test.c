/* One host that takes what it can get: it has its share, and others are served as if it were not
 * there. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/sync.h"
#include "rpc/rpc.h"
#include "tests/support/h2.h"
#include "tests/support/port.h"
#include "tests/support/unary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_MS 60000
#define CALLS 64
#define SILENT 16
#define CONNECTIONS 8
#define SOCKETS 64
#define SILENT_SOCKETS (3 * SOCKETS)
#define CALLS_EACH 12 /* of a connection: more than there may be, together */
#define GREEDY "127.0.0.2"
#define LARGE ((size_t)256 << 10) /* a reply: more than goes to somebody who takes none of it */
#define REPLIES 32                /* that there may be */

struct fixture {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_channel *ch;
    char address[64];
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned open; /* streams at the server */
    char host[64]; /* of the last request */
    struct h2 greedy[CONNECTIONS];
};

static void echo(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct fixture *f = ctx;

    snprintf(f->host, sizeof f->host, "%s", mr_rpc_request_host(req));
    mr_rpc_reply(req, MR_OK, NULL, bytes, size);
}

static void large(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    static const char reply[LARGE];

    mr_rpc_reply(req, MR_OK, NULL, reply, sizeof reply);
}

static void stream_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
    assert_true(strcmp(mr_rpc_stream_host(s), GREEDY) == 0 ||
                strcmp(mr_rpc_stream_host(s), "127.0.0.1") == 0);
    mr_rpc_stream_receive(s);
}

static void stream_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fixture *f = ctx;

    mr_rpc_stream_unref(s);
    MR_LOCK(&f->lock);
    f->open--;
    (void)pthread_cond_broadcast(&f->cond);
}

static const struct mr_rpc_stream_ops ops = {.message = stream_message, .ended = stream_ended};

static void accept_stream(void *ctx, mr_rpc_stream *s)
{
    struct fixture *f = ctx;

    mr_mutex_lock(&f->lock);
    f->open++;
    (void)pthread_cond_broadcast(&f->cond);
    mr_mutex_unlock(&f->lock);
    mr_rpc_stream_accept(s, &ops, f);
    mr_rpc_stream_receive(s);
}

static int start(void **state, unsigned silent_calls)
{
    const struct mr_rpc_limits limits = {.calls = CALLS,
                                         .connections = SOCKETS,
                                         .reply_bytes = REPLIES * LARGE,
                                         .silent_calls = silent_calls,
                                         .silent_ms = LONG_MS};
    struct fixture *f = calloc(1, sizeof *f);

    mr_mutex_init(&f->lock);
    mr_cond_init(&f->cond);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", mr_test_port());
    assert_int_equal(mr_rpc_server_new(f->rt, &limits, &f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(f->srv, "/t/Echo", 100, echo, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(f->srv, "/t/Large", 100, large, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Stream", accept_stream, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_listen(f->srv, f->address, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &f->ch, NULL), MR_OK);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        h2_open_from(&f->greedy[i], f->address, GREEDY);
        assert_true(h2_hear(&f->greedy[i], LONG_MS)); /* its settings */
    }
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return start(state, CALLS);
}

static int setup_few_silent(void **state)
{
    return start(state, SILENT);
}

/* Everything that was taken comes back: the server asserts that when it is freed. */
static int teardown(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < CONNECTIONS; i++) {
        h2_close(&f->greedy[i]);
    }
    mr_rpc_channel_free(f->ch);
    mr_rpc_server_free(f->srv);
    mr_rpc_release(f->rt);
    free(f);
    return 0;
}

static void wait_for_open(struct fixture *f, unsigned n)
{
    MR_LOCK(&f->lock);
    while (f->open != n) {
        assert_true(mr_cond_wait_ms(&f->cond, &f->lock, LONG_MS));
    }
}

/* At the first attempt. */
static void another_is_served(struct fixture *f)
{
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    if (mr_rpc_unary_wait(f->ch, "/t/Echo", "there", 5, NULL, LONG_MS, true, &reply, &n, &err) <
        0) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(n, 5);
    assert_string_equal(f->host, "127.0.0.1");
    mr_free(reply);
}

/* Calls of the greedy host that the server has ended. */
static unsigned refused(struct fixture *f)
{
    unsigned n = 0;

    for (size_t i = 0; i < CONNECTIONS; i++) {
        while (h2_hear(&f->greedy[i], 0)) {
        }
        assert_false(f->greedy[i].closed);
        n += f->greedy[i].resets;
    }
    return n;
}

static void wait_for_refused(struct fixture *f, unsigned n)
{
    int64_t until_ms = mr_now_ms() + LONG_MS;

    for (size_t i = 0; refused(f) < n; i = (i + 1) % CONNECTIONS) {
        assert_true(mr_now_ms() < until_ms);
        (void)h2_hear(&f->greedy[i], 10);
    }
}

/* Calls on all connections, as many as it can: each with a message if @speaks. */
static void flood(struct fixture *f, bool speaks)
{
    for (size_t call = 0; call < CALLS_EACH; call++) {
        for (size_t i = 0; i < CONNECTIONS; i++) {
            uint32_t id = h2_call(&f->greedy[i], "/t/Stream");

            if (speaks) {
                assert_int_equal(h2_data(&f->greedy[i], id, "\0\0\0\0\1x", 6), 6);
            }
        }
    }
}

static void open_calls_are_shared(void **state)
{
    struct fixture *f = *state;

    flood(f, true);
    wait_for_refused(f, CONNECTIONS * CALLS_EACH - CALLS / 2);
    another_is_served(f);
    wait_for_open(f, CALLS / 2);
    assert_int_equal(refused(f), CONNECTIONS * CALLS_EACH - CALLS / 2);
}

static void calls_that_end_make_room_for_others_of_the_host(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        flood(f, true);
        wait_for_open(f, CALLS / 2);
        wait_for_refused(f, CONNECTIONS * CALLS_EACH - CALLS / 2);
        for (size_t c = 0; c < CONNECTIONS; c++) {
            h2_close(&f->greedy[c]);
            h2_open_from(&f->greedy[c], f->address, GREEDY);
        }
        wait_for_open(f, 0);
    }
    another_is_served(f);
}

/* To whoever is refused: this time it is the gRPC client's own host that has too many. */
static void the_refusal_says_why(void **state)
{
    struct fixture *f = *state;
    struct h2 same;
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    h2_open(&same, f->address);
    assert_true(h2_hear(&same, LONG_MS));
    for (size_t i = 0; i < CALLS / 2; i++) {
        assert_int_equal(h2_data(&same, h2_call(&same, "/t/Stream"), "\0\0\0\0\1x", 6), 6);
    }
    wait_for_open(f, CALLS / 2);
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "there", 5, NULL, LONG_MS, true, &reply, &n, &err),
        MR_EUNAVAIL);
    assert_string_equal(
        err.message,
        "host 127.0.0.1 has 32 of 64 open calls (32 are taken in all) and may have no more than it "
        "leaves free: end some of its, or ask again later");
    h2_close(&same);
    wait_for_open(f, 0);
    another_is_served(f);
}

/* A call that another host has opened and says nothing on for now stays. */
static void calls_that_say_nothing_are_the_greedy_ones(void **state)
{
    struct fixture *f = *state;
    struct h2 slow;
    uint32_t call;

    h2_open(&slow, f->address);
    assert_true(h2_hear(&slow, LONG_MS));
    call = h2_call(&slow, "/t/Stream");
    wait_for_open(f, 1);
    flood(f, false);
    wait_for_refused(f, CONNECTIONS * CALLS_EACH - (SILENT - 1));
    another_is_served(f);
    while (h2_hear(&slow, 0)) {
    }
    assert_int_equal(slow.resets, 0);
    assert_int_equal(h2_data(&slow, call, "\0\0\0\0\1x", 6), 6);
    h2_close(&slow);
}

static void replies_that_nobody_takes_are_shared(void **state)
{
    struct fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    for (size_t call = 0; call < 3; call++) {
        for (size_t i = 0; i < CONNECTIONS; i++) {
            assert_int_equal(
                h2_data(&f->greedy[i], h2_call(&f->greedy[i], "/t/Large"), "\0\0\0\0\1x", 6), 6);
        }
    }
    wait_for_refused(f, 3 * CONNECTIONS - REPLIES / 2);
    for (unsigned i = 0; i < REPLIES; i++) { /* What was taken makes room. */
        if (mr_rpc_unary_wait(f->ch, "/t/Large", "", 0, NULL, LONG_MS, true, &reply, &n, &err) <
            0) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(n, LARGE);
        mr_free(reply);
    }
    assert_int_equal(refused(f), 3 * CONNECTIONS - REPLIES / 2);
}

/* A connection on which nothing is said; it may have ended already. */
static int connect_from(const char *address, const char *host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, host, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_true(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == ECONNRESET);
    return fd;
}

static unsigned count_ended(const int *fds, size_t n)
{
    unsigned ended = 0;

    for (size_t i = 0; i < n; i++) {
        struct pollfd p = {.fd = fds[i]};

        ended += poll(&p, 1, 0) == 1 ? 1 : 0; /* nothing is asked for but that */
    }
    return ended;
}

static void connections_are_shared(void **state)
{
    struct fixture *f = *state;
    int64_t until_ms = mr_now_ms() + LONG_MS;
    int greedy[SILENT_SOCKETS];
    struct h2 other;

    for (size_t i = 0; i < SILENT_SOCKETS; i++) {
        if (i == SOCKETS) {
            h2_open(&other, f->address);
        }
        greedy[i] = connect_from(f->address, GREEDY);
    }
    while (count_ended(greedy, SILENT_SOCKETS) < SILENT_SOCKETS - SOCKETS / 2) {
        assert_true(mr_now_ms() < until_ms);
        (void)h2_hear(&other, 10);
    }
    assert_in_range(count_ended(greedy, SILENT_SOCKETS), 1, SILENT_SOCKETS - 1);
    another_is_served(f);
    while (h2_hear(&other, 0)) {
    }
    assert_false(other.closed);
    h2_close(&other);
    for (size_t i = 0; i < SILENT_SOCKETS; i++) {
        (void)close(greedy[i]);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(open_calls_are_shared),
        TEST(calls_that_end_make_room_for_others_of_the_host),
        TEST(the_refusal_says_why),
        TEST(replies_that_nobody_takes_are_shared),
        TEST(connections_are_shared),
        cmocka_unit_test_setup_teardown(calls_that_say_nothing_are_the_greedy_ones,
                                        setup_few_silent, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
