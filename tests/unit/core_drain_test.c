/* Workers that go on purpose: what they have not opened goes to others, under either guarantee, and
 * is neither lost nor repeated; what they have, they finish; and that they come to an end says
 * nothing about the pipeline. */
#include "core_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct table t;
    char iteration[64];
    char tasks[8][160]; /* of the workers in the test */
};

static void open_it(struct fixture *f, const char *dataset, int guarantee, uint64_t repetition)
{
    assert_int_equal(open_job(&f->t, (struct open_args){.client = "c1",
                                                        .dataset = dataset,
                                                        .name = dataset,
                                                        .dynamic = true,
                                                        .guarantee = guarantee,
                                                        .repetition = repetition}),
                     MR_OK);
    snprintf(f->iteration, sizeof f->iteration, "%s", opened(&f->t)->iteration_id);
    snprintf(f->tasks[1], sizeof f->tasks[1], "%s", task_of(f->iteration, "w1", 1));
    snprintf(f->tasks[2], sizeof f->tasks[2], "%s", task_of(f->iteration, "w2", 1));
}

/* Workers w1 and w2, and a job over 100 splits. */
static int open_table(void **state, int guarantee)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open_usual(&f->t);
    *state = f;
    open_it(f, "numbers", guarantee, 0);
    return 0;
}

static int setup_most(void **state)
{
    return open_table(state, MILLRACE__GUARANTEE__AT_MOST_ONCE);
}

static int setup_least(void **state)
{
    return open_table(state, MILLRACE__GUARANTEE__AT_LEAST_ONCE);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

/* All that is left of the repetition to @worker, from request @seq on; @read counts it. Returns the
 * last request. */
static uint64_t read_all(struct fixture *f, const char *worker, const char *task, uint64_t seq,
                         unsigned *read)
{
    for (;; seq++) {
        assert_int_equal(get_splits(&f->t, worker, task, 0, seq, 199), MR_OK);
        if (splits(&f->t)->end) {
            return seq;
        }
        for (uint64_t i = 0; i < splits(&f->t)->ranges[0]->count; i++) {
            read[splits(&f->t)->ranges[0]->first + i]++;
        }
    }
}

static void count(unsigned *read, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++) {
        read[i]++;
    }
}

static void each_is_read_once(const unsigned *read, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(read[i], 1);
    }
}

static void give(struct fixture *f, const char *worker, const char *task, uint64_t seq,
                 uint64_t first, uint64_t n)
{
    struct given range = {0, first, n};

    assert_int_equal(give_back(&f->t, worker, task, seq, &range, 1), MR_OK);
    assert_true(splits(&f->t)->end);
    assert_int_equal(splits(&f->t)->n_ranges, 0);
}

/* The recovery task of @worker, or NULL. */
static const char *recovery_of(struct fixture *f, const char *worker)
{
    static char id[160];
    const Millrace__WorkerUpdate *update;

    table_wait(&f->t, 0); /* what earlier steps left is done by the timer */
    update = watch_worker(&f->t, worker);
    for (size_t i = 0; i < update->n_tasks; i++) {
        const Millrace__TaskAssignment *a = update->tasks[i];

        if (strchr(a->task_id + strlen(a->iteration_id) + 1, '/') != NULL) {
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

static const char *record_of(struct fixture *f, const char *kind, const char *rest)
{
    char key[256];

    snprintf(key, sizeof key, "%s/%s%s", kind, f->iteration, rest);
    return table_get(&f->t, key);
}

static void expect_clean_end(struct fixture *f)
{
    assert_non_null(the_end(f));
    assert_int_equal(the_end(f)->lost_splits, 0);
    assert_int_equal(the_end(f)->lost_workers, 0);
    assert_int_equal(the_end(f)->repeated_splits, 0);
}

/* ---------------------------------------------------------------- both guarantees */

static void what_was_not_opened_goes_to_others_and_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};
    uint64_t last;

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    give(f, "w1", f->tasks[1], 2, 5, 15);
    count(read, 0, 5);
    expect_range(&f->t, "w2", f->tasks[2], 1, 10, 5, 10); /* they go first */
    count(read, 5, 10);
    last = read_all(f, "w2", f->tasks[2], 2, read);
    each_is_read_once(read, 100);
    assert_int_equal(end_drained(&f->t, "w1", f->tasks[1]), MR_OK);
    assert_null(the_end(f));
    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_null(the_end(f));
    assert_true(last > 2);
    assert_int_equal(end_task(&f->t, "w2", f->tasks[2], 0, NULL), MR_OK);
    expect_clean_end(f);
}

/* The answer was lost, the leader died, the worker asks again: they are there once. */
static void giving_back_may_be_repeated_in_the_middle_of_a_failover(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    give(f, "w1", f->tasks[1], 2, 5, 15);
    count(read, 0, 5);
    table_take_over(&f->t);
    give(f, "w1", f->tasks[1], 2, 5, 15);
    expect_range(&f->t, "w2", f->tasks[2], 1, 30, 5, 15);
    count(read, 5, 15);
    give(f, "w1", f->tasks[1], 2, 5, 15); /* late, from a connection that was slow */
    read_all(f, "w2", f->tasks[2], 2, read);
    each_is_read_once(read, 100);
}

/* Several times, and what lies between was read. */
static void ranges_are_kept_apart(void **state)
{
    struct fixture *f = *state;
    static const struct given some[] = {{0, 3, 2}, {0, 10, 1}, {0, 15, 5}};

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 2, some, 3), MR_OK);
    give(f, "w1", f->tasks[1], 3, 8, 2);
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 1, 50, 3, 2);
    expect_range(&f->t, "w2", f->tasks[2], 2, 50, 8, 3);
    expect_range(&f->t, "w2", f->tasks[2], 3, 50, 15, 5);
    expect_range(&f->t, "w2", f->tasks[2], 4, 10, 20, 10);
}

