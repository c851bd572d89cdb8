mr_test(access_test LABEL unit SOURCES ${MR_TEST_DIR}/access_test.c LIBRARIES mr_access)
mr_test(guard_test LABEL unit SOURCES ${MR_TEST_DIR}/guard_test.c LIBRARIES mr_dispatcher_server)
