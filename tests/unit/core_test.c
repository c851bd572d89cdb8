/* The core, one command after the other: datasets, jobs, iterations, tasks, splits, time,
 * takeover. */
#include "core_support.h"

#include "base/buf.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t hundred[] = {100};
static const char FP1[] = "00000000000000000000000000000001";
static const char FP2[] = "00000000000000000000000000000002";

static int setup(void **state)
{
    struct table *t = mr_calloc(1, sizeof *t);

    table_open(t, NULL);
    *state = t;
    assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
    return 0;
}

static int teardown(void **state)
{
    table_close(*state);
    mr_free(*state);
    return 0;
}

static void keep(char *out, const char *id)
{
    snprintf(out, 64, "%s", id);
}

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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
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

/* ---------------------------------------------------------------- splits */

static bool is_awaited(struct table *t, const char *address)
{
    bool awaited;

    assert_non_null(mr_core_worker_at(t->core, address, &awaited));
    return awaited;
}

/* Just after a takeover nobody is connected: a live worker's place is kept until it has come back,
 * or has not. */
static void who_lived_before_a_takeover_is_awaited(void **state)
{
    struct table *t = *state;

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    add_worker(t, "w3", "c:1");
    assert_false(is_awaited(t, "a:1"));
    table_take_over(t);
    assert_int_equal(add_worker(t, "w4", "d:1"), MR_OK);
    assert_false(is_awaited(t, "d:1"));
    (void)watch_worker(t, "w2");
    assert_false(is_awaited(t, "b:1")); /* From now on its stream says whether it is there. */
    table_wait(t, 20 * 1000);
    assert_int_equal(beat_worker(t, "w1"), MR_OK); /* It is about to watch. */
    assert_true(is_awaited(t, "c:1"));
    table_wait(t, 20 * 1000); /* more than half a worker timeout in all */
    assert_int_equal(beat_worker(t, "w4"), MR_OK);
    assert_false(is_awaited(t, "c:1"));
    assert_true(is_awaited(t, "a:1"));
}

/* After a takeover all of them come at once. And it is first contact: a leader that was deposed
 * must not capture it. */
static void a_worker_that_finds_the_next_leader_writes_nothing(void **state)
{
    struct table *t = *state;

    add_worker(t, "w1", "a:1");
    assert_true(the_reply(t)->fenced);
    table_take_over(t);
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK);
    assert_true(the_reply(t)->fenced);
    assert_int_equal(t->out.nchanges, 0);
}

static void grants_are_larger_when_the_store_must_be_spared(void **state)
{
    struct table *t = *state;
    char iteration[64], w1[128];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    snprintf(w1, sizeof w1, "%s", task_of(iteration, "w1", 1));
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 4), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->count, 4);
    t->grant_ms = 3 * MR_GRANT_MS;
    assert_int_equal(get_splits(t, "w1", w1, 0, 2, 4), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->count, 12);
}

/* That somebody is gone could not be written down. */
static void nobody_is_given_up_while_the_store_is_full(void **state)
{
    struct table *t = *state;

    add_worker(t, "w1", "a:1");
    t->full = true;
    table_wait(t, 200 * 1000);
    assert_int_equal(beat_worker(t, "w1"), MR_OK);
    t->full = false;
    table_wait(t, 200 * 1000);
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
}

static void splits_are_answered_by_number(void **state)
{
    struct table *t = *state;
    char iteration[64], w1[128], w2[128];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    snprintf(w1, sizeof w1, "%s", task_of(iteration, "w1", 1));
    snprintf(w2, sizeof w2, "%s", task_of(iteration, "w2", 1));
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 10), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    assert_int_equal(splits(t)->ranges[0]->count, 10);
    assert_int_equal(get_splits(t, "w2", w2, 0, 1, 0), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 10);
    assert_int_equal(splits(t)->ranges[0]->count, 8); /* unmeasured: little at first */
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 99), MR_OK);
    assert_int_equal(t->out.nchanges, 0);
    assert_int_equal(splits(t)->ranges[0]->first,
                     0); /* the same answer again, under the next leader too */
    table_take_over(t);
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 99), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    assert_int_equal(splits(t)->ranges[0]->count, 10);
    assert_int_equal(get_splits(t, "w1", w1, 0, 2, 1000), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 18);
    assert_int_equal(splits(t)->ranges[0]->count,
                     21); /* ceil(82 / 4): the others must not run dry */
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 99), MR_ERANGE);
    assert_int_equal(get_splits(t, "w2", w1, 0, 3, 1), MR_EPRECOND); /* somebody else's task */
    assert_int_equal(get_splits(t, "w1", w1, UINT64_MAX, 3, 1), MR_EINVAL);
    assert_int_equal(get_splits(t, "w1", w1, 0, 4, 1),
                     MR_EPRECOND); /* whose answers are those? The task is closed */
    assert_int_equal(get_splits(t, "w1", w1, 0, 3, 1), MR_EPRECOND);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 0);
}

