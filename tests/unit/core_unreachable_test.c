/* At least once, where workers are silent, unreachable, or no longer on record. */
#include "core_recovery_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* By hand; whether there is still somebody behind them or not. */
static void delete_workers(struct fixture *f)
{
    for (size_t i = f->t.count; i-- > 0;) {
        if (strncmp(f->t.keys[i], "workers/", 8) == 0) {
            table_delete(&f->t, f->t.keys[i]);
        }
    }
}

/* A leader that comes then finds grants of nobody: what they hold goes to whoever registers,
 * once. */
static void what_workers_have_whose_records_are_deleted_goes_to_others(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    expect_range(&f->t, "w2", f->tasks[2], 1, 10, 10, 10);
    delete_workers(f);
    table_take_over(&f->t);
    table_wait(&f->t, 0);
    table_take_over(&f->t); /* they count as lost from now on, whoever leads */
    assert_int_equal(get_splits(&f->t, "w1", f->tasks[1], 0, 2, 10), MR_ENOTFOUND);
    assert_int_equal(add_worker(&f->t, "w1", "a:1"), MR_OK);
    snprintf(f->tasks[1], sizeof f->tasks[1], "%s", task_of(f->iteration, "w1", 2));
    assert_int_equal(get_splits(&f->t, "w1", f->tasks[1], 0, 1, 100), MR_OK);
    assert_true(splits(&f->t)->ranges[0]->first < 20);
    drain(f, "w1", f->tasks[1], 2);
    assert_int_equal(end_task(&f->t, "w1", f->tasks[1], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 20);
    assert_int_equal(the_end(f)->lost_workers, 2);
    assert_int_equal(the_end(f)->lost_splits, 0);
}

static void and_so_does_what_recovery_tasks_have(void **state)
{
    struct fixture *f = *state;
    char recovery[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    lose(f, "w2");
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2", 0));
    expect_range(&f->t, "w2", recovery, 1, 3, 0, 3);
    delete_workers(f);
    table_take_over(&f->t);
    table_wait(&f->t, 0);
    assert_non_null(strstr(cursor(f), "\"pool\":[{\"count\":\"100\""));
}

/* At most once it is gone, and counted; one that was forgotten in order, when nothing of it was
 * needed, is not. */
static void at_most_once_what_they_had_is_counted(void **state)
{
    struct fixture *f = *state;
    char iteration[64];

    open_job(&f->t, (struct open_args){
                        .client = "c2", .dataset = "numbers", .name = "once", .dynamic = true});
    snprintf(iteration, sizeof iteration, "%s", opened(&f->t)->iteration_id);
    expect_range(&f->t, "w1", task_of(iteration, "w1", 1), 1, 10, 0, 10);
    delete_workers(f);
    for (int term = 0; term < 3; term++) {
        table_take_over(&f->t);
        table_wait(&f->t, 0);
    }
    assert_int_equal(add_worker(&f->t, "w3", "c:1"), MR_OK);
    expect_range(&f->t, "w3", task_of(iteration, "w3", 1), 1, 100, 10, 45);
    for (uint64_t seq = 2;; seq++) {
        assert_int_equal(get_splits(&f->t, "w3", task_of(iteration, "w3", 1), 0, seq, 199), MR_OK);
        if (splits(&f->t)->end) {
            break;
        }
    }
    assert_int_equal(end_task(&f->t, "w3", task_of(iteration, "w3", 1), 0, NULL), MR_OK);
    const Millrace__ClientUpdate *update = watch_client(&f->t, "c2", iteration);

    assert_true(update->finished);
    assert_int_equal(update->end->lost_splits, 10);
    assert_int_equal(update->end->lost_workers, 1);
}

/* Whatever a leader has deleted of a life that it forgets when the next one comes. */
static void a_life_that_is_forgotten_in_order_does_not_come_again(void **state)
{
    struct fixture *f = *state;
    struct mr_command timer = {.kind = MR_COMMAND_TIMER};

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    lose(f, "w2");
    uint64_t before = 0;

    for (size_t i = 0; i < 400 && table_count(&f->t, "workers/") == 2; i++) {
        f->t.now += 4000;
        f->t.wall += 4000;
        assert_int_equal(beat_worker(&f->t, "w2"), MR_OK);
        assert_int_equal(beat_client(&f->t, "c1", f->iteration, NULL), MR_OK);
        table_step(&f->t, &timer);
        before = table_count(&f->t, "grants/");
    }
    assert_int_equal(table_count(&f->t, "workers/"), 1);
    assert_int_equal(before, 1); /* that of w2 */
    table_take_over(&f->t);
    table_wait(&f->t, 0);
    assert_int_equal(table_count(&f->t, "workers/"), 1);
}

static void what_an_unreachable_worker_has_goes_to_others(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    for (int i = 0; i < 63; i++) {
        beat_worker(&f->t, "w1");
        beat_worker(&f->t, "w2");
        beat_client(&f->t, "c1", f->iteration, "w1");
        table_wait(&f->t, 1000);
    }
    assert_null(recovery_of(f, "w1", 0));
    assert_non_null(recovery_of(f, "w2", 0));
    assert_string_equal(strstr(cursor(f), "\"pool\""),
                        "\"pool\":[{\"count\":\"10\"}]}"); /* no crash */
    table_take_over(&f->t);
    drain(f, "w2", recovery_of(f, "w2", 0), 1);
    end_task(&f->t, "w2", recovery_of(f, "w2", 0), 0, NULL);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    assert_int_equal(the_end(f)->lost_workers, 1);
    assert_int_equal(the_end(f)->repeated_splits, 10);
}

/* What it missed for the job before says nothing of what it reaches now: its new streams have a
 * minute of their own. */
static void a_client_that_moves_begins_to_miss_workers_anew(void **state)
{
    struct fixture *f = *state;
    const int64_t hundred[] = {100};

    put_dataset(&f->t, "more", FP2, hundred, 1);
    for (int i = 0; i < 80; i++) {
        if (i == 40) {
            open_at_least_once(f, "more");
        }
        beat_worker(&f->t, "w1");
        beat_worker(&f->t, "w2");
        beat_client(&f->t, "c1", f->iteration, "w1");
        table_wait(&f->t, 1000);
    }
    expect_range(&f->t, "w1", task_of(f->iteration, "w1", 1), 1, 10, 0, 10);
}

/* Out of reach of clients for long, and then dead: that it is dead is what counts, since a split
 * may have killed it. */
static void a_silent_worker_is_waited_for_until_it_is_lost(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    for (int i = 0; i < 85; i++) {
        if (i < 20) {
            beat_worker(&f->t, "w1");
        }
        beat_worker(&f->t, "w2");
        beat_client(&f->t, "c1", f->iteration, "w1");
        table_wait(&f->t, 1000);
        if (i == 70) { /* by now all readers have missed it for a minute */
            assert_null(strstr(cursor(f), "\"pool\""));
        }
    }
    assert_non_null(strstr(cursor(f), "\"pool\":[{\"count\":\"10\",\"losses\":1}]"));
}

/* It may be dead, too: then the one that is out of reach of clients, perhaps for a while, is all
 * there is. */
static void a_silent_worker_is_nobody_to_go_on(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    expect_range(&f->t, "w2", f->tasks[2], 1, 10, 10, 10);
    for (int i = 0; i < 63; i++) {
        beat_worker(&f->t, "w1");
        if (i < 20) {
            beat_worker(&f->t, "w2");
        }
        beat_client(&f->t, "c1", f->iteration, "w1");
        table_wait(&f->t, 1000);
    }
    expect_range(&f->t, "w1", f->tasks[1], 2, 10, 20, 10);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, recovery_setup, recovery_teardown)
    const struct CMUnitTest tests[] = {
        T(what_an_unreachable_worker_has_goes_to_others),
        T(a_client_that_moves_begins_to_miss_workers_anew),
        T(what_workers_have_whose_records_are_deleted_goes_to_others),
        T(and_so_does_what_recovery_tasks_have),
        T(at_most_once_what_they_had_is_counted),
        T(a_life_that_is_forgotten_in_order_does_not_come_again),
        T(a_silent_worker_is_waited_for_until_it_is_lost),
        T(a_silent_worker_is_nobody_to_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
