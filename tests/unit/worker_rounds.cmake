mr_test(worker_rounds_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_rounds_test.c LIBRARIES mr_worker)
