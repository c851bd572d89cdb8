/* Who keeps gRPC's thread to itself is found and cut off, and nobody else. The thread is the test's
 * own, which uses CPU time as it likes; connections are sockets that nobody serves.
 * So is who sends much and finishes nothing. */
#include "rpc/grpc/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MANY ((size_t)300 << 10)
#define MEMORY ((size_t)4 << 20) /* for messages */
#define FEW ((size_t)100 << 10)

struct pair {
    int ours; /* the server's end */
    int peers;
};

struct fixture {
    struct mr_rpc_runtime rt;
    struct mr_grpc_floods floods;
    struct mr_grpc_unfinished unfinished;
    int listener;
    struct sockaddr_in at;
    int64_t now_ms;
};

static int setup(void **state)
{
    static struct fixture f;
    socklen_t len = sizeof f.at;

    f = (struct fixture){.rt = {.thread = pthread_self()}, .at = {.sin_family = AF_INET}};
    f.at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f.listener, (struct sockaddr *)&f.at, sizeof f.at), 0);
    assert_int_equal(listen(f.listener, 8), 0);
    assert_int_equal(getsockname(f.listener, (struct sockaddr *)&f.at, &len), 0);
    f.floods.port = ntohs(f.at.sin_port);
    f.floods.memory_bytes = MEMORY;
    f.unfinished.port = f.floods.port;
    f.unfinished.memory_bytes = MEMORY;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)close(f->listener);
    mr_grpc_floods_free(&f->floods);
    mr_grpc_unfinished_free(&f->unfinished);
    return 0;
}

/* From 127.0.0.@host. */
static struct pair pair_open(struct fixture *f, unsigned char host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct pair p = {.peers = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & 0xffffff00u) | host);
    assert_int_equal(bind(p.peers, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(p.peers, (struct sockaddr *)&f->at, sizeof f->at), 0);
    p.ours = accept(f->listener, NULL, NULL);
    assert_true(p.ours >= 0);
    return p;
}

static void pair_close(struct pair *p)
{
    (void)close(p->ours);
    (void)close(p->peers);
}

static void carry(const struct pair *p, size_t n)
{
    static char bytes[4096];

    for (; n > 0; n -= sizeof bytes) {
        assert_int_equal(send(p->peers, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        assert_int_equal(recv(p->ours, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    }
}

static bool is_cut(const struct pair *p)
{
    char byte;
    ssize_t n = recv(p->peers, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void use_cpu(int64_t ms)
{
    struct timespec t;
    int64_t until = 0, now;

    do {
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        until = until == 0 ? now + ms * 1000000 : until;
    } while (now < until);
}

/* It has just come back from gRPC. */
static void look_after_event(struct fixture *f)
{
    atomic_fetch_add(&f->rt.events, 1);
    mr_grpc_floods_look(&f->floods, &f->rt, f->now_ms);
}

/* After so much CPU time, and time, in gRPC. */
static void look_after(struct fixture *f, int64_t cpu_ms, int64_t ms)
{
    use_cpu(cpu_ms);
    f->now_ms += ms;
    mr_grpc_floods_look(&f->floods, &f->rt, f->now_ms);
}

static void more_than_messages_may_have_without_an_event_is_a_flood(void **state)
{
    struct fixture *f = *state;
    struct pair flood = pair_open(f, 2), before = pair_open(f, 3), large = pair_open(f, 4);

    carry(&before, MEMORY + MANY);
    look_after_event(f);
    look_after(f, 60, 60); /* noted */
    carry(&flood, MEMORY + MANY);
    carry(&large, MEMORY);
    look_after(f, 200, 200);
    assert_true(is_cut(&flood));
    assert_false(is_cut(&before) || is_cut(&large));
    pair_close(&flood);
    pair_close(&before);
    pair_close(&large);
}

static void much_while_there_is_no_event_for_long_is_a_flood(void **state)
{
    struct fixture *f = *state;
    struct pair flood = pair_open(f, 2), slow = pair_open(f, 3);

    look_after_event(f);
    look_after(f, 60, 60);
    carry(&flood, MANY);
    carry(&slow, FEW);
    look_after(f, 1000, 1000);
    assert_false(is_cut(&flood));
    look_after(f, 0, 500);
    assert_true(is_cut(&flood));
    assert_false(is_cut(&slow));
    pair_close(&flood);
    pair_close(&slow);
}

/* As many at a time as there is memory for, on a machine that has much else to do. */
static void messages_that_take_long_to_come_are_no_flood(void **state)
{
    struct fixture *f = *state;
    struct pair busy = pair_open(f, 2);

    look_after_event(f);
    look_after(f, 60, 60);
    carry(&busy, MEMORY);
    look_after(f, 300, 100000);
    assert_false(is_cut(&busy));
    pair_close(&busy);
}

/* Suspended, or without its share of a busy machine. */
static void a_thread_that_does_not_run_is_not_held(void **state)
{
    struct fixture *f = *state;
    struct pair busy = pair_open(f, 2);

    look_after_event(f);
    look_after(f, 60, 60);
    carry(&busy, MANY);
    look_after(f, 0, 100000);
    assert_false(is_cut(&busy));
    pair_close(&busy);
}

static void as_long_as_events_come_nobody_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct pair busy = pair_open(f, 2);

    for (int i = 0; i < 4; i++) {
        look_after_event(f);
        look_after(f, 60, 60);
        carry(&busy, MEMORY);
        look_after(f, 100, 1000);
    }
    assert_false(is_cut(&busy));
    pair_close(&busy);
}

/* gRPC knows of none of them, so that none has finished anything. */
static void look_for_unfinished(struct fixture *f)
{
    f->now_ms += 1000;
    mr_grpc_unfinished_look(&f->unfinished, 0, f->now_ms);
}

/* However slowly it came. */
static void who_has_most_that_is_not_finished_is_cut_off(void **state)
{
    struct fixture *f = *state;
    struct pair most = pair_open(f, 2), more = pair_open(f, 3), few = pair_open(f, 4);

    carry(&few, 40 << 10);
    for (int i = 0; i < 4; i++) {
        carry(&most, MEMORY / 8);
        carry(&more, MEMORY / 16);
        look_for_unfinished(f);
    }
    assert_false(is_cut(&most) || is_cut(&more) || is_cut(&few));
    carry(&most, MEMORY / 4 + MANY);
    look_for_unfinished(f);
    assert_true(is_cut(&most));
    assert_false(is_cut(&more) || is_cut(&few));
    pair_close(&most);
    pair_close(&more);
    pair_close(&few);
}

static void several_are_cut_off_if_they_must_be(void **state)
{
    struct fixture *f = *state;
    struct pair pairs[3] = {pair_open(f, 2), pair_open(f, 3), pair_open(f, 4)};

    for (int i = 0; i < 3; i++) {
        carry(&pairs[i], MEMORY - (size_t)i * 4096);
    }
    look_for_unfinished(f);
    assert_true(is_cut(&pairs[0]));
    assert_true(is_cut(&pairs[1]));
    assert_false(is_cut(&pairs[2]));
    for (int i = 0; i < 3; i++) {
        pair_close(&pairs[i]);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(more_than_messages_may_have_without_an_event_is_a_flood),
        TEST(much_while_there_is_no_event_for_long_is_a_flood),
        TEST(messages_that_take_long_to_come_are_no_flood),
        TEST(a_thread_that_does_not_run_is_not_held),
        TEST(as_long_as_events_come_nobody_is_cut_off),
        TEST(who_has_most_that_is_not_finished_is_cut_off),
        TEST(several_are_cut_off_if_they_must_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