static void repetitions_of_a_source_are_shared(void **state)
{
    struct table *t = *state;
    const int64_t three[] = {3};
    char iteration[64], w1[128], w2[128];

    put_dataset(t, "three", FP2, three, 1);
    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "three", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    snprintf(w1, sizeof w1, "%s", task_of(iteration, "w1", 1));
    snprintf(w2, sizeof w2, "%s", task_of(iteration, "w2", 1));
    for (uint64_t seq = 1; seq <= 3; seq++) {
        get_splits(t, "w1", w1, 0, seq, 5);
        assert_int_equal(splits(t)->ranges[0]->first, seq - 1);
        assert_int_equal(splits(t)->ranges[0]->count, 1);
    }
    get_splits(t, "w1", w1, 0, 4, 5);
    assert_true(splits(t)->end);
    assert_true(the_reply(t)->fenced);
    get_splits(t, "w2", w2, 0, 1, 5); /* it got none of the first */
    assert_true(splits(t)->end);
    get_splits(t, "w2", w2, 1, 2, 5);
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    get_splits(t, "w1", w1, 3, 5,
               5); /* went on early: 2 of repetition 1 and all 3 of 2 are dropped */
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    get_splits(t, "w2", w2, 1, 3, 5);
    assert_true(splits(t)->end);
    char key[128];

    snprintf(key, sizeof key, "cursors/%s/0", iteration);
    assert_string_equal(table_get(t, key),
                        "{\"repetition\":\"3\",\"next\":\"1\",\"dropped\":\"5\"}");
}

static void what_a_lost_worker_held_is_counted_and_not_given_again(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 1, 25);
    for (int i = 0; i < 61; i++) {
        table_wait(t, 1000);
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, NULL);
    }
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
    assert_int_equal(get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 2, 25), MR_ENOTFOUND);
    assert_true(watch_client(t, "c1", iteration)->tasks[0]->lost);
    assert_int_equal(add_worker(t, "w1", "a:1"),
                     MR_OK); /* it comes back: another life, a fresh task */
    assert_int_equal(get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 2, 25), MR_EPRECOND);
    assert_int_equal(get_splits(t, "w1", task_of(iteration, "w1", 2), 0, 1, 0), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 25);
    table_take_over(t);
    assert_int_equal(end_task(t, "w1", task_of(iteration, "w1", 2), 0, NULL), MR_OK);
    assert_int_equal(end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL), MR_OK);
    const Millrace__ClientUpdate *update = watch_client(t, "c1", iteration);

    assert_true(update->finished);
    assert_int_equal(update->end->lost_splits, 25);
    assert_int_equal(update->end->lost_elements, 25000);
    assert_int_equal(update->end->lost_workers, 1);
}

/* Worker w1 comes back and still has task @before, of a life that is lost, or forgotten:
 * @refused. */
static void expect_another_identity(struct table *t, const char *iteration, const char *before,
                                    int refused)
{
    char task[128];

    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    snprintf(task, sizeof task, "%s", watch_worker(t, "w1")->tasks[0]->task_id);
    assert_string_not_equal(task, before);
    assert_int_equal(get_splits(t, "w1", before, 0, 2, 25), refused);
    assert_int_equal(get_splits(t, "w1", task, 0, 1, 0), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 25);
    table_take_over(t);
    end_task(t, "w1", before, 0, NULL); /* nobody's */
    assert_false(watch_client(t, "c1", iteration)->finished);
    assert_int_equal(end_task(t, "w1", task, 0, NULL), MR_OK);
    assert_int_equal(end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL), MR_OK);
    assert_true(watch_client(t, "c1", iteration)->finished);
}

/* Workers w1 and w2 read a DYNAMIC iteration, w1 its first 25 splits. */
static void begin_reading(struct table *t, char iteration[64], char task[128])
{
    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    snprintf(task, 128, "%s", task_of(iteration, "w1", 1));
    get_splits(t, "w1", task, 0, 1, 25);
}

