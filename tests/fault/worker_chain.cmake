mr_test(worker_chain_fault_test LABEL fault SOURCES ${MR_TEST_DIR}/worker_chain_fault_test.c LIBRARIES mr_worker mr_cache)
