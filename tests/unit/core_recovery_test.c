/* At least once: what lost workers had not finished is read again. The interleavings that would lose a split, or never come to an end, one by one. */
#include "core_recovery_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the job */

static void the_feature_is_recorded_with_the_first_job(void **state)
{
    struct fixture *f = *state;

    assert_non_null(strstr(table_get(&f->t, "schema"), "\"features\":[\"at_least_once\"]"));
    assert_non_null(strstr(table_get(&f->t, "jobs/numbers"), "\"guarantee\":\"AT_LEAST_ONCE\""));
    table_take_over(&f->t);
    assert_int_equal(watch_worker(&f->t, "w1")->tasks[0]->guarantee,
                     MILLRACE__GUARANTEE__AT_LEAST_ONCE);
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

    assert_int_equal(open_job(&f->t, (struct open_args){.client = "c2",
                                                        .dataset = "numbers",
                                                        .name = "numbers",
                                                        .dynamic = true}),
                     MR_EINVAL);
    assert_string_equal(the_reply(&f->t)->error.message,
                        "job 'numbers' differs in guarantee: existing {DYNAMIC, at_least_once}, "
                        "requested {DYNAMIC, at_most_once}");
}

static void it_needs_splits_of_one_source(void **state)
{
    struct fixture *f = *state;
    static const int64_t two[] = {5, 7};
    struct open_args args = {
        .client = "c2", .dataset = "pairs", .guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE};

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

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    expect_range(&f->t, "w1", f->tasks[1], 2, 10, 10, 10);
    expect_range(&f->t, "w1", f->tasks[1], 3, 10, 20, 10);
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], "01"), MR_OK);
    lose(f, "w2");
    expect_range(&f->t, "w2", f->tasks[2], 1, 99, 0, 10); /* what came back goes first, ... */
    expect_range(&f->t, "w2", f->tasks[2], 2, 99, 20, 10);
    assert_int_equal(drain(f, "w2", f->tasks[2], 3),
                     9); /* ... 70 are left for one worker: half of it at a time */
    assert_int_equal(beat_with_report(&f->t, "w2", f->tasks[2], "111111111"), MR_OK);
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

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    expect_end(&f->t, "w1", f->tasks[1],
               2); /* although others may still be lost: buffers wait for it */
    lose(f, "w2");
    assert_null(the_end(f));
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2", 0));
    assert_string_not_equal(recovery, f->tasks[2]);
    assert_null(recovery_of(f, "w2", 1));
    assert_int_equal(table_count(&f->t, "tasks/"), 1);
    table_take_over(&f->t);
    expect_range(&f->t, "w2", recovery, 1, 99, 0, 3); /* two tasks, and ten splits */
    table_take_over(&f->t);
    last = drain(f, "w2", recovery, 2);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_null(the_end(f)); /* a task is open */
    expect_end(&f->t, "w2", recovery, last + 1);
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

    expect_range(&f->t, "w2", f->tasks[2], 1, 1, 0, 1);
    drain(f, "w1", f->tasks[1], 1);
    lose(f, "w2");
    assert_null(recovery_of(f, "w2", 0)); /* w2 has not asked again yet, so it will */
    assert_int_equal(drain(f, "w2", f->tasks[2], 2), 11); /* half at a time, and 16 at most */
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 99);
}

static void an_end_by_itself_finishes_all_grants_of_the_task(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    expect_end(&f->t, "w1", f->tasks[1], 2);
    assert_int_equal(end_task(&f->t, "w1", f->tasks[1], 0, NULL), MR_OK);
    lose(f, "w2");
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 0);
    assert_int_equal(the_end(f)->lost_workers, 0);
}

/* The only pipeline that came to its end is one whose record is gone, and nothing is owed: no
 * worker is needed any more. */
static void the_end_of_a_recovery_task_is_remembered(void **state)
{
    struct fixture *f = *state;
    char finished[64] = "", recovery[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    uint64_t last = drain(f, "w2", f->tasks[2], 1);

    lose(f, "w2");
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2", 0));
    drain(f, "w2", recovery, 1);
    memset(finished, '1', last);
    assert_int_equal(beat_with_report(&f->t, "w2", f->tasks[2], finished),
                     MR_OK); /* written at once: nothing is left */
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w2", recovery, 0, NULL), MR_OK);
    assert_null(the_end(f));
    table_take_over(&f->t);
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 0);
    assert_non_null(the_end(f));
    assert_int_equal(the_end(f)->repeated_splits, 10);
}

