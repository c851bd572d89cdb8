/* What time does to clients, workers, iterations and jobs, and who is only said to be there. */
#include "core_support.h"

#include "base/buf.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void an_iteration_whose_workers_are_all_lost_waits(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep_id(iteration, opened(t)->iteration_id);
    for (int i = 0; i < 70; i++) {
        table_wait(t, 1000);
        assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
    }
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
    assert_false(watch_client(t, "c1", iteration)->finished);
    add_worker(t, "w2", "b:1");
    end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL);
    assert_true(watch_client(t, "c1", iteration)->finished);
}

static void a_leader_that_heard_nobody_gives_one_more_grace(void **state)
{
    struct table *t = *state;
    char name[8], address[8];

    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "w%d", i);
        snprintf(address, sizeof address, "a:%d", i + 1);
        add_worker(t, name, address);
    }
    table_wait(t, 62000);
    assert_int_equal(beat_worker(t, "w0"), MR_OK);
    table_wait(t, 61000);
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
}

static void time_stands_still_while_the_loop_does(void **state)
{
    struct table *t = *state;
    struct mr_command timer = {.kind = MR_COMMAND_TIMER, .late_ms = 90000};

    add_worker(t, "w1", "a:1");
    t->now += 90000;
    table_step(t, &timer);
    assert_int_equal(beat_worker(t, "w1"), MR_OK);
    assert_true(mr_core_next_timer(t->core) > t->now);
    table_wait(t, 62000);
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
}

static void a_silent_client_is_released_and_its_workers_hear_of_it(void **state)
{
    struct table *t = *state;
    char iteration[64], job[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep_id(iteration, opened(t)->iteration_id);
    keep_id(job, opened(t)->job_id);
    for (int i = 0; i < 122; i++) {
        table_wait(t, 1000);
        beat_worker(t, "w1");
    }
    assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_ENOTFOUND);
    table_take_over(t);
    const Millrace__WorkerUpdate *update = watch_worker(t, "w1");

    assert_int_equal(update->n_released_clients, 1);
    assert_string_equal(update->released_clients[0], id_of("c1"));
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .job_id = job}),
                     MR_OK);
    assert_string_equal(opened(t)->iteration_id, iteration);
    assert_int_equal(watch_worker(t, "w1")->n_released_clients, 0);
}

static void nobody_is_given_up_right_after_a_takeover(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep_id(iteration, opened(t)->iteration_id);
    table_wait(t, 55000);
    table_take_over(t);
    table_wait(t, 55000);
    assert_int_equal(beat_worker(t, "w1"), MR_OK);
    assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
}

static void an_unread_iteration_is_collected_unless_dynamic(void **state)
{
    struct table *t = *state;
    char off[64], dynamic[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "off"});
    keep_id(off, opened(t)->iteration_id);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "dynamic", .dynamic = true});
    keep_id(dynamic, opened(t)->iteration_id);
    release_client(t, "c1", off);
    release_client(t, "c2", dynamic);
    for (int i = 0; i < 302; i++) {
        table_wait(t, 1000);
        beat_worker(t, "w1");
    }
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    open_job(t, (struct open_args){.client = "c3", .dataset = "numbers", .name = "off"});
    assert_string_not_equal(opened(t)->iteration_id, off);
    open_job(t, (struct open_args){
                    .client = "c4", .dataset = "numbers", .name = "dynamic", .dynamic = true});
    assert_string_equal(opened(t)->iteration_id, dynamic);
}

/* A client that comes back goes on where it was or is told why not; it never begins from the
 * start. */
static void who_comes_back_to_a_collected_iteration_is_refused(void **state)
{
    struct table *t = *state;
    char iteration[64], job[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "off"});
    assert_int_equal(opened(t)->client_timeout_ms, 120000);
    keep_id(iteration, opened(t)->iteration_id);
    keep_id(job, opened(t)->job_id);
    release_client(t, "c1", iteration);
    struct open_args again = {.client = "c1",
                              .dataset = "numbers",
                              .name = "off",
                              .job_id = job,
                              .iteration_id = iteration};
    assert_int_equal(open_job(t, again), MR_OK);
    release_client(t, "c1", iteration);
    for (int i = 0; i < 302; i++) {
        table_wait(t, 1000);
        beat_worker(t, "w1");
    }
    assert_int_equal(open_job(t, again), MR_EPRECOND);
    open_job(t, (struct open_args){.client = "c2",
                                   .dataset = "numbers",
                                   .name = "off"}); /* somebody else begins anew */
    assert_int_equal(open_job(t, again), MR_EPRECOND);
}

