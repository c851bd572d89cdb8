/* Status documents as text for people. */
#include "main/doc.h"
#include "main/grid.h"
#include "main/human.h"
#include "main/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

static void check(void (*view)(const json_t *, struct mr_buf *), const char *json,
                  const char *wanted)
{
    struct mr_buf out = MR_BUF_INIT;
    mr_error err = {0};
    json_t *doc;

    if (doc_parse(json, &doc, &err) < 0) {
        fail_msg("%s", err.message);
    }
    view(doc, &out);
    assert_string_equal((char *)out.data, wanted);
    mr_buf_free(&out);
    json_decref(doc);
}

static void spans(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{-5, "0s"},
                 {999, "0s"},
                 {59999, "59s"},
                 {60000, "1m"},
                 {200000, "3m20s"},
                 {1500000, "25m"},
                 {18600000, "5h10m"},
                 {36600000, "10h"},
                 {90000000, "1d1h"},
                 {864000000, "10d"},
                 {INT64_MAX, "106751991167d"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(human_span(cases[i].ms).text, cases[i].text);
    }
}

static void sizes_and_counts(void **state)
{
    assert_string_equal(human_bytes(0).text, "0B");
    assert_string_equal(human_bytes(1023).text, "1023B");
    assert_string_equal(human_bytes(1536).text, "1.5KiB");
    assert_string_equal(human_bytes(INT64_C(10) << 30).text, "10GiB");
    assert_string_equal(human_bytes(INT64_MAX).text, "8192PiB");
    assert_string_equal(human_count(99999).text, "99999");
    assert_string_equal(human_count(123456).text, "123k");
    assert_string_equal(human_count(1500000).text, "1.5M");
    assert_string_equal(human_count(-2).text, "-2");
}

static void a_column_without_cells_is_left_out(void **state)
{
    static const struct grid_column columns[] = {
        {"NAME", GRID_TEXT}, {"N", GRID_NUMBER}, {"SAID", GRID_IF_ANY}, {NULL, 0}};
    struct mr_buf out = MR_BUF_INIT;
    struct grid grid;

    grid_init(&grid, columns);
    grid_render(&grid, 2, &out);
    assert_int_equal(out.len, 0);
    grid_add(&grid, "\xc3\xbc\x1b[31m");
    grid_printf(&grid, "%d", 12345);
    grid_add(&grid, "");
    grid_render(&grid, 2, &out);
    assert_string_equal((char *)out.data, "  NAME        N\n"
                                          "  \xc3\xbc?[31m  12345\n");
    mr_buf_clear(&out);
    grid_add(&grid, "x");
    grid_add(&grid, "1");
    grid_add(&grid, "yes");
    grid_render(&grid, 0, &out);
    assert_string_equal((char *)out.data, "NAME        N  SAID\n"
                                          "\xc3\xbc?[31m  12345\n"
                                          "x           1  yes\n");
    mr_buf_free(&out);
    grid_free(&grid);
}

static void a_long_cell_is_cut_and_the_last_one_is_not(void **state)
{
    static const struct grid_column columns[] = {{"A", GRID_TEXT}, {"B", GRID_TEXT}, {NULL, 0}};
    struct mr_buf out = MR_BUF_INIT;
    char text[71] = "";
    struct grid grid;

    memset(text, 'x', sizeof text - 1);
    grid_init(&grid, columns);
    grid_add(&grid, text);
    grid_add(&grid, text);
    grid_render(&grid, 0, &out);
    const char *row = strchr((char *)out.data, '\n') + 1;

    assert_int_equal(strcspn(row, " "), GRID_CELL_MAX);
    assert_int_equal(strlen(row), GRID_CELL_MAX + 2 + 70 + 1);
    mr_buf_free(&out);
    grid_free(&grid);
}

static const char cluster[] =
    "{\"cluster\":\"prod\",\"epoch\":\"5\",\"leader\":\"a:1\",\"version\":\"0.1.0\","
    "\"dispatchers\":[\"a:1\",\"b:1\"],\"storeBytesPerS\":\"2048\",\"storeFull\":true,"
    "\"wallMs\":\"1000000\","
    "\"workers\":[{\"address\":\"w:1\",\"worker\":\"ba180358\",\"silentMs\":\"400\",\"tasks\":1,"
    "\"version\":\"0.1.0\",\"registeredMs\":\"800000\",\"tags\":[\"gpu\",\"b\"],"
    "\"cache\":{\"bytes\":\"1048576\",\"bytesMax\":\"1073741824\",\"degraded\":\"full\"}},"
    "{\"address\":\"w:2\",\"worker\":\"00000000\",\"silentMs\":\"90000\",\"lost\":true,"
    "\"version\":\"0.1.0\",\"registeredMs\":\"100000\"}],"
    "\"datasets\":[{\"id\":\"digits\",\"summary\":\"range > batch\",\"cardinality\":\"-1\","
    "\"definitionSize\":\"2048\"}],"
    "\"jobs\":[{\"id\":\"5.3\",\"name\":\"train\",\"trainer\":\"t1\",\"datasetId\":"
    "\"3c1608545dd3194e1283b7fa8299da84\",\"createdMs\":\"400000\",\"iterations\":[{\"clients\":2,"
    "\"repetition\":\"3\",\"skipped\":\"7\",\"end\":{\"lostSplits\":\"1\"},"
    "\"tasks\":[{\"state\":\"open\",\"delivered\":\"20\"},{\"state\":\"lost\",\"delivered\":"
    "\"3\"}]}]},"
    "{\"id\":\"5.9\",\"datasetId\":\"digits\",\"iterations\":[{\"finished\":true}]}]}";

