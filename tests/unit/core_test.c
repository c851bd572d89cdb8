/* The core, one command after the other: datasets, jobs, iterations, tasks. */
#include "core_support.h"

#include "base/buf.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t hundred[] = {100};

/* ---------------------------------------------------------------- datasets */

static void a_dataset_is_registered_once(void **state)
{
    struct table *t = *state;

    assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
    assert_int_equal(t->out.nchanges, 0);
    assert_int_equal(put_dataset(t, "numbers", FP2, hundred, 1), MR_EINVAL);
    assert_non_null(strstr(the_reply(t)->error.message, FP1));
    table_wait(t, 0); /* the parts that came along in vain go */
    assert_int_equal(table_count(t, "blobs/"), 1);
    assert_string_equal(
        table_get(t, "datasets/numbers"),
        "{\"id\":\"numbers\",\"fingerprint\":\"00000000000000000000000000000001\",\"compression\":"
        "\"AUTO\","
        "\"cardinality\":\"100\",\"providers\":[{\"splits\":\"100\",\"source\":\"range (step "
        "0)\",\"splitElements\":\"1000\"}],\"summary\":\"range > batch\","
        "\"spec\":\"c3BlYw==\",\"definitionSize\":\"10\",\"blob\":"
        "\"92ac8641a192b9f3b912a2a7b516ac83\",\"parts\":1,\"usedMs\":\"1700000000000\"}");
}

static int put_known(struct table *t, const char *id, const char *fingerprint)
{
    struct mr_dataset_register in = {
        .known = true, .dataset_id = id, .fingerprint = fingerprint, .compression = "AUTO"};
    struct mr_command command = {.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &in};

    table_step(t, &command);
    return the_reply(t)->error.code;
}

/* In place of a definition its content is enough, where it is known; and it is used, as if it had
 * come again. */
static void a_known_dataset_needs_no_definition(void **state)
{
    struct table *t = *state;

    assert_int_equal(put_known(t, "", FP2), MR_ENOTFOUND);
    assert_int_equal(table_count(t, "datasets/"), 1);
    assert_int_equal(put_dataset(t, "", FP2, hundred, 1), MR_OK);
    assert_int_equal(put_known(t, "", FP2), MR_OK);
    assert_string_equal(((const Millrace__RegisterDatasetReply *)the_reply(t)->message)->dataset_id,
                        FP2);
    assert_int_equal(put_known(t, "numbers", FP1), MR_OK);
    assert_int_equal(put_known(t, "numbers", FP2), MR_EINVAL);
    assert_int_equal(put_known(t, "others", FP2), MR_ENOTFOUND);
    assert_int_equal(put_known(t, "", "0000000000000000000000000000000000000002"), MR_EINVAL);
    assert_int_equal(table_count(t, "datasets/"), 2);
}

static void equal_content_without_a_name_is_one_dataset(void **state)
{
    struct table *t = *state;

    assert_int_equal(put_dataset(t, "", FP2, hundred, 1), MR_OK);
    assert_string_equal(((const Millrace__RegisterDatasetReply *)the_reply(t)->message)->dataset_id,
                        FP2);
    assert_int_equal(put_dataset(t, "", FP2, hundred, 1), MR_OK);
    assert_int_equal(table_count(t, "datasets/"), 2);
    assert_int_equal(put_dataset(t, FP1, FP2, hundred, 1), MR_EINVAL); /* somebody else's content */
}

static void a_named_dataset_shares_the_parts_of_its_content(void **state)
{
    struct table *t = *state;
    Millrace__GetDatasetRequest request = MILLRACE__GET_DATASET_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_DATASET, .get_dataset = &request};

    assert_int_equal(put_dataset(t, "other name", FP1, hundred, 1), MR_OK);
    assert_int_equal(table_count(t, "blobs/"), 1);
    /* And it is those that are counted, whatever size it has in the form that it came in. */
    assert_non_null(strstr(table_get(t, "datasets/other%20name"), "\"definitionSize\":\"10\""));
    request.dataset_id = (char *)(uintptr_t) "other name";
    request.want_definition = 1;
    table_step(t, &command);
    assert_string_equal(the_reply(t)->blob, id_of(FP1));
    assert_int_equal(the_reply(t)->parts, 1);
    request.dataset_id = (char *)(uintptr_t) "nothing";
    table_step(t, &command);
    assert_int_equal(the_reply(t)->error.code, MR_ENOTFOUND);
    assert_true(the_reply(t)->fenced);
}

