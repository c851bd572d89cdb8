/* Splits that kill those who read them: they are found out, and fail the iteration or are left out. */
#include "core_recovery_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* @name dies with the split it has, and the next one takes its place. */
static void replace(struct fixture *f, const char *dead, const char *fresh)
{
    assert_int_equal(add_worker(&f->t, fresh, "a:1"), MR_OK);
    table_take_over(&f->t);
    table_wait(&f->t, 0);
    table_take_over(&f->t);
}

/* One split, and workers that die of it: twice with whatever else they had, and twice in
 * isolation. */
static void poison(struct fixture *f, const char *dataset)
{
    static const char *const names[] = {"p1", "p2", "p3", "p4", "p5"};
    char task[160];

    leave(&f->t, "w1");
    leave(&f->t, "w2");
    add_worker(&f->t, "p1", "a:1");
    open_at_least_once(f, dataset);
    for (int i = 0; i < 2; i++) {
        snprintf(task, sizeof task, "%s", task_of(f->iteration, names[i], 1));
        expect_range(&f->t, names[i], task, 1, 9, 0, 1);
        replace(f, names[i], names[i + 1]);
    }
    for (int i = 2; i < 4; i++) {
        snprintf(task, sizeof task, "%s", task_of(f->iteration, names[i], 1));
        expect_end(&f->t, names[i], task, 1); /* it is not for those who read other splits, too */
        assert_null(the_end(f));
        snprintf(task, sizeof task, "%s", recovery_of(f, names[i], 0));
        expect_range(&f->t, names[i], task, 1, 9, 0, 1);
        expect_end(&f->t, names[i], task, 2); /* and has nothing beside it */
        assert_null(the_end(f));
        replace(f, names[i], names[i + 1]);
    }
}

static void a_split_that_kills_its_readers_fails_the_iteration(void **state)
{
    struct fixture *f = *state;
    const int64_t one[] = {1};

    put_dataset(&f->t, "one", FP2, one, 1);
    poison(f, "one");
    const Millrace__IterationEnd *end = the_end(f);

    assert_non_null(end);
    assert_int_equal(end->error_code, MR_EDATALOSS);
    assert_string_equal(
        end->error,
        "split 0 of range (step 0) (provider 0) is given up: 4 workers were lost while they read "
        "it, the last of them with nothing else of this iteration");
    assert_int_equal(end->quarantined_splits, 1);
    assert_int_equal(end->lost_splits, 1);
    assert_int_equal(end->lost_elements, 1000);
}