static void a_whole_cluster(void **state)
{
    check(view_status, cluster,
          "cluster   prod\n"
          "leader    a:1\n"
          "version   0.1.0, epoch 5\n"
          "etcd      2.0KiB/s written; full: nothing is created or handed out\n"
          "\n"
          "dispatchers (2)\n"
          "DISPATCHER  ROLE     VERSION\n"
          "a:1         leader   0.1.0\n"
          "b:1         standby\n"
          "\n"
          "workers (2)\n"
          "WORKER  ID        STATE  TASKS  CACHE                       SEEN         AGE  VERSION  "
          "TAGS\n"
          "w:1     ba180358  live       1  1.0MiB of 1.0GiB, degraded  0s ago     3m20s  0.1.0    "
          "gpu,b\n"
          "w:2     00000000  lost       0                              1m30s ago    15m  0.1.0\n"
          "\n"
          "datasets (1)\n"
          "DATASET  ELEMENTS  DEFINITION  JOBS  PIPELINE\n"
          "digits   infinite      2.0KiB     1  range > batch\n"
          "\n"
          "jobs (2)\n"
          "JOB       ID   STATE     DATASET      REPETITION  CLIENTS  TASKS  DELIVERED     LOST  "
          "SKIPPED  AGE\n"
          "train+t1  5.3  reading   3c160854...           3        2      1         23  1 split  "
          "      7  10m\n"
          "5.9       5.9  finished  digits                         0      0          0\n");
}

static void an_empty_list_says_so(void **state)
{
    check(view_workers, "{}",
          "No worker has registered. Start one: millrace worker --dispatcher HOST:PORT\n");
    check(view_datasets, "{\"datasets\":[]}", "No dataset is registered.\n");
    check(view_jobs, "{}", "There is no job.\n");
    check(view_dispatchers, "{}", "No dispatcher has said that it lives.\n");
}

static void states_of_a_job(void **state)
{
    static const char *const cases[][2] = {
        {"{}", "new"},
        {"{\"setAside\":\"bad\"}", "set aside"},
        {"{\"iterations\":[{\"finished\":true},{\"clients\":1}]}", "reading"},
        {"{\"iterations\":[{\"clients\":0}]}", "no reader"},
        {"{\"iterations\":[{\"clients\":1,\"tasks\":[{\"stalledMs\":\"5\"}]}]}", "stalled"},
        {"{\"iterations\":[{\"finished\":true,\"end\":{}}]}", "finished"},
        {"{\"iterations\":[{\"finished\":true,\"end\":{\"error\":\"x\"}}]}", "failed"},
    };
    mr_error err = {0};
    json_t *job;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(doc_parse(cases[i][0], &job, &err), MR_OK);
        assert_string_equal(view_job_state(job), cases[i][1]);
        json_decref(job);
    }
}

