/* JSON as text for people. */
#include "main/pick.h"
#include "main/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

static void check(const char *json, const char *expected)
{
    struct mr_buf out = MR_BUF_INIT;
    mr_error err = {0};

    if (table_render(json, &out, &err) < 0) {
        fail_msg("%s", err.message);
    }
    assert_string_equal((char *)out.data, expected);
    mr_buf_free(&out);
}

static void scalars_then_tables(void **state)
{
    check("{\"cluster\":\"dev\",\"workers\":[{\"address\":\"a:1\",\"tasks\":12},{\"address\":"
          "\"long:2\",\"lost\":true}],\"epoch\":\"7\"}",
          "cluster: dev\n"
          "epoch: 7\n"
          "\n"
          "workers (2)\n"
          "  address  tasks  lost\n"
          "  a:1      12     \n"
          "  long:2          true\n");
}

static void lists_and_nested_objects(void **state)
{
    check("{\"empty\":[],\"names\":[\"a\",\"b\"],\"leader\":{\"address\":\"a:1\"}}",
          "names: a,b\n"
          "\n"
          "leader\n"
          "  address: a:1\n");
}

static void objects_within_rows_are_flat(void **state)
{
    check("{\"tasks\":[{\"id\":\"1\",\"window\":{\"first\":\"7\",\"complete\":true}},{\"id\":\"2\","
          "\"window\":{}}]}",
          "\n"
          "tasks (2)\n"
          "  id  window\n"
          "  1   first 7, complete true\n"
          "  2   \n");
}

static void one_job_of_many(void **state)
{
    static const char status[] =
        "{\"jobs\":[{\"id\":\"1.1\",\"name\":\"train\",\"trainer\":\"a\",\"iterations\":[{"
        "\"production\":\"1.4\"}]},"
        "{\"id\":\"1.2\",\"name\":\"train\",\"trainer\":\"b\",\"iterations\":[{\"production\":\"1."
        "5\"}]},"
        "{\"id\":\"1.3\",\"name\":\"eval\"}],\"productions\":[{\"id\":\"1.4\"},{\"id\":\"1.5\"}]}";
    static const char *const cases[][2] = {
        {"eval", "{\"jobs\":[{\"id\":\"1.3\",\"name\":\"eval\"}],\"productions\":[]}"},
        {"1.3", "{\"jobs\":[{\"id\":\"1.3\",\"name\":\"eval\"}],\"productions\":[]}"},
        {"train+b", "{\"jobs\":[{\"id\":\"1.2\",\"name\":\"train\",\"trainer\":\"b\","
                    "\"iterations\":[{\"production\":"
                    "\"1.5\"}]}],\"productions\":[{\"id\":\"1.5\"}]}"},
    };
    mr_error err = {0};
    char *json = NULL;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(pick_job(status, cases[i][0], &json, &err), MR_OK);
        assert_string_equal(json, cases[i][1]);
        free(json);
    }
    assert_int_equal(pick_job(status, "train", &json, &err), MR_OK);
    assert_non_null(strstr(json, "1.1"));
    assert_non_null(strstr(json, "1.2"));
    free(json);
    assert_int_equal(pick_job(status, "train+c", &json, &err), MR_ENOTFOUND);
    assert_int_equal(pick_job(status, "", &json, &err), MR_ENOTFOUND);
    assert_int_equal(pick_job("[]", "train", &json, &err), MR_EINVAL);
}

static void tables_within_rows_follow(void **state)
{
    check("{\"jobs\":[{\"id\":\"1\",\"name\":\"digits\",\"iterations\":[{\"id\":\"7\",\"tasks\":[{"
          "\"worker\":\"a:1\"}]}]}]}",
          "\n"
          "jobs (1)\n"
          "  id  name\n"
          "  1   digits\n"
          "\n"
          "jobs: iterations (1)\n"
          "  of      id\n"
          "  digits  7\n"
          "\n"
          "jobs: iterations: tasks (1)\n"
          "  of  worker\n"
          "  7   a:1\n");
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    check("{\"name\":\"a\\u001b[31m\\nb\"}", "name: a?[31m?b\n");
}

static void what_is_no_object_is_refused(void **state)
{
    struct mr_buf out = MR_BUF_INIT;
    mr_error err = {0};

    assert_int_equal(table_render("[1]", &out, &err), MR_EINVAL);
    assert_int_equal(table_render("{", &out, &err), MR_EINVAL);
    mr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_then_tables),
        cmocka_unit_test(lists_and_nested_objects),
        cmocka_unit_test(objects_within_rows_are_flat),
        cmocka_unit_test(one_job_of_many),
        cmocka_unit_test(tables_within_rows_follow),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(what_is_no_object_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
