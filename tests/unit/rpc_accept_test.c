/* accept4() as gRPC finds it: who may connect is accepted, who is too much is refused, and it never
 * fails for good. */
#include "rpc/grpc/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX 8 /* connections */
#define DESCRIPTORS 100000
#define LONG_MS 60000
#define GREEDY 2 /* 127.0.0.2 */

struct fixture {
    struct mr_grpc_accepts accepts;
    int listener;
    struct sockaddr_in at;
};

static int listener_open(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof *at;

    *at = (struct sockaddr_in){.sin_family = AF_INET};
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){.listener = -1};
    f.listener = listener_open(&f.at);
    f.accepts.port = ntohs(f.at.sin_port);
    assert_int_equal(mr_grpc_accepts_start(&f.accepts, MAX, DESCRIPTORS, NULL), MR_OK);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_grpc_accepts_free(&f->accepts);
    (void)close(f->listener);
    return 0;
}

/* From 127.0.0.@host. */
static int connect_from(const struct sockaddr_in *at, unsigned char host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & 0xffffff00u) | host);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    return fd;
}

/* As often as it takes, on a machine where a go ends early because all is slow. */
static int accept_one(const struct fixture *f)
{
    int fd;

    do {
        fd = accept4(f->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && errno == EAGAIN && f->accepts.owed >= 0);
    return fd;
}

static void none_waits(const struct fixture *f)
{
    assert_int_equal(accept_one(f), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Some wait, but gRPC is told that there is none. */
static void go_ends_early(const struct fixture *f)
{
    assert_int_equal(accept4(f->listener, NULL, NULL, SOCK_CLOEXEC), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(f->accepts.owed, f->listener);
}

/* Connections that wait to be accepted. */
static unsigned queue_length(const struct fixture *f)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    assert_int_equal(getsockopt(f->listener, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_unacked;
}

/* connect() may return before the other end has heard of it. */
static int arrive_from(const struct fixture *f, unsigned char host)
{
    unsigned before = queue_length(f);
    int fd = connect_from(&f->at, host);

    while (queue_length(f) == before) {
        (void)poll(NULL, 0, 1);
    }
    return fd;
}

static bool is_reset(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNRESET;
}

static void expect_refused(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, LONG_MS), 1);
    assert_true(is_reset(fd));
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
}

/* No number above those that are open is left; returns what to put back. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit before, none;
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(lowest >= 0);
    (void)close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

/* ---- accepting ---- */

static void who_is_too_much_is_refused(void **state)
{
    struct fixture *f = *state;
    int greedy[MAX], got[MAX / 2];

    for (size_t i = 0; i < MAX; i++) {
        greedy[i] = arrive_from(f, GREEDY);
    }
    int other = arrive_from(f, 3);
    for (size_t i = 0; i < MAX / 2; i++) {
        got[i] = accept_one(f);
        assert_true(got[i] >= 0);
        assert_false(is_reset(greedy[i]));
    }
    int others = accept_one(f); /* and all before it are refused */
    assert_true(others >= 0);
    for (size_t i = MAX / 2; i < MAX; i++) {
        expect_refused(greedy[i]);
    }
    assert_false(is_reset(other));
    none_waits(f);
    close_all(greedy, MAX);
    close_all(got, MAX / 2);
    (void)close(other);
    (void)close(others);
}

static void who_goes_makes_room(void **state)
{
    struct fixture *f = *state;
    int greedy[MAX / 2], got[MAX / 2];

    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < MAX / 2; i++) {
            greedy[i] = arrive_from(f, GREEDY);
            got[i] = accept_one(f);
            assert_true(got[i] >= 0);
        }
        close_all(got, MAX / 2); /* The next ones get their numbers. */
        close_all(greedy, MAX / 2);
    }
}

static void without_descriptors_who_waits_is_refused(void **state)
{
    struct fixture *f = *state;
    int waiting[] = {arrive_from(f, 3), arrive_from(f, 4)};
    struct rlimit before = use_up_descriptors();

    none_waits(f);
    none_waits(f);
    expect_refused(waiting[0]);
    expect_refused(waiting[1]);
    assert_true(f->accepts.reserve >= 0);
    assert_int_equal(f->accepts.owed, -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    int next = arrive_from(f, 3), got = accept_one(f);
    assert_true(got >= 0);
    close_all(waiting, 2);
    (void)close(next);
    (void)close(got);
}

static void without_a_reserve_they_are_refused_later(void **state)
{
    struct fixture *f = *state;
    int waiting = arrive_from(f, 3);

    (void)close(f->accepts.reserve);
    f->accepts.reserve = -1;
    struct rlimit before = use_up_descriptors();

    go_ends_early(f);
    mr_grpc_accepts_look(&f->accepts, f->accepts.owed_ms + LONG_MS);
    assert_int_equal(f->accepts.owed, f->listener); /* It is tried again. */
    assert_false(is_reset(waiting));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    mr_grpc_accepts_look(&f->accepts, f->accepts.owed_ms + LONG_MS);
    assert_int_equal(f->accepts.owed, -1);
    assert_true(f->accepts.reserve >= 0);
    expect_refused(waiting);
    (void)close(waiting);
}

/* Whoever waits for the next one to arrive, as gRPC does, is woken. */
static void after_a_go_that_ended_early_one_more_arrives(void **state)
{
    struct fixture *f = *state;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC), waiting = arrive_from(f, 3);
    struct sockaddr_in from;
    socklen_t len = sizeof from;

    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, f->listener, &event), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, LONG_MS), 1);
    f->accepts.go_until_ms = 1; /* long ago */
    go_ends_early(f);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    mr_grpc_accepts_look(&f->accepts, f->accepts.owed_ms);
    mr_grpc_accepts_look(&f->accepts, f->accepts.owed_ms);
    assert_int_equal(epoll_wait(epoll, &event, 1, LONG_MS), 1);
    int got = accept_one(f), call = accept_one(f);
    assert_true(got >= 0);
    assert_true(call >= 0);
    assert_int_equal(getpeername(got, (struct sockaddr *)&from, &len), 0);
    assert_int_equal(ntohl(from.sin_addr.s_addr) & 0xff, 3);
    none_waits(f);
    (void)close(epoll);
    (void)close(waiting);
    (void)close(got);
    (void)close(call);
}

