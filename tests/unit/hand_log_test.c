/* What is known of the elements behind a read, and what was used of them. */
#include "client/hand_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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
                         const struct mr_attr *attrs, size_t nattrs, mr_function *fn)
{
    mr_dataset *ds = NULL;
    mr_error err;

    if (mr_dataset_apply(op, inputs, n, attrs, nattrs, fn != NULL ? &fn : NULL, fn != NULL, NULL,
                         &ds, &err) != MR_OK) {
        fail_msg("%s: %s", op, err.message);
    }
    for (size_t i = 0; i < n; i++) {
        mr_dataset_unref(inputs[i]);
    }
    return ds;
}

static mr_dataset *numbers(void)
{
    struct mr_attr attrs[] = {INT("start", 0), INT("stop", 10), INT("step", 1)};

    return apply("range", NULL, 0, attrs, 3, NULL);
}

static mr_dataset *read_of(bool named)
{
    struct mr_attr attrs[] = {TEXT("service", "grpc://a:1"), TEXT("processing_mode", "OFF"),
                              TEXT("job_name", "j")};
    mr_dataset *input = numbers();

    return apply("distribute", &input, 1, attrs, named ? 3 : 2, NULL);
}

static mr_dataset *behind(const char *op, mr_dataset *input, const char *name, int64_t value)
{
    struct mr_attr attr = INT(name, value);

    return apply(op, &input, 1, &attr, name != NULL ? 1 : 0, NULL);
}

static mr_dataset *numbered(mr_dataset *ds)
{
    mr_dataset *both[] = {numbers(), ds};

    return apply("zip", both, 2, NULL, 0, NULL);
}

/* The elements themselves, by calls in parallel. */
static mr_dataset *mapped(mr_dataset *input, bool ordered)
{
    struct mr_attr attrs[] = {INT("num_parallel_calls", 4),
                              {.name = "deterministic", .kind = MR_ATTR_BOOL, .i = ordered}};
    mr_builder *builder = NULL;
    mr_function *fn = NULL;
    uint32_t value = 0; /* inputs are numbered first */

    assert_int_equal(mr_builder_new(mr_dataset_spec(input), NULL, &builder, NULL), MR_OK);
    assert_int_equal(mr_builder_finish(builder, &value, 1, NULL, &fn, NULL), MR_OK);
    mr_builder_free(builder);
    mr_dataset *ds = apply("map", &input, 1, attrs, 2, fn);
    mr_function_unref(fn);
    return ds;
}

/* Takes @ds. */
static void expect_way(mr_dataset *ds, enum mr_hand_way way)
{
    struct mr_hand_log log;

    mr_hand_log_init(&log, ds);
    assert_int_equal(log.way, way);
    mr_dataset_unref(ds);
}

static void what_operators_do_to_elements(void **state)
{
    expect_way(read_of(true), MR_HAND_IN_ORDER);
    expect_way(behind("prefetch", behind("take", read_of(true), "count", 3), "buffer_size", 2),
               MR_HAND_IN_ORDER);
    expect_way(behind("prefetch", mapped(read_of(true), true), "buffer_size", 2), MR_HAND_IN_ORDER);
    expect_way(behind("prefetch", numbered(read_of(true)), "buffer_size", 2), MR_HAND_IN_ORDER);
    expect_way(behind("prefetch", mapped(read_of(true), false), "buffer_size", 2), MR_HAND_MIXED);
    expect_way(numbered(behind("shuffle", read_of(true), "buffer_size", 2)), MR_HAND_MIXED);
    expect_way(behind("skip", read_of(true), "count", 3), MR_HAND_ONE_BY_ONE);
    expect_way(numbered(behind("skip", read_of(true), "count", 3)), MR_HAND_ONE_BY_ONE);
    expect_way(behind("skip", behind("prefetch", read_of(true), "buffer_size", 2), "count", 3),
               MR_HAND_UNKNOWN);
    expect_way(behind("prefetch", behind("skip", read_of(true), "count", 3), "buffer_size", 2),
               MR_HAND_UNKNOWN);
    expect_way(behind("cache", read_of(true), NULL, 0), MR_HAND_UNKNOWN);
    expect_way(behind("prefetch", numbers(), "buffer_size", 2), MR_HAND_UNKNOWN);
    expect_way(behind("prefetch", read_of(false), "buffer_size", 2),
               MR_HAND_UNKNOWN); /* nobody else reads it */
}

