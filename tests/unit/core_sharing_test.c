/* The life of a production that several jobs use: what each is told of it, and when it goes. After
 * each step another leader takes over. */
#include "core_sharing_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- the end of it */

static void a_production_goes_with_its_last_user(void **state)
{
    struct fixture *f = *state;

    share(f);
    produce(f, "w1", 1);
    assert_int_equal(delete_job(&f->t, "a"), MR_OK);
    table_wait(&f->t, 10);
    assert_true(exists(f, "productions/", f->production));
    assert_false(record_says(f, "productions/", f->production, f->a));
    assert_true(exists(f, "iterations/", f->production));
    produce(f, "w1", 2);
    assert_true(assignment_of(f, "w1", f->production)->producing);

    assert_int_equal(delete_job(&f->t, "b"), MR_OK);
    table_wait(&f->t, 10);
    assert_int_equal(table_count(&f->t, "productions/"), 0);
    assert_int_equal(table_count(&f->t, "iterations/"), 0);
    assert_int_equal(table_count(&f->t, "cursors/"), 0);
    assert_int_equal(table_count(&f->t, "grants/"), 0);
    assert_null(assignment_of(f, "w1", f->production));
}

static void finish(struct fixture *f, const char *iteration)
{
    assert_int_equal(end_task(&f->t, "w1", task_of(iteration, "w1", 1), MR_OK, ""), MR_OK);
    assert_int_equal(end_task(&f->t, "w2", task_of(iteration, "w2", 1), MR_OK, ""), MR_OK);
    table_wait(&f->t, 0);
    assert_true(record_says(f, "iterations/", iteration, "\"finished\":true"));
}

static void who_comes_after_the_end_may_still_have_all(void **state)
{
    struct fixture *f = *state;

    open_shared(f, "numbers", "a", f->a);
    snprintf(f->production, sizeof f->production, "%s", production_of(f, f->a));
    finish(f, f->a);
    table_wait(&f->t, 50 * 1000);
    assert_true(exists(f, "productions/", f->production));
    beat_worker(&f->t, "w1");
    beat_worker(&f->t, "w2");
    open_shared(f, "numbers", "b", f->b);
    assert_true(is_joining(f, f->b));
    answer(f, "w1", f->b, 0, NULL);
    answer(f, "w2", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
    assert_string_equal(production_of(f, f->b), f->production);
}

static void what_a_job_skipped_is_in_its_end(void **state)
{
    struct fixture *f = *state;
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};
    const Millrace__ClientUpdate *update;

    share(f);
    request.incarnation = (char *)(uintptr_t)id_of("w1");
    request.task_id = (char *)(uintptr_t)task_of(f->b, "w1", 1);
    request.skipped = 7;
    table_step(&f->t, &command);
    table_take_over(&f->t);
    request.incarnation = (char *)(uintptr_t)id_of("w2");
    request.task_id = (char *)(uintptr_t)task_of(f->b, "w2", 1);
    request.skipped = 5;
    table_step(&f->t, &command);
    table_wait(&f->t, 0);
    update = watch_client(&f->t, "b", f->b);
    assert_true(update->finished);
    assert_int_equal(update->end->skipped, 12);
    assert_true(record_says(f, "iterations/", f->b, "\"skipped\":\"12\""));
}

static void a_production_that_everybody_finished_goes_with_their_records(void **state)
{
    struct fixture *f = *state;

    open_shared(f, "numbers", "a", f->a);
    finish(f, f->a);
    assert_int_equal(release_client(&f->t, "a", f->a), MR_OK);
    for (int i = 0; i < 70; i++) {
        table_wait(&f->t, 10 * 1000);
        beat_worker(&f->t, "w1");
        beat_worker(&f->t, "w2");
    }
    assert_int_equal(table_count(&f->t, "productions/"), 0);
    assert_int_equal(table_count(&f->t, "iterations/"), 0);
}

