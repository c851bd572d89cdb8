# One suite, both transports.
set(rpc_support ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/rpc.c ${MR_TEST_DIR}/../support/unary.c)
mr_test(conformance_rpc_grpc LABEL conformance SOURCES ${MR_TEST_DIR}/rpc_test.c ${rpc_support} LIBRARIES mr_rpc SOCKETS)
mr_test(conformance_rpc_local LABEL conformance SOURCES ${MR_TEST_DIR}/rpc_test.c ${rpc_support} LIBRARIES mr_rpc LOCAL)
set(sweep_support ${MR_TEST_DIR}/../support/sweep.c ${MR_TEST_DIR}/../support/unary.c)
mr_test(rpc_sweep_grpc_test LABEL conformance SOURCES ${MR_TEST_DIR}/rpc_sweep_test.c ${sweep_support} LIBRARIES mr_rpc SOCKETS)
mr_test(rpc_sweep_local_test LABEL conformance SOURCES ${MR_TEST_DIR}/rpc_sweep_test.c ${sweep_support} LIBRARIES mr_rpc LOCAL)
mr_test(conformance_rpc_guard_grpc LABEL conformance SOURCES ${MR_TEST_DIR}/rpc_guard_test.c ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/unary.c LIBRARIES mr_rpc SOCKETS)
mr_test(conformance_rpc_guard_local LABEL conformance SOURCES ${MR_TEST_DIR}/rpc_guard_test.c ${MR_TEST_DIR}/../support/port.c ${MR_TEST_DIR}/../support/unary.c LIBRARIES mr_rpc LOCAL)
