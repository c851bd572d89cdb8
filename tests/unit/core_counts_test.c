/* What the core counts for metrics: it is what status lists, and steps say which splits they moved.
 * That the keys are counted right is checked after every step of every test with core_support.h. */
#include "core_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
    struct table t;
    char it[64];
};

/* Workers w1 and w2, and a dataset of 100 splits. */
static int setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open_usual(&f->t);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

static void open_it(struct fixture *f, const char *client, const char *name, int guarantee)
{
    assert_int_equal(open_job(&f->t, (struct open_args){.client = client,
                                                        .dataset = "numbers",
                                                        .name = name,
                                                        .dynamic = true,
                                                        .guarantee = guarantee}),
                     MR_OK);
    snprintf(f->it, sizeof f->it, "%s", opened(&f->t)->iteration_id);
}

static struct mr_core_counts counts_of(const struct fixture *f)
{
    struct mr_core_counts counts;

    mr_core_count(f->t.core, &counts);
    return counts;
}

static void everything_is_counted_by_state(void **state)
{
    struct fixture *f = *state;
    struct mr_core_counts c = counts_of(f);

    assert_int_equal(c.workers_live, 2);
    assert_int_equal(c.datasets, 1);
    assert_int_equal(c.jobs_active + c.jobs_idle + c.iterations_open + c.clients, 0);

    open_it(f, "c1", "train", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    c = counts_of(f);
    assert_int_equal(c.jobs_active, 1);
    assert_int_equal(c.iterations_open, 1);
    assert_int_equal(c.clients, 1);
    assert_int_equal(c.tasks[MR_SHOWN_OPEN], 2);

    assert_int_equal(say_draining(&f->t, "w1"), MR_OK);
    assert_int_equal(end_drained(&f->t, "w1", task_of(f->it, "w1", 1)), MR_OK);
    c = counts_of(f);
    assert_int_equal(c.workers_live, 1);
    assert_int_equal(c.workers_draining, 1);
    assert_int_equal(c.tasks[MR_SHOWN_DRAINED], 1);
    assert_int_equal(c.tasks[MR_SHOWN_OPEN], 1);

    assert_int_equal(end_task(&f->t, "w2", task_of(f->it, "w2", 1), MR_OK, ""), MR_OK);
    c = counts_of(f);
    assert_int_equal(c.iterations_open, 0);
    assert_int_equal(c.iterations_finished, 1);
    assert_int_equal(c.jobs_active, 0);
    assert_int_equal(c.jobs_idle, 1);
    assert_int_equal(c.tasks[MR_SHOWN_OPEN] + c.tasks[MR_SHOWN_ENDED] + c.tasks[MR_SHOWN_DRAINED],
                     0);

    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    assert_int_equal(counts_of(f).workers_lost, 0); /* nobody has to look for it */
    assert_int_equal(counts_of(f).workers_live, 1);
    table_wait(&f->t, 60000);
    table_wait(&f->t, 60000);
    assert_int_equal(counts_of(f).workers_live, 0);
    assert_int_equal(counts_of(f).workers_lost, 1); /* w2, of which nothing was heard */
}

static void a_step_says_which_splits_it_moved(void **state)
{
    struct fixture *f = *state;

    open_it(f, "c1", "most", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    assert_int_equal(get_splits(&f->t, "w1", task_of(f->it, "w1", 1), 0, 1, 5), MR_OK);
    uint64_t n = f->t.out.tally.assigned;

    assert_int_equal(n, splits(&f->t)->ranges[0]->count);
    assert_true(n > 0);
    assert_int_equal(get_splits(&f->t, "w1", task_of(f->it, "w1", 1), 0, 1, 5), MR_OK);
    assert_int_equal(f->t.out.tally.assigned, 0); /* the same answer again */

    open_it(f, "c2", "least", MILLRACE__GUARANTEE__AT_LEAST_ONCE);
    assert_int_equal(get_splits(&f->t, "w1", task_of(f->it, "w1", 1), 0, 1, 5), MR_OK);
    uint64_t owed = f->t.out.tally.assigned;

    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    uint64_t lost = f->t.out.tally.lost, returned = f->t.out.tally.returned;

    while (mr_core_next_timer(f->t.core) <=
           f->t.now) { /* What the loss leads to may come with timers. */
        struct mr_command timer = {.kind = MR_COMMAND_TIMER};

        table_step(&f->t, &timer);
        lost += f->t.out.tally.lost;
        returned += f->t.out.tally.returned;
    }
    assert_int_equal(lost, n);
    assert_int_equal(returned, owed);
}

struct visit {
    char seen[256];
    uint64_t lost;
    uint64_t skipped;
    uint32_t clients;
};

static void on_job(void *ctx, const struct mr_job_numbers *n)
{
    struct visit *v = ctx;

    snprintf(v->seen + strlen(v->seen), sizeof v->seen - strlen(v->seen), "%s ", n->label);
    v->lost += n->lost_splits;
    v->skipped += n->skipped;
    v->clients += n->clients;
}

static void on_waited_for(void *ctx, const char *label, uint32_t consumer, uint64_t ms)
{
    fail_msg("job %s waits for consumer %u", label, consumer);
}

static void active_jobs_come_first_and_those_without_a_name_share_one(void **state)
{
    struct fixture *f = *state;
    struct visit v = {.seen = ""};
    struct mr_core_visitor visitor = {.job = on_job, .waited_for = on_waited_for, .ctx = &v};

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->it, "w1", 1), MR_OK, ""), MR_OK);
    assert_int_equal(end_task(&f->t, "w2", task_of(f->it, "w2", 1), MR_OK, ""), MR_OK);
    open_it(f, "c2", "second", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c3", "", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    mr_core_visit_jobs(f->t.core, &visitor);
    assert_string_equal(v.seen, "second (anonymous) first ");
    assert_int_equal(v.clients, 3);
}