/* It was told to stop: that its pipeline ends is no sign that there is no more. */
static void its_end_does_not_end_the_iteration(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};

    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    assert_int_equal(say_draining(&f->t, "w2"), MR_OK);
    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    count(read, 0, 15);
    give(f, "w1", f->tasks[1], 2, 15, 5);
    assert_int_equal(end_drained(&f->t, "w1", f->tasks[1]), MR_OK);
    assert_int_equal(end_drained(&f->t, "w2", f->tasks[2]), MR_OK);
    table_wait(&f->t, 0);
    assert_null(the_end(f));
    table_take_over(&f->t);
    assert_null(the_end(f));
    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 0);
    assert_null(the_end(f));
    add_worker(&f->t, "w3", "c:1");
    read_all(f, "w3", task_of(f->iteration, "w3", 1), 1, read);
    each_is_read_once(read, 100);
    end_task(&f->t, "w3", task_of(f->iteration, "w3", 1), 0, NULL);
    expect_clean_end(f);
}

/* Everybody else was told the end before. */
static void with_nobody_left_who_will_ask_a_recovery_task_takes_it(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};
    char recovery[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    count(read, 0, 5);
    read_all(f, "w2", f->tasks[2], 1, read);
    assert_null(recovery_of(f, "w2"));
    give(f, "w1", f->tasks[1], 2, 5, 15);
    table_take_over(&f->t);
    assert_non_null(recovery_of(f, "w2"));
    assert_null(recovery_of(f, "w1"));
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2"));
    table_take_over(&f->t);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    end_drained(&f->t, "w1", f->tasks[1]);
    assert_null(the_end(f));
    read_all(f, "w2", recovery, 1, read);
    each_is_read_once(read, 100);
    end_task(&f->t, "w2", recovery, 0, NULL);
    expect_clean_end(f);
}

/* It drains in turn: what its recovery task has not opened goes on to the next. */
static void a_recovery_task_gives_back_too(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};
    char recovery[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    count(read, 0, 5);
    read_all(f, "w2", f->tasks[2], 1, read);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    give(f, "w1", f->tasks[1], 2, 5, 15);
    end_drained(&f->t, "w1", f->tasks[1]);
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2"));
    expect_range(&f->t, "w2", recovery, 1, 8, 5, 8);
    count(read, 5, 2);
    assert_int_equal(say_draining(&f->t, "w2"), MR_OK);
    give(f, "w2", recovery, 2, 7, 6);
    end_drained(&f->t, "w2", recovery);
    table_take_over(&f->t);
    assert_null(the_end(f)); /* 13 wait, and there is nobody: */
    leave(&f->t, "w2");
    add_worker(&f->t, "w3", "c:1");
    assert_null(recovery_of(f, "w3")); /* whoever comes will ask */
    read_all(f, "w3", task_of(f->iteration, "w3", 1), 1, read);
    each_is_read_once(read, 100);
    end_task(&f->t, "w3", task_of(f->iteration, "w3", 1), 0, NULL);
    expect_clean_end(f);
}

