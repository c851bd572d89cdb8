mr_test(worker_split_feed_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_split_feed_test.c LIBRARIES mr_worker)