/* What went with clients is known to the next leader and in the end of the iteration. */
static void what_went_with_clients_is_in_the_end(void **state)
{
    struct fixture *f = *state;
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};
    const Millrace__ClientUpdate *update;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    request.incarnation = (char *)(uintptr_t)id_of("w1");
    request.task_id = (char *)(uintptr_t)task_of(f->it, "w1", 1);
    request.abandoned = 40;
    table_step(&f->t, &command);
    table_take_over(&f->t);
    request.incarnation = (char *)(uintptr_t)id_of("w2");
    request.task_id = (char *)(uintptr_t)task_of(f->it, "w2", 1);
    request.abandoned = 2;
    table_step(&f->t, &command);
    table_wait(&f->t, 0);
    update = watch_client(&f->t, "c1", f->it);
    assert_true(update->finished);
    assert_int_equal(update->end->abandoned, 42);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"42\""));
}

/* @unheard, if any, of @of, whose worker did not hear it. */
static void say_goodbye(struct fixture *f, const char *client, uint64_t elements, const char *of,
                        uint64_t unheard)
{
    Millrace__ReleaseClientRequest request = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_RELEASE_CLIENT, .release_client = &request};
    Millrace__Unheard one = MILLRACE__UNHEARD__INIT;
    Millrace__Unheard *list[] = {&one};

    request.client = (char *)(uintptr_t)id_of(client);
    request.iteration_id = f->it;
    request.abandoned = elements;
    request.unheard = list;
    request.n_unheard = unheard > 0 ? 1 : 0;
    one.task_id = (char *)(uintptr_t)of;
    one.elements = unheard;
    table_step(&f->t, &command);
}

static void leave_with(struct fixture *f, const char *client, uint64_t elements)
{
    say_goodbye(f, client, elements, NULL, 0);
}

/* Before the end, and after it; said twice it counts once, and who was given up may say it late. */
static void what_a_client_closes_with_is_in_the_record(void **state)
{
    struct fixture *f = *state;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c2", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c3", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    leave_with(f, "c1", 40);
    leave_with(f, "c1", 40);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"40\""));
    table_take_over(&f->t);
    assert_int_equal(end_task(&f->t, "w1", task_of(f->it, "w1", 1), MR_OK, ""), MR_OK);
    assert_int_equal(end_task(&f->t, "w2", task_of(f->it, "w2", 1), MR_OK, ""), MR_OK);
    table_wait(&f->t, 0);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"40\""));
    leave_with(f, "c2", 2);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"42\""));
    leave_with(f, "c3", 0);
    leave_with(f, "c3", 7);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"42\""));
}

static void end_with_holder(struct fixture *f, const char *worker, const char *client,
                            uint64_t elements)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};
    Millrace__Holder holder = MILLRACE__HOLDER__INIT;
    Millrace__Holder *list[] = {&holder};

    holder.client = (char *)(uintptr_t)id_of(client);
    holder.elements = elements;
    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = (char *)(uintptr_t)task_of(f->it, worker, 1);
    request.holders = list;
    request.n_holders = 1;
    table_step(&f->t, &command);
    table_step(&f->t, &command); /* a copy of it */
}

