/*
 * At least once: what lost workers had not finished is read again. The interleavings that would lose a split, or never
 * come to an end, one by one.
 */
#include "core_support.h"

#include "base/alloc.h"

#include <millrace/dataset.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char FP1[] = "00000000000000000000000000000001";
static const char FP2[] = "00000000000000000000000000000002";

struct fixture {
    struct table t;
    char iteration[64];
    char tasks[8][160]; /* of the workers in the test */
};

static void open_at_least_once(struct fixture *f, const char *dataset)
{
    assert_int_equal(open_job(&f->t, (struct open_args){.client = "c1",
                                                        .dataset = dataset,
                                                        .name = dataset,
                                                        .dynamic = true,
                                                        .guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE}),
                     MR_OK);
    snprintf(f->iteration, sizeof f->iteration, "%s", opened(&f->t)->iteration_id);
}

/* Workers w1 and w2, and a job over 100 splits. */
static int setup(void **state)
{
    static const int64_t hundred[] = {100};
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open(&f->t, NULL);
    *state = f;
    assert_int_equal(put_dataset(&f->t, "numbers", FP1, hundred, 1), MR_OK);
    add_worker(&f->t, "w1", "a:1");
    add_worker(&f->t, "w2", "b:1");
    open_at_least_once(f, "numbers");
    snprintf(f->tasks[1], sizeof f->tasks[1], "%s", task_of(f->iteration, "w1", 1));
    snprintf(f->tasks[2], sizeof f->tasks[2], "%s", task_of(f->iteration, "w2", 1));
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

static void lose(struct fixture *f, const char *survivor)
{
    const char *const others[] = {survivor, NULL};

    fall_silent(&f->t, "c1", f->iteration, survivor != NULL ? others : others + 1);
}

/* The answer that @worker gets to request @seq of repetition 0. */
static void expect_range(struct fixture *f, const char *worker, const char *task, uint64_t seq, uint64_t want,
                         uint64_t first, uint64_t count)
{
    assert_int_equal(get_splits(&f->t, worker, task, 0, seq, want), MR_OK);
    assert_false(splits(&f->t)->end);
    assert_int_equal(splits(&f->t)->ranges[0]->first, first);
    assert_int_equal(splits(&f->t)->ranges[0]->count, count);
}

static void expect_end(struct fixture *f, const char *worker, const char *task, uint64_t seq)
{
    assert_int_equal(get_splits(&f->t, worker, task, 0, seq, 0), MR_OK);
    assert_true(splits(&f->t)->end);
}

/* All that is left of the repetition to @worker, from request @seq on; returns the number of the last grant. */
static uint64_t drain(struct fixture *f, const char *worker, const char *task, uint64_t seq)
{
    for (;; seq++) {
        assert_int_equal(get_splits(&f->t, worker, task, 0, seq, 1000), MR_OK);
        if (splits(&f->t)->end) {
            return seq - 1;
        }
    }
}

/* The id of the n-th task of @worker that is none of @f->tasks, or NULL. */
static const char *recovery_of(struct fixture *f, const char *worker, size_t n)
{
    static char id[160];
    const Millrace__WorkerUpdate *update;

    table_wait(&f->t, 0); /* what earlier steps left is done by the timer */
    update = watch_worker(&f->t, worker);
    for (size_t i = 0; i < update->n_tasks; i++) {
        const Millrace__TaskAssignment *a = update->tasks[i];
        size_t plain = strlen(a->iteration_id) + 1 + 32 + 2;

        assert_int_equal(a->guarantee, MILLRACE__GUARANTEE__AT_LEAST_ONCE);
        if (strlen(a->task_id) > plain && n-- == 0) {
            snprintf(id, sizeof id, "%s", a->task_id);
            return id;
        }
    }
    return NULL;
}

static const Millrace__IterationEnd *the_end(struct fixture *f)
{
    const Millrace__ClientUpdate *update = watch_client(&f->t, "c1", f->iteration);

    return update->finished ? update->end : NULL;
}

static const char *cursor(struct fixture *f)
{
    char key[128];

    snprintf(key, sizeof key, "cursors/%s/0", f->iteration);
    return table_get(&f->t, key);
}

/* ---------------------------------------------------------------- the job */

static void the_feature_is_recorded_with_the_first_job(void **state)
{
    struct fixture *f = *state;

    assert_non_null(strstr(table_get(&f->t, "schema"), "\"features\":[\"at_least_once\"]"));
    assert_non_null(strstr(table_get(&f->t, "jobs/numbers"), "\"guarantee\":\"AT_LEAST_ONCE\""));
    table_take_over(&f->t);
    assert_int_equal(watch_worker(&f->t, "w1")->tasks[0]->guarantee, MILLRACE__GUARANTEE__AT_LEAST_ONCE);
    open_job(&f->t, (struct open_args){.client = "c2",
                                       .dataset = "numbers",
                                       .name = "other",
                                       .dynamic = true,
                                       .guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE});
    assert_int_equal(f->t.out.nchanges, 3); /* not recorded again: job, iteration, client */
}

static void who_joins_must_want_the_same_guarantee(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        open_job(&f->t, (struct open_args){.client = "c2", .dataset = "numbers", .name = "numbers", .dynamic = true}),
        MR_EINVAL);
    assert_string_equal(the_reply(&f->t)->error.message,
                        "job 'numbers' differs in guarantee: existing {DYNAMIC, at_least_once}, requested {DYNAMIC, "
                        "at_most_once}");
}

