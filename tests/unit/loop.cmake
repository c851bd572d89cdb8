mr_test(turn_test LABEL unit SOURCES ${MR_TEST_DIR}/turn_test.c LIBRARIES mr_sim_dispatcher)
mr_test(mailbox_test LABEL unit SOURCES ${MR_TEST_DIR}/mailbox_test.c LIBRARIES mr_dispatcher_server)
