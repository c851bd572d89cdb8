/* Calls that wait for their first message, in time that is made up. */
#include "rpc/grpc/internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WAIT_MS 30000
#define CALLS_MAX 3

static struct mr_rpc_first *last_cut;
static unsigned ncut;

static void cut(struct mr_rpc_first *f, const char *why)
{
    last_cut = f;
    ncut++;
}

static int setup(void **state)
{
    static struct mr_rpc_firsts all;

    mr_rpc_firsts_init(&all, CALLS_MAX, WAIT_MS);
    last_cut = NULL;
    ncut = 0;
    *state = &all;
    return 0;
}

/* Nothing is counted that is not there. Calls are the test's own, so it is called in it. */
static void end(struct mr_rpc_firsts *all)
{
    mr_rpc_firsts_tick(all, INT64_MAX);
    mr_rpc_firsts_free(all);
}

static void each_has_its_time_and_no_more(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first a = {.cut = cut, .host = "10.0.0.1"}, b = {.cut = cut, .host = "10.0.0.1"};

    mr_rpc_first_wait(all, &a, 1000);
    mr_rpc_first_wait(all, &b, 1500);
    mr_rpc_firsts_tick(all, 1000 + WAIT_MS - 1);
    assert_int_equal(ncut, 0);
    mr_rpc_firsts_tick(all, 1000 + WAIT_MS);
    assert_int_equal(ncut, 1);
    assert_ptr_equal(last_cut, &a);
    mr_rpc_firsts_tick(all, 1500 + WAIT_MS);
    assert_int_equal(ncut, 2);
    assert_ptr_equal(last_cut, &b);
    mr_rpc_firsts_tick(all, INT64_MAX);
    assert_int_equal(ncut, 2);
    end(all);
}

static void who_has_spoken_is_left_alone(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first a = {.cut = cut, .host = "10.0.0.1"}, b = {.cut = cut, .host = "10.0.0.1"};

    mr_rpc_first_wait(all, &a, 0);
    mr_rpc_first_wait(all, &b, 0);
    mr_rpc_first_came(all, &a);
    mr_rpc_first_came(all, &a);
    mr_rpc_firsts_tick(all, WAIT_MS);
    assert_int_equal(ncut, 1);
    assert_ptr_equal(last_cut, &b);
    end(all);
}

static void the_oldest_makes_room(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first calls[CALLS_MAX + 1];

    for (size_t i = 0; i <= CALLS_MAX; i++) {
        assert_int_equal(ncut, 0);
        calls[i] = (struct mr_rpc_first){.cut = cut, .host = "10.0.0.1"};
        mr_rpc_first_wait(all, &calls[i], (int64_t)i);
    }
    assert_int_equal(ncut, 1);
    assert_ptr_equal(last_cut, &calls[0]);
    end(all);
}

/* However many one host opens, nobody else's goes. */
static void the_host_with_most_makes_room(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first other = {.cut = cut, .host = "10.0.0.2"}, calls[2 * CALLS_MAX];

    mr_rpc_first_wait(all, &other, 0);
    for (size_t i = 0; i < 2 * CALLS_MAX; i++) {
        calls[i] = (struct mr_rpc_first){.cut = cut, .host = "10.0.0.1"};
        mr_rpc_first_wait(all, &calls[i], (int64_t)i);
        if (i >= CALLS_MAX - 1) {
            assert_ptr_equal(last_cut, &calls[i + 1 - CALLS_MAX]);
        }
    }
    assert_int_equal(ncut, CALLS_MAX + 1);
    assert_true(other.waits);
    end(all);
}

static void without_memory_the_call_goes(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first a = {.cut = cut, .host = "10.0.0.1"};

    mr_alloc_fail_at(1);
    mr_rpc_first_wait(all, &a, 0);
    mr_alloc_fail_at(0);
    assert_int_equal(ncut, 1);
    assert_false(a.waits);
    end(all);
}

static void hosts_of_peers(void **state)
{
    static const char *const examples[][2] = {
        {"ipv4:10.0.0.7:4711", "10.0.0.7"},
        {"ipv6:%5Bfe80::1%5D:4711", "fe80::/64"},
        {"ipv6:%5Bfe80::1%252%5D:4711", "fe80::/64"},
        {"ipv6:%5B2001:db8:0:7::1%5D:4711", "2001:db8:0:7::/64"},
        {"ipv6:%5B2001:db8:0:7:ffff::2%5D:4711", "2001:db8:0:7::/64"},
        {"ipv6:%5B2001:db8:0:8::1%5D:4711", "2001:db8:0:8::/64"},
        {"ipv6:%5B::ffff:10.0.0.7%5D:4711", "::ffff:10.0.0.7"},
        {"ipv6:[::1]:80", "::1"},
        {"unix:/tmp/socket", "local"},
        {"unix-abstract:x:1", "local"},
        {"unknown", "local"},
        {"", "local"},
        {"ipv4:", "local"},
        {"ipv6:%5B%5D:1", "%5B%5D"},
    };
    char host[MR_GRPC_HOST_SIZE];

    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        mr_grpc_host_of(examples[i][0], host);
        assert_string_equal(host, examples[i][1]);
    }
}

#define TEST(fn) cmocka_unit_test_setup(fn, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_has_its_time_and_no_more), TEST(who_has_spoken_is_left_alone),
        TEST(the_oldest_makes_room),         TEST(the_host_with_most_makes_room),
        TEST(without_memory_the_call_goes),  cmocka_unit_test(hosts_of_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