static void with_nobody_left_it_waits_for_the_next_worker(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
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

/* The answer to request 2 is lost; it is sent again with what was finished meanwhile. */
static void a_repeated_request_brings_newer_reports(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    expect_range(&f->t, "w1", f->tasks[1], 2, 10, 10, 10);
    table_take_over(&f->t);
    assert_int_equal(get_splits_with_report(&f->t, "w1", f->tasks[1], 0, 2, 10, "1"), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 10);
    expect_range(&f->t, "w1", f->tasks[1], 3, 10, 20, 10);
    assert_int_equal(get_splits_with_report(&f->t, "w1", f->tasks[1], 0, 1, 10, "110"),
                     MR_ERANGE); /* counts, too */
    lose(f, "w2");
    expect_range(&f->t, "w2", f->tasks[2], 1, 99, 20, 10);
    expect_range(&f->t, "w2", f->tasks[2], 2, 5, 30, 5);
}

/* Worker w1 has splits 0 to 9, and said something of its task that cannot be: others take them. */
static void expect_disowned(struct fixture *f)
{
    assert_int_equal(watch_worker(&f->t, "w1")->n_tasks, 0);
    assert_int_equal(get_splits(&f->t, "w1", f->tasks[1], 0, 2, 10), MR_EPRECOND);
    expect_range(&f->t, "w2", f->tasks[2], 1, 99, 0, 10);
    table_take_over(&f->t);
    assert_int_equal(watch_worker(&f->t, "w1")->n_tasks, 0);
    drain(f, "w2", f->tasks[2], 2);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 10);
}

/* As if it had them from a life that the records do not know. */
static void a_report_on_grants_that_were_not_given_closes_the_task(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[2], "1"),
                     MR_OK); /* somebody else's task */
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], "01"), MR_OK);
    expect_disowned(f);
}

static void one_with_a_request_does_so_too(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    assert_int_equal(get_splits_with_report(&f->t, "w1", f->tasks[1], 0, 2, 10, "01"), MR_EPRECOND);
    expect_disowned(f);
}

static void so_does_a_request_that_takes_answers_for_given_that_were_not(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    assert_int_equal(get_splits(&f->t, "w1", f->tasks[1], 0, 3, 10), MR_EPRECOND);
    expect_disowned(f);
}

static void a_late_report_of_a_lost_worker_counts_for_nothing(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    lose(f, "w2");
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], "1"), MR_ENOTFOUND);
    assert_int_equal(get_splits_with_report(&f->t, "w1", f->tasks[1], 0, 2, 10, "1"), MR_ENOTFOUND);
    add_worker(&f->t, "w1", "a:1"); /* it comes back: another life */
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], "1"), MR_OK);
    assert_int_equal(get_splits_with_report(&f->t, "w1", f->tasks[1], 0, 2, 10, "1"), MR_EPRECOND);
    expect_range(&f->t, "w2", f->tasks[2], 1, 99, 0, 10);
}

static void an_end_that_comes_after_the_loss_counts_for_nothing(void **state)
{
    struct fixture *f = *state;

    drain(f, "w1", f->tasks[1], 1);
    expect_end(&f->t, "w2", f->tasks[2], 1);
    lose(f, "w2");
    assert_int_equal(end_task(&f->t, "w1", f->tasks[1], 0, NULL), MR_ENOTFOUND);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    assert_null(the_end(f));
    assert_non_null(recovery_of(f, "w2", 0));
    drain(f, "w2", recovery_of(f, "w2", 0), 1);
    assert_int_equal(end_task(&f->t, "w2", recovery_of(f, "w2", 0), 0, NULL), MR_OK);
    assert_int_equal(the_end(f)->repeated_splits, 100);
}

/* The loss is counted by the very next request, not when a timer gets to it. */
static void the_next_request_finds_what_came_back(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    add_worker(&f->t, "w3", "a:1"); /* supersedes w1 */
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 1, 99, 0, 10);
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 2, 10, 10, 10);
    assert_int_equal(watch_client(&f->t, "c1", f->iteration)->n_tasks, 3);
}

static void who_leaves_has_not_crashed(void **state)
{
    struct fixture *f = *state;

    for (uint64_t seq = 1; seq <= 4; seq++) {
        expect_range(&f->t, "w1", f->tasks[1], seq, 10, 10 * (seq - 1), 10);
    }
    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_string_equal(cursor(f), "{\"next\":\"40\"}");
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 1, 40, 0, 40); /* all of it at once */
}