/* More cannot arrive where the queue is full. */
static void when_grpc_does_not_come_they_are_refused(void **state)
{
    struct fixture *f = *state;
    int waiting = arrive_from(f, 3);

    f->accepts.go_until_ms = 1;
    go_ends_early(f);
    mr_grpc_accepts_look(&f->accepts, f->accepts.owed_ms + LONG_MS);
    expect_refused(waiting);
    assert_int_equal(f->accepts.owed, -1);
    none_waits(f);
    (void)close(waiting);
}

static void a_listener_that_is_closed_is_owed_nothing(void **state)
{
    struct fixture *f = *state;
    int waiting = arrive_from(f, 3);

    f->accepts.go_until_ms = 1;
    go_ends_early(f);
    (void)close(f->listener);
    f->listener = -1;
    mr_grpc_accepts_look(&f->accepts, f->accepts.owed_ms + LONG_MS);
    assert_int_equal(f->accepts.owed, -1);
    (void)close(waiting);
}

static void a_listener_of_somebody_else_is_left_alone(void **state)
{
    struct sockaddr_in at, from = {.sin_family = AF_UNSPEC}, peer;
    socklen_t len = sizeof from, peer_len = sizeof peer;
    int listener = listener_open(&at), peers[2 * MAX], got[2 * MAX];

    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        peers[i] = connect_from(&at, GREEDY);
        got[i] = accept4(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
        assert_true(got[i] >= 0);
        assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(getsockname(peers[i], (struct sockaddr *)&peer, &peer_len), 0);
        assert_int_equal(len, sizeof from);
        assert_memory_equal(&from, &peer, sizeof from);
    }
    assert_int_equal(accept4(listener, NULL, NULL, 0), -1);
    assert_int_equal(errno, EAGAIN);
    close_all(peers, sizeof peers / sizeof peers[0]);
    close_all(got, sizeof got / sizeof got[0]);
    (void)close(listener);
}

/* ---- counting; where a descriptor is not open, the same one is there for as long as it is not
 * ---- */

#define COUNTED 64

