mr_test(state_test LABEL unit SOURCES ${MR_TEST_DIR}/state_test.c LIBRARIES mr_state mr_dispatcher_core)
