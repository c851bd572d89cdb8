mr_test(worker_drain_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_drain_test.c ${MR_TEST_DIR}/worker_fake.c
        LIBRARIES mr_worker)
