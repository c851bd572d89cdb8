/* Which jobs share a production: who joins which, when it is decided, and what each is told. */
#include "core_sharing_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---------------------------------------------------------------- one production */

static void the_first_job_makes_a_production(void **state)
{
    struct fixture *f = *state;
    const Millrace__TaskAssignment *a;

    open_shared(f, "numbers", "a", f->a);
    snprintf(f->production, sizeof f->production, "%s", production_of(f, f->a));
    assert_true(record_says(f, "productions/", f->production, f->a));
    assert_true(record_says(f, "iterations/", f->a, f->production));
    assert_non_null(strstr(table_get(&f->t, "schema"), "sharing"));

    a = assignment_of(f, "w1", f->a);
    assert_false(a->producing || a->joining || a->unread);
    assert_int_equal(a->n_providers, 0);
    a = assignment_of(f, "w1", f->production); /* its hidden iteration has its id */
    assert_true(a->producing);
    assert_string_equal(a->production, f->production);
    assert_string_equal(a->dataset_id, "numbers");
    assert_int_equal(a->n_providers, 1);
    assert_string_equal(a->job_id, "");

    produce(f, "w1", 1);
    assert_int_equal(get_splits(&f->t, "w1", task_of(f->a, "w1", 1), 0, 1, 10), MR_EINVAL);
}

static void a_worker_is_told_of_both_tasks_at_once(void **state)
{
    struct fixture *f = *state;
    const Millrace__WorkerUpdate *update;

    open_shared(f, "numbers", "a", f->a);
    update = (const Millrace__WorkerUpdate *)the_push(&f->t, MR_EFFECT_PUSH_WORKER, id_of("w2"));
    assert_non_null(update);
    assert_int_equal(update->n_tasks, 2);
    assert_true(update->tasks[0]->producing != update->tasks[1]->producing);
    assert_false(update->tasks[0]->unread || update->tasks[1]->unread);
}

static void a_second_job_shares_when_every_worker_has_the_start(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    assert_true(record_says(f, "iterations/", f->b, "\"joining\":true"));
    answer(f, "w1", f->b, 0, NULL);
    assert_true(is_joining(f, f->b));
    answer(f, "w2", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
    assert_string_equal(production_of(f, f->b), f->production);
    assert_int_equal(table_count(&f->t, "productions/"), 1);
    assert_true(record_says(f, "productions/", f->production, f->b));
    assert_false(record_says(f, "iterations/", f->b, "joining"));
}

static void who_joins_is_pushed_to_the_workers(void **state)
{
    struct fixture *f = *state;
    const Millrace__WorkerUpdate *update;
    struct mr_command timer = {.kind = MR_COMMAND_TIMER};

    open_two(f);
    answer(f, "w1", f->b, 0, NULL);
    table_wait(&f->t, 0);
    answer(f, "w2", f->b, 0, NULL);
    table_step(&f->t, &timer);
    update = (const Millrace__WorkerUpdate *)the_push(&f->t, MR_EFFECT_PUSH_WORKER, id_of("w1"));
    assert_non_null(update);
    assert_int_equal(update->n_tasks, 1);
    assert_string_equal(update->tasks[0]->iteration_id, f->b);
    assert_false(update->tasks[0]->joining);
}

static void a_trimmed_start_makes_a_production_of_its_own(void **state)
{
    struct fixture *f = *state;
    char third[64];

    open_two(f);
    answer(f, "w1", f->b, 0, NULL);
    answer(f, "w2", f->b, 7, NULL);
    expect_apart(f, "below element 7");
    assert_false(record_says(f, "productions/", f->production, f->b));
    assert_true(record_says(f, "productions/", f->production, "closed"));
    assert_true(assignment_of(f, "w1", production_of(f, f->b))->producing);

    open_shared(f, "numbers", "c", third); /* the one that others refused is not asked for again */
    assert_true(is_joining(f, third));
    assert_string_not_equal(production_of(f, third), f->production);
}

static void a_worker_that_refuses_is_named(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    answer(f, "w1", f->b, 0, "the pipeline failed:\nno such file");
    expect_apart(f, "worker a:1 refuses: the pipeline failed: no such file");
}

static void a_worker_that_says_nothing_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    answer(f, "w1", f->b, 0, NULL);
    table_wait(&f->t, 9900);
    assert_true(is_joining(f, f->b));
    table_wait(&f->t, 200);
    expect_apart(f, "worker b:1 did not say");
    assert_false(record_says(f, "productions/", f->production,
                             "closed")); /* it may have been this one's link */
}

static void splits_that_went_with_a_worker_are_not_shared(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    produce(f, "w2", 1);
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    answer(f, "w1", f->b, 0, NULL);
    expect_apart(f, "lost up to");
    assert_false(
        record_says(f, "iterations/", f->b, "lostWorkers")); /* nothing of its own is lost */
    open_shared(f, "numbers", "c", f->a);
    assert_true(is_joining(f, f->a)); /* b's production is whole */
}

