/* When a read that waits says what for, on a clock of the test's own. */
#include "client/read/internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define FROM_MS 1000000

/* The seconds at which a line is written, of @n seconds, when the reason at second s is
 * @reason(s). */
static unsigned lines(const char *(*reason)(unsigned s), unsigned n, unsigned out[64])
{
    struct mr_read_wait w = {.since_ms = FROM_MS};
    unsigned count = 0;

    for (unsigned s = 0; s < n; s++) {
        if (mr_read_wait_tell(&w, reason(s), FROM_MS + 1000 * (int64_t)s)) {
            assert_true(count < 64);
            out[count++] = s;
        }
    }
    return count;
}

static const char *always(unsigned s)
{
    return "nothing comes from worker a:1";
}

static void the_same_is_said_ever_more_rarely(void **state)
{
    static const unsigned expected[] = {3, 6, 12, 24, 48, 96};
    unsigned at[64];

    assert_int_equal(lines(always, 100, at), 6);
    assert_memory_equal(at, expected, sizeof expected);
}

static const char *counted(unsigned s)
{
    static char text[96];

    (void)snprintf(text, sizeof text,
                   "the pipeline at worker a:1 has given nothing for %u s, %u elements came before",
                   s, 2 * s);
    return text;
}

static void what_only_grows_is_the_same(void **state)
{
    unsigned at[64];

    assert_int_equal(lines(counted, 100, at), 6);
}

static const char *changing(unsigned s)
{
    return s < 50   ? "nothing comes from worker a:1"
           : s < 51 ? "no worker has joined"
                    : "no dispatcher leads";
}

static void another_reason_is_said_soon(void **state)
{
    static const unsigned expected[] = {3, 6, 12, 24, 48, 51, 102};
    unsigned at[64];

    assert_int_equal(lines(changing, 110, at), 7);
    assert_memory_equal(at, expected, sizeof expected);
}

static const char *to_and_fro(unsigned s)
{
    return s % 2 == 0 ? "nothing comes from worker a:1" : "nothing comes from worker a:2";
}

static void what_changes_all_the_time_is_not_said_all_the_time(void **state)
{
    unsigned at[64];

    unsigned n = lines(to_and_fro, 100, at);
    for (unsigned i = 1; i < n; i++) {
        assert_in_range(at[i] - at[i - 1], 3, 5);
    }
}

static void which_reasons_are_the_same(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } cases[] = {
        {"", "", true},
        {"", "nothing", false},
        {"nothing", "nothing comes", false},
        {"worker a:1 (and 2 more) has no more", "worker a:1 (and 13 more) has no more", true},
        {"worker 10.0.0.1:5 (x)", "worker 10.0.0.2:5 (x)", false},
        {"worker 10.0.0.1:5 (Connection refused)",
         "worker 10.0.0.1:5 (Socket closed (again), or so)", true},
        {"worker 10.0.0.1:5 (cut of", "worker 10.0.0.1:5 (cut off", true},
        {"round 7 is here, and others have not received it",
         "round 8 is here, and others have not received it", true},
        {"consumer 1 is at round 9", "consumer 1 is at round 10", true},
        {"consumer 1 is at round 9", "consumer 2 is at round 9", false},
        {"consumer 1 is at round 9", "consumer 12 is at round 9", false},
        {"3 readers", "readers", false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(mr_read_wait_same(cases[i].a, cases[i].b), cases[i].same);
        assert_int_equal(mr_read_wait_same(cases[i].b, cases[i].a), cases[i].same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_is_said_ever_more_rarely),
        cmocka_unit_test(what_only_grows_is_the_same),
        cmocka_unit_test(another_reason_is_said_soon),
        cmocka_unit_test(what_changes_all_the_time_is_not_said_all_the_time),
        cmocka_unit_test(which_reasons_are_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
