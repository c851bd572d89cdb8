/* millrace doctor: what it finds in a status document. */
#include "main/doc.h"
#include "main/findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define FINE                                                                                       \
    "\"version\":\"1\",\"leader\":\"a:1\",\"dispatchers\":[\"a:1\",\"b:1\"],\"wallMs\":"           \
    "\"1000000\","

static void expect(const char *json, size_t wrong, const char *text)
{
    const struct findings_here here = {.wall_ms = 1001000, .version = "1"};
    struct mr_buf out = MR_BUF_INIT;
    json_t *status, *list = json_array();
    mr_error err = {0};

    assert_int_equal(doc_parse(json, &status, &err), MR_OK);
    assert_int_equal(findings_of(status, &here, list, &err), MR_OK);
    assert_int_equal(findings_print(list, &out), wrong);
    assert_string_equal((char *)out.data, text);
    mr_buf_free(&out);
    json_decref(list);
    json_decref(status);
}

static void nothing(void **state)
{
    expect("{" FINE "\"workers\":[{\"address\":\"w:1\",\"version\":\"1\"},"
           "{\"address\":\"w:2\",\"lost\":true,\"left\":true,\"version\":\"0\"}],"
           "\"jobs\":[{\"name\":\"train\",\"iterations\":[{\"end\":{}}]}]}",
           0, "Nothing is wrong.\n");
}

static void the_service(void **state)
{
    expect(
        "{\"version\":\"2\",\"leader\":\"a:1\",\"dispatchers\":[\"a:1\"],\"wallMs\":\"900000\","
        "\"storeSilentMs\":\"12000\",\"storeFull\":true,\"grantMs\":\"4000\"}",
        4,
        "wrong  etcd: has not answered for 12s. see whether its members run and have a quorum\n"
        "wrong  etcd: is at its quota: nothing is created or handed out. compact and defragment "
        "it, raise its quota, then disarm the alarm\n"
        "note   etcd: gets all the writes that it may. raise --etcd-write-budget of the "
        "dispatchers if it can take more\n"
        "note   dispatchers: there is one only: nobody takes over when it ends. start another "
        "one with the same etcd\n"
        "note   a:1: is of version 2, this program of 1. use the program of the same version\n"
        "wrong  a:1: its clock and this machine's are 1m41s apart. set both by NTP: certificates "
        "go by them\n"
        "wrong  workers: none takes on work. start one: millrace worker --dispatcher HOST:PORT; "
        "its log says why it cannot join\n");
}

static void workers(void **state)
{
    expect(
        "{" FINE "\"workers\":[{\"address\":\"w:1\",\"version\":\"0\",\"silentMs\":\"9000\","
        "\"cache\":{\"degraded\":\"disk\\u001b full\"}},"
        "{\"address\":\"w:2\",\"lost\":true,\"silentMs\":\"60000\"}]}",
        2,
        "note   w:1: is of version 0, the leader of 1. finish the update: dispatchers first, "
        "then workers\n"
        "wrong  w:1: has been silent for 9s. see whether it runs and reaches the dispatchers\n"
        "wrong  w:1: disk? full. make room in its --cache-dir, or choose another disk\n"
        "note   w:2: was lost; nothing was heard of it for 1m. its log says why it ended, if its "
        "machine still runs\n");
}

static void jobs(void **state)
{
    expect(
        "{" FINE "\"workers\":[{\"address\":\"w:1\",\"version\":\"1\"}],"
        "\"jobs\":[{\"name\":\"bad\",\"setAside\":\"'jobs/bad' is no JSON\"},"
        "{\"name\":\"train\",\"trainer\":\"t\",\"unshared\":\"it draws random numbers\","
        "\"iterations\":[{\"repetition\":\"2\","
        "\"end\":{\"lostSplits\":\"3\",\"error\":\"no such file\"},"
        "\"tasks\":[{\"workerAddress\":\"w:1\",\"stalledMs\":\"61000\",\"unreachableBy\":[\"c\"]}]"
        "}]}]}",
        5,
        "wrong  bad: 'jobs/bad' is no JSON. millrace state check says what is wrong in etcd; or "
        "millrace job delete\n"
        "note   train+t: it draws random numbers. it does not share: see sharing.md\n"
        "wrong  train+t: no such file. mend the pipeline, and use another job name\n"
        "wrong  train+t: repetition 2 has lost 3 splits. guarantee=\"at_least_once\" reads them "
        "again; stop workers with SIGTERM or drain them\n"
        "wrong  train+t: its task at w:1 has made nothing for 1m1s. run its pipeline locally with "
        "take(1): a file system or a filter may give nothing\n"
        "wrong  train+t: 1 of its clients cannot reach w:1. give that worker an "
        "--advertise-address "
        "that clients reach\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(the_service),
        cmocka_unit_test(workers),
        cmocka_unit_test(jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