static void one_job(void **state)
{
    check(
        view_job,
        "{\"wallMs\":\"1000000\",\"jobs\":[{\"id\":\"5.3\",\"name\":\"train\",\"datasetId\":"
        "\"digits\",\"mode\":\"PROCESSING_DYNAMIC\",\"guarantee\":\"AT_LEAST_ONCE\","
        "\"targetWorkers\":\"AUTO\",\"createdMs\":\"940000\",\"iterations\":["
        "{\"id\":\"5.4\",\"clients\":1,\"production\":\"5.7\",\"createdMs\":\"940000\","
        "\"end\":{\"repeatedSplits\":\"2\"},\"skipped\":\"12\","
        "\"tasks\":[{\"workerAddress\":\"w:1\",\"state\":\"open\",\"produced\":\"12\","
        "\"delivered\":\"9\",\"splits\":\"8\",\"stalledMs\":\"61000\",\"unreachableBy\":[\"x\"],"
        "\"recovery\":1}],"
        "\"providers\":[{\"source\":\"range (step 0)\",\"splits\":\"64\",\"next\":\"8\","
        "\"givenBackSplits\":\"3\"}],"
        "\"rounds\":{\"consumers\":[{\"client\":\"0a\",\"position\":\"4\",\"known\":true,"
        "\"silentMs\":\"1000\"},{\"index\":1,\"missedMs\":\"3000\"}]}}]}],"
        "\"productions\":[{\"id\":\"5.7\",\"users\":[{\"job\":\"train\",\"iterationId\":\"5.4\","
        "\"delivered\":\"9\"}],\"tasks\":[{\"workerAddress\":\"w:1\",\"state\":\"open\","
        "\"window\":{\"first\":\"2\",\"end\":\"9\",\"bytes\":\"1024\",\"held\":true}}]}]}",
        "job train\n"
        "  id         5.3\n"
        "  state      stalled\n"
        "  dataset    digits\n"
        "  splits     DYNAMIC, at least once\n"
        "  workers    AUTO\n"
        "  created    1m ago\n"
        "\n"
        "  iterations (1)\n"
        "  ITERATION  REPETITION  STATE  CLIENTS  DELIVERED  AGE  NOTES\n"
        "  5.4                 0  open         1          9   1m  repeated splits 2; skipped 12; "
        "reads production 5.7\n"
        "\n"
        "  tasks (1)\n"
        "  WORKER  ITERATION  STATE  PRODUCED  DELIVERED  SPLITS  NOTES\n"
        "  w:1     5.4        open         12          9       8  stalled for 1m1s; out of reach "
        "of 1 client; recovery 1\n"
        "\n"
        "  sources (1)\n"
        "  SOURCE          ITERATION  HANDED OUT  SPLITS  REPETITION  NOTES\n"
        "  range (step 0)  5.4                 8      64           0  given back 3\n"
        "\n"
        "  consumers (2)\n"
        "  CONSUMER  CLIENT  ITERATION  ROUND  SEEN     NOTES\n"
        "         0  0a      5.4            4  1s ago\n"
        "         1  nobody  5.4            0  not yet  others wait for it: 3s\n"
        "\n"
        "production 5.7\n"
        "\n"
        "  readers (1)\n"
        "  READER  ITERATION  DELIVERED  SKIPPED\n"
        "  train   5.4                9        0\n"
        "\n"
        "  tasks (1)\n"
        "  WORKER  ITERATION  STATE  PRODUCED  DELIVERED  NOTES\n"
        "  w:1     5.7        open          0          0  window of 7 elements, 1.0KiB, held by a "
        "reader\n");
}

static void a_job_that_is_set_aside(void **state)
{
    check(view_job, "{\"jobs\":[{\"name\":\"train\",\"setAside\":\"'jobs/train' is no JSON\"}]}",
          "job train\n"
          "  state      set aside\n"
          "  because    'jobs/train' is no JSON\n");
}

static void one_worker(void **state)
{
    check(view_worker,
          "{\"wallMs\":\"1000000\",\"workers\":[{\"address\":\"w:1\",\"worker\":\"ba\",\"version\":"
          "\"0.1.0\",\"draining\":true,\"silentMs\":\"2000\",\"registeredMs\":\"990000\","
          "\"cache\":{\"bytes\":\"0\",\"bytesMax\":\"1024\"}}],"
          "\"jobs\":[{\"id\":\"5.3\",\"name\":\"train\",\"iterations\":[{\"id\":\"5.4\",\"tasks\":["
          "{\"workerAddress\":\"w:1\",\"state\":\"open\",\"produced\":\"3\"},"
          "{\"workerAddress\":\"w:2\",\"state\":\"open\"}]}]}],"
          "\"productions\":[{\"id\":\"5.7\",\"tasks\":[{\"workerAddress\":\"w:1\",\"state\":"
          "\"ended\"}]}]}",
          "worker w:1\n"
          "  id         ba\n"
          "  state      draining\n"
          "  version    0.1.0\n"
          "  seen       2s ago\n"
          "  registered 10s ago\n"
          "  cache      0B of 1.0KiB\n"
          "\n"
          "  tasks (2)\n"
          "  WORKER  JOB         ITERATION  STATE  PRODUCED  DELIVERED\n"
          "  w:1     train       5.4        open          3          0\n"
          "  w:1     production  5.7        ended         0          0\n");
}

static void one_dataset(void **state)
{
    check(view_dataset,
          "{\"datasets\":[{\"id\":\"digits\",\"summary\":\"range\",\"cardinality\":\"10\","
          "\"definitionSize\":\"80\",\"fingerprint\":\"3c\"}],"
          "\"jobs\":[{\"id\":\"5.3\",\"name\":\"train\",\"datasetId\":\"digits\"}]}",
          "dataset digits\n"
          "  pipeline   range\n"
          "  elements   10\n"
          "  definition 80B\n"
          "  content    3c\n"
          "\n"
          "jobs (1)\n"
          "JOB    ID   STATE  DATASET  CLIENTS  TASKS  DELIVERED\n"
          "train  5.3  new    digits         0      0          0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans),
        cmocka_unit_test(sizes_and_counts),
        cmocka_unit_test(a_column_without_cells_is_left_out),
        cmocka_unit_test(a_long_cell_is_cut_and_the_last_one_is_not),
        cmocka_unit_test(a_whole_cluster),
        cmocka_unit_test(an_empty_list_says_so),
        cmocka_unit_test(states_of_a_job),
        cmocka_unit_test(one_job),
        cmocka_unit_test(a_job_that_is_set_aside),
        cmocka_unit_test(one_worker),
        cmocka_unit_test(one_dataset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