static void who_comes_back_after_retention_is_somebody_else(void **state)
{
    struct table *t = *state;
    char iteration[64], before[128];

    begin_reading(t, iteration, before);
    while (table_count(t, "workers/") == 2) {
        table_wait(t, 1000);
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, NULL);
    }
    expect_another_identity(t, iteration, before, MR_ENOTFOUND);
}

static void whose_record_somebody_deleted_is_somebody_else(void **state)
{
    struct table *t = *state;
    char iteration[64], before[128];

    begin_reading(t, iteration, before);
    for (size_t i = t->count; i-- > 0;) {
        if (strncmp(t->keys[i], "workers/", 8) == 0) {
            table_delete(t, t->keys[i]);
        }
    }
    table_take_over(t);
    assert_int_equal(add_worker(t, "w2", "b:1"), MR_OK);
    expect_another_identity(t, iteration, before, MR_EPRECOND);
}

static void keep_note(void *ctx, bool is_loss, const char *line)
{
    struct mr_buf *notes = ctx;

    mr_buf_printf(notes, "%s%s\n", is_loss ? "! " : "", line);
}

/* One line each in a dispatcher's log, without the moves that only a debugger wants. */
static void who_comes_and_goes_and_what_is_lost_is_noted(void **state)
{
    struct mr_buf notes = MR_BUF_INIT;
    struct mr_core_config config = {.note = keep_note, .trace_ctx = &notes};
    struct table *t = mr_calloc(1, sizeof *t);
    char iteration[64];

    table_open(t, &config);
    assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 1, 25);
    add_worker(t, "w2", "a:1"); /* another process at its address */
    end_task(t, "w2", task_of(iteration, "w2", 1), MR_EDATALOSS, "x.tfrecord at 17: corrupt");
    assert_string_equal(
        (const char *)notes.data,
        "worker ba180358.1 at a:1: registered\n"
        "worker ba180358.1 at a:1: superseded\n"
        "! iteration 5.3 of job train: 25 splits lost\n"
        "worker 6e7d5791.1 at a:1: registered\n"
        "! iteration 5.3 of job train: failed, worker a:1: x.tfrecord at 17: corrupt\n");
    mr_buf_free(&notes);
    table_close(t);
    mr_free(t);
}

/* ---------------------------------------------------------------- time */

static void an_iteration_whose_workers_are_all_lost_waits(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(off, opened(t)->iteration_id);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "dynamic", .dynamic = true});
    keep(dynamic, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
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
    keep(iteration, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(iteration, opened(t)->iteration_id);
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
    keep(task, watch_worker(t, "w1")->tasks[0]->task_id);
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
    keep(iteration, opened(t)->iteration_id);
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

/* ---------------------------------------------------------------- takeover */

/* All of them have to miss it, each for long enough. */
static void one_that_came_later_may_reach_it_yet(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "unreachable:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep(iteration, opened(t)->iteration_id);
    open_job(t, (struct open_args){.client = "c2", .dataset = "numbers", .name = "train"});
    end_task(t, "w1", task_of(iteration, "w1", 1), 0, NULL);
    for (int i = 0; i < 113; i++) {
        beat_worker(t, "w1");
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, "w2");
        beat_client(t, "c2", iteration, i >= 50 ? "w2" : NULL);
        table_wait(t, 1000);
        if (i == 100) {
            assert_false(watch_client(t, "c1", iteration)->finished);
        }
    }
    assert_true(watch_client(t, "c1", iteration)->finished);
}

static void what_was_on_its_way_out_is_swept(void **state)
{
    struct table *t = *state;

    table_put(t, "iterations/3.1", "{\"id\":\"3.1\",\"jobId\":\"3.0\"}");
    table_put(t, "grants/3.1/0/00000000000000000000000000000001.1", "{\"seq\":\"1\",\"end\":true}");
    table_put(t, "cursors/3.1/0", "{\"next\":\"4\"}");
    table_put(t, "tasks/3.1/00000000000000000000000000000001.1", "{\"ended\":true}");
    table_put(t, "blobs/00000000000000000000000000000009/0000", "{}");
    table_take_over(t);
    table_wait(t, 0);
    assert_int_equal(table_count(t, "iterations/") + table_count(t, "grants/") +
                         table_count(t, "cursors/") + table_count(t, "tasks/"),
                     0);
    assert_int_equal(table_count(t, "blobs/"), 1); /* that of "numbers" */
}

static void a_value_that_makes_no_sense_is_not_used(void **state)
{
    static const char *const bad[][2] = {
        {"jobs/train", "{\"id\":\"5.1\",\"name\":\"train\",\"datasetId\":\"gone\"}"},
        {"jobs/train", "{\"id\":\"5.1\",\"name\":\"other\",\"datasetId\":\"numbers\"}"},
        {"jobs/train", "not json"},
        {"datasets/x", "{\"id\":\"y\"}"},
        {"elsewhere/x", "{}"},
    };
    struct mr_core_config config = {.epoch = 9};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mr_core *core = mr_core_new(&config);
        mr_error err = {0};
        int rc = mr_core_load(core, bad[i][0], bad[i][1], strlen(bad[i][1]), &err);

        if (strcmp(bad[i][0], "elsewhere/x") == 0) {
            assert_int_equal(rc, MR_EDATALOSS);
            assert_int_equal(err.code, MR_EDATALOSS);
        } else {
            assert_int_equal(rc, MR_OK);
            assert_int_equal(mr_core_ready(core, 0, &err), MR_OK);
            assert_non_null(first_flaw(core));
        }
        mr_core_free(core);
    }
}

