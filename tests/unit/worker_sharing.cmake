mr_test(worker_sharing_test LABEL integration SOURCES ${MR_TEST_DIR}/worker_sharing_test.c ${MR_TEST_DIR}/worker_fake.c
        LIBRARIES mr_worker mr_cache)