static void unused_content_is_forgotten_and_names_are_not(void **state)
{
    struct table *t = *state;

    assert_int_equal(put_dataset(t, "", FP2, hundred, 1), MR_OK);
    table_wait(t, INT64_C(25) * 3600 * 1000);
    assert_null(table_get(t, "datasets/00000000000000000000000000000002"));
    assert_non_null(table_get(t, "datasets/numbers"));
}

/* ---------------------------------------------------------------- jobs */

static void readers_of_one_name_share_an_iteration(void **state)
{
    struct table *t = *state;
    char iteration[64];

    assert_int_equal(
        open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"}),
        MR_OK);
    keep_id(iteration, opened(t)->iteration_id);
    assert_false(opened(t)->finished);
    assert_int_equal(
        open_job(t, (struct open_args){.client = "c2", .dataset = "numbers", .name = "train"}),
        MR_OK);
    assert_string_equal(opened(t)->iteration_id, iteration);
    assert_int_equal(table_count(t, "clients/"), 2);
    assert_int_equal(
        open_job(t, (struct open_args){.client = "c2", .dataset = "numbers", .name = "train"}),
        MR_OK); /* repeated: nothing to write */
    assert_int_equal(t->out.nchanges, 0);
    assert_true(the_reply(t)->fenced);
    assert_int_equal(
        open_job(t, (struct open_args){.client = "c3", .dataset = "numbers", .name = "eval"}),
        MR_OK);
    assert_string_not_equal(opened(t)->iteration_id, iteration);
    assert_int_equal(open_job(t, (struct open_args){.client = "c4", .dataset = "numbers"}), MR_OK);
    assert_int_equal(open_job(t, (struct open_args){.client = "c5", .dataset = "numbers"}), MR_OK);
    assert_int_equal(table_count(t, "jobs/"), 4);
}

static void who_joins_must_mean_the_same_job(void **state)
{
    struct table *t = *state;

    assert_int_equal(put_dataset(t, "others", FP2, hundred, 1), MR_OK);
    assert_int_equal(
        open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"}),
        MR_OK);
    assert_int_equal(open_job(t, (struct open_args){.client = "c2",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .dynamic = true}),
                     MR_EINVAL);
    assert_string_equal(the_reply(t)->error.message,
                        "job 'train' differs in processing mode, which needs another job_name: "
                        "existing {OFF, AUTO, dataset "
                        "'numbers'}, requested {DYNAMIC, AUTO, dataset 'numbers'}");
    assert_int_equal(open_job(t, (struct open_args){.client = "c2",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .target = "any"}),
                     MR_EINVAL);
    assert_non_null(strstr(the_reply(t)->error.message, "target workers"));
    assert_int_equal(
        open_job(t, (struct open_args){.client = "c2", .dataset = "others", .name = "train"}),
        MR_EINVAL);
    assert_non_null(strstr(the_reply(t)->error.message, "dataset"));
    assert_int_equal(table_count(t, "clients/"), 1);
}

static void a_wrong_wish_changes_nothing(void **state)
{
    struct table *t = *state;

    assert_int_equal(
        open_job(t, (struct open_args){.client = "c1", .dataset = "nothing", .name = "train"}),
        MR_ENOTFOUND);
    assert_non_null(strstr(the_reply(t)->error.message, "'nothing'"));
    assert_int_equal(
        open_job(t,
                 (struct open_args){.client = "c1", .dataset = "numbers", .name = "bad \xff name"}),
        MR_EINVAL);
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .target = "LOCAL"}),
                     MR_EINVAL);
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .guarantee = 7}),
                     MR_EINVAL);
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .job_id = "5.99"}),
                     MR_ENOTFOUND);
    assert_int_equal(table_count(t, "jobs/"), 0);
}

static void an_ended_repetition_is_never_run_again(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep_id(iteration, opened(t)->iteration_id);
    assert_int_equal(end_task(t, "w1", task_of(iteration, "w1", 1), 0, NULL), MR_OK);
    const Millrace__ClientUpdate *end =
        (const void *)the_push(t, MR_EFFECT_PUSH_ITERATION, iteration);

    assert_non_null(end);
    assert_true(end->finished);
    assert_int_equal(end->end->lost_workers, 0);
    open_job(t, (struct open_args){.client = "c2", .dataset = "numbers", .name = "train"});
    assert_true(opened(t)->finished);
    release_client(t, "c1", iteration);
    table_wait(t, 3600 * 1000); /* the record goes, the job remembers */
    assert_int_equal(table_count(t, "iterations/"), 0);
    assert_int_equal(table_count(t, "tasks/"), 0);
    table_take_over(t);
    open_job(t, (struct open_args){.client = "c3", .dataset = "numbers", .name = "train"});
    assert_true(opened(t)->finished);
    assert_true(opened(t)->ended_ms >= 3600 * 1000);
    assert_true(the_reply(t)->fenced);
    open_job(t, (struct open_args){
                    .client = "c3", .dataset = "numbers", .name = "train", .repetition = 1});
    assert_false(opened(t)->finished);
}