/* Jobs "bad" and "good" are being read; something about the first one is not as it should be. */
static void begin_two(struct table *t, char bad[64], char good[64])
{
    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "bad", .dynamic = true});
    keep(bad, opened(t)->iteration_id);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "good", .dynamic = true});
    keep(good, opened(t)->iteration_id);
    get_splits(t, "w1", task_of(bad, "w1", 1), 0, 1, 25);
    get_splits(t, "w1", task_of(good, "w1", 1), 0, 1, 25);
}

/* Whoever reads "bad" is told of @key, now and under the next leader; "good" goes on. */
static void expect_only_bad_ends(struct table *t, const char *bad, const char *good,
                                 const char *key)
{
    const Millrace__ClientUpdate *update;
    char grant[256];

    table_take_over(t);
    for (int term = 0; term < 2; term++) {
        update = watch_client(t, "c1", bad);
        assert_true(update->finished);
        assert_int_equal(update->end->error_code, MR_EDATALOSS);
        assert_non_null(strstr(update->end->error, key));
        assert_int_equal(get_splits(t, "w1", task_of(bad, "w1", 1), 0, 2, 25), MR_ENOTFOUND);
        assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
        assert_false(watch_client(t, "c2", good)->finished);
        expect_range(t, "w1", task_of(good, "w1", 1), 2 + (uint64_t)term, 25,
                     25 + 25 * (uint64_t)term, 25);
        table_wait(t, 0);
        table_take_over(t);
        assert_null(first_flaw(t->core)); /* it is written */
    }
    snprintf(grant, sizeof grant, "grants/%s/0/%s", bad, strchr(task_of(bad, "w1", 1), '/') + 1);
    assert_null(table_get(t, grant));
    open_job(
        t,
        (struct open_args){
            .client = "c3", .dataset = "numbers", .name = "bad", .repetition = 1, .dynamic = true});
    assert_int_equal(the_reply(t)->error.code, MR_OK); /* the next pass of it */
}

