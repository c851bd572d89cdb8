/* What a status document says of one job, worker or dataset. */
#include "main/doc.h"
#include "main/pick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

static const char text[] =
    "{\"cluster\":\"c\",\"wallMs\":\"9\","
    "\"workers\":[{\"address\":\"a:1\",\"worker\":\"0123abcd\"},{\"address\":\"b:1\",\"worker\":"
    "\"89ab\"}],"
    "\"datasets\":[{\"id\":\"digits\"},{\"id\":\"words\"}],"
    "\"jobs\":[{\"id\":\"1.1\",\"name\":\"train\",\"trainer\":\"a\",\"datasetId\":\"digits\","
    "\"iterations\":[{\"production\":\"1.4\",\"tasks\":[{\"workerAddress\":\"a:1\"}]}]},"
    "{\"id\":\"1.2\",\"name\":\"train\",\"trainer\":\"b\",\"iterations\":[{\"production\":"
    "\"1.5\"}]},"
    "{\"id\":\"1.3\",\"name\":\"eval\"},{\"id\":\"1.6\"}],"
    "\"productions\":[{\"id\":\"1.4\"},{\"id\":\"1.5\",\"tasks\":[{\"workerAddress\":\"a:1\"}]}]}";

typedef int pick_fn(json_t *, const char *, json_t **, mr_error *);

static void check(pick_fn *pick, const char *name, const char *wanted)
{
    json_t *status, *picked;
    mr_error err = {0};

    assert_int_equal(doc_parse(text, &status, &err), MR_OK);
    if (pick(status, name, &picked, &err) < 0) {
        fail_msg("%s", err.message);
    }
    char *json = json_dumps(picked, JSON_COMPACT);

    assert_string_equal(json, wanted);
    free(json);
    json_decref(picked);
    json_decref(status);
}

static void check_none(pick_fn *pick, const char *name, const char *message)
{
    json_t *status, *picked;
    mr_error err = {0};

    assert_int_equal(doc_parse(text, &status, &err), MR_OK);
    assert_int_equal(pick(status, name, &picked, &err), MR_ENOTFOUND);
    assert_string_equal(err.message, message);
    json_decref(status);
}

static void a_job_by_name_id_or_trainer(void **state)
{
    static const char eval[] =
        "{\"wallMs\":\"9\",\"jobs\":[{\"id\":\"1.3\",\"name\":\"eval\"}],\"productions\":[]}";

    check(pick_job, "eval", eval);
    check(pick_job, "1.3", eval);
    check(pick_job, "train+b",
          "{\"wallMs\":\"9\",\"jobs\":[{\"id\":\"1.2\",\"name\":\"train\",\"trainer\":\"b\","
          "\"iterations\":[{\"production\":\"1.5\"}]}],"
          "\"productions\":[{\"id\":\"1.5\",\"tasks\":[{\"workerAddress\":\"a:1\"}]}]}");
}

static void all_trainers_of_a_name(void **state)
{
    json_t *status, *picked;
    mr_error err = {0};

    assert_int_equal(doc_parse(text, &status, &err), MR_OK);
    assert_int_equal(pick_job(status, "train", &picked, &err), MR_OK);
    assert_int_equal(json_array_size(doc_at(picked, "jobs")), 2);
    assert_int_equal(json_array_size(doc_at(picked, "productions")), 2);
    json_decref(picked);
    json_decref(status);
}

static void a_worker_with_what_has_tasks_there(void **state)
{
    check(pick_worker, "b:1",
          "{\"wallMs\":\"9\",\"workers\":[{\"address\":\"b:1\",\"worker\":\"89ab\"}],\"jobs\":[],"
          "\"productions\":[]}");
    check(pick_worker, "0123abcd",
          "{\"wallMs\":\"9\",\"workers\":[{\"address\":\"a:1\",\"worker\":\"0123abcd\"}],"
          "\"jobs\":[{\"id\":\"1.1\",\"name\":\"train\",\"trainer\":\"a\",\"datasetId\":\"digits\","
          "\"iterations\":[{\"production\":\"1.4\",\"tasks\":[{\"workerAddress\":\"a:1\"}]}]}],"
          "\"productions\":[{\"id\":\"1.5\",\"tasks\":[{\"workerAddress\":\"a:1\"}]}]}");
}

static void a_dataset_with_the_jobs_that_use_it(void **state)
{
    check(pick_dataset, "words",
          "{\"wallMs\":\"9\",\"datasets\":[{\"id\":\"words\"}],\"jobs\":[]}");
}

static void whoever_is_meant_instead_is_named(void **state)
{
    check_none(pick_job, "evla", "there is no job 'evla'; did you mean 'eval'?");
    check_none(pick_job, "train+c", "there is no job 'train+c'; did you mean 'train+a'?");
    check_none(pick_job, "zebra", "there is no job 'zebra'");
    check_none(pick_job, "", "there is no job ''");
    check_none(pick_worker, "c:1", "there is no worker 'c:1'; did you mean 'a:1'?");
    check_none(pick_dataset, "digit\n", "there is no dataset 'digit\\n'; did you mean 'digits'?");
}

static void what_is_no_object_is_refused(void **state)
{
    json_t *doc;
    mr_error err = {0};

    assert_int_equal(doc_parse("[1]", &doc, &err), MR_EINVAL);
    assert_int_equal(doc_parse("{", &doc, &err), MR_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_by_name_id_or_trainer),
        cmocka_unit_test(all_trainers_of_a_name),
        cmocka_unit_test(a_worker_with_what_has_tasks_there),
        cmocka_unit_test(a_dataset_with_the_jobs_that_use_it),
        cmocka_unit_test(whoever_is_meant_instead_is_named),
        cmocka_unit_test(what_is_no_object_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