static void a_failed_user_closes_its_production(void **state)
{
    struct fixture *f = *state;

    share(f);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->a, "w1", 1), MR_EDATALOSS, "no such file"),
                     MR_OK);
    assert_true(record_says(f, "iterations/", f->a, "no such file"));
    assert_true(record_says(f, "productions/", f->production, "no such file"));
    assert_string_equal(production_of(f, f->b), f->production); /* it comes there too, or not */
    table_wait(&f->t, 0);
    open_shared(f, "numbers", "c", f->a);
    assert_false(is_joining(f, f->a));
    assert_string_not_equal(production_of(f, f->a), f->production);
    assert_true(record_says(f, "iterations/", f->a, "no such file")); /* why it did not join */

    finish(f, f->b);
    table_wait(&f->t, 0);
    assert_false(
        exists(f, "productions/", f->production)); /* nobody may join it, so nobody needs it */
    assert_true(exists(f, "iterations/", f->b));
    table_take_over(&f->t);
}

static void tasks_that_make_or_join_do_not_end_by_themselves(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->production, "w1", 1), MR_OK, ""),
                     MR_EPRECOND);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->production, "w1", 1), MR_EUNKNOWN, "no"),
                     MR_EPRECOND);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->b, "w1", 1), MR_OK, ""), MR_EPRECOND);
    assert_true(is_joining(f, f->b));
}

static void each_user_hears_what_it_cannot_have(void **state)
{
    struct fixture *f = *state;
    const Millrace__ClientUpdate *update;
    uint64_t lost;

    share(f);
    produce(f, "w2", 1);
    lost = splits(&f->t)->ranges[0]->count;
    assert_int_equal(end_task(&f->t, "w2", task_of(f->a, "w2", 1), MR_OK, ""),
                     MR_OK); /* a had all of w2 */
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 0);
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->a, "w1", 1), MR_OK, ""), MR_OK);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->b, "w1", 1), MR_OK, ""), MR_OK);
    table_wait(&f->t, 0);
    update = watch_client(&f->t, "a", f->a);
    assert_true(update->finished);
    assert_int_equal(update->end->lost_splits, 0);
    assert_int_equal(update->end->lost_workers, 0);
    update = watch_client(&f->t, "b", f->b);
    assert_int_equal(update->end->lost_splits, lost);
    assert_int_equal(update->end->lost_elements, 1000 * lost);
    assert_int_equal(update->end->lost_workers, 1);
}

/* ---------------------------------------------------------------- failover in the middle of
 * everything */

