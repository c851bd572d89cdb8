mr_test(access_test LABEL unit SOURCES ${MR_TEST_DIR}/access_test.c LIBRARIES mr_access)
