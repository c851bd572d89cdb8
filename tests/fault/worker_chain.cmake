mr_test(worker_chain_fault_test LABEL fault SOURCES ${MR_TEST_DIR}/worker_chain_fault_test.c LIBRARIES mr_worker mr_cache)
mr_test(chain_failpoints_test LOCAL LABEL fault SOURCES ${MR_TEST_DIR}/chain_failpoints_test.c
  LIBRARIES mr_worker mr_cache_fake)