static void another_leader_goes_on_wherever_it_was(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    produce(f, "w1", 1);
    answer(f, "w1", f->b, 0, NULL);
    table_take_over(&f->t); /* answers are soft */
    assert_true(is_joining(f, f->b));
    answer(f, "w2", f->b, 0, NULL);
    assert_true(is_joining(f, f->b));
    answer(f, "w1", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
    table_take_over(&f->t);
    assert_false(is_joining(f, f->b));
    assert_string_equal(production_of(f, f->b), f->production);
    assert_true(assignment_of(f, "w2", f->production)->producing);
    produce(f, "w1", 2);
    finish(f, f->a);
    table_take_over(&f->t);
    assert_true(exists(f, "productions/", f->production));
    assert_true(record_says(f, "productions/", f->production, f->a));
    finish(f, f->b);
    assert_int_equal(release_client(&f->t, "a", f->a), MR_OK);
    assert_int_equal(release_client(&f->t, "b", f->b), MR_OK);
    assert_int_equal(delete_job(&f->t, "b"), MR_OK);
    table_take_over(&f->t); /* the job is gone, its iteration is not */
    table_wait(&f->t, 0);
    assert_true(exists(f, "productions/", f->production));
    assert_int_equal(delete_job(&f->t, "a"), MR_OK);
    table_take_over(&f->t); /* nobody uses the production any more, and it is there */
    table_wait(&f->t, 10);
    assert_int_equal(table_count(&f->t, "productions/") + table_count(&f->t, "iterations/"), 0);
    assert_int_equal(table_count(&f->t, "grants/") + table_count(&f->t, "cursors/"), 0);
}

static void a_leader_that_never_hears_an_answer_decides_too(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    table_take_over(&f->t);
    assert_true(is_joining(f, f->b));
    table_wait(&f->t, 10100);
    expect_apart(f, "did not say");
    table_take_over(&f->t);
    expect_apart(f, "did not say");
}

static int take_over_with(struct fixture *f, const char *key, const char *value, mr_error *err)
{
    struct mr_core_config config = {.epoch = 900};
    mr_core *core = mr_core_new(&config);
    int rc = MR_OK;

    for (size_t i = 0; i < f->t.count && rc == MR_OK; i++) {
        const char *v = strcmp(f->t.keys[i], key) == 0 ? value : f->t.values[i];

        if (strncmp(f->t.keys[i], "blobs/", 6) == 0) {
            rc = mr_core_load_blob(core, f->t.keys[i], err);
        } else if (v != NULL) {
            rc = mr_core_load(core, f->t.keys[i], v, strlen(v), err);
        }
    }
    rc = rc == MR_OK ? mr_core_ready(core, 0, err) : rc;
    if (rc == MR_OK && first_flaw(core) != NULL) { /* the jobs that rest on it are set aside */
        rc = mr_error_set(err, MR_EDATALOSS, "%s", first_flaw(core));
    }
    mr_core_free(core);
    return rc;
}

static void a_state_that_contradicts_itself_is_named(void **state)
{
    struct fixture *f = *state;
    char key[128], value[256];
    mr_error err;

    open_shared(f, "numbers", "a", f->a);
    snprintf(f->production, sizeof f->production, "%s", production_of(f, f->a));
    snprintf(key, sizeof key, "productions/%s", f->production);
    assert_int_equal(take_over_with(f, "none", NULL, &err), MR_OK);
    assert_int_equal(take_over_with(f, key, NULL, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, key));
    snprintf(value, sizeof value,
             "{\"id\":\"%s\",\"fingerprint\":\"%s\",\"datasetId\":\"numbers\",\"mode\":"
             "\"PROCESSING_DYNAMIC\"}",
             f->production, FP1);
    assert_int_equal(take_over_with(f, key, value, &err),
                     MR_OK); /* does not list its user, who says so */
    snprintf(value, sizeof value,
             "{\"id\":\"%s\",\"fingerprint\":\"%s\",\"datasetId\":\"numbers\"}", f->production,
             FP2);
    assert_int_equal(take_over_with(f, key, value, &err), MR_EDATALOSS); /* another content */
    snprintf(key, sizeof key, "iterations/%s", f->production);
    assert_int_equal(take_over_with(f, key, NULL, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "hidden"));
    assert_int_equal(take_over_with(f, "schema", "{\"version\":1,\"minReader\":1}", &err),
                     MR_EDATALOSS);
}

/* ---------------------------------------------------------------- who may read on */

static void readers_without_clients_hold_nobody_up(void **state)
{
    struct fixture *f = *state;

    share(f);
    assert_int_equal(release_client(&f->t, "b", f->b), MR_OK);
    const Millrace__WorkerUpdate *update =
        (const Millrace__WorkerUpdate *)the_push(&f->t, MR_EFFECT_PUSH_WORKER, id_of("w1"));

    assert_int_equal(update->n_tasks, 1);
    assert_true(update->tasks[0]->unread);
    assert_false(assignment_of(f, "w1", f->a)->unread);
    assert_int_equal(
        open_job(&f->t, (struct open_args){.client = "b2",
                                           .dataset = "numbers",
                                           .name = "b",
                                           .dynamic = true,
                                           .sharing = MILLRACE__SHARING__SHARING_AUTO}),
        MR_OK);
    assert_string_equal(opened(&f->t)->iteration_id, f->b);
    assert_false(assignment_of(f, "w1", f->b)->unread);
}

/* Its clients have all there is and wait; that is no pipeline that hangs. */
static void who_waits_for_a_slow_one_is_not_stuck(void **state)
{
    struct fixture *f = *state;
    Millrace__TaskProgress reading = MILLRACE__TASK_PROGRESS__INIT,
                           producing = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__WindowProgress window = MILLRACE__WINDOW_PROGRESS__INIT;
    char task[2][128];

    table_close(&f->t);
    table_open(&f->t, &(struct mr_core_config){.task_timeout_ms = 5000});
    assert_int_equal(put_endless_dataset(&f->t, "endless", FP2), MR_OK);
    add_worker(&f->t, "w1", "a:1");
    add_worker(&f->t, "w2", "b:1");
    open_shared(f, "endless", "a", f->a);
    snprintf(task[0], sizeof task[0], "%s", task_of(f->a, "w1", 1));
    snprintf(task[1], sizeof task[1], "%s", task_of(production_of(f, f->a), "w1", 1));
    reading.task_id = task[0];
    reading.sessions = 1;
    reading.produced = reading.delivered = 9;
    producing.task_id = task[1];
    producing.window = &window;
    window.held = true;
    for (int held = 1; held >= 0; held--) {
        window.held = held != 0;
        for (int i = 0; i < 8; i++) {
            assert_int_equal(beat_with_progress(&f->t, "w1", &producing), MR_OK);
            assert_int_equal(beat_with_progress(&f->t, "w1", &reading), MR_OK);
            table_wait(&f->t, 1000);
        }
        assert_int_equal(assignment_of(f, "w1", f->a) != NULL, held != 0);
    }
}

static void lag_is_of_the_job(void **state)
{
    struct fixture *f = *state;
    struct open_args args = {.client = "a",
                             .dataset = "numbers",
                             .name = "a",
                             .dynamic = true,
                             .sharing = MILLRACE__SHARING__SHARING_AUTO,
                             .lag = MILLRACE__LAG__LAG_WAIT};

    assert_int_equal(open_job(&f->t, args), MR_OK);
    snprintf(f->a, sizeof f->a, "%s", opened(&f->t)->iteration_id);
    assert_int_equal(assignment_of(f, "w1", f->a)->lag, MILLRACE__LAG__LAG_WAIT);
    args.client = "a2";
    args.lag = MILLRACE__LAG__LAG_SKIP;
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
    assert_non_null(strstr(the_reply(&f->t)->error.message, "lag"));
    open_shared(f, "numbers", "b", f->b); /* another job may choose otherwise */
    assert_true(is_joining(f, f->b));
}

/* ---------------------------------------------------------------- nobody else is left */

/* For a minute and more: readers of job a do not reach w1, w2 is heard of or not. */
static void miss_w1(struct fixture *f, bool w2_lives)
{
    for (int i = 0; i < 63; i++) {
        assert_int_equal(beat_worker(&f->t, "w1"), MR_OK);
        if (w2_lives) {
            assert_int_equal(beat_worker(&f->t, "w2"), MR_OK);
        }
        assert_int_equal(beat_client(&f->t, "a", f->a, "w1"), MR_OK);
        table_wait(&f->t, 1000);
    }
}

/* What job a's task @task on w1 says of elements that nobody gets. */
static void say_of_w1(struct fixture *f, const char *task, uint64_t skipped, uint64_t abandoned)
{
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;

    progress.task_id = (char *)(uintptr_t)task;
    progress.skipped = skipped;
    progress.abandoned = abandoned;
    assert_int_equal(beat_with_progress(&f->t, "w1", &progress), MR_OK);
}

/* Job a's task on w1, which had said that of elements that nobody gets, was closed, since no reader
 * reached it, when w1 had 10 splits. Then it got 10 more, and w2, which had 10, died. */
static void leave_w1_alone_after(struct fixture *f, uint64_t skipped, uint64_t abandoned)
{
    char task[128];

    open_shared(f, "numbers", "a", f->a);
    snprintf(task, sizeof task, "%s", task_of(f->a, "w1", 1));
    say_of_w1(f, task, skipped, abandoned);
    snprintf(f->production, sizeof f->production, "%s", production_of(f, f->a));
    produce(f, "w1", 1);
    produce(f, "w2", 1);
    miss_w1(f, true);
    assert_null(assignment_of(f, "w1", f->a));
    produce(f, "w1", 2);
    miss_w1(f, false);
    assert_int_equal(beat_worker(&f->t, "w2"), MR_ENOTFOUND);
    assert_null(assignment_of(f, "w1", f->a));
    assert_non_null(assignment_of(f, "w1", f->production));
}

static void leave_w1_alone(struct fixture *f)
{
    leave_w1_alone_after(f, 0, 0);
}

/* w1 can be reached again: its new task. */
static void reach_w1(struct fixture *f, char task[128])
{
    assert_int_equal(beat_client(&f->t, "a", f->a, NULL), MR_OK);
    table_wait(&f->t, 0);
    assert_non_null(assignment_of(f, "w1", f->a));
    snprintf(task, 128, "%s", assignment_of(f, "w1", f->a)->task_id);
}

static int end_reading(struct fixture *f, const char *task, uint64_t skipped, uint64_t abandoned)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};

    request.incarnation = (char *)(uintptr_t)id_of("w1");
    request.task_id = (char *)(uintptr_t)task;
    request.skipped = skipped;
    request.abandoned = abandoned;
    table_step(&f->t, &command);
    return the_reply(&f->t)->error.code;
}

