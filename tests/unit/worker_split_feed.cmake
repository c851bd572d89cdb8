mr_test(worker_split_feed_test LABEL unit SOURCES ${MR_TEST_DIR}/worker_split_feed_test.c LIBRARIES mr_worker)
target_link_options(worker_split_feed_test PRIVATE -Wl,--wrap=mr_now_ms)