static void an_anonymous_job_goes_with_its_client(void **state)
{
    struct table *t = *state;
    char iteration[64], job[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    keep_id(job, opened(t)->job_id);
    get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 1, 0);
    release_client(t, "c1", iteration);
    const Millrace__WorkerUpdate *update =
        (const void *)the_push(t, MR_EFFECT_PUSH_WORKER, id_of("w1"));

    assert_non_null(update);
    assert_int_equal(update->n_tasks, 0);
    assert_int_equal(update->n_dropped, 1);
    assert_int_equal(update->n_released_clients, 1);
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .dynamic = true,
                                                    .job_id = job}),
                     MR_ENOTFOUND);
    table_wait(t, 0);
    assert_int_equal(table_count(t, "jobs/"), 0);
    assert_int_equal(table_count(t, "iterations/"), 0);
    assert_int_equal(table_count(t, "grants/"), 0);
    assert_int_equal(table_count(t, "cursors/"), 0);
    assert_int_equal(table_count(t, "clients/"), 0);
}

/* ---------------------------------------------------------------- tasks */

static void each_worker_has_a_task_of_each_open_iteration(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep_id(iteration, opened(t)->iteration_id);
    assert_int_equal(watch_client(t, "c1", iteration)->n_tasks, 1);
    add_worker(t, "w2", "b:1"); /* late, and still served */
    const Millrace__ClientUpdate *update =
        (const void *)the_push(t, MR_EFFECT_PUSH_ITERATION, iteration);

    assert_non_null(update);
    assert_int_equal(update->n_tasks, 1); /* what is new */
    assert_true(update->follows > 0);
    assert_string_equal(update->tasks[0]->worker_address, "b:1");
    assert_int_equal(watch_client(t, "c1", iteration)->n_tasks, 2);
    assert_int_equal(watch_worker(t, "w2")->n_tasks, 1);
    assert_int_equal(watch_worker(t, "w2")->tasks[0]->seed, 4711);
    assert_int_equal(table_count(t, "tasks/"), 0); /* derived */
    end_task(t, "w1", task_of(iteration, "w1", 1), 0, NULL);
    assert_int_equal(table_count(t, "tasks/"), 1);
    assert_false(watch_client(t, "c1", iteration)->finished);
    table_take_over(t);
    assert_int_equal(watch_client(t, "c1", iteration)->n_tasks, 2);
    uint64_t version = watch_client(t, "c1", iteration)->version;

    add_worker(t, "w3", "c:1"); /* what changes follows on the list of the new leader, too */
    update = (const void *)the_push(t, MR_EFFECT_PUSH_ITERATION, iteration);
    assert_true(version > 0);
    assert_int_equal(update->follows, version);
    end_task(t, "w3", task_of(iteration, "w3", 1), 0, NULL);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 0);
    end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL);
    assert_true(watch_client(t, "c1", iteration)->finished);
    assert_int_equal(end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL), MR_OK); /* repeated */
}

/* What follows on nothing would be a complete list: readers would close all tasks that did not
 * change. */
static void changes_follow_on_what_a_watch_began_with(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep_id(iteration, opened(t)->iteration_id);
    table_take_over(t);
    for (int i = 0; i < 2; i++) {
        uint64_t version = watch_client(t, "c1", iteration)->version;

        add_worker(t, i == 0 ? "w2" : "w3", i == 0 ? "b:1" : "c:1");
        const Millrace__ClientUpdate *update =
            (const void *)the_push(t, MR_EFFECT_PUSH_ITERATION, iteration);

        assert_non_null(update);
        assert_int_equal(update->n_tasks, 1);
        assert_int_not_equal(update->follows, 0);
        assert_int_equal(update->follows, version);
    }
}

static void a_failed_task_ends_the_iteration_with_its_error(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep_id(iteration, opened(t)->iteration_id);
    end_task(t, "w1", task_of(iteration, "w1", 1), MR_EDATALOSS, "x.tfrecord at 17:\ncorrupt \xc3");
    table_take_over(t);
    const Millrace__ClientUpdate *update = watch_client(t, "c1", iteration);

    assert_true(update->finished);
    assert_int_equal(update->end->error_code, MR_EDATALOSS);
    assert_string_equal(update->end->error, "worker a:1: x.tfrecord at 17: corrupt ?");
}