static void the_last_worker_goes_on_in_its_window(void **state)
{
    struct fixture *f = *state;
    char task[128];

    leave_w1_alone(f);
    reach_w1(f, task);
    assert_string_equal(task + strlen(task) - 2, "/1");
    assert_string_equal(assignment_of(f, "w1", f->a)->production, f->production);
    assert_false(assignment_of(f, "w1", f->a)->producing);
    assert_int_equal(watch_worker(&f->t, "w1")->n_tasks, 2); /* one reader, and who makes it */
    table_take_over(&f->t);
    assert_string_equal(assignment_of(f, "w1", f->a)->task_id, task);
    produce(f, "w1", 3);

    assert_int_equal(end_reading(f, task, 3, 2), MR_OK);
    table_wait(&f->t, 0);
    const Millrace__ClientUpdate *update = watch_client(&f->t, "a", f->a);
    assert_true(update->finished);
    assert_int_equal(update->end->skipped, 3);
    assert_int_equal(update->end->abandoned, 2);
    assert_int_equal(update->end->lost_splits, 10 + 10);
    assert_int_equal(update->end->lost_workers, 2);
}

/* What was counted when its first task was closed is not counted again. */
static void what_goes_with_it_then_is_counted_once(void **state)
{
    struct fixture *f = *state;
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    char task[128];

    leave_w1_alone(f);
    reach_w1(f, task);
    progress.task_id = task;
    progress.skipped = 3;
    progress.abandoned = 2;
    assert_int_equal(beat_with_progress(&f->t, "w1", &progress), MR_OK);
    for (int i = 0; i < 63; i++) {
        assert_int_equal(beat_client(&f->t, "a", f->a, NULL), MR_OK);
        table_wait(&f->t, 1000);
    }
    assert_int_equal(beat_worker(&f->t, "w1"), MR_ENOTFOUND);
    table_take_over(&f->t);
    add_worker(&f->t, "w3", "c:1");
    assert_int_equal(end_task(&f->t, "w3", task_of(f->a, "w3", 1), MR_OK, ""), MR_OK);
    table_wait(&f->t, 0);
    const Millrace__ClientUpdate *update = watch_client(&f->t, "a", f->a);
    assert_true(update->finished);
    assert_int_equal(update->end->lost_splits, 20 + 10);
    assert_int_equal(update->end->skipped, 3);
    assert_int_equal(update->end->abandoned, 2);
}