/* ---------------------------------------------------------------- the worker */

static void later_iterations_have_no_task_on_it(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    open_it(f, "numbers", 0, 1);
    assert_int_equal(get_splits(&f->t, "w1", f->tasks[1], 0, 1, 5), MR_ENOTFOUND);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 0, 1, 5), MR_OK);
    assert_int_equal(watch_worker(&f->t, "w1")->n_tasks, 1);
    assert_int_equal(watch_worker(&f->t, "w2")->n_tasks, 2);
    table_take_over(&f->t);
    assert_int_equal(watch_worker(&f->t, "w1")->n_tasks, 1);
    assert_int_equal(watch_worker(&f->t, "w2")->n_tasks, 2);
    assert_non_null(strstr(table_get(&f->t, "schema"), "\"draining\""));
}

static void saying_it_again_writes_nothing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 2);
    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 0);
    table_take_over(&f->t);
    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 0);
}

/* A copy of its registration comes late: a life that nobody lives would be lost in its time. */
static void who_has_left_does_not_come_back(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_int_equal(add_worker(&f->t, "w1", "a:1"), MR_EPRECOND);
    assert_int_equal(beat_worker(&f->t, "w1"), MR_ENOTFOUND);
    assert_int_equal(add_worker(&f->t, "w3", "a:1"), MR_OK);
}

/* Half of what is left, for one; a quarter, for two. */
static void it_is_no_sharer_of_what_is_left(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 90, 0, 25);
    say_draining(&f->t, "w1");
    expect_range(&f->t, "w2", f->tasks[2], 1, 90, 25, 38);
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 2, 90, 63, 19);
    end_drained(&f->t, "w1", f->tasks[1]);
    expect_range(&f->t, "w2", f->tasks[2], 3, 90, 82, 9);
}

static void the_status_shows_who_drains(void **state)
{
    struct fixture *f = *state;
    struct mr_status_about about = {
        .cluster = "test", .incarnation = "i", .leader = "l:1", .version = "0"};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    const Millrace__StatusReply *reply;

    expect_range(&f->t, "w1", f->tasks[1], 1, 8, 0, 8);
    give(f, "w1", f->tasks[1], 2, 3, 5);
    end_drained(&f->t, "w1", f->tasks[1]);
    table_step(&f->t, &command);
    reply = (const Millrace__StatusReply *)the_reply(&f->t)->message;
    assert_non_null(strstr(reply->json, "\"draining\":true"));
    assert_non_null(strstr(reply->json, "\"state\":\"drained\""));
    assert_non_null(strstr(reply->json, "\"givenBackSplits\":\"5\""));
}

/* ---------------------------------------------------------------- somebody wants it */

static bool is_told(struct fixture *f, const char *worker)
{
    assert_int_equal(beat_worker(&f->t, worker), MR_OK);
    return ((const Millrace__WorkerHeartbeatReply *)the_reply(&f->t)->message)->drain;
}

