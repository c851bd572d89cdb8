mr_test(row_groups_test LABEL unit SOURCES ${MR_TEST_DIR}/row_groups_test.c LIBRARIES mr_worker)
mr_test(worker_turns_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_turns_test.c ${MR_TEST_DIR}/worker_fake.c
        LIBRARIES mr_worker)