/* The end did not wait for readers that rested with elements: those who are given up later have
 * lost them, as the record says, under the next leader, too. What one says late is better known. */
static void what_a_client_held_at_the_end_is_lost_when_it_is_given_up(void **state)
{
    struct fixture *f = *state;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c2", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c3", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    end_with_holder(f, "w1", "c1", 40);
    table_take_over(&f->t);
    end_with_holder(f, "w2", "c2", 2);
    table_wait(&f->t, 0);
    assert_true(watch_client(&f->t, "c3", f->it)->finished);
    assert_null(strstr(table_get(&f->t, key), "abandoned")); /* they may use it */
    leave_with(f, "c3", 0);
    leave_with(f, "c2", 1);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"1\""));
    table_take_over(&f->t);
    table_wait(&f->t, 120000);
    table_wait(&f->t, 60000);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"41\""));
    leave_with(f, "c1", 30);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"31\""));
    leave_with(f, "c1", 30);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"31\""));
}

/* The worker had not heard that it was given up: what it says late is in place of that, too. */
static void what_a_client_that_was_given_up_held_is_counted_once(void **state)
{
    struct fixture *f = *state;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c2", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    for (int i = 0; i < 3; i++) { /* c1 says nothing */
        assert_int_equal(beat_client(&f->t, "c2", f->it, NULL), MR_OK);
        assert_int_equal(beat_worker(&f->t, "w1"), MR_OK);
        assert_int_equal(beat_worker(&f->t, "w2"), MR_OK);
        table_wait(&f->t, 50000);
    }
    assert_int_equal(counts_of(f).clients, 1);
    end_with_holder(f, "w1", "c1", 40);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"40\""));
    table_take_over(&f->t);
    leave_with(f, "c1", 30);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"30\""));
    leave_with(f, "c1", 30);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"30\""));
}

/* The first answer was lost with the leader, and the next one had to make the life of that worker
 * again. */
static void an_end_that_is_said_again_by_a_life_that_was_revived_counts_once(void **state)
{
    struct fixture *f = *state;
    char client[128], life[128];

    for (int is_gone = 0; is_gone < 2; is_gone++) {
        const char *worker = is_gone ? "w2" : "w1";

        open_it(f, "c1", is_gone ? "second" : "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
        (void)snprintf(client, sizeof client, "clients/%s", id_of("c1"));
        assert_int_equal(get_splits(&f->t, worker, task_of(f->it, worker, 1), 0, 1, 5), MR_OK);
        end_with_holder(f, worker, "c1", 40);
        (void)snprintf(life, sizeof life, "workers/%s", strchr(task_of(f->it, worker, 1), '/') + 1);
        assert_non_null(table_get(&f->t, life));
        if (is_gone) {
            table_delete(&f->t, life);
        } else {
            table_put(&f->t, life, "garbage");
        }
        table_take_over(&f->t);
        end_with_holder(f, worker, "c1", 40);
        assert_int_equal(the_reply(&f->t)->error.code, MR_ENOTFOUND);
        table_wait(&f->t, 0);
        add_worker(&f->t, worker, is_gone ? "b:2" : "a:2");
        end_with_holder(f, worker, "c1", 40);
        assert_non_null(strstr(table_get(&f->t, client), "\"held\":\"40\""));
    }
}

/* Two splits. */
static void lose(struct fixture *f, const char *worker, uint32_t provider)
{
    Millrace__GetSplitsRequest request = MILLRACE__GET_SPLITS_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_SPLITS, .get_splits = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = (char *)(uintptr_t)task_of(f->it, worker, 1);
    request.iteration_id = f->it;
    request.provider = provider;
    request.seq = 1;
    request.want = 2;
    table_step(&f->t, &command);
    assert_int_equal(splits(&f->t)->ranges[0]->count, 2);
    assert_int_equal(leave(&f->t, worker), MR_OK);
    table_wait(&f->t, 0);
}

/* A split of the second source may be any number of elements: as soon as one of those is lost
 * nobody knows how many. */
static void lost_elements_are_known_as_long_as_those_of_each_split_are(void **state)
{
    static const int64_t two[] = {10, 10};
    struct fixture *f = *state;
    const Millrace__IterationEnd *end;
    char key[128];

    assert_int_equal(put_dataset(&f->t, "pairs", "00000000000000000000000000000002", two, 2),
                     MR_OK);
    assert_int_equal(open_job(&f->t, (struct open_args){.client = "c1",
                                                        .dataset = "pairs",
                                                        .name = "pairs",
                                                        .dynamic = true}),
                     MR_OK);
    snprintf(f->it, sizeof f->it, "%s", opened(&f->t)->iteration_id);
    add_worker(&f->t, "w3", "c:1");
    lose(f, "w1", 0);
    table_take_over(&f->t);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    assert_non_null(strstr(table_get(&f->t, key), "\"lostSplits\":\"2\""));
    assert_non_null(strstr(table_get(&f->t, key), "\"lostElements\":\"2000\""));
    lose(f, "w2", 1);
    assert_int_equal(end_task(&f->t, "w3", task_of(f->it, "w3", 1), MR_OK, ""), MR_OK);
    table_wait(&f->t, 0);
    end = watch_client(&f->t, "c1", f->it)->end;
    assert_int_equal(end->lost_splits, 4);
    assert_int_equal(end->lost_elements, 0);
}

/* In an iteration that goes on: given up and back, it may use them after all. */
static void what_a_client_held_is_its_own_again_when_it_comes_back(void **state)
{
    struct fixture *f = *state;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c2", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    end_with_holder(f, "w1", "c1", 40);
    for (int i = 0; i < 3; i++) { /* c1 says nothing */
        assert_int_equal(beat_client(&f->t, "c2", f->it, NULL), MR_OK);
        assert_int_equal(beat_worker(&f->t, "w2"), MR_OK);
        table_wait(&f->t, 50000);
    }
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"40\""));
    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    assert_null(strstr(table_get(&f->t, key), "abandoned"));
    leave_with(f, "c1", 3);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"3\""));
}