static void with_ignore_errors_it_is_counted_and_left_out(void **state)
{
    struct fixture *f = *state;
    const int64_t one[] = {1};

    put_tolerant_dataset(&f->t, "one", FP2, one, 1);
    poison(f, "one");
    assert_null(the_end(f));
    expect_end(&f->t, "p5", task_of(f->iteration, "p5", 1), 1);
    assert_null(recovery_of(f, "p5", 0));
    assert_int_equal(end_task(&f->t, "p5", task_of(f->iteration, "p5", 1), 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->error_code, 0);
    assert_int_equal(the_end(f)->quarantined_splits, 1);
    assert_int_equal(the_end(f)->lost_splits, 1);
    assert_int_equal(the_end(f)->lost_workers, 4);
    assert_int_equal(the_end(f)->repeated_splits, 3);
}

/* Suspects do not hold up what others read; they go together first, and then one by one. */
static void suspects_come_last_and_by_themselves(void **state)
{
    struct fixture *f = *state;
    char task[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    add_worker(&f->t, "w3", "a:1");
    expect_range(&f->t, "w3", task_of(f->iteration, "w3", 1), 1, 10, 0, 10);
    add_worker(&f->t, "w4", "a:1");
    expect_range(&f->t, "w2", f->tasks[2], 1, 99, 10, 23); /* not the suspects */
    assert_null(recovery_of(f, "w2", 0));
    drain(f, "w2", f->tasks[2], 2);
    expect_end(&f->t, "w4", task_of(f->iteration, "w4", 1), 1);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    end_task(&f->t, "w4", task_of(f->iteration, "w4", 1), 0, NULL);
    snprintf(task, sizeof task, "%s", recovery_of(f, "w2", 0));
    assert_null(recovery_of(f, "w2", 1));
    assert_null(recovery_of(f, "w4", 0));
    expect_range(&f->t, "w2", task, 1, 99, 0, 10);
    expect_end(&f->t, "w2", task, 2); /* nothing beside them */
    add_worker(&f->t, "w5", "b:1");
    expect_end(&f->t, "w5", task_of(f->iteration, "w5", 1), 1);
    end_task(&f->t, "w5", task_of(f->iteration, "w5", 1), 0, NULL);
    for (uint64_t i = 0; i < 10; i++) {
        const char *worker = i % 2 == 0 ? "w5" : "w4";

        assert_null(the_end(f));
        assert_null(recovery_of(f, "w4", 1)); /* one at a time on each worker */
        assert_null(recovery_of(f, "w5", 1));
        snprintf(task, sizeof task, "%s", recovery_of(f, worker, 0));
        expect_range(&f->t, worker, task, 1, 99, i, 1);
        expect_end(&f->t, worker, task, 2);
        table_take_over(&f->t);
        end_task(&f->t, worker, task, 0, NULL);
    }
    assert_int_equal(the_end(f)->repeated_splits, 30);
    assert_int_equal(the_end(f)->lost_splits, 0);
}

/* Nothing else happens: whoever asked last may be at work on what it has for hours. */
static void suspects_are_read_as_soon_as_the_end_was_told(void **state)
{
    struct fixture *f = *state;
    char task[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    add_worker(&f->t, "w3", "a:1");
    expect_range(&f->t, "w3", task_of(f->iteration, "w3", 1), 1, 10, 0, 10);
    add_worker(&f->t, "w4", "a:1");
    assert_null(
        recovery_of(f, "w2", 0)); /* the losses are counted, and others are to be read first */
    drain(f, "w2", f->tasks[2], 1);
    snprintf(task, sizeof task, "%s", recovery_of(f, "w2", 0));
    expect_range(&f->t, "w2", task, 1, 99, 0, 10);
}

static void recovery_tasks_are_bounded(void **state)
{
    struct fixture *f = *state;
    const int64_t many[] = {2000};

    put_dataset(&f->t, "many", FP2, many, 1);
    open_at_least_once(f, "many");
    drain(f, "w1", task_of(f->iteration, "w1", 1), 1);
    add_worker(&f->t, "w3", "a:1"); /* all of it, twice */
    drain(f, "w3", task_of(f->iteration, "w3", 1), 1);
    add_worker(&f->t, "w4", "a:1");
    expect_end(&f->t, "w2", task_of(f->iteration, "w2", 1), 1);
    expect_end(&f->t, "w4", task_of(f->iteration, "w4", 1), 1);
    assert_non_null(recovery_of(f, "w2", 0));
    assert_null(recovery_of(f, "w2", 1)); /* what kills in one would take the other along */
    assert_non_null(recovery_of(f, "w4", 0));
    assert_null(recovery_of(f, "w4", 1));
    unsigned n = 2;

    for (int i = 0; i < 20; i++) {
        char name[8], address[8];

        snprintf(name, sizeof name, "h%d", i);
        snprintf(address, sizeof address, "h:%d", i + 1);
        add_worker(&f->t, name, address);
        expect_end(&f->t, name, task_of(f->iteration, name, 1), 1);
        n += recovery_of(f, name, 0) != NULL ? 1 : 0;
        assert_null(recovery_of(f, name, 1));
    }
    assert_int_equal(n, 16);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, recovery_setup, recovery_teardown)
    const struct CMUnitTest tests[] = {
        T(a_split_that_kills_its_readers_fails_the_iteration),
        T(with_ignore_errors_it_is_counted_and_left_out),
        T(suspects_come_last_and_by_themselves),
        T(suspects_are_read_as_soon_as_the_end_was_told),
        T(recovery_tasks_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
