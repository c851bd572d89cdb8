mr_test(dispatcher_test LABEL integration SOURCES ${MR_TEST_DIR}/dispatcher_test.c ${MR_TEST_DIR}/../support/etcd.c
  ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/state.c ${MR_TEST_DIR}/../support/unary.c LIBRARIES mr_state mr_coord_etcd mr_dispatcher mr_dataset mr_rpc mr_proto mr_json SOCKETS)
set_tests_properties(dispatcher_test PROPERTIES SKIP_RETURN_CODE 77)
