/* Takeover: what a new leader makes of the records it finds; and no memory. */
#include "core_support.h"

#include "base/buf.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t hundred[] = {100};

/* All of them have to miss it, each for long enough. */
static void one_that_came_later_may_reach_it_yet(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "unreachable:1");
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep_id(iteration, opened(t)->iteration_id);
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
    keep_id(bad, opened(t)->iteration_id);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "good", .dynamic = true});
    keep_id(good, opened(t)->iteration_id);
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
    keep_id(iteration, opened(t)->iteration_id);
    release_client(t, "c2", iteration);
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .repetition = 1});
    keep_id(iteration, opened(t)->iteration_id);
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
#define T(name) cmocka_unit_test_setup_teardown(name, core_setup, core_teardown)
    const struct CMUnitTest tests[] = {
        T(one_that_came_later_may_reach_it_yet),
        T(what_was_on_its_way_out_is_swept),
        T(a_value_that_makes_no_sense_is_not_used),
        T(a_bad_record_ends_its_own_iteration),
        T(what_a_successor_wrote_is_not_taken_over),
        T(a_bad_worker_or_client_is_one_that_comes_back),
        T(unknown_fields_survive_a_rewrite),
        T(a_restart_of_a_thousand_tasks_is_one_transaction),
        T(memory_may_run_out_anywhere),
        T(loading_may_run_out_of_memory_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
