mr_test(rpc_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_test.c ${MR_TEST_DIR}/../support/port.c LIBRARIES mr_rpc)
