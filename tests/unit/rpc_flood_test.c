/* Peers that take from a server what they can: it keeps to its limits, and others go on. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/sync.h"
#include "rpc/rpc.h"
#include "tests/support/h2.h"
#include "tests/support/port.h"
#include "tests/support/unary.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_MS 60000
#define ECHO_BYTES 100
#define SILENT_CALLS 4
#define MEMORY_BYTES (16 * MR_MIB)
#define BODIES 40
#define BODY_BYTES (4 * MR_MIB)
#define OPEN_CALLS 50 /* at a time */
#define RESETS_AT_ONCE 1000
#define RESETS 50000
#define RESETS_MS 600000
#define HONEST_ROUNDS 20
#define FIELD_BYTES 7000 /* of a header */
#define FIELDS 50000u

struct fixture {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_channel *ch;
    char address[64];
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned ended;
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

static const struct mr_rpc_stream_ops client_ops = {.message = drop_message, .ended = client_ended};

/* The client's and the server's side of a stream that the client takes back when it was
 * answered. */
static void cancel_answered(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m);
    mr_rpc_stream_cancel(s);
}

static const struct mr_rpc_stream_ops cancel_ops = {.message = cancel_answered,
                                                    .ended = client_ended};

static void answer_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    const struct mr_rpc_slice word = {.data = "yes", .size = 3};

    mr_rpc_message_free(m);
    (void)mr_rpc_stream_send(s, &word, 1, false, NULL);
    mr_rpc_stream_receive(s);
}

static const struct mr_rpc_stream_ops answer_ops = {.message = answer_message,
                                                    .ended = server_ended};

static void accept_and_answer(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &answer_ops, ctx);
    mr_rpc_stream_receive(s);
}

static int start_at(void **state, const char *host, const struct mr_rpc_limits *limits)
{
    struct fixture *f = calloc(1, sizeof *f);
    char address[64];
    int port = mr_test_port();

    mr_mutex_init(&f->lock);
    mr_cond_init(&f->cond);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", port);
    snprintf(address, sizeof address, "%s:%d", host, port);
    assert_int_equal(mr_rpc_server_new(f->rt, limits, &f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(f->srv, "/t/Echo", ECHO_BYTES, echo, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_bulk(f->srv, "/t/Bulk", BODY_BYTES, bulk, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Stream", accept_stream, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(f->srv, "/t/Answers", accept_and_answer, f, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_listen(f->srv, address, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(f->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_channel_new(f->rt, f->address, NULL, &f->ch, NULL), MR_OK);
    *state = f;
    return 0;
}

static int start(void **state, unsigned silent_calls, int64_t silent_ms)
{
    const struct mr_rpc_limits limits = {.message_bytes = 2 * BODY_BYTES,
                                         .memory_bytes = MEMORY_BYTES,
                                         .silent_calls = silent_calls,
                                         .silent_ms = silent_ms};

    return start_at(state, "127.0.0.1", &limits);
}

static const struct mr_rpc_limits few_open = {.calls_per_connection = OPEN_CALLS,
                                              .silent_ms = RESETS_MS};

static int setup_few_open(void **state)
{
    return start_at(state, "127.0.0.1", &few_open);
}

/* The server sees all peers' addresses as IPv6's then. */
static int setup_few_open_anywhere(void **state)
{
    return start_at(state, "0.0.0.0", &few_open);
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

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "there", 5, NULL, LONG_MS, true, &reply, &n, NULL),
        MR_OK);
    assert_int_equal(n, 5);
    mr_free(reply);
}

/* As everybody does who is refused for the moment: again, until the memory that was taken has come
 * back. */
static void others_come_through(struct fixture *f)
{
    int64_t until_ms = mr_now_ms() + LONG_MS;
    void *reply = NULL;
    size_t n = 0;
    mr_error err;
    int rc;

    do {
        rc = mr_rpc_unary_wait(f->ch, "/t/Echo", "there", 5, NULL, LONG_MS, true, &reply, &n, &err);
    } while ((rc == MR_EUNAVAIL || rc == MR_EEXHAUSTED) && mr_now_ms() < until_ms);
    if (rc < 0) {
        fail_msg("%s", err.message);
    }
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

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", big, ECHO_BYTES, NULL, LONG_MS, true, &reply, &n, &err),
        MR_OK);
    mr_free(reply);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Echo", big, ECHO_BYTES + 1, NULL, LONG_MS, true,
                                       &reply, &n, &err),
                     MR_EINVAL);
    assert_string_equal(err.message, "/t/Echo: a request of 101 bytes, at most 100 are allowed");
    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Bulk", big, BODY_BYTES, NULL, LONG_MS, true, &reply, &n, &err),
        MR_OK);
    assert_memory_equal(reply, "4194304", 7);
    mr_free(reply);
    assert_int_equal(mr_rpc_unary_wait(f->ch, "/t/Bulk", big, BODY_BYTES + 1, NULL, LONG_MS, true,
                                       &reply, &n, &err),
                     MR_EINVAL);
    free(big);
}