static void a_bad_record_ends_its_own_iteration(void **state)
{
    static const struct {
        const char *key, *value; /* NULL: it is gone */
    } cases[] = {
        {"cursors/%s/0", "not json"},
        {"cursors/%s/0", "{\"next\":\"101\"}"},
        {"cursors/%s/0", "{\"next\":\"18446744073709551615\"}"},
        {"cursors/%s/0", NULL},
        {"grants/%s/0/w1", "{"},
        {"grants/%s/0/w1", "{\"seq\":\"1\",\"ranges\":[{\"first\":\"90\",\"count\":\"10\"}]}"},
        {"tasks/%s/w1", "{\"ended\":true,\"lost\":true}"},
        {"tasks/%s/w1", "\xff"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct table *t = mr_calloc(1, sizeof *t);
        char bad[64], good[64], key[256];

        table_open(t, NULL);
        assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
        begin_two(t, bad, good);
        snprintf(key, sizeof key, cases[i].key, bad);
        if (strstr(key, "/w1") != NULL) {
            snprintf(strstr(key, "/w1"), 160, "%s", strchr(task_of(bad, "w1", 1), '/'));
        }
        if (cases[i].value != NULL) {
            table_put(t, key, cases[i].value);
        } else {
            table_delete(t, key);
        }
        expect_only_bad_ends(t, bad, good,
                             cases[i].value == NULL ? key : bad); /* of one that is gone, too */
        table_close(t);
        mr_free(t);
    }
}

/* It stood still between being elected and reading: its successor has written by then. */
static void what_a_successor_wrote_is_not_taken_over(void **state)
{
    struct table *t = *state;
    struct mr_core_config config = {.epoch = t->epoch - 1};
    mr_core *core = mr_core_new(&config);
    mr_error err = {0};

    add_worker(t, "w1", "a:1");
    for (size_t i = 0; i < t->count; i++) {
        if (strncmp(t->keys[i], "blobs/", 6) != 0) {
            assert_int_equal(
                mr_core_load(core, t->keys[i], t->values[i], strlen(t->values[i]), &err), MR_OK);
        }
    }
    assert_int_equal(mr_core_ready(core, 0, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "another dispatcher leads"));
    mr_core_free(core);
}

/* Whatever is wrong with them: the worker is lost and comes back, the client attaches again, and
 * nobody's read ends. */
static void a_bad_worker_or_client_is_one_that_comes_back(void **state)
{
    static const char *const values[] = {"{", "{\"life\":1}", "{\"client\":\"x\"}", "\xff",
                                         "{\"lostMs\":\"-\"}"};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct table *t = mr_calloc(1, sizeof *t);
        char one[64], other[64], worker[160], client[64];

        table_open(t, NULL);
        assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
        begin_two(t, one, other);
        snprintf(worker, sizeof worker, "workers/%s", strchr(task_of(one, "w1", 1), '/') + 1);
        snprintf(client, sizeof client, "clients/%s", id_of("c1"));
        table_put(t, worker, values[i]);
        table_put(t, client, values[i]);
        table_put(t, "workers/x", values[i]);
        table_put(t, "clients/x", values[i]);
        table_take_over(t);
        assert_non_null(first_flaw(t->core));
        table_wait(t, 0);
        table_take_over(t);
        assert_null(first_flaw(t->core)); /* it is put right */
        assert_null(table_get(t, "workers/x"));
        assert_null(table_get(t, "clients/x"));
        assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
        assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK);
        assert_int_equal(beat_client(t, "c1", one, NULL), MR_ENOTFOUND);
        open_job(t, (struct open_args){.client = "c1",
                                       .dataset = "numbers",
                                       .name = "bad",
                                       .iteration_id = one,
                                       .dynamic = true});
        assert_string_equal(opened(t)->iteration_id, one);
        expect_range(t, "w1", task_of(one, "w1", 2), 1, 25, 25, 25);
        assert_false(watch_client(t, "c2", other)->finished);
        table_close(t);
        mr_free(t);
    }
}

static void unknown_fields_survive_a_rewrite(void **state)
{
    struct table *t = *state;
    char value[512], iteration[64];

    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    snprintf(value, sizeof value, "%.*s,\"colour\":\"blue\"}",
             (int)strlen(table_get(t, "jobs/train")) - 1, table_get(t, "jobs/train"));
    table_put(t, "jobs/train", value);
    table_take_over(t);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "train", .repetition = 1});
    keep(iteration, opened(t)->iteration_id);
    release_client(t, "c2", iteration);
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .repetition = 1});
    keep(iteration, opened(t)->iteration_id);
    release_client(t, "c1", iteration);
    assert_non_null(strstr(table_get(t, "jobs/train"), "releasedMs"));
    assert_non_null(strstr(table_get(t, "jobs/train"), "\"colour\":\"blue\""));
}

static void a_restart_of_a_thousand_tasks_is_one_transaction(void **state)
{
    struct table *t = *state;
    char name[16];

    add_worker(t, "w1", "a:1");
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "job%d", i);
        open_job(t, (struct open_args){
                        .client = name, .dataset = "numbers", .name = name, .dynamic = i % 2 == 0});
    }
    assert_int_equal(add_worker(t, "w2", "a:1"), MR_OK);
    assert_int_equal(t->out.nchanges, 2); /* the old life and the new one */
    assert_int_equal(watch_worker(t, "w2")->n_tasks, 300);
    table_wait(t, 0);
    table_take_over(t);
    assert_int_equal(watch_worker(t, "w2")->n_tasks, 300);
}

/* ---------------------------------------------------------------- status, memory */

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