static void several_reads_are_followed_by_nobody(void **state)
{
    mr_dataset *two[] = {read_of(true), behind("prefetch", read_of(true), "buffer_size", 2)};
    mr_dataset *bare[] = {read_of(true), read_of(false)};

    expect_way(apply("zip", two, 2, NULL, 0, NULL), MR_HAND_UNKNOWN);
    expect_way(apply("zip", bare, 2, NULL, 0, NULL), MR_HAND_ONE_BY_ONE);
}

static void pull_log(struct mr_hand_log *log, uint32_t rows, bool failed, bool ended)
{
    mr_hand_log_come(log);
    mr_hand_log_came(log, rows, failed, ended);
}

static void expect_unused(const struct mr_hand_log *log, bool something, bool anything)
{
    assert_int_equal(mr_hand_log_unused(log), something);
    assert_int_equal(mr_hand_log_unused_last(log), anything);
}

static void on_used(void *reader, uint64_t used)
{
    *(uint64_t *)reader = used;
}

static void who_comes_back_is_through_with_what_it_had(void **state)
{
    mr_dataset *ds = read_of(true);
    struct mr_hand_log log;
    uint64_t used = UINT64_MAX;

    mr_hand_log_init(&log, ds);
    mr_dataset_unref(ds);
    mr_hand_log_come(&log); /* nobody is told */
    log.tell = on_used;
    log.reader = &used;
    mr_hand_log_came(&log, 5, false, false);
    assert_int_equal(used, UINT64_MAX);
    mr_hand_log_come(&log);
    assert_int_equal(used, 5);
    mr_hand_log_came(&log, 0, true, false); /* an error in the place of one */
    mr_hand_log_came(&log, 0, false, false);
    mr_hand_log_came(&log, 4, false, false);
    assert_int_equal(mr_hand_log_used(&log), 10);
    atomic_store(&log.unused, 3);
    assert_int_equal(mr_hand_log_used(&log), 7);
    mr_hand_log_come(&log);
    assert_int_equal(used, 10);
}

static void one_by_one_what_was_taken_is_used_when_its_element_is(void **state)
{
    mr_dataset *ds = behind("skip", read_of(true), "count", 3);
    struct mr_hand_log log;

    mr_hand_log_init(&log, ds);
    mr_dataset_unref(ds);
    expect_unused(&log, false, false);
    pull_log(&log, 1, false, false);
    assert_int_equal(log.pulls, 1);
    expect_unused(&log, false, false);
    pull_log(&log, 0, false, false); /* operators may hold what was taken */
    expect_unused(&log, true, true);
    pull_log(&log, 0, true, false); /* an error in the place of an element used it */
    assert_int_equal(log.pulls, 2); /* for the same element */
    expect_unused(&log, false, false);
    pull_log(&log, 2, false, false);
    assert_int_equal(log.pulls, 3);
    atomic_store(&log.unused, 1);
    expect_unused(&log, true, false);
    atomic_store(&log.unused, 2);
    expect_unused(&log, true, true);
    atomic_store(&log.unused, 0);
    pull_log(&log, 0, false, true);
    expect_unused(&log, false, false);
}

static void expect_may_hold(mr_dataset *ds, bool expected)
{
    struct mr_hand_log log;

    mr_hand_log_init(&log, ds);
    mr_dataset_unref(ds);
    pull_log(&log, 1, false, false);
    assert_int_equal(mr_hand_log_may_hold(&log), expected);
    pull_log(&log, 0, false, true);
    assert_false(mr_hand_log_may_hold(&log));
}

/* Of an element that is handed out in parts some may be left. */
static void who_may_hold_something(void **state)
{
    expect_may_hold(read_of(true), false);
    expect_may_hold(behind("skip", read_of(true), "count", 3), false);
    expect_may_hold(behind("unbatch", behind("batch", read_of(true), "batch_size", 4), NULL, 0),
                    true);
    expect_may_hold(behind("cache", read_of(true), NULL, 0), true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_operators_do_to_elements),
        cmocka_unit_test(several_reads_are_followed_by_nobody),
        cmocka_unit_test(who_comes_back_is_through_with_what_it_had),
        cmocka_unit_test(one_by_one_what_was_taken_is_used_when_its_element_is),
        cmocka_unit_test(who_may_hold_something),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