static void expect_missed(struct fixture *f, uint64_t skipped, uint64_t abandoned)
{
    table_wait(&f->t, 0);
    const Millrace__ClientUpdate *update = watch_client(&f->t, "a", f->a);

    assert_true(update->finished);
    assert_int_equal(update->end->skipped, skipped);
    assert_int_equal(update->end->abandoned, abandoned);
}

/* Its worker says it no more, and the next leader has not heard it. */
static void what_a_closed_reader_missed_is_counted_under_the_next_leader(void **state)
{
    struct fixture *f = *state;
    char task[128];

    open_shared(f, "numbers", "a", f->a);
    snprintf(task, sizeof task, "%s", task_of(f->a, "w1", 1));
    say_of_w1(f, task, 3, 2);
    miss_w1(f, true);
    assert_null(assignment_of(f, "w1", f->a));
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w2", task_of(f->a, "w2", 1), MR_OK, ""), MR_OK);
    expect_missed(f, 3, 2);
}

/* The second says what the first did, too, and has come to know more: they are not two counts. So
 * does the third. */
static void readers_one_after_another_are_counted_once(void **state)
{
    struct fixture *f = *state;
    char second[128], third[128];

    leave_w1_alone_after(f, 3, 2);
    reach_w1(f, second);
    say_of_w1(f, second, 5, 2);
    add_worker(&f->t, "w2", "b:1");
    miss_w1(f, true); /* and so the second is closed */
    table_take_over(&f->t);
    miss_w1(f, false);
    reach_w1(f, third);
    assert_string_equal(third + strlen(third) - 2, "/2");
    assert_int_equal(end_reading(f, third, 6, 7), MR_OK);
    expect_missed(f, 6, 7);
}