static void who_comes_back_to_a_finished_iteration_is_told_its_losses(void **state)
{
    struct table *t = *state;
    char iteration[64], job[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep_id(iteration, opened(t)->iteration_id);
    keep_id(job, opened(t)->job_id);
    add_worker(t, "w2", "b:1");
    assert_int_equal(end_task(t, "w1", task_of(iteration, "w1", 1), 0, ""), MR_OK);
    for (int i = 0; i < 70; i++) {
        table_wait(t, 1000);
        beat_worker(t, "w1");
        beat_client(t, "c1", iteration, NULL);
    }
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .job_id = job,
                                                    .iteration_id = iteration}),
                     MR_OK);
    assert_true(opened(t)->finished);
    assert_int_equal(opened(t)->end->lost_workers, 1);
}

static void a_named_job_is_forgotten_after_its_retention(void **state)
{
    struct table *t = *state;
    char iteration[64];

    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    release_client(t, "c1", iteration);
    table_wait(t, INT64_C(6) * 24 * 3600 * 1000);
    assert_int_equal(table_count(t, "jobs/"), 1);
    table_wait(t, INT64_C(2) * 24 * 3600 * 1000);
    assert_int_equal(table_count(t, "jobs/") + table_count(t, "iterations/"), 0);
}

static void a_worker_nobody_reaches_does_not_hold_up_the_end(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "unreachable:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep_id(iteration, opened(t)->iteration_id);
    open_job(t, (struct open_args){.client = "c2", .dataset = "numbers"});
    end_task(t, "w1", task_of(iteration, "w1", 1), 0, NULL);
    for (int i = 0; i < 63; i++) {
        beat_worker(t, "w1");
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, "w2");
        table_wait(t, 1000);
    }
    const Millrace__ClientUpdate *update = watch_client(t, "c1", iteration);

    assert_true(update->finished);
    assert_int_equal(update->end->lost_workers, 1);
}

/* Worker w1's task was closed, since no client reached it; then w2 dies, with 75 splits left, and
 * clients still say that they cannot reach w1. */
static void leave_a_closed_one_alone(struct table *t, char iteration[64], bool dynamic,
                                     int guarantee)
{
    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){.client = "c1",
                                   .dataset = "numbers",
                                   .name = "train",
                                   .dynamic = dynamic,
                                   .guarantee = guarantee});
    keep_id(iteration, opened(t)->iteration_id);
    if (dynamic) {
        get_splits(t, "w2", task_of(iteration, "w2", 1), 0, 1, 25);
    }
    for (int i = 0; i < 63; i++) {
        beat_worker(t, "w1");
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, "w1");
        table_wait(t, 1000);
    }
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 0);
    for (int i = 0; i < 63; i++) {
        beat_worker(t, "w1");
        beat_client(t, "c1", iteration, "w1");
        table_wait(t, 1000);
    }
    assert_int_equal(beat_worker(t, "w2"), MR_ENOTFOUND);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 0);
}

/* It is all that there is, and it can be reached again. */
static void expect_it_goes_on(struct table *t, const char *iteration, uint64_t first)
{
    char task[128];

    beat_client(t, "c1", iteration, NULL);
    table_wait(t, 0);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    snprintf(task, sizeof task, "%s", watch_worker(t, "w1")->tasks[0]->task_id);
    expect_range(t, "w1", task, 1, 10, first, 10);
    table_take_over(t);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    uint64_t seq = 2;

    for (; get_splits(t, "w1", task, 0, seq, 100) == MR_OK && !splits(t)->end; seq++) {
    }
    assert_true(splits(t)->end);
    assert_int_equal(end_task(t, "w1", task, 0, NULL), MR_OK);
    assert_true(watch_client(t, "c1", iteration)->finished);
}

static void the_last_worker_goes_on_though_its_task_was_closed(void **state)
{
    struct table *t = *state;
    char iteration[64];

    leave_a_closed_one_alone(t, iteration, true, 0);
    expect_it_goes_on(t, iteration, 25);
    assert_int_equal(watch_client(t, "c1", iteration)->end->lost_splits, 25);
}

static void and_so_it_does_at_least_once(void **state)
{
    struct table *t = *state;
    char iteration[64];

    leave_a_closed_one_alone(t, iteration, true, 1);
    expect_it_goes_on(t, iteration, 0);
    assert_int_equal(watch_client(t, "c1", iteration)->end->lost_splits, 0);
}

/* Its copy begins anew, as that of a worker would that comes. */
static void and_so_it_does_without_sharding(void **state)
{
    struct table *t = *state;
    char iteration[64], task[128];

    leave_a_closed_one_alone(t, iteration, false, 0);
    beat_client(t, "c1", iteration, NULL);
    table_wait(t, 0);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    keep_id(task, watch_worker(t, "w1")->tasks[0]->task_id);
    assert_string_not_equal(task, task_of(iteration, "w1", 1)); /* which the worker has dropped */
    table_take_over(t);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    assert_string_equal(watch_worker(t, "w1")->tasks[0]->task_id, task);
    assert_int_equal(end_task(t, "w1", task, 0, NULL), MR_OK);
    assert_true(watch_client(t, "c1", iteration)->finished);
    assert_int_equal(watch_client(t, "c1", iteration)->end->lost_workers, 2);
}