static void who_is_to_drain_is_told_until_it_says_so(void **state)
{
    struct fixture *f = *state;
    const Millrace__DrainWorkerReply *reply;

    assert_false(is_told(f, "w1"));
    assert_int_equal(drain_worker(&f->t, "a:1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 2);
    reply = (const Millrace__DrainWorkerReply *)the_reply(&f->t)->message;
    assert_string_equal(reply->address, "a:1");
    assert_memory_equal(reply->worker, id_of("w1"), 9 - 1);
    assert_int_equal(reply->tasks, 1);
    assert_true(is_told(f, "w1"));
    assert_false(is_told(f, "w2"));
    table_take_over(&f->t);
    assert_true(is_told(f, "w1"));
    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 0);
    assert_false(((const Millrace__WorkerHeartbeatReply *)the_reply(&f->t)->message)->drain);
    assert_false(
        ((const Millrace__WorkerHeartbeatReply *)the_reply(&f->t)->message)->drain_unwritten);
}

static void wanting_it_again_writes_nothing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(drain_worker(&f->t, id_of("w1")), MR_OK);
    assert_int_equal(drain_worker(&f->t, "a:1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 0);
    say_draining(&f->t, "w1");
    assert_int_equal(drain_worker(&f->t, "a:1"), MR_OK);
    assert_int_equal(f->t.out.nchanges, 0);
}

static void whom_nobody_can_mean_does_not_drain(void **state)
{
    struct fixture *f = *state;
    char beginning[9];

    assert_int_equal(drain_worker(&f->t, ""), MR_ENOTFOUND);
    assert_int_equal(drain_worker(&f->t, "c:1"), MR_ENOTFOUND);
    snprintf(beginning, sizeof beginning, "%s", id_of("w1"));
    beginning[7] = '\0';
    assert_int_equal(drain_worker(&f->t, beginning), MR_ENOTFOUND); /* one digit too few */
    snprintf(beginning, sizeof beginning, "%s", id_of("w1"));
    assert_int_equal(drain_worker(&f->t, beginning), MR_OK);
    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_int_equal(drain_worker(&f->t, beginning), MR_ENOTFOUND);
    assert_int_equal(drain_worker(&f->t, "a:1"), MR_ENOTFOUND);
}

/* It was out of reach when it was told, and counts as lost by now. */
static void it_drains_in_its_next_life_too(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(drain_worker(&f->t, "a:1"), MR_OK);
    const char *others[] = {"w2", NULL};

    fall_silent(&f->t, "c1", f->iteration, others);
    assert_int_equal(beat_worker(&f->t, "w1"), MR_ENOTFOUND);
    assert_int_equal(add_worker(&f->t, "w1", "a:1"), MR_OK);
    assert_true(is_told(f, "w1"));
}

/* ---------------------------------------------------------------- at most once */

/* It went before it was through: what it kept is lost, and nothing else. */
static void only_what_it_kept_is_lost_with_it(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    give(f, "w1", f->tasks[1], 2, 3, 17);
    leave(&f->t, "w1");
    count(read, 0, 3);
    read_all(f, "w2", f->tasks[2], 1, read);
    each_is_read_once(read, 100);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    assert_int_equal(the_end(f)->lost_splits, 3);
    assert_int_equal(the_end(f)->lost_workers, 1);
}

static void a_recovery_task_that_is_lost_is_counted(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};
    char recovery[160];

    add_worker(&f->t, "w3", "c:1");
    expect_range(&f->t, "w1", f->tasks[1], 1, 12, 0, 12);
    read_all(f, "w2", f->tasks[2], 1, read);
    expect_end(&f->t, "w3", task_of(f->iteration, "w3", 1), 1);
    end_task(&f->t, "w3", task_of(f->iteration, "w3", 1), 0, NULL);
    give(f, "w1", f->tasks[1], 2, 4, 8);
    end_drained(&f->t, "w1", f->tasks[1]);
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2"));
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    expect_range(&f->t, "w2", recovery, 1, 3, 4, 3);
    leave(&f->t, "w2");
    table_take_over(&f->t);
    assert_non_null(recovery_of(f, "w3"));
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w3"));
    read_all(f, "w3", recovery, 1, read);
    end_task(&f->t, "w3", recovery, 0, NULL);
    assert_int_equal(the_end(f)->lost_splits, 3);
    assert_int_equal(the_end(f)->lost_workers, 1);
}

static void end_with(struct fixture *f, const char *worker, const char *task, uint64_t abandoned,
                     uint64_t held)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};
    Millrace__Holder holder = MILLRACE__HOLDER__INIT;
    Millrace__Holder *list[] = {&holder};

    holder.client = (char *)(uintptr_t)id_of("c1");
    holder.elements = held;
    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = (char *)(uintptr_t)task;
    request.abandoned = abandoned;
    request.holders = list;
    request.n_holders = 1;
    table_step(&f->t, &command);
    table_step(&f->t, &command); /* a copy of it */
}

/* Its record goes, what went with clients stays; what they hold is theirs until they say what they
 * did not use. */
