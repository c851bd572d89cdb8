/* Peers that take from a server what they can: it keeps to its limits, and others go on. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/sync.h"
#include "rpc/rpc.h"
#include "tests/support/h2.h"
#include "tests/support/port.h"

#include <millrace/dataset.h> /* mr_free */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_MS 60000
#define ECHO_BYTES 100
#define SILENT_CALLS 4
#define RESETS 500
#define RESETS_SENT 100000
#define HOLD_TRIES 100u
#define MEMORY_BYTES (16 * MR_MIB)
#define BODIES 40
#define BODY_BYTES (4 * MR_MIB)

struct fixture {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_channel *ch;
    char address[64];
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned ended;
    unsigned sent;
    mr_error last;
};

static void echo(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    mr_rpc_reply(req, MR_OK, NULL, bytes, size);
}

static void bulk(void *ctx, mr_rpc_request *req, mr_rpc_message *m)
{
    char size[32];

    (void)snprintf(size, sizeof size, "%zu", mr_rpc_message_size(m));
    mr_rpc_message_free(m);
    mr_rpc_reply(req, MR_OK, NULL, size, strlen(size));
}

static void drop_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
    mr_rpc_stream_receive(s);
}

static void server_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    mr_rpc_stream_unref(s);
}

static const struct mr_rpc_stream_ops server_ops = {.message = drop_message, .ended = server_ended};

static void accept_stream(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &server_ops, ctx);
    mr_rpc_stream_receive(s);
}

static void client_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fixture *f = ctx;

    MR_LOCK(&f->lock);
    f->ended++;
    if (err != NULL) {
        f->last = *err;
    }
    (void)pthread_cond_broadcast(&f->cond);
}

static void client_sent(void *ctx, mr_rpc_stream *s)
{
    struct fixture *f = ctx;

    MR_LOCK(&f->lock);
    f->sent++;
}

static bool has_sent(struct fixture *f, unsigned n)
{
    MR_LOCK(&f->lock);
    return f->sent >= n;
}

static const struct mr_rpc_stream_ops client_ops = {
    .message = drop_message, .sent = client_sent, .ended = client_ended};

/* The client's and the server's side of a stream that the client takes back when it was answered. */
static void cancel_answered(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
    mr_rpc_stream_cancel(s);
}

static const struct mr_rpc_stream_ops echoed_ops = {.message = cancel_answered, .ended = client_ended};

static void answer_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    const struct mr_rpc_slice word = {.data = "yes", .size = 3};

    mr_rpc_message_free(m);
    (void)mr_rpc_stream_send(s, &word, 1, false, NULL);
    mr_rpc_stream_receive(s);
}

static const struct mr_rpc_stream_ops echo_ops = {.message = answer_message, .ended = server_ended};

static void accept_echoes(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &echo_ops, ctx);
    mr_rpc_stream_receive(s);
}

static int start(void **state, unsigned silent_calls, int64_t silent_ms)
{
    const struct mr_rpc_limits limits = {.message_bytes = 2 * BODY_BYTES,
                                         .memory_bytes = MEMORY_BYTES,
                                         .silent_calls = silent_calls,
                                         .silent_ms = silent_ms,
                                         .resets = RESETS};
    struct fixture *f = calloc(1, sizeof *f);

    mr_mutex_init(&f->lock);
    mr_cond_init(&f->cond);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", mr_test_port());
    assert_int_equal(mr_rpc_server_new(f->rt, &limits, &f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(f->srv, "/t/Echo", ECHO_BYTES, echo, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_bulk(f->srv, "/t/Bulk", BODY_BYTES, bulk, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Stream", accept_stream, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Echoes", accept_echoes, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_listen(f->srv, f->address, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &f->ch, NULL), MR_OK);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return start(state, 2 * BODIES, LONG_MS);
}

static int setup_few(void **state)
{
    return start(state, SILENT_CALLS, LONG_MS);
}

static int setup_impatient(void **state)
{
    return start(state, SILENT_CALLS, 1);
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

static void others_go_on(struct fixture *f)
{
    void *reply = NULL;
    size_t n = 0;

    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", "there", 5, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    assert_int_equal(n, 5);
    mr_free(reply);
}

static void wait_for_ends(struct fixture *f, unsigned n)
{
    MR_LOCK(&f->lock);
    while (f->ended < n) {
        assert_true(mr_cond_wait_ms(&f->cond, &f->lock, LONG_MS));
    }
}

static void each_method_has_its_size(void **state)
{
    struct fixture *f = *state;
    char *big = calloc(1, BODY_BYTES + 1);
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", big, ECHO_BYTES, NULL, LONG_MS, true, &reply, &n, &err),
                     MR_OK);
    mr_free(reply);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", big, ECHO_BYTES + 1, NULL, LONG_MS, true, &reply, &n, &err),
                     MR_EINVAL);
    assert_string_equal(err.message, "/t/Echo: a request of 101 bytes, at most 100 are allowed");
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Bulk", big, BODY_BYTES, NULL, LONG_MS, true, &reply, &n, &err),
                     MR_OK);
    assert_memory_equal(reply, "4194304", 7);
    mr_free(reply);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Bulk", big, BODY_BYTES + 1, NULL, LONG_MS, true, &reply, &n, &err),
                     MR_EINVAL);
    free(big);
}

/* Streams that say nothing: when there are too many of them the oldest go, and only those. */
static void calls_without_a_message_make_room(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *silent[SILENT_CALLS + 2];

    for (size_t i = 0; i < SILENT_CALLS + 2; i++) {
        assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &client_ops, f, &silent[i], NULL),
                         MR_OK);
        mr_rpc_stream_receive(silent[i]);
    }
    wait_for_ends(f, 2);
    assert_string_equal(f->last.message, "too many calls wait for their first message");
    others_go_on(f); /* which wait for their message, too, but are the youngest */
    for (size_t i = 0; i < SILENT_CALLS + 2; i++) {
        mr_rpc_stream_unref(silent[i]);
    }
}

