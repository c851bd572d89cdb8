/* Calls that wait for their first message, in time that is made up. */
#include "rpc/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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

static void each_has_its_time_and_no_more(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first a = {.cut = cut}, b = {.cut = cut};

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
}

static void who_has_spoken_is_left_alone(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first a = {.cut = cut}, b = {.cut = cut};

    mr_rpc_first_wait(all, &a, 0);
    mr_rpc_first_wait(all, &b, 0);
    mr_rpc_first_came(all, &a);
    mr_rpc_first_came(all, &a);
    mr_rpc_firsts_tick(all, WAIT_MS);
    assert_int_equal(ncut, 1);
    assert_ptr_equal(last_cut, &b);
}

static void the_oldest_makes_room(void **state)
{
    struct mr_rpc_firsts *all = *state;
    struct mr_rpc_first calls[CALLS_MAX + 1];

    for (size_t i = 0; i <= CALLS_MAX; i++) {
        assert_int_equal(ncut, 0);
        calls[i] = (struct mr_rpc_first){.cut = cut};
        mr_rpc_first_wait(all, &calls[i], (int64_t)i);
    }
    assert_int_equal(ncut, 1);
    assert_ptr_equal(last_cut, &calls[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_has_its_time_and_no_more, setup),
        cmocka_unit_test_setup(who_has_spoken_is_left_alone, setup),
        cmocka_unit_test_setup(the_oldest_makes_room, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