static void what_a_recovery_task_lost_with_clients_is_counted(void **state)
{
    struct fixture *f = *state;
    Millrace__ReleaseClientRequest request = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_RELEASE_CLIENT, .release_client = &request};
    unsigned read[100] = {0};
    char key[128], recovery[160];

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    read_all(f, "w2", f->tasks[2], 1, read);
    give(f, "w1", f->tasks[1], 2, 5, 15);
    assert_non_null(recovery_of(f, "w2"));
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2"));
    read_all(f, "w2", recovery, 1, read);
    end_with(f, "w2", recovery, 3, 4);
    assert_null(recovery_of(f, "w2"));
    table_take_over(&f->t);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    end_drained(&f->t, "w1", f->tasks[1]);
    assert_int_equal(the_end(f)->abandoned, 3);
    (void)snprintf(key, sizeof key, "clients/%s", id_of("c1"));
    assert_non_null(strstr(table_get(&f->t, key), "\"held\":\"4\""));
    request.client = (char *)(uintptr_t)id_of("c1");
    request.iteration_id = f->iteration;
    request.abandoned = 2;
    table_step(&f->t, &command);
    (void)snprintf(key, sizeof key, "iterations/%s", f->iteration);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"5\""));
}

/* Of several sources a pipeline may not want what is left of one when another is at its end. */
static void what_no_pipeline_wants_is_dropped(void **state)
{
    static const int64_t two[] = {10, 10};
    struct fixture *f = *state;
    unsigned read[100] = {0};
    char recovery[160];

    assert_int_equal(put_dataset(&f->t, "pairs", FP2, two, 2), MR_OK);
    open_it(f, "pairs", 0, 0);
    expect_range(&f->t, "w1", f->tasks[1], 1, 3, 0, 3);
    read_all(f, "w2", f->tasks[2], 1, read);
    give(f, "w1", f->tasks[1], 2, 1, 2);
    end_drained(&f->t, "w1", f->tasks[1]);
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    assert_non_null(recovery_of(f, "w2"));
    snprintf(recovery, sizeof recovery, "%s", recovery_of(f, "w2"));
    assert_null(the_end(f));
    end_task(&f->t, "w2", recovery, 0, NULL); /* it did not ask for them, nor would the next */
    assert_null(recovery_of(f, "w2"));
    expect_clean_end(f);
}

/* It has no recovery tasks: what nobody asked for would be missing for all who read it. Nor does
 * anybody join it now. */
static void of_a_production_nothing_is_taken_back(void **state)
{
    struct fixture *f = *state;
    struct open_args args = {.client = "c2",
                             .dataset = "numbers",
                             .name = "shared",
                             .dynamic = true,
                             .sharing = MILLRACE__SHARING__SHARING_AUTO};
    static const struct given some = {0, 4, 4};
    const Millrace__WorkerUpdate *update;
    char task[160] = "", record[512];

    assert_int_equal(open_job(&f->t, args), MR_OK);
    update = watch_worker(&f->t, "w1");
    for (size_t i = 0; i < update->n_tasks; i++) {
        if (update->tasks[i]->producing) {
            snprintf(task, sizeof task, "%s", update->tasks[i]->task_id);
        }
    }
    expect_range(&f->t, "w1", task, 1, 8, 0, 8);
    assert_int_equal(give_back(&f->t, "w1", task, 2, &some, 1), MR_OK);
    assert_true(splits(&f->t)->keep);
    table_take_over(&f->t);
    assert_int_equal(give_back(&f->t, "w1", task, 2, &some, 1), MR_OK);
    assert_true(splits(&f->t)->keep);
    args.client = "c3";
    args.name = "late";
    assert_int_equal(open_job(&f->t, args), MR_OK);
    snprintf(record, sizeof record, "iterations/%s", opened(&f->t)->iteration_id);
    assert_non_null(strstr(table_get(&f->t, record), "is on a worker that drains"));
}

/* A jump leaves the rest of a repetition behind; where positions go round, what was given back of
 * it too. */
static void of_an_endless_source_only_the_current_repetition_comes_back(void **state)
{
    static const int64_t endless[] = {-1};
    struct fixture *f = *state;
    static const struct given first = {0, 4, 4}, second = {1, 2, 1};

    assert_int_equal(put_dataset(&f->t, "endless", FP2, endless, 1), MR_OK);
    open_it(f, "endless", 0, 0);
    expect_range(&f->t, "w1", f->tasks[1], 1, 8, 0, 8);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 2, &first, 1), MR_OK);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, 1, 3), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 0);
    assert_int_equal(splits(&f->t)->ahead, 0);
    assert_null(strstr(record_of(f, "cursors", "/0"), "givenBack"));
    assert_int_equal(give_back(&f->t, "w2", f->tasks[2], 2, &second, 1), MR_OK);
    add_worker(&f->t, "w3", "c:1");
    expect_range(&f->t, "w3", task_of(f->iteration, "w3", 1), 1, 3, 2, 1);
    assert_int_equal(splits(&f->t)->ahead, 1);
}