/* Out of reach once more, while another worker is there to go on. */
static void it_may_be_closed_once_more(void **state)
{
    struct fixture *f = *state;
    char task[128];

    leave_w1_alone(f);
    reach_w1(f, task);
    produce(f, "w1", 3);
    add_worker(&f->t, "w2", "b:1");
    miss_w1(f, true);
    assert_null(assignment_of(f, "w1", f->a));
    table_take_over(&f->t);
    miss_w1(f, false); /* w2 dies again */
    assert_null(assignment_of(f, "w1", f->a));
    reach_w1(f, task);
    assert_string_equal(task + strlen(task) - 2, "/2");
    assert_int_equal(end_reading(f, task, 0, 0), MR_OK);
    table_wait(&f->t, 0);
    const Millrace__ClientUpdate *update = watch_client(&f->t, "a", f->a);
    assert_true(update->finished);
    assert_int_equal(update->end->lost_splits, 30 + 10);
}

/* Nothing came of what it makes, which is why its reader was closed: there is nothing to go on
 * with. */
static void nobody_goes_on_where_the_pipeline_hangs(void **state)
{
    struct fixture *f = *state;
    Millrace__TaskProgress reading = MILLRACE__TASK_PROGRESS__INIT,
                           producing = MILLRACE__TASK_PROGRESS__INIT;
    char task[2][128];

    table_close(&f->t);
    table_open(&f->t, &(struct mr_core_config){.task_timeout_ms = 5000});
    assert_int_equal(put_endless_dataset(&f->t, "endless", FP2), MR_OK);
    add_worker(&f->t, "w1", "a:1");
    open_shared(f, "endless", "a", f->a);
    snprintf(task[0], sizeof task[0], "%s", task_of(f->a, "w1", 1));
    snprintf(task[1], sizeof task[1], "%s", task_of(production_of(f, f->a), "w1", 1));
    reading.task_id = task[0];
    reading.sessions = 1;
    producing.task_id = task[1];
    for (int i = 0; i < 8; i++) {
        assert_int_equal(beat_with_progress(&f->t, "w1", &producing), MR_OK);
        assert_int_equal(beat_with_progress(&f->t, "w1", &reading), MR_OK);
        table_wait(&f->t, 1000);
    }
    assert_null(assignment_of(f, "w1", f->a));
    producing.produced = 1; /* it goes on */
    assert_int_equal(beat_with_progress(&f->t, "w1", &producing), MR_OK);
    reach_w1(f, task[0]);
}

