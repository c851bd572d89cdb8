/* Of which round the element is that was handed out last. */
#include "client/round_log.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TEXT(n, v)                                                                                 \
    {                                                                                              \
        .name = (n), .kind = MR_ATTR_BYTES, .bytes = (v), .size = sizeof(v) - 1                    \
    }
#define INT(n, v)                                                                                  \
    {                                                                                              \
        .name = (n), .kind = MR_ATTR_INT, .i = (v)                                                 \
    }

/* @op over @inputs, of which it takes the references. */
static mr_dataset *apply(const char *op, mr_dataset *const *inputs, size_t n,
                         const struct mr_attr *attrs, size_t nattrs)
{
    mr_dataset *ds = NULL;
    mr_error err;

    if (mr_dataset_apply(op, inputs, n, attrs, nattrs, NULL, 0, NULL, &ds, &err) != MR_OK) {
        fail_msg("%s: %s", op, err.message);
    }
    for (size_t i = 0; i < n; i++) {
        mr_dataset_unref(inputs[i]);
    }
    return ds;
}

static mr_dataset *behind(const char *op, mr_dataset *input, const char *name, int64_t value)
{
    struct mr_attr attr = INT(name, value);

    return apply(op, &input, 1, &attr, 1);
}

/* A read from a service; coordinated if there are @consumers. */
static mr_dataset *read_of(int64_t consumers)
{
    struct mr_attr range[] = {INT("start", 0), INT("stop", 10), INT("step", 1)};
    struct mr_attr attrs[] = {
        TEXT("service", "grpc://a:1"),   TEXT("processing_mode", "OFF"), TEXT("job_name", "j"),
        INT("num_consumers", consumers), INT("consumer_index", 0),
    };
    mr_dataset *input = apply("range", NULL, 0, range, 3);

    return apply("distribute", &input, 1, attrs, consumers > 0 ? 5 : 3);
}

/* Takes @ds. */
static void expect_follows(mr_dataset *ds, bool follows, const char *obstacle)
{
    struct mr_round_log log;
    uint64_t round = 7;
    mr_error err = {0};

    mr_round_log_init(&log, ds);
    assert_int_equal(log.follows, follows);
    if (obstacle != NULL) {
        assert_int_equal(mr_round_log_get(&log, &round, &err), MR_EPRECOND);
        assert_non_null(strstr(err.message, obstacle));
    } else {
        assert_int_equal(mr_round_log_get(&log, &round, &err), MR_END);
    }
    assert_int_equal(round, 7);
    mr_round_log_destroy(&log);
    mr_dataset_unref(ds);
}

static void what_stands_in_the_way(void **state)
{
    expect_follows(read_of(2), true, NULL);
    expect_follows(behind("take", behind("prefetch", read_of(2), "buffer_size", 2), "count", 3),
                   true, NULL);
    mr_dataset *numbered[] = {
        read_of(2), apply("range", NULL, 0,
                          (struct mr_attr[]){INT("start", 0), INT("stop", 9), INT("step", 1)}, 3)};
    expect_follows(apply("zip", numbered, 2, NULL, 0), true, NULL); /* as enumerate makes it */
    expect_follows(behind("take", behind("shuffle", read_of(2), "buffer_size", 2), "count", 3),
                   false, "'shuffle'");
    expect_follows(behind("prefetch", behind("skip", read_of(2), "count", 3), "buffer_size", 2),
                   false, "'skip'");
    expect_follows(read_of(0), false, NULL);
    expect_follows(behind("skip", read_of(0), "count", 3), false, NULL);

    mr_dataset *two[] = {read_of(0), read_of(2)};
    expect_follows(apply("zip", two, 2, NULL, 0), false, "'zip'");
}

static int setup(void **state)
{
    static struct mr_round_log log;
    mr_dataset *ds = read_of(2);

    mr_round_log_init(&log, ds);
    mr_dataset_unref(ds);
    *state = &log;
    return 0;
}

static int teardown(void **state)
{
    mr_round_log_destroy(*state);
    return 0;
}

static void expect_round(struct mr_round_log *log, uint64_t expected)
{
    uint64_t round = UINT64_MAX;

    assert_int_equal(mr_round_log_get(log, &round, NULL), MR_OK);
    assert_int_equal(round, expected);
}

static void it_is_of_what_was_handed_out(void **state)
{
    struct mr_round_log *log = *state;
    uint64_t given = 0;
    uint64_t had = 0;

    /* Every third round is void; up to a thousand are on their way. */
    for (int turn = 0; turn < 10; turn++) {
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(mr_round_log_give(log, given + given / 2, NULL), MR_OK);
            given++;
        }
        for (int i = 0; i < 900; i++) {
            mr_round_log_hand_out(log, 1);
            expect_round(log, had + had / 2);
            had++;
        }
    }
    mr_round_log_hand_out(log, 100);
    had += 99; /* of several the last one */
    expect_round(log, had + had / 2);
}

static void nothing_is_claimed_behind_an_element_that_failed(void **state)
{
    struct mr_round_log *log = *state;
    uint64_t round = 0;

    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(mr_round_log_give(log, i, NULL), MR_OK);
    }
    mr_round_log_hand_out(log, 1);
    mr_round_log_fail(log); /* of round 1 */
    expect_round(log, 0);   /* is what the application has */
    mr_round_log_hand_out(log, 1);
    assert_int_equal(mr_round_log_get(log, &round, NULL), MR_EPRECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_in_the_way),
        cmocka_unit_test_setup_teardown(it_is_of_what_was_handed_out, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_claimed_behind_an_element_that_failed, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("round_log", tests, NULL, NULL);
}