static int admit(struct mr_grpc_connections *c, int fd, const char *host, int64_t now_ms)
{
    return mr_grpc_connections_admit(c, fd, host, now_ms, NULL);
}

static void a_host_may_have_what_it_leaves_free(void **state)
{
    struct mr_grpc_connections c;
    int fd = 1000;

    mr_grpc_connections_init(&c, COUNTED, DESCRIPTORS);
    for (unsigned i = 0; i < COUNTED / 2; i++) {
        assert_int_equal(admit(&c, fd++, "a", 0), MR_OK);
    }
    assert_int_equal(admit(&c, fd, "a", 0), MR_EEXHAUSTED);
    for (unsigned i = 0; i < COUNTED / 4; i++) {
        assert_int_equal(admit(&c, fd++, "b", 0), MR_OK);
    }
    assert_int_equal(admit(&c, fd, "b", 0), MR_EEXHAUSTED);
    assert_int_equal(admit(&c, fd, "c", 0), MR_OK);
    mr_grpc_connections_free(&c);
}

static void of_those_that_come_at_once_too(void **state)
{
    struct mr_grpc_connections c;
    int fd = 1000, admitted = 0;

    mr_grpc_connections_init(&c, DESCRIPTORS / 2, DESCRIPTORS);
    for (; admit(&c, fd, "a", 0) == MR_OK; fd++) {
        admitted++;
    }
    assert_in_range(admitted, 16, 1024);
    assert_int_equal(admit(&c, fd++, "b", 0), MR_OK);
    assert_false(mr_grpc_connections_go_is_full(&c));
    mr_grpc_connections_go_over(&c);
    for (int i = 0; i < admitted; i++) {
        assert_int_equal(admit(&c, fd++, "a", 0), MR_OK);
    }
    assert_int_equal(admit(&c, fd, "a", 0), MR_EEXHAUSTED);
    mr_grpc_connections_free(&c);
}

static void descriptors_are_left_for_files(void **state)
{
    struct mr_grpc_connections c;

    mr_grpc_connections_init(&c, COUNTED, 1000);
    assert_int_equal(admit(&c, 500, "a", 0), MR_OK);
    assert_int_equal(admit(&c, 990, "b", 0), MR_EEXHAUSTED);
    mr_grpc_connections_free(&c);
}

/* ... and its number is not another connection's. */
static void who_is_gone_is_looked_for_now_and_then(void **state)
{
    struct mr_grpc_connections c;
    int fds[COUNTED / 2];

    mr_grpc_connections_init(&c, COUNTED, DESCRIPTORS);
    for (unsigned i = 0; i < COUNTED / 2; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(admit(&c, fds[i], "a", 0), MR_OK);
    }
    assert_int_equal(admit(&c, 1000, "a", 0), MR_EEXHAUSTED); /* All have been looked at. */
    (void)close(fds[0]);
    assert_int_equal(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), fds[0]); /* another socket */
    (void)close(fds[1]);
    assert_int_equal(admit(&c, 1000, "a", 1), MR_EEXHAUSTED); /* not again at once */
    assert_int_equal(admit(&c, 1000, "a", LONG_MS), MR_OK);
    assert_int_equal(admit(&c, 1001, "a", LONG_MS), MR_OK);
    assert_int_equal(admit(&c, 1002, "a", LONG_MS), MR_EEXHAUSTED);
    mr_grpc_connections_free(&c);
    for (unsigned i = 0; i < COUNTED / 2; i++) {
        (void)close(fds[i]);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_is_too_much_is_refused),
        TEST(who_goes_makes_room),
        TEST(without_descriptors_who_waits_is_refused),
        TEST(without_a_reserve_they_are_refused_later),
        TEST(after_a_go_that_ended_early_one_more_arrives),
        TEST(when_grpc_does_not_come_they_are_refused),
        TEST(a_listener_that_is_closed_is_owed_nothing),
        TEST(a_listener_of_somebody_else_is_left_alone),
        cmocka_unit_test(a_host_may_have_what_it_leaves_free),
        cmocka_unit_test(of_those_that_come_at_once_too),
        cmocka_unit_test(descriptors_are_left_for_files),
        cmocka_unit_test(who_is_gone_is_looked_for_now_and_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