static void what_was_in_a_crash_comes_in_small_grants(void **state)
{
    struct fixture *f = *state;

    for (uint64_t seq = 1; seq <= 4; seq++) {
        expect_range(&f->t, "w1", f->tasks[1], seq, 10, 10 * (seq - 1), 10);
    }
    lose(f, "w2");
    assert_string_equal(cursor(f), "{\"next\":\"40\",\"pool\":[{\"count\":\"40\",\"losses\":1}]}");
    expect_range(&f->t, "w2", f->tasks[2], 1, 40, 0, 16);
    expect_range(&f->t, "w2", f->tasks[2], 2, 40, 16, 16);
    expect_range(&f->t, "w2", f->tasks[2], 3, 40, 32, 8);
}

/* ---------------------------------------------------------------- repetitions */

static void what_comes_back_is_given_whatever_repetition_is_asked_for(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    uint64_t last = drain(f, "w2", f->tasks[2], 1);

    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, last + 2, 5),
                     MR_OK); /* it goes on to the next one */
    assert_int_equal(splits(&f->t)->ranges[0]->first, 0);
    assert_int_equal(splits(&f->t)->ranges[0]->count, 5);
    lose(f, "w2");
    assert_null(recovery_of(f, "w2", 0)); /* it will ask again */
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, last + 3, 50), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 0); /* those of repetition 0, */
    assert_int_equal(splits(&f->t)->ranges[0]->count, 10);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, last + 4, 5), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 5); /* then the cursor goes on */
    add_worker(
        &f->t, "w3",
        "b:1"); /* w2 had all of it: of both repetitions, and some of it for the second time */
    expect_range(&f->t, "w3", task_of(f->iteration, "w3", 1), 1, 99, 10, 16);
    assert_non_null(strstr(cursor(f), "\"pool\":[{\"count\":\"10\",\"losses\":2},"
                                      "{\"first\":\"26\",\"count\":\"84\",\"losses\":1}]"));
}

/* take(n) under repeat: whoever goes on early does not want the rest, which nobody was given; what
 * was lost is owed. */
static void a_jump_drops_what_nobody_was_given_and_keeps_what_came_back(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    lose(f, "w2");
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 2, 1, 50), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 0);
    assert_int_equal(splits(&f->t)->ranges[0]->count, 10);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 2, 2, 7), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 0);
    assert_int_equal(splits(&f->t)->ranges[0]->count, 7);
    assert_string_equal(
        cursor(f),
        "{\"repetition\":\"2\",\"next\":\"7\",\"dropped\":\"190\",\"repeatedSplits\":\"10\"}");
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], UINT64_MAX / 100, 3, 7),
                     MR_EINVAL); /* has no positions */
    table_take_over(&f->t);      /* The next leader goes on where the jump led to. */
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 2, 3, 7), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 7);
    assert_int_equal(splits(&f->t)->ranges[0]->count, 7);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, 4, 7),
                     MR_OK); /* an earlier repetition is over */
    assert_true(splits(&f->t)->end);
}

static void sources_without_an_end_are_served_too(void **state)
{
    struct fixture *f = *state;
    const int64_t endless[] = {-1};

    put_dataset(&f->t, "count", FP2, endless, 1);
    open_at_least_once(f, "count");
    snprintf(f->tasks[1], sizeof f->tasks[1], "%s", task_of(f->iteration, "w1", 1));
    snprintf(f->tasks[2], sizeof f->tasks[2], "%s", task_of(f->iteration, "w2", 1));
    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    expect_range(&f->t, "w2", f->tasks[2], 1, 10, 10, 10);
    lose(f, "w2");
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 2, 10, 0, 10);
    expect_range(&f->t, "w2", f->tasks[2], 3, 10, 20, 10);
}

/* ---------------------------------------------------------------- many */

static void neighbours_are_joined_when_many_grants_are_open(void **state)
{
    struct fixture *f = *state;
    char finished[64] = "";

    for (uint64_t seq = 1; seq <= 40; seq++) { /* each other split is the other's */
        expect_range(&f->t, "w1", f->tasks[1], seq, 1, 2 * (seq - 1), 1);
        expect_range(&f->t, "w2", f->tasks[2], seq, 1, 2 * (seq - 1) + 1, 1);
    }
    table_take_over(&f->t);
    for (size_t i = 0; i < 40; i++) {
        finished[i] = i % 2 == 0 ? '0' : '1';
    }
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], finished), MR_OK);
    lose(f, "w2");
    expect_range(&f->t, "w2", f->tasks[2], 41, 1, 0, 1);
    expect_range(&f->t, "w2", f->tasks[2], 42, 1, 2,
                 1); /* finished, but not what it was joined with */
    memset(finished, '1', 42);
    assert_int_equal(beat_with_report(&f->t, "w2", f->tasks[2], finished), MR_OK);
    drain(f, "w2", f->tasks[2], 43);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    assert_true(the_end(f)->repeated_splits >= 20);
    assert_true(the_end(f)->repeated_splits <= 40);
}