/* The end of its task was on its way, from before that: what it has said of it is not counted
 * again. */
static void who_said_goodbye_before_the_end_came_is_not_counted_twice(void **state)
{
    struct fixture *f = *state;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c2", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    leave_with(f, "c1", 3);
    table_take_over(&f->t);
    end_with_holder(f, "w1", "c1", 40);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"3\""));
    end_with_holder(f, "w2", "c3", 5); /* whom nobody knows (any more) */
    table_wait(&f->t, 0);
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"8\""));
}

/* Of a worker that did not hear the goodbye what was not used is counted, and no more: whichever
 * comes first. */
static void what_a_worker_did_not_hear_of_is_counted_once(void **state)
{
    struct fixture *f = *state;
    char key[128];

    open_it(f, "c1", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    open_it(f, "c2", "first", MILLRACE__GUARANTEE__AT_MOST_ONCE);
    (void)snprintf(key, sizeof key, "iterations/%s", f->it);
    say_goodbye(f, "c1", 3, task_of(f->it, "w1", 1), 7);
    assert_non_null(
        strstr(table_get(&f->t, key), "\"abandoned\":\"3\"")); /* the worker may count it itself */
    table_take_over(&f->t);
    end_with_holder(f, "w1", "c1", 40);
    assert_non_null(strstr(table_get(&f->t, key), "\"abandoned\":\"10\""));
    end_with_holder(f, "w2", "c2", 30);
    table_wait(&f->t, 0);
    say_goodbye(f, "c2", 0, task_of(f->it, "w2", 1), 5); /* it has not heard of the end */
    assert_non_null(strstr(table_get(&f->t, key), "\"end\":{\"abandoned\":\"15\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(everything_is_counted_by_state),
        CASE(a_step_says_which_splits_it_moved),
        CASE(lost_elements_are_known_as_long_as_those_of_each_split_are),
        CASE(what_went_with_clients_is_in_the_end),
        CASE(what_a_client_closes_with_is_in_the_record),
        CASE(what_a_client_held_at_the_end_is_lost_when_it_is_given_up),
        CASE(what_a_client_that_was_given_up_held_is_counted_once),
        CASE(what_a_client_held_is_its_own_again_when_it_comes_back),
        CASE(an_end_that_is_said_again_by_a_life_that_was_revived_counts_once),
        CASE(who_said_goodbye_before_the_end_came_is_not_counted_twice),
        CASE(what_a_worker_did_not_hear_of_is_counted_once),
        CASE(active_jobs_come_first_and_those_without_a_name_share_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