static void a_new_process_supersedes_the_old_one_at_its_address(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep_id(iteration, opened(t)->iteration_id);
    assert_int_equal(add_worker(t, "w2", "a:1"), MR_OK);
    table_wait(t, 0);
    const Millrace__ClientUpdate *update = watch_client(t, "c1", iteration);

    assert_int_equal(update->n_tasks, 2);
    assert_true(update->tasks[0]->lost);
    assert_false(update->tasks[1]->lost);
    assert_int_equal(beat_worker(t, "w1"), MR_EPRECOND);
    assert_int_equal(add_worker(t, "w1", "a:1"),
                     MR_EPRECOND); /* late, or two claim one name: the newer one stays */
    table_take_over(t);
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_EPRECOND);
    assert_int_equal(beat_worker(t, "w2"), MR_OK);
    end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL);
    update = watch_client(t, "c1", iteration);
    assert_true(update->finished);
    assert_int_equal(update->end->lost_workers, 1);
    /* Nor when the newer one has gone: that one has this address now, and who was superseded
     * exits. */
    assert_int_equal(leave(t, "w2"), MR_OK);
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_EPRECOND);
    assert_int_equal(add_worker(t, "w1", "b:1"), MR_EPRECOND);
    assert_int_equal(add_worker(t, "w3", "a:1"), MR_OK);
}

/* ---------------------------------------------------------------- status */

static void status_shows_what_there_is_and_no_capability(void **state)
{
    struct table *t = *state;
    const char *const dispatchers[] = {"d0:5050", "d1:5050"};
    struct mr_status_about about = {"prod", "abc", "d0:5050", "0.1.0", dispatchers, 2, 5000, 0};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    const char *json;

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    get_splits(t, "w1", task_of(opened(t)->iteration_id, "w1", 1), 0, 1, 4);
    table_step(t, &command);
    json = ((const Millrace__StatusReply *)the_reply(t)->message)->json;
    assert_non_null(strstr(json, "\"dispatchers\":[\"d0:5050\",\"d1:5050\"]"));
    assert_non_null(strstr(json, "\"name\":\"train\""));
    assert_non_null(strstr(json, "\"next\":\"4\""));
    assert_null(strstr(json, id_of("c1")));
    assert_null(strstr(json, id_of("w1")));
    assert_null(strstr(json, "storeSilentMs"));
    assert_false(the_reply(t)->from_memory);
    about.store_silent_ms = 3000; /* Then it proves nothing, and says so. */
    table_step(t, &command);
    assert_non_null(strstr(((const Millrace__StatusReply *)the_reply(t)->message)->json,
                           "\"storeSilentMs\":\"3000\""));
    assert_true(the_reply(t)->from_memory);
}

/* A job is for who may write; its repetitions are for who reads, too. */
static void who_may_only_attach_starts_no_job(void **state)
{
    struct table *t = *state;
    struct open_args reader = {
        .client = "c1", .dataset = "numbers", .name = "train", .attach_only = true};
    struct open_args writer = {.client = "c2", .dataset = "numbers", .name = "train"};
    struct open_args nameless = {.client = "c3", .dataset = "numbers", .attach_only = true};

    assert_int_equal(open_job(t, reader), MR_EPERM);
    assert_string_equal(the_reply(t)->error.message,
                        "there is no job 'train', and starting one takes the role write");
    assert_int_equal(t->out.nchanges, 0);
    assert_int_equal(open_job(t, nameless), MR_EPERM);
    assert_string_equal(the_reply(t)->error.message, "starting a job takes the role write");
    assert_int_equal(open_job(t, writer), MR_OK);
    assert_int_equal(open_job(t, reader), MR_OK);
    reader.client = "c4";
    reader.repetition = 1;
    assert_int_equal(open_job(t, reader), MR_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, core_setup, core_teardown)
    const struct CMUnitTest tests[] = {
        T(a_dataset_is_registered_once),
        T(a_known_dataset_needs_no_definition),
        T(equal_content_without_a_name_is_one_dataset),
        T(a_named_dataset_shares_the_parts_of_its_content),
        T(unused_content_is_forgotten_and_names_are_not),
        T(readers_of_one_name_share_an_iteration),
        T(who_may_only_attach_starts_no_job),
        T(who_joins_must_mean_the_same_job),
        T(a_wrong_wish_changes_nothing),
        T(an_ended_repetition_is_never_run_again),
        T(an_anonymous_job_goes_with_its_client),
        T(each_worker_has_a_task_of_each_open_iteration),
        T(changes_follow_on_what_a_watch_began_with),
        T(a_failed_task_ends_the_iteration_with_its_error),
        T(a_new_process_supersedes_the_old_one_at_its_address),
        T(status_shows_what_there_is_and_no_capability),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