static void a_worker_that_had_nothing_is_not_missed(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    produce(f, "w1", 1);
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    answer(f, "w1", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
    assert_string_equal(production_of(f, f->b), f->production);
    assert_false(record_says(f, "iterations/", f->b, "lostWorkers"));
}

static void a_worker_that_comes_meanwhile_is_asked_too(void **state)
{
    struct fixture *f = *state;

    open_two(f);
    add_worker(&f->t, "w3", "c:1");
    answer(f, "w1", f->b, 0, NULL);
    answer(f, "w2", f->b, 0, NULL);
    assert_true(is_joining(f, f->b));
    answer(f, "w3", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
}

static void what_a_worker_that_drains_makes_cannot_be_joined(void **state)
{
    struct fixture *f = *state;

    open_shared(f, "numbers", "a", f->a);
    snprintf(f->production, sizeof f->production, "%s", production_of(f, f->a));
    assert_int_equal(say_draining(&f->t, "w2"), MR_OK);
    open_shared(f, "numbers", "b", f->b);
    assert_null(assignment_of(f, "w2", f->b));
    answer(f, "w1", f->b, 0, NULL);
    expect_apart(f, "is on a worker that drains");
    table_take_over(&f->t);
    open_shared(f, "numbers", "c", f->a); /* w2 has no part in b's */
    answer(f, "w1", f->a, 0, NULL);
    assert_false(is_joining(f, f->a));
    assert_string_equal(production_of(f, f->a), production_of(f, f->b));
}

static void copies_on_every_worker_are_shared_whoever_is_lost(void **state)
{
    struct fixture *f = *state;
    struct open_args args = {.client = "a",
                             .dataset = "numbers",
                             .name = "a",
                             .sharing = MILLRACE__SHARING__SHARING_AUTO};

    assert_int_equal(open_job(&f->t, args), MR_OK);
    snprintf(f->a, sizeof f->a, "%s", opened(&f->t)->iteration_id);
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    args.client = args.name = "b";
    assert_int_equal(open_job(&f->t, args), MR_OK);
    snprintf(f->b, sizeof f->b, "%s", opened(&f->t)->iteration_id);
    answer(f, "w1", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
    assert_int_equal(table_count(&f->t, "productions/"), 1);
}

static void what_never_ends_is_joined_at_once(void **state)
{
    struct fixture *f = *state;

    open_shared(f, "endless", "a", f->a);
    open_shared(f, "endless", "b", f->b);
    assert_false(is_joining(f, f->b));
    assert_string_equal(production_of(f, f->a), production_of(f, f->b));
    assert_int_equal(table_count(&f->t, "productions/"), 1);
}

static void other_repetitions_modes_and_contents_are_not_shared(void **state)
{
    static const int64_t hundred[] = {100};
    struct fixture *f = *state;
    struct open_args args = {.client = "b",
                             .dataset = "numbers",
                             .name = "b",
                             .dynamic = true,
                             .sharing = MILLRACE__SHARING__SHARING_AUTO,
                             .repetition = 1};

    open_shared(f, "numbers", "a", f->a);
    assert_int_equal(open_job(&f->t, args), MR_OK);
    args = (struct open_args){.client = "c",
                              .dataset = "numbers",
                              .name = "c",
                              .sharing = MILLRACE__SHARING__SHARING_AUTO};
    assert_int_equal(open_job(&f->t, args), MR_OK);
    open_shared(f, "endless", "d", f->b);
    args = (struct open_args){
        .client = "e", .dataset = "numbers", .name = "e", .dynamic = true, .trainer = "t"};
    assert_int_equal(open_job(&f->t, args), MR_OK);
    assert_int_equal(table_count(&f->t, "productions/"), 5);
    assert_int_equal(
        open_job(&f->t, (struct open_args){.client = "f", .dataset = "numbers", .name = "f"}),
        MR_OK);
    assert_int_equal(table_count(&f->t, "productions/"), 5);

    /* Another name for the same content makes no difference. */
    assert_int_equal(put_dataset(&f->t, "alias", FP1, hundred, 1), MR_OK);
    open_shared(f, "alias", "g", f->b);
    assert_true(is_joining(f, f->b));
    assert_int_equal(table_count(&f->t, "productions/"), 5);
}

/* ---------------------------------------------------------------- CrossTrainerCache */

static int open_trainer(struct fixture *f, const char *client, const char *job, const char *trainer)
{
    return open_job(&f->t, (struct open_args){.client = client,
                                              .dataset = "endless",
                                              .name = job,
                                              .dynamic = true,
                                              .trainer = trainer});
}

static void trainers_of_one_name_share(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_trainer(f, "c1", "Train", "t1"), MR_OK);
    snprintf(f->a, sizeof f->a, "%s", opened(&f->t)->iteration_id);
    assert_non_null(table_get(&f->t, "jobs/%54rain+t1"));
    assert_int_equal(open_trainer(f, "c2", "Train", "t1"), MR_OK);
    assert_string_equal(opened(&f->t)->iteration_id, f->a); /* one trainer is one cursor */
    assert_int_equal(open_trainer(f, "c3", "Train", "t2"), MR_OK);
    snprintf(f->b, sizeof f->b, "%s", opened(&f->t)->iteration_id);
    assert_string_not_equal(f->a, f->b);
    assert_string_equal(production_of(f, f->a), production_of(f, f->b));
    assert_int_equal(open_trainer(f, "c4", "other", "t1"), MR_OK);
    snprintf(f->b, sizeof f->b, "%s", opened(&f->t)->iteration_id);
    assert_string_not_equal(production_of(f, f->b), production_of(f, f->a));
    table_take_over(&f->t);
    assert_int_equal(delete_job(&f->t, "Train+t1"), MR_OK);
    assert_null(table_get(&f->t, "jobs/%54rain+t1"));
    assert_non_null(table_get(&f->t, "jobs/%54rain+t2"));
    assert_int_equal(open_trainer(f, "c5", "Train", "t3"), MR_OK);
    assert_int_equal(delete_job(&f->t, "Train"), MR_OK);
    assert_int_equal(table_count(&f->t, "jobs/%54rain"), 0);
    assert_int_equal(table_count(&f->t, "jobs/"), 1);
}

static void a_name_has_trainers_or_has_none(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_trainer(f, "c1", "train", "t1"), MR_OK);
    assert_int_equal(open_trainer(f, "c2", "train", NULL), MR_EINVAL);
    assert_string_equal(
        the_reply(&f->t)->error.message,
        "job 'train' differs in CrossTrainerCache: existing enabled, requested disabled");
    assert_int_equal(open_trainer(f, "c3", "plain", NULL), MR_OK);
    assert_int_equal(open_trainer(f, "c4", "plain", "t1"), MR_EINVAL);
    assert_string_equal(
        the_reply(&f->t)->error.message,
        "job 'plain' differs in CrossTrainerCache: existing disabled, requested enabled");
    assert_int_equal(open_job(&f->t, (struct open_args){.client = "c5",
                                                        .dataset = "endless",
                                                        .name = "train",
                                                        .trainer = "t2"}),
                     MR_EINVAL);
    assert_non_null(strstr(the_reply(&f->t)->error.message, "processing mode"));
    assert_int_equal(open_trainer(f, "c6", "", "t1"), MR_EINVAL);
    for (int i = 0; i < 63; i++) {
        char name[16];

        snprintf(name, sizeof name, "more%d", i);
        assert_int_equal(open_trainer(f, name, "train", name), MR_OK);
    }
    assert_int_equal(open_trainer(f, "c7", "train", "one too many"), MR_EEXHAUSTED);
    assert_int_equal(delete_job(&f->t, "train"), MR_OK);
    table_wait(&f->t, 10);
    assert_int_equal(table_count(&f->t, "productions/"), 0);
}

static void what_cannot_be_shared_says_why(void **state)
{
    struct fixture *f = *state;
    struct open_args args = {.client = "a",
                             .dataset = "numbers",
                             .name = "a",
                             .dynamic = true,
                             .guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE,
                             .sharing = MILLRACE__SHARING__SHARING_AUTO};

    assert_int_equal(open_job(&f->t, args), MR_OK);
    assert_non_null(strstr(opened(&f->t)->unshared, "at_least_once"));
    assert_int_equal(table_count(&f->t, "productions/"), 0);
    assert_true(record_says(f, "jobs/", "a", "unshared"));
    table_take_over(&f->t);
    args.client = "a2";
    assert_int_equal(open_job(&f->t, args), MR_OK);
    assert_non_null(strstr(opened(&f->t)->unshared, "at_least_once"));

    args.client = args.name = "b";
    args.sharing = 0;
    args.trainer = "t1";
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
    args.guarantee = 0;
    args.sharing = MILLRACE__SHARING__SHARING_AUTO;
    assert_int_equal(open_job(&f->t, args), MR_EINVAL); /* either */
    args.trainer = NULL;
    args.sharing = 7;
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
    args.sharing = MILLRACE__SHARING__SHARING_AUTO;
    args.lag = 7;
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
    args.sharing = 0;
    args.lag = MILLRACE__LAG__LAG_WAIT;
    assert_int_equal(open_job(&f->t, args), MR_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sharing_setup, sharing_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_job_makes_a_production),
        TEST(a_worker_is_told_of_both_tasks_at_once),
        TEST(a_second_job_shares_when_every_worker_has_the_start),
        TEST(who_joins_is_pushed_to_the_workers),
        TEST(a_trimmed_start_makes_a_production_of_its_own),
        TEST(a_worker_that_refuses_is_named),
        TEST(a_worker_that_says_nothing_is_not_waited_for),
        TEST(splits_that_went_with_a_worker_are_not_shared),
        TEST(a_worker_that_had_nothing_is_not_missed),
        TEST(a_worker_that_comes_meanwhile_is_asked_too),
        TEST(what_a_worker_that_drains_makes_cannot_be_joined),
        TEST(copies_on_every_worker_are_shared_whoever_is_lost),
        TEST(what_never_ends_is_joined_at_once),
        TEST(other_repetitions_modes_and_contents_are_not_shared),
        TEST(trainers_of_one_name_share),
        TEST(a_name_has_trainers_or_has_none),
        TEST(what_cannot_be_shared_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
