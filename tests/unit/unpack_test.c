/* What messages from outside may take when they are unpacked. */
#include "base/base.h"
#include "base/limits.h"
#include "element/unpack.h"
#include "millrace/service.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Pairs of bytes, over and over, in a request of the largest size. */
static ProtobufCMessage *unpack_many(unsigned char first, unsigned char second, size_t *left)
{
    unsigned char *bytes = malloc(MR_RPC_REQUEST_BYTES_MAX);
    ProtobufCMessage *msg;

    for (size_t i = 0; i < MR_RPC_REQUEST_BYTES_MAX; i += 2) {
        bytes[i] = first;
        bytes[i + 1] = second;
    }
    *left = mr_unpack_budget(MR_RPC_REQUEST_BYTES_MAX);
    msg = mr_unpack(&millrace__worker_heartbeat_request__descriptor, bytes,
                    MR_RPC_REQUEST_BYTES_MAX, left);
    free(bytes);
    return msg;
}

/* 64 KiB of these were 6 MiB, and 60 MiB were 4 GB. */
static void empty_messages_are_refused(void **state)
{
    size_t left;

    assert_null(unpack_many(0x1a /* tasks */, 0, &left));
    assert_null(unpack_many(0x7a /* nothing that is known */, 0, &left));
}

/* The most structure for its size that is honest: reports of grants. */
static void what_workers_say_fits(void **state)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    Millrace__TaskProgress task = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__GrantReport report = MILLRACE__GRANT_REPORT__INIT;
    Millrace__SplitRange range = {PROTOBUF_C_MESSAGE_INIT(&millrace__split_range__descriptor), 1,
                                  1};
    Millrace__TaskProgress *tasks[] = {&task};
    Millrace__GrantReport *reports[] = {&report};
    Millrace__SplitRange *ranges[10000];
    size_t budget;

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        ranges[i] = &range;
    }
    report.finished = ranges;
    report.n_finished = sizeof ranges / sizeof ranges[0];
    task.reports = reports;
    task.n_reports = 1;
    request.tasks = tasks;
    request.n_tasks = 1;

    size_t size = millrace__worker_heartbeat_request__get_packed_size(&request);
    unsigned char *bytes = malloc(size);

    assert_true(size <= MR_RPC_REQUEST_BYTES_MAX);
    (void)millrace__worker_heartbeat_request__pack(&request, bytes);
    budget = mr_unpack_budget(size);
    ProtobufCMessage *msg =
        mr_unpack(&millrace__worker_heartbeat_request__descriptor, bytes, size, &budget);
    assert_non_null(msg);
    protobuf_c_message_free_unpacked(msg, NULL);
    free(bytes);
}

/* A large one is nearly all strings of bytes: its structure has a bound of its own. */
static void large_ones_may_be_data_only(void **state)
{
    assert_int_equal(mr_unpack_budget(0), 64 * MR_KIB);
    assert_int_equal(mr_unpack_budget(MR_RPC_DEFINITION_BYTES_MAX),
                     64 * MR_KIB + MR_RPC_DEFINITION_BYTES_MAX + MR_MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_messages_are_refused),
        cmocka_unit_test(what_workers_say_fits),
        cmocka_unit_test(large_ones_may_be_data_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
