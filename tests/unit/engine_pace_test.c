/* What is worth a thread of its own, told by how long calls took. */
#include "engine/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_BYTES_HINT
#define BLOCK_NS (BLOCK / 10 * MR_PACE_BYTE_NS_TENTHS)

/* How many calls it takes to be found slow; each @every-th takes @burst_ns, the others @ns, and each
 * comes with @beside ns of other work. 0: never. */
static uint32_t calls_until_slow_beside(size_t bytes, int64_t ns, uint32_t every, int64_t burst_ns,
                                        int64_t beside)
{
    struct mr_pace pace = {0};

    for (uint32_t i = 1; i <= 10 * MR_PACE_CALLS; i++) {
        if (mr_pace_is_slow(&pace, bytes, bytes, i % every == 0 ? burst_ns : ns, beside)) {
            return i;
        }
    }
    return 0;
}

static uint32_t calls_until_slow(size_t bytes, int64_t ns, uint32_t every, int64_t burst_ns)
{
    return calls_until_slow_beside(bytes, ns, every, burst_ns, 0);
}

static void what_takes_long_for_its_bytes_is_slow(void **state)
{
    assert_int_equal(calls_until_slow(BLOCK, 2 * BLOCK_NS, 1, 2 * BLOCK_NS), 2 * MR_PACE_CALLS);
    assert_int_equal(calls_until_slow(BLOCK, BLOCK_NS / 2, 1, BLOCK_NS / 2), 0);
}

/* Three of four calls are given what the fourth one reads. */
static void calls_are_judged_together(void **state)
{
    assert_int_equal(calls_until_slow(BLOCK, BLOCK_NS / 2, 4, 6 * BLOCK_NS), 2 * MR_PACE_CALLS);
}

static void one_interruption_does_not_count(void **state)
{
    assert_int_equal(calls_until_slow(BLOCK, BLOCK_NS / 2, MR_PACE_CALLS, 10 * MR_NS_PER_MS), 0);
}

static void calls_that_take_long_are_told_at_once(void **state)
{
    assert_int_equal(calls_until_slow(BLOCK, 5 * MR_NS_PER_MS, 1, 5 * MR_NS_PER_MS), 2);
}

/* What a call costs by itself is not what its few bytes cost. */
static void small_calls_are_not_multiplied_for_ever(void **state)
{
    assert_int_equal(calls_until_slow(8, MR_PACE_BLOCK_NS / (2 * MR_PACE_LARGER_MAX), 1, 100), 0);
    assert_int_not_equal(calls_until_slow(8, MR_PACE_BLOCK_NS, 1, MR_PACE_BLOCK_NS), 0);
}

/* Of all that a thread does it is too small a part to be worth another one. */
static void what_is_little_beside_the_rest_is_not_slow(void **state)
{
    int64_t ns = 2 * BLOCK_NS;
    int64_t rest = ns * MR_PACE_GAIN_PARTS;

    assert_int_equal(calls_until_slow_beside(BLOCK, ns, 1, ns, rest), 0);
    assert_int_equal(calls_until_slow_beside(BLOCK, ns, 1, ns, rest / 4), 2 * MR_PACE_CALLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_long_for_its_bytes_is_slow),
        cmocka_unit_test(calls_are_judged_together),
        cmocka_unit_test(one_interruption_does_not_count),
        cmocka_unit_test(calls_that_take_long_are_told_at_once),
        cmocka_unit_test(small_calls_are_not_multiplied_for_ever),
        cmocka_unit_test(what_is_little_beside_the_rest_is_not_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