/* Splits go to whatever repetition is asked for, and are named by their own when they come back
 * once more. */
static void a_split_keeps_its_repetition(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};
    static const struct given again = {0, 7, 1};
    uint64_t last;

    expect_range(&f->t, "w1", f->tasks[1], 1, 8, 0, 8);
    last = read_all(f, "w2", f->tasks[2], 1, read);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, last + 1, 4), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 0);
    give(f, "w1", f->tasks[1], 2, 6, 2);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, last + 2, 4), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 6);
    assert_int_equal(splits(&f->t)->ranges[0]->count, 2);
    assert_int_equal(splits(&f->t)->ahead, -1);
    table_take_over(&f->t);
    assert_int_equal(get_splits(&f->t, "w2", f->tasks[2], 1, last + 2, 4), MR_OK);
    assert_int_equal(splits(&f->t)->ahead, -1);
    assert_int_equal(give_back(&f->t, "w2", f->tasks[2], last + 3, &again, 1), MR_OK);
    add_worker(&f->t, "w3", "c:1");
    assert_int_equal(get_splits(&f->t, "w3", task_of(f->iteration, "w3", 1), 1, 1, 4), MR_OK);
    assert_int_equal(splits(&f->t)->ranges[0]->first, 7);
    assert_int_equal(splits(&f->t)->ahead, -1);
}

static void refuse(struct fixture *f, int code, uint64_t seq, const struct given *ranges, size_t n)
{
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], seq, ranges, n), code);
    assert_int_equal(f->t.out.nchanges, 0);
}

static void what_it_cannot_have_is_refused(void **state)
{
    struct fixture *f = *state;
    static const struct given before = {0, 0, 1};
    static const struct given beyond = {0, 8, 4}, later = {1, 0, 1}, wide = {0, 4, UINT64_MAX - 2},
                              empty = {0, 4, 0};
    static const struct given twice[] = {{0, 4, 2}, {0, 5, 1}},
                              backwards[] = {{0, 6, 1}, {0, 4, 1}};
    static const struct given far = {INT64_MAX, 0, 1}, others = {0, 0, 9}, mine = {0, 4, 2},
                              overlap = {0, 5, 2};

    refuse(f, MR_EINVAL, 1, &before, 1); /* it was given nothing yet */
    expect_range(&f->t, "w1", f->tasks[1], 1, 8, 0, 8);
    refuse(f, MR_EINVAL, 2, &beyond, 1);
    refuse(f, MR_EINVAL, 2, &later, 1);
    refuse(f, MR_EINVAL, 2, &far, 1);
    refuse(f, MR_EINVAL, 2, &wide, 1);
    refuse(f, MR_EINVAL, 2, &empty, 1);
    refuse(f, MR_EINVAL, 2, twice, 2);
    refuse(f, MR_EINVAL, 2, backwards, 2);
    expect_range(&f->t, "w2", f->tasks[2], 1, 8, 8, 8);
    refuse(f, MR_EINVAL, 2, &others, 1); /* more than it has */
    refuse(f, MR_ERANGE, 0, &mine, 1);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 2, &mine, 1), MR_OK);
    refuse(f, MR_EINVAL, 3, &overlap, 1); /* it is there already */
}

/* Joining across what was read would have it read again: the worker has to read the rest itself. */
static void the_list_is_bounded(void **state)
{
    static const int64_t many[] = {100000};
    struct fixture *f = *state;
    static struct given odd[600];
    uint64_t given;

    for (uint64_t i = 0; i < 600; i++) {
        odd[i] = (struct given){0, 2 * i, 1};
    }
    assert_int_equal(put_dataset(&f->t, "many", FP2, many, 1), MR_OK);
    open_it(f, "many", 0, 0);
    expect_range(&f->t, "w1", f->tasks[1], 1, 2000, 0, 2000);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 2, odd, 600), MR_OK);
    assert_true(splits(&f->t)->keep);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 3, odd, 512), MR_OK);
    assert_false(splits(&f->t)->keep);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 4, odd + 513, 1), MR_OK);
    assert_true(splits(&f->t)->keep);
    table_take_over(&f->t);
    expect_range(&f->t, "w2", f->tasks[2], 1, 5, 0, 1);
    /* There is room now. But it was told that it has to read them, and does: a copy that comes late
     * changes nothing. */
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 4, odd + 513, 1), MR_OK);
    assert_true(splits(&f->t)->keep);
    for (given = 1; given < 512; given++) {
        expect_range(&f->t, "w2", f->tasks[2], given + 1, 5, 2 * given, 1);
    }
    expect_range(&f->t, "w2", f->tasks[2], given + 1, 5, 2000, 5);
}

