/* What is gRPC's alone in src/rpc/grpc: forks, its messages and its settings. The rest is
 * tests/conformance/rpc_test.c. */
#include "base/address.h"
#include "base/clock.h"
#include "base/heap.h"
#include "rpc/grpc/internal.h"
#include "tests/support/heap.h"
#include "tests/support/rpc.h"
#include "tests/support/unary.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <dirent.h>
#include <grpc/grpc.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- tests ---- */

static void what_grpc_says_is_cut_to_its_point(void **state)
{
    static const char *const said[][2] = {
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Failed to "
         "connect to remote host: Connection refused",
         "nothing listens or answers there: Connection refused"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Failed to "
         "connect to remote host: FD shutdown",
         "nothing listens or answers there: Connection refused or closed"},
        {"failed to connect to all addresses; last error: UNAVAILABLE: ipv6:%5B::1%5D:5050: Failed "
         "to connect to remote host: No route to host",
         "nothing listens or answers there: No route to host"},
        {"failed to connect to all addresses; last error: UNKNOWN: Timeout occurred: FD shutdown",
         "nothing listens or answers there: Connection refused or closed"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Socket "
         "closed",
         "who answers there closed the connection: it may want TLS or a certificate"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Tls "
         "handshake "
         "failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify failed",
         "no authority that is trusted here has signed the certificate of who answers there"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Custom "
         "verification check failed with error: UNAUTHENTICATED: Hostname Verification Check "
         "failed.",
         "the certificate of who answers there does not name that host"},
        {"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Tls "
         "handshake "
         "failed: SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version number",
         "who answers there does not speak TLS"},
        {"DNS resolution failed for none:1: C-ares status is not ARES_SUCCESS qtype=AAAA name=none "
         "is_balancer=0: Domain name not found",
         "the host name cannot be resolved: Domain name not found"},
        {"failed to connect to all addresses", "failed to connect to all addresses"},
        {"split 3: last error: ipv4:10.0.0.1: what others say stays",
         "split 3: last error: ipv4:10.0.0.1: what others say stays"},
    };

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        grpc_slice details = grpc_slice_from_static_string(said[i][0]);
        mr_error err;

        assert_int_equal(mr_grpc_status_error(GRPC_STATUS_UNAVAILABLE, details, &err), MR_EUNAVAIL);
        assert_string_equal(err.message, said[i][1]);
    }
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

static void http_proxy_is_ignored(void **state)
{
    struct rpc_fixture *f = *state;
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

/* A server, a client and a stream of its own: 0 if it works. */
static int try_echo(void)
{
    struct rpc_fixture *f = NULL;
    void *state = NULL;
    void *reply = NULL;
    size_t n = 0;

    (void)rpc_setup(&state);
    f = state;
    if (mr_rpc_unary_wait(f->ch, "/t/Echo", "hi", 2, NULL, LONG_MS, true, &reply, &n, NULL) < 0 ||
        n != 2) {
        return 1;
    }
    mr_free(reply);
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");
    rpc_send_text(s, "hello");
    if (!seen_until(&f->client, &f->client.messages, 1)) {
        return 2;
    }
    mr_rpc_stream_unref(s);
    (void)rpc_teardown(&state);
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
    struct rpc_fixture *f = *state;
    void *reply = NULL;
    size_t n = 0;

    assert_int_equal(
        mr_rpc_unary_wait(f->ch, "/t/Echo", "", 0, NULL, LONG_MS, true, &reply, &n, NULL), MR_OK);
    mr_free(reply);
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Stream");
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
        bad |= mr_rpc_stream_open(f->ch, "/t/Stream", NULL, -1, true, &rpc_client_ops, f, &s2,
                                  NULL) != MR_EPRECOND;
        bad |= mr_rpc_stream_send(s, &slice, 1, false, NULL) != MR_EPRECOND;
        mr_rpc_stream_unref(s);
        mr_rpc_channel_free(f->ch);
        mr_rpc_server_free(f->srv);
        mr_rpc_release(f->rt);
        _exit(bad);
    }
    assert_int_equal(join(pid), 0);
    rpc_send_text(s, "still here");
    assert_true(seen_until(&f->client, &f->client.messages, 1));
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

/* Serve seen_until the parent closes its end of @stop; tell it the port. */
static int child_serve(int tell, int stop)
{
    void *state = NULL;
    char c;

    (void)rpc_setup(&state);
    struct rpc_fixture *f = state;
    bool told = write(tell, f->address, sizeof f->address) == (ssize_t)sizeof f->address;
    bool closed = read(stop, &c, 1) == 0;
    (void)rpc_teardown(&state);
    return told && closed ? 0 : 1;
}

/* A connection attempt that is dropped half-way must not keep gRPC open: a fork afterwards would
 * give a useless child. */
static void closed_while_connecting(void **state)
{
    static struct rpc_fixture f;
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
            mr_rpc_unary(f.ch, "/t/Echo", "", 0, NULL, -1, true, rpc_call_done, &f, &call, NULL),
            MR_OK);
        usleep(20 * (i % 40)); /* anywhere in the attempt */
        mr_rpc_call_cancel(call);
        assert_true(seen_until(&f.client, &f.client.done, i + 1));
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

/* Unary calls are streams at the server: one that brings nothing is told so at once. */
static void a_call_without_a_message_is_refused(void **state)
{
    struct rpc_fixture *f = *state;
    mr_rpc_stream *s = rpc_open_stream(f, "/t/Echo");

    mr_rpc_stream_half_close(s);
    assert_true(seen_until(&f->client, &f->client.ended, 1));
    assert_int_equal(f->client.rc, MR_EINVAL);
    assert_string_equal(f->client.text, "a call without a message");
    mr_rpc_stream_unref(s);
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
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rpc_setup, rpc_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_when_closed),
        cmocka_unit_test(fork_when_grpc_does_not_close),
        cmocka_unit_test(closed_while_connecting),
        TEST(what_grpc_says_is_cut_to_its_point),
        TEST(all_addresses_are_told_as_one_that_others_can_use),
        TEST(http_proxy_is_ignored),
        TEST(fork_when_open),
        TEST(a_call_without_a_message_is_refused),
        cmocka_unit_test(freed_memory_goes_with_the_last_user),
    };
    mr_rpc_keep_forkable();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
