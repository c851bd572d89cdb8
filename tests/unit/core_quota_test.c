/* What an owner may have: jobs at work and datasets, his own and nobody else's, under each leader. */
#include "base/quota.h"
#include "core_support.h"
#include "dispatcher/model/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct mr_quota two = {.jobs = 2, .datasets = 2, .weight = 300};

static int setup(void **state)
{
    static struct table t;

    t = (struct table){.now = 0};
    table_open_usual(&t);
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    table_close(*state);
    return 0;
}

static int open_as(struct table *t, const char *owner, const char *client, const char *job)
{
    t->owner = owner;
    t->quota = &two;
    return open_job(t, (struct open_args){.client = client, .dataset = "numbers", .name = job});
}

static int put_as(struct table *t, const char *owner, const char *id)
{
    t->owner = owner;
    t->quota = &two;
    return put_dataset(t, id, id_of(id), (int64_t[]){10}, 1);
}

static void jobs_are_counted_by_owner(void **state)
{
    struct table *t = *state;

    assert_int_equal(open_as(t, "team-a", "c1", "one"), MR_OK);
    assert_int_equal(open_as(t, "team-a", "c2", "two"), MR_OK);
    assert_int_equal(open_as(t, "team-a", "c3", "three"), MR_EEXHAUSTED);
    assert_string_equal(
        the_reply(t)->error.message,
        "'team-a' has 2 jobs at work, and the quota allows 2: read one to its end, or delete "
        "it (millrace job delete), or have the quota of 'team-a' raised in the access file");
    assert_int_equal(the_reply(t)->error.traits & MR_RETRYABLE, 0);
    assert_int_equal(open_as(t, "team-a", "c4", ""), MR_EEXHAUSTED);
    assert_int_equal(open_as(t, "team-a", "c5", "two"), MR_OK); /* to join one is none more */
    assert_int_equal(open_as(t, "team-b", "c6", "three"), MR_OK);
    assert_int_equal(open_as(t, "team-a", "c7", "three"), MR_OK); /* team-b's */
    assert_int_equal(open_as(t, NULL, "c8", "four"), MR_OK);
    assert_int_equal(open_as(t, "", "c9", "five"), MR_OK);
}

static void what_has_ended_is_not_counted(void **state)
{
    struct table *t = *state;
    char iteration[64];

    assert_int_equal(open_as(t, "team-a", "c1", "one"), MR_OK);
    keep_id(iteration, opened(t)->iteration_id);
    assert_int_equal(open_as(t, "team-a", "c2", "two"), MR_OK);
    end_task(t, "w1", task_of(iteration, "w1", 1), MR_EDATALOSS, "it fails for all");
    assert_int_equal(release_client(t, "c1", iteration), MR_OK);
    assert_int_equal(open_as(t, "team-a", "c3", "three"), MR_OK);
    /* The first one is there, and would be at work again. */
    t->owner = "team-a";
    assert_int_equal(open_job(t, (struct open_args){.client = "c4",
                                                    .dataset = "numbers",
                                                    .name = "one",
                                                    .repetition = 1}),
                     MR_EEXHAUSTED);
}

static void the_next_leader_counts_on(void **state)
{
    struct table *t = *state;

    assert_int_equal(open_as(t, "team-a", "c1", "one"), MR_OK);
    assert_int_equal(open_as(t, "team-a", "c2", "two"), MR_OK);
    assert_int_equal(put_as(t, "team-a", "d1"), MR_OK);
    assert_int_equal(put_as(t, "team-a", "d2"), MR_OK);
    table_take_over(t);
    assert_int_equal(open_as(t, "team-a", "c3", "three"), MR_EEXHAUSTED);
    assert_int_equal(put_as(t, "team-a", "d3"), MR_EEXHAUSTED);
    assert_non_null(strstr(the_reply(t)->error.message, "'team-a' has 2 datasets"));
    assert_non_null(strstr(table_get(t, "jobs/one"), "\"owner\":\"team-a\",\"ownerWeight\":300"));
    assert_non_null(strstr(table_get(t, "datasets/d1"), "\"owner\":\"team-a\""));
}

static void datasets_are_counted_by_owner(void **state)
{
    struct table *t = *state;

    assert_int_equal(put_as(t, "team-a", "d1"), MR_OK);
    assert_int_equal(put_as(t, "team-a", "d2"), MR_OK);
    assert_int_equal(put_as(t, "team-a", "d3"), MR_EEXHAUSTED);
    assert_int_equal(put_as(t, "team-a", "d1"), MR_OK); /* it is there */
    assert_int_equal(put_as(t, "team-b", "d5"), MR_OK);
    t->quota = NULL;
    t->owner = "team-a";
    assert_int_equal(put_dataset(t, "d4", id_of("d4"), (int64_t[]){10}, 1), MR_OK);
}

/* Workers divide their cores by it. */
static void workers_are_told_whose_a_task_is(void **state)
{
    struct table *t = *state;
    const Millrace__WorkerUpdate *update;

    assert_int_equal(open_as(t, "team-a", "c1", "one"), MR_OK);
    update = (const Millrace__WorkerUpdate *)the_push(t, MR_EFFECT_PUSH_WORKER, id_of("w1"));
    assert_non_null(update);
    assert_int_equal(update->n_tasks, 1);
    assert_string_equal(update->tasks[0]->owner, "team-a");
    assert_int_equal(update->tasks[0]->owner_weight, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs_are_counted_by_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_ended_is_not_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(the_next_leader_counts_on, setup, teardown),
        cmocka_unit_test_setup_teardown(datasets_are_counted_by_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(workers_are_told_whose_a_task_is, setup, teardown),
    };

    return cmocka_run_group_tests_name("core_quota", tests, NULL, NULL);
}