/* ---------------------------------------------------------------- at least once */

static void what_it_kept_is_read_again_and_no_more(void **state)
{
    struct fixture *f = *state;
    unsigned read[100] = {0};

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    give(f, "w1", f->tasks[1], 2, 3, 17);
    leave(&f->t, "w1");
    read_all(f, "w2", f->tasks[2], 1, read);
    each_is_read_once(read, 100); /* the three that it had opened among them */
    end_task(&f->t, "w2", f->tasks[2], 0, NULL);
    assert_int_equal(the_end(f)->repeated_splits, 3);
    assert_int_equal(the_end(f)->lost_splits, 0);
}

/* Finished is what all of a grant is: what was given back is not waited for any more. */
static void a_grant_that_was_given_back_in_part_can_be_finished(void **state)
{
    struct fixture *f = *state;
    char key[200];

    expect_range(&f->t, "w1", f->tasks[1], 1, 20, 0, 20);
    snprintf(key, sizeof key, "/0/%s", f->tasks[1] + strlen(f->iteration) + 1);
    give(f, "w1", f->tasks[1], 2, 3, 17);
    assert_non_null(strstr(record_of(f, "grants", key),
                           "\"open\":[{\"seq\":\"1\",\"ranges\":[{\"count\":\"3\"}]}]"));
    assert_int_equal(get_splits_with_report(&f->t, "w1", f->tasks[1], 0, 2, 0, "11"), MR_OK);
    leave(&f->t, "w1");
    expect_range(&f->t, "w2", f->tasks[2], 1, 50, 3, 17);
    expect_range(&f->t, "w2", f->tasks[2], 2, 5, 20, 5);
}

static void only_open_grants_can_be_given_back(void **state)
{
    struct fixture *f = *state;
    static const struct given finished = {0, 2, 2}, mine = {0, 10, 4};

    expect_range(&f->t, "w1", f->tasks[1], 1, 8, 0, 8);
    expect_range(&f->t, "w1", f->tasks[1], 2, 8, 8, 8);
    assert_int_equal(beat_with_report(&f->t, "w1", f->tasks[1], "10"), MR_OK);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 3, &finished, 1), MR_EINVAL);
    expect_range(&f->t, "w2", f->tasks[2], 1, 8, 16, 8);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 3, &(struct given){0, 16, 2}, 1),
                     MR_EINVAL);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 3, &(struct given){0, 14, 4}, 1),
                     MR_EINVAL);
    assert_int_equal(give_back(&f->t, "w1", f->tasks[1], 3, &mine, 1), MR_OK);
}

/* They were in a crash: that they were not opened this time takes nothing off it. */
static void suspects_keep_their_history(void **state)
{
    struct fixture *f = *state;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    add_worker(&f->t, "w3", "a:1"); /* in the place of w1, which is superseded */
    expect_range(&f->t, "w3", task_of(f->iteration, "w3", 1), 1, 10, 0, 10);
    give(f, "w3", task_of(f->iteration, "w3", 1), 2, 4, 6);
    assert_non_null(strstr(
        record_of(f, "cursors", "/0"),
        "\"pool\":[{\"first\":\"4\",\"count\":\"6\",\"losses\":1}],\"repeatedSplits\":\"4\""));
    expect_range(&f->t, "w2", f->tasks[2], 1, 50, 4, 6);
    assert_non_null(strstr(record_of(f, "cursors", "/0"), "\"repeatedSplits\":\"10\""));
}

/* ---------------------------------------------------------------- what is stored */