/* What was joined is finished when all of it is: with the first of it something is still to be
 * done. */
static void what_was_joined_is_finished_with_its_last(void **state)
{
    struct fixture *f = *state;
    char finished[64] = "";

    for (uint64_t seq = 1; seq <= 40; seq++) {
        expect_range(&f->t, "w1", f->tasks[1], seq, 1, seq - 1, 1);
    }
    memset(finished, '1', 40);
    for (size_t i = 1; i < 16; i += 2) {
        finished[i] = '0'; /* the second of each pair; neighbours are joined from the oldest on */
    }
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], finished), MR_OK);
    lose(f, "w2");
    for (uint64_t seq = 1; seq <= 16;
         seq++) { /* pairs: what was finished comes with what was not */
        expect_range(&f->t, "w2", f->tasks[2], seq, 1, seq - 1, 1);
    }
    expect_range(&f->t, "w2", f->tasks[2], 17, 1, 40, 1);
}

static void losing_a_worker_in_a_hundred_jobs_is_one_write(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "job%d", i);
        open_job(&f->t, (struct open_args){.client = name,
                                           .dataset = "numbers",
                                           .name = name,
                                           .dynamic = true,
                                           .guarantee = 1});
        get_splits(&f->t, "w1", task_of(opened(&f->t)->iteration_id, "w1", 1), 0, 1, 4);
    }
    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 1);
    table_take_over(&f->t);
    table_wait(&f->t, 0);
    size_t counted = 0;

    for (size_t i = 0; i < f->t.count; i++) {
        counted += strncmp(f->t.keys[i], "cursors/", 8) == 0 &&
                   strstr(f->t.values[i], "\"pool\":[{\"count\":\"4\"}]");
    }
    assert_int_equal(counted, 100);
}

/* ---------------------------------------------------------------- status, takeover, memory */

static void status_shows_what_came_back(void **state)
{
    struct fixture *f = *state;
    struct mr_status_about about = {
        .cluster = "c", .incarnation = "i", .leader = "l", .version = "v"};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    const char *json;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    expect_end(&f->t, "w1", f->tasks[1], 2);
    lose(f, "w2");
    table_step(&f->t, &command);
    json = ((const Millrace__StatusReply *)the_reply(&f->t)->message)->json;
    assert_non_null(strstr(json, "\"guarantee\":\"AT_LEAST_ONCE\""));
    assert_non_null(
        strstr(json, "\"source\":\"range (step 0)\",\"returnedSplits\":\"10\",\"lossesMax\":1"));
    assert_non_null(strstr(json, "\"openSplits\":\"90\""));
    assert_non_null(
        strstr(json, "/1\",\"workerAddress\":\"b:1\",\"state\":\"open\",\"recovery\":1"));
}

