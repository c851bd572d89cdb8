# Without a server: what is answered ends in the test.
mr_test(loop_commit_test LABEL unit SOURCES ${MR_TEST_DIR}/loop_commit_test.c LIBRARIES mr_dispatcher_loop mr_coord_fake)
target_link_options(loop_commit_test PRIVATE LINKER:--wrap=mr_rpc_reply)
mr_test(mailbox_test LABEL unit SOURCES ${MR_TEST_DIR}/mailbox_test.c LIBRARIES mr_dispatcher_loop)