static int take_over_fails(struct fixture *f)
{
    struct mr_core_config config = f->t.config;
    mr_error err;
    int rc = MR_OK;

    config.epoch++;
    mr_core *core = mr_core_new(&config);

    for (size_t i = 0; i < f->t.count && rc == MR_OK; i++) {
        if (strncmp(f->t.keys[i], "blobs/", 6) != 0) {
            rc = mr_core_load(core, f->t.keys[i], f->t.values[i], strlen(f->t.values[i]), &err);
        }
    }
    if (rc == MR_OK) {
        rc = mr_core_ready(core, f->t.now, &err);
    }
    if (rc == MR_OK && first_flaw(core) != NULL) { /* with the iteration that it belongs to */
        rc = MR_EDATALOSS;
    }
    mr_core_free(core);
    return rc;
}

static void stored_nonsense_is_refused(void **state)
{
    struct fixture *f = *state;
    char key[256], *good;

    expect_range(&f->t, "w1", f->tasks[1], 1, 10, 0, 10);
    give(f, "w1", f->tasks[1], 2, 4, 6);
    snprintf(key, sizeof key, "cursors/%s/0", f->iteration);
    good = mr_strdup(table_get(&f->t, key));
    assert_int_equal(take_over_fails(f), MR_OK);
    table_put(&f->t, key, "{\"next\":\"10\",\"givenBack\":[{\"first\":\"8\",\"count\":\"3\"}]}");
    assert_int_equal(take_over_fails(f), MR_EDATALOSS);
    table_put(&f->t, key,
              "{\"next\":\"10\",\"givenBack\":[{\"first\":\"8\",\"count\":\"1\",\"losses\":1}]}");
    assert_int_equal(take_over_fails(f), MR_EDATALOSS);
    table_put(
        &f->t, key,
        "{\"next\":\"10\",\"givenBack\":[{\"first\":\"8\",\"count\":\"1\"},{\"count\":\"1\"}]}");
    assert_int_equal(take_over_fails(f), MR_EDATALOSS);
    table_put(&f->t, key, good);
    mr_free(good);
    snprintf(key, sizeof key, "tasks/%s", f->tasks[1]);
    table_put(&f->t, key, "{\"lost\":true,\"drained\":true}");
    assert_int_equal(take_over_fails(f), MR_EDATALOSS);
    table_put(&f->t, key, "{\"ended\":true,\"drained\":true}");
    assert_int_equal(take_over_fails(f), MR_OK);
}

int main(void)
{
#define MOST(name) cmocka_unit_test_setup_teardown(name, setup_most, teardown)
#define LEAST(name) cmocka_unit_test_setup_teardown(name, setup_least, teardown)
#define BOTH(name) MOST(name), LEAST(name)
    const struct CMUnitTest tests[] = {
        BOTH(what_was_not_opened_goes_to_others_and_nothing_is_lost),
        BOTH(giving_back_may_be_repeated_in_the_middle_of_a_failover),
        BOTH(ranges_are_kept_apart),
        BOTH(its_end_does_not_end_the_iteration),
        BOTH(with_nobody_left_who_will_ask_a_recovery_task_takes_it),
        BOTH(a_recovery_task_gives_back_too),
        MOST(later_iterations_have_no_task_on_it),
        MOST(saying_it_again_writes_nothing),
        MOST(who_has_left_does_not_come_back),
        BOTH(it_is_no_sharer_of_what_is_left),
        MOST(the_status_shows_who_drains),
        MOST(who_is_to_drain_is_told_until_it_says_so),
        MOST(wanting_it_again_writes_nothing),
        MOST(whom_nobody_can_mean_does_not_drain),
        MOST(it_drains_in_its_next_life_too),
        MOST(only_what_it_kept_is_lost_with_it),
        MOST(a_recovery_task_that_is_lost_is_counted),
        MOST(what_a_recovery_task_lost_with_clients_is_counted),
        MOST(what_no_pipeline_wants_is_dropped),
        MOST(of_a_production_nothing_is_taken_back),
        MOST(of_an_endless_source_only_the_current_repetition_comes_back),
        MOST(a_split_keeps_its_repetition),
        MOST(what_it_cannot_have_is_refused),
        MOST(the_list_is_bounded),
        LEAST(what_it_kept_is_read_again_and_no_more),
        LEAST(a_grant_that_was_given_back_in_part_can_be_finished),
        LEAST(only_open_grants_can_be_given_back),
        LEAST(suspects_keep_their_history),
        BOTH(stored_nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
