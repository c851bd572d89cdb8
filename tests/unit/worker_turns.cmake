mr_test(row_groups_test LABEL unit SOURCES ${MR_TEST_DIR}/row_groups_test.c LIBRARIES mr_worker)
