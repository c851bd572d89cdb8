mr_test(options_test LABEL unit SOURCES ${MR_TEST_DIR}/options_test.c LIBRARIES mr_main)
mr_test(table_test LABEL unit SOURCES ${MR_TEST_DIR}/table_test.c LIBRARIES mr_main)
mr_test(run_test LABEL unit SOURCES ${MR_TEST_DIR}/run_test.c ${MR_TEST_DIR}/../support/heap.c LIBRARIES mr_main)