/* Streams that say nothing: when there are too many of them the oldest go, and only those. */
static void calls_without_a_message_make_room(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *silent[SILENT_CALLS + 2];

    for (size_t i = 0; i < SILENT_CALLS + 2; i++) {
        assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &client_ops, f,
                                            &silent[i], NULL),
                         MR_OK);
        mr_rpc_stream_receive(silent[i]);
    }
    wait_for_ends(f, 2);
    assert_string_equal(f->last.message,
                        "too many calls wait for their first message, most of them from this host");
    others_go_on(f); /* which wait for their message, too, but are the youngest */
    for (size_t i = 0; i < SILENT_CALLS + 2; i++) {
        mr_rpc_stream_unref(silent[i]);
    }
}

static void a_call_without_a_message_has_some_time(void **state)
{
    struct fixture *f = *state;
    mr_rpc_stream *silent = NULL;

    assert_int_equal(
        mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &client_ops, f, &silent, NULL),
        MR_OK);
    mr_rpc_stream_receive(silent);
    wait_for_ends(f, 1);
    assert_string_equal(f->last.message, "the first message did not come in time");
    mr_rpc_stream_unref(silent);
}

/* Bodies that never end: what is kept of them is bounded by the server's memory, not by what they
 * promise. */
static void unfinished_bodies_are_cut(void **state)
{
    struct fixture *f = *state;
    unsigned char *body = calloc(1, BODY_BYTES);
    size_t sent[BODIES] = {0};
    uint32_t calls[BODIES];
    struct h2 h;
    bool full = false;

    body[1] = BODY_BYTES >>
              24; /* gRPC's prefix of a message: its size, of which the last byte does not come */
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
    others_come_through(f);
    h2_close(&h);
    free(body);
}

static void lock_file(FILE *file)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    assert_int_equal(fcntl(fileno(file), F_SETLK, &lock), 0);
}

