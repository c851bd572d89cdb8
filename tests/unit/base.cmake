mr_test(base_test LABEL unit SOURCES ${MR_TEST_DIR}/base_test.c LIBRARIES mr_base)
mr_test(stream_test LABEL unit SOURCES ${MR_TEST_DIR}/stream_test.c LIBRARIES mr_base)
mr_test(shares_test LABEL unit SOURCES ${MR_TEST_DIR}/shares_test.c LIBRARIES mr_base)
mr_test(events_test LABEL unit SOURCES ${MR_TEST_DIR}/events_test.c LIBRARIES mr_base)