/* Whichever allocation fails, the step says so, and the store still makes a core that works. */
static void memory_may_run_out_anywhere(void **state)
{
    struct table *t = *state;
    bool failed = true;

    add_worker(t, "w1", "a:1");
    table_take_over(t);
    for (uint64_t nth = 1; failed; nth++) {
        Millrace__OpenRequest request = MILLRACE__OPEN_REQUEST__INIT;
        Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
        struct mr_command command = {.kind = MR_COMMAND_OPEN, .open = &request, .now_ms = t->now};
        struct mr_outcome out = {0};
        mr_error err = {0};

        spec.name = (char *)(uintptr_t) "train";
        spec.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
        request.job = &spec;
        request.client = (char *)(uintptr_t)id_of("c1");
        request.dataset_id = (char *)(uintptr_t) "numbers";
        mr_alloc_fail_at(nth);
        int rc = mr_core_step(t->core, &command, &out, &err);

        mr_alloc_fail_at(0);
        failed = rc < 0;
        if (failed) {
            assert_int_equal(rc, MR_EEXHAUSTED);
            assert_int_equal(out.nchanges + out.neffects, 0);
        }
        mr_outcome_clear(&out);
        table_take_over(t); /* as the loop does; nothing was applied to the store */
        assert_true(nth < 1000);
    }
    assert_int_equal(table_count(t, "jobs/"), 0);
}

static void loading_may_run_out_of_memory_anywhere(void **state)
{
    struct table *t = *state;
    bool failed = true;

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    get_splits(t, "w1", task_of(opened(t)->iteration_id, "w1", 1), 0, 1, 4);
    for (uint64_t nth = 1; failed; nth++) {
        struct mr_core_config config = {.epoch = 20};
        mr_error err = {0};
        int rc = MR_OK;

        mr_alloc_fail_at(nth);
        mr_core *core = mr_core_new(&config);

        for (size_t i = 0; core != NULL && rc == MR_OK && i < t->count; i++) {
            if (strncmp(t->keys[i], "blobs/", 6) != 0) {
                rc = mr_core_load(core, t->keys[i], t->values[i], strlen(t->values[i]), &err);
            }
        }
        if (core != NULL && rc == MR_OK) {
            rc = mr_core_ready(core, 0, &err);
        }
        mr_alloc_fail_at(0);
        failed = core == NULL || rc < 0;
        mr_core_free(core);
        assert_true(nth < 2000);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_dataset_is_registered_once),
        T(a_known_dataset_needs_no_definition),
        T(equal_content_without_a_name_is_one_dataset),
        T(a_named_dataset_shares_the_parts_of_its_content),
        T(unused_content_is_forgotten_and_names_are_not),
        T(readers_of_one_name_share_an_iteration),
        T(who_joins_must_mean_the_same_job),
        T(a_wrong_wish_changes_nothing),
        T(an_ended_repetition_is_never_run_again),
        T(an_anonymous_job_goes_with_its_client),
        T(each_worker_has_a_task_of_each_open_iteration),
        T(changes_follow_on_what_a_watch_began_with),
        T(a_failed_task_ends_the_iteration_with_its_error),
        T(a_new_process_supersedes_the_old_one_at_its_address),
        T(who_lived_before_a_takeover_is_awaited),
        T(splits_are_answered_by_number),
        T(a_worker_that_finds_the_next_leader_writes_nothing),
        T(grants_are_larger_when_the_store_must_be_spared),
        T(nobody_is_given_up_while_the_store_is_full),
        T(one_that_came_later_may_reach_it_yet),
        T(repetitions_of_a_source_are_shared),
        T(what_a_lost_worker_held_is_counted_and_not_given_again),
        T(who_comes_back_after_retention_is_somebody_else),
        T(whose_record_somebody_deleted_is_somebody_else),
        T(who_comes_and_goes_and_what_is_lost_is_noted),
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
        T(what_was_on_its_way_out_is_swept),
        T(a_value_that_makes_no_sense_is_not_used),
        T(a_bad_record_ends_its_own_iteration),
        T(what_a_successor_wrote_is_not_taken_over),
        T(a_bad_worker_or_client_is_one_that_comes_back),
        T(unknown_fields_survive_a_rewrite),
        T(a_restart_of_a_thousand_tasks_is_one_transaction),
        T(status_shows_what_there_is_and_no_capability),
        T(memory_may_run_out_anywhere),
        T(loading_may_run_out_of_memory_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