/* ---------------------------------------------------------------- what people see */

static void status_shows_who_missed_what(void **state)
{
    struct fixture *f = *state;
    static const struct mr_status_about about = {
        .cluster = "c", .incarnation = "i", .leader = "l", .version = "v", .dispatchers = NULL};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__WindowProgress window = MILLRACE__WINDOW_PROGRESS__INIT;
    const char *json;
    char expected[200];

    share(f);
    progress.task_id = (char *)(uintptr_t)task_of(f->b, "w1", 1);
    progress.skipped = 4711;
    assert_int_equal(beat_with_progress(&f->t, "w1", &progress), MR_OK);
    progress = (Millrace__TaskProgress)MILLRACE__TASK_PROGRESS__INIT;
    progress.task_id = (char *)(uintptr_t)task_of(f->production, "w1", 1);
    progress.window = &window;
    window.first = 100;
    window.end = 300;
    window.degraded = (char *)(uintptr_t) "disk full";
    assert_int_equal(beat_with_progress(&f->t, "w1", &progress), MR_OK);
    table_step(&f->t, &command);
    json = ((const Millrace__StatusReply *)the_reply(&f->t)->message)->json;
    assert_non_null(strstr(json, "\"productions\":[{\"id\""));
    assert_non_null(strstr(json, "\"degraded\":\"disk full\""));
    snprintf(expected, sizeof expected, "\"iterationId\":\"%s\",\"skipped\":\"4711\"", f->b);
    assert_non_null(strstr(json, expected));
}

static void datasets_of_productions_stay(void **state)
{
    struct fixture *f = *state;
    static const int64_t hundred[] = {100};
    Millrace__DeleteDatasetRequest request = MILLRACE__DELETE_DATASET_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DELETE_DATASET, .delete_dataset = &request};

    share(f);
    assert_int_equal(put_dataset(&f->t, "alias", FP1, hundred, 1), MR_OK);
    open_shared(f, "alias", "c", f->a);
    answer(f, "w1", f->a, 0, NULL);
    answer(f, "w2", f->a, 0, NULL);
    table_wait(&f->t, 0);
    assert_int_equal(delete_job(&f->t, "a"), MR_OK);
    assert_int_equal(delete_job(&f->t, "b"), MR_OK);
    table_wait(&f->t, 0);
    request.dataset_id = (char *)(uintptr_t) "numbers"; /* of no job, but what workers run for c */
    table_step(&f->t, &command);
    assert_int_equal(the_reply(&f->t)->error.code, MR_EPRECOND);
    assert_int_equal(delete_job(&f->t, "c"), MR_OK);
    table_wait(&f->t, 0);
    table_step(&f->t, &command);
    assert_int_equal(the_reply(&f->t)->error.code, MR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sharing_setup, sharing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_production_goes_with_its_last_user),
        TEST(who_comes_after_the_end_may_still_have_all),
        TEST(what_a_job_skipped_is_in_its_end),
        TEST(a_production_that_everybody_finished_goes_with_their_records),
        TEST(a_failed_user_closes_its_production),
        TEST(tasks_that_make_or_join_do_not_end_by_themselves),
        TEST(each_user_hears_what_it_cannot_have),
        TEST(another_leader_goes_on_wherever_it_was),
        TEST(a_leader_that_never_hears_an_answer_decides_too),
        TEST(a_state_that_contradicts_itself_is_named),
        TEST(readers_without_clients_hold_nobody_up),
        TEST(who_waits_for_a_slow_one_is_not_stuck),
        TEST(lag_is_of_the_job),
        TEST(the_last_worker_goes_on_in_its_window),
        TEST(what_goes_with_it_then_is_counted_once),
        TEST(what_a_closed_reader_missed_is_counted_under_the_next_leader),
        TEST(readers_one_after_another_are_counted_once),
        TEST(it_may_be_closed_once_more),
        TEST(nobody_goes_on_where_the_pipeline_hangs),
        TEST(status_shows_who_missed_what),
        TEST(datasets_of_productions_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