/* Only another process can tell. */
static bool is_locked(FILE *file)
{
    int fd = fileno(file), status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Calls that are taken back before anybody could answer, many at a time: the server hangs up, and
 * others go on. It looks for the connection among all that the process has open; what is locked
 * stays so. */
static void endless_resets_end_the_connection(void **state)
{
    struct fixture *f = *state;
    int64_t until_ms = mr_now_ms() + RESETS_MS;
    FILE *database = tmpfile();
    struct h2 h;

    assert_non_null(database);
    lock_file(database);
    h2_open(&h, f->address);
    assert_true(h2_hear(&h, LONG_MS));
    for (unsigned i = 0; i < RESETS && !h.closed;) {
        h2_hold(&h);
        for (unsigned n = 0; n < RESETS_AT_ONCE; n++, i++) {
            h2_reset(&h, h2_call(&h, i % 2 == 0 ? "/t/Bulk" : "/t/Stream"));
        }
        h2_let_go(&h);
    }
    while (h2_hear(&h, LONG_MS) && mr_now_ms() < until_ms) {
    }
    assert_true(h.closed);
    assert_true(is_locked(database));
    others_go_on(f);
    h2_close(&h);
    (void)fclose(database);
}

/* Many calls that are taken back once they were answered, a silent one beside them: nobody hangs up
 * on it. */
static void honest_calls_that_are_taken_back_are_welcome(void **state)
{
    struct fixture *f = *state;
    const struct mr_rpc_slice word = {.data = "word", .size = 4};
    mr_rpc_stream *silent = NULL, *s[OPEN_CALLS - 1];

    assert_int_equal(
        mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &client_ops, f, &silent, NULL),
        MR_OK);
    for (unsigned round = 1; round <= HONEST_ROUNDS; round++) {
        for (size_t i = 0; i < OPEN_CALLS - 1; i++) {
            assert_int_equal(mr_rpc_stream_open(f->ch, "/t/Answers", NULL, -1, true, &cancel_ops, f,
                                                &s[i], NULL),
                             MR_OK);
            mr_rpc_stream_receive(s[i]);
            assert_int_equal(mr_rpc_stream_send(s[i], &word, 1, false, NULL), MR_OK);
        }
        wait_for_ends(f, round * (OPEN_CALLS - 1));
        for (size_t i = 0; i < OPEN_CALLS - 1; i++) {
            mr_rpc_stream_unref(s[i]);
        }
    }
    assert_int_equal(f->last.code, MR_ECANCELED);
    assert_int_equal(mr_rpc_stream_send(silent, &word, 1, false, NULL), MR_OK);
    mr_rpc_stream_cancel(silent);
    wait_for_ends(f, HONEST_ROUNDS * (OPEN_CALLS - 1) + 1);
    assert_int_equal(f->last.code, MR_ECANCELED);
    mr_rpc_stream_unref(silent);
}

/* As slowly as it likes: the server hangs up before it is out of memory, and others go on. */
static void headers_without_an_end_end_the_connection(void **state)
{
    struct fixture *f = *state;
    struct h2 h;

    h2_open(&h, f->address);
    assert_true(h2_hear(&h, LONG_MS));
    uint32_t call = h2_begin_headers(&h, "/t/Stream");
    for (unsigned i = 0; !h.closed; i++) {
        assert_true(i < FIELDS);
        h2_more_headers(&h, call, FIELD_BYTES, false);
        (void)h2_hear(&h, 1);
    }
    others_go_on(f);
    h2_close(&h);
}

/* The limit of gRPC is one of a frame. */
static void a_call_with_much_metadata_is_refused(void **state)
{
    struct fixture *f = *state;
    struct h2 h;

    h2_open(&h, f->address);
    assert_true(h2_hear(&h, LONG_MS));
    uint32_t call = h2_begin_headers(&h, "/t/Stream");
    for (unsigned i = 0; i < 3; i++) {
        h2_more_headers(&h, call, FIELD_BYTES, i == 2);
    }
    while (h.resets + h.ended == 0 && !h.closed && h2_hear(&h, LONG_MS)) {
    }
    assert_int_equal(h.ended, 1);
    others_go_on(f);
    h2_close(&h);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_method_has_its_size),
        cmocka_unit_test_setup_teardown(calls_without_a_message_make_room, setup_few, teardown),
        cmocka_unit_test_setup_teardown(a_call_without_a_message_has_some_time, setup_impatient,
                                        teardown),
        TEST(unfinished_bodies_are_cut),
        TEST(headers_without_an_end_end_the_connection),
        cmocka_unit_test_setup_teardown(a_call_with_much_metadata_is_refused, setup_few_open,
                                        teardown),
        cmocka_unit_test_setup_teardown(endless_resets_end_the_connection, setup_few_open,
                                        teardown),
        cmocka_unit_test_setup_teardown(endless_resets_end_the_connection, setup_few_open_anywhere,
                                        teardown),
        cmocka_unit_test_setup_teardown(honest_calls_that_are_taken_back_are_welcome,
                                        setup_few_open, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
