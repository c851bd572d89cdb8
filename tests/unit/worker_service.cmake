mr_test(worker_service_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_service_test.c ${MR_TEST_DIR}/worker_fake.c
        LIBRARIES mr_worker)