static void a_call_without_a_message_has_some_time(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *silent = NULL;

    assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &client_ops, f, &silent, NULL), MR_OK);
    mr_rpc_stream_receive(silent);
    wait_for_ends(f, 1);
    assert_string_equal(f->last.message, "the first message did not come in time");
    mr_rpc_stream_unref(silent);
}

/* Bodies that never end: what is kept of them is bounded by the server's memory, not by what they promise. */
static void unfinished_bodies_are_cut(void **state)
{
    struct fixture *f = *state;
    unsigned char *body = calloc(1, BODY_BYTES);
    size_t sent[BODIES] = {0};
    uint32_t calls[BODIES];
    struct h2 h;
    bool full = false;

    body[1] = BODY_BYTES >> 24; /* gRPC's prefix of a message: its size, of which the last byte does not come */
    body[2] = (BODY_BYTES >> 16) & 0xff;
    h2_open(&h, f->address);
    assert_true(h2_hear(&h, LONG_MS)); /* its settings */
    for (size_t i = 0; i < BODIES; i++) {
        calls[i] = h2_call(&h, "/t/Bulk");
    }
    while (h.resets == 0 && !h.closed && !full) {
        size_t moved = 0;

        full = true;
        for (size_t i = 0; i < BODIES; i++) {
            size_t n = h2_data(&h, calls[i], body + sent[i], BODY_BYTES - sent[i]);

            moved += n;
            sent[i] += n;
            full = full && sent[i] == BODY_BYTES;
        }
        while (h2_hear(&h, 0)) {
        }
        if (moved == 0) {
            (void)h2_hear(&h, LONG_MS);
        }
    }
    assert_false(full);
    others_go_on(f);
    h2_close(&h);
    free(body);
}

/* Calls that are taken back before anybody could answer, one after the other: the server hangs up. */
static void endless_resets_end_the_connection(void **state)
{
    struct fixture *f = *state;
    struct h2 h;

    h2_open(&h, f->address);
    assert_true(h2_hear(&h, LONG_MS));
    for (unsigned i = 0; i < RESETS_SENT && !h.closed; i++) {
        h2_reset(&h, h2_call(&h, i % 2 == 0 ? "/t/Bulk" : "/t/Stream"));
    }
    while (h2_hear(&h, LONG_MS)) {
    }
    assert_true(h.closed);
    others_go_on(f);
    h2_close(&h);
}

/* A thread of gRPC's that works for long on one thing: letting go of the bytes of a message, until it is told to end.
 */
struct held {
    pthread_t test;
    atomic_bool on;
    atomic_bool go;
    int64_t until_ms;
};

static void hold(void *ctx)
{
    struct held *h = ctx;

    if (!pthread_equal(pthread_self(), h->test)) {
        atomic_store(&h->on, true);
        while (!atomic_load(&h->go) && mr_now_ms() < h->until_ms) {
        }
    }
}

static void one_thing_that_takes_long_holds_nobody_up(void **state)
{
    struct fixture *f = *state;
    struct held h = {.test = pthread_self(), .until_ms = mr_now_ms() + 2 * LONG_MS};
    char *body = calloc(1, BODY_BYTES); /* more than goes before the other side has read some */
    mr_rpc_channel *other = NULL;
    mr_rpc_stream *streams[HOLD_TRIES];
    size_t n = 0;

    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &other, NULL), MR_OK);
    while (!atomic_load(&h.on)) { /* Unless this thread did it all by itself. */
        const struct mr_rpc_slice slice = {.data = body, .size = BODY_BYTES, .release = hold, .ctx = &h};

        assert_true(n < HOLD_TRIES);
        assert_int_equal(mr_rpc_stream_open(other, "/t/Stream", NULL, -1, true, &client_ops, f, &streams[n], NULL),
                         MR_OK);
        assert_int_equal(mr_rpc_stream_send(streams[n], &slice, 1, false, NULL), MR_OK);
        n++;
        while (!atomic_load(&h.on) && !has_sent(f, (unsigned)n)) {
            (void)sched_yield();
        }
    }
    others_go_on(f);
    atomic_store(&h.go, true);
    while (n > 0) {
        mr_rpc_stream_unref(streams[--n]);
    }
    mr_rpc_channel_free(other);
    free(body);
}

static void honest_calls_are_no_resets(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 2 * RESETS; i++) {
        others_go_on(f);
    }
    for (unsigned i = 0; i < 2 * RESETS; i++) {
        const struct mr_rpc_slice word = {.data = "word", .size = 4};
        mr_rpc_stream *s = NULL;

        assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Echoes", NULL, LONG_MS, false, &echoed_ops, f, &s, NULL), MR_OK);
        mr_rpc_stream_receive(s);
        assert_int_equal(mr_rpc_stream_send(s, &word, 1, false, NULL), MR_OK);
        wait_for_ends(f, i + 1);
        assert_int_equal(f->last.code, MR_ECANCELED);
        mr_rpc_stream_unref(s);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_method_has_its_size),
        cmocka_unit_test_setup_teardown(calls_without_a_message_make_room, setup_few, teardown),
        cmocka_unit_test_setup_teardown(a_call_without_a_message_has_some_time, setup_impatient, teardown),
        TEST(unfinished_bodies_are_cut),
        TEST(endless_resets_end_the_connection),
        TEST(one_thing_that_takes_long_holds_nobody_up),
        TEST(honest_calls_are_no_resets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