static void stored_nonsense_is_refused(void **state)
{
    static const char *const bad[][2] = {
        {"cursors/%s/0",
         "{\"next\":\"10\",\"pool\":[{\"first\":\"5\",\"count\":\"6\"}]}"}, /* not handed out */
        {"cursors/%s/0",
         "{\"next\":\"10\",\"pool\":[{\"count\":\"2\"},{\"first\":\"1\",\"count\":\"2\"}]}"},
        {"cursors/%s/0", "{\"next\":\"10\",\"pool\":[{\"first\":\"1\"}]}"},
        {"grants/%s/0/W",
         "{\"seq\":\"1\",\"end\":true,\"open\":[{\"seq\":\"2\",\"ranges\":[{\"count\":\"1\"}]}]}"},
        {"grants/%s/0/W", "{\"seq\":\"1\",\"end\":true,\"open\":[{\"seq\":\"1\"}]}"},
        {"grants/%s/0/W",
         "{\"seq\":\"1\",\"end\":true,\"open\":[{\"seq\":\"1\",\"ranges\":[{\"count\":\"99\"}]}]}"},
        {"tasks/%s/W/1", "{\"recovery\":2}"},
        {"tasks/%s/W/7", "{\"recovery\":7}"},
        {"tasks/%s/W/x", "{\"recovery\":1}"},
        {"tasks/%s/W", "{\"ended\":true,\"isolated\":true}"},
        {"schema", "{\"version\":1,\"features\":[\"at_least_once\",\"exactly_once\"]}"},
    };
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mr_core_config config = {.epoch = 99};
        mr_core *core = mr_core_new(&config);
        const char *part = strstr(bad[i][0], "/W");
        char key[256];
        mr_error err = {0};
        int rc = MR_OK;

        snprintf(key, sizeof key, bad[i][0], f->iteration);
        if (part != NULL) { /* the worker's */
            snprintf(strstr(key, "/W"), 160, "%.90s%.9s", strrchr(f->tasks[1], '/'), part + 2);
        }
        for (size_t j = 0; rc == MR_OK && j < f->t.count; j++) {
            if (strcmp(f->t.keys[j], key) != 0 && strncmp(f->t.keys[j], "blobs/", 6) != 0) {
                rc = mr_core_load(core, f->t.keys[j], f->t.values[j], strlen(f->t.values[j]), &err);
            }
        }
        assert_int_equal(rc, MR_OK);
        rc = mr_core_load(core, key, bad[i][1], strlen(bad[i][1]), &err);
        if (rc == MR_OK) {
            rc = mr_core_ready(core, 0, &err);
        }
        if (rc == MR_OK && first_flaw(core) != NULL) { /* with the iteration that it belongs to */
            assert_non_null(strstr(first_flaw(core), key));
            rc = MR_EDATALOSS;
        }
        if (rc != (strcmp(key, "schema") == 0 ? MR_EPRECOND : MR_EDATALOSS)) {
            fail_msg("%s %s: %d", key, bad[i][1], rc);
        }
        mr_core_free(core);
    }
}

/* Counting a loss and opening recovery tasks, whichever allocation fails. */
static void memory_may_run_out_while_a_loss_is_counted(void **state)
{
    struct fixture *f = *state;
    bool failed = true;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    drain(f, "w2", f->tasks[2], 1);
    expect_end(&f->t, "w1", f->tasks[1], 2);
    leave(&f->t, "w1");
    for (uint64_t nth = 1; failed; nth++) {
        struct mr_command command = {
            .kind = MR_COMMAND_TIMER, .now_ms = f->t.now, .wall_ms = f->t.wall};
        struct mr_outcome out = {0};
        mr_error err = {0};

        table_take_over(&f->t);
        mr_alloc_fail_at(nth);
        int rc = mr_core_step(f->t.core, &command, &out, &err);

        mr_alloc_fail_at(0);
        failed = rc < 0;
        assert_true(failed || out.nchanges >= 3); /* iteration, cursor, recovery task */
        mr_outcome_clear(&out);
        assert_true(nth < 1000);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, recovery_setup, recovery_teardown)
    const struct CMUnitTest tests[] = {
        T(the_feature_is_recorded_with_the_first_job),
        T(who_joins_must_want_the_same_guarantee),
        T(it_needs_splits_of_one_source),
        T(what_a_lost_worker_had_not_finished_goes_to_others),
        T(after_the_end_was_told_a_recovery_task_takes_what_comes_back),
        T(one_that_was_not_told_the_end_takes_it),
        T(an_end_by_itself_finishes_all_grants_of_the_task),
        T(the_end_of_a_recovery_task_is_remembered),
        T(with_nobody_left_it_waits_for_the_next_worker),
        T(a_repeated_request_brings_newer_reports),
        T(a_report_on_grants_that_were_not_given_closes_the_task),
        T(one_with_a_request_does_so_too),
        T(so_does_a_request_that_takes_answers_for_given_that_were_not),
        T(a_late_report_of_a_lost_worker_counts_for_nothing),
        T(an_end_that_comes_after_the_loss_counts_for_nothing),
        T(the_next_request_finds_what_came_back),
        T(who_leaves_has_not_crashed),
        T(what_was_in_a_crash_comes_in_small_grants),
        T(what_comes_back_is_given_whatever_repetition_is_asked_for),
        T(a_jump_drops_what_nobody_was_given_and_keeps_what_came_back),
        T(sources_without_an_end_are_served_too),
        T(neighbours_are_joined_when_many_grants_are_open),
        T(what_was_joined_is_finished_with_its_last),
        T(losing_a_worker_in_a_hundred_jobs_is_one_write),
        T(status_shows_what_came_back),
        T(stored_nonsense_is_refused),
        T(memory_may_run_out_while_a_loss_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