static void it_needs_splits_of_one_source(void **state)
{
    struct fixture *f = *state;
    static const int64_t two[] = {5, 7};
    struct open_args args = {.client = "c2", .dataset = "pairs", .guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE};

    put_dataset(&f->t, "pairs", FP2, two, 2);
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
    assert_non_null(strstr(the_reply(&f->t)->error.message, "needs DYNAMIC"));
    args.dynamic = true;
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
    assert_non_null(strstr(the_reply(&f->t)->error.message, "(range (step 0), tfrecord (step 3))"));
}

/* ---------------------------------------------------------------- losses */

static void what_a_lost_worker_had_not_finished_goes_to_others(void **state)
{
    struct fixture *f = *state;

    expect_range(f, "w1", f->tasks[1], 1, 10, 0, 10);
    expect_range(f, "w1", f->tasks[1], 2, 10, 10, 10);
    expect_range(f, "w1", f->tasks[1], 3, 10, 20, 10);
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], 2, 2), MR_OK);
    lose(f, "w2");
    expect_range(f, "w2", f->tasks[2], 1, 99, 0, 10); /* what came back goes first, ... */
    expect_range(f, "w2", f->tasks[2], 2, 99, 20, 10);
    assert_int_equal(drain(f, "w2", f->tasks[2], 3), 9); /* ... 70 are left for one worker: half of it at a time */
    assert_int_equal(beat_with_report(&f->t, "w2", f->tasks[2], 1, 9), MR_OK);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 20);
    assert_int_equal(the_end(f)->lost_splits, 0);
}

/* Both wait in their buffers until they are told the end, and after that one of them is lost. */
static void after_the_end_was_told_a_recovery_task_takes_what_comes_back(void **state)
{
    struct fixture *f = *state;
    char recovery[160];
    uint64_t last;

    expect_range(f, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    expect_end(f, "w1", f->tasks[1], 2); /* although others may still be lost: buffers wait for it */
    lose(f, "w2");
    assert_null(the_end(f));
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2", 0));
    assert_string_not_equal(recovery, f->tasks[2]);
    assert_null(recovery_of(f, "w2", 1));
    assert_int_equal(table_count(&f->t, "tasks/"), 1);
    table_take_over(&f->t);
    expect_range(f, "w2", recovery, 1, 99, 0, 3); /* two tasks, and ten splits */
    table_take_over(&f->t);
    last = drain(f, "w2", recovery, 2);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_null(the_end(f)); /* a task is open */
    expect_end(f, "w2", recovery, last + 1);
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w2", recovery, 0, NULL), MR_OK);
    const Millrace__IterationEnd *end = the_end(f);

    assert_non_null(end);
    assert_int_equal(end->lost_workers, 1);
    assert_int_equal(end->lost_splits, 0);
    assert_int_equal(end->repeated_splits, 10);
    table_wait(&f->t, 0);
    assert_int_equal(table_count(&f->t, "tasks/"), 0);
    assert_int_equal(table_count(&f->t, "grants/"), 0);
}

static void one_that_was_not_told_the_end_takes_it(void **state)
{
    struct fixture *f = *state;

    expect_range(f, "w2", f->tasks[2], 1, 1, 0, 1);
    drain(f, "w1", f->tasks[1], 1);
    lose(f, "w2");
    assert_null(recovery_of(f, "w2", 0));                 /* w2 has not asked again yet, so it will */
    assert_int_equal(drain(f, "w2", f->tasks[2], 2), 11); /* half at a time, and 16 at most */
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 99);
}

static void an_end_by_itself_finishes_all_grants_of_the_task(void **state)
{
    struct fixture *f = *state;

    expect_range(f, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    expect_end(f, "w1", f->tasks[1], 2);
    assert_int_equal(end_task(&f->t, "w1", f->tasks[1], 0, NULL), MR_OK);
    lose(f, "w2");
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 0);
    assert_int_equal(the_end(f)->lost_workers, 0);
}

static void with_nobody_left_it_waits_for_the_next_worker(void **state)
{
    struct fixture *f = *state;

    expect_range(f, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    lose(f, NULL);
    lose(f, NULL);
    assert_null(the_end(f));
    add_worker(&f->t, "w3", "c:1");
    assert_null(recovery_of(f, "w3", 0)); /* its own task takes all of it */
    drain(f, "w3", task_of(f->iteration, "w3", 1), 1);
    assert_string_equal(cursor(f), "{\"repetition\":\"1\",\"repeatedSplits\":\"100\"}");
    assert_int_equal(end_task(&f->t, "w3", task_of(f->iteration, "w3", 1), 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->lost_workers, 2);
    assert_int_equal(the_end(f)->repeated_splits, 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_feature_is_recorded_with_the_first_job),
        T(who_joins_must_want_the_same_guarantee),
        T(it_needs_splits_of_one_source),
        T(what_a_lost_worker_had_not_finished_goes_to_others),
        T(after_the_end_was_told_a_recovery_task_takes_what_comes_back),
        T(one_that_was_not_told_the_end_takes_it),
        T(an_end_by_itself_finishes_all_grants_of_the_task),
        T(with_nobody_left_it_waits_for_the_next_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
