mr_test(rpc_accept_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_accept_test.c LIBRARIES mr_rpc_grpc mr_grpc SOCKETS)
mr_test(rpc_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_test.c ${MR_TEST_DIR}/../support/heap.c ${MR_TEST_DIR}/../support/rpc.c
  ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/unary.c LIBRARIES mr_rpc mr_grpc SOCKETS)
mr_test(rpc_first_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_first_test.c LIBRARIES mr_rpc_grpc SOCKETS)
mr_test(rpc_flood_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_flood_test.c ${MR_TEST_DIR}/../support/h2.c
  ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/unary.c LIBRARIES mr_rpc mr_grpc SOCKETS)
mr_test(rpc_held_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_held_test.c LIBRARIES mr_rpc_grpc mr_grpc SOCKETS)
mr_test(rpc_share_test LABEL unit SOURCES ${MR_TEST_DIR}/rpc_share_test.c ${MR_TEST_DIR}/../support/h2.c
  ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/unary.c LIBRARIES mr_rpc mr_grpc SOCKETS)