/* ---------------------------------------------------------------- those who only say that they are
 * there */

static void register_many(struct table *t, int n)
{
    char name[16], address[24];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "fake%d", i);
        snprintf(address, sizeof address, "%s:1", name);
        assert_int_equal(register_worker(t, name, address), MR_OK);
    }
}

static void who_does_not_watch_counts_nowhere(void **state)
{
    static const char *const others[] = {"w2", NULL};
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    register_many(t, 250);
    assert_int_equal(table_count(t, "workers/"), 2);
    assert_int_equal(watch_client(t, "c1", iteration)->n_tasks, 2);
    assert_int_equal(beat_worker(t, "fake0"), MR_ENOTFOUND);
    assert_int_equal(get_splits(t, "fake0", task_of(iteration, "w1", 1), 0, 1, 10), MR_ENOTFOUND);
    /* One that is silent is found to be: nobody else is. */
    fall_silent(t, "c1", iteration, others);
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
}

static void newcomers_are_forgotten_when_they_are_many(void **state)
{
    struct table *t = *state;

    register_many(t, 1025);
    assert_int_equal(try_watch_worker(t, "fake0"), MR_ENOTFOUND);
    assert_int_equal(try_watch_worker(t, "fake1"), MR_OK);
    assert_int_equal(try_watch_worker(t, "fake1024"), MR_OK);
    assert_int_equal(table_count(t, "workers/"), 2);
    assert_int_equal(register_worker(t, "fake0", "fake0:1"), MR_OK);
    table_take_over(t);
    assert_int_equal(try_watch_worker(t, "fake0"), MR_ENOTFOUND); /* and registers again */
    assert_int_equal(add_worker(t, "fake0", "fake0:1"), MR_OK);
}

/* gRPC would take each of these for something: a service's name, a file, another port. */
static void a_worker_says_where_it_is_as_host_and_port(void **state)
{
    static const char *const wrong[] = {
        "",      "x",          "x:y",           ":1",        "127.0.0.1:0", "127.0.0.1:99999",
        "::1:1", "[nobody]:1", "unix:/tmp/x:1", "dns:///x:1"};
    static const char *const right[] = {"127.0.0.1:1", "worker-7.workers_of.me:65535",
                                        "[fd00::7]:5051"};
    struct table *t = *state;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(register_worker(t, "w1", wrong[i]), MR_EINVAL);
        assert_int_equal(try_watch_worker(t, "w1"), MR_ENOTFOUND);
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_int_equal(register_worker(t, "w1", right[i]), MR_OK);
    }
}

static void what_is_said_last_counts(void **state)
{
    struct table *t = *state;

    register_worker(t, "w1", "a:1");
    register_worker(t, "w1", "a:2");
    assert_int_equal(try_watch_worker(t, "w1"), MR_OK);
    assert_int_equal(register_worker(t, "w1", "a:1"), MR_EINVAL); /* now it is there */
    assert_int_equal(register_worker(t, "w1", "a:2"), MR_OK);
    assert_int_equal(table_count(t, "workers/"), 1);
}

static void nobody_comes_while_the_store_is_full(void **state)
{
    struct table *t = *state;

    register_worker(t, "w1", "a:1");
    t->full = true;
    assert_int_equal(try_watch_worker(t, "w1"), MR_EEXHAUSTED);
    assert_true((the_reply(t)->error.traits & MR_RETRYABLE) != 0);
    t->full = false;
    assert_int_equal(try_watch_worker(t, "w1"), MR_OK);
    t->full = true;
    assert_int_equal(try_watch_worker(t, "w1"), MR_OK); /* who is there stays */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, core_setup, core_teardown)
    const struct CMUnitTest tests[] = {
        T(an_iteration_whose_workers_are_all_lost_waits),
        T(a_leader_that_heard_nobody_gives_one_more_grace),
        T(time_stands_still_while_the_loop_does),
        T(a_silent_client_is_released_and_its_workers_hear_of_it),
        T(nobody_is_given_up_right_after_a_takeover),
        T(an_unread_iteration_is_collected_unless_dynamic),
        T(who_comes_back_to_a_collected_iteration_is_refused),
        T(who_comes_back_to_a_finished_iteration_is_told_its_losses),
        T(a_named_job_is_forgotten_after_its_retention),
        T(a_worker_nobody_reaches_does_not_hold_up_the_end),
        T(the_last_worker_goes_on_though_its_task_was_closed),
        T(and_so_it_does_at_least_once),
        T(and_so_it_does_without_sharding),
        T(who_does_not_watch_counts_nowhere),
        T(newcomers_are_forgotten_when_they_are_many),
        T(a_worker_says_where_it_is_as_host_and_port),
        T(what_is_said_last_counts),
        T(nobody_comes_while_the_store_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
